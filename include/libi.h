/** libi launches processes on many hosts, and lets them communicate until they can do so
 *  themselves.
 *
 *  Generated from libi-ffi/src; edit it there. The rules for all functions are at libi_result.
 *  README.md has a program to begin with.
 */

#ifndef LIBI_H
#define LIBI_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Versions and constants ------------------------------------------------------------------ */

/** The major version of this header. Another one may break programs. Since 0.1. */
#define LIBI_VERSION_MAJOR 0

/**
 * The minor version. While the major one is 0, another one may break programs; later it only adds.
 * Since 0.1.
 */
#define LIBI_VERSION_MINOR 1

/** The patch version: fixes. Since 0.1. */
#define LIBI_VERSION_PATCH 0

/**
 * The version as one number for comparisons: 1002003 is 1.2.3. LIBI_VERSION is another macro, of
 * libi/libi_api.h. Since 0.1.
 */
#define LIBI_VERSION_NUMBER (((LIBI_VERSION_MAJOR * 1000000) + (LIBI_VERSION_MINOR * 1000)) + LIBI_VERSION_PATCH)

/** No limit to the duration of a call. Since 0.1. */
#define LIBI_FOREVER -1

/** Success: LIBI_RESULT_OK. libi/libi_api.h has a LIBI_OK of its own with the same value. */
#if !defined(LIBI_OK) && !defined(LIBI_API_STD_H)
#define LIBI_OK LIBI_RESULT_OK
#endif

/* ---- Objects --------------------------------------------------------------------------------- */

/** A command that runs in a session, or has ended. Any number of threads may use it. Since 0.1. */
typedef struct libi_command libi_command;

/**
 * Received bytes: one part, or one part for each rank in their order. They do not change, and
 * any number of threads may read them. They are independent of the object that received them.
 * Since 0.1.
 */
typedef struct libi_data libi_data;

/**
 * A group of equal processes of one session: their program, arguments and hosts. A builder: one
 * thread at a time. Since 0.1.
 */
typedef struct libi_distribution libi_distribution;

/**
 * Something that has happened in a session. It does not change, and any number of threads may
 * use it. Since 0.1.
 */
typedef struct libi_event libi_event;

/**
 * Why a host, or a member on it, has failed, with the evidence. It belongs to the report or the
 * event that it was read from, and any number of threads may use it. Since 0.1.
 */
typedef struct libi_failure libi_failure;

/**
 * A front end, which launches sessions. A process may have any number; they are independent.
 *
 * Any number of threads may use one. With LIBI_PROGRESS_MANUAL, use it from one thread that
 * lives as long as the process, best the main one: only then it is certain that processes which
 * never join end when this process is killed. Since 0.1.
 */
typedef struct libi_front libi_front;

/** A list of hosts, each with a number of processes. A builder: one thread at a time. Since 0.1. */
typedef struct libi_hosts libi_hosts;

/**
 * A running job of another launcher (srun, mpirun, ...), with the processes that it had when it
 * was attached to. Any number of threads may use it, and the job goes on when it is freed. Since
 * 0.1.
 */
typedef struct libi_job libi_job;

/**
 * Where the ranks of a session run. It depends on the distributions only, not on the launch. It
 * does not change, and any number of threads may use it. Since 0.1.
 */
typedef struct libi_layout libi_layout;

/**
 * How members were lost, as a member knew it when it was asked. It does not change, any number of
 * threads may use it, and it is independent of the member. Since 0.1.
 */
typedef struct libi_losses libi_losses;

/**
 * This process as a member of a session. Any number of threads may use it.
 *
 * Rules for all operations between members:
 * - Every operation has two forms with the same inputs. libi_member_X(..., timeout) waits; any
 *   number of threads may wait. libi_member_start_X(..., pending) returns at once with a
 *   libi_pending, which has the result later. Inputs are copied in both.
 * - Collective operations are called by all members in the same order, and complete in that
 *   order. Where several threads call them, the program ensures the order. Absent members are
 *   not waited for.
 * - A collective operation returns LIBI_ERR_MISMATCH if members call different operations (the
 *   text names two), LIBI_ERR_PEER_LOST if a member that is needed is lost (the text names it, and
 *   libi_member_losses() tells how), LIBI_ERR_TIMED_OUT if the timeout passes here,
 *   LIBI_ERR_CANCELLED if it passes at another member or one of them cancels, LIBI_ERR_ENDED if
 *   the session ends. After a mismatch, a timeout or a cancellation, the next collective
 *   operation may succeed.
 * - After LIBI_ERR_NULL or LIBI_ERR_ARGUMENT nothing was called: other members keep waiting for
 *   this one.
 * - LIBI_ERR_STATE: this process was forked by the member. LIBI_ERR_BUSY: a function that the
 *   library has called, such as a libi_fold, tries to wait or to start something.
 * - A libi_data that is passed out is freed with libi_data_free().
 *
 * Since 0.1.
 */
typedef struct libi_member libi_member;

/**
 * How a launch proceeds. By default it uses ssh for hosts that are not this machine, needs all
 * hosts, and fails after two minutes. A builder: one thread at a time. Since 0.1.
 */
typedef struct libi_options libi_options;

/**
 * An operation in progress, made by the functions with "start" in their names. Free it with
 * libi_pending_free(), before or after the member or session that it was started on.
 *
 * One thread may use it at a time; any number of operations may be pending. With
 * LIBI_PROGRESS_THREAD it progresses by itself, otherwise in calls that wait, poll or dispatch.
 * Since 0.1.
 */
typedef struct libi_pending libi_pending;

/**
 * Processes of a job, in the order of their ranks. They do not change, any number of threads may
 * use them, and they are independent of the object that they were read from. Since 0.1.
 */
typedef struct libi_processes libi_processes;

/**
 * The result of a launch, host by host. It does not change, and any number of threads may use
 * it. Since 0.1.
 */
typedef struct libi_report libi_report;

/**
 * A session that was launched, or is being launched. Any number of threads may use it. Since
 * 0.1.
 */
typedef struct libi_session libi_session;

/**
 * The processes of a job on this host, as a daemon beside it has them. Any number of threads may
 * use them. Since 0.1.
 */
typedef struct libi_targets libi_targets;

/**
 * The value that a libi_fold changes. Only the function that it was passed to may use it, until
 * it returns. Since 0.1.
 */
typedef struct libi_value libi_value;

/** A watch of a job. One thread waits for its events at a time. Since 0.1. */
typedef struct libi_watch libi_watch;

/* ---- Results, versions and log lines --------------------------------------------------------- */

/**
 * How a call has ended: LIBI_OK, or one of the codes below.
 *
 * Rules for all functions:
 * - Ownership: an object made by libi_X_new(), or passed out through a pointer to a pointer,
 *   belongs to the caller, who frees it once with libi_X_free(). Freeing NULL does nothing. A
 *   const pointer that a function returns or writes into a struct belongs to the object that was
 *   asked, and is valid until that object is freed. Strings and bytes passed in are copied.
 * - NULL where an object, a string or a place for a result is needed is LIBI_ERR_NULL. Functions
 *   that return a number or a pointer instead of a code return 0, -1 or NULL, as documented.
 * - Failures: libi_last_error() has the text of the last failure in the calling thread. LIBI_OK,
 *   LIBI_NOT_YET and LIBI_NONE are not failures and leave it as it is.
 * - Builders (libi_hosts, libi_distribution, libi_options) remember the first of their calls
 *   that failed. Calls that are given such a builder, as a launch, return that failure: a
 *   program may look at the codes of its setters or only at that of the launch. There is no way
 *   to clear it; free the builder and make another.
 * - Threads: a builder or a libi_pending may be used by one thread at a time; a second one gets
 *   LIBI_ERR_BUSY. All other objects may be used by any number of threads.
 * - Freeing an object that another thread is using, using an object after it was freed, and
 *   passing an object of another type are undefined behaviour. The library detects most cases
 *   and returns LIBI_ERR_HANDLE; a program must not depend on that.
 * - Structs that a call fills (libi_event_info and the like): the last argument is sizeof of the
 *   struct as the program was compiled. Later versions append members. After a failure the
 *   struct is filled with zeros.
 * - No function installs signal handlers, changes the signal mask, or raises SIGPIPE.
 *   Descriptors of the library are close-on-exec. If the program ignores SIGCHLD, or waits for
 *   children that are not its own, exits of processes become LIBI_EXIT_UNKNOWN.
 * - After a panic inside the library, the object that was in use returns LIBI_ERR_POISONED from
 *   all calls, and can only be freed.
 *
 * Since 0.1.
 */
typedef enum libi_result {
  /**
   * Success. LIBI_OK is this, unless libi/libi_api.h is included as well, which has a LIBI_OK
   * of its own with the same value.
   */
  LIBI_RESULT_OK = 0,
  /** Not a failure: the operation is not finished, or nothing has happened within the timeout. */
  LIBI_NOT_YET = 1,
  /** Not a failure: there is no such thing, as a value under a key, a report, or an index. */
  LIBI_NONE = 2,
  /** Caller: NULL where an object, a string or a place for a result is needed. */
  LIBI_ERR_NULL = 10,
  /** Caller: the object was freed or is of another type. */
  LIBI_ERR_HANDLE = 11,
  /**
   * Caller: the object is in use by another thread, or the call came from a callback that must
   * not make it.
   */
  LIBI_ERR_BUSY = 12,
  /** Library: it has panicked while this object was in use. */
  LIBI_ERR_POISONED = 13,
  /** Caller: an argument has a value that is not allowed. */
  LIBI_ERR_ARGUMENT = 14,
  /** Caller: a host list has a syntax error; the text shows where. */
  LIBI_ERR_HOSTS = 15,
  /** Caller: the distributions describe nothing that could be launched. */
  LIBI_ERR_LAYOUT = 16,
  /** Caller: the backend sends in plaintext, and the options do not allow that. */
  LIBI_ERR_PLAIN = 17,
  /** Caller: the call is not possible in the current state. */
  LIBI_ERR_STATE = 18,
  /** Caller: a buffer or an array does not have the needed length. */
  LIBI_ERR_LENGTH = 19,
  /** This process was not started by a front end. */
  LIBI_ERR_STARTED_BY_HAND = 30,
  /** This process has the environment of a member, but not its link. */
  LIBI_ERR_NO_LINK = 31,
  /** The session did not come up; its report says why for each host. */
  LIBI_ERR_NOT_LAUNCHED = 32,
  /** The timeout has passed. A collective operation is then over for all members. */
  LIBI_ERR_TIMED_OUT = 33,
  /** The session or the front end has ended or is ending. */
  LIBI_ERR_ENDED = 34,
  /** A system call has failed. */
  LIBI_ERR_SYSTEM = 35,
  /** Out of memory. */
  LIBI_ERR_NO_MEMORY = 36,
  /** A member was not restarted; the text has the reason. */
  LIBI_ERR_NOT_RESTARTED = 37,
  /** The session has not grown; the text has the reason. */
  LIBI_ERR_NOT_GROWN = 38,
  /** A session or a job cannot be attached to; the text has the reason. */
  LIBI_ERR_NOT_ATTACHED = 39,
  /** Members that are needed are lost; the text names them. */
  LIBI_ERR_PEER_LOST = 50,
  /** The front end is lost. */
  LIBI_ERR_FRONT_END_LOST = 51,
  /**
   * Members have made different collective calls; the text names two. The next collective call
   * may succeed.
   */
  LIBI_ERR_MISMATCH = 52,
  /**
   * Another member has given up this collective call, or the caller has cancelled it. The next
   * collective call may succeed.
   */
  LIBI_ERR_CANCELLED = 53,
  /** The sender has withdrawn its message. */
  LIBI_ERR_WITHDRAWN = 54,
  /** There is no member with this rank. */
  LIBI_ERR_NO_SUCH_PEER = 55,
  /** The member did not come up, and the launch allowed that. */
  LIBI_ERR_ABSENT = 56,
  /** Caller: the number or the lengths of the parts are wrong for the collective call. */
  LIBI_ERR_PARTS = 57,
  /** Caller: the key is too long. */
  LIBI_ERR_LONG_KEY = 58,
  /** A peer has violated the protocol: another build of the library, or a defect in it. */
  LIBI_ERR_PROTOCOL = 59,
  /** Caller: this member is not the master, which alone talks to the front end. */
  LIBI_ERR_NOT_MASTER = 60
} libi_result;

/** The levels of log lines. A level includes those above it. Since 0.1. */
typedef enum libi_log_level {
  /** Nothing. */
  LIBI_LOG_OFF = 0,
  /** Defects. */
  LIBI_LOG_ERROR = 1,
  /** What the user should know, as the use of plaintext. */
  LIBI_LOG_WARN = 2,
  /** The course of launches and sessions. */
  LIBI_LOG_INFO = 3,
  /** Decisions, for finding out why a launch went as it did. */
  LIBI_LOG_DEBUG = 4,
  /** Everything. */
  LIBI_LOG_TRACE = 5
} libi_log_level;

/** How a process of a command has ended. Since 0.1. */
typedef enum libi_outcome {
  /** The event is another. */
  LIBI_OUTCOME_NONE = 0,
  /** It has exited: see exit. */
  LIBI_OUTCOME_EXITED = 1,
  /** It could not be started: see text. */
  LIBI_OUTCOME_NOT_STARTED = 2,
  /** Its host was lost, or the session has ended: see text. */
  LIBI_OUTCOME_LOST = 3,
  /** It had not ended when the time of the command was over, and was killed. */
  LIBI_OUTCOME_TIMED_OUT = 4
} libi_outcome;

/** Which process carries a host's part of the tree, if no agent does. Since 0.1. */
typedef enum libi_engine {
  /**
   * The first member's own process. If it ends, crashes or executes another program, the members
   * that depend on it end as well. Calls among the members of a host are faster: there is one hop
   * less.
   */
  LIBI_ENGINE_IN_PROGRAM = 0,
  /**
   * The default: a process of its own. The process that was started on a host divides before its
   * main(): the program is the child, a member like all others, and what it does to itself costs
   * no other member anything. A program that loads the library while it runs is led as with
   * LIBI_ENGINE_IN_PROGRAM; libi_report_host_info says so.
   */
  LIBI_ENGINE_APART = 1
} libi_engine;

/** What follows when a member ends or is lost while the session is up. Since 0.1. */
typedef enum libi_on_loss {
  /**
   * The default: collective calls that need the member fail with LIBI_ERR_PEER_LOST. All later
   * ones do.
   */
  LIBI_ON_LOSS_FAIL = 0,
  /**
   * Collective calls go on among the members that are left. libi_pending_missing() and
   * LIBI_RANKS_MISSING tell which members were missing in a call. A call
   * whose root is lost fails. A member that ends is lost in the same way; one that ends in order
   * calls libi_member_drain() before, which waits until all others have completed what it has.
   * Hosts below a lost one find another parent, by direct connections or through the backend. A
   * lost member may be started again: see libi_session_restart().
   */
  LIBI_ON_LOSS_CONTINUE = 1,
  /**
   * The session ends, if the member is lost, or has ended otherwise than with exit status 0.
   * Members receive SIGTERM, and are killed after two seconds.
   */
  LIBI_ON_LOSS_END = 2
} libi_on_loss;

/**
 * Called for each log line: its level, its target (the part of the library, as "libi::launch")
 * and its text. The strings are valid until it returns.
 *
 * It is called in any thread, also in the library's own, and in several at once. It must return
 * normally (no exception, no longjmp). Functions of the library that start something or wait
 * return LIBI_ERR_BUSY inside it. Since 0.1.
 */
typedef void (*libi_log_callback)(void *userdata,
                                  libi_log_level level,
                                  const char *target,
                                  const char *text);

/** A timeout in milliseconds. Negative (LIBI_FOREVER) is no limit; 0 does not wait. Since 0.1. */
typedef int64_t libi_timeout;

/** A measured duration in microseconds; -1 if there is none. Since 0.1. */
typedef int64_t libi_micros;

/** By what a session has grown. Since 0.1. */
typedef struct libi_growth {
  /** The lowest of the new ranks. */
  uint32_t first_rank;
  /** The number of new ranks. */
  uint32_t ranks;
  /** How many of them did not come up: they are absent. */
  uint32_t absent;
  /** The index of the first new host in the report and in the layout. */
  uint32_t first_host;
  /** The number of new hosts. The report says which have joined. */
  uint32_t hosts;
} libi_growth;

/**
 * The meaning of a code in a few words, or NULL for a number that is not a code.
 *
 * Any thread, at any time. The text is static. Since 0.1.
 */
const char *libi_result_text(libi_result result);

