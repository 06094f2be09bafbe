/* What the programs of these tests have in common. C++98, as the programs that they stand for. */
#ifndef CHECK_H
#define CHECK_H

#include <libi/libi_api.h>

#include <string>
#include <vector>
#include <unistd.h>

/* Says what is not as it should be, and ends the process. */
#define CHECK(what)                                                                                         \
  do {                                                                                                      \
    if (!(what)) {                                                                                          \
      fprintf(stderr, "%s:%d: false: %s (%s)\n", __FILE__, __LINE__, #what, LIBI_last_error());            \
      fflush(stderr);                                                                                       \
      abort();                                                                                              \
    }                                                                                                       \
  } while (0)

#define IS(what, code)                                                                                      \
  do {                                                                                                      \
    int is = (what);                                                                                        \
    if (is != (code)) {                                                                                     \
      fprintf(stderr, "%s:%d: %s is %d: %s\n", __FILE__, __LINE__, #what, is, LIBI_last_error());           \
      fflush(stderr);                                                                                       \
      abort();                                                                                              \
    }                                                                                                       \
  } while (0)

/* Bytes that are different at each place. */
inline std::string pattern(size_t length) {
  std::string bytes(length, '\0');
  for (size_t at = 0; at < length; at++)
    bytes[at] = static_cast<char>((at * 2654435761u) >> 13);
  return bytes;
}

const size_t LONG = 5u << 20;

int member(int argc, char **argv);
int node(const char *directory);

/* Waits until a condition is true, for less time than the timeout of the test. */
template <typename Ask> bool eventually(Ask ask) {
  for (int turn = 0; turn < 6000; turn++) {
    if (ask())
      return true;
    usleep(5000);
  }
  return false;
}

#endif
