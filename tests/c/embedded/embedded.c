/* A program that has a life of its own, and a front end in it.
 *
 *   embedded MEMBER WHAT
 *
 * MEMBER is the program that all tests launch; WHAT is one of the functions below. Each ends with status 0 if the front end and the
 * program it is in have left each other alone. */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../front/check.h"

static const char *member_program;

/* Launches members that do this, and gives how many have ended, with which status each. */
static int play(libi_front *front, const char *program, const char *hosts,
    const char *const *args, int *codes, int *unknown)
{
  libi_distribution *what = libi_distribution_new(1, program);
  const libi_distribution *all[1];
  libi_options *how = libi_options_new();
  libi_session *session;
  libi_event *event;
  libi_event_info info;
  int ended = 0, done = 0;
  all[0] = what;
  DONE(libi_distribution_set_host_list(what, hosts));
  DONE(libi_distribution_set_args(what, args));
  DONE(libi_options_set_backend(how, LIBI_BACKEND_LOCAL, NULL));
  DONE(libi_front_launch(front, all, 1, how, &session, 1));
  libi_options_free(how);
  while (!done) {
    DONE(libi_front_next_event(front, &event, SOON));
    DONE(libi_event_query(event, &info, sizeof info));
    if (info.kind == LIBI_EVENT_EXITED) {
      ended++;
      if (info.exit == LIBI_EXIT_CODE) codes[info.exit_value & 255]++;
      *unknown += info.exit == LIBI_EXIT_UNKNOWN;
    }
    done = info.kind == LIBI_EVENT_DONE;
    libi_event_free(event);
  }
  libi_session_free(session);
  libi_distribution_free(what);
  return ended;
}

static libi_front *new_front(libi_progress progress)
{
  libi_front *front;
  GIVES(LIBI_OK, libi_front_new(progress, &front));
  return front;
}

/* Sessions of eight members that end with 5; all do. */
static void some_sessions(int rounds)
{
  static const char *args[] = {"join", "finish:10000", "exit:5", NULL};
  libi_front *front = new_front(LIBI_PROGRESS_THREAD);
  int round;
  for (round = 0; round < rounds; round++) {
    int codes[256] = {0}, unknown = 0;
    CHECK(play(front, member_program, "a[1-4]:2", args, codes, &unknown) == 8 && codes[5] == 8);
  }
  libi_front_free(front);
}

static void *in_a_thread(void *barrier)
{
  pthread_barrier_wait((pthread_barrier_t *)barrier);
  some_sessions(5);
  return NULL;
}

/* Front ends that know nothing of each other, in threads of the program's. */
static void two_fronts(void)
{
  pthread_barrier_t barrier;
  pthread_t threads[2];
  int thread;
  CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
  for (thread = 0; thread < 2; thread++)
    CHECK(pthread_create(&threads[thread], NULL, in_a_thread, &barrier) == 0);
  for (thread = 0; thread < 2; thread++) CHECK(pthread_join(threads[thread], NULL) == 0);
  pthread_barrier_destroy(&barrier);
}

static atomic_int children_heard, reaped;

static void hear(int signal)
{
  (void)signal;
  children_heard++;
}

/* A handler for children that have ended is called, and what the program's own have ended with is
   there for it alone. */
static void own_children(void)
{
  struct sigaction action, found;
  pid_t child;
  int status;
  memset(&action, 0, sizeof action);
  action.sa_handler = hear;
  action.sa_flags = SA_RESTART;
  CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
  CHECK((child = fork()) >= 0);
  if (child == 0) {
    pause();
    _exit(1);
  }
  some_sessions(1);
  CHECK(kill(child, SIGTERM) == 0 && waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  CHECK(children_heard > 0);
  CHECK(sigaction(SIGCHLD, NULL, &found) == 0 && found.sa_handler == hear);
  CHECK(waitpid(-1, NULL, 0) == -1 && errno == ECHILD); /* none is left behind */
}

static void reap(int signal)
{
  int before = errno;
  (void)signal;
  while (waitpid(-1, NULL, WNOHANG) > 0) reaped++;
  errno = before;
}

/* A program that collects every child takes from the library how its own have ended, and nothing else. */
static void greedy_reaper(void)
{
  static const char *args[] = {"join", "finish:10000", "exit:5", NULL};
  struct sigaction action;
  libi_front *front;
  int codes[256] = {0}, unknown = 0;
  memset(&action, 0, sizeof action);
  action.sa_handler = reap;
  action.sa_flags = SA_RESTART;
  CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
  front = new_front(LIBI_PROGRESS_THREAD);
  CHECK(play(front, member_program, "a[1-4]:2", args, codes, &unknown) == 8);
  /* The front end is the parent of some leaders at most; others were launched by those. */
  CHECK(codes[5] + unknown == 8 && codes[5] >= 4);
  libi_front_free(front);

  /* The same where the system collects them. */
  action.sa_handler = SIG_IGN;
  CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
  memset(codes, 0, sizeof codes);
  unknown = 0;
  front = new_front(LIBI_PROGRESS_THREAD);
  CHECK(play(front, member_program, "a[1-4]:2", args, codes, &unknown) == 8 && codes[5] + unknown == 8);
  libi_front_free(front);
}

/* The library's threads take no signal that is meant for the program's. */
static void signals_of_its_own(void)
{
  static const char *args[] = {"join", "wait", NULL};
  struct timespec soon = {20, 0};
  sigset_t set, before, after;
  libi_front *front = new_front(LIBI_PROGRESS_THREAD);
  libi_distribution *what = libi_distribution_new(1, member_program);
  const libi_distribution *all[1];
  libi_options *how = libi_options_new();
  libi_session *session;
  int round;
  all[0] = what;
  CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGUSR1) == 0 && sigaddset(&set, SIGTERM) == 0);
  /* The system, and sigemptyset() as well, write only the part of a set that is used. */
  memset(&before, 0, sizeof before);
  memset(&after, 0, sizeof after);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0 && pthread_sigmask(SIG_BLOCK, NULL, &before) == 0);
  DONE(libi_distribution_set_args(what, args));
  DONE(libi_options_set_backend(how, LIBI_BACKEND_LOCAL, NULL));
  DONE(libi_front_launch(front, all, 1, how, &session, 1));
  libi_options_free(how);
  for (round = 0; round < 100; round++) {
    CHECK(kill(getpid(), SIGUSR1) == 0); /* it kills the process in a thread that does not block it */
    CHECK(sigtimedwait(&set, NULL, &soon) == SIGUSR1);
  }
  CHECK(pthread_sigmask(SIG_BLOCK, NULL, &after) == 0 && memcmp(&before, &after, sizeof before) == 0);
  libi_session_free(session);
  libi_distribution_free(what);
  libi_front_free(front);
}