/**
 * The text of the calling thread's last failure: what has failed, on which host, why, and what
 * to do. Empty if no call has failed.
 *
 * Any thread, at any time; call it after a function has returned a failure. The text belongs to
 * the library and is valid until the next failure in this thread. Calls that succeed, and
 * LIBI_NOT_YET and LIBI_NONE, leave it as it is. Since 0.1.
 */
const char *libi_last_error(void);

/**
 * The LIBI_VERSION_NUMBER of the library that the program runs with. Any thread, at any time.
 * Since 0.1.
 */
uint32_t libi_version(void);

/**
 * The version of the library that the program runs with, as "0.1.0". Any thread, at any time. The
 * string is static. Since 0.1.
 */
const char *libi_version_text(void);

/**
 * Sets the function that is called for each log line up to this level; NULL for none. It holds
 * for the whole process, is called by front ends and members alike, and may be set again. The
 * library never logs contents of messages.
 *
 * Any thread, at any time; best before the first front end or member is made. When it returns,
 * the former function may still run in other threads. Returns LIBI_OK, LIBI_ERR_ARGUMENT if
 * there is no such level, or LIBI_ERR_STATE if the process is a program in Rust that has
 * installed a logger of its own. Since 0.1.
 */
libi_result libi_set_log(libi_log_level level, libi_log_callback callback, void *userdata);

/**
 * Serves as an agent and never returns, if this process was started as one; otherwise does nothing.
 * A program that is its own agent calls it at the beginning of main(), before it starts threads or
 * uses its standard streams. Since 0.1.
 */
void libi_agent_serve_if_asked(void);

/** Frees a command, which goes on if it runs. NULL is allowed. Since 0.1. */
void libi_command_free(libi_command *command);

/**
 * The number of a command, which its events have; the first of a session is 1. 0 for NULL.
 * Since 0.1.
 */
uint64_t libi_command_number(const libi_command *command);

/**
 * Sends a signal to the processes of a command that have not ended, with their process groups: on
 * as many hosts as count says, which hosts numbers as the layout does, or on all if hosts is NULL.
 *
 * Returns LIBI_OK, or LIBI_ERR_ARGUMENT if there is no such signal. Since 0.1.
 */
libi_result libi_command_kill(libi_command *command,
                              const uint32_t *hosts,
                              size_t count,
                              int signal);

/**
 * Waits until all processes of a command have ended or are lost with their hosts, and writes how
 * many have not exited with 0; failures may be NULL. Output of the command has to be taken
 * meanwhile, with libi_front_next_event().
 *
 * Returns LIBI_OK, LIBI_ERR_TIMED_OUT, or LIBI_ERR_ENDED if nothing is left of the session.
 * Since 0.1.
 */
libi_result libi_command_wait(const libi_command *command, libi_timeout timeout, size_t *failures);

/* ---- Host lists ------------------------------------------------------------------------------ */

/** How processes are placed on hosts. Since 0.1. */
typedef enum libi_placement {
  /** Each host is filled before the next one gets a process. */
  LIBI_PLACE_BLOCK = 0,
  /** Round robin, one process at a time. */
  LIBI_PLACE_CYCLIC = 1,
  /** Round robin, a plane of several processes at a time. */
  LIBI_PLACE_PLANE = 2
} libi_placement;

/** An entry of a host list. Since 0.1. */
typedef struct libi_hosts_entry_info {
  /** The name or address of the host. */
  const char *name;
  /** The user to log in as; empty if the entry does not say. */
  const char *user;
  /** The number of processes on the host. */
  uint32_t processes;
  /** The port of the remote shell; 0 if the entry does not say. */
  uint16_t port;
} libi_hosts_entry_info;

/** Makes an empty host list. Free it with libi_hosts_free(). Since 0.1. */
libi_hosts *libi_hosts_new(void);

/** Frees a host list. NULL is allowed. Since 0.1. */
void libi_hosts_free(libi_hosts *hosts);

/**
 * Appends the hosts of a text such as "node[001-064]:8, me@login:2222:1".
 *
 * Returns LIBI_OK, or LIBI_ERR_HOSTS if the text has a syntax error: libi_last_error() shows its
 * place, and the list is unchanged. Since 0.1.
 */
libi_result libi_hosts_add_list(libi_hosts *hosts, const char *text);

/**
 * Appends the hosts of a host file, which is passed as its text: one or more hosts on a line,
 * comments after #.
 *
 * Returns as libi_hosts_add_list(). Since 0.1.
 */
libi_result libi_hosts_add_file_text(libi_hosts *hosts, const char *text);

/**
 * Appends the hosts of the Slurm, LSF, PBS or Grid Engine job that this process runs in.
 *
 * Reads the environment; no other thread may change it meanwhile. Returns LIBI_OK, LIBI_NONE if
 * there is no job, or LIBI_ERR_HOSTS if its variables have a syntax error. Since 0.1.
 */
libi_result libi_hosts_add_job(libi_hosts *hosts);

/**
 * Appends one host. user may be NULL, port may be 0 for the default; processes is at least 1.
 *
 * Returns LIBI_OK, or LIBI_ERR_HOSTS if the name, the user or the count is not valid. Since 0.1.
 */
libi_result libi_hosts_add_host(libi_hosts *hosts,
                                const char *name,
                                const char *user,
                                uint16_t port,
                                uint32_t processes);

/**
 * Replaces the list by one of this many processes, placed on its hosts. No host gets more than
 * its number of processes, unless repeat is true: then hosts are filled again and again. plane
 * is the number of processes for LIBI_PLACE_PLANE; the other placements ignore it.
 *
 * Returns LIBI_OK, or LIBI_ERR_ARGUMENT if the processes do not fit, the placement is unknown or
 * the plane is 0; the list is unchanged then. Since 0.1.
 */
libi_result libi_hosts_place(libi_hosts *hosts,
                             uint64_t processes,
                             libi_placement placement,
                             uint32_t plane,
                             bool repeat);

/** The number of entries; 0 for NULL. A host that is named twice has two. Since 0.1. */
size_t libi_hosts_count(const libi_hosts *hosts);

/** The number of processes of all entries; 0 for NULL. Since 0.1. */
uint64_t libi_hosts_processes(const libi_hosts *hosts);

/**
 * Fills *info with an entry, counted from 0. Its strings are valid until the list is changed.
 *
 * Returns LIBI_OK, or LIBI_NONE if there is no such entry. Since 0.1.
 */
libi_result libi_hosts_entry(libi_hosts *hosts,
                             size_t index,
                             libi_hosts_entry_info *info,
                             size_t size);

/**
 * The whole list in its short form, as libi_hosts_add_list() reads it; NULL for NULL. The string
 * is valid until this function is called again. Since 0.1.
 */
const char *libi_hosts_fold(libi_hosts *hosts);

/* ---- Distributions: what to start where ------------------------------------------------------ */

/**
 * Makes a distribution of a program in the session with this number, which is the program's
 * choice. Several distributions may belong to one session. Until its hosts are set it runs once,
 * on this machine.
 *
 * The program is a name that each host looks up in its PATH, or a path. A relative path starts in
 * the working directory if one is set; otherwise, if the file exists below this process's current
 * directory, all hosts use its absolute path; if not, it starts where the remote shell does,
 * usually in the home directory.
 *
 * Returns NULL if executable is NULL. Free it with libi_distribution_free(). Since 0.1.
 */
libi_distribution *libi_distribution_new(uint32_t session, const char *executable);

/** Frees a distribution. NULL is allowed. Launches that have begun are not affected. Since 0.1. */
void libi_distribution_free(libi_distribution *distribution);

/**
 * Sets the hosts: each entry of the list gets as many processes as it says, with the next ranks
 * in this order. The list is copied.
 *
 * Returns LIBI_OK, or the first failure of the list. Since 0.1.
 */
libi_result libi_distribution_set_hosts(libi_distribution *distribution, const libi_hosts *hosts);

/**
 * Sets the hosts as a text such as "node[01-64]:2".
 *
 * Returns LIBI_OK, or LIBI_ERR_HOSTS if the text has a syntax error: libi_last_error() shows its
 * place. Since 0.1.
 */
libi_result libi_distribution_set_host_list(libi_distribution *distribution, const char *text);

/** Appends an argument of the program. argv[0] is not one of them. Since 0.1. */
libi_result libi_distribution_add_arg(libi_distribution *distribution, const char *arg);

/**
 * Sets all arguments of the program: an array that ends with NULL, or NULL for none. argv[0] is
 * not one of them. Since 0.1.
 */
libi_result libi_distribution_set_args(libi_distribution *distribution, const char *const *args);

/**
 * Sets a variable in addition to the environment that the host provides. The last value that was
 * set for a name counts.
 *
 * Returns LIBI_OK, or LIBI_ERR_ARGUMENT if the name is empty or contains "=". Since 0.1.
 */
libi_result libi_distribution_set_env(libi_distribution *distribution,
                                      const char *name,
                                      const char *value);

/**
 * Sets the working directory. NULL, the default, is the one in which the remote shell starts the
 * program. Since 0.1.
 */
libi_result libi_distribution_set_directory(libi_distribution *distribution, const char *directory);

/** The number of its session; 0 for NULL. Since 0.1. */
uint32_t libi_distribution_session(const libi_distribution *distribution);

/* ---- Options: how a launch proceeds ---------------------------------------------------------- */

/** How processes are started on hosts. Since 0.1. */
typedef enum libi_backend {
  /**
   * As the environment variable LIBI_BACKEND says (a name such as "ssh", as of libi run
   * --backend). Without it: directly, if all hosts are this machine; by srun inside a Slurm job,
   * for nodes of the job; else by ssh, but directly on hosts that are this machine. A host is
   * this machine if its entry has neither user nor port, and its name is localhost, the host name
   * or an address of this machine.
   */
  LIBI_BACKEND_AUTO = 0,
  /** All on this machine, whatever the names of the hosts: for tests. */
  LIBI_BACKEND_LOCAL = 1,
  /** ssh, with the user's configuration. */
  LIBI_BACKEND_SSH = 2,
  /** rsh. It sends in plaintext: see libi_options_set_allow_plain(). */
  LIBI_BACKEND_RSH = 3,
  /** The rsh of rsh-redone, as in Debian, whose options differ. */
  LIBI_BACKEND_RSH_REDONE = 4,
  /**
   * Another program that is called like ssh: its arguments, "-l USER" and "-p PORT" where the
   * host list has them, the host, the command. It is killed when the process that called it
   * ends; on this machine it must not exec the command if that is to be detached. qrsh and
   * blaunch, which have neither option, are called as their manuals say.
   */
  LIBI_BACKEND_SHELL = 5,
  /**
   * A program that starts one command on many hosts: ClusterShell's clush, flux, or one that is
   * called like clush: its arguments, the hosts separated by commas, the command. It copies its
   * standard input to every command. Each host then connects to the front end.
   */
  LIBI_BACKEND_STARTER = 6,
  /**
   * Slurm's srun: one job step for all hosts, in the job in which the front end runs, or in a job
   * of its own. Each host then connects to the front end.
   */
  LIBI_BACKEND_SRUN = 7
} libi_backend;

/** How hosts are linked to each other. Since 0.1. */
typedef enum libi_links {
  /**
   * Through the channels of the remote shell until the session is up and a link has carried
   * some 100 KB, or 32 messages of calls; then by a direct connection, where that works.
   */
  LIBI_LINKS_AUTO = 0,
  /** By direct connections from the beginning; a host that cannot be reached so fails. */
  LIBI_LINKS_DIRECT = 1,
  /** Through the channels of the remote shell; no host listens. */
  LIBI_LINKS_CHANNEL = 2
} libi_links;

/** Where the output of members goes. Since 0.1. */
typedef enum libi_output {
  /** It comes as LIBI_EVENT_OUTPUT. Members block while the program does not take the events. */
  LIBI_OUTPUT_EVENTS = 0,
  /** It is written to RANK.out and RANK.err in a directory on this machine. */
  LIBI_OUTPUT_FILES = 1,
  /** It is discarded. */
  LIBI_OUTPUT_DISCARD = 2
} libi_output;

/** Timeouts and limits that hold for all processes of a launch. Since 0.1. */
typedef enum libi_rule {
  /** How long a started process may take to say hello, in ms. Default 30,000. */
  LIBI_RULE_HELLO_TIMEOUT = 0,
  /** How long the further processes of a host may take together to join, in ms. Default 30,000. */
  LIBI_RULE_JOIN_TIMEOUT = 1,
  /**
   * How often a host is launched at most, including the first time. Default 3. 65,535 retries
   * until the deadline, as for hosts that are still booting.
   */
  LIBI_RULE_ATTEMPTS = 2,
  /**
   * The wait before a host is launched again, in ms. Each further wait is twice as long.
   * Default 200.
   */
  LIBI_RULE_BACK_OFF = 3,
  /** The longest such wait, in ms. Default 5,000. */
  LIBI_RULE_BACK_OFF_MAX = 4,
  /**
   * When too many hosts have failed, how long the launch goes on so that further failures are
   * reported as well, in ms. Default 2,000.
   */
  LIBI_RULE_FAILURE_LINGER = 5,
  /** How long processes have to end after SIGTERM before they are killed, in ms. Default 2,000. */
  LIBI_RULE_KILL_GRACE = 6,
  /**
   * How long a peer may be silent before it is lost, in ms. The loss is noticed within 5/4 of
   * this time. Default 20,000.
   */
  LIBI_RULE_PEER_TIMEOUT = 7
} libi_rule;

/** Makes the default options. Free them with libi_options_free(). Since 0.1. */
libi_options *libi_options_new(void);

/** Frees options. NULL is allowed. Launches that have begun are not affected. Since 0.1. */
void libi_options_free(libi_options *options);

/**
 * Sets how many hosts have to join. The session goes on without those that fail. 0, the default,
 * is all of them. The host of the master is needed in any case. Since 0.1.
 */
libi_result libi_options_set_min_hosts(libi_options *options, uint32_t hosts);

/**
 * Sets hosts that replace those that fail, in this order. Several sessions of one launch may
 * each take all of them. The list is copied; NULL is none.
 *
 * Returns LIBI_OK, or the first failure of the list. Since 0.1.
 */
libi_result libi_options_set_spares(libi_options *options, const libi_hosts *spares);

/**
 * Sets which hosts are this machine: the front end starts their processes directly instead of
 * through the remote shell. It does so for hosts that it launches itself, as the first of a
 * session. The list is copied; NULL is none.
 *
 * Returns LIBI_OK, or the first failure of the list. Since 0.1.
 */
libi_result libi_options_set_local_hosts(libi_options *options, const libi_hosts *hosts);

/**
 * Sets how long a launch may take; by default two minutes.
 *
 * Returns LIBI_OK, or LIBI_ERR_ARGUMENT if it is less than 1 ms. Since 0.1.
 */
libi_result libi_options_set_deadline(libi_options *options, libi_timeout deadline);

/**
 * Sets the settle time: when enough hosts have joined, how long no further host may join, fail or
 * be relaunched before the session goes up without those that are still open. LIBI_FOREVER waits
 * until every host has joined or failed. The default is four times the slowest launch so far, and
 * at least 2 s. Since 0.1.
 */
libi_result libi_options_set_settle(libi_options *options, libi_timeout settle);

/**
 * Sets a rule. Durations are 1 ms or more, attempts 1 to 65,535.
 *
 * Returns LIBI_OK, or LIBI_ERR_ARGUMENT if there is no such rule or the value is out of range.
 * Since 0.1.
 */
libi_result libi_options_set_rule(libi_options *options, libi_rule rule, int64_t value);

/** The value of a rule; -1 for NULL and if there is no such rule. Since 0.1. */
int64_t libi_options_rule(const libi_options *options, libi_rule rule);

/**
 * Sets the expected cost of launching a host: seq, how long a launch occupies the launcher, and
 * rem, the time from a start until the new process can launch others. Values measured during the
 * launch replace them.
 *
 * Returns LIBI_OK, or LIBI_ERR_ARGUMENT if one is negative. Since 0.1.
 */
libi_result libi_options_set_cost(libi_options *options, libi_micros seq, libi_micros rem);

/**
 * Sets which host launches which: "late", the default, decides during the launch. The others are
 * trees that are fixed in advance, for comparison: "chain", "flat", "kary:K", "binomial", "rdc",
 * "greedy". Where one process starts all hosts, as srun does, there is no tree of launches: "flat"
 * keeps all connections at the front end, and "kary:K" has K hosts take those of the others; the
 * default is "flat" up to 256 hosts, and the square root of their number above.
 *
 * Returns LIBI_OK, or LIBI_ERR_ARGUMENT if there is no such strategy. Since 0.1.
 */
libi_result libi_options_set_strategy(libi_options *options, const char *strategy);

