/** The LIBI interface of 2011, for programs that were written for it: they compile unchanged. New
 *  programs use libi.h.
 *
 *  A front end launches sessions of processes on hosts, and exchanges messages with the first
 *  member of each session, its master. Members communicate by collective calls, which all of them
 *  make in the same order. A process has at most one front end and is at most one member.
 *
 *  A launch takes at most two minutes. All other calls wait as long as the processes that they
 *  need are alive; then they return LIBI_EIO. No call raises a signal. Functions of the front end
 *  may be called by any number of threads at a time, those of a member by one. Arguments are
 *  borrowed for the call; received memory belongs to the caller, which frees it with free().
 *
 *  When the process of the front end ends, in any way, members that have not called
 *  LIBI_finalize() end as well. If it ends by exit() or by returning from main(), it waits at
 *  most one second for members that are about to finalize.
 *
 *  These variables in the environment of the front end are obeyed, and members get them too:
 *    XPLAT_RSH             the remote shell; if it is not set, processes on this machine are
 *                          started directly, and all others by ssh
 *    XPLAT_RSH_ARGS        its options
 *    XPLAT_REMCMD          a program that is called with each remote command, and runs it
 *    LIBI_TREE_TYPE        the launch tree: 0 greedy, -1 flat, k > 0 k-ary
 *    LIBI_REMOTE_TIME, LIBI_SEQUENTIAL_TIME   the expected times of a launch, in seconds
 *    LIBI_DEBUG            1 prints failures, 2 prints more
 *    LIBI_DEBUG_DIR        the directory for these messages; standard error by default
 */
#ifndef LIBI_API_H
#define LIBI_API_H

#ifndef __cplusplus
#error "libi/libi_api.h is for C++, as it was in 2011; in C, include libi.h"
#endif

#include "libi_api_std.h"
#include "libi_common.h"

extern "C" {

/* ---- The front end ---- */

/** Makes this process a front end. Without it, the other functions return LIBI_EINIT; a second
 *  call changes nothing. The version is ignored. */
libi_rc_e LIBI_fe_init(int ver);

/** Makes a session, which is not launched yet. */
libi_rc_e LIBI_fe_createSession(libi_sess_handle_t &sessionHandle);

/** Adds environment variables for the members of a session, before its launch. The last value of
 *  a name counts. Entries without a name, or with a `=` in it, are skipped. NULL adds nothing. */
libi_rc_e LIBI_fe_addToSessionEnvironment(libi_sess_handle_t sessionHandle, libi_env_t *envList);

/** Launches sessions, all at the same time. Several requests may belong to one session.
 *
 *  Ranks are in the order of the requests, and within one in that of its list. Returns when all
 *  members have returned from LIBI_init(): LIBI_OK, LIBI_ESESS, LIBI_ESESSALREADYLAUNCHED, or
 *  LIBI_ELAUNCH. After LIBI_ELAUNCH all these sessions are ended, and may be launched again. */
libi_rc_e LIBI_fe_launch(proc_dist_req_t distributions[], int nreq);

/** The nominal limit of messages, LIBI_MAX_BUFFER_LENGTH. Longer messages work too. */
libi_rc_e LIBI_fe_getMaxMsgBufLen(int *maxlen);

/** Sends a message to the master, which receives it with LIBI_recvUsrData(). Does not wait for
 *  that; the message is copied, and may be empty. */
libi_rc_e LIBI_fe_sendUsrData(libi_sess_handle_t sessionHandle, void *msgbuf, int msgbuflen);

/** Waits for the next message of the master. For an empty one the pointer is NULL. */
libi_rc_e LIBI_fe_recvUsrData(libi_sess_handle_t sessionHandle, void **msgbuf, int *msgbuflen);

/** The number of processes of a session. LIBI_ELAUNCH if it is not launched. */
libi_rc_e LIBI_fe_getHostlistSize(libi_sess_handle_t sessionHandle, unsigned int *size);

/** The host name of each process in the order of ranks, as the request wrote it. The caller frees
 *  each name, and the list. */
libi_rc_e LIBI_fe_getHostlist(libi_sess_handle_t sessionHandle, char ***hostlist, unsigned int *size);

/** Ends a session. Members that have called LIBI_finalize() live on; the others have one second
 *  to do so, then they end. The handle is LIBI_ESESS afterwards. A session that is not finalized
 *  ends with the process. */
libi_rc_e LIBI_fe_finalize(libi_sess_handle_t sessionHandle);

/* ---- Members ---- */

/** Joins the session that this process was launched for. Returns when all members have joined.
 *  The arguments are ignored and unchanged. Call it once, from the main thread. LIBI_EINIT if it
 *  was called before, or if no front end has launched this process. */
libi_rc_e LIBI_init(int ver, int *argc, char ***argv);

/** Leaves the session without waiting for others. The process lives on independently, also after
 *  the end of the front end. Output goes to the front end while that is there, and is discarded
 *  afterwards. A process that replaces itself (exec), or goes on in a child alone, redirects its
 *  standard streams before, as daemons do. It may also close all descriptors that it does not
 *  know; then it forwards for no member any more, and members of its host that have not left lose
 *  their session. If the process ends by exit() or by returning from main(), it waits until no
 *  other member needs it. */
libi_rc_e LIBI_finalize();

/** LIBI_YES at the master, LIBI_NO at all other members. */
libi_rc_e LIBI_amIMaster();

/** The rank of this member; the master has 0. */
libi_rc_e LIBI_getMyRank(int *rank);

/** The number of members. */
libi_rc_e LIBI_getSize(int *size);

/** Collective. The master receives the next message of the front end; all members return
 *  together. The arguments of other members are ignored. For an empty message the pointer is
 *  NULL. */
libi_rc_e LIBI_recvUsrData(void **msgbuf, int *msgbuflen);

/** Collective. The master sends its message to the front end; all members return together. The
 *  arguments of other members are ignored. A long message waits for LIBI_fe_recvUsrData(). */
libi_rc_e LIBI_sendUsrData(void *msgbuf, int *msgbuflen);

/** Copies the master's buffer to all members. The length is the same at all of them. */
libi_rc_e LIBI_broadcast(void *buf, int numbyte);

/** Collects one part of each member at the master, in the order of ranks. The length is that of
 *  one part, and the same at all members; recvbuf is ignored at other members. */
libi_rc_e LIBI_gather(void *sendbuf, int numbyte_per_elem, void *recvbuf);

/** Sends each member its part of the master's buffer, in the order of ranks. The length is that
 *  of one part; sendbuf is ignored at other members. */
libi_rc_e LIBI_scatter(void *sendbuf, int numbyte_per_element, void *recvbuf);

/** Returns when all members have called it. */
libi_rc_e LIBI_barrier();

/* ---- Added since 2011 ---- */

/** The text of this thread's last failure: the function, the host, the phase, the cause. Empty if
 *  no call has failed; valid until the next failure in this thread. */
const char *LIBI_last_error();

} // extern "C"

using namespace LIBI;

#endif
