/* A program that keeps a process table as launchers do. It does what its first word says, each time after a
 * byte on its standard input, and says `ready` on its standard output before. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

struct entry {
  char *host;
  char *executable;
  int pid;
};

#ifdef IN_LIBRARY
extern struct entry *MPIR_proctable;
extern int MPIR_proctable_size;
#elif !defined NO_TABLE
struct entry *volatile MPIR_proctable;
volatile int MPIR_proctable_size;
#else
static struct entry *MPIR_proctable;
static int MPIR_proctable_size;
#endif

static void wait_for_byte(void) {
  char byte;
  puts("ready");
  fflush(stdout);
  if (read(0, &byte, 1) != 1)
    exit(0);
}

static struct entry *table(int count, const char *executable) {
  struct entry *all = calloc(count, sizeof *all);
  for (int rank = 0; rank < count; rank++) {
    char host[32];
    snprintf(host, sizeof host, "n%d", rank / 4);
    all[rank].host = strdup(host);
    all[rank].executable = strdup(executable);
    all[rank].pid = 1000 + rank;
  }
  return all;
}

int main(int argc, char **argv) {
  const char *does = argc > 1 ? argv[1] : "";
  int count = argc > 2 ? atoi(argv[2]) : 8;
  int is_size = !strcmp(does, "size"); /* of no table */
  struct entry *all = table(is_size ? 1 : count, "/opt/solver");
  if (!strcmp(does, "guarded"))
    prctl(PR_SET_DUMPABLE, 0);
  if (!strcmp(does, "late")) {
    MPIR_proctable = all;
    MPIR_proctable_size = 0;
    wait_for_byte();
    all[count - 1].pid = 0; /* half-written */
    MPIR_proctable_size = count;
    wait_for_byte();
    all[count - 1].pid = 1000 + count - 1;
  } else {
    MPIR_proctable = all;
    MPIR_proctable_size = count;
  }
  if (!strcmp(does, "wild"))
    all[1].host = (char *)16;
  if (!strcmp(does, "no-host"))
    all[2].host = NULL;
  if (!strcmp(does, "no-name"))
    all[3].host = "";
  if (!strcmp(does, "no-text"))
    all[4].host = "\xff\xfe";
  if (!strcmp(does, "no-end"))
    all[5].executable = memset(malloc(1 << 16), 'x', 1 << 16);
  if (!strcmp(does, "no-pid"))
    all[6].pid = -7;
  if (!strcmp(does, "no-table"))
    MPIR_proctable = (struct entry *)16;
  for (;;)
    wait_for_byte();
}