/**
 * Sets whether the master's standard input is what libi_session_write() sends. By default it is
 * empty, as that of all other members always is. Since 0.1.
 */
libi_result libi_options_set_input(libi_options *options, bool input);

/**
 * Has libi_session_write() send standard input to all programs, each of which gets all of it. This
 * needs libi_options_set_agent(). Since 0.1.
 */
libi_result libi_options_set_input_to_all(libi_options *options);

/**
 * Sets whether members get the umask and the soft resource limits that the front end has when it
 * launches, as far as the hard limits of their hosts allow. By default they have those of the
 * login on their host. A member has them when libi_member_init() returns. Since 0.1.
 */
libi_result libi_options_set_front_end_limits(libi_options *options, bool front_end_limits);

/**
 * Sets where the output of members goes; LIBI_OUTPUT_EVENTS is the default. The directory is for
 * LIBI_OUTPUT_FILES, and is created if it is missing; the others ignore it.
 *
 * Returns LIBI_OK, LIBI_ERR_NULL if a needed directory is NULL, or LIBI_ERR_ARGUMENT. Since 0.1.
 */
libi_result libi_options_set_output(libi_options *options,
                                    libi_output output,
                                    const char *directory);

/**
 * Has equal lines that several members print merged on their way: they come once, as
 * LIBI_EVENT_FOLDED, with the ranks of all. All bytes of each rank and stream come, in their order.
 * A process on the way holds output for at most this many milliseconds, and at most 64 KiB of each
 * process that it has it from; 0 merges only what waits anyway, because the program is slow.
 * libi_options_set_output() undoes it.
 *
 * Returns LIBI_OK, or LIBI_ERR_ARGUMENT if the time is negative. Since 0.1.
 */
libi_result libi_options_set_folded_output(libi_options *options, libi_timeout hold);

/**
 * Sets how hosts are linked to each other; LIBI_LINKS_AUTO is the default.
 *
 * Returns LIBI_OK, or LIBI_ERR_ARGUMENT if there is no such choice. Since 0.1.
 */
libi_result libi_options_set_links(libi_options *options, libi_links links);

/**
 * Sets whether direct connections are encrypted, which is the default. If not, the peers are
 * still authenticated, but data can be read and changed on the way: for trusted networks. Since
 * 0.1.
 */
libi_result libi_options_set_encrypted(libi_options *options, bool encrypted);

/**
 * Sets whether a backend may be used that sends in plaintext, as rsh; by default not. Anyone on
 * the network can then read the session's secret and interfere. Since 0.1.
 */
libi_result libi_options_set_allow_plain(libi_options *options, bool allow);

/**
 * Sets whether all hosts are this machine, whatever their names: direct connections are then
 * made on the loopback address only. Since 0.1.
 */
libi_result libi_options_set_loopback(libi_options *options, bool loopback);

/**
 * Sets the program that leads each host in place of the host's first member: a path, or a name
 * that is searched in PATH there. It starts all members of its host and relays for them and for
 * the hosts below; a member may then end in any way and costs no other one. The program calls
 * libi_agent_serve_if_asked() first, as the programs libi and libi-agent do. NULL, the default:
 * libi_options_set_engine() says what leads a host. Since 0.1.
 */
libi_result libi_options_set_agent(libi_options *options, const char *program);

/**
 * Sets which process carries a host's part of the tree; LIBI_ENGINE_APART is the default.
 *
 * Returns LIBI_OK, or LIBI_ERR_ARGUMENT if there is no such choice. Since 0.1.
 */
libi_result libi_options_set_engine(libi_options *options, libi_engine engine);

/**
 * Sends this file to hosts that do not have it at the path of the agent; each host passes it on to
 * those that it launches, and it is removed when it runs. It is read now. Not for back-ends that
 * start all hosts at once, such as srun. NULL: the agent has to be installed.
 *
 * Returns LIBI_OK; LIBI_ERR_STATE without an agent; LIBI_ERR_ARGUMENT if the file cannot be read.
 * Since 0.1.
 */
libi_result libi_options_set_agent_file(libi_options *options, const char *file);

/**
 * Sets whether members may be any programs, which needs an agent: they are started when the session
 * goes up, and find their place in LIBI_RANK, LIBI_SIZE, LIBI_LOCAL_RANK, LIBI_LOCAL_SIZE and
 * LIBI_HOST. Those that call libi_member_init() join the session. By default all members have to.
 * Since 0.1.
 */
libi_result libi_options_set_any_programs(libi_options *options, bool any_programs);

/**
 * Sets whether agents start no programs, for sessions in which only commands run, with
 * libi_session_spawn(): the session is up when its agents are, and what the distributions say of
 * programs has no meaning. It needs an agent. By default they start the members. Since 0.1.
 */
libi_result libi_options_set_no_programs(libi_options *options, bool no_programs);

/**
 * Sets how processes are started on hosts, and resets all options of the backend. The default is
 * LIBI_BACKEND_AUTO. program is the path or name of the remote shell, which each launching host
 * looks up. NULL is the usual program; LIBI_BACKEND_SHELL has none; LIBI_BACKEND_AUTO and
 * LIBI_BACKEND_LOCAL ignore it.
 *
 * Call it before the other functions for remote shells. Returns LIBI_OK, LIBI_ERR_NULL if a
 * needed program is NULL, or LIBI_ERR_ARGUMENT if there is no such backend or the program is known
 * not to work as one. Since 0.1.
 */
libi_result libi_options_set_backend(libi_options *options,
                                     libi_backend backend,
                                     const char *program);

/**
 * Appends an argument that rsh, another shell, or a starter is called with, before all others; or
 * an option of srun, such as "--partition=debug", after libi's own.
 *
 * Returns LIBI_OK, or LIBI_ERR_STATE if the backend is neither. Since 0.1.
 */
libi_result libi_options_add_shell_arg(libi_options *options, const char *arg);

/**
 * Sets how long a start by srun may wait for resources, 10 minutes by default. This time does not
 * count towards the deadline of the launch.
 *
 * Returns LIBI_OK, LIBI_ERR_STATE if the backend is not srun, or LIBI_ERR_ARGUMENT if it is less
 * than 1 ms. Since 0.1.
 */
libi_result libi_options_set_queue_timeout(libi_options *options, libi_timeout timeout);

/**
 * Sets the option by which another shell takes a user; NULL if it has none. "-l" by default.
 *
 * Returns LIBI_OK, or LIBI_ERR_STATE if the backend is not LIBI_BACKEND_SHELL. Since 0.1.
 */
libi_result libi_options_set_shell_user_option(libi_options *options, const char *option);

/**
 * Sets the option by which rsh or another shell takes a port; NULL if it has none.
 *
 * Returns LIBI_OK, or LIBI_ERR_STATE if the backend is neither. Since 0.1.
 */
libi_result libi_options_set_shell_port_option(libi_options *options, const char *option);

/**
 * Sets the remote user of rsh for hosts whose entry does not say; NULL, the default, is the user
 * that runs the launching process.
 *
 * Returns LIBI_OK, or LIBI_ERR_STATE if the backend is not rsh. Since 0.1.
 */
libi_result libi_options_set_rsh_user(libi_options *options, const char *user);

/**
 * Sets whether parts of the ssh configuration are replaced for speed. Such connections have no
 * post-quantum key exchange, no Kerberos and no compression, and do not learn new host keys.
 * Needs ssh 8.0.
 *
 * Returns LIBI_OK, or LIBI_ERR_STATE if the backend is not ssh. Since 0.1.
 */
libi_result libi_options_set_ssh_fast(libi_options *options, bool fast);

/**
 * Sets which program makes connections of ssh: "openssh" is ssh, with one process for each host;
 * "builtin" is libi-ssh, one process for all; "auto", the default, is libi-ssh where that is
 * installed and does all that is configured for the host, and ssh elsewhere.
 *
 * Returns LIBI_OK, LIBI_ERR_STATE if the backend is not ssh, or LIBI_ERR_ARGUMENT if no client has
 * this name. Since 0.1.
 */
libi_result libi_options_set_ssh_client(libi_options *options, const char *client);

/**
 * Sets the configuration file of ssh. Every launching host reads the file on its own machine.
 * NULL, the default, is the user's configuration.
 *
 * Returns LIBI_OK, or LIBI_ERR_STATE if the backend is not ssh. Since 0.1.
 */
libi_result libi_options_set_ssh_config(libi_options *options, const char *path);

/**
 * Adds an option of ssh as its configuration has it, such as "StrictHostKeyChecking=accept-new",
 * for some hosts or, if hosts is NULL, for all. Options for some hosts come before those for
 * all; of two that set the same, the first counts.
 *
 * Returns LIBI_OK, LIBI_ERR_STATE if the backend is not ssh, or the first failure of the list.
 * Since 0.1.
 */
libi_result libi_options_add_ssh_option(libi_options *options,
                                        const libi_hosts *hosts,
                                        const char *option);

/**
 * Sets how long ssh may take to connect, rounded up to seconds; 10 s by default.
 *
 * Returns LIBI_OK, LIBI_ERR_STATE if the backend is not ssh, or LIBI_ERR_ARGUMENT if it is less
 * than 1 ms. Since 0.1.
 */
libi_result libi_options_set_ssh_connect_timeout(libi_options *options, libi_timeout timeout);

/**
 * Sets whether every collective call waits until all members have made it; by default not. For
 * debugging: a mismatch or a timeout then fails the call itself at all members. Otherwise a call
 * is complete for a member when its own part is, and a member that has completed a call hears of
 * its failure in its next one. Since 0.1.
 */
libi_result libi_options_set_strict_calls(libi_options *options, bool strict);

/**
 * Sets what follows when a member ends or is lost; LIBI_ON_LOSS_FAIL is the default.
 *
 * Returns LIBI_OK, or LIBI_ERR_ARGUMENT if there is no such choice. Since 0.1.
 */
libi_result libi_options_set_on_loss(libi_options *options, libi_on_loss on_loss);

/**
 * Sets how often a lost member is restarted automatically; by default 0. The process that leads
 * its host does so when a process of the member that had joined is ended by a signal, or with
 * another exit status than 0, after a pause that doubles with each start of the member, up to 5 s.
 * Members that are lost with their host start again on a spare host, if one is left
 * (libi_options_set_spares()). Restarts by libi_session_restart() count. Only with
 * LIBI_ON_LOSS_CONTINUE, and where the leader is no member: an agent (libi_options_set_agent()), or
 * LIBI_ENGINE_APART. Since 0.1.
 */
libi_result libi_options_set_restarts(libi_options *options, uint32_t restarts);

/**
 * Sets whether the next rank is the master when the master is lost, and the session outlives its
 * first host; by default not. Only with LIBI_ON_LOSS_CONTINUE. LIBI_EVENT_MASTER_REPLACED reports
 * it. Collective calls pass through the front end then, which costs a message more up and down the
 * tree, and waits for a front end that drives itself. Since 0.1.
 */
libi_result libi_options_set_replace_master(libi_options *options, bool replace);

/**
 * Has the session go on when its front end ends, in whichever way, for at most this time without
 * one. libi_front_attach() finds it by the ticket file, which is written for its owner alone, and
 * removed when the session is over. A process of its own launches the session and keeps it, on
 * this machine: this program, if it has called libi_agent_serve_if_asked(), or that of
 * libi_options_set_keeper(). libi_session_free() and libi_front_free() leave such a session,
 * libi_session_terminate() ends it. A launch with a ticket file is that of one session. NULL, the
 * default: the session ends with its front end.
 *
 * Returns LIBI_OK or LIBI_ERR_NULL. Since 0.1.
 */
libi_result libi_options_set_detached(libi_options *options,
                                      const char *ticket,
                                      libi_timeout limit);

/**
 * Sets the host that the process runs on which keeps a detached session, as user@name:port, and
 * its program. A host is reached by ssh, launches in place of this machine, and is always
 * reachable; NULL, the default, for this machine. The program calls libi_agent_serve_if_asked()
 * first, as the programs libi and libi-agent do; NULL, the default, for this program, which has to
 * have called that. Front ends on other machines may have the session only if the process is
 * reachable: otherwise it listens on the loopback address alone.
 *
 * Returns LIBI_OK; LIBI_ERR_STATE without libi_options_set_detached(); or LIBI_ERR_NULL. Since 0.1.
 */
libi_result libi_options_set_keeper(libi_options *options,
                                    const char *host,
                                    const char *program,
                                    bool reachable);

/**
 * Sets how many launches this process may have in flight at a time, so that it spares the machine
 * that it runs on; by default as many as keep it busy. A launch is in flight from the start of its
 * remote shell until its host has said hello, or until the remote shell has ended. Hosts that are
 * up launch others without this limit. A start of many hosts at once, as by srun, does not count.
 *
 * Returns LIBI_OK, or LIBI_ERR_ARGUMENT for 0. Since 0.1.
 */
libi_result libi_options_set_front_end_launches(libi_options *options, uint32_t launches);

/**
 * Adds a file that every host gets before its programs are started, which needs an agent: it is
 * put under its base name into a private directory, which LIBI_STAGE names, and which is removed
 * when the session ends. A program that is this file is run from there. It is read now. NULL: no
 * files are staged any more.
 *
 * Returns LIBI_OK; LIBI_ERR_ARGUMENT if it cannot be read, or if another file has its name.
 * Since 0.1.
 */
libi_result libi_options_stage(libi_options *options, const char *file);

/**
 * Adds the shared libraries of all executables that are staged, as the dynamic linker of this
 * machine finds them, without those of the C library. Programs get the directory in front of
 * LD_LIBRARY_PATH.
 *
 * Returns LIBI_OK; LIBI_ERR_STATE if no file is staged; LIBI_ERR_ARGUMENT if a library is not
 * found. Since 0.1.
 */
libi_result libi_options_stage_libraries(libi_options *options);

/**
 * Leaves staged files on the hosts when the session ends.
 *
 * Returns LIBI_OK; LIBI_ERR_STATE if no file is staged. Since 0.1.
 */
libi_result libi_options_keep_staged(libi_options *options);

/* ---- The front end --------------------------------------------------------------------------- */

/** Which thread does the library's work. Since 0.1. */
typedef enum libi_progress {
  /** A thread of the library, in which all signals are blocked. */
  LIBI_PROGRESS_THREAD = 0,
  /**
   * The program's event loop: it waits until the object's descriptor is readable or its
   * next_timeout has passed, then calls its dispatch function. Calls that wait do the work as
   * well. Make all calls from one thread that lives as long as the process, best the main one.
   */
  LIBI_PROGRESS_MANUAL = 1
} libi_progress;

/**
 * Called by libi_front_dispatch() for each event. The event is freed when the callback returns.
 * The callback must return normally: no exception, no longjmp. Since 0.1.
 */
typedef void (*libi_event_callback)(void *userdata, const libi_event *event);

/**
 * Makes a front end.
 *
 * *front is the new object, to be freed with libi_front_free(), or NULL after a failure. Returns
 * LIBI_OK, LIBI_ERR_NULL, LIBI_ERR_ARGUMENT, or LIBI_ERR_SYSTEM if there are no descriptors or
 * threads left. Since 0.1.
 */
libi_result libi_front_new(libi_progress progress_by, libi_front **front);

/**
 * Frees a front end and ends all its sessions: members that have not detached are killed. Detached
 * sessions go on. NULL is allowed.
 *
 * Objects of its sessions stay valid and have to be freed; calls that need a running session
 * return LIBI_ERR_ENDED. When called from its own event callback, it is freed after that has
 * returned. Since 0.1.
 */
void libi_front_free(libi_front *front);

/**
 * Launches the sessions of these distributions side by side, and waits until all of them are up,
 * at most until the deadline of the options. Distributions and options are copied. options may
 * be NULL for the defaults.
 *
 * sessions is an array with this much room. It gets one object for each session number of the
 * distributions, in the order in which these are first named, and NULL in the remaining
 * elements. Free each with libi_session_free().
 *
 * Returns LIBI_OK; the first failure of a distribution or of the options; LIBI_ERR_LAYOUT,
 * LIBI_ERR_PLAIN or LIBI_ERR_LENGTH (not enough room) before anything is started; or
 * LIBI_ERR_NOT_LAUNCHED if a session did not come up. Then all of them are ended,
 * libi_last_error() explains it for people, and libi_front_report() for programs. Since 0.1.
 */
libi_result libi_front_launch(libi_front *front,
                              const libi_distribution *const *distributions,
                              size_t count,
                              const libi_options *options,
                              libi_session **sessions,
                              size_t room);

/**
 * As libi_front_launch(), but does not wait: libi_session_wait_up() does, and LIBI_EVENT_UP or
 * LIBI_EVENT_GIVEN_UP comes. Since 0.1.
 */
