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
 * The version that this header belongs to, as its first number. A new one may break programs.
 */
#define LIBI_VERSION_MAJOR 0

/**
 * Its second number. Until the first is 1, a new one may break programs; from then on it only adds.
 */
#define LIBI_VERSION_MINOR 1

/**
 * Its third number, which grows when defects are mended.
 */
#define LIBI_VERSION_PATCH 0

/**
 * The version as one number, which can be compared: 1002003 is 1.2.3. LIBI_VERSION is something else: the header of 2011 has
 * it. Since 0.1.
 */
#define LIBI_VERSION_NUMBER (((LIBI_VERSION_MAJOR * 1000000) + (LIBI_VERSION_MINOR * 1000)) + LIBI_VERSION_PATCH)

/**
 * Bytes that have come: one part, or one for each rank, in their order. Nothing changes them, and any number of threads may read them at
 * a time. It needs nothing of the object that it came of, and may be freed later. Since 0.1.
 */
typedef struct libi_data libi_data;

/**
 * A set of equal processes of one session: what they are, and where they run. It may be used by one thread at a time.
 * Since 0.1.
 */
typedef struct libi_distribution libi_distribution;

/**
 * Something that has happened in a session. It does not change any more, and any number of threads may use it. Since 0.1.
 */
typedef struct libi_event libi_event;

/**
 * Why a host, or a member on it, went no further than it did, with the evidence. It belongs to the report or the event that it was
 * asked of, and any number of threads may use it. Since 0.1.
 */
typedef struct libi_failure libi_failure;

/**
 * Launches sessions. Any number may exist in a process; they share nothing. Any number of threads may use one at a time.
 *
 * With LIBI_PROGRESS_MANUAL, use it from one thread that lives as long as the process, best the main one: only then processes that
 * never join are certain to end when this process is killed. Since 0.1.
 */
typedef struct libi_front libi_front;

/**
 * Hosts, and how many processes on each. It may be used by one thread at a time. Since 0.1.
 */
typedef struct libi_hosts libi_hosts;

/**
 * Where the ranks of a session are; that does not depend on how it is launched. It does not change, and any number of threads
 * may use it. Since 0.1.
 */
typedef struct libi_layout libi_layout;

/**
 * This process, as a member of a session. Any number of threads may use it at a time.
 *
 * What holds for all functions by which members talk:
 * - Each has two forms. One comes back when the operation is over, or when there is no patience left; any number of threads may wait at a
 *   time. The other, ..._start_..., comes back at once with a libi_pending, from which the result is to be had.
 * - Collective calls are made by all members, and by all in the same order; their results come in that order. Members that are absent
 *   are not waited for. Where several threads make them, the program sees to the order.
 * - They return LIBI_ERR_MISMATCH if members call different things (the text names two of them), LIBI_ERR_PEER_LOST if a member is lost that
 *   is needed (the text names it), LIBI_ERR_TIMED_OUT if patience has ended here, LIBI_ERR_CANCELLED if it has ended at another member or that
 *   has cancelled, LIBI_ERR_ENDED if the session ends. After a mismatch, a timeout or a cancellation the next collective call is a new chance.
 * - LIBI_ERR_NULL and LIBI_ERR_ARGUMENT mean that nothing was called: other members wait for this one until it calls.
 * - LIBI_ERR_STATE: this process has no place, because libi_member_init() has failed; or it is the child of a process that has, by fork().
 * - LIBI_ERR_BUSY: a function that the library has called, as libi_fold, tries to wait or to start something.
 * - A libi_data that a function gives is to be freed by libi_data_free().
 *
 * Since 0.1.
 */
typedef struct libi_member libi_member;

/**
 * How a launch is to go: at first on this machine, of everything, within two minutes. It may be used by one thread at a
 * time. Since 0.1.
 */
typedef struct libi_options libi_options;

/**
 * An operation that was started and may not be over yet. To be freed by libi_pending_free(), before or after the member or
 * session that it was started with.
 *
 * One thread may use it at a time; any number of operations may be pending. An operation goes on whether anybody waits or not
 * if there is a thread of the library's (LIBI_PROGRESS_THREAD), else in calls that wait, poll or dispatch. Since 0.1.
 */
typedef struct libi_pending libi_pending;

/**
 * What became of a launch, host by host. It does not change any more, and any number of threads may use it. Since 0.1.
 */
typedef struct libi_report libi_report;

/**
 * A session that was launched, or is being launched. Any number of threads may use it at a time. Since 0.1.
 */
typedef struct libi_session libi_session;

/**
 * A value that a libi_fold makes into that of more members. Only the function to which it is given may use it, and until it comes
 * back. Since 0.1.
 */
typedef struct libi_value libi_value;

/**
 * What came of a call: LIBI_OK (0) or another of the codes below.
 *
 * Rules that all functions share:
 * - What ..._new() and its kin give is yours, until you give it to ..._free(), once. Freeing NULL does nothing.
 * - What else a function gives as a const pointer belongs to the object that it was asked of, until that is freed or
 *   changed. Strings and bytes that you give are copied; they need not outlive the call, unless a function says so.
 * - A NULL where an object or a string is needed is LIBI_ERR_NULL; functions that return something else than a code give 0,
 *   NULL or -1 then, as each says.
 * - After a failure, the object's ..._error() has it in words: which host, how far it came, why, and the evidence. LIBI_NOT_YET and
 *   LIBI_NONE are none. Each thread has its own text, which holds until that thread's next failure with that object; a thread that
 *   begins when another has ended may find what that one was told.
 * - Objects that describe something (libi_hosts, libi_distribution, libi_options) and a libi_pending may be used by one thread at a
 *   time; a second one gets LIBI_ERR_BUSY. All others may be used by any number of threads at a time.
 * - No object may be freed while another thread uses it.
 * - No function installs signal handlers, changes signal masks, or keeps anything outside of the objects, but that this process has
 *   taken its place as a member. No descriptor that the library opens is inherited by what you start.
 * - SIGPIPE is as you have it, since the library does not raise it. If you ignore SIGCHLD, or wait for children that are not yours, how
 *   processes that this one has started have ended is not known: LIBI_EXIT_UNKNOWN.
 * - If the library itself is at fault, a call returns LIBI_ERR_POISONED, and so do all later ones with that object, which can
 *   only be freed.
 *
 * Since 0.1.
 */
typedef int32_t libi_result;

/**
 * How processes are placed on hosts. Since 0.1.
 */
typedef int32_t libi_placement;

/**
 * Milliseconds: how long to wait at most. Less than 0, as LIBI_FOREVER, sets no limit; 0 does not wait. Since 0.1.
 */
typedef int64_t libi_millis;

/**
 * Times and numbers that everybody in a launch goes by. Since 0.1.
 */
typedef int32_t libi_rule;

/**
 * Microseconds, as what was measured is told; -1 is none. Since 0.1.
 */
typedef int64_t libi_micros;

/**
 * Whether hosts talk to each other directly. Since 0.1.
 */
typedef int32_t libi_links;

/**
 * Who makes progress: LIBI_PROGRESS_THREAD or LIBI_PROGRESS_MANUAL. Since 0.1.
 */
typedef int32_t libi_progress;

/**
 * Is told what has happened. The event is the library's, and gone when the function comes back. It must not throw, or leave in
 * another way.
 */
typedef void (*libi_on_event)(void *userdata, const libi_event *event);

/**
 * How far a session is. Since 0.1.
 */
typedef int32_t libi_stage;

/**
 * What has happened. Later versions may have more kinds: pass over what you do not know. Since 0.1.
 */
typedef int32_t libi_event_kind;

/**
 * How a process ended. Since 0.1.
 */
typedef int32_t libi_exit;

/**
 * How far the launch of a host has come. Since 0.1.
 */
typedef int32_t libi_phase;

/**
 * Why a launch failed. Since 0.1.
 */
typedef int32_t libi_cause;

/**
 * A function that combines values: it makes into, the value of some members, that of these and the ones after them, whose value other is. It
 * has to be associative, and the same at all members; values may be of any length. other is not aligned for anything.
 *
 * It is called in any thread that waits in a function of the member, or in the library's own, never in two at a time for the same
 * operation; all that the member does stands still meanwhile. It has to come back: no longjmp; an exception ends the process. exit() in it
 * ends the process as anywhere else, and others hear that it is lost. It may ask for the rank, the size and the like; functions that start
 * something or wait return LIBI_ERR_BUSY, whatever member or operation they are called for; and it must not wait for another
 * thread that does. Since 0.1.
 */
typedef void (*libi_fold)(void *userdata, libi_value *into, const void *other, size_t length);

/**
 * Told that the userdata are not needed any more; called once, in any thread, maybe after the operation is over. What a libi_fold must not call
 * this must not call. Since 0.1.
 */
typedef void (*libi_release)(void *userdata);

/**
 * How a key reaches those who ask for it: LIBI_SPREAD_DENSE or LIBI_SPREAD_SPARSE. Since 0.1.
 */
typedef int32_t libi_spread;

/**
 * What the elements of an array are: one of LIBI_ELEMENT_…. Since 0.1.
 */
typedef int32_t libi_element;

/**
 * What is done with two elements: one of LIBI_OP_…. Since 0.1.
 */
typedef int32_t libi_op;

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

/**
 * A thread of the library's own, in which all signals are blocked. Since 0.1.
 */
