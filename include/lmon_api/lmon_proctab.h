/** The table of the processes of a job, as programs written for LaunchMON's API have it. */
#ifndef LMON_PROCTAB_H
#define LMON_PROCTAB_H

/* Programs that read the table of a launcher themselves may have the type already. */
#ifndef MPIR_PROCDESC_DEFINED
#define MPIR_PROCDESC_DEFINED

/** A process of a job. */
typedef struct {
  char *host_name;
  char *executable_name;
  int pid; /**< Its number on its host. */
} MPIR_PROCDESC;

#endif

/** A process, its rank, and the number of its host in the job. The caller frees both strings with
 *  free(). */
typedef struct {
  MPIR_PROCDESC pd;
  int mpirank;
  int cnodeid;
} MPIR_PROCDESC_EXT;

#endif
