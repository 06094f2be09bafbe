/** The types of the LIBI interface of 2011. Programs include libi/libi_api.h, which also has its
 *  functions. */
#ifndef LIBI_API_STD_H
#define LIBI_API_STD_H

#ifndef __cplusplus
#error "libi/libi_api.h is for C++, as it was in 2011; in C, include libi.h"
#endif

/* libi.h may be included before. Its LIBI_OK has the same value. */
#ifdef LIBI_OK
#undef LIBI_OK
#endif

/** The version of the interface, 0.1.0, as in 2011; an octal number. */
#define LIBI_VERSION 000100

/** The value of LIBI_fe_getMaxMsgBufLen(), in bytes. Longer messages work too. */
#define LIBI_MAX_BUFFER_LENGTH 4194304

/** The result of a call. LIBI_last_error() has a text. */
typedef enum {
  LIBI_OK = 0,                    /**< Success. */
  LIBI_YES = 1,                   /**< Yes. */
  LIBI_NO = 2,                    /**< No. */
  LIBI_NOTIMPL = 3,               /**< Not implemented. Never returned. */
  LIBI_EINIT = 4,                 /**< Not initialised, or LIBI_init() called again. */
  LIBI_ELAUNCH = 5,               /**< The launch has failed, or has not happened. */
  LIBI_ESESS = 6,                 /**< There is no such session. */
  LIBI_EFRONTENDONLY = 7,         /**< Only for front ends. Never returned. */
  LIBI_ESESSALREADYLAUNCHED = 8,  /**< The session was launched before. */
  LIBI_EIO = 9                    /**< A process that is needed cannot be reached. */
} libi_rc_e;

namespace LIBI {

/** Hosts and numbers of processes. A host may be repeated, here and in other lists. */
struct host_t {
  char *hostname; /**< A name or an address, optionally with USER@. */
  unsigned int nproc;
  host_t *next;
};

/** Environment variables of the members of a session. */
struct env_t {
  char *name;
  char *value;
  env_t *next;
};

/** Which program to run where. */
struct dist_req_t {
  char *proc_path;
  char **proc_argv;
  host_t *hd;
};

/** A session. Opaque. */
class ProcessGroup;

} // namespace LIBI

typedef LIBI::host_t host_dist_t;
typedef LIBI::env_t libi_env_t;
typedef LIBI::ProcessGroup *libi_sess_handle_t;

/** Which program to run where, and in which session. */
typedef struct {
  libi_sess_handle_t sessionHandle;
  char *proc_path;   /**< The program; without a slash it is searched in the PATH of each host. */
  char **proc_argv;  /**< Its arguments without argv[0], terminated by NULL; or NULL. */
  host_dist_t *hd;
} proc_dist_req_t;

/** The variables of a session. */
typedef struct {
  libi_sess_handle_t sessionHandle;
  libi_env_t *envList;
} sess_env_t;

#endif