#define LIBI_PROGRESS_THREAD 0

/**
 * The caller's loop: it waits until ..._descriptor() is readable or ..._patience() is over, then calls ..._dispatch(). Calls that wait
 * do it as well. Call from one thread that lives as long as the process, best the main one. Since 0.1.
 */
#define LIBI_PROGRESS_MANUAL 1

/**
 * Each host is filled before the next one gets anything.
 */
#define LIBI_PLACE_BLOCK 0

/**
 * Each host gets one process in turn.
 */
#define LIBI_PLACE_CYCLIC 1

/**
 * Each host gets a number of processes in turn.
 */
#define LIBI_PLACE_PLANE 2

/**
 * How long a started process may take to say hello, in ms; at first 30,000.
 */
#define LIBI_RULE_GREET 0

/**
 * How long a host's further processes may take to say hello, together, in ms; at first 30,000.
 */
#define LIBI_RULE_JOIN 1

/**
 * How often a host is launched, the first time included, for failures of its own; at first 3. 65,535 is until the deadline.
 */
#define LIBI_RULE_ATTEMPTS 2

/**
 * How long to wait before a host is launched again, in ms; each further wait is twice as long. At first 200.
 */
#define LIBI_RULE_BACK_OFF 3

/**
 * The longest such wait, in ms; at first 5,000.
 */
#define LIBI_RULE_BACK_OFF_MOST 4

/**
 * When too many hosts have failed, how long to go on all the same so that all that is wrong is reported at once, in ms; at
 * first 2,000.
 */
#define LIBI_RULE_GATHER 5

/**
 * How long what is to end may take before force is used, in ms; at first 2,000.
 */
#define LIBI_RULE_GRACE 6

/**
 * After how long without a word a peer is lost, in ms; it is noticed after five quarters of it at most. At first 20,000.
 */
#define LIBI_RULE_SILENCE 7

/**
 * Directly where that works, and through the channels that they were started with where it does not; as at first.
 */
#define LIBI_LINKS_AUTO 0

/**
 * Directly; a host that cannot be reached fails.
 */
#define LIBI_LINKS_DIRECT 1

/**
 * Through the channels. Nobody listens, nobody dials.
 */
#define LIBI_LINKS_CHANNEL 2

/**
 * It is being launched.
 */
#define LIBI_STAGE_LAUNCHING 0

/**
 * It is up.
 */
#define LIBI_STAGE_UP 1

/**
 * Every member has ended, was released, or is lost.
 */
#define LIBI_STAGE_DONE 2

/**
 * It did not come up, and is being ended.
 */
#define LIBI_STAGE_GIVEN_UP 3

/**
 * Nothing is left of it.
 */
#define LIBI_STAGE_OVER 4

/**
 * The session is up; its report is there.
 */
#define LIBI_EVENT_UP 1

/**
 * The session did not come up; its report says why. What was left of it is being ended.
 */
#define LIBI_EVENT_GIVEN_UP 2

/**
 * A member has printed something: whole lines, unless they are long or slow to end.
 */
#define LIBI_EVENT_OUTPUT 3

/**
 * A member has ended.
 */
#define LIBI_EVENT_EXITED 4

/**
 * A member was released: it has finalised, and lives on by itself.
 */
#define LIBI_EVENT_RELEASED 5

/**
 * A host was lost after the session was up, with every member on it that had not been released.
 */
#define LIBI_EVENT_LOST 6

/**
 * Every member has ended, was released, or is lost. It comes behind all output.
 */
#define LIBI_EVENT_DONE 7

/**
 * Nobody has started it.
 */
#define LIBI_PHASE_WAITING 0

/**
 * It was started; nothing in our protocol has come from it.
 */
#define LIBI_PHASE_STARTING 1

/**
 * It speaks our protocol, but has not said hello.
 */
#define LIBI_PHASE_GREETING 2

/**
 * Its leader is up, and its further members are joining.
 */
#define LIBI_PHASE_JOINING 3

/**
 * All its members are up.
 */
#define LIBI_PHASE_JOINED 4

/**
 * It could not even be started.
 */
#define LIBI_CAUSE_NOT_STARTED 1

/**
 * Whoever was to start it has no room for that.
 */
#define LIBI_CAUSE_NO_ROOM 2

/**
 * What was started has ended; libi_failure_exit() says how.
 */
#define LIBI_CAUSE_EXITED 3

/**
 * The link to it was closed from the other side.
 */
#define LIBI_CAUSE_CLOSED 4

/**
 * It did not get further in time.
 */
#define LIBI_CAUSE_TIMED_OUT 5

/**
 * What it said is not our protocol.
 */
#define LIBI_CAUSE_GARBLED 6

/**
 * It speaks no version of the protocol that we do.
 */
#define LIBI_CAUSE_VERSION 7

/**
 * It answered a ticket that was not given to it.
 */
#define LIBI_CAUSE_WRONG_TICKET 8

/**
 * Nothing was heard of it for too long after it was up; or it was not heard of for half that time, and then its link or
 * its remote shell ended.
 */
#define LIBI_CAUSE_SILENT 9

/**
 * It could not reach its parent directly, and was not to use the channel.
 */
#define LIBI_CAUSE_UNREACHABLE 10

/**
 * The one that was to launch it is gone.
 */
#define LIBI_CAUSE_LAUNCHER_LOST 11

/**
 * The launch was ended, for other reasons, before this was decided.
 */
#define LIBI_CAUSE_ABANDONED 12

/**
 * It has not ended, as far as is known.
 */
#define LIBI_EXIT_NONE 0

/**
 * By itself, with the status that is the value.
 */
#define LIBI_EXIT_CODE 1

/**
 * By the signal that is the value.
 */
#define LIBI_EXIT_SIGNAL 2

/**
 * The remote shell has ended, with the status that is the value, and the host has not said how the program did.
 */
#define LIBI_EXIT_SHELL 3

/**
 * It has ended, but somebody else has collected how.
 */
#define LIBI_EXIT_UNKNOWN 4

/**
 * The next fence takes it to every host: for keys that most members want. Since 0.1.
 */
#define LIBI_SPREAD_DENSE 0

/**
 * It stays with the first member of the host where it was put, and is fetched when somebody asks: for keys that few want. It goes with
 * that member: who asks later gets LIBI_ERR_PEER_LOST, naming it. Since 0.1.
 */
#define LIBI_SPREAD_SPARSE 1

/**
 * uint8_t. Since 0.1.
 */
#define LIBI_ELEMENT_U8 0

/**
 * int32_t. Since 0.1.
 */
#define LIBI_ELEMENT_I32 1

/**
 * uint32_t. Since 0.1.
 */
#define LIBI_ELEMENT_U32 2

/**
 * int64_t. Since 0.1.
 */
#define LIBI_ELEMENT_I64 3

/**
 * uint64_t. Since 0.1.
 */
#define LIBI_ELEMENT_U64 4

/**
 * float. Since 0.1.
 */
#define LIBI_ELEMENT_F32 5

/**
 * double. Since 0.1.
 */
#define LIBI_ELEMENT_F64 6

/**
 * They are added; integers wrap around. Since 0.1.
 */
#define LIBI_OP_SUM 0

/**
 * The lesser stays. Of floating-point numbers, one that is no number loses. Since 0.1.
 */
#define LIBI_OP_MIN 1

/**
 * The greater stays. Of floating-point numbers, one that is no number loses. Since 0.1.
 */
#define LIBI_OP_MAX 2

/**
 * Bits that both have. Not of floating-point numbers. Since 0.1.
 */
#define LIBI_OP_AND 3

/**
 * Bits that one of them has. Not of floating-point numbers. Since 0.1.
 */
#define LIBI_OP_OR 4

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * What a code means, in a few words; NULL for a number that is none. Any thread, at any time. Since 0.1.
 */
const char *libi_result_text(libi_result result);

/**
 * The LIBI_VERSION_NUMBER of the library that this program runs with. Any thread, at any time. Since 0.1.
 */
uint32_t libi_version(void);

/**
 * The version of the library that this program runs with, as "0.1.0". Any thread, at any time; it is never freed. Since 0.1.
 */
const char *libi_version_text(void);

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
 * Makes the list one of so many processes, placed on its hosts, none of which gets more than its count says; if repeat is true,
 * hosts are filled to their counts again and again. With LIBI_PLACE_PLANE, plane is how many a host gets in turn.
 *
 * Returns LIBI_OK, or LIBI_ERR_ARGUMENT if they do not fit or the placement is none; the list is as before then. Since 0.1.
 */
libi_result libi_hosts_place(libi_hosts *hosts,
                             uint64_t processes,
                             libi_placement placement,
                             uint32_t plane,
                             bool repeat);

/**
 * What to start for a session: sessions are told apart by numbers of your choice. The program is a path, or a name to be looked
 * up in the search path of the host. It runs once on this machine, called "localhost", until libi_distribution_set_hosts() says
 * otherwise.
 *
 * NULL if the program is NULL. To be freed by libi_distribution_free(). Since 0.1.
 */
libi_distribution *libi_distribution_new(uint32_t session,
                                         const char *executable);

/**
 * Frees it; NULL is fine. Launches that were begun with it go on. Since 0.1.
 */
void libi_distribution_free(libi_distribution *distribution);

