/** The back-end calls of LaunchMON's API, for daemons that were written for it: they compile
 *  unchanged, and run with libi. New programs use libi.h. What is different is in
 *  docs/launchmon.md.
 *
 *  There is a daemon on each host of the job. Collective calls are made by all daemons in the same
 *  order. Functions may be called by one thread at a time. If a daemon is lost, calls that need it
 *  return LMON_ESUBCOM. If the front end is lost, daemons that have not finalized end.
 */
#ifndef LMON_BE_H
#define LMON_BE_H

#include "lmon_api_std.h"
#include "lmon_proctab.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Joins the other daemons; `ver` is LMON_VERSION. Returns when all have joined. The arguments are
 *  ignored and unchanged, and may be NULL. Call it once, from the main thread. LMON_EINIT if no
 *  front end has launched this process. */
lmon_rc_e LMON_be_init(int ver, int *argc, char ***argv);

/** Collective. Receives the processes of this host, and the data that the front end has passed to
 *  the launch. They are unpacked to `udata` if that is not NULL, in the master and in daemons that
 *  have registered a function. */
lmon_rc_e LMON_be_handshake(void *udata);

/** Collective. Tells the front end that this daemon is ready. The master's `udata` is packed and
 *  sent with it, if that is not NULL. */
lmon_rc_e LMON_be_ready(void *udata);

/** LMON_YES at the master, LMON_NO at all other daemons. */
lmon_rc_e LMON_be_amIMaster(void);

/** The rank of this daemon; the master has 0. */
lmon_rc_e LMON_be_getMyRank(int *rank);

/** The number of daemons. */
lmon_rc_e LMON_be_getSize(int *size);

/** Returns when all daemons have called it. */
lmon_rc_e LMON_be_barrier(void);

/** Copies the master's buffer to all daemons. The length is the same at all of them. */
lmon_rc_e LMON_be_broadcast(void *buf, int numbyte);

/** Collects one part of each daemon at the master, in the order of ranks. The length is that of
 *  one part, and the same at all daemons; recvbuf is ignored at other daemons. */
lmon_rc_e LMON_be_gather(void *sendbuf, int numbyte_per_elem, void *recvbuf);

/** Sends each daemon its part of the master's buffer, in the order of ranks. The length is that of
 *  one part; sendbuf is ignored at other daemons. */
lmon_rc_e LMON_be_scatter(void *sendbuf, int numbyte_per_elem, void *recvbuf);

/** The number of processes on this host, from LMON_be_handshake() on. */
lmon_rc_e LMON_be_getMyProctabSize(int *size);

/** The processes on this host in the order of ranks, `max` at most; `size` is how many were
 *  written. LMON_ETRUNC if there are more. The caller frees the strings. */
lmon_rc_e LMON_be_getMyProctab(MPIR_PROCDESC_EXT *table, int *size, int max);

/** Sets the function that packs what the master sends. */
lmon_rc_e LMON_be_regPackForBeToFe(lmon_pack_fn pack);

/** Sets the function that unpacks what the front end has sent. */
lmon_rc_e LMON_be_regUnpackForFeToBe(lmon_unpack_fn unpack);

/** Sets the function that hears of failures in this daemon. */
lmon_rc_e LMON_be_regErrorCB(lmon_error_fn callback);

/** The master sends data to the front end; other daemons do nothing. After LMON_be_ready(). */
lmon_rc_e LMON_be_sendUsrData(void *udata);

/** The master waits for the next data of the front end; other daemons do nothing. After
 *  LMON_be_ready(). */
lmon_rc_e LMON_be_recvUsrData(void *udata);

/** Leaves without waiting for others. The process lives on independently, also after the end of the
 *  front end. Ranks on this host that are held are let go; if the master leaves, those of all
 *  hosts. A process that ends by exit() or by returning from main() waits until no other daemon
 *  needs it. */
lmon_rc_e LMON_be_finalize(void);

#ifdef __cplusplus
}
#endif

#endif