libi_result libi_front_start(libi_front *front,
                             const libi_distribution *const *distributions,
                             size_t count,
                             const libi_options *options,
                             libi_session **sessions,
                             size_t room);

/**
 * Attaches to a session that was launched with libi_options_set_detached() and has this ticket
 * file. A front end that had it before has it no more, and gets LIBI_EVENT_REVOKED. Events that
 * the one before has not taken, and messages that it has not received, follow. Any thread, at any
 * time.
 *
 * Returns LIBI_OK with a session, to be freed with libi_session_free(); LIBI_ERR_NOT_ATTACHED
 * (libi_last_error() has the reason), also when the timeout has elapsed; or LIBI_ERR_NULL. Since
 * 0.1.
 */
libi_result libi_front_attach(libi_front *front,
                              const char *ticket,
                              libi_timeout timeout,
                              libi_session **session);

/**
 * The report of the last libi_front_launch() that returned LIBI_ERR_NOT_LAUNCHED.
 *
 * Returns LIBI_OK with a report, to be freed with libi_report_free(), or LIBI_NONE. Since 0.1.
 */
libi_result libi_front_report(const libi_front *front, libi_report **report);

/**
 * Waits for the next event of any of its sessions.
 *
 * Returns LIBI_OK with an event, to be freed with libi_event_free(); LIBI_NOT_YET if there is
 * none within the timeout; or, without a limit, LIBI_ERR_ENDED if no event can come any more
 * because a system call has failed. Since 0.1.
 */
libi_result libi_front_next_event(libi_front *front, libi_event **event, libi_timeout timeout);

/**
 * Sets the function that libi_front_dispatch() calls for each event; NULL, the default, for
 * none. The function may call everything but libi_front_dispatch() of the same front end, which
 * returns LIBI_ERR_BUSY. Since 0.1.
 */
libi_result libi_front_set_event_callback(libi_front *front,
                                          libi_event_callback callback,
                                          void *userdata);

/**
 * For event loops: a descriptor that is readable while there are events; while an operation of
 * one of its sessions has finished and was neither polled since nor freed; and, with
 * LIBI_PROGRESS_MANUAL, while there is something to dispatch.
 *
 * Wait for it with poll() or the like; do not read or close it. -1 for NULL. Since 0.1.
 */
int libi_front_descriptor(const libi_front *front);

/**
 * For event loops: how long the loop may wait for the descriptor before libi_front_dispatch()
 * has to be called; -1 (LIBI_FOREVER) is no limit. Every call on the front end may change it.
 * Since 0.1.
 */
libi_timeout libi_front_next_timeout(const libi_front *front);

/**
 * For event loops: does what there is to do without waiting, then calls the event callback for
 * the events there are.
 *
 * Returns LIBI_OK, or LIBI_ERR_BUSY from that callback and while another thread is in this call.
 * Since 0.1.
 */
libi_result libi_front_dispatch(libi_front *front);

/**
 * Launches a daemon for each so many processes of a job on each of its hosts, or if processes is
 * 0 one on each host, as libi_front_launch() does, and hands out the processes: each daemon gets
 * its own by libi_member_targets(). What the distribution says of hosts is replaced. Beside a
 * job of srun the daemons are started in its Slurm job, unless the options name another backend
 * or Slurm job.
 *
 * *session is the new session, to be freed with libi_session_free(). Returns as
 * libi_front_launch(), or as libi_session_send() if the master is lost before it has the table.
 * Since 0.1.
 */
libi_result libi_front_launch_beside(libi_front *front,
                                     const libi_job *job,
                                     uint32_t processes,
                                     const libi_distribution *daemon,
                                     const libi_options *options,
                                     libi_session **session);

/* ---- Sessions, as their front end has them --------------------------------------------------- */

/** The stages of a session. Since 0.1. */
typedef enum libi_stage {
  /** It is being launched. */
  LIBI_STAGE_LAUNCHING = 0,
  /** It is up. */
  LIBI_STAGE_UP = 1,
  /** Every member has ended, has detached, or is lost. */
  LIBI_STAGE_DONE = 2,
  /** It did not come up and is being ended. */
  LIBI_STAGE_GIVEN_UP = 3,
  /** All its processes have ended or detached. */
  LIBI_STAGE_OVER = 4
} libi_stage;

/** Groups of ranks. Since 0.1. */
typedef enum libi_ranks {
  /**
   * Members that did not come up, where the launch allowed that. They take part in nothing,
   * and what they would contribute is empty.
   */
  LIBI_RANKS_ABSENT = 0,
  /**
   * In a front end: members that were lost with their hosts, and how they end is not known. In
   * a member: all members that came up and cannot be reached any more, also because they
   * ended; libi_member_losses() tells how.
   */
  LIBI_RANKS_LOST = 1,
  /**
   * Members that have ended, with any exit status, and were not restarted. Only a front end knows
   * them.
   */
  LIBI_RANKS_ENDED = 2,
  /**
   * Only in a member: lost members without which its last operation completed that waits and has
   * returned LIBI_OK; none unless LIBI_ON_LOSS_CONTINUE is set. For operations that were started
   * there is libi_pending_missing().
   */
  LIBI_RANKS_MISSING = 3,
  /**
   * Only in a member: all members that came up without LIBI_RANKS_MISSING. The same at all of
   * them after libi_member_barrier().
   */
  LIBI_RANKS_LEFT = 4
} libi_ranks;

/** The state of a session. Since 0.1. */
typedef struct libi_session_info {
  /** The number of the session in its distributions. */
  uint32_t number;
  /** The number of members, with those by which it has grown. */
  uint32_t size;
  /** Its stage. */
  libi_stage stage;
  /** Hosts that have joined, while it is launched. */
  uint32_t joined;
  /** Hosts that have failed. */
  uint32_t failed;
  /** Hosts that have neither joined nor failed. */
  uint32_t waiting;
  /**
   * Hosts with a direct link to the host that launched them. May change while the session is
   * up.
   */
  uint32_t direct;
  /** Hosts that could not get a direct link and use the channel of the remote shell instead. */
  uint32_t fell_back;
  /**
   * Bytes of output that were dropped while a detached session had no front end, before this one
   * has attached to it.
   */
  uint64_t missed;
} libi_session_info;

/**
 * Frees a session and ends it: members that have not detached are killed. A detached session goes
 * on (libi_options_set_detached()). NULL is allowed. Since 0.1.
 */
void libi_session_free(libi_session *session);

/** Fills *info with the current state. Any thread, at any time. Since 0.1. */
libi_result libi_session_query(const libi_session *session, libi_session_info *info, size_t size);

/**
 * The layout of a session: where its ranks run, with those by which it has grown.
 *
 * Returns LIBI_OK with a layout, to be freed with libi_layout_free(). Since 0.1.
 */
libi_result libi_session_layout(const libi_session *session, libi_layout **layout);

/**
 * The report of the launch.
 *
 * Returns LIBI_OK with a report, to be freed with libi_report_free(), or LIBI_NONE while the
 * launch is not decided. Since 0.1.
 */
libi_result libi_session_report(const libi_session *session, libi_report **report);

/**
 * The ranks of a group, LIBI_RANKS_LOST or LIBI_RANKS_ENDED: writes the lowest ones, as many as
 * there is room for. ranks may be NULL if room is 0.
 *
 * Returns the number of ranks in the group; 0 for NULL and for another group. Since 0.1.
 */
size_t libi_session_ranks(const libi_session *session,
                          libi_ranks group,
                          uint32_t *ranks,
                          size_t room);

/**
 * Waits until each host has joined or failed, which is at most until the deadline of the launch.
 *
 * Returns LIBI_OK if the session is up; LIBI_ERR_NOT_LAUNCHED if not (libi_last_error() explains
 * it for people, libi_session_report() for programs); or LIBI_ERR_TIMED_OUT. Since 0.1.
 */
libi_result libi_session_wait_up(const libi_session *session, libi_timeout timeout);

/**
 * Waits until every member has ended, has detached, or is lost.
 *
 * Returns LIBI_OK, or LIBI_ERR_TIMED_OUT. Since 0.1.
 */
libi_result libi_session_wait_done(const libi_session *session, libi_timeout timeout);

/**
 * Writes to the standard input of the master, or of all programs. Waits while the session is
 * launched. The options have to ask for it: libi_options_set_input(),
 * libi_options_set_input_to_all().
 *
 * Returns LIBI_OK when all bytes are on their way; LIBI_ERR_TIMED_OUT if a program does not
 * read them in time (a part may have been written); LIBI_ERR_STATE without the option; or
 * LIBI_ERR_ENDED. Since 0.1.
 */
libi_result libi_session_write(libi_session *session,
                               const void *bytes,
                               size_t length,
                               libi_timeout timeout);

/** Closes that standard input. Since 0.1. */
libi_result libi_session_close_input(libi_session *session);

/**
 * Sends a signal to the process of every member that has not detached and not ended.
 *
 * Returns LIBI_OK, or LIBI_ERR_ARGUMENT if there is no such signal. Since 0.1.
 */
libi_result libi_session_kill(libi_session *session, int signal);

/**
 * Ends the session: sends SIGTERM to every member that has not detached, and kills those that
 * are left after the grace period. Returns when all have ended. Another thread may call it
 * meanwhile to shorten the grace period.
 *
 * Returns LIBI_OK, or LIBI_ERR_TIMED_OUT if processes are left even though they were killed.
 * Since 0.1.
 */
libi_result libi_session_terminate(libi_session *session, libi_timeout grace);

/**
 * Launches further members on the hosts of these distributions, with the next ranks, below the
 * hosts that the session has, and waits until they take part. Only while the session is up, with
 * LIBI_ON_LOSS_CONTINUE, and not through a backend that starts all hosts together, such as srun.
 * The options of the launch hold: its deadline, and whether all hosts have to join; if not,
 * those take part that have, at least one. The sessions that the distributions name do not
 * matter. One growth is made at a time.
 *
 * Members learn of it with the result of a collective call, the same at all: from the next call
 * on, the new ones take part, and libi_member_size() is greater. libi_member_first_call() tells
 * the new ones where they begin. LIBI_EVENT_GROWN or LIBI_EVENT_NOT_GROWN reports the answer,
 * too. Any thread, at any time.
 *
 * Fills *growth, and returns LIBI_OK; LIBI_ERR_NOT_GROWN (libi_last_error() has the reason, and
 * the report those of hosts); LIBI_ERR_ARGUMENT or LIBI_ERR_LAYOUT for distributions that cannot
 * be launched; or LIBI_ERR_ENDED. Since 0.1.
 */
libi_result libi_session_add(libi_session *session,
                             const libi_distribution *const *distributions,
                             size_t count,
                             libi_growth *growth,
                             size_t size);

/**
 * As libi_session_add(), but does not wait: LIBI_EVENT_GROWN or LIBI_EVENT_NOT_GROWN reports the
 * answer.
 *
 * Returns LIBI_OK; LIBI_ERR_NOT_GROWN if another growth is under way; or as libi_session_add().
 * Since 0.1.
 */
libi_result libi_session_request_add(libi_session *session,
                                     const libi_distribution *const *distributions,
                                     size_t count);

/**
 * The rank of the master, with which the front end exchanges messages: 0, or after
 * libi_options_set_replace_master() the next rank that was left when it was lost; UINT32_MAX for
 * NULL. Any thread, at any time. Since 0.1.
 */
uint32_t libi_session_master(const libi_session *session);

/**
 * Sends a message to the master, which receives it with libi_member_recv(). Messages arrive in
 * the order in which they were sent, and wait until the session is up. Returns when the message
 * has left this process, which does not mean that it was received.
 *
 * Returns LIBI_OK; LIBI_ERR_PEER_LOST if the master is lost (where it is replaced, try again after
 * LIBI_EVENT_MASTER_REPLACED); LIBI_ERR_ENDED if the session did
 * not come up or is over; LIBI_ERR_TIMED_OUT, and the message is withdrawn if that is still
 * possible. Since 0.1.
 */
libi_result libi_session_send(libi_session *session,
                              const void *bytes,
                              size_t length,
                              libi_timeout timeout);

/** Starts libi_session_send(). The message is copied. Since 0.1. */
libi_result libi_session_start_send(libi_session *session,
                                    const void *bytes,
                                    size_t length,
                                    libi_pending **pending);

/**
 * Receives the next message that the master has sent with libi_member_send(), in part 0 of
 * *data, which is to be freed with libi_data_free().
 *
 * Returns LIBI_OK; LIBI_ERR_PEER_LOST if the master is lost; LIBI_ERR_ENDED if the session did
 * not come up or is over; LIBI_ERR_TIMED_OUT, and a message that comes later is received by the
 * next call. Since 0.1.
 */
libi_result libi_session_recv(libi_session *session, libi_data **data, libi_timeout timeout);

/**
 * Starts libi_session_recv(). Several may be pending; they receive in the order of their start.
 * Since 0.1.
 */
libi_result libi_session_start_recv(libi_session *session, libi_pending **pending);

/**
 * Sends bytes to all members, which receive them with libi_member_broadcast_from_front().
 *
 * Returns as libi_session_send(). Since 0.1.
 */
libi_result libi_session_broadcast(libi_session *session,
                                   const void *bytes,
                                   size_t length,
                                   libi_timeout timeout);

/** Starts libi_session_broadcast(). The bytes are copied. Since 0.1. */
libi_result libi_session_start_broadcast(libi_session *session,
                                         const void *bytes,
                                         size_t length,
                                         libi_pending **pending);

/**
 * Collects what all members pass to libi_member_gather_to_front(): one part for each rank in
 * *data, empty for absent members.
 *
 * Returns as libi_session_send(); *data is to be freed with libi_data_free(). Since 0.1.
 */
libi_result libi_session_gather(libi_session *session, libi_data **data, libi_timeout timeout);

/** Starts libi_session_gather(). Since 0.1. */
libi_result libi_session_start_gather(libi_session *session, libi_pending **pending);

/**
 * Starts a member again whose process has ended: the same program, on the same host, as the same
 * rank. If its host is lost, all members that were lost with it start again: on a spare host that
 * is left (libi_options_set_spares()), else on the same machine. Only while the session is up,
 * with LIBI_ON_LOSS_CONTINUE, and where the process that leads the host is no member: an agent
 * (libi_options_set_agent()), or LIBI_ENGINE_APART. Not for members of lost hosts through a
 * back-end that starts all hosts together, such as srun.
 *
 * Returns when the new process has joined; libi_member_first_call() tells it where calls go on. It
 * gets no standard input from the front end. A process that does not join within
 * LIBI_RULE_JOIN_TIMEOUT is killed. LIBI_EVENT_RESTARTED or LIBI_EVENT_NOT_RESTARTED reports the
 * answer, too. The session is not done while a member is restarted; when it is done, no member can
 * be restarted. Any thread, at any time.
 *
 * Returns LIBI_OK; LIBI_ERR_NOT_RESTARTED (libi_last_error() has the reason); LIBI_ERR_TIMED_OUT,
 * and the restart goes on; or LIBI_ERR_ENDED. Since 0.1.
 */
libi_result libi_session_restart(libi_session *session, uint32_t rank, libi_timeout timeout);

/**
 * As libi_session_restart(), for a member whose host is lost: it starts on this host, which is
 * named as in host lists, and with it all that were lost with their host.
 *
 * Returns what that does; LIBI_ERR_NULL; LIBI_ERR_ARGUMENT if that is no name of a host. Since 0.1.
 */
libi_result libi_session_restart_on(libi_session *session,
                                    uint32_t rank,
                                    const char *host,
                                    libi_timeout timeout);

/**
 * As libi_session_restart(), but does not wait: LIBI_EVENT_RESTARTED or LIBI_EVENT_NOT_RESTARTED
 * reports the answer. Each request has one. Since 0.1.
 */
libi_result libi_session_request_restart(libi_session *session, uint32_t rank);

/**
 * As libi_session_restart_on(), but does not wait: LIBI_EVENT_RESTARTED or LIBI_EVENT_NOT_RESTARTED
 * reports the answer. Since 0.1.
 */
libi_result libi_session_request_restart_on(libi_session *session, uint32_t rank, const char *host);

/**
 * Chooses what follows when a member is lost from now on. A session that was launched with
 * LIBI_ON_LOSS_CONTINUE may be changed to LIBI_ON_LOSS_END and back, others to LIBI_ON_LOSS_END and
 * LIBI_ON_LOSS_FAIL: whether calls go on after a loss stays as it was at the launch. Losses of
 * which the front end hears later follow the new choice. Any thread, at any time.
 *
 * Returns LIBI_OK, LIBI_ERR_ARGUMENT if there is no such choice in this session, or
 * LIBI_ERR_ENDED. Since 0.1.
 */