/**
 * What failed last with it in this thread; empty if nothing has. Since 0.1.
 */
const char *libi_distribution_error(const libi_distribution *distribution);

/**
 * Says where it runs: on each entry of the list as many processes as that says, which get the next ranks in that order. The
 * list is copied. Since 0.1.
 */
libi_result libi_distribution_set_hosts(libi_distribution *distribution,
                                        const libi_hosts *hosts);

/**
 * Says where it runs by the text of a host list, such as "node[01-64]:2".
 *
 * Returns LIBI_OK, or LIBI_ERR_HOSTS with the place of the mistake in libi_distribution_error(). Since 0.1.
 */
libi_result libi_distribution_set_host_list(libi_distribution *distribution, const char *text);

/**
 * Adds an argument, behind those there are; the program's name is none of them. Since 0.1.
 */
libi_result libi_distribution_add_arg(libi_distribution *distribution, const char *arg);

/**
 * Says what all its arguments are: an array that ends with NULL, or NULL for none. The program's name is none of them.
 * Since 0.1.
 */
libi_result libi_distribution_set_args(libi_distribution *distribution,
                                       const char *const *args);

/**
 * Sets a variable in addition to the environment that the host provides; of equal names the last one counts.
 *
 * Returns LIBI_OK, or LIBI_ERR_ARGUMENT if the name is empty or holds a "=". Since 0.1.
 */
libi_result libi_distribution_set_env(libi_distribution *distribution, const char *name, const char *value);

/**
 * Says in which directory it runs; NULL, as at first, for wherever the remote shell puts it. Since 0.1.
 */
libi_result libi_distribution_set_directory(libi_distribution *distribution, const char *directory);

/**
 * Which session it belongs to; 0 if it is NULL. Since 0.1.
 */
uint32_t libi_distribution_session(const libi_distribution *distribution);

/**
 * What a launch goes by if nothing is said. To be freed by libi_options_free(). Since 0.1.
 */
libi_options *libi_options_new(void);

/**
 * Frees them; NULL is fine. Launches that were begun with them go on. Since 0.1.
 */
void libi_options_free(libi_options *options);

/**
 * What failed last with them in this thread; empty if nothing has. Since 0.1.
 */
const char *libi_options_error(const libi_options *options);

/**
 * All hosts have to join; as at first. Since 0.1.
 */
libi_result libi_options_require_all(libi_options *options);

/**
 * So many hosts have to join; the session goes on without those that fail. The master's is needed always. Since 0.1.
 */
libi_result libi_options_require(libi_options *options,
                                 uint32_t hosts);

/**
 * Waits for hosts that are not up yet: whatever may pass is tried again until the deadline. Since 0.1.
 */
libi_result libi_options_until_up(libi_options *options);

/**
 * Names hosts that take the places of those that fail, in this order. The list is copied; NULL is none. With several sessions
 * each may take all of them. Since 0.1.
 */
libi_result libi_options_set_spares(libi_options *options,
                                    const libi_hosts *spares);

/**
 * Names hosts that are this machine: where the front end launches them, as it does the first of a session, it starts them without a
 * remote shell, whatever the others are reached by. The list is copied; NULL is none. Since 0.1.
 */
libi_result libi_options_set_here(libi_options *options,
                                  const libi_hosts *here);

/**
 * After how long there is a verdict, whatever happens; at first two minutes. Since 0.1.
 */
libi_result libi_options_set_deadline(libi_options *options, libi_millis deadline);

/**
 * Sets a rule. Times are 1 ms or more; attempts 1 to 65,535.
 *
 * Returns LIBI_OK, or LIBI_ERR_ARGUMENT if there is no such rule, or it cannot have this value. Since 0.1.
 */
libi_result libi_options_set_rule(libi_options *options, libi_rule rule, int64_t value);

/**
 * What a rule is; -1 if there is no such rule, or the options are NULL. Since 0.1.
 */
int64_t libi_options_rule(const libi_options *options, libi_rule rule);

/**
 * What a launch costs, if you know: SEQ, how long one keeps its launcher from the next, and REM, from a start until the new process
 * can launch others. What is measured during the launch takes its place. Since 0.1.
 */
libi_result libi_options_set_cost(libi_options *options,
                                  libi_micros seq,
                                  libi_micros rem);

/**
 * Who launches whom: "late", as at first, which decides while the launch goes on; or, for comparison, a tree that is decided in
 * advance: "chain", "flat", "kary:K", "binomial", "rdc", "greedy".
 *
 * Returns LIBI_OK, or LIBI_ERR_ARGUMENT if there is no such tree. Since 0.1.
 */
libi_result libi_options_set_tree(libi_options *options,
                                  const char *tree);

/**
 * Whether the master's standard input is what you write by libi_session_write(). Everybody else's is empty. Since 0.1.
 */
libi_result libi_options_set_input(libi_options *options,
                                   bool input);

/**
 * What members print comes as LIBI_EVENT_OUTPUT, for you to take; as at first. Who prints waits when you do not. Since 0.1.
 */
libi_result libi_options_output_to_events(libi_options *options);

/**
 * What members print is written to files in this directory, RANK.out and RANK.err, on this machine. It is made if it is
 * missing. Since 0.1.
 */
libi_result libi_options_output_to_files(libi_options *options,
                                         const char *directory);

/**
 * What members print is read and forgotten. Since 0.1.
 */
libi_result libi_options_output_dropped(libi_options *options);

/**
 * Whether hosts talk to each other directly. LIBI_ERR_ARGUMENT if there is no such choice. Since 0.1.
 */
libi_result libi_options_set_links(libi_options *options, libi_links links);

/**
 * Whether what goes over direct links is encrypted, as at first; or only who is at their ends is proved, and what they say travels
 * as it is: for networks that are trusted. Since 0.1.
 */
libi_result libi_options_set_encrypted(libi_options *options,
                                       bool encrypted);

/**
 * Whether hosts may be reached by means that others on the network can listen to and interfere with, as rsh; at first not. Since
 * 0.1.
 */
libi_result libi_options_allow_plain(libi_options *options,
                                     bool allow);

/**
 * Whether all hosts are this machine, whatever they are called: direct links are made on its loopback address alone then. Since
 * 0.1.
 */
libi_result libi_options_set_loopback(libi_options *options,
                                      bool loopback);

/**
 * All hosts are this machine, whatever they are called; as at first. Since 0.1.
 */
libi_result libi_options_via_local(libi_options *options);

/**
 * Hosts are reached by ssh as it is configured. The functions with ssh in their names say more. Since 0.1.
 */
libi_result libi_options_via_ssh(libi_options *options);

/**
 * Hosts are reached by rsh; by that of rsh-redone, which is Debian's, if redone is true. It has to be allowed by
 * libi_options_allow_plain(), since everybody on the network can read along and interfere. Since 0.1.
 */
libi_result libi_options_via_rsh(libi_options *options,
                                 bool redone);

/**
 * Hosts are reached by a program that is called as ssh is: its arguments, "-l USER" and "-p PORT" where the host list has
 * them, the host, the command. It is killed with the process that has called it: on this machine it must not turn into the
 * command by exec where that is to be released. Since 0.1.
 */
libi_result libi_options_via_shell(libi_options *options,
                                   const char *program);

/**
 * Which program is called as ssh, rsh or the other shell: a path, or a name to be looked up wherever a launch is made.
 * LIBI_ERR_STATE if nothing is called. Since 0.1.
 */
libi_result libi_options_set_program(libi_options *options,
                                     const char *program);

/**
 * Adds an argument that rsh or the other shell is called with before all else. LIBI_ERR_STATE if it is neither. Since 0.1.
 */
libi_result libi_options_add_shell_arg(libi_options *options,
                                       const char *arg);

/**
 * The option that the other shell takes before a user; NULL if there is none. LIBI_ERR_STATE without such a shell. Since 0.1.
 */
libi_result libi_options_set_user_option(libi_options *options,
                                         const char *option);

/**
 * The option that rsh or the other shell takes before a port; NULL if there is none. LIBI_ERR_STATE without one of them. Since
 * 0.1.
 */
libi_result libi_options_set_port_option(libi_options *options,
                                         const char *option);

/**
 * Whom to be, with rsh, on hosts of which the list says nothing; NULL for whoever launches. LIBI_ERR_STATE without rsh. Since
 * 0.1.
 */
libi_result libi_options_set_rsh_user(libi_options *options,
                                      const char *user);

/**
 * Whether parts of your configuration of ssh are replaced for speed. This gives up safety from quantum computers for these
 * connections, Kerberos, compression, and learning new host keys; it takes ssh 8.0. LIBI_ERR_STATE without ssh. Since 0.1.
 */
libi_result libi_options_set_ssh_fast(libi_options *options,
                                      bool fast);

/**
 * The configuration file that ssh uses in place of the user's; everybody who launches reads it, on its own host. NULL for the
 * user's. LIBI_ERR_STATE without ssh. Since 0.1.
 */
libi_result libi_options_set_ssh_config(libi_options *options,
                                        const char *path);

/**
 * Adds an option of ssh as in its configuration, such as "StrictHostKeyChecking=accept-new"; of two that set the same, the first
 * counts. LIBI_ERR_STATE without ssh. Since 0.1.
 */
libi_result libi_options_add_ssh_option(libi_options *options,
                                        const char *option);

