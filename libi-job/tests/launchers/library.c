/* The table of a launcher whose library keeps it. */
struct entry {
  char *host;
  char *executable;
  int pid;
};

struct entry *MPIR_proctable;
int MPIR_proctable_size;
