/** The front-end calls of LaunchMON's API, for tools that were written for it: they compile
 *  unchanged, and run with libi. New programs use libi.h. What is different is in
 *  docs/launchmon.md.
 *
 *  A session has a job of srun, mpirun or mpiexec, which runs already or is launched, and a daemon
 *  on each host of the job. The daemon of the first host is the master.
 *
 *  Functions may be called by any number of threads at a time. Arguments are borrowed for the call.
 *  Every failure is a code and one line for the error callback; without one, on standard error.
 *  From a launch until all daemons are ready it takes two minutes at most; other calls wait as long
 *  as the processes that they need are alive. LIBI_LMON_TIMEOUT sets a timeout of every call, in
 *  seconds. Daemons beside jobs of srun are launched by srun. Others are launched as the variables
 *  XPLAT_RSH and others of libi/libi_api.h say: without them directly if all processes are on this
 *  machine, and otherwise by ssh.
 */
#ifndef LMON_FE_H
#define LMON_FE_H

#include "lmon_api_std.h"
#include "lmon_proctab.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Makes this process a front end; `ver` is LMON_VERSION. Without it, the other functions return
 *  LMON_EINIT; a second call changes nothing. LMON_EINVAL for another version. */
lmon_rc_e LMON_fe_init(int ver);

/** Makes a session, which has no job yet. */
lmon_rc_e LMON_fe_createSession(int *session);

/** Sets the function that hears of failures in this process's front end. */
lmon_rc_e LMON_fe_regErrorCB(lmon_error_fn callback);

/** Sets the function that hears of each new status of a session. */
lmon_rc_e LMON_fe_regStatusCB(int session, lmon_status_fn callback);

/** Sets the function that packs what is sent to the master daemon. */
lmon_rc_e LMON_fe_regPackForFeToBe(int session, lmon_pack_fn pack);

/** Sets the function that unpacks what the master daemon has sent. */
lmon_rc_e LMON_fe_regUnpackForBeToFe(int session, lmon_unpack_fn unpack);

/** Adds the variables of an array to the environment of the daemons, before they are launched. The
 *  member `next` is not used. The last value of a name counts. */
lmon_rc_e LMON_fe_putToBeDaemonEnv(int session, lmon_daemon_env_t *variables, int count);

/** Attaches to the job of the launcher with this process ID, and launches a daemon on each of its
 *  hosts. The job is not stopped. `host` is NULL or this machine: LMON_NOTIMPL for others.
 *
 *  `daemon_argv` has the arguments up to a NULL, with or without the path in front, or is NULL.
 *  `febe` is packed for the daemons, and the master's answer is unpacked to `befe`; both may be
 *  NULL. Returns when all daemons have called LMON_be_ready(). If it fails, the daemons end and the
 *  session is new again. */
lmon_rc_e LMON_fe_attachAndSpawnDaemons(int session, const char *host, int launcher_pid, const char *daemon,
                                        char **daemon_argv, void *febe, void *befe);

/** Launches a job, and a daemon on each of its hosts. `launcher_argv` is the command line of srun,
 *  mpirun or mpiexec with the program, with or without the path of the launcher in front. The
 *  programs of the ranks do not begin before LMON_fe_detach() or LMON_fe_shutdownDaemons(), before
 *  their daemons finalize, or before this process ends; and for ten minutes at most, or as many
 *  seconds as LIBI_LMON_HOLD says. Otherwise as LMON_fe_attachAndSpawnDaemons(); if it fails, the
 *  job ends too. */
lmon_rc_e LMON_fe_launchAndSpawnDaemons(int session, const char *host, const char *launcher,
                                        char **launcher_argv, const char *daemon, char **daemon_argv,
                                        void *febe, void *befe);

/** The number of processes of the job. LMON_EDUNAV if the session has none. */
lmon_rc_e LMON_fe_getProctableSize(int session, unsigned int *size);

/** The processes of the job in the order of ranks, `max` at most; `size` is how many were written.
 *  LMON_ETRUNC if there are more. The caller frees the strings. */
lmon_rc_e LMON_fe_getProctable(int session, MPIR_PROCDESC_EXT *table, unsigned int *size, unsigned int max);

/** Sends data to the master daemon, which receives them with LMON_be_recvUsrData(). */
lmon_rc_e LMON_fe_sendUsrDataBe(int session, void *data);

/** Waits for the next data that the master daemon sends, and unpacks them. */
lmon_rc_e LMON_fe_recvUsrDataBe(int session, void *data);

/** The status of a session: 1 it has a job, 2 its daemons are there, 8 it was detached, 16 the job
 *  has ended. */
lmon_rc_e LMON_fe_getStatus(int session, int *status);

/** What a status says. */
#define WIFREGISTERED(status) (((status) & 1) != 0)
#define WIFBESPAWNED(status) (((status) & 2) != 0)
#define WIFMWSPAWNED(status) (((status) & 4) != 0)
#define WIFDETACHED(status) (((status) & 8) != 0)
#define WIFKILLED(status) (((status) & 16) != 0)

/** The resource manager of the job. */
lmon_rc_e LMON_fe_getRMInfo(int session, lmon_rm_info_t *info);

/** The number of the job's allocation as a text with a NUL, `max` bytes at most, and its length.
 *  LMON_EDUNAV if the job is no step of Slurm. */
lmon_rc_e LMON_fe_getResourceHandle(int session, char *handle, int *size, int max);

/** Gives the job up, which goes on. Daemons go on as well, until they end by themselves; those that
 *  have not called LMON_be_finalize() end with this process at the latest. */
lmon_rc_e LMON_fe_detach(int session);

/** Ends the job and the daemons. */
lmon_rc_e LMON_fe_kill(int session);

/** Ends the daemons: those that are about to call LMON_be_finalize() have a second, then they get
 *  SIGTERM, and SIGKILL after two more. The job goes on. */
lmon_rc_e LMON_fe_shutdownDaemons(int session);

#ifdef __cplusplus
}
#endif

#endif