/**
 * Adds an option of ssh for some hosts, which comes before those for all. The list is copied. LIBI_ERR_STATE without ssh. Since
 * 0.1.
 */
libi_result libi_options_add_ssh_option_for(libi_options *options,
                                            const libi_hosts *hosts,
                                            const char *option);

/**
 * How long ssh may take to connect; it is rounded up to seconds, and at first 10. LIBI_ERR_STATE without ssh. Since 0.1.
 */
libi_result libi_options_set_ssh_timeout(libi_options *options,
                                         libi_millis timeout);

/**
 * Makes a front end that makes progress in this way.
 *
 * *front is given in any case, to be freed by libi_front_free(), so that libi_front_error() can say what has failed; after a failure
 * it serves for nothing else. Returns LIBI_OK, LIBI_ERR_NULL, LIBI_ERR_ARGUMENT if there is no such progress, or LIBI_ERR_SYSTEM if
 * there are no descriptors or threads left. Since 0.1.
 */
libi_result libi_front_new(libi_progress who,
                           libi_front **front);

/**
 * Frees it; NULL is fine. All its sessions end: members that were not released are killed. The objects of its sessions have to be
 * freed by themselves; until then they have ended, and what needs a session that is up is LIBI_ERR_ENDED. From its own callback it is
 * freed as soon as that comes back. Since 0.1.
 */
void libi_front_free(libi_front *front);

/**
 * What failed last with it in this thread; empty if nothing has. Since 0.1.
 */
const char *libi_front_error(const libi_front *front);

/**
 * Launches the sessions of these distributions side by side, and waits until all of them are up: by the deadline of the options at
 * the latest. Distributions and options are copied; options may be NULL for the defaults.
 *
 * sessions has room for so many, and gets one for each number that the distributions bear, in the order in which these are first
 * named, and NULL behind them; each is to be freed by libi_session_free(). Returns LIBI_OK; LIBI_ERR_LAYOUT, LIBI_ERR_PLAIN,
 * LIBI_ERR_LENGTH if there is not as much room, before anything is started; LIBI_ERR_NOT_LAUNCHED if one did not come up: then all are
 * ended, the verdict on each host is in libi_front_error() for people and in libi_front_report(). Since 0.1.
 */
libi_result libi_front_launch(libi_front *front,
                              const libi_distribution *const *distributions,
                              size_t count,
                              const libi_options *options,
                              libi_session **sessions,
                              size_t room);

/**
 * As libi_front_launch(), but does not wait until they are up: libi_session_wait_up() does, or an event tells. Since 0.1.
 */
libi_result libi_front_start(libi_front *front,
                             const libi_distribution *const *distributions,
                             size_t count,
                             const libi_options *options,
                             libi_session **sessions,
                             size_t room);

/**
 * The report on the last launch by libi_front_launch() that did not succeed.
 *
 * Returns LIBI_OK, with a report to be freed by libi_report_free(), or LIBI_NONE if there was none. Since 0.1.
 */
libi_result libi_front_report(const libi_front *front,
                              libi_report **report);

/**
 * Where the ranks of the sessions of these distributions would be, without launching anything: as libi_front_launch(), with
 * layouts, to be freed by libi_layout_free(), in place of sessions. Since 0.1.
 */
libi_result libi_front_lay_out(const libi_front *front,
                               const libi_distribution *const *distributions,
                               size_t count,
                               libi_layout **layouts,
                               size_t room);

/**
 * The next thing that has happened in any of its sessions, if something does in this time.
 *
 * Returns LIBI_OK, with an event to be freed by libi_event_free(), or LIBI_NOT_YET; without a limit also LIBI_ERR_ENDED, if nothing can
 * come any more because the system has refused what the library needs to go on. Since 0.1.
 */
libi_result libi_front_next_event(libi_front *front,
                                  libi_millis most,
                                  libi_event **event);

/**
 * Has libi_front_dispatch() tell a function what has happened, in the thread that calls it. NULL for none, as at first. From that
 * function, all functions of the library may be called, but not libi_front_dispatch() of the same front end, which returns
 * LIBI_ERR_BUSY. Since 0.1.
 */
libi_result libi_front_on_event(libi_front *front,
                                void *userdata,
                                libi_on_event function);

/**
 * For event loops: is readable as long as libi_front_next_event() has something; an operation of one of its sessions is over, and
 * nobody has looked at that by libi_pending_poll() or its kin, or freed it; or, with LIBI_PROGRESS_MANUAL, there is something to
 * dispatch. For poll() and the like; it is not to be read or closed. -1 if the front end is NULL. Since 0.1.
 */
int libi_front_descriptor(const libi_front *front);

/**
 * For event loops: how long libi_front_dispatch() need not be called unless the descriptor becomes readable; -1 if for ever. It may
 * change with every call of the library. Since 0.1.
 */
libi_millis libi_front_patience(const libi_front *front);

/**
 * For event loops: does what there is to do, and does not wait; then the function of libi_front_on_event() is told what has happened.
 *
 * Returns LIBI_OK, or LIBI_ERR_BUSY from that function or while another thread is in here. Since 0.1.
 */
libi_result libi_front_dispatch(libi_front *front);

/**
 * Frees it; NULL is fine. The session ends: members that were not released are killed. Since 0.1.
 */
void libi_session_free(libi_session *session);

/**
 * What failed last with it in this thread; empty if nothing has. Since 0.1.
 */
const char *libi_session_error(const libi_session *session);

/**
 * The number that its distributions bear; 0 if it is NULL. Since 0.1.
 */
uint32_t libi_session_id(const libi_session *session);

/**
 * How many members it has; 0 if it is NULL. Since 0.1.
 */
uint32_t libi_session_size(const libi_session *session);

/**
 * How far it is; -1 if it is NULL. Since 0.1.
 */
libi_stage libi_session_stage(const libi_session *session);

/**
 * Where its ranks are; to be freed by libi_layout_free(). NULL if the session is NULL. Since 0.1.
 */
libi_layout *libi_session_layout(const libi_session *session);

/**
 * How many hosts have joined, have failed, and have no verdict yet, while it is being launched. Since 0.1.
 */
libi_result libi_session_tally(const libi_session *session,
                               uint32_t *joined,
                               uint32_t *failed,
                               uint32_t *waiting);

/**
 * How many hosts are connected directly to whoever has launched them, and how many could not be and go on over the channels that
 * they were started with. This may still change when the session is up. Since 0.1.
 */
libi_result libi_session_links(const libi_session *session,
                               uint32_t *direct,
                               uint32_t *fell_back);

/**
 * What became of the launch.
 *
 * Returns LIBI_OK, with a report to be freed by libi_report_free(), or LIBI_NONE if there is no verdict yet. Since 0.1.
 */
libi_result libi_session_report(const libi_session *session,
                                libi_report **report);

/**
 * The ranks of the members that were there and cannot be talked to any more, because they have ended or are lost: gives how many there
 * are, and writes as many of them as there is room for. Since 0.1.
 */
size_t libi_session_lost(const libi_session *session,
                         uint32_t *ranks,
                         size_t room);

/**
 * Waits until there is a verdict on every host. It comes by the deadline of the launch.
 *
 * Returns LIBI_OK if the session is up; LIBI_ERR_NOT_LAUNCHED if it is not: libi_session_report() says why, and so does
 * libi_session_error(); LIBI_ERR_TIMED_OUT if your patience ended first. Since 0.1.
 */
libi_result libi_session_wait_up(const libi_session *session,
                                 libi_millis most);

/**
 * Waits until every member has ended, was released, or is lost.
 *
 * Returns LIBI_OK, or LIBI_ERR_TIMED_OUT. Since 0.1.
 */
libi_result libi_session_wait_done(const libi_session *session, libi_millis most);

/**
 * Writes to the master's standard input, if the options have asked for that by libi_options_set_input().
 *
 * Returns LIBI_OK when everything is on its way, LIBI_ERR_TIMED_OUT if the program does not take it in time (part of it may have been
 * written), LIBI_ERR_STATE if the options have not asked for it, LIBI_ERR_ENDED if the session has ended. While it is launched, it waits.
 * Since 0.1.
 */
libi_result libi_session_write(libi_session *session,
                               const void *bytes,
                               size_t length,
                               libi_millis most);

/**
 * Ends the master's standard input. Since 0.1.
 */
libi_result libi_session_close_input(libi_session *session);

/**
 * Sends a signal to every member that was not released and has not ended: to its process alone.
 *
 * Returns LIBI_OK, or LIBI_ERR_ARGUMENT if there is no such signal. Since 0.1.
 */
libi_result libi_session_kill(libi_session *session, int signal);

/**
 * Ends the session: every member that was not released is told by SIGTERM, and killed when the grace has passed. Comes back when nothing
 * is left of it. Called again meanwhile, by another thread, it can shorten the grace.
 *
 * Returns LIBI_OK, or LIBI_ERR_TIMED_OUT if not even force was enough in time. Since 0.1.
 */
libi_result libi_session_terminate(libi_session *session,
                                   libi_millis grace);

/**
 * Sends the master a message, which gets it by libi_member_recv(). Before the session is up it waits for that; messages arrive in the
 * order in which they were sent. Comes back when it need not be held here any more, which says nothing of whether it was received.
 *
 * Returns LIBI_OK; LIBI_ERR_PEER_LOST if the master is gone; LIBI_ERR_ENDED if the session did not come up (libi_session_report() says
 * why), or is over; LIBI_ERR_TIMED_OUT: it is taken back then, as far as that is possible. Since 0.1.
 */
