/** libi: starts processes on many hosts, and lets them talk to one another until they can talk for themselves.
 *
 *  Made from libi-ffi/src: edit it there. The rules that all functions share stand first; README.md has a program to begin with.
 */

#ifndef LIBI_H
#define LIBI_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
/** It is done. The header of 2011, libi/libi_api.h, has it too, with the same value. Since 0.1. */
#if !defined(LIBI_OK) && !defined(LIBI_API_H)
#define LIBI_OK 0
#endif

/**
 * Hosts, and how many processes on each. It may be used by one thread at a time. Since 0.1.
 */
typedef struct libi_hosts libi_hosts;

/**
 * What came of a call: LIBI_OK (0) or another of the codes below.
 *
 * Rules that all functions share:
 * - What ..._new() and its kin give is yours, until you give it to ..._free(), once. Freeing NULL does nothing.
 * - What else a function gives as a const pointer belongs to the object that it was asked of, until that is freed or
 *   changed. Strings and bytes that you give are copied; they need not outlive the call, unless a function says so.
 * - A NULL where an object or a string is needed is LIBI_ERR_NULL; functions that return something else than a code give 0,
 *   NULL or -1 then, as each says.
 * - After a code that is not LIBI_OK, the object's ..._error() has it in words: which host, how far it came, why, and the
 *   evidence. Each thread has its own text, which holds until that thread's next failure with that object.
 * - Objects that describe something (libi_hosts, libi_distribution, libi_options) and a libi_pending may be used by one thread at a
 *   time; a second one gets LIBI_ERR_BUSY. All others may be used by any number of threads at a time.
 * - No object may be freed while another thread uses it.
 * - No function installs signal handlers, changes signal masks, or keeps anything outside of the objects. No descriptor that the library
 *   opens is inherited by what you start.
 * - If the library itself is at fault, a call returns LIBI_ERR_POISONED, and so do all later ones with that object, which can
 *   only be freed.
 *
 * Since 0.1.
 */
typedef int32_t libi_result;

/**
 * Milliseconds: how long to wait at most. Less than 0, as LIBI_FOREVER, sets no limit; 0 does not wait. Since 0.1.
 */
typedef int64_t libi_millis;

/**
 * No limit to the time that a call may take. Since 0.1.
 */
#define LIBI_FOREVER -1

/**
 * It is not over yet, or nothing has happened in the time there was. Not a failure.
 */
#define LIBI_NOT_YET 1

/**
 * There is none: no value under this key, no report, no such thing. Not a failure.
 */
#define LIBI_NONE 2

/**
 * The caller's fault: a NULL where something is needed.
 */
#define LIBI_ERR_NULL 10

/**
 * The caller's fault: the object was freed, or is of another type.
 */
#define LIBI_ERR_HANDLE 11

/**
 * The caller's fault: another thread uses the object, or a callback of the object itself.
 */
#define LIBI_ERR_BUSY 12

/**
 * The library's fault: this object was in use when a defect showed. It can only be freed.
 */
#define LIBI_ERR_POISONED 13

/**
 * The caller's fault: a value that means nothing here, as the text says.
 */
#define LIBI_ERR_ARGUMENT 14

/**
 * The caller's fault: the host list cannot be understood; the text has the place.
 */
#define LIBI_ERR_HOSTS 15

/**
 * The caller's fault: the distributions describe nothing that could be launched.
 */
#define LIBI_ERR_LAYOUT 16

/**
 * The caller's fault: what leads to the hosts can be read by others, and that was not allowed.
 */
#define LIBI_ERR_PLAIN 17

/**
 * The caller's fault: not at this point, as the text says: it was done before, or something has to be done first.
 */
#define LIBI_ERR_STATE 18

/**
 * The caller's fault: a buffer has not the length of what came.
 */
#define LIBI_ERR_LENGTH 19

/**
 * This process was not started by a front end.
 */
#define LIBI_ERR_STARTED_BY_HAND 30

/**
 * This process has inherited a member's environment, and not its link.
 */
#define LIBI_ERR_NO_LINK 31

/**
 * The session did not come up; the report has a verdict on every host.
 */
#define LIBI_ERR_NOT_LAUNCHED 32

/**
 * There was not as much patience as it took. A collective call is then over for all members.
 */
#define LIBI_ERR_TIMED_OUT 33

/**
 * The session, or the front end, has ended or is ending.
 */
#define LIBI_ERR_ENDED 34

/**
 * The operating system refused something.
 */
#define LIBI_ERR_SYSTEM 35

/**
 * There is no memory for it.
 */
