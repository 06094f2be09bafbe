/* Checks of the tests in C: the program prints where a check has failed, and exits with status 1. */
#ifndef CHECK_H
#define CHECK_H

#include <libi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long anything may take. */
#define SOON 20000

#define CHECK(what)                                                                  \
  do {                                                                               \
    if (!(what)) {                                                                   \
      fprintf(stderr, "%s:%d: false: %s\n", __FILE__, __LINE__, #what);             \
      exit(1);                                                                       \
    }                                                                                \
  } while (0)

static inline void check_code(const char *file, int line, const char *call, libi_result found,
    libi_result wanted)
{
  if (found != wanted) {
    fprintf(stderr, "%s:%d: %s returns %d (%s), not %d: %s\n", file, line, call, (int)found,
        libi_result_text(found),
            (int)wanted, libi_last_error());
    exit(1);
  }
}

/* The call returns this code. */
#define GIVES(wanted, call) check_code(__FILE__, __LINE__, #call, (call), (wanted))
/* The call succeeds. */
#define DONE(call) check_code(__FILE__, __LINE__, #call, (call), LIBI_OK)

static inline void check_text(const char *file, int line, const char *found, const char *part)
{
  if (!found || !strstr(found, part)) {
    fprintf(stderr, "%s:%d: \"%s\" is not in: %s\n", file, line, part, found ? found : "(NULL)");
    exit(1);
  }
}

/* The text has this in it. */
#define SAYS(part, text) check_text(__FILE__, __LINE__, (text), (part))
/* The text is this. */
#define SAME(wanted, text) CHECK((text) != NULL && strcmp((text), (wanted)) == 0)

#endif