libi_result libi_session_send(libi_session *session,
                              const void *bytes,
                              size_t length,
                              libi_millis most);

/**
 * As libi_session_send(), and does not wait: the message is copied. Since 0.1.
 */
libi_result libi_session_start_send(libi_session *session,
                                    const void *bytes,
                                    size_t length,
                                    libi_pending **pending);

/**
 * Receives the next message that the master has sent by libi_member_send(), in part 0 of *data, to be freed by libi_data_free().
 *
 * Returns as libi_session_send(). Since 0.1.
 */
libi_result libi_session_recv(libi_session *session,
                              libi_data **data,
                              libi_millis most);

/**
 * As libi_session_recv(), and does not wait. Several may be asked for at a time; they come in their order. Since 0.1.
 */
libi_result libi_session_start_recv(libi_session *session,
                                    libi_pending **pending);

/**
 * Frees it; NULL is fine. Since 0.1.
 */
void libi_layout_free(libi_layout *layout);

/**
 * The number of its session; 0 if it is NULL. Since 0.1.
 */
uint32_t libi_layout_session(const libi_layout *layout);

/**
 * How many members the session has. Since 0.1.
 */
uint32_t libi_layout_size(const libi_layout *layout);

/**
 * How many hosts it has, each counted once; they are numbered from 0, in the order in which they are first named. Since 0.1.
 */
size_t libi_layout_hosts(const libi_layout *layout);

/**
 * The name of a host as it was given; NULL if there is no such host. Since 0.1.
 */
const char *libi_layout_host_name(const libi_layout *layout, size_t host);

/**
 * How many members a host has; 0 if there is no such host. Since 0.1.
 */
uint32_t libi_layout_host_members(const libi_layout *layout, size_t host);

/**
 * The lowest rank of a host, whose process runs the tree there; -1 if there is no such host. Since 0.1.
 */
int64_t libi_layout_leader(const libi_layout *layout, size_t host);

/**
 * The number of the host that a rank is on; -1 if there is no such rank. Since 0.1.
 */
int64_t libi_layout_host_of(const libi_layout *layout, uint32_t rank);

/**
 * Which of the distributions says what a rank runs, counted from 0 as they were given; -1 if there is no such rank. Since 0.1.
 */
int64_t libi_layout_distribution_of(const libi_layout *layout,
                                    uint32_t rank);

/**
 * Frees it; NULL is fine. Since 0.1.
 */
void libi_event_free(libi_event *event);

/**
 * What has happened; 0 if it is NULL, or something that this version has no name for. Since 0.1.
 */
libi_event_kind libi_event_kind_of(const libi_event *event);

/**
 * The number of the session that it has happened in; 0 if it is NULL. Since 0.1.
 */
uint32_t libi_event_session(const libi_event *event);

/**
 * The rank of the member that has printed, ended, or was released; -1 for other events. Since 0.1.
 */
int64_t libi_event_rank(const libi_event *event);

/**
 * Which stream was printed to: 1 for standard output, 2 for standard error; 0 for other events than output. Since 0.1.
 */
int32_t libi_event_stream(const libi_event *event);

/**
 * What was printed, without a NUL behind it; NULL for other events than output. It is the event's. Since 0.1.
 */
const void *libi_event_bytes(const libi_event *event);

/**
 * How many bytes were printed; 0 for other events than output. Since 0.1.
 */
size_t libi_event_length(const libi_event *event);

/**
 * How a member has ended; LIBI_EXIT_NONE for other events. Since 0.1.
 */
libi_exit libi_event_exit(const libi_event *event);

/**
 * The status or the signal that goes with libi_event_exit(). Since 0.1.
 */
int32_t libi_event_exit_value(const libi_event *event);

/**
 * The number of the host that was lost; -1 for other events. Since 0.1.
 */
int64_t libi_event_host(const libi_event *event);

/**
 * The name of the host that was lost; NULL for other events. It is the event's. Since 0.1.
 */
const char *libi_event_host_name(const libi_event *event);

/**
 * Why the host was lost; NULL for other events. It is the event's. Since 0.1.
 */
const libi_failure *libi_event_failure(const libi_event *event);

/**
 * Frees it; NULL is fine. Since 0.1.
 */
void libi_report_free(libi_report *report);

/**
 * All of it for people: what failed is grouped by its cause, with the hosts folded, the evidence quoted, and what to do next. NULL
 * if the report is NULL. Since 0.1.
 */
const char *libi_report_text(const libi_report *report);

/**
 * The number of its session; 0 if it is NULL. Since 0.1.
 */
uint32_t libi_report_session(const libi_report *report);

/**
 * Whether the session came up. Since 0.1.
 */
bool libi_report_is_up(const libi_report *report);

/**
 * How long it took until that was certain; -1 if it is NULL. Since 0.1.
 */
libi_micros libi_report_took(const libi_report *report);

/**
 * How many hosts the session has, each counted once. They are numbered from 0, as in libi_session_layout(). Since 0.1.
 */
size_t libi_report_hosts(const libi_report *report);

/**
 * How many of them have joined. Since 0.1.
 */
size_t libi_report_joined(const libi_report *report);

/**
 * A host's name; that of the spare, if one has taken its place. NULL if there is no such host. Since 0.1.
 */
const char *libi_report_host_name(const libi_report *report, size_t host);

/**
 * How many members a host has; 0 if there is no such host. Since 0.1.
 */
uint32_t libi_report_host_members(const libi_report *report, size_t host);

/**
 * How often the launch of a host was begun; 0 also if there is no such host. Since 0.1.
 */
uint32_t libi_report_host_attempts(const libi_report *report, size_t host);

/**
 * The number of the host that has launched a host; -1 if that was the front end, or nobody has come to it. Since 0.1.
 */
int64_t libi_report_host_launcher(const libi_report *report,
                                  size_t host);

/**
 * From the beginning of the launch until a host's own was started; -1 if there is no such host. Since 0.1.
 */
libi_micros libi_report_host_started(const libi_report *report, size_t host);

/**
 * From then until its leader said hello; -1 if it did not. Since 0.1.
 */
libi_micros libi_report_host_greeted(const libi_report *report, size_t host);

/**
 * From then until all its members were up; -1 if they were not. Since 0.1.
 */
libi_micros libi_report_host_joined(const libi_report *report, size_t host);

/**
 * 1 if the link to whoever has launched a host is direct, 0 if it is the channel that the host was started with in place of that,
 * -1 if it was not to be direct or that was not decided yet. Since 0.1.
 */
int32_t libi_report_host_direct(const libi_report *report,
                                size_t host);

/**
 * Why a host is not in the session; NULL if it is. It is the report's. Since 0.1.
 */
const libi_failure *libi_report_failure(const libi_report *report, size_t host);

/**
 * How often a spare has taken a host's place. Since 0.1.
 */
size_t libi_report_replaced(const libi_report *report);

/**
 * Which host that was, of the replacements counted from 0; -1 if there were not as many. Since 0.1.
 */
int64_t libi_report_replaced_host(const libi_report *report, size_t index);

/**
 * What the host was called until then; NULL if there were not as many. Since 0.1.
 */
const char *libi_report_replaced_name(const libi_report *report, size_t index);

/**
 * What the spare is called; NULL if there were not as many. Since 0.1.
 */
const char *libi_report_replaced_by(const libi_report *report, size_t index);

/**
 * Why it was replaced; NULL if there were not as many. It is the report's. Since 0.1.
 */
const libi_failure *libi_report_replaced_failure(const libi_report *report, size_t index);

/**
 * If hosts turned out not to be able to launch each other, so that the front end has launched them: the host at which that was
 * noticed. NULL otherwise. Since 0.1.
 */
const char *libi_report_flat_host(const libi_report *report);

/**
 * The first launch of that host that failed; NULL if there is no such host. It is the report's. Since 0.1.
 */
const libi_failure *libi_report_flat_failure(const libi_report *report);

/**
 * What a launch has cost, as measured: see libi_options_set_cost().
 *
 * Returns LIBI_OK, or LIBI_NONE if too few hosts were launched to say. Since 0.1.
 */
libi_result libi_report_cost(const libi_report *report, libi_micros *seq, libi_micros *rem);

/**
 * The timeline of the launch as Chrome trace JSON, which "libi trace" reads as well; NULL if the report is NULL. Since 0.1.
 */
const char *libi_report_json(const libi_report *report);

/**
 * The timeline of the launch drawn, as SVG, beside what was predicted; NULL if the report is NULL. Since 0.1.
 */
const char *libi_report_svg(const libi_report *report);

/**
 * All of it in words: why, how far it came, after how long, and the evidence. NULL if it is NULL. Since 0.1.
 */
const char *libi_failure_text(const libi_failure *failure);

/**
 * How far it came; -1 if it is NULL. Since 0.1.
 */
libi_phase libi_failure_phase(const libi_failure *failure);

/**
 * Why it went no further; -1 if it is NULL. Since 0.1.
 */
libi_cause libi_failure_cause(const libi_failure *failure);

/**
 * How what was started has ended, if that is known. Since 0.1.
 */
