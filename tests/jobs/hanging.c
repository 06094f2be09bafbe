/* A process of an MPI job that says which one it is, and hangs, one of them elsewhere than the others. It needs the
 * library of Open MPI alone, and not what is needed to compile programs for it. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int MPI_Init(int *, char ***);

static void exchange(void) {
  for (;;)
    pause();
}

static void read_input(void) {
  for (;;)
    pause();
}

static void solve(int is_other) {
  if (is_other)
    read_input();
  else
    exchange();
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  printf("%s %d\n", rank, getpid());
  fflush(stdout);
  solve(atoi(rank) == atoi(argv[1]));
}
