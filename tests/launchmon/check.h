/* What the front end and the daemon of these tests have in common. They know nothing of libi but
 * the headers of LaunchMON's API. */
#ifndef CHECK_H
#define CHECK_H

#include <lmon_api/lmon_api_std.h>
#include <lmon_api/lmon_proctab.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The line of the last failure. */
static char heard[8192];

static int hear(const char *format, va_list arguments) {
  vsnprintf(heard, sizeof heard, format, arguments);
  return 0;
}

/* Says what is not as it should be, and ends the process. */
#define CHECK(what)                                                                                         \
  do {                                                                                                      \
    if (!(what)) {                                                                                          \
      fprintf(stderr, "%s:%d: false: %s (%s)\n", __FILE__, __LINE__, #what, heard);                         \
      fflush(stderr);                                                                                       \
      abort();                                                                                              \
    }                                                                                                       \
  } while (0)

#define IS(what, code)                                                                                      \
  do {                                                                                                      \
    int is_ = (what);                                                                                       \
    if (is_ != (code)) {                                                                                    \
      fprintf(stderr, "%s:%d: %s is %d: %s\n", __FILE__, __LINE__, #what, is_, heard);                      \
      fflush(stderr);                                                                                       \
      abort();                                                                                              \
    }                                                                                                       \
  } while (0)

/* What both send each other. */
struct note {
  int number;
  char word[32];
};

static int pack(void *data, void *buffer, int max, int *length) {
  if (((struct note *)data)->number < 0)
    return -1;
  CHECK(max == LMON_MAX_USRPAYLOAD);
  memcpy(buffer, data, sizeof(struct note));
  *length = (int)sizeof(struct note);
  return 0;
}

static int unpack(void *buffer, int length, void *data) {
  CHECK(length == (int)sizeof(struct note));
  memcpy(data, buffer, sizeof(struct note));
  return 0;
}

/* A file in the directory of the test. */
static const char *file(const char *directory, const char *name) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return path;
}

static void await(const char *directory, const char *name) {
  while (access(file(directory, name), F_OK) != 0)
    usleep(5000);
}

static void print_and_free(FILE *to, MPIR_PROCDESC_EXT *table, int size) {
  for (int at = 0; at < size; at++) {
    MPIR_PROCDESC *process = &table[at].pd;
    fprintf(to, "rank %d: %d %s %s on host %d\n", table[at].mpirank, process->pid, process->host_name,
            process->executable_name, table[at].cnodeid);
    free(process->host_name);
    free(process->executable_name);
  }
  fflush(to);
}

#endif