libi_result libi_session_set_on_loss(libi_session *session, libi_on_loss on_loss);

/**
 * Runs the program of a distribution, with its arguments, variables and directory, on hosts of a
 * session that is up and led by agents: libi_options_set_agent(). Nothing is launched. The hosts
 * are those of the list, or all that are left if it is NULL; those of the distribution and its
 * session have no meaning. On each host per_host processes run, at least one.
 *
 * Processes that have not ended after timeout milliseconds are killed; with -1 they have as much
 * time as the session. Output and ends come as events: LIBI_EVENT_COMMAND_OUTPUT and those behind
 * it. Any number of commands may run at the same time.
 *
 * Returns LIBI_OK with the command, to be freed with libi_command_free(); LIBI_ERR_STATE if the
 * session has no agents, or is not up yet; LIBI_ERR_ARGUMENT if a host is not in the session or
 * lost, or per_host is 0; or LIBI_ERR_ENDED. Since 0.1.
 */
libi_result libi_session_spawn(libi_session *session,
                               const libi_distribution *program,
                               const libi_hosts *hosts,
                               uint16_t per_host,
                               libi_timeout timeout,
                               libi_command **command);

/**
 * The numbers of the hosts of a session that are up and not lost, which commands can run on:
 * writes the lowest ones, as many as there is room for. hosts may be NULL if room is 0.
 *
 * Returns how many there are; 0 for NULL. Since 0.1.
 */
size_t libi_session_live_hosts(const libi_session *session, uint32_t *hosts, size_t room);

/**
 * All processes of the job that this session was launched beside, once the daemons have called
 * libi_member_targets(): those that are known, and if these are not all, those that the daemons
 * have found. Called once, before libi_session_gather().
 *
 * *processes is the new object, to be freed with libi_processes_free(). Returns as
 * libi_session_gather(). Since 0.1.
 */
libi_result libi_session_processes_of(libi_session *session,
                                      const libi_job *job,
                                      libi_processes **processes,
                                      libi_timeout timeout);

/**
 * Lets these ranks of a job beside the session go on to their program, where they are held, and
 * waits until they do. All daemons call libi_member_release_when_told(), also those that have
 * none of them.
 *
 * Returns LIBI_OK; LIBI_ERR_TIMED_OUT (libi_last_error() names ranks that are still held); or as
 * libi_session_broadcast() and libi_session_gather(). Since 0.1.
 */
libi_result libi_session_release(libi_session *session,
                                 const uint32_t *ranks,
                                 size_t count,
                                 libi_timeout timeout);

/* ---- Layouts: where ranks run ---------------------------------------------------------------- */

/** A layout as a whole. Since 0.1. */
typedef struct libi_layout_info {
  /** The number of its session. */
  uint32_t session;
  /** The number of members. */
  uint32_t size;
  /**
   * The number of hosts, each counted once. They are numbered from 0 in the order in which
   * they are first named.
   */
  uint32_t hosts;
} libi_layout_info;

/** A host of a layout. Since 0.1. */
typedef struct libi_layout_host_info {
  /** Its name in the host list. */
  const char *name;
  /** The number of members on it. */
  uint32_t members;
  /** The rank of its leader, the lowest on it: the member that is part of the launch tree. */
  uint32_t leader;
} libi_layout_host_info;

/** A rank of a layout. Since 0.1. */
typedef struct libi_layout_rank_info {
  /** The number of its host. */
  uint32_t host;
  /** The distribution that says what it runs, by its index in the array that was passed. */
  uint32_t distribution;
} libi_layout_rank_info;

/**
 * Computes the layouts of the sessions of these distributions without launching anything.
 *
 * layouts is an array with this much room. It gets one object for each session number, in the
 * order in which these are first named, and NULL in the remaining elements. Free each with
 * libi_layout_free(). Returns LIBI_OK, the first failure of a distribution, LIBI_ERR_LAYOUT, or
 * LIBI_ERR_LENGTH if there is not enough room. Since 0.1.
 */
libi_result libi_layout_new(const libi_distribution *const *distributions,
                            size_t count,
                            libi_layout **layouts,
                            size_t room);

/** Frees a layout. NULL is allowed. Since 0.1. */
void libi_layout_free(libi_layout *layout);

/** Fills *info with the numbers of the layout. Since 0.1. */
libi_result libi_layout_query(const libi_layout *layout, libi_layout_info *info, size_t size);

/**
 * Fills *info with a host.
 *
 * Returns LIBI_OK, or LIBI_NONE if there is no such host. Since 0.1.
 */
libi_result libi_layout_host(const libi_layout *layout,
                             uint32_t host,
                             libi_layout_host_info *info,
                             size_t size);

/**
 * Fills *info with a rank.
 *
 * Returns LIBI_OK, or LIBI_NONE if there is no such rank. Since 0.1.
 */
libi_result libi_layout_rank(const libi_layout *layout,
                             uint32_t rank,
                             libi_layout_rank_info *info,
                             size_t size);

/* ---- Failures -------------------------------------------------------------------------------- */

/** How a process has ended. Since 0.1. */
typedef enum libi_exit {
  /** It has not ended, as far as is known. */
  LIBI_EXIT_NONE = 0,
  /** It has exited; the value is its status. */
  LIBI_EXIT_CODE = 1,
  /** A signal has killed it; the value is the signal. */
  LIBI_EXIT_SIGNAL = 2,
  /**
   * The remote shell has exited, with the value as status, and the exit of the program is not
   * known.
   */
  LIBI_EXIT_SHELL = 3,
  /** It has ended, but its exit status was collected by another part of the process. */
  LIBI_EXIT_UNKNOWN = 4
} libi_exit;

/** The phases of the launch of a host. Since 0.1. */
typedef enum libi_phase {
  /** Its launch has not begun. */
  LIBI_PHASE_WAITING = 0,
  /** It was started, and nothing in the protocol has come from it. */
  LIBI_PHASE_STARTING = 1,
  /** It speaks the protocol, but has not said hello. */
  LIBI_PHASE_HANDSHAKING = 2,
  /** Its leader is up, and its further members are joining. */
  LIBI_PHASE_JOINING = 3,
  /** All its members are up. */
  LIBI_PHASE_JOINED = 4
} libi_phase;

/** Causes of failures. Later versions may have more. Since 0.1. */
typedef enum libi_cause {
  /** The process could not be started. */
  LIBI_CAUSE_NOT_STARTED = 1,
  /** The host that was to start it is out of descriptors, processes or memory. */
  LIBI_CAUSE_OUT_OF_RESOURCES = 2,
  /** The process has ended: see exit. */
  LIBI_CAUSE_EXITED = 3,
  /** The peer has closed the link. */
  LIBI_CAUSE_CLOSED = 4,
  /** It timed out in this phase. */
  LIBI_CAUSE_TIMED_OUT = 5,
  /** It has violated the protocol. */
  LIBI_CAUSE_PROTOCOL = 6,
  /** It speaks no common version of the protocol. */
  LIBI_CAUSE_VERSION = 7,
  /** It has presented a ticket that was not issued to it. */
  LIBI_CAUSE_WRONG_TICKET = 8,
  /**
   * Heartbeats have stopped for LIBI_RULE_PEER_TIMEOUT after it was up; or for half that time,
   * and then its link or its remote shell ended; or it said that it had heard nothing for that
   * timeout.
   */
  LIBI_CAUSE_HEARTBEAT_LOST = 9,
  /** It could not reach its parent directly, and the options do not allow the channel. */
  LIBI_CAUSE_UNREACHABLE = 10,
  /** The host that was to launch it is lost. */
  LIBI_CAUSE_LAUNCHER_LOST = 11,
  /** The launch was cancelled for other reasons. */
  LIBI_CAUSE_CANCELLED = 12,
  /** Enough hosts had joined, and it did not join within the settle time. */
  LIBI_CAUSE_SETTLE_ELAPSED = 13,
  /** The host of the master had failed, so the launch was given up. */
  LIBI_CAUSE_MASTER_FAILED = 14,
  /** Too many other hosts had failed, so the launch was given up. */
  LIBI_CAUSE_LAUNCH_FAILED = 15,
  /** The process that was to start many hosts ended before this host had arrived. */
  LIBI_CAUSE_STARTER_EXITED = 16,
  /** Its start did not get resources in time, as from a full cluster. */
  LIBI_CAUSE_NOT_SCHEDULED = 17,
  /**
   * The staged files could not be written there, were not those that were sent, or did not arrive
   * in time.
   */
  LIBI_CAUSE_NOT_STAGED = 18
} libi_cause;

/** The content of a failure. Strings belong to the failure. Since 0.1. */
typedef struct libi_failure_info {
  /** All of it as one line: cause, exit status, elapsed time, evidence. */
  const char *text;
  /** How far it has come. */
  libi_phase phase;
  /** Why it has not come further. */
  libi_cause cause;
  /** How its process has ended, if that is known. */
  libi_exit exit;
  /** The status or signal for exit. */
  int32_t exit_value;
  /**
   * The error of the remote shell or of the command that it was to run, in a few words, such
   * as "unknown host name"; NULL if the error is another.
   */
  const char *shell_error;
  /** The line of its output that says what went wrong; empty if there is none. */
  const char *evidence;
  /** The end of its output; may be empty. */
  const char *tail;
  /** The time from its start to the failure. */
  libi_micros elapsed;
  /** The rank of the member that has failed, if it is not the leader of the host; otherwise -1. */
  int64_t member;
} libi_failure_info;

/** Fills *info with the content of the failure. Since 0.1. */
libi_result libi_failure_query(const libi_failure *failure, libi_failure_info *info, size_t size);

/* ---- Events ---------------------------------------------------------------------------------- */

/** The kinds of events. Later versions may have more: ignore what is unknown. Since 0.1. */
typedef enum libi_event_kind {
  /** An event that this version has no kind for. */
  LIBI_EVENT_OTHER = 0,
  /** The session is up, and its report is available. */
  LIBI_EVENT_UP = 1,
  /** The session did not come up; its report says why. What is left of it is being ended. */
  LIBI_EVENT_GIVEN_UP = 2,
  /** A member has printed something: whole lines, unless they are long or slow to end. */
  LIBI_EVENT_OUTPUT = 3,
  /** A member has ended. */
  LIBI_EVENT_EXITED = 4,
  /** A member has detached and lives on without the session. */
  LIBI_EVENT_DETACHED = 5,
  /** A host was lost after the session was up, with every member on it that had not detached. */
  LIBI_EVENT_LOST = 6,
  /** Every member has ended, has detached, or is lost. It comes after all output. */
  LIBI_EVENT_DONE = 7,
  /** Output could not be written to a file: see text. Only the first failure of a session comes. */
  LIBI_EVENT_OUTPUT_FAILED = 8,
  /**
   * The launch waits for resources, as a resource manager says: see text. That time does not
   * count towards the deadline of the launch.
   */
  LIBI_EVENT_WAITING = 9,
  /**
   * A resource manager ends the processes of a session that is up, because its job or its step was
   * cancelled or has no time left: see text. The ends of members are reported as always.
   */
  LIBI_EVENT_REVOKED = 10,
  /**
   * Members have printed something, each the same: see libi_event_ranks(). It comes instead of
   * LIBI_EVENT_OUTPUT after libi_options_set_folded_output().
   */
  LIBI_EVENT_FOLDED = 11,
  /** A process of a command has printed something. */
  LIBI_EVENT_COMMAND_OUTPUT = 12,
  /**
   * A process of a command has ended, or its host is lost. All of its output came before, unless
   * its host is lost or it is late.
   */
  LIBI_EVENT_COMMAND_ENDED = 13,
  /** All processes of a command have ended: its last event. */
  LIBI_EVENT_COMMAND_DONE = 14,
  /** Staged files are on their way to the hosts: see text. */
  LIBI_EVENT_STAGING = 15,
  /**
   * A new process has taken the place of a lost member, after libi_session_restart() or
   * libi_options_set_restarts(). Its end is reported as that of the first process was.
   */
  LIBI_EVENT_RESTARTED = 16,
  /** A lost member was not restarted: see text. */
  LIBI_EVENT_NOT_RESTARTED = 17,
  /** Further hosts are in the session, after libi_session_add(): see libi_event_ranks(). */
  LIBI_EVENT_GROWN = 18,
  /** No further hosts are in the session: see text. */
  LIBI_EVENT_NOT_GROWN = 19,
  /**
   * Another member is the master, in place of a lost one, after libi_options_set_replace_master():
   * messages of the front end go to it from now on.
   */
  LIBI_EVENT_MASTER_REPLACED = 20
} libi_event_kind;

/** The content of an event. Strings, bytes and the failure belong to the event. Since 0.1. */
typedef struct libi_event_info {
  /** What has happened. */
  libi_event_kind kind;
  /** The number of the session. */
  uint32_t session;
  /**
   * The rank that has printed, ended or detached, or was or was not restarted; -1 for other
   * events, also of commands.
   */
  int64_t rank;
  /** The stream of output: 1 for standard output, 2 for standard error; 0 for other events. */
  int32_t stream;
  /** How a member or a process of a command has ended; LIBI_EXIT_NONE for other events. */
  libi_exit exit;
  /** The status or signal for exit. */
  int32_t exit_value;
  /** The output, without a NUL at its end; NULL for other events. */
  const void *bytes;
  /** The length of the output. */
  size_t length;
  /** The number of the host that was lost, or of a command's process; -1 for other events. */
  int64_t host;
  /**
   * The name of the host that was lost, or of the member that has ended, or was or was not
   * restarted, or of a command's process; NULL for other events.
   */
  const char *host_name;
  /** Why the host was lost; NULL for other events. */
  const libi_failure *failure;
  /** The event as one line for people. */
  const char *text;
  /** The number of the command; 0 for other events. */
  uint64_t command;
  /** The number of the process among those of the command on its host; 0 for other events. */
  uint32_t process;
  /** How a process of a command has ended. */
  libi_outcome outcome;
} libi_event_info;

/** Frees an event. NULL is allowed. Since 0.1. */
void libi_event_free(libi_event *event);

/** Fills *info with the content of the event. Since 0.1. */
libi_result libi_event_query(const libi_event *event, libi_event_info *info, size_t size);

/**
 * The ranks that an event is about: those that have printed the output of LIBI_EVENT_FOLDED, those
 * that were lost with the host of LIBI_EVENT_LOST, the new ones of LIBI_EVENT_GROWN that have come
 * up, or the one that libi_event_info names. Writes
 * the lowest ones, as many as there is room for. ranks may be NULL if room is 0.
 *
 * Returns the number of ranks; 0 for NULL and for events without ranks. Since 0.1.
 */
size_t libi_event_ranks(const libi_event *event, uint32_t *ranks, size_t room);

/* ---- Reports of launches --------------------------------------------------------------------- */

/** A report as a whole. Strings and failures belong to the report. Since 0.1. */
typedef struct libi_report_info {
  /** The number of the session. */
  uint32_t session;
  /** The number of hosts, each counted once. They are numbered from 0, as in the layout. */
  uint32_t hosts;
  /** How many of them have joined. */
  uint32_t joined;
  /** How many hosts were replaced by spares. */
  uint32_t replacements;
  /** Whether the session came up. */
  bool is_up;
  /** The duration of the launch. */
  libi_micros took;
  /** The measured cost, as in libi_options_set_cost(); -1 if too few hosts were launched. */
  libi_micros cost_seq;
  /** The other part of the measured cost; -1 as well. */
  libi_micros cost_rem;
  /**
   * If hosts could not launch each other, so that the front end has launched all of them: the
   * name of the host on which that was noticed. Otherwise NULL.
   */
  const char *flat_host;
  /** The first launch by that host that failed; otherwise NULL. */
  const libi_failure *flat_failure;
} libi_report_info;

/** The launch of a host. Strings and failures belong to the report. Since 0.1. */
typedef struct libi_report_host_info {
  /** Its name; that of the spare, if one has replaced it. */
  const char *name;
  /** The number of members on it. */
  uint32_t members;
  /** How often its launch was begun. */
  uint32_t attempts;
  /**
   * The number of the host that has launched it; -1 if that was the front end, or if its
   * launch has not begun.
   */
  int64_t launcher;
  /** From the beginning of the launch to the start of this host. */
  libi_micros started;
  /** From its start to the hello of its leader; -1 if there was none. */
  libi_micros hello;
  /** From the hello until all its members were up; -1 if they were not. */
  libi_micros joined;
  /**
   * 1 if its link to the host that launched it is direct; 0 if it is the channel of the remote
   * shell, although it was to be direct; -1 otherwise.
   */
  int32_t direct;
  /**
   * Whether its first member's own process carries its part of the tree, although the launch has
   * LIBI_ENGINE_APART.
   */
  bool in_program;
  /** Why it has not joined; NULL if it has. */
  const libi_failure *failure;
} libi_report_host_info;

