/** The types of the LIBI interface of 2011. Programs include libi/libi_api.h, which has its functions as well. */
#ifndef LIBI_API_STD_H
#define LIBI_API_STD_H

#ifndef __cplusplus
#error "libi/libi_api.h is for C++, as it was in 2011; in C, include libi.h"
#endif

/* libi.h may have come before. Its LIBI_OK is the same number. */
#ifdef LIBI_OK
#undef LIBI_OK
#endif

/** The version of the interface, 0.1.0, as it was written in 2011; which makes it an octal number. */
#define LIBI_VERSION 000100

/** What LIBI_fe_getMaxMsgBufLen() says, in bytes. Longer messages are sent and received all the same. */
#define LIBI_MAX_BUFFER_LENGTH 4194304

/** What came of a call. LIBI_last_error() has it in words. */
typedef enum {
  LIBI_OK = 0,                    /**< It is done. */
  LIBI_YES = 1,                   /**< It is so. */
  LIBI_NO = 2,                    /**< It is not so. */
  LIBI_NOTIMPL = 3,               /**< There is no such thing. Never returned. */
  LIBI_EINIT = 4,                 /**< LIBI_fe_init() or LIBI_init() has to be called first, or was called before. */
  LIBI_ELAUNCH = 5,               /**< Nothing was launched: not yet, or because it failed. */
  LIBI_ESESS = 6,                 /**< There is no such session. */
  LIBI_EFRONTENDONLY = 7,         /**< Only the front end may do so. Never returned. */
  LIBI_ESESSALREADYLAUNCHED = 8,  /**< The session was launched before. */
  LIBI_EIO = 9                    /**< Somebody who is needed cannot be reached any more. */
} libi_rc_e;

namespace LIBI {

/** Hosts, and how many processes on each. A host may be named again, here and in other lists. */
struct host_t {
  char *hostname; /**< A name, or an address; a user may stand before it with an at sign. */
  unsigned int nproc;
  host_t *next;
};

/** Variables for the environment of a session's members. */
struct env_t {
  char *name;
  char *value;
  env_t *next;
};

/** What is to run where. */
struct dist_req_t {
  char *proc_path;
  char **proc_argv;
  host_t *hd;
};

/** A session. Nobody looks inside. */
class ProcessGroup;

} // namespace LIBI

typedef LIBI::host_t host_dist_t;
typedef LIBI::env_t libi_env_t;
typedef LIBI::ProcessGroup *libi_sess_handle_t;

/** What is to run where, as a part of which session. */
typedef struct {
  libi_sess_handle_t sessionHandle;
  char *proc_path;   /**< The program; looked up in the PATH of each host if there is no slash in it. */
  char **proc_argv;  /**< Its arguments, without its name, with a NULL behind the last; or NULL. */
  host_dist_t *hd;
} proc_dist_req_t;

/** A session's variables. */
typedef struct {
  libi_sess_handle_t sessionHandle;
  libi_env_t *envList;
} sess_env_t;

#endif