libi_exit libi_failure_exit(const libi_failure *failure);

/**
 * The status or the signal that goes with libi_failure_exit(). Since 0.1.
 */
int32_t libi_failure_exit_value(const libi_failure *failure);

/**
 * What the remote shell, or the command that it was to run, has failed at, in a few words, such as "the name is not known"; NULL if
 * that is not what has failed. Since 0.1.
 */
const char *libi_failure_refusal(const libi_failure *failure);

/**
 * The line that says what has gone wrong; empty if there is none. NULL if it is NULL. Since 0.1.
 */
const char *libi_failure_evidence(const libi_failure *failure);

/**
 * The end of what it printed; empty if there is nothing. NULL if it is NULL. Since 0.1.
 */
const char *libi_failure_tail(const libi_failure *failure);

/**
 * From its start until it had failed; -1 if it is NULL. Since 0.1.
 */
libi_micros libi_failure_elapsed(const libi_failure *failure);

/**
 * The rank of the member that it was, where it was not the host's first; -1 otherwise. Since 0.1.
 */
int64_t libi_failure_member(const libi_failure *failure);

/**
 * Takes the place that this process was started for; comes back when the session is up. A launch that goes on for long, or wrong, is
 * bounded by the front end's deadline.
 *
 * Call it once in the life of a process, early, from the main thread, and in the process that was started: not in a child of it, which
 * would break the link if both do. A child that was forked before may live on, and ends with the session if it stays in the process
 * group; one that is forked afterwards gets LIBI_ERR_STATE of all that would start something or wait, and may free what it has, or
 * leave it. It reads the environment, and takes over the standard streams if the link came through them. Standard streams that are
 * closed are opened, to /dev/null, so that nothing that is printed gets into a link.
 *
 * Standard output is a pipe then, and stdio keeps what is printed in a buffer until that is full: fflush() it when it is to be seen, and before
 * libi_member_finish(), ..._finalize() and ..._free(). What is flushed later, as at the end of the process, may be lost.
 *
 * *member is an object in any case but LIBI_ERR_NULL, to be freed by libi_member_free(); after a failure it has the reason in
 * libi_member_error(), and is good for nothing else.
 *
 * Returns LIBI_OK; LIBI_ERR_STARTED_BY_HAND if no front end has started this process, which may itself be one then;
 * LIBI_ERR_NO_LINK if it is a child of a member and has its environment; LIBI_ERR_STATE the second time in a process that was started by one;
 * LIBI_ERR_ENDED if the session has ended before it was up; LIBI_ERR_ARGUMENT, LIBI_ERR_SYSTEM. Since 0.1.
 */
libi_result libi_member_init(libi_progress progress,
                             libi_member **member);

/**
 * Its rank; UINT32_MAX if it has no place. Since 0.1.
 */
uint32_t libi_member_rank(const libi_member *member);

/**
 * How many members the session has; 0 if this process has no place. Since 0.1.
 */
uint32_t libi_member_size(const libi_member *member);

/**
 * Whether it is the first of all, which talks to the front end. Since 0.1.
 */
bool libi_member_is_master(const libi_member *member);

/**
 * Which of the session's hosts it is on, counted from 0; UINT32_MAX if it has no place. Since 0.1.
 */
uint32_t libi_member_host(const libi_member *member);

/**
 * What that host is called in the list that the session was launched with; NULL if this process has no place. It is the
 * member's. Since 0.1.
 */
const char *libi_member_host_name(const libi_member *member);

/**
 * The members that did not come up, where the launch allowed that. They take part in nothing, and what they would have given is
 * empty.
 *
 * Returns how many there are, and writes their ranks, the lowest first, as far as there is room for; ranks may be NULL if room
 * is 0. Since 0.1.
 */
size_t libi_member_absent(const libi_member *member,
                          uint32_t *ranks,
                          size_t room);

/**
 * The members that were there and cannot be talked to any more, because they have ended or are lost, as far as this process
 * has heard. Calls that need them return LIBI_ERR_PEER_LOST; others go on.
 *
 * Returns as libi_member_absent(). Since 0.1.
 */
size_t libi_member_lost(const libi_member *member,
                        uint32_t *ranks,
                        size_t room);

/**
 * Waits until no other member needs this process: to be called at the end of a program that ends when its work is done, before
 * libi_member_free(). The process stays the session's, and how it ends is reported.
 *
 * A process that ends without it is heard of all the same, with its exit status. But the first process of each host carries for the others
 * there: if it ends while they need it, they end with it.
 *
 * Returns LIBI_OK; LIBI_ERR_TIMED_OUT if others go on for longer; LIBI_ERR_ENDED. It may be called again. Since 0.1.
 */
libi_result libi_member_finish(libi_member *member,
                               libi_millis timeout);

/**
 * Releases this process from the session, to live on: from now on it is not signalled and not ended by it, and does not end when the
 * front end does. Comes back when everything that it had to pass on is with the next process; does not wait for other members.
 * Members that hang on this process are carried on as long as it lives and the member is not freed.
 *
 * What it prints from now on goes to the front end as long as somebody carries it, and is thrown away after that. Before the
 * process replaces itself (exec) or goes on in a child (fork) it has to give its standard streams another direction, as daemons do.
 * It may close all descriptors that it does not know, as these do, too: then it carries nobody any longer (libi_member_finish() waits
 * until nobody hangs on it), nothing of the library touches files that get the same numbers, and what members call is LIBI_ERR_ENDED.
 *
 * A process that never calls this ends with the session: by its signal, and by SIGKILL when the grace is over, with its children that are
 * in its process group.
 *
 * Returns LIBI_OK; LIBI_ERR_TIMED_OUT if not everything is with the next process in time: that goes on, and this process is released all the
 * same; LIBI_ERR_ENDED; LIBI_ERR_SYSTEM if the process is tied to its starter and this is not the main thread, which alone can loosen
 * that. Since 0.1.
 */
libi_result libi_member_finalize(libi_member *member,
                                 libi_millis timeout);

/**
 * What failed last with this member in this thread, or why libi_member_init() has failed; empty if nothing has. Since 0.1.
 */
const char *libi_member_error(const libi_member *member);

/**
 * Frees it; NULL is fine. It releases nobody, and the process keeps its place until it ends: libi_member_finish() or ..._finalize() come first.
 * What was printed and flushed is passed on, within a second. A function that the library has called frees by this only what has no place.
 * Since 0.1.
 */
void libi_member_free(libi_member *member);

/**
 * For event loops: is readable as long as an operation is over, and nobody has looked at that by libi_pending_poll() or its kin, or
 * freed it; or, with LIBI_PROGRESS_MANUAL, there is something to dispatch. -1 if this process has no place. It is the member's, and
 * only to be waited for. Since 0.1.
 */
int libi_member_descriptor(const libi_member *member);

/**
 * With LIBI_PROGRESS_MANUAL: for how long nothing has to be dispatched unless the descriptor becomes readable; -1 (LIBI_FOREVER) if that
 * is not limited, as with LIBI_PROGRESS_THREAD. Since 0.1.
 */
libi_millis libi_member_patience(const libi_member *member);

/**
 * With LIBI_PROGRESS_MANUAL: does what there is to do, and does not wait.
 *
 * Returns LIBI_OK, or LIBI_ERR_SYSTEM if the system refuses to say what has happened. Since 0.1.
 */
libi_result libi_member_dispatch(libi_member *member);

/**
 * Has everybody get what the root has in its buffer into his own, which is equally long: LIBI_ERR_LENGTH if what the root gives is not,
 * with both lengths in the text, and the buffer as it was. Since 0.1.
 */
libi_result libi_member_broadcast_into(libi_member *member,
                                       uint32_t root,
                                       void *buffer,
                                       size_t length,
                                       libi_millis timeout);

/**
 * Has the root get everybody's bytes, each long, into recv, in the order of ranks: it has room for each times the size of the session there.
 * The places of those that are absent stay as they are. recv is not looked at elsewhere; send may be a part of it.
 *
 * LIBI_ERR_MISMATCH if they are not equally long everywhere. Since 0.1.
 */
libi_result libi_member_gather_into(libi_member *member,
                                    uint32_t root,
                                    const void *send,
                                    size_t each,
                                    void *recv,
                                    libi_millis timeout);

/**
 * Has everybody get his part, each long, of what the root has in send: each times the size of the session, in the order of ranks. send is not
 * looked at elsewhere; recv may be a part of it.
 *
 * LIBI_ERR_LENGTH if the root's parts have another length than recv, which stays as it was. Since 0.1.
 */
libi_result libi_member_scatter_into(libi_member *member,
                                     uint32_t root,
                                     const void *send,
                                     size_t each,
                                     void *recv,
                                     libi_millis timeout);

/**
 * Has everybody get everybody's bytes, each long, into recv, in the order of ranks: it has room for each times the size of the session. The places
 * of those that are absent stay as they are. send may be a part of recv.
 *
 * LIBI_ERR_MISMATCH if they are not equally long everywhere. Since 0.1.
 */
libi_result libi_member_allgather_into(libi_member *member,
                                       const void *send,
                                       size_t each,
                                       void *recv,
                                       libi_millis timeout);

/**
 * Waits until all members have called it. Since 0.1.
 */
libi_result libi_member_barrier(libi_member *member, libi_millis timeout);

