/* A process of an MPI job that says which one it is, and hangs. It needs the library of Open MPI alone, and not
 * what is needed to compile programs for it. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int MPI_Init(int *, char ***);

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  printf("%s %d\n", getenv("OMPI_COMM_WORLD_RANK"), getpid());
  fflush(stdout);
  for (;;)
    pause();
}
