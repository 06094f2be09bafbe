/* A member that tests/c_apart.rs launches: it works with the others, and ends as its first argument
   says, without a word to the library, as MPI programs do. */
#include <libi.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FINE(call)                                                       \
  do {                                                                   \
    libi_result code = (call);                                           \
    if (code != LIBI_OK) {                                               \
      fprintf(stderr, "%s: %d: %s\n", #call, code, libi_last_error());   \
      exit(70);                                                          \
    }                                                                    \
  } while (0)

static pid_t before_main;

__attribute__((constructor)) static void note(void)
{
  before_main = getpid();
}

int main(int argc, char **argv)
{
  pid_t first_line = getpid();
  libi_member *me = NULL;
  FINE(libi_member_init(LIBI_PROGRESS_THREAD, &me));
  if (getpid() != first_line || before_main == 0)
    return 71;
  uint32_t rank = libi_member_rank(me);
  FINE(libi_member_barrier(me, 60 * 1000 * 1000));
  if (argc > 2 && rank == (uint32_t)atoi(argv[2])) {
    if (strcmp(argv[1], "crash") == 0)
      raise(SIGKILL);
    else if (strcmp(argv[1], "abort") == 0)
      abort();
    else if (strcmp(argv[1], "_exit") == 0)
      _exit(5);
    else if (strcmp(argv[1], "exec") == 0)
      execl("/bin/false", "false", (char *)NULL);
    return 72;
  }
  printf("rank %u was here\n", rank);
  fflush(stdout);
  libi_member_free(me);
  return 0;
}