/**
 * As libi_member_barrier(), and does not wait. Since 0.1.
 */
libi_result libi_member_start_barrier(libi_member *member, libi_pending **pending);

/**
 * Waits until all members have called it; what anybody has put before by libi_member_put() is then seen by everybody. Since 0.1.
 */
libi_result libi_member_fence(libi_member *member,
                              libi_millis timeout);

/**
 * As libi_member_fence(), and does not wait. Since 0.1.
 */
libi_result libi_member_start_fence(libi_member *member, libi_pending **pending);

/**
 * Has everybody get what the root has, in part 0 of *data. What others than the root give is not looked at.
 *
 * LIBI_ERR_NO_SUCH_PEER if there is no such root. Since 0.1.
 */
libi_result libi_member_broadcast(libi_member *member,
                                  uint32_t root,
                                  const void *bytes,
                                  size_t length,
                                  libi_data **data,
                                  libi_millis timeout);

/**
 * As libi_member_broadcast(), and does not wait. Since 0.1.
 */
libi_result libi_member_start_broadcast(libi_member *member,
                                        uint32_t root,
                                        const void *bytes,
                                        size_t length,
                                        libi_pending **pending);

/**
 * Has the root get everybody's bytes, of whatever lengths: a part for each rank, empty for those that are absent. *data is NULL
 * elsewhere, where data may also be NULL. Since 0.1.
 */
libi_result libi_member_gather(libi_member *member,
                               uint32_t root,
                               const void *bytes,
                               size_t length,
                               libi_data **data,
                               libi_millis timeout);

/**
 * As libi_member_gather(), and does not wait. Since 0.1.
 */
libi_result libi_member_start_gather(libi_member *member,
                                     uint32_t root,
                                     const void *bytes,
                                     size_t length,
                                     libi_pending **pending);

/**
 * As libi_member_gather(), of bytes that are equally long everywhere; LIBI_ERR_MISMATCH if they are not. Since 0.1.
 */
libi_result libi_member_gather_equal(libi_member *member,
                                     uint32_t root,
                                     const void *bytes,
                                     size_t length,
                                     libi_data **data,
                                     libi_millis timeout);

/**
 * As libi_member_gather_equal(), and does not wait. Since 0.1.
 */
libi_result libi_member_start_gather_equal(libi_member *member,
                                           uint32_t root,
                                           const void *bytes,
                                           size_t length,
                                           libi_pending **pending);

/**
 * Has everybody get his part of what the root has, in part 0 of *data. The root gives a part for each rank, also for those that are
 * absent: count is the size of the session, parts[r] points to lengths[r] bytes. What others give is not looked at.
 *
 * LIBI_ERR_PARTS if the root has not a part for each rank. Since 0.1.
 */
libi_result libi_member_scatter(libi_member *member,
                                uint32_t root,
                                const void *const *parts,
                                const size_t *lengths,
                                size_t count,
                                libi_data **data,
                                libi_millis timeout);

/**
 * As libi_member_scatter(), and does not wait. Since 0.1.
 */
libi_result libi_member_start_scatter(libi_member *member,
                                      uint32_t root,
                                      const void *const *parts,
                                      const size_t *lengths,
                                      size_t count,
                                      libi_pending **pending);

/**
 * Has everybody get everybody's bytes, of whatever lengths: a part for each rank, empty for those that are absent. Since 0.1.
 */
libi_result libi_member_allgather(libi_member *member,
                                  const void *bytes,
                                  size_t length,
                                  libi_data **data,
                                  libi_millis timeout);

/**
 * As libi_member_allgather(), and does not wait. Since 0.1.
 */
libi_result libi_member_start_allgather(libi_member *member,
                                        const void *bytes,
                                        size_t length,
                                        libi_pending **pending);

/**
 * As libi_member_allgather(), of bytes that are equally long everywhere; LIBI_ERR_MISMATCH if they are not. Since 0.1.
 */
libi_result libi_member_allgather_equal(libi_member *member,
                                        const void *bytes,
                                        size_t length,
                                        libi_data **data,
                                        libi_millis timeout);

/**
 * As libi_member_allgather_equal(), and does not wait. Since 0.1.
 */
libi_result libi_member_start_allgather_equal(libi_member *member,
                                              const void *bytes,
                                              size_t length,
                                              libi_pending **pending);

/**
 * Has everybody get one part of every member: this one gives parts[r], lengths[r] bytes, to rank r, and gets what rank r has for it
 * in part r of *data. All parts of all members are equally long; count is the size of the session.
 *
 * LIBI_ERR_PARTS if there is not a part for each rank, or if this member's own are not equally long; LIBI_ERR_MISMATCH if another's have another
 * length. Since 0.1.
 */
libi_result libi_member_alltoall(libi_member *member,
                                 const void *const *parts,
                                 const size_t *lengths,
                                 size_t count,
                                 libi_data **data,
                                 libi_millis timeout);

/**
 * As libi_member_alltoall(), and does not wait. Since 0.1.
 */
libi_result libi_member_start_alltoall(libi_member *member,
                                       const void *const *parts,
                                       const size_t *lengths,
                                       size_t count,
                                       libi_pending **pending);

/**
 * As libi_member_alltoall(), with parts of any lengths. Since 0.1.
 */
libi_result libi_member_alltoallv(libi_member *member,
                                  const void *const *parts,
                                  const size_t *lengths,
                                  size_t count,
                                  libi_data **data,
                                  libi_millis timeout);

/**
 * As libi_member_alltoallv(), and does not wait. Since 0.1.
 */
libi_result libi_member_start_alltoallv(libi_member *member,
                                        const void *const *parts,
                                        const size_t *lengths,
                                        size_t count,
                                        libi_pending **pending);

/**
 * Finds this member's place in a ring of all, in which the members of a host are neighbours: *rank of *size, and in *before what all
 * members before it count for together. *neighbours has in part 0 what the left neighbour has for it, its right, and in part 1 what the right
 * one has for its left. rank, size and before may be NULL. Since 0.1.
 */
libi_result libi_member_ring(libi_member *member,
                             uint64_t count,
                             const void *left,
                             size_t left_length,
                             const void *right,
                             size_t right_length,
                             uint32_t *rank,
                             uint32_t *size,
                             uint64_t *before,
                             libi_data **neighbours,
                             libi_millis timeout);

/**
 * As libi_member_ring(), and does not wait: the place is to be had by libi_pending_ring(), and then the neighbours' data by
 * libi_pending_take(). Since 0.1.
 */
libi_result libi_member_start_ring(libi_member *member,
                                   uint64_t count,
                                   const void *left,
                                   size_t left_length,
                                   const void *right,
                                   size_t right_length,
                                   libi_pending **pending);

/**
 * The bytes of a value, which may be changed; not aligned for anything. They are there until the value is set or resized, and never NULL
 * but for what is no value. Since 0.1.
 */
void *libi_value_bytes(libi_value *value);

/**
 * How many bytes a value has; 0 for what is no value. Since 0.1.
 */
size_t libi_value_length(const libi_value *value);

/**
 * Makes these the bytes of a value; they may be a part of those that it has.
 *
 * Returns LIBI_OK, LIBI_ERR_NULL, LIBI_ERR_HANDLE if the function to which it was given has come back, LIBI_ERR_NO_MEMORY. Since 0.1.
 */
libi_result libi_value_set(libi_value *value,
                           const void *bytes,
                           size_t length);

/**
 * Makes a value longer, by zeros, or shorter.
 *
 * Returns as libi_value_set(). Since 0.1.
 */
libi_result libi_value_resize(libi_value *value, size_t length);

/**
 * Has the root get everybody's values, combined by a function of the program's own, in part 0 of *data, which is NULL elsewhere; data may
 * be NULL there. release may be NULL; it is called also if this fails. Since 0.1.
 */
libi_result libi_member_reduce_by(libi_member *member,
                                  uint32_t root,
                                  libi_fold fold,
                                  void *userdata,
                                  libi_release release,
                                  const void *bytes,
                                  size_t length,
                                  libi_data **data,
                                  libi_millis timeout);

/**
 * As libi_member_reduce_by(), and does not wait. Since 0.1.
 */
libi_result libi_member_start_reduce_by(libi_member *member,
                                        uint32_t root,
                                        libi_fold fold,
                                        void *userdata,
                                        libi_release release,
                                        const void *bytes,
                                        size_t length,
                                        libi_pending **pending);

/**
 * As libi_member_reduce_by(), with the result for everybody. Since 0.1.
 */
libi_result libi_member_allreduce_by(libi_member *member,
                                     libi_fold fold,
                                     void *userdata,
                                     libi_release release,
                                     const void *bytes,
                                     size_t length,
                                     libi_data **data,
                                     libi_millis timeout);

/**
 * As libi_member_allreduce_by(), and does not wait. Since 0.1.
 */
libi_result libi_member_start_allreduce_by(libi_member *member,
                                           libi_fold fold,
                                           void *userdata,
                                           libi_release release,
                                           const void *bytes,
                                           size_t length,
                                           libi_pending **pending);

/**
 * Sends a member a message, about whatever the two of them mean by the tag. Messages with the same tag arrive in their order. It is
 * over when this member need not hold the message any more, which says nothing of whether it was received.
 *
 * LIBI_ERR_NO_SUCH_PEER, LIBI_ERR_ABSENT, LIBI_ERR_PEER_LOST: there is nobody to receive it. Since 0.1.
 */