/** The replacement of a host by a spare. Strings and failures belong to the report. Since 0.1. */
typedef struct libi_report_replacement_info {
  /** The number of the host. */
  uint32_t host;
  /** The name that failed. */
  const char *name;
  /** The name of the spare. */
  const char *spare;
  /** Why it was replaced. */
  const libi_failure *failure;
} libi_report_replacement_info;

/** Frees a report. NULL is allowed. Since 0.1. */
void libi_report_free(libi_report *report);

/** Fills *info with the report as a whole. Since 0.1. */
libi_result libi_report_query(const libi_report *report, libi_report_info *info, size_t size);

/**
 * Fills *info with a host.
 *
 * Returns LIBI_OK, or LIBI_NONE if there is no such host. Since 0.1.
 */
libi_result libi_report_host(const libi_report *report,
                             uint32_t host,
                             libi_report_host_info *info,
                             size_t size);

/**
 * Fills *info with a replacement, counted from 0.
 *
 * Returns LIBI_OK, or LIBI_NONE if there is no such replacement. Since 0.1.
 */
libi_result libi_report_replacement(const libi_report *report,
                                    uint32_t index,
                                    libi_report_replacement_info *info,
                                    size_t size);

/**
 * The report for people: failures grouped by cause, with the hosts folded, the evidence quoted,
 * and a hint. NULL for NULL. The string belongs to the report. Since 0.1.
 */
const char *libi_report_text(const libi_report *report);

/**
 * The timeline of the launch as Chrome trace JSON, which "libi trace" reads too. NULL for NULL.
 * The string belongs to the report. Since 0.1.
 */
const char *libi_report_json(const libi_report *report);

/**
 * The timeline of the launch as SVG, beside its prediction. NULL for NULL. The string belongs to
 * the report. Since 0.1.
 */
const char *libi_report_svg(const libi_report *report);

/* ---- Received bytes -------------------------------------------------------------------------- */

/** The number of parts; 0 for NULL. Since 0.1. */
size_t libi_data_count(const libi_data *data);

/**
 * The bytes of a part, counted from 0. NULL if there is no such part; never NULL for one that is
 * empty.
 *
 * They belong to the data, are not aligned (copy numbers out of them), and no NUL follows them.
 * Since 0.1.
 */
const void *libi_data_bytes(const libi_data *data, size_t index);

/** The length of a part; 0 if there is no such part. Since 0.1. */
size_t libi_data_length(const libi_data *data, size_t index);

/** Frees data. NULL is allowed. Since 0.1. */
void libi_data_free(libi_data *data);

/* ---- Operations in progress ------------------------------------------------------------------ */

/** A member's position in a ring: see libi_member_ring(). Since 0.1. */
typedef struct libi_ring_position {
  /** The sum of the weights of all members before this one. */
  uint64_t before;
  /** The position, counted from 0. */
  uint32_t rank;
  /** The number of members in the ring. */
  uint32_t size;
} libi_ring_position;

/**
 * Waits until the operation has finished. When the timeout passes it goes on: to give it up,
 * call libi_pending_cancel().
 *
 * Returns what the form of the operation that waits would return, or LIBI_NOT_YET if it has not
 * finished; LIBI_ERR_BUSY inside a function that the library has called. After the operation has
 * finished, this and libi_pending_poll() keep returning the same. Since 0.1.
 */
libi_result libi_pending_wait(libi_pending *pending, libi_timeout timeout);

/**
 * Whether the operation has finished. Does not wait; with LIBI_PROGRESS_MANUAL it does what
 * there is to do.
 *
 * For event loops: the descriptor of the front end or member is readable while an operation has
 * finished and was not polled since. Returns as libi_pending_wait(). Since 0.1.
 */
libi_result libi_pending_poll(libi_pending *pending);

/**
 * Takes the data of an operation after libi_pending_wait() or libi_pending_poll() has returned
 * LIBI_OK. *data is NULL if the operation has none, or none at this member; otherwise free it
 * with libi_data_free().
 *
 * Returns LIBI_OK; the code of the operation if it has failed; or LIBI_ERR_STATE if it has not
 * finished, or its data were taken before. Since 0.1.
 */
libi_result libi_pending_take(libi_pending *pending, libi_data **data);

/**
 * The position that libi_member_start_ring() has found. Call it before libi_pending_take().
 *
 * Returns LIBI_OK; the code of the operation if it has failed; or LIBI_ERR_STATE if it has not
 * finished, is not a ring, or its data were taken. Since 0.1.
 */
libi_result libi_pending_ring_position(libi_pending *pending, libi_ring_position *place);

/**
 * The lost members without which an operation has completed, after libi_pending_wait() or
 * libi_pending_poll() has returned LIBI_OK, with LIBI_ON_LOSS_CONTINUE: writes the lowest ones, as
 * many as there is room for. ranks may be NULL if room is 0. All members get the same
 * for a barrier, a fence, an allreduce, an allgather and an alltoall. Of the others, the root of a
 * gather or a reduction gets those whose data are missing, and each other member those it knew of
 * when its own part was done.
 *
 * Returns the number of missing members; 0 for NULL, and before the operation has completed.
 * Since 0.1.
 */
size_t libi_pending_missing(libi_pending *pending, uint32_t *ranks, size_t room);

/**
 * Gives up an operation that has not finished. A collective operation is then over for all
 * members that had not finished it, with LIBI_ERR_CANCELLED. A message that was not received is
 * left for the next receive; one that was being sent may arrive.
 *
 * Returns LIBI_OK, also if the operation had finished. If not, it returns LIBI_ERR_CANCELLED
 * from now on. Since 0.1.
 */
libi_result libi_pending_cancel(libi_pending *pending);

/**
 * Frees the object. NULL is allowed. An operation that has not finished goes on, and its result
 * is discarded, even a received message: libi_pending_cancel() gives it up. Since 0.1.
 */
void libi_pending_free(libi_pending *pending);

/* ---- Values of a reduction by a function ----------------------------------------------------- */

/**
 * A function that combines two values. into is the value of some members, and becomes that of
 * these and the following ones, whose value is other. The function has to be associative and the
 * same at all members. Values may have any length; other is not aligned.
 *
 * It is called in any thread that waits in a function of the member, or in the library's thread;
 * never in two at once for the same operation. The member makes no progress meanwhile. It has to
 * return: no longjmp; an exception aborts the process. exit() ends the process as usual, and
 * other members see that it is lost. It may read the rank, the size and the like. Functions that
 * start something or wait return LIBI_ERR_BUSY for all objects, and it must not wait for a
 * thread that calls them. Since 0.1.
 */
typedef void (*libi_fold)(void *userdata, libi_value *into, const void *other, size_t length);

/**
 * Called once when the userdata of a libi_fold are not needed any more: in any thread, perhaps
 * after the operation has finished. The restrictions of libi_fold hold. Since 0.1.
 */
typedef void (*libi_release)(void *userdata);

/**
 * The bytes of a value, which may be changed. They are not aligned, and move when the value is
 * resized. NULL for NULL and for a value whose function has returned. Since 0.1.
 */
void *libi_value_bytes(libi_value *value);

/** The length of a value; 0 for NULL and for a value whose function has returned. Since 0.1. */
size_t libi_value_length(const libi_value *value);

/**
 * Changes the length of a value. New bytes are zeros.
 *
 * Returns LIBI_OK, LIBI_ERR_NULL, LIBI_ERR_HANDLE if the function of the value has returned, or
 * LIBI_ERR_NO_MEMORY. Since 0.1.
 */
libi_result libi_value_resize(libi_value *value, size_t length);

/* ---- Losses of members ----------------------------------------------------------------------- */

/**
 * How a process was lost. Later versions may have more: treat what is unknown as
 * LIBI_LOSS_OTHER. Since 0.1.
 */
typedef enum libi_loss_kind {
  /** An end that this version has no kind for: see text. */
  LIBI_LOSS_OTHER = 0,
  /** It has exited; the value is its status. */
  LIBI_LOSS_EXITED = 1,
  /** A signal has killed it; the value is the signal. */
  LIBI_LOSS_KILLED = 2,
  /** Nothing was heard of its host for too long: see LIBI_CAUSE_HEARTBEAT_LOST. */
  LIBI_LOSS_SILENT = 3,
  /** The link to it has closed, and how it has ended is not known. */
  LIBI_LOSS_CLOSED = 4
} libi_loss_kind;

/**
 * A loss: members that were lost together, with one process. The strings belong to the
 * libi_losses. Since 0.1.
 */
typedef struct libi_losses_entry_info {
  /** The name of the host of the lost process in the list that the session was launched with. */
  const char *host_name;
  /**
   * Whether the process led its host, so that all members there were lost with it, and those on
   * the hosts below that have found no other parent.
   */
  bool is_leader;
  /** How the process was lost. */
  libi_loss_kind kind;
  /** The status or signal for kind; otherwise 0. */
  int32_t exit_value;
  /** The number of lost members: see libi_losses_ranks(). */
  uint32_t members;
  /** All of it as one line for people. */
  const char *text;
} libi_losses_entry_info;

/** Frees a list of losses. NULL is allowed. Since 0.1. */
void libi_losses_free(libi_losses *losses);

/** The number of losses; 0 for NULL. Since 0.1. */
size_t libi_losses_count(const libi_losses *losses);

/**
 * Fills *info with a loss, counted from 0 in the order in which the member heard of them.
 *
 * Returns LIBI_OK, or LIBI_NONE if there is no such loss. Since 0.1.
 */
libi_result libi_losses_entry(const libi_losses *losses,
                              size_t index,
                              libi_losses_entry_info *info,
                              size_t size);

/**
 * The members that were lost with a loss: writes the lowest ranks, as many as there is room for.
 * ranks may be NULL if room is 0.
 *
 * Returns the number of ranks; 0 for NULL, and if there is no such loss. Since 0.1.
 */
size_t libi_losses_ranks(const libi_losses *losses, size_t index, uint32_t *ranks, size_t room);

/* ---- Members --------------------------------------------------------------------------------- */

/** The type of the elements of an array. Since 0.1. */
typedef enum libi_element {
  /** uint8_t. */
  LIBI_ELEMENT_U8 = 0,
  /** int32_t. */
  LIBI_ELEMENT_I32 = 1,
  /** uint32_t. */
  LIBI_ELEMENT_U32 = 2,
  /** int64_t. */
  LIBI_ELEMENT_I64 = 3,
  /** uint64_t. */
  LIBI_ELEMENT_U64 = 4,
  /** float. */
  LIBI_ELEMENT_F32 = 5,
  /** double. */
  LIBI_ELEMENT_F64 = 6
} libi_element;

/** Where the value of a key is stored. Since 0.1. */
typedef enum libi_key_scope {
  /** On every host, from the next fence on: for keys that most members read. */
  LIBI_KEY_REPLICATED = 0,
  /**
   * At the leader of the host where it was put, from which readers fetch it: for keys that few
   * members read. It is lost with that leader: readers then get LIBI_ERR_PEER_LOST.
   */
  LIBI_KEY_LOCAL = 1
} libi_key_scope;

/** The lengths of what members contribute to a collective operation. Since 0.1. */
typedef enum libi_lengths {
  /** They may differ. */
  LIBI_LENGTHS_ANY = 0,
  /** They are equal; otherwise the operation is LIBI_ERR_MISMATCH for all members. */
  LIBI_LENGTHS_EQUAL = 1
} libi_lengths;

/** How two elements are combined. Since 0.1. */
typedef enum libi_op {
  /** Sum. Integers wrap around. */
  LIBI_OP_SUM = 0,
  /** Minimum. NaN only if both are. */
  LIBI_OP_MIN = 1,
  /** Maximum. NaN only if both are. */
  LIBI_OP_MAX = 2,
  /** Bitwise and. Not for floating-point numbers. */
  LIBI_OP_AND = 3,
  /** Bitwise or. Not for floating-point numbers. */
  LIBI_OP_OR = 4
} libi_op;

/** A member. The string belongs to the member. Since 0.1. */
typedef struct libi_member_info {
  /** Its rank, from 0. */
  uint32_t rank;
  /** The number of members in the session. */
  uint32_t size;
  /** The number of its host, from 0. */
  uint32_t host;
  /** Whether it is the master, which talks to the front end: see libi_member_is_master(). */
  bool is_master;
  /** The name of its host in the list that the session was launched with. */
  const char *host_name;
} libi_member_info;

/**
 * Joins the session that this process was started for, and returns when the session is up. The
 * front end's deadline bounds the wait.
 *
 * Call it once in the life of a process, early, from the main thread, and in the process that
 * was started: not in a child of it, because a child that joins too breaks the link. A child
 * forked before may live on, and ends with the session while it is in the process group. A child
 * forked afterwards gets LIBI_ERR_STATE from everything that starts or waits; it may free the
 * objects.
 *
 * The call reads the environment, and takes over the standard streams if the link came through
 * them. Standard streams that are closed are opened on /dev/null.
 *
 * Afterwards standard output is a pipe, so stdio buffers it: call fflush() when output has to be
 * seen, and before libi_member_drain(), libi_member_detach() and libi_member_free(). Output that
 * is flushed later, as at exit, may be lost.
 *
 * *member is the new object, to be freed with libi_member_free(), or NULL after a failure.
 * Returns LIBI_OK; LIBI_ERR_STARTED_BY_HAND if no front end has started this process, which may
 * then be a front end itself; LIBI_ERR_NO_LINK in a child of a member that has its environment;
 * LIBI_ERR_STATE the second time; LIBI_ERR_ENDED if the session has ended before it was up;
 * LIBI_ERR_NULL, LIBI_ERR_ARGUMENT, LIBI_ERR_BUSY, LIBI_ERR_SYSTEM. Since 0.1.
 */
libi_result libi_member_init(libi_progress progress, libi_member **member);

/**
 * Frees the member. NULL is allowed. The process stays a member until it ends; call
 * libi_member_drain() or libi_member_detach() before. Output that was flushed is forwarded,
 * within a second. Inside a function that the library has called, nothing is freed. Since 0.1.
 */
void libi_member_free(libi_member *member);

/** The rank of this process; UINT32_MAX for NULL. Any thread, at any time. Since 0.1. */
uint32_t libi_member_rank(const libi_member *member);

/** The number of members in the session; 0 for NULL. Any thread, at any time. Since 0.1. */
uint32_t libi_member_size(const libi_member *member);

/**
 * The rank of the master, which talks to the front end, as far as this process knows: 0, or after
 * libi_options_set_replace_master() the next rank that was left when it was lost; UINT32_MAX for
 * NULL. Any thread, at any time. Since 0.1.
 */
uint32_t libi_member_master(const libi_member *member);

/** Whether this process is the master; false for NULL. Any thread, at any time. Since 0.1. */
bool libi_member_is_master(const libi_member *member);

/** Fills *info with what is known of the member. Any thread, at any time. Since 0.1. */
libi_result libi_member_query(const libi_member *member, libi_member_info *info, size_t size);

/**
 * The ranks of a group, as far as this process knows: writes the lowest ones, as many as there
 * is room for. ranks may be NULL if room is 0. Any thread, at any time.
 *
 * Returns the number of ranks in the group; 0 for NULL and for an unknown group. Since 0.1.
 */
size_t libi_member_ranks(const libi_member *member, libi_ranks group, uint32_t *ranks, size_t room);

/**
 * Waits until what this process has sent is on its way, and no other member needs it. Call it at
 * the end of a program that ends when its work is done, before libi_member_free(). The process
 * remains a member, and its exit is reported.
 *
 * A process that ends without this is reported as well. With LIBI_ENGINE_IN_PROGRAM the first
 * member of each host forwards for the others: if it ends while they need it, they end too.
 *
 * Returns LIBI_OK; LIBI_ERR_TIMED_OUT if others still need it; LIBI_ERR_ENDED. It may be called
 * again. Since 0.1.
 */
libi_result libi_member_drain(libi_member *member, libi_timeout timeout);

/**
 * Detaches this process from the session, to live on: it is no longer signalled or ended by the
 * session, and survives the front end. Returns when everything that it had to forward is with
 * the next process; does not wait for other members. As long as the process lives and the member
 * is not freed, it keeps forwarding for members below it.
 *
 * Its output goes to the front end as long as there is a way, and is discarded afterwards.
 * Before exec, or before it goes on in a child, it has to redirect its standard streams, as
 * daemons do. It may also close all descriptors that it does not know. Then it forwards for no
 * member any more (libi_member_drain() waits until none needs it), the library does not touch
 * files that get the same numbers, and operations return LIBI_ERR_ENDED.
 *
 * A process that does not detach ends with the session, by its signal or by SIGKILL after the
 * grace period, with its children in the same process group.
 *
 * Returns LIBI_OK; LIBI_ERR_TIMED_OUT if not everything was forwarded in time: that goes on, and
 * the process has detached all the same; LIBI_ERR_ENDED; LIBI_ERR_SYSTEM if the process has a
 * parent-death signal and this is not the main thread, which alone can clear it. Since 0.1.
 */
