/* A member in C, which tests/c_members.rs launches: it does what its first argument says, checks
   everything that comes of it, and ends with status 0 if all is as it should be. What a mode needs
   of the other members they work out by themselves. With `manual` before it, a mode does without a
   thread of the library's. */
#include "check.h"

#include <fcntl.h>

libi_member *me;
uint32_t my_rank, the_size;

void wrong(const char *file, int line, const char *what)
{
  fprintf(stderr, "rank %u: %s:%d: %s\n  the last error: %s\n", my_rank, file, line, what, libi_last_error());
  exit(3);
}

void check_code(const char *file, int line, const char *call, libi_result code, libi_result expected)
{
  if (code != expected) {
    const char *found = libi_result_text(code);
    fprintf(stderr, "rank %u: %d (%s), and not %d\n", my_rank, code, found ? found : "no code", expected);
    wrong(file, line, call);
  }
}

unsigned char *pattern(size_t length, uint32_t seed)
{
  unsigned char *bytes = (unsigned char *)malloc(length + 1);
  if (bytes == NULL)
    abort();
  for (size_t i = 0; i < length; i++)
    bytes[i] = (unsigned char)(seed * 31 + i * 7 + (i >> 8));
  return bytes;
}

int is_pattern(const libi_data *data, size_t index, size_t length, uint32_t seed)
{
  if (libi_data_length(data, index) != length || libi_data_bytes(data, index) == NULL)
    return 0;
  unsigned char *expected = pattern(length, seed);
  int same = length == 0 || memcmp(libi_data_bytes(data, index), expected, length) == 0;
  free(expected);
  return same;
}

int descriptors(void)
{
  int count = 0;
  for (int fd = 0; fd < 1024; fd++)
    count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

static libi_progress progress_of_mine;
static int had;

void take_place(libi_progress progress)
{
  progress_of_mine = progress;
  had = descriptors();
  FINE(libi_member_init(progress, &me));
  my_rank = libi_member_rank(me);
  the_size = libi_member_size(me);
  CHECK(my_rank < the_size);
  CHECK(libi_member_is_master(me) == (my_rank == 0));
  /* The hosts are called host1, host2 and so on. */
  char name[32];
  libi_member_info info;
  FINE(libi_member_query(me, &info, sizeof info));
  CHECK(info.rank == my_rank && info.size == the_size && info.is_master == (my_rank == 0));
  snprintf(name, sizeof name, "host%u", info.host + 1);
  CHECK(strcmp(info.host_name, name) == 0);
}

void leave(void)
{
  FINE(libi_member_drain(me, TIMEOUT));
  FINE(libi_member_drain(me, TIMEOUT));
  libi_member_free(me);
  me = NULL;
  /* The link that it was started with is closed as well. A thread keeps the place until the process
     ends, and what it needs for that. */
  if (progress_of_mine == LIBI_PROGRESS_MANUAL)
    CHECK(descriptors() == had - 1);
}

int main(int argc, char **argv)
{
  libi_progress progress = LIBI_PROGRESS_THREAD;
  if (argc > 1 && strcmp(argv[1], "manual") == 0) {
    progress = LIBI_PROGRESS_MANUAL;
    argc--, argv++;
  }
  const char *mode = argc > 1 ? argv[1] : "";
  uint32_t number = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
#define MODE(name, ...)          \
  if (strcmp(mode, name) == 0) { \
    __VA_ARGS__;                 \
    return 0;                    \
  }
  MODE("by-hand", before_a_place())
  MODE("forked-before", forked_before())
  MODE("beside", beside())
  MODE("closed", closed())
  MODE("twice", twice())
  MODE("sigpipe", sigpipe((int)number))
  take_place(progress);
  MODE("operations", operations((int)progress), leave())
  MODE("loops", loops(), leave())
  MODE("misuse", misuse(), leave())
  MODE("mismatch", mismatch(number), leave())
  MODE("impatient", impatient(number), leave())
  MODE("lost", lost(number), leave())
  MODE("left", left(number), leave())
  MODE("losses", losses(number), leave())
  MODE("restarted", restarted(number), leave())
  MODE("lost-leader", lost_leader(number), leave())
  MODE("absent", absent(number), leave())
  MODE("threads", threads(), leave())
  MODE("folds-that-call", folds_that_call(), leave())
  MODE("fold-that-exits", fold_that_ends(number, 1), leave())
  MODE("fold-that-throws", fold_that_ends(number, 0), leave())
  MODE("forked-after", forked_after())
  MODE("never-finalizes", never_finalizes())
  MODE("finalizes", finalizes())
  MODE("closes-all", closes_all())
  MODE("front", front(), leave())
  fprintf(stderr, "there is no mode %s\n", mode);
  return 2;
}