libi_result libi_member_send_to(libi_member *member,
                                uint32_t rank,
                                uint32_t tag,
                                const void *bytes,
                                size_t length,
                                libi_millis timeout);

/**
 * As libi_member_send_to(), and does not wait. Since 0.1.
 */
libi_result libi_member_start_send_to(libi_member *member,
                                      uint32_t rank,
                                      uint32_t tag,
                                      const void *bytes,
                                      size_t length,
                                      libi_pending **pending);

/**
 * Receives the next message that a member has sent to this one with this tag, in part 0 of *data.
 *
 * LIBI_ERR_NO_SUCH_PEER, LIBI_ERR_ABSENT, LIBI_ERR_PEER_LOST: there is nobody to send it. LIBI_ERR_WITHDRAWN: the sender has taken it
 * back, and the next receive is a new chance. Since 0.1.
 */
libi_result libi_member_recv_from(libi_member *member,
                                  uint32_t rank,
                                  uint32_t tag,
                                  libi_data **data,
                                  libi_millis timeout);

/**
 * As libi_member_recv_from(), and does not wait. Since 0.1.
 */
libi_result libi_member_start_recv_from(libi_member *member,
                                        uint32_t rank,
                                        uint32_t tag,
                                        libi_pending **pending);

/**
 * Sends the front end a message. Only the master does; that others make the same call has no effect, so that all members may run the
 * same program.
 *
 * LIBI_ERR_FRONT_END_LOST. Since 0.1.
 */
libi_result libi_member_send(libi_member *member,
                             const void *bytes,
                             size_t length,
                             libi_millis timeout);

/**
 * As libi_member_send(), and does not wait. Since 0.1.
 */
libi_result libi_member_start_send(libi_member *member,
                                   const void *bytes,
                                   size_t length,
                                   libi_pending **pending);

/**
 * Receives the next message that the front end has sent, in part 0 of *data. Only the master does; others who make the same call
 * get no bytes, at once. What they need to know the master may broadcast.
 *
 * LIBI_ERR_FRONT_END_LOST. Since 0.1.
 */
libi_result libi_member_recv(libi_member *member,
                             libi_data **data,
                             libi_millis timeout);

/**
 * As libi_member_recv(), and does not wait. Since 0.1.
 */
libi_result libi_member_start_recv(libi_member *member, libi_pending **pending);

/**
 * Puts a value under a key, a text in UTF-8. Others are certain to see it after the next libi_member_fence().
 *
 * LIBI_ERR_LONG_KEY; LIBI_ERR_ARGUMENT if it is no such text, or there is no such spread. Since 0.1.
 */
libi_result libi_member_put(libi_member *member,
                            const char *key,
                            const void *bytes,
                            size_t length,
                            libi_spread spread,
                            libi_millis timeout);

/**
 * As libi_member_put(), and does not wait. Since 0.1.
 */
libi_result libi_member_start_put(libi_member *member,
                                  const char *key,
                                  const void *bytes,
                                  size_t length,
                                  libi_spread spread,
                                  libi_pending **pending);

/**
 * Gets the value of a key, in part 0 of *data. If there is none, waits until somebody puts one.
 *
 * LIBI_ERR_LONG_KEY; LIBI_ERR_ARGUMENT; LIBI_ERR_PEER_LOST if whoever has it is lost. Since 0.1.
 */
libi_result libi_member_get(libi_member *member, const char *key, libi_data **data, libi_millis timeout);

/**
 * As libi_member_get(), and does not wait. Since 0.1.
 */
libi_result libi_member_start_get(libi_member *member, const char *key, libi_pending **pending);

/**
 * Gets the value of a key, in part 0 of *data, if there is one; LIBI_NONE if there is none.
 *
 * Else as libi_member_get(). Since 0.1.
 */
libi_result libi_member_find(libi_member *member, const char *key, libi_data **data, libi_millis timeout);

/**
 * As libi_member_find(), and does not wait. Since 0.1.
 */
libi_result libi_member_start_find(libi_member *member, const char *key, libi_pending **pending);

/**
 * Has the root get everybody's arrays, combined element by element inside the tree: count elements in result, which may be the
 * same memory as numbers, and is not looked at elsewhere. Nothing has to be aligned. A sum of floating-point numbers may differ in its last
 * bits from one run to the next.
 *
 * LIBI_ERR_ARGUMENT if there is no such element or operation; LIBI_ERR_MISMATCH if elements, counts or operations differ. Since 0.1.
 */
libi_result libi_member_reduce(libi_member *member,
                               uint32_t root,
                               libi_element element,
                               libi_op op,
                               const void *numbers,
                               size_t count,
                               void *result,
                               libi_millis timeout);

/**
 * As libi_member_reduce(), and does not wait: the root gets the array in part 0 of what libi_pending_take() gives. Since 0.1.
 */
libi_result libi_member_start_reduce(libi_member *member,
                                     uint32_t root,
                                     libi_element element,
                                     libi_op op,
                                     const void *numbers,
                                     size_t count,
                                     libi_pending **pending);

/**
 * As libi_member_reduce(), with the result for everybody. Since 0.1.
 */
libi_result libi_member_allreduce(libi_member *member,
                                  libi_element element,
                                  libi_op op,
                                  const void *numbers,
                                  size_t count,
                                  void *result,
                                  libi_millis timeout);

/**
 * As libi_member_allreduce(), and does not wait: the array is in part 0 of what libi_pending_take() gives. Since 0.1.
 */
libi_result libi_member_start_allreduce(libi_member *member,
                                        libi_element element,
                                        libi_op op,
                                        const void *numbers,
                                        size_t count,
                                        libi_pending **pending);

/**
 * Waits until it is over, for so long at most; if it is not over by then it is given up, and a collective call is over for all
 * members.
 *
 * Returns what the function that waits for the same operation returns: LIBI_OK, LIBI_NONE of a key that there is not, or why it has failed;
 * LIBI_ERR_TIMED_OUT if it was given up; LIBI_ERR_BUSY if a function that the library has called calls this. Once it is over, this and
 * libi_pending_poll() go on returning the same. Since 0.1.
 */
libi_result libi_pending_wait(libi_pending *pending,
                              libi_millis timeout);

/**
 * Waits until it is over, for so long at most, and does not give it up.
 *
 * Returns as libi_pending_wait(); LIBI_NOT_YET if it is not over by then, and it goes on. Since 0.1.
 */
libi_result libi_pending_wait_for(libi_pending *pending, libi_millis timeout);

/**
 * Whether it is over. Does not wait; where there is no thread of the library's it does what there is to do.
 *
 * For event loops: libi_front_descriptor() or libi_member_descriptor() is readable as long as an operation is over that nobody has
 * looked at since.
 *
 * Returns as libi_pending_wait(); LIBI_NOT_YET if it is not over. Since 0.1.
 */
libi_result libi_pending_poll(libi_pending *pending);

/**
 * Takes what has come of an operation that is over, as libi_pending_wait(), ..._wait_for() or ..._poll() have said. *data is NULL if
 * nothing comes of such an operation, or nothing at this member; else it is to be freed by libi_data_free().
 *
 * Returns LIBI_OK; what the others return if it has failed; LIBI_ERR_STATE if it is not over, or if it was taken before. Since 0.1.
 */
libi_result libi_pending_take(libi_pending *pending,
                              libi_data **data);

/**
 * The place in a ring, before the neighbours' data are taken. Each place may be NULL.
 *
 * Returns LIBI_OK; what the others return if it has failed; LIBI_ERR_STATE if it is not over, if its data were taken before, or if it is no
 * ring. Since 0.1.
 */
libi_result libi_pending_ring(libi_pending *pending,
                              uint32_t *rank,
                              uint32_t *size,
                              uint64_t *before);

/**
 * Gives it up, if it is not over. A collective call is then over for all members that had not finished it, with LIBI_ERR_CANCELLED; a message
 * that was not received is there for the next who asks, and one that was sent may have arrived.
 *
 * Returns LIBI_OK, also if it was over. If it was not, what waits for it or polls returns LIBI_ERR_CANCELLED from now on. Since 0.1.
 */
libi_result libi_pending_cancel(libi_pending *pending);

/**
 * What failed last with this operation in this thread; empty if nothing has. Since 0.1.
 */
const char *libi_pending_error(const libi_pending *pending);

/**
 * Frees it; NULL is fine. An operation that is not over goes on, and what comes of it is forgotten, even a message that was received;
 * libi_pending_cancel() is for what should not be any more. Since 0.1.
 */
void libi_pending_free(libi_pending *pending);

/**
 * How many parts there are; 0 if it is NULL. Since 0.1.
 */
size_t libi_data_count(const libi_data *data);

/**
 * The bytes of a part, counted from 0; NULL if there is no such part, and never for one that is there and empty.
 *
 * They are the data's, and not aligned for anything: copy numbers out of them. No NUL follows them. Since 0.1.
 */
const void *libi_data_bytes(const libi_data *data,
                            size_t index);

/**
 * How many bytes a part has; 0 if there is no such part. Since 0.1.
 */
size_t libi_data_length(const libi_data *data, size_t index);

/**
 * Frees them; NULL is fine. Since 0.1.
 */
void libi_data_free(libi_data *data);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LIBI_H */
