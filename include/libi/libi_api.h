/** The LIBI interface of 2011, for programs that were written for it: they compile as they are. New ones begin with libi.h.
 *
 *  A front end launches sessions of processes on hosts, and talks to the first member of each, its master. Members talk to one another
 *  by collective calls, which all of them make in the same order. Of both there is one in a process at most.
 *
 *  A launch is over after two minutes at most. Everything else waits as long as those it needs are well; LIBI_EIO comes when they are
 *  not any more. No call ends the process by a signal. Functions of the front end may be called by any number of threads at a time, those
 *  of a member by one. What is given is borrowed for the call; what is received is the caller's, who frees it by free().
 *
 *  When the front end's process ends, in whatever way, members that have not called LIBI_finalize() end as well. If it ends by exit()
 *  or by returning from main(), it waits a second at most for those who are about to.
 *
 *  These variables in the front end's environment are obeyed, and members have them too: XPLAT_RSH (the remote shell), XPLAT_RSH_ARGS (its
 *  options), XPLAT_REMCMD (a program that runs the remote commands), LIBI_TREE_TYPE (0: greedy, -1: flat, k: k-ary), LIBI_REMOTE_TIME and
 *  LIBI_SEQUENTIAL_TIME (in seconds: what to expect of a launch), LIBI_DEBUG (1: say what fails; 2: say more), LIBI_DEBUG_DIR (where to).
 *  If XPLAT_RSH is not set, processes of this machine are started without a remote shell, all others through ssh.
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

/** Makes this process a front end. Called before the others, which are LIBI_EINIT without it; again, it changes nothing. The
 *  version is not looked at. */
libi_rc_e LIBI_fe_init(int ver);

/** Makes a session, which is not yet launched. */
libi_rc_e LIBI_fe_createSession(libi_sess_handle_t &sessionHandle);

/** Adds variables to the environment of a session's members, before it is launched; of equal names the last one counts. Entries without
 *  a name are skipped, and so are those with a `=` in it. NULL adds nothing. */
libi_rc_e LIBI_fe_addToSessionEnvironment(libi_sess_handle_t sessionHandle, libi_env_t *envList);

/** Launches sessions, all of them at the same time. Several requests may be of one session.
 *
 *  Ranks are in the order of the requests, and inside of one in that of its list. Comes back when all members have come back from
 *  LIBI_init(). Returns LIBI_ESESS, LIBI_ESESSALREADYLAUNCHED, or LIBI_ELAUNCH: then nothing is left of any of the sessions,
 *  and they may be launched again. */
libi_rc_e LIBI_fe_launch(proc_dist_req_t distributions[], int nreq);

/** How long messages are said to be at most: LIBI_MAX_BUFFER_LENGTH. Longer ones are as good. */
libi_rc_e LIBI_fe_getMaxMsgBufLen(int *maxlen);

/** Sends a message to the master, which gets it by LIBI_recvUsrData(). Does not wait until it does; the message is copied. It may
 *  have no bytes. */
libi_rc_e LIBI_fe_sendUsrData(libi_sess_handle_t sessionHandle, void *msgbuf, int msgbuflen);

/** Waits for the next message of the master. If it has no bytes, no memory is given, and the pointer is NULL. */
libi_rc_e LIBI_fe_recvUsrData(libi_sess_handle_t sessionHandle, void **msgbuf, int *msgbuflen);

/** How many processes the session has. LIBI_ELAUNCH if it is not launched. */
libi_rc_e LIBI_fe_getHostlistSize(libi_sess_handle_t sessionHandle, unsigned int *size);

/** The host of each process, in the order of ranks, as the request has written it. The caller frees each name, and the list. */
libi_rc_e LIBI_fe_getHostlist(libi_sess_handle_t sessionHandle, char ***hostlist, unsigned int *size);

/** Ends a session. Members that have called LIBI_finalize() live on; the others have a second to do so, then they end. The handle
 *  is LIBI_ESESS from now on. Who does not call this leaves the session to the end of the process. */
libi_rc_e LIBI_fe_finalize(libi_sess_handle_t sessionHandle);

/* ---- Members ---- */

/** Takes the place in a session that this process was launched for, and comes back when all members have. Nothing is looked at, and
 *  argc and argv stay as they are. To be called once, by the thread that the process began with. LIBI_EINIT if it was called before,
 *  or if no front end has launched this process. */
libi_rc_e LIBI_init(int ver, int *argc, char ***argv);

/** Leaves the session, and waits for nobody. The process lives on by itself, also when the front end ends. What is printed from now on goes
 *  to the front end while that is there, and is thrown away then; so a process that replaces itself (exec), or goes on in a child
 *  alone, takes its standard streams elsewhere first, as daemons do. It may close all descriptors that it does not know, as these do, too:
 *  then it carries nobody any longer, and members of its host that have not left lose their session.
 *  If it ends by exit() or by returning from main(), it waits until no other member needs it any more. */
libi_rc_e LIBI_finalize();

/** LIBI_YES for the master, LIBI_NO for all others. */
libi_rc_e LIBI_amIMaster();

/** Which member this is, from 0, the master. */
libi_rc_e LIBI_getMyRank(int *rank);

/** How many members there are. */
libi_rc_e LIBI_getSize(int *size);

/** All members call it, and come back together: the master with the next message of the front end, all others without one; what they
 *  give is not looked at. If the message has no bytes, no memory is given, and the pointer is NULL. */
libi_rc_e LIBI_recvUsrData(void **msgbuf, int *msgbuflen);

/** All members call it, and come back together: the master has sent its message to the front end; what all others give is not
 *  looked at. A long message waits for LIBI_fe_recvUsrData(). */
libi_rc_e LIBI_sendUsrData(void *msgbuf, int *msgbuflen);

/** Has all members get what the master has. The length is the same at all of them. */
libi_rc_e LIBI_broadcast(void *buf, int numbyte);

/** Has the master get what all members have, in the order of ranks. The length is that of one part, the same at all of them; where to
 *  put the parts is looked at in the master only. */
libi_rc_e LIBI_gather(void *sendbuf, int numbyte_per_elem, void *recvbuf);

/** Has each member get its part of what the master has, in the order of ranks. The length is that of one part; what to send is
 *  looked at in the master only. */
libi_rc_e LIBI_scatter(void *sendbuf, int numbyte_per_element, void *recvbuf);

/** Comes back when all members have called it. */
libi_rc_e LIBI_barrier();

/* ---- Added since 2011 ---- */

/** What has failed last in this thread, in words: which function, which host, how far it came, why. Empty if nothing has. It holds until
 *  the next failure in this thread. */
const char *LIBI_last_error();

} // extern "C"

using namespace LIBI;

#endif
