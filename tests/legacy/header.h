/* What the header says, and what it leaves to its callers. Included behind it, and behind libi.h or
   before it. */

/* Names that programs have for themselves. */
static int debug = 1;
enum mine { NONE, FAILURE, OK, SUCCESS, ERROR, YES, NO };
static int sess, session, host, env, rank, size, Session, Process;

#define EQUAL(name, one, other) typedef char name[(one) == (other) ? 1 : -1]

EQUAL(version, LIBI_VERSION, 64);
EQUAL(longest, LIBI_MAX_BUFFER_LENGTH, 4194304);
EQUAL(code0, LIBI_OK, 0);
EQUAL(code1, LIBI_YES, 1);
EQUAL(code2, LIBI_NO, 2);
EQUAL(code3, LIBI_NOTIMPL, 3);
EQUAL(code4, LIBI_EINIT, 4);
EQUAL(code5, LIBI_ELAUNCH, 5);
EQUAL(code6, LIBI_ESESS, 6);
EQUAL(code7, LIBI_EFRONTENDONLY, 7);
EQUAL(code8, LIBI_ESESSALREADYLAUNCHED, 8);
EQUAL(code9, LIBI_EIO, 9);

EQUAL(host_size, sizeof(LIBI::host_t), 24);
EQUAL(host_name, offsetof(LIBI::host_t, hostname), 0);
EQUAL(host_nproc, offsetof(LIBI::host_t, nproc), 8);
EQUAL(host_next, offsetof(LIBI::host_t, next), 16);
EQUAL(env_size, sizeof(LIBI::env_t), 24);
EQUAL(env_name, offsetof(LIBI::env_t, name), 0);
EQUAL(env_value, offsetof(LIBI::env_t, value), 8);
EQUAL(env_next, offsetof(LIBI::env_t, next), 16);
EQUAL(dist_size, sizeof(LIBI::dist_req_t), 24);
EQUAL(dist_path, offsetof(LIBI::dist_req_t, proc_path), 0);
EQUAL(dist_argv, offsetof(LIBI::dist_req_t, proc_argv), 8);
EQUAL(dist_hd, offsetof(LIBI::dist_req_t, hd), 16);
EQUAL(request_size, sizeof(proc_dist_req_t), 32);
EQUAL(request_handle, offsetof(proc_dist_req_t, sessionHandle), 0);
EQUAL(request_path, offsetof(proc_dist_req_t, proc_path), 8);
EQUAL(request_argv, offsetof(proc_dist_req_t, proc_argv), 16);
EQUAL(request_hd, offsetof(proc_dist_req_t, hd), 24);
EQUAL(env_of_size, sizeof(sess_env_t), 16);

/* Unqualified, as callers write them; and functions of C, whose types are these. */
typedef libi_rc_e (*create)(libi_sess_handle_t &);
typedef libi_rc_e (*launch)(proc_dist_req_t[], int);
typedef libi_rc_e (*list)(libi_sess_handle_t, char ***, unsigned int *);
typedef libi_rc_e (*add)(libi_sess_handle_t, libi_env_t *);
typedef libi_rc_e (*init)(int, int *, char ***);

static void take(host_dist_t *hosts, host_t *same, libi_env_t *variables, env_t *others,
    ProcessGroup *session,
                 dist_req_t *request) {
  same = hosts;
  others = variables;
  (void)same, (void)others, (void)session, (void)request;
  LIBI::ProcessGroup *handle = libi_sess_handle_t();
  (void)handle;
}

static bool is_right() {
  create one = LIBI_fe_createSession;
  launch two = LIBI_fe_launch;
  list three = LIBI_fe_getHostlist;
  add four = LIBI_fe_addToSessionEnvironment;
  init five = LIBI_init;
  take(NULL, NULL, NULL, NULL, NULL, NULL);
  int all = debug + sess + session + host + env + rank + size + Session + Process + NONE + FAILURE + OK + SUCCESS +
            ERROR + YES + NO;
  libi_sess_handle_t none = NULL;
  return one(none) == LIBI_EINIT && two && three && four && five && all > 0;
}