#define LIBI_ERR_NO_MEMORY 36

/**
 * Members that are needed are lost; the text names them.
 */
#define LIBI_ERR_PEER_LOST 50

/**
 * The front end is lost.
 */
#define LIBI_ERR_FRONT_END_LOST 51

/**
 * Members have called different things; the text names two. The next collective call is a new chance.
 */
#define LIBI_ERR_MISMATCH 52

/**
 * A member has given up this collective call. The next one is a new chance.
 */
#define LIBI_ERR_CANCELLED 53

/**
 * The sender has taken its message back.
 */
#define LIBI_ERR_WITHDRAWN 54

/**
 * There is no such member.
 */
#define LIBI_ERR_NO_SUCH_PEER 55

/**
 * The member did not come up, where the launch allowed that.
 */
#define LIBI_ERR_ABSENT 56

/**
 * The caller's fault: what is given for a collective call is not what that takes.
 */
#define LIBI_ERR_PARTS 57

/**
 * The caller's fault: the key is too long.
 */
#define LIBI_ERR_LONG_KEY 58

/**
 * A peer has sent what makes no sense: another build of the library, or a defect of it.
 */
#define LIBI_ERR_GARBLED 59

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * An empty list. To be freed by libi_hosts_free(). Since 0.1.
 */
libi_hosts *libi_hosts_new(void);

/**
 * Frees a list; NULL is fine. Since 0.1.
 */
void libi_hosts_free(libi_hosts *hosts);

/**
 * What failed last with this list in this thread; empty if nothing has. Since 0.1.
 */
const char *libi_hosts_error(const libi_hosts *hosts);

/**
 * Appends the hosts of a text such as "node[001-064]:8, me@login:2222:1".
 *
 * Returns LIBI_OK, or LIBI_ERR_HOSTS with the place of the mistake in libi_hosts_error(); the list is as before then. Since 0.1.
 */
libi_result libi_hosts_parse(libi_hosts *hosts,
                             const char *text);

/**
 * Appends the hosts of a host file's contents: one or more on a line, with comments behind #.
 *
 * Returns as libi_hosts_parse(). Since 0.1.
 */
libi_result libi_hosts_parse_file(libi_hosts *hosts, const char *contents);

/**
 * Appends the hosts of the surrounding Slurm, LSF, PBS or Grid Engine job, as the environment has them.
 *
 * Returns LIBI_OK; LIBI_NONE if there is no such job; LIBI_ERR_HOSTS if what its resource manager says cannot be understood.
 * It reads the environment: no other thread may change that meanwhile. Since 0.1.
 */
libi_result libi_hosts_add_job(libi_hosts *hosts);

/**
 * Appends one host. The user may be NULL; a port of 0 is none; count is how many processes there, at least 1.
 *
 * Returns LIBI_OK, or LIBI_ERR_HOSTS if it is no name or no user. Since 0.1.
 */
libi_result libi_hosts_add(libi_hosts *hosts,
                           const char *name,
                           const char *user,
                           uint16_t port,
                           uint32_t count);

/**
 * How many entries the list has; 0 if it is NULL. A host that is named twice counts twice. Since 0.1.
 */
size_t libi_hosts_count(const libi_hosts *hosts);

/**
 * How many processes all entries stand for; 0 if it is NULL. Since 0.1.
 */
uint64_t libi_hosts_processes(const libi_hosts *hosts);

/**
 * The name of an entry, counted from 0; NULL if there is none. It is the list's. Since 0.1.
 */
const char *libi_hosts_name(const libi_hosts *hosts, size_t index);

/**
 * The user of an entry, empty if it says nothing of one; NULL if there is no such entry. It is the list's. Since 0.1.
 */
const char *libi_hosts_user(const libi_hosts *hosts,
                            size_t index);

/**
 * The port of an entry; 0 if it says nothing of one, or there is no such entry. Since 0.1.
 */
uint16_t libi_hosts_port(const libi_hosts *hosts, size_t index);

/**
 * How many processes an entry stands for; 0 if there is no such entry. Since 0.1.
 */
uint32_t libi_hosts_slots(const libi_hosts *hosts, size_t index);

/**
 * The whole list written short, as libi_hosts_parse() reads it; NULL if the list is NULL. It is the list's, until this is
 * called again. Since 0.1.
 */
const char *libi_hosts_fold(libi_hosts *hosts);

/**
 * What a code means, in a few words; NULL for a number that is none. Any thread, at any time. Since 0.1.
 */
const char *libi_result_text(libi_result result);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LIBI_H */