libi_result libi_member_detach(libi_member *member, libi_timeout timeout);

/**
 * For event loops: a descriptor that is readable while an operation has finished and was neither
 * polled since nor freed; and, with LIBI_PROGRESS_MANUAL, while there is something to dispatch.
 *
 * Wait for it with poll() or the like; do not read or close it. -1 for NULL. Since 0.1.
 */
int libi_member_descriptor(const libi_member *member);

/**
 * For event loops with LIBI_PROGRESS_MANUAL: how long the loop may wait for the descriptor
 * before libi_member_dispatch() has to be called; -1 (LIBI_FOREVER) is no limit, as always with
 * LIBI_PROGRESS_THREAD. Since 0.1.
 */
libi_timeout libi_member_next_timeout(const libi_member *member);

/**
 * For event loops with LIBI_PROGRESS_MANUAL: does what there is to do without waiting.
 *
 * Returns LIBI_OK, or LIBI_ERR_SYSTEM. Since 0.1.
 */
libi_result libi_member_dispatch(libi_member *member);

/** Waits until all members have called it. Since 0.1. */
libi_result libi_member_barrier(libi_member *member, libi_timeout timeout);

/** Starts libi_member_barrier(). Since 0.1. */
libi_result libi_member_start_barrier(libi_member *member, libi_pending **pending);

/**
 * Waits until all members have called it. Afterwards all members see the values that were put
 * before with libi_member_put(). Since 0.1.
 */
libi_result libi_member_fence(libi_member *member, libi_timeout timeout);

/** Starts libi_member_fence(). Since 0.1. */
libi_result libi_member_start_fence(libi_member *member, libi_pending **pending);

/**
 * Sends the root's bytes to all members, in part 0 of *data. bytes and length are ignored at
 * other members.
 *
 * Also returns LIBI_ERR_NO_SUCH_PEER if there is no such root. Since 0.1.
 */
libi_result libi_member_broadcast(libi_member *member,
                                  uint32_t root,
                                  const void *bytes,
                                  size_t length,
                                  libi_data **data,
                                  libi_timeout timeout);

/** Starts libi_member_broadcast(). Since 0.1. */
libi_result libi_member_start_broadcast(libi_member *member,
                                        uint32_t root,
                                        const void *bytes,
                                        size_t length,
                                        libi_pending **pending);

/**
 * Collects the bytes of all members at the root: one part for each rank in *data, empty for
 * absent members. *data is NULL at other members, where data may be NULL too. Since 0.1.
 */
libi_result libi_member_gather(libi_member *member,
                               uint32_t root,
                               libi_lengths lengths,
                               const void *bytes,
                               size_t length,
                               libi_data **data,
                               libi_timeout timeout);

/** Starts libi_member_gather(). Since 0.1. */
libi_result libi_member_start_gather(libi_member *member,
                                     uint32_t root,
                                     libi_lengths lengths,
                                     const void *bytes,
                                     size_t length,
                                     libi_pending **pending);

/**
 * Sends each member its part of the root's parts, in part 0 of *data. The root passes one part
 * for each rank, including absent ones: parts[r] points to part_lengths[r] bytes, and count is
 * the size of the session. They are ignored at other members.
 *
 * Also returns LIBI_ERR_PARTS if the root does not pass one part for each rank. Since 0.1.
 */
libi_result libi_member_scatter(libi_member *member,
                                uint32_t root,
                                const void *const *parts,
                                const size_t *part_lengths,
                                size_t count,
                                libi_data **data,
                                libi_timeout timeout);

/** Starts libi_member_scatter(). Since 0.1. */
libi_result libi_member_start_scatter(libi_member *member,
                                      uint32_t root,
                                      const void *const *parts,
                                      const size_t *part_lengths,
                                      size_t count,
                                      libi_pending **pending);

/**
 * Collects the bytes of all members at all members: one part for each rank in *data, empty for
 * absent members. Since 0.1.
 */
libi_result libi_member_allgather(libi_member *member,
                                  libi_lengths lengths,
                                  const void *bytes,
                                  size_t length,
                                  libi_data **data,
                                  libi_timeout timeout);

/** Starts libi_member_allgather(). Since 0.1. */
libi_result libi_member_start_allgather(libi_member *member,
                                        libi_lengths lengths,
                                        const void *bytes,
                                        size_t length,
                                        libi_pending **pending);

/**
 * Exchanges parts between all members: this member sends parts[r], of part_lengths[r] bytes, to
 * rank r, and receives the part of rank r in part r of *data. count is the size of the session.
 *
 * Also returns LIBI_ERR_PARTS if there is not one part for each rank, or if equal lengths are
 * wanted and those of this member differ. Since 0.1.
 */
libi_result libi_member_alltoall(libi_member *member,
                                 libi_lengths lengths,
                                 const void *const *parts,
                                 const size_t *part_lengths,
                                 size_t count,
                                 libi_data **data,
                                 libi_timeout timeout);

/** Starts libi_member_alltoall(). Since 0.1. */
libi_result libi_member_start_alltoall(libi_member *member,
                                       libi_lengths lengths,
                                       const void *const *parts,
                                       const size_t *part_lengths,
                                       size_t count,
                                       libi_pending **pending);

/**
 * Arranges all members in a ring in which the members of a host are neighbours. *place gets the
 * position of this member, and the sum of the weights of all members before it; place may be
 * NULL. left is sent to the left neighbour and right to the right one: *data has in part 0 what
 * the left neighbour has sent to its right, and in part 1 what the right one has sent to its
 * left. Since 0.1.
 */
libi_result libi_member_ring(libi_member *member,
                             uint64_t weight,
                             const void *left,
                             size_t left_length,
                             const void *right,
                             size_t right_length,
                             libi_ring_position *place,
                             libi_data **data,
                             libi_timeout timeout);

/**
 * Starts libi_member_ring(): libi_pending_ring_position() has the position, then
 * libi_pending_take() the data. Since 0.1.
 */
libi_result libi_member_start_ring(libi_member *member,
                                   uint64_t weight,
                                   const void *left,
                                   size_t left_length,
                                   const void *right,
                                   size_t right_length,
                                   libi_pending **pending);

/**
 * Receives what the front end sends with libi_session_broadcast(), in part 0 of *data, at all
 * members.
 *
 * Also returns LIBI_ERR_FRONT_END_LOST at the master. Since 0.1.
 */
libi_result libi_member_broadcast_from_front(libi_member *member,
                                             libi_data **data,
                                             libi_timeout timeout);

/** Starts libi_member_broadcast_from_front(). Since 0.1. */
libi_result libi_member_start_broadcast_from_front(libi_member *member, libi_pending **pending);

/**
 * Collects the bytes of all members at the front end, which receives them with
 * libi_session_gather(). Completes when the bytes have left this process.
 *
 * Also returns LIBI_ERR_FRONT_END_LOST at the master. Since 0.1.
 */
libi_result libi_member_gather_to_front(libi_member *member,
                                        const void *bytes,
                                        size_t length,
                                        libi_timeout timeout);

/** Starts libi_member_gather_to_front(). Since 0.1. */
libi_result libi_member_start_gather_to_front(libi_member *member,
                                              const void *bytes,
                                              size_t length,
                                              libi_pending **pending);

/**
 * Copies the root's buffer into the buffers of all other members, which have the same length.
 *
 * Also returns LIBI_ERR_LENGTH if the root's length differs: the text has both lengths, and the
 * buffer is unchanged. Since 0.1.
 */
libi_result libi_member_broadcast_into(libi_member *member,
                                       uint32_t root,
                                       void *buffer,
                                       size_t length,
                                       libi_timeout timeout);

/**
 * Collects length bytes of each member in recv at the root, in the order of ranks. recv has room
 * for length times the size of the session; the places of absent members are unchanged. recv is
 * ignored at other members. send may be a part of it.
 *
 * Also returns LIBI_ERR_MISMATCH if the lengths of members differ. Since 0.1.
 */
libi_result libi_member_gather_into(libi_member *member,
                                    uint32_t root,
                                    const void *send,
                                    size_t length,
                                    void *recv,
                                    libi_timeout timeout);

/**
 * Sends each member its part of the root's send: length times the size of the session bytes, in
 * the order of ranks. send is ignored at other members. recv may be a part of it.
 *
 * Also returns LIBI_ERR_LENGTH if the root's length differs; recv is unchanged then. Since 0.1.
 */
libi_result libi_member_scatter_into(libi_member *member,
                                     uint32_t root,
                                     const void *send,
                                     size_t length,
                                     void *recv,
                                     libi_timeout timeout);

/**
 * Collects length bytes of each member in recv at all members, in the order of ranks. recv has
 * room for length times the size of the session; the places of absent members are unchanged.
 * send may be a part of recv.
 *
 * Also returns LIBI_ERR_MISMATCH if the lengths of members differ. Since 0.1.
 */
libi_result libi_member_allgather_into(libi_member *member,
                                       const void *send,
                                       size_t length,
                                       void *recv,
                                       libi_timeout timeout);

/**
 * Combines the arrays of all members element by element; the root gets the result, which has
 * count elements too. result may be the same memory as numbers, and is ignored at other members.
 * Nothing has to be aligned. Sums of floating-point numbers may differ in their last bits
 * between runs.
 *
 * Also returns LIBI_ERR_ARGUMENT if the element or the operation is unknown, or they do not fit;
 * LIBI_ERR_MISMATCH if elements, operations or counts of members differ. Since 0.1.
 */
libi_result libi_member_reduce(libi_member *member,
                               uint32_t root,
                               libi_element element,
                               libi_op op,
                               const void *numbers,
                               size_t count,
                               void *result,
                               libi_timeout timeout);

/** Starts libi_member_reduce(). The root gets the array in part 0 of the data. Since 0.1. */
libi_result libi_member_start_reduce(libi_member *member,
                                     uint32_t root,
                                     libi_element element,
                                     libi_op op,
                                     const void *numbers,
                                     size_t count,
                                     libi_pending **pending);

/** As libi_member_reduce(), with the result at all members. Since 0.1. */
libi_result libi_member_allreduce(libi_member *member,
                                  libi_element element,
                                  libi_op op,
                                  const void *numbers,
                                  size_t count,
                                  void *result,
                                  libi_timeout timeout);

/** Starts libi_member_allreduce(). The array is in part 0 of the data. Since 0.1. */
libi_result libi_member_start_allreduce(libi_member *member,
                                        libi_element element,
                                        libi_op op,
                                        const void *numbers,
                                        size_t count,
                                        libi_pending **pending);

/**
 * As libi_member_allreduce(), of the arrays of this member and of all members of lower rank (an
 * inclusive prefix reduction). Since 0.1.
 */
libi_result libi_member_scan(libi_member *member,
                             libi_element element,
                             libi_op op,
                             const void *numbers,
                             size_t count,
                             void *result,
                             libi_timeout timeout);

/** Starts libi_member_scan(). The array is in part 0 of the data. Since 0.1. */
libi_result libi_member_start_scan(libi_member *member,
                                   libi_element element,
                                   libi_op op,
                                   const void *numbers,
                                   size_t count,
                                   libi_pending **pending);

/**
 * As libi_member_scan(), without the array of this member (an exclusive prefix reduction). At the
 * first member, the lowest rank that is not absent, result is unchanged: no member is before it.
 * Since 0.1.
 */
libi_result libi_member_exscan(libi_member *member,
                               libi_element element,
                               libi_op op,
                               const void *numbers,
                               size_t count,
                               void *result,
                               libi_timeout timeout);

/**
 * Starts libi_member_exscan(). The array is in part 0 of the data; the first member gets none.
 * Since 0.1.
 */
libi_result libi_member_start_exscan(libi_member *member,
                                     libi_element element,
                                     libi_op op,
                                     const void *numbers,
                                     size_t count,
                                     libi_pending **pending);

/**
 * Combines the values of all members by a function of the program; the root gets the result in
 * part 0 of *data. *data is NULL at other members, where data may be NULL too. release may be
 * NULL; it is called even if this fails. Since 0.1.
 */
libi_result libi_member_reduce_by(libi_member *member,
                                  uint32_t root,
                                  libi_fold fold,
                                  void *userdata,
                                  libi_release release,
                                  const void *bytes,
                                  size_t length,
                                  libi_data **data,
                                  libi_timeout timeout);

/** Starts libi_member_reduce_by(). Since 0.1. */
libi_result libi_member_start_reduce_by(libi_member *member,
                                        uint32_t root,
                                        libi_fold fold,
                                        void *userdata,
                                        libi_release release,
                                        const void *bytes,
                                        size_t length,
                                        libi_pending **pending);

/** As libi_member_reduce_by(), with the result at all members. Since 0.1. */
libi_result libi_member_allreduce_by(libi_member *member,
                                     libi_fold fold,
                                     void *userdata,
                                     libi_release release,
                                     const void *bytes,
                                     size_t length,
                                     libi_data **data,
                                     libi_timeout timeout);

/** Starts libi_member_allreduce_by(). Since 0.1. */
libi_result libi_member_start_allreduce_by(libi_member *member,
                                           libi_fold fold,
                                           void *userdata,
                                           libi_release release,
                                           const void *bytes,
                                           size_t length,
                                           libi_pending **pending);

/**
 * As libi_member_allreduce_by(), of the values of this member and of all members of lower rank.
 * Since 0.1.
 */
libi_result libi_member_scan_by(libi_member *member,
                                libi_fold fold,
                                void *userdata,
                                libi_release release,
                                const void *bytes,
                                size_t length,
                                libi_data **data,
                                libi_timeout timeout);

/** Starts libi_member_scan_by(). Since 0.1. */
libi_result libi_member_start_scan_by(libi_member *member,
                                      libi_fold fold,
                                      void *userdata,
                                      libi_release release,
                                      const void *bytes,
                                      size_t length,
                                      libi_pending **pending);

/**
 * As libi_member_scan_by(), without the value of this member. At the first member, the lowest rank
 * that is not absent, *data is NULL: no member is before it. Since 0.1.
 */
libi_result libi_member_exscan_by(libi_member *member,
                                  libi_fold fold,
                                  void *userdata,
                                  libi_release release,
                                  const void *bytes,
                                  size_t length,
                                  libi_data **data,
                                  libi_timeout timeout);

/** Starts libi_member_exscan_by(). Since 0.1. */
libi_result libi_member_start_exscan_by(libi_member *member,
                                        libi_fold fold,
                                        void *userdata,
                                        libi_release release,
                                        const void *bytes,
                                        size_t length,
                                        libi_pending **pending);

/**
 * Sends a message to a member. The meaning of the tag is the program's; messages with the same
 * tag arrive in their order. Completes when the message has left this process, which does not
 * mean that it was received.
 *
 * Returns LIBI_OK; LIBI_ERR_NO_SUCH_PEER, LIBI_ERR_ABSENT or LIBI_ERR_PEER_LOST if the member
 * cannot receive it; LIBI_ERR_TIMED_OUT, LIBI_ERR_ENDED. Since 0.1.
 */
libi_result libi_member_send_to(libi_member *member,
                                uint32_t rank,
                                uint32_t tag,
                                const void *bytes,
                                size_t length,
                                libi_timeout timeout);

/** Starts libi_member_send_to(). Since 0.1. */
libi_result libi_member_start_send_to(libi_member *member,
                                      uint32_t rank,
                                      uint32_t tag,
                                      const void *bytes,
                                      size_t length,
                                      libi_pending **pending);

/**
 * Receives the next message of a member with this tag, in part 0 of *data.
 *
 * Returns LIBI_OK; LIBI_ERR_NO_SUCH_PEER, LIBI_ERR_ABSENT or LIBI_ERR_PEER_LOST if the member
 * cannot send it; LIBI_ERR_WITHDRAWN if the sender has withdrawn it, and the next receive may
 * succeed; LIBI_ERR_TIMED_OUT, LIBI_ERR_ENDED. Since 0.1.
 */
libi_result libi_member_recv_from(libi_member *member,
                                  uint32_t rank,
                                  uint32_t tag,
                                  libi_data **data,
                                  libi_timeout timeout);

/** Starts libi_member_recv_from(). Since 0.1. */
libi_result libi_member_start_recv_from(libi_member *member,
                                        uint32_t rank,
                                        uint32_t tag,
                                        libi_pending **pending);