/* Ten thousand descriptors of the program's, none of which a member gets, in spite of their numbers
   and though nothing closes them by itself. */
static void many_descriptors(void)
{
  static const char *args[] = {"-c",
      "test $(ls /proc/$$/fd | wc -l) -lt 8 && exec \"$0\" join finish:10000 exit:5", NULL, NULL};
  struct rlimit limit;
  libi_front *front;
  int codes[256] = {0}, unknown = 0, number, *open_ones = (int *)calloc(10000, sizeof *open_ones);
  CHECK(open_ones && getrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= 10240);
  limit.rlim_cur = limit.rlim_max == RLIM_INFINITY ? 65536 : limit.rlim_max;
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  for (number = 0; number < 10000; number++)
    CHECK((open_ones[number] = open("/dev/null", O_RDONLY)) >= 0);
  front = new_front(LIBI_PROGRESS_THREAD);
  args[2] = member_program;
  CHECK(libi_front_descriptor(front) > 9999);
  CHECK(play(front, "/bin/sh", "a[1-4]:2", args, codes, &unknown) == 8 && codes[5] == 8);
  libi_front_free(front);
  for (number = 0; number < 10000; number++) CHECK(close(open_ones[number]) == 0);
  free(open_ones);
}

/* Four gigabytes that are really there; starting processes does not copy what describes them. */
static void large_heap(void)
{
  size_t length = (size_t)4 << 30, at;
  char *heap = (char *)malloc(length);
  CHECK(heap != NULL);
  for (at = 0; at < length; at += 4096) heap[at] = (char)(at >> 12 | 1);
  some_sessions(2);
  for (at = 0; at < length; at += 4096) CHECK(heap[at] == (char)(at >> 12 | 1));
  free(heap);
}

/* Whatever the program does about broken pipes, it learns of lost members by codes. */
static void broken_pipes(void (*handler)(int))
{
  static const char *args[] = {"join", "wait", NULL};
  static char bytes[1 << 20];
  struct sigaction found;
  libi_front *front;
  libi_distribution *what = libi_distribution_new(1, member_program);
  const libi_distribution *all[1];
  libi_options *how = libi_options_new();
  libi_session *session;
  libi_result result;
  CHECK(signal(SIGPIPE, handler) != SIG_ERR);
  front = new_front(LIBI_PROGRESS_THREAD);
  all[0] = what;
  DONE(libi_distribution_set_host_list(what, "a:2"));
  DONE(libi_distribution_set_args(what, args));
  DONE(libi_options_set_backend(how, LIBI_BACKEND_LOCAL, NULL));
  DONE(libi_options_set_input(how, true));
  DONE(libi_front_launch(front, all, 1, how, &session, 1));
  DONE(libi_session_kill(session, SIGKILL));
  do { /* until the loss is noticed */
    result = libi_session_write(session, bytes, sizeof bytes, 100);
    CHECK(result == LIBI_OK || result == LIBI_ERR_TIMED_OUT || result == LIBI_ERR_ENDED);
  } while (result != LIBI_ERR_ENDED);
  do {
    result = libi_session_send(session, bytes, sizeof bytes, SOON);
  } while (result == LIBI_OK);
  CHECK(result == LIBI_ERR_PEER_LOST || result == LIBI_ERR_ENDED);
  CHECK(sigaction(SIGPIPE, NULL, &found) == 0 && found.sa_handler == handler);
  libi_session_free(session);
  libi_options_free(how);
  libi_distribution_free(what);
  libi_front_free(front);
  some_sessions(1);
}

int main(int argc, char **argv)
{
  const char *what;
  CHECK(argc == 3);
  member_program = argv[1];
  what = argv[2];
  if (!strcmp(what, "two_fronts")) two_fronts();
  else if (!strcmp(what, "own_children")) own_children();
  else if (!strcmp(what, "greedy_reaper")) greedy_reaper();
  else if (!strcmp(what, "signals_of_its_own")) signals_of_its_own();
  else if (!strcmp(what, "many_descriptors")) many_descriptors();
  else if (!strcmp(what, "large_heap")) large_heap();
  else if (!strcmp(what, "broken_pipes_end_it")) broken_pipes(SIG_DFL);
  else if (!strcmp(what, "broken_pipes_are_ignored")) broken_pipes(SIG_IGN);
  else CHECK(!"a word that is known");
  printf("%s: as it should be\n", what);
  return 0;
}
