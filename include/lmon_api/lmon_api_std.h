/** Types and codes of the front-end and back-end calls of LaunchMON's API, for programs that were
 *  written for it: they compile unchanged, and run with libi. New programs use libi.h.
 *
 *  What is here was written for libi, from a description of the interface. */
#ifndef LMON_API_STD_H
#define LMON_API_STD_H

#include <stdarg.h>

/** The version of the interface, for LMON_fe_init() and LMON_be_init(). */
#define LMON_VERSION 900100

/** The most bytes that a function which packs data may write. */
#define LMON_MAX_USRPAYLOAD 4194304

/** The result of a call. The error callback has a text. */
typedef enum {
  LMON_OK = 0,        /**< Success. */
  LMON_EINVAL = 1,    /**< The version does not match. */
  LMON_EBDARG = 2,    /**< An argument is NULL or invalid, or there is no such session. */
  LMON_ELNCHR = 3,    /**< The job or the daemons cannot be launched, or the process has no job. */
  LMON_EINIT = 4,     /**< Not initialised, or called in the wrong order. */
  LMON_ESYS = 5,      /**< The system has refused something. */
  LMON_ESUBCOM = 6,   /**< A process that is needed cannot be reached. */
  LMON_ESUBSYNC = 7,  /**< Never returned. */
  LMON_ETOUT = 8,     /**< The timeout is over. */
  LMON_ENOMEM = 9,    /**< No memory. */
  LMON_ENCLLB = 10,   /**< Data are sent or received, and no function for them is registered. */
  LMON_ECLLB = 11,    /**< A registered function has failed. */
  LMON_ENEGCB = 12,   /**< A registered function has returned a negative number. */
  LMON_ENOPLD = 13,   /**< Never returned. */
  LMON_EBDMSG = 14,   /**< The other side has sent something else than was expected. */
  LMON_EDUNAV = 15,   /**< What is asked for is not there, or is not there any more. */
  LMON_ETRUNC = 16,   /**< The caller's memory is too small. */
  LMON_EBUG = 17,     /**< An error of libi. */
  LMON_NOTIMPL = 18,  /**< Not implemented. */
  LMON_YES = 19,      /**< Yes. */
  LMON_NO = 20        /**< No. */
} lmon_rc_e;

/** Resource managers. Those that libi does not know are never reported. */
typedef enum {
  RC_mchecker_rm = 0,
  RC_slurm = 1,
  RC_bglrm = 2,
  RC_bgprm = 3,
  RC_bgqrm = 4,
  RC_bgq_slurm = 5,
  RC_bgrm = 6,
  RC_alps = 7,
  RC_cray = 8,
  RC_orte = 9,
  RC_mpiexec_hydra = 10,
  RC_gupc = 11,
  RC_flux = 12,
  RC_none = 13
} rm_catalogue_e;

/** The resource manager of a job. The array belongs to libi. */
typedef struct {
  rm_catalogue_e *rm_supported_types; /**< Those that libi knows, and RC_none for others. */
  int num_supported_types;            /**< How many these are. */
  int index_to_cur_instance;          /**< The index of that of the job. */
  int rm_launcher_pid;                /**< The process ID of the launcher. */
} lmon_rm_info_t;

/** An environment variable of the daemons. */
typedef struct lmon_daemon_env {
  char *envName;
  char *envValue; /**< NULL is an empty value. */
  struct lmon_daemon_env *next;
} lmon_daemon_env_t;

/** Packs data into a buffer of `max` bytes, and says how many it has used. A negative result is a
 *  failure. */
typedef int (*lmon_pack_fn)(void *udata, void *buf, int max, int *len);

/** Unpacks a buffer. A negative result is a failure. */
typedef int (*lmon_unpack_fn)(void *buf, int len, void *udata);

/** Hears of failures: one line, as a format for vprintf() that uses none of the arguments. It is
 *  called in the thread of the function that has failed. */
typedef int (*lmon_error_fn)(const char *format, va_list arguments);

/** Hears of a new status. It may be called in a thread of libi, and must not call functions of this
 *  interface that wait. */
typedef int (*lmon_status_fn)(int *status);

#endif