/**
 * Sends a message from the master to the front end, which receives it with libi_session_recv().
 *
 * Returns LIBI_OK; LIBI_ERR_NOT_MASTER at other members; LIBI_ERR_FRONT_END_LOST,
 * LIBI_ERR_TIMED_OUT, LIBI_ERR_ENDED. Since 0.1.
 */
libi_result libi_member_send(libi_member *member,
                             const void *bytes,
                             size_t length,
                             libi_timeout timeout);

/** Starts libi_member_send(). Since 0.1. */
libi_result libi_member_start_send(libi_member *member,
                                   const void *bytes,
                                   size_t length,
                                   libi_pending **pending);

/**
 * Receives the next message of the front end at the master, in part 0 of *data. The master may
 * broadcast what other members need.
 *
 * Returns LIBI_OK; LIBI_ERR_NOT_MASTER at other members; LIBI_ERR_FRONT_END_LOST,
 * LIBI_ERR_TIMED_OUT, LIBI_ERR_ENDED. Since 0.1.
 */
libi_result libi_member_recv(libi_member *member, libi_data **data, libi_timeout timeout);

/** Starts libi_member_recv(). Since 0.1. */
libi_result libi_member_start_recv(libi_member *member, libi_pending **pending);

/**
 * Puts a value under a key, which is UTF-8. All members see it after the next
 * libi_member_fence().
 *
 * Returns LIBI_OK; LIBI_ERR_LONG_KEY; LIBI_ERR_ARGUMENT if the key is not UTF-8 or the scope
 * unknown; LIBI_ERR_TIMED_OUT, LIBI_ERR_ENDED. Since 0.1.
 */
libi_result libi_member_put(libi_member *member,
                            const char *key,
                            const void *bytes,
                            size_t length,
                            libi_key_scope scope,
                            libi_timeout timeout);

/** Starts libi_member_put(). Since 0.1. */
libi_result libi_member_start_put(libi_member *member,
                                  const char *key,
                                  const void *bytes,
                                  size_t length,
                                  libi_key_scope scope,
                                  libi_pending **pending);

/**
 * Gets the value of a key, in part 0 of *data. If there is none, waits until a member puts one.
 *
 * Returns LIBI_OK; LIBI_ERR_LONG_KEY; LIBI_ERR_ARGUMENT; LIBI_ERR_PEER_LOST if the member that
 * has the value is lost; LIBI_ERR_TIMED_OUT, LIBI_ERR_ENDED. Since 0.1.
 */
libi_result libi_member_get(libi_member *member,
                            const char *key,
                            libi_data **data,
                            libi_timeout timeout);

/** Starts libi_member_get(). Since 0.1. */
libi_result libi_member_start_get(libi_member *member, const char *key, libi_pending **pending);

/**
 * Gets the value of a key, in part 0 of *data, without waiting for a member to put one:
 * LIBI_NONE if there is no value. Otherwise returns as libi_member_get(). Since 0.1.
 */
libi_result libi_member_find(libi_member *member,
                             const char *key,
                             libi_data **data,
                             libi_timeout timeout);

/** Starts libi_member_find(). Since 0.1. */
libi_result libi_member_start_find(libi_member *member, const char *key, libi_pending **pending);

/**
 * How members were lost, as far as this process knows. Members of LIBI_RANKS_LOST whose end no
 * process has seen are in no loss; those that have ended in order are. A loss is known before a
 * call returns LIBI_ERR_PEER_LOST for it, or completes without its members. Any thread, at any
 * time.
 *
 * *losses is the new object, to be freed with libi_losses_free(), also if no member is lost; NULL
 * after a failure. Returns LIBI_OK, LIBI_ERR_NULL, or LIBI_ERR_STATE in a forked child. Since 0.1.
 */
libi_result libi_member_losses(const libi_member *member, libi_losses **losses);

/**
 * How often this member was restarted, attempts that failed included: 0 for a process that was
 * launched with the session, and for NULL. See libi_session_restart(). Any thread, at any time.
 * Since 0.1.
 */
uint32_t libi_member_restarts(const libi_member *member);

/**
 * The number of the first collective operation in which this member takes part, counted from 0 in
 * the session: 0 for a process that was launched with the session; after a restart, the first
 * after all operations that any member had called when it came. All members agree on it. With a
 * number of its own for each round, a program finds the round to continue with.
 *
 * Returns LIBI_OK, and *call is the number; LIBI_ERR_TIMED_OUT if the others have not learned of
 * this member; LIBI_ERR_ENDED. *call is 0 after a failure. Since 0.1.
 */
libi_result libi_member_first_call(libi_member *member, uint64_t *call, libi_timeout timeout);

/**
 * The processes of the job on this host, in a daemon that was launched with
 * libi_front_launch_beside(). All daemons call this once, before other collective operations,
 * and before the master receives from the front end.
 *
 * *targets is the new object, to be freed with libi_targets_free(). Returns LIBI_OK;
 * LIBI_ERR_STATE if this is no such daemon; LIBI_ERR_TIMED_OUT if the table has not come, or not
 * all processes were found here (it is not called again then); or as libi_member_recv() and
 * libi_member_scatter(). Since 0.1.
 */
libi_result libi_member_targets(libi_member *member, libi_targets **targets, libi_timeout timeout);

/**
 * Lets those of these targets go that the front end names with libi_session_release(). A
 * collective operation, called once for each that the front end calls. *released is the number
 * of all ranks that it has named, here and on other hosts; released may be NULL.
 *
 * Returns LIBI_OK, or as libi_member_broadcast_from_front() and libi_member_gather_to_front().
 * Since 0.1.
 */
libi_result libi_member_release_when_told(libi_member *member,
                                          const libi_targets *targets,
                                          size_t *released,
                                          libi_timeout timeout);

/* ---- Processes of a job ---------------------------------------------------------------------- */

/** A process of a job. The strings belong to the libi_processes. Since 0.1. */
typedef struct libi_processes_entry_info {
  /** Its rank in the job. */
  uint32_t rank;
  /** Its process ID on its host. */
  int32_t pid;
  /** Its host, as the launcher of the job names it. */
  const char *host_name;
  /** Its executable, as the launcher names it: perhaps without a directory. */
  const char *executable;
} libi_processes_entry_info;

/** Frees a list of processes. NULL is allowed. Since 0.1. */
void libi_processes_free(libi_processes *processes);

/** The number of processes; 0 for NULL. Since 0.1. */
size_t libi_processes_count(const libi_processes *processes);

/**
 * Fills *info with a process, counted from 0.
 *
 * Returns LIBI_OK, or LIBI_NONE if there is no such process. Since 0.1.
 */
libi_result libi_processes_entry(const libi_processes *processes,
                                 size_t index,
                                 libi_processes_entry_info *info,
                                 size_t size);

/* ---- Jobs of other launchers ----------------------------------------------------------------- */

/**
 * Which program has launched a job. Later versions may have more: treat what is unknown as
 * LIBI_LAUNCHER_OTHER. Since 0.1.
 */
typedef enum libi_launcher {
  /** One that has a process table for debuggers. */
  LIBI_LAUNCHER_OTHER = 0,
  /** srun of Slurm. */
  LIBI_LAUNCHER_SRUN = 1,
  /** mpirun of Open MPI. */
  LIBI_LAUNCHER_OPEN_MPI = 2,
  /** mpiexec of Hydra, which has no table. */
  LIBI_LAUNCHER_HYDRA = 3,
  /** A front end of libi. */
  LIBI_LAUNCHER_LIBI = 4
} libi_launcher;

/** What has happened to a job. Later versions may have more. Since 0.1. */
typedef enum libi_job_event {
  /** Nothing. */
  LIBI_JOB_EVENT_NONE = 0,
  /** A process has ended. */
  LIBI_JOB_EVENT_ENDED = 1,
  /** The launcher has ended. */
  LIBI_JOB_EVENT_LAUNCHER_ENDED = 2,
  /** What happens on a host is not known any more. */
  LIBI_JOB_EVENT_NOT_WATCHED = 3
} libi_job_event;

/** A job as a whole. The strings belong to the libi_job. Since 0.1. */
typedef struct libi_job_info {
  /** Which program has launched it. */
  libi_launcher kind;
  /** The process ID of the launcher. It may be an ancestor of the process that was named. */
  int32_t launcher_pid;
  /** The executable of the launcher. */
  const char *launcher;
  /** The number of its Slurm job, or NULL. */
  const char *slurm_job;
  /** The number of its hosts: see libi_job_host(). */
  uint32_t hosts;
  /** The number of its processes that are known. */
  uint32_t processes;
  /**
   * Whether these are all. Otherwise daemons find those on other hosts: see
   * libi_session_processes_of().
   */
  bool is_whole;
  /** Whether the launcher runs now. */
  bool is_running;
} libi_job_info;

/**
 * Launches a job by its own launcher, with its ranks held in front of their program, and waits
 * until all are. Both are arrays of words that end with NULL: the launcher with its options, and
 * the program with its arguments. The standard streams of the job are those of this process. A
 * rank goes on when it is released, or when it has been held for hold_ms, rounded up to a
 * second: a tool that dies holds no job for ever. No process is stopped or traced.
 *
 * After a failure to attach the job goes on, its ranks when their time is over. The launcher is
 * a child of this process: libi_job_wait() collects its status; without that it is a zombie once
 * it has ended, until this process ends.
 *
 * *job is the new object, to be freed with libi_job_free(). Returns LIBI_OK; LIBI_ERR_ARGUMENT
 * for a command line of several programs, an option that is not known if program is NULL, or a
 * negative hold_ms; LIBI_ERR_SYSTEM if the launcher cannot be started; LIBI_ERR_NOT_ATTACHED if
 * not all ranks were there in time, or the launcher has ended, which libi_last_error() tells
 * apart; or LIBI_ERR_NULL. Since 0.1.
 */
libi_result libi_job_launch(const char *const *launcher,
                            const char *const *program,
                            libi_timeout hold_ms,
                            libi_job **job,
                            libi_timeout timeout);

/**
 * Frees a job, which goes on; ranks that are held do when their time is over. NULL is allowed.
 * Since 0.1.
 */
void libi_job_free(libi_job *job);

/** Fills *info with the job as a whole. Since 0.1. */
libi_result libi_job_query(const libi_job *job, libi_job_info *info, size_t size);

/**
 * The name of a host of the job, counted from 0, as the launcher names it; NULL if there is no
 * such host. It belongs to the libi_job. Since 0.1.
 */
const char *libi_job_host(const libi_job *job, uint32_t index);

/**
 * The processes of the job that are known.
 *
 * *processes is the new object, to be freed with libi_processes_free(). Since 0.1.
 */
libi_result libi_job_processes(const libi_job *job, libi_processes **processes);

/**
 * Waits for the end of the launcher, with which the job is over. *status is as waitpid() fills
 * it for a job of libi_job_launch(), and -1 for others, whose launcher is no child of this
 * process; status may be NULL.
 *
 * May be called again, with the same result. Returns LIBI_OK if it has ended; LIBI_NOT_YET at the
 * timeout; or LIBI_ERR_BUSY if another thread waits for a job of libi_job_launch(). Since 0.1.
 */
libi_result libi_job_wait(const libi_job *job, int *status, libi_timeout timeout);

/**
 * Finds the processes of the job that the process with this ID has launched, on this machine.
 * The launcher goes on: it is neither stopped nor traced. A table that is still being written is
 * read again until the timeout is over.
 *
 * *job is the new object, to be freed with libi_job_free(). Returns LIBI_OK, LIBI_ERR_NULL, or
 * LIBI_ERR_NOT_ATTACHED: libi_last_error() says what is in the way, and what would help. Since
 * 0.1.
 */
libi_result libi_job_attach(int32_t pid, libi_job **job, libi_timeout timeout);

/**
 * As libi_job_attach(), for a front end of libi that has several sessions: the one with this
 * number, which its distributions have. Since 0.1.
 */
libi_result libi_job_attach_to_session(int32_t pid,
                                       uint32_t session,
                                       libi_job **job,
                                       libi_timeout timeout);

/**
 * As libi_job_attach(), for a step of a Slurm job, as "123.0", or the only step of a job, as
 * "123", whose srun runs on this machine. Since 0.1.
 */
libi_result libi_job_attach_to_slurm(const char *step, libi_job **job, libi_timeout timeout);

/**
 * As libi_job_attach(), for a launcher on another host, which is reached as the options say. They
 * need an agent (libi_options_set_agent()), which runs there for as long as that takes. Whether
 * that launcher goes on running is not known here.
 *
 * Returns LIBI_ERR_NOT_ATTACHED, too, if the host cannot be launched on or does not answer in
 * time. Since 0.1.
 */
libi_result libi_job_attach_on(const char *host,
                               int32_t pid,
                               const libi_options *options,
                               libi_job **job,
                               libi_timeout timeout);

/**
 * Watches the processes of a job and its launcher: how each has ended is told by
 * libi_watch_next(). Agents run on the hosts of the job meanwhile, which the options name
 * (libi_options_set_agent()) as they say how hosts are reached. The job is left alone, and goes on
 * when the watch is freed.
 *
 * *watch is the new object, to be freed with libi_watch_free(). Returns LIBI_OK, LIBI_ERR_NULL, or
 * as libi_front_launch(). Since 0.1.
 */
libi_result libi_job_watch(const libi_job *job, const libi_options *options, libi_watch **watch);

/* ---- Processes of a job on the host of a daemon ---------------------------------------------- */

/** A process of the job on this host. The string belongs to the libi_targets. Since 0.1. */
typedef struct libi_targets_entry_info {
  /** Its rank in the job. */
  uint32_t rank;
  /** Its process ID. */
  int32_t pid;
  /** What the launcher has started. */
  const char *executable;
  /**
   * Whether it runs now: the process that was there at first, and not another one that has its
   * number.
   */
  bool is_running;
  /** Whether it is held in front of its program now: see libi_job_launch(). */
  bool is_held;
} libi_targets_entry_info;

/**
 * Frees a list of targets. What is held stays held, until its time is over. NULL is allowed.
 * Since 0.1.
 */
void libi_targets_free(libi_targets *targets);

/** The number of targets; 0 for NULL. Since 0.1. */
size_t libi_targets_count(const libi_targets *targets);

/**
 * Fills *info with a target, counted from 0 in the order of the ranks.
 *
 * Returns LIBI_OK, or LIBI_NONE if there is no such target. Since 0.1.
 */
libi_result libi_targets_entry(const libi_targets *targets,
                               size_t index,
                               libi_targets_entry_info *info,
                               size_t size);

/**
 * Lets a target, counted from 0, go on to its program, if it is held, and waits until it does.
 *
 * Returns LIBI_OK, also if it was not held; LIBI_NONE if there is no such target;
 * LIBI_ERR_TIMED_OUT if it is still held; or LIBI_ERR_SYSTEM if it may not be signalled. Since
 * 0.1.
 */
libi_result libi_targets_release(const libi_targets *targets, size_t index, libi_timeout timeout);

/**
 * Waits for the next target that ends. Each is told once. How it has ended is told by
 * libi_watch_next() at the front end.
 *
 * Returns LIBI_OK with its rank in *rank; LIBI_NOT_YET at the timeout; LIBI_NONE if all have ended
 * and were told; or LIBI_ERR_BUSY if another thread waits. Since 0.1.
 */
libi_result libi_targets_next_end(const libi_targets *targets,
                                  uint32_t *rank,
                                  libi_timeout timeout);

/* ---- Watches of jobs: what happens to them --------------------------------------------------- */

/**
 * What has happened to a job. The strings belong to the libi_watch, until its next event is asked
 * for. Since 0.1.
 */
typedef struct libi_watch_event_info {
  /** What it is. */
  libi_job_event event;
  /** The rank of a process. */
  uint32_t rank;
  /**
   * How a process or the launcher has ended: known with Linux 6.15 or later on its host, or else
   * LIBI_EXIT_UNKNOWN.
   */
  libi_exit exit;
  /** The status or signal for exit. */
  int32_t exit_value;
  /** A host that is not watched; NULL in other events. */
  const char *host_name;
  /** Why it is not; NULL in other events. */
  const char *text;
} libi_watch_event_info;

/** Ends a watch. NULL is allowed. Since 0.1. */
void libi_watch_free(libi_watch *watch);

/**
 * Waits for the next event of a job, and fills *info with it.
 *
 * Returns LIBI_OK; LIBI_NOT_YET at the timeout; LIBI_NONE if nothing more follows: all processes
 * and the launcher have ended, or are not watched any more; or LIBI_ERR_BUSY if another thread
 * waits. Since 0.1.
 */
libi_result libi_watch_next(libi_watch *watch,
                            libi_watch_event_info *info,
                            size_t size,
                            libi_timeout timeout);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LIBI_H */
