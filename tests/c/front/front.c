/* Front ends, sessions, events and reports: everything a front end in C does, with members that a test provides.
 *
 *   front MEMBER SHELL DIRECTORY
 *
 * MEMBER and SHELL are the programs that all tests launch and launch with; the stand-in shell is told by DIRECTORY/faults which hosts
 * are not there. */

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "describe.h"

static const char *member_program, *shell, *directory;

/* What has happened in a session, added up. */
struct seen {
  int up, given_up, exited, released, lost, done, codes[256], signals[65];
  char out[4096], err[4096];
};

/* Adds an event, and looks at all that it has. */
static void see(struct seen *seen, const libi_event *event)
{
  libi_event_kind kind = libi_event_kind_of(event);
  seen->up += kind == LIBI_EVENT_UP;
  seen->given_up += kind == LIBI_EVENT_GIVEN_UP;
  seen->released += kind == LIBI_EVENT_RELEASED;
  seen->done += kind == LIBI_EVENT_DONE;
  if (kind == LIBI_EVENT_OUTPUT) {
    char *to = libi_event_stream(event) == 2 ? seen->err : seen->out;
    size_t length = libi_event_length(event);
    CHECK(libi_event_stream(event) == 1 || libi_event_stream(event) == 2);
    CHECK(strlen(to) + length < sizeof seen->out);
    strncat(to, (const char *)libi_event_bytes(event), length);
  } else {
    CHECK(!libi_event_bytes(event) && libi_event_length(event) == 0 && libi_event_stream(event) == 0);
  }
  if (kind == LIBI_EVENT_EXITED) {
    seen->exited++;
    if (libi_event_exit(event) == LIBI_EXIT_CODE) seen->codes[libi_event_exit_value(event) & 255]++;
    if (libi_event_exit(event) == LIBI_EXIT_SIGNAL) seen->signals[libi_event_exit_value(event)]++;
  } else {
    CHECK(libi_event_exit(event) == LIBI_EXIT_NONE && libi_event_exit_value(event) == 0);
  }
  CHECK((libi_event_rank(event) >= 0) ==
        (kind == LIBI_EVENT_OUTPUT || kind == LIBI_EVENT_EXITED || kind == LIBI_EVENT_RELEASED));
  if (kind == LIBI_EVENT_LOST) {
    seen->lost++;
    CHECK(libi_event_host(event) >= 0 && libi_event_host_name(event));
    CHECK(libi_failure_text(libi_event_failure(event)));
  } else {
    CHECK(libi_event_host(event) == -1 && !libi_event_host_name(event) && !libi_event_failure(event));
  }
}

/* All that happens in this front end until so many sessions are over. */
static struct seen watch(libi_front *front, int sessions)
{
  static struct seen seen;
  libi_event *event;
  memset(&seen, 0, sizeof seen);
  while (seen.done + seen.given_up < sessions) {
    DONE(front, libi_front_next_event(front, SOON, &event), libi_front_error);
    see(&seen, event);
    libi_event_free(event);
  }
  return seen;
}

/* Processes of the program for members, which does what its arguments say. */
static libi_distribution *members(uint32_t session, const char *hosts, const char *const *args)
{
  libi_distribution *members = libi_distribution_new(session, member_program);
  DONE(members, libi_distribution_set_host_list(members, hosts), libi_distribution_error);
  DONE(members, libi_distribution_set_args(members, args), libi_distribution_error);
  return members;
}

static libi_front *new_front(libi_progress progress)
{
  libi_front *front;
  GIVES(LIBI_OK, libi_front_new(progress, &front));
  return front;
}

/* Launches one session, and has it up. */
static libi_session *launch(libi_front *front, const char *hosts, const char *const *args, const libi_options *how)
{
  libi_distribution *what = members(1, hosts, args);
  const libi_distribution *all[1];
  libi_session *session;
  all[0] = what;
  DONE(front, libi_front_launch(front, all, 1, how, &session, 1), libi_front_error);
  libi_distribution_free(what);
  return session;
}

static libi_options *through_shell(const char *faults)
{
  char path[512];
  FILE *file;
  libi_options *how = libi_options_new();
  DONE(how, libi_options_via_shell(how, shell), libi_options_error);
  DONE(how, libi_options_set_loopback(how, true), libi_options_error);
  snprintf(path, sizeof path, "%s/faults", directory);
  CHECK((file = fopen(path, "w")) != NULL && fputs(faults, file) >= 0 && fclose(file) == 0);
  CHECK(setenv("LIBI_TEST_SHELL", path, 1) == 0);
  return how;
}

static void two_sessions_side_by_side(void)
{
  static const char *first[] = {"join", "only:0:out:first", "finish:10000", "exit:3", NULL};
  static const char *second[] = {"join", "err:second", "finish:10000", NULL};
  libi_front *front = new_front(LIBI_PROGRESS_THREAD);
  libi_distribution *a = members(5, "x[1-2]:2", first), *b = members(9, "y", second);
  const libi_distribution *both[2];
  libi_session *sessions[3];
  libi_layout *layout;
  libi_report *report;
  libi_micros seq, rem;
  struct seen seen;
  uint32_t joined, failed, waiting, direct, fell_back, ranks[8];
  both[0] = a;
  both[1] = b;
  GIVES(LIBI_ERR_LENGTH, libi_front_launch(front, both, 2, NULL, sessions, 1));
  SAYS("room for 1 of 2", libi_front_error(front));
  DONE(front, libi_front_launch(front, both, 2, NULL, sessions, 3), libi_front_error);
  CHECK(sessions[0] && sessions[1] && !sessions[2]);
  CHECK(libi_session_id(sessions[0]) == 5 && libi_session_size(sessions[0]) == 4);
  CHECK(libi_session_id(sessions[1]) == 9 && libi_session_size(sessions[1]) == 1);
  CHECK(libi_session_stage(sessions[0]) >= LIBI_STAGE_UP);
  DONE(sessions[0], libi_session_tally(sessions[0], &joined, &failed, &waiting), libi_session_error);
  CHECK(joined == 2 && failed == 0 && waiting == 0);
  DONE(sessions[0], libi_session_links(sessions[0], &direct, &fell_back), libi_session_error);
  layout = libi_session_layout(sessions[0]);
  CHECK(libi_layout_size(layout) == 4 && libi_layout_host_of(layout, 3) == 1);
  libi_layout_free(layout);
  DONE(sessions[0], libi_session_report(sessions[0], &report), libi_session_error);
  CHECK(libi_report_is_up(report) && libi_report_session(report) == 5 && libi_report_took(report) > 0);
  CHECK(libi_report_hosts(report) == 2 && libi_report_joined(report) == 2);
  SAME("x2", libi_report_host_name(report, 1));
  CHECK(libi_report_host_members(report, 1) == 2 && libi_report_host_attempts(report, 1) == 1);
  CHECK(libi_report_host_launcher(report, 0) == -1 && libi_report_host_started(report, 0) >= 0);
  CHECK(libi_report_host_greeted(report, 0) > 0 && libi_report_host_joined(report, 0) >= 0);
  CHECK(libi_report_host_direct(report, 1) == -1 && !libi_report_failure(report, 1));
  CHECK(!libi_report_host_name(report, 2) && libi_report_host_started(report, 2) == -1);
  CHECK(libi_report_replaced(report) == 0 && !libi_report_flat_host(report) && !libi_report_flat_failure(report));
  GIVES(LIBI_NONE, libi_report_cost(report, &seq, &rem));
  SAYS("2 hosts joined with 4 members", libi_report_text(report));
  SAYS("traceEvents", libi_report_json(report));
  SAYS("<svg", libi_report_svg(report));
  libi_report_free(report);
  GIVES(LIBI_NONE, libi_front_report(front, &report));

  seen = watch(front, 2);
  CHECK(seen.up == 2 && seen.exited == 5 && seen.codes[3] == 4 && seen.codes[0] == 1 && !seen.lost);
  SAME("first\n", seen.out);
  SAME("second\n", seen.err);
  DONE(sessions[1], libi_session_wait_done(sessions[1], SOON), libi_session_error);
  CHECK(libi_session_lost(sessions[0], ranks, 2) == 4 && ranks[0] == 0 && ranks[1] == 1);
  CHECK(libi_session_lost(sessions[0], NULL, 0) == 4);
  libi_session_free(sessions[0]);
  libi_session_free(sessions[1]);
  libi_distribution_free(a);
  libi_distribution_free(b);
  libi_front_free(front);
}

static void hosts_that_fail(void)
{
  static const char *args[] = {"join", "finish:10000", NULL};
  libi_options *how = through_shell("fault bad* refuse unknown-host\n");
  libi_front *front = new_front(LIBI_PROGRESS_THREAD);
  libi_distribution *what = members(1, "good1,bad1,bad2", args);
  const libi_distribution *all[1];
  const libi_failure *failure;
  libi_hosts *spares = libi_hosts_new();
  libi_session *session;
  libi_report *report;
  libi_event *event;
  const char *why;
  struct seen seen;
  all[0] = what;
  GIVES(LIBI_ERR_NOT_LAUNCHED, libi_front_launch(front, all, 1, how, &session, 1));
  CHECK(!session);
  SAYS("bad[1-2]  the name is not known", why = libi_front_error(front));
  DONE(front, libi_front_report(front, &report), libi_front_error);
  CHECK(!libi_report_is_up(report) && libi_report_joined(report) == 1);
  failure = libi_report_failure(report, 1);
  CHECK(libi_failure_phase(failure) == LIBI_PHASE_STARTING && libi_failure_cause(failure) == LIBI_CAUSE_EXITED);
  CHECK(libi_failure_exit(failure) == LIBI_EXIT_CODE && libi_failure_exit_value(failure) == 255);
  CHECK(libi_failure_elapsed(failure) > 0 && libi_failure_member(failure) == -1);
  SAME("the name is not known", libi_failure_refusal(failure));
  SAYS("Could not resolve hostname", libi_failure_evidence(failure));
  SAYS("bad1", libi_failure_tail(failure));
  SAYS("exited 255", libi_failure_text(failure));
  libi_report_free(report);

  /* What is enough, and who takes whose place. */
  DONE(how, libi_options_require(how, 2), libi_options_error);
  DONE(spares, libi_hosts_parse(spares, "good2"), libi_hosts_error);
  DONE(how, libi_options_set_spares(how, spares), libi_options_error);
  DONE(front, libi_front_start(front, all, 1, how, &session, 1), libi_front_error);
  DONE(session, libi_session_wait_up(session, SOON), libi_session_error);
  DONE(session, libi_session_report(session, &report), libi_session_error);
  CHECK(libi_report_is_up(report) && libi_report_joined(report) == 2 && libi_report_replaced(report) == 1);
  SAYS("bad", libi_report_replaced_name(report, 0));
  SAME("good2", libi_report_replaced_by(report, 0));
  CHECK(libi_report_replaced_host(report, 0) >= 1);
  SAYS("Could not resolve", libi_failure_evidence(libi_report_replaced_failure(report, 0)));
  CHECK(!libi_report_replaced_name(report, 1) && !libi_report_replaced_by(report, 1));
  CHECK(libi_report_replaced_host(report, 1) == -1 && !libi_report_replaced_failure(report, 1));
  libi_report_free(report);
  seen = watch(front, 2); /* the one that was given up is told of, too */
  CHECK(seen.given_up == 1 && seen.codes[0] == 2);
  while (libi_front_next_event(front, 0, &event) == LIBI_OK) libi_event_free(event);
  CHECK(libi_front_error(front) == why); /* that nothing has happened since is no failure */
  libi_session_free(session);

  /* A launch that does not come up while nobody waits. */
  DONE(how, libi_options_require_all(how), libi_options_error);
  DONE(how, libi_options_set_spares(how, NULL), libi_options_error);
  DONE(front, libi_front_start(front, all, 1, how, &session, 1), libi_front_error);
  GIVES(LIBI_ERR_NOT_LAUNCHED, libi_session_wait_up(session, SOON));
  SAYS("bad[1-2]", libi_session_error(session));
  CHECK(libi_session_stage(session) >= LIBI_STAGE_GIVEN_UP);
  libi_session_free(session);
  libi_distribution_free(what);
  libi_hosts_free(spares);
  libi_options_free(how);
  libi_front_free(front);
}

static void hosts_that_cannot_launch_each_other(void)
{
  static const char *args[] = {"join", "finish:10000", NULL};
  libi_options *how = through_shell("seq 2ms\nrem 20ms\nfault * from n* refuse permission\nlocks .\n");
  libi_front *front = new_front(LIBI_PROGRESS_THREAD);
  libi_session *session;
  libi_report *report;
  libi_micros seq = -1, rem = -1;
  DONE(how, libi_options_set_cost(how, 2000, 20000), libi_options_error);
  session = launch(front, "n[00-63]", args, how);
  DONE(session, libi_session_report(session, &report), libi_session_error);
  CHECK(libi_report_flat_host(report) != NULL);
  SAYS("Permission denied", libi_failure_text(libi_report_flat_failure(report)));
  CHECK(libi_report_cost(report, &seq, &rem) == LIBI_OK && seq > 0 && rem > 10000);
  GIVES(LIBI_ERR_NULL, libi_report_cost(report, NULL, &rem));
  libi_report_free(report);
  libi_session_free(session);
  libi_options_free(how);
  libi_front_free(front);
}

static void input_signals_and_ends(void)
{
  static const char *reads[] = {"join", "only:0:read", "finish:10000", NULL};
  static const char *waits[] = {"join", "wait", NULL};
  static const char *stays[] = {"join", "ignore:15", "only:0:out:deaf", "wait", NULL};
  static const char *leaves[] = {"join", "finish:10000", "finalize:10000", NULL};
  static const char *dies[] = {"join", "only:2:signal:9", "wait", NULL};
  char bytes[1000] = {0};
  libi_front *front = new_front(LIBI_PROGRESS_THREAD);
  libi_options *how = libi_options_new();
  libi_event *event;
  libi_session *session;
  struct seen seen;

  DONE(how, libi_options_set_input(how, true), libi_options_error);
  session = launch(front, "a:2", reads, how);
  DONE(session, libi_session_write(session, bytes, sizeof bytes, SOON), libi_session_error);
  DONE(session, libi_session_write(session, NULL, 0, SOON), libi_session_error);
  GIVES(LIBI_ERR_NULL, libi_session_write(session, NULL, 1, SOON));
  DONE(session, libi_session_close_input(session), libi_session_error);
  seen = watch(front, 1);
  SAME("1000\n", seen.out);
  libi_session_free(session);

  session = launch(front, "a[1-2]:2", waits, NULL);
  GIVES(LIBI_ERR_TIMED_OUT, libi_session_wait_done(session, 0));
  GIVES(LIBI_ERR_ARGUMENT, libi_session_kill(session, 65));
  DONE(session, libi_session_kill(session, SIGUSR1), libi_session_error);
  seen = watch(front, 1);
  CHECK(seen.signals[SIGUSR1] == 4);
  libi_session_free(session);

  session = launch(front, "a[1-2]:2", stays, NULL);
  do { /* it ignores the signal from here on */
    DONE(front, libi_front_next_event(front, SOON, &event), libi_front_error);
    see(&seen, event);
    libi_event_free(event);
  } while (!strstr(seen.out, "deaf"));
  DONE(session, libi_session_terminate(session, 100), libi_session_error);
  CHECK(libi_session_stage(session) == LIBI_STAGE_OVER);
  GIVES(LIBI_ERR_ENDED, libi_session_write(session, bytes, 1, SOON));
  libi_session_free(session);
  while (libi_front_next_event(front, 0, &event) == LIBI_OK) libi_event_free(event);

  session = launch(front, "a", waits, NULL);
  GIVES(LIBI_ERR_STATE, libi_session_write(session, bytes, sizeof bytes, SOON)); /* nobody has asked for input */
  SAYS("no input", libi_session_error(session));
  libi_session_free(session);

  session = launch(front, "a:3", leaves, NULL);
  seen = watch(front, 1);
  CHECK(seen.released == 3);
  libi_session_free(session);

  /* The first process of a host goes, and takes the other with it. */
  session = launch(front, "a[1-2]:2", dies, NULL);
  memset(&seen, 0, sizeof seen);
  while (!seen.lost) {
    DONE(front, libi_front_next_event(front, SOON, &event), libi_front_error);
    see(&seen, event);
    if (libi_event_kind_of(event) == LIBI_EVENT_LOST) SAME("a2", libi_event_host_name(event));
    libi_event_free(event);
  }
  libi_session_free(session);
  libi_options_free(how);
  libi_front_free(front);
}

static void messages(void)
{
  static const char *echoes[] = {"join", "talk:front", "finish:10000", NULL};
  libi_front *front = new_front(LIBI_PROGRESS_THREAD);
  libi_session *session = launch(front, "a[1-2]:2", echoes, NULL);
  libi_pending *sends, *receives;
  libi_data *data;
  DONE(session, libi_session_send(session, "one", 3, SOON), libi_session_error);
  DONE(session, libi_session_recv(session, &data, SOON), libi_session_error);
  CHECK(libi_data_count(data) == 1 && libi_data_length(data, 0) == 3 && !memcmp(libi_data_bytes(data, 0), "one", 3));
  libi_data_free(data);
  DONE(session, libi_session_start_recv(session, &receives), libi_session_error);
  GIVES(LIBI_NOT_YET, libi_pending_poll(receives));
  GIVES(LIBI_ERR_TIMED_OUT, libi_session_recv(session, &data, 0));
  CHECK(!data);
  DONE(session, libi_session_start_send(session, "2", 1, &sends), libi_session_error);
  DONE(receives, libi_pending_wait(receives, SOON), libi_pending_error);
  DONE(receives, libi_pending_take(receives, &data), libi_pending_error);
  CHECK(libi_data_count(data) == 1 && libi_data_length(data, 0) == 1);
  DONE(sends, libi_pending_wait(sends, SOON), libi_pending_error);
  libi_data_free(data);
  libi_pending_free(receives);
  libi_pending_free(sends);
  CHECK(watch(front, 1).codes[0] == 4);
  GIVES(LIBI_ERR_PEER_LOST, libi_session_send(session, "late", 4, SOON));
  SAYS("rank 0", libi_session_error(session));
  GIVES(LIBI_ERR_NULL, libi_session_send(session, NULL, 1, SOON));
  GIVES(LIBI_ERR_NULL, libi_session_recv(session, NULL, SOON));
  GIVES(LIBI_ERR_NULL, libi_session_start_send(session, "x", 1, NULL));
  GIVES(LIBI_ERR_NULL, libi_session_start_recv(session, NULL));
  GIVES(LIBI_ERR_NULL, libi_session_send(NULL, "x", 1, SOON));
  GIVES(LIBI_ERR_NULL, libi_session_recv(NULL, &data, SOON));
  GIVES(LIBI_ERR_NULL, libi_session_start_send(NULL, "x", 1, &sends));
  GIVES(LIBI_ERR_NULL, libi_session_start_recv(NULL, &receives));
  libi_session_free(session);
  libi_front_free(front);
}

/* A child that was forked has nothing of its parent's. */
static void forked(void)
{
  static const char *waits[] = {"join", "wait", NULL};
  libi_front *front = new_front(LIBI_PROGRESS_THREAD);
  libi_session *session = launch(front, "a:2", waits, NULL);
  int status;
  pid_t child = fork();
  if (child == 0) {
    libi_event *event;
    GIVES(LIBI_ERR_STATE, libi_front_next_event(front, SOON, &event));
    GIVES(LIBI_ERR_STATE, libi_session_terminate(session, SOON));
    CHECK(libi_session_stage(session) == -1 && libi_front_descriptor(front) == -1);
    libi_session_free(session);
    libi_front_free(front);
    kill(getpid(), SIGKILL); /* what it leaves alone is no leak: nobody looks for one */
  }
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  CHECK(libi_session_stage(session) == LIBI_STAGE_UP);
  DONE(session, libi_session_terminate(session, 0), libi_session_error);
  libi_session_free(session);
  libi_front_free(front);
}

static void output_elsewhere(void)
{
  static const char *args[] = {"join", "out:rank {rank}", "finish:10000", NULL};
  char path[512], line[32];
  FILE *file;
  libi_front *front = new_front(LIBI_PROGRESS_THREAD);
  libi_options *how = libi_options_new();
  libi_session *session;
  snprintf(path, sizeof path, "%s/output", directory);
  DONE(how, libi_options_output_to_files(how, path), libi_options_error);
  session = launch(front, "a:2", args, how);
  CHECK(watch(front, 1).out[0] == 0);
  libi_session_free(session);
  strcat(path, "/1.out");
  CHECK((file = fopen(path, "r")) != NULL && fgets(line, sizeof line, file));
  SAME("rank 1\n", line);
  fclose(file);
  DONE(how, libi_options_output_dropped(how), libi_options_error);
  session = launch(front, "a:2", args, how);
  CHECK(watch(front, 1).out[0] == 0);
  libi_session_free(session);
  libi_options_free(how);
  libi_front_free(front);
}

/* What a loop keeps. */
struct loop {
  libi_front *front;
  struct seen seen;
  int ends_from_within;
};

static void on_event(void *userdata, const libi_event *event)
{
  struct loop *loop = (struct loop *)userdata;
  see(&loop->seen, event);
  GIVES(LIBI_ERR_BUSY, libi_front_dispatch(loop->front));
  CHECK(libi_front_descriptor(loop->front) >= 0); /* all else may be called */
  if (loop->ends_from_within && libi_event_kind_of(event) == LIBI_EVENT_UP) {
    libi_front_free(loop->front);
    loop->front = NULL;
  }
}

static void loop(libi_progress progress, int ends_from_within)
{
  static const char *args[] = {"join", "out:{rank}", "finish:10000", NULL};
  struct loop state;
  libi_distribution *what = members(1, "a[1-2]:2", args);
  const libi_distribution *all[1];
  libi_session *session;
  memset(&state, 0, sizeof state);
  state.ends_from_within = ends_from_within;
  state.front = new_front(progress);
  all[0] = what;
  GIVES(LIBI_OK, libi_front_on_event(state.front, &state, on_event));
  DONE(state.front, libi_front_start(state.front, all, 1, NULL, &session, 1), libi_front_error);
  while (state.front && !state.seen.done) {
    struct pollfd ready = {0, POLLIN, 0};
    libi_millis patience = libi_front_patience(state.front);
    ready.fd = libi_front_descriptor(state.front);
    if (patience < 0 || patience > SOON) patience = SOON;
    CHECK(poll(&ready, 1, (int)patience) >= 0);
    DONE(state.front, libi_front_dispatch(state.front), libi_front_error);
  }
  CHECK(state.seen.up == 1 && (ends_from_within || state.seen.codes[0] == 4));
  libi_session_free(session);
  libi_distribution_free(what);
  if (!ends_from_within) GIVES(LIBI_OK, libi_front_on_event(state.front, NULL, NULL));
  libi_front_free(state.front);
}

static void misuse(void)
{
  static const char *args[] = {"join", "wait", NULL};
  libi_front *front = new_front(LIBI_PROGRESS_THREAD), *none = NULL;
  libi_session *session;
  libi_report *report;
  libi_event *event;
  libi_micros seq, rem;
  uint32_t number;
  const libi_distribution *nobody[1] = {NULL};

  GIVES(LIBI_ERR_NULL, libi_front_new(LIBI_PROGRESS_THREAD, NULL));
  GIVES(LIBI_ERR_ARGUMENT, libi_front_new(7, &none));
  SAYS("there is no progress 7", libi_front_error(none));
  GIVES(LIBI_ERR_STATE, libi_front_next_event(none, 0, &event));
  GIVES(LIBI_ERR_STATE, libi_front_dispatch(none));
  CHECK(libi_front_descriptor(none) == -1 && libi_front_patience(none) == -1);
  libi_front_free(none);

  GIVES(LIBI_NOT_YET, libi_front_next_event(front, 0, &event));
  CHECK(!event);
  GIVES(LIBI_ERR_NULL, libi_front_next_event(front, 0, NULL));
  GIVES(LIBI_ERR_NULL, libi_front_report(front, NULL));
  GIVES(LIBI_ERR_LAYOUT, libi_front_launch(front, NULL, 0, NULL, &session, 1));
  GIVES(LIBI_ERR_NULL, libi_front_launch(front, nobody, 1, NULL, &session, 1));
  GIVES(LIBI_ERR_NULL, libi_front_start(front, nobody, 1, NULL, NULL, 1));
  GIVES(LIBI_ERR_NULL, libi_front_launch(NULL, nobody, 1, NULL, &session, 1));
  GIVES(LIBI_ERR_NULL, libi_front_start(NULL, nobody, 1, NULL, &session, 1));
  GIVES(LIBI_ERR_NULL, libi_front_next_event(NULL, 0, &event));
  GIVES(LIBI_ERR_NULL, libi_front_on_event(NULL, NULL, NULL));
  GIVES(LIBI_ERR_NULL, libi_front_dispatch(NULL));
  GIVES(LIBI_ERR_NULL, libi_front_report(NULL, &report));
  CHECK(libi_front_descriptor(NULL) == -1 && libi_front_patience(NULL) == -1);
  SAME("", libi_front_error(NULL));
  libi_front_free(NULL);

  GIVES(LIBI_ERR_NULL, libi_session_wait_up(NULL, 0));
  GIVES(LIBI_ERR_NULL, libi_session_wait_done(NULL, 0));
  GIVES(LIBI_ERR_NULL, libi_session_write(NULL, "x", 1, 0));
  GIVES(LIBI_ERR_NULL, libi_session_close_input(NULL));
  GIVES(LIBI_ERR_NULL, libi_session_kill(NULL, 15));
  GIVES(LIBI_ERR_NULL, libi_session_terminate(NULL, 0));
  GIVES(LIBI_ERR_NULL, libi_session_report(NULL, &report));
  GIVES(LIBI_ERR_NULL, libi_session_tally(NULL, &number, &number, &number));
  GIVES(LIBI_ERR_NULL, libi_session_links(NULL, &number, &number));
  CHECK(libi_session_id(NULL) == 0 && libi_session_size(NULL) == 0 && libi_session_stage(NULL) == -1);
  CHECK(!libi_session_layout(NULL) && libi_session_lost(NULL, NULL, 0) == 0);
  SAME("", libi_session_error(NULL));
  libi_session_free(NULL);

  CHECK(libi_event_kind_of(NULL) == 0 && libi_event_session(NULL) == 0 && libi_event_rank(NULL) == -1);
  CHECK(!libi_event_bytes(NULL) && !libi_event_length(NULL) && !libi_event_stream(NULL) && !libi_event_exit(NULL));
  CHECK(!libi_event_exit_value(NULL) && libi_event_host(NULL) == -1 && !libi_event_host_name(NULL));
  CHECK(!libi_event_failure(NULL));
  libi_event_free(NULL);
  CHECK(!libi_report_text(NULL) && !libi_report_is_up(NULL) && libi_report_took(NULL) == -1);
  CHECK(!libi_report_json(NULL) && !libi_report_svg(NULL) && !libi_report_hosts(NULL) && !libi_report_joined(NULL));
  CHECK(libi_report_session(NULL) == 0 && !libi_report_failure(NULL, 0) && !libi_report_replaced(NULL));
  CHECK(!libi_report_host_name(NULL, 0) && !libi_report_host_members(NULL, 0) && !libi_report_host_attempts(NULL, 0));
  CHECK(libi_report_host_launcher(NULL, 0) == -1 && libi_report_host_started(NULL, 0) == -1);
  CHECK(libi_report_host_greeted(NULL, 0) == -1 && libi_report_host_joined(NULL, 0) == -1);
  CHECK(libi_report_host_direct(NULL, 0) == -1 && libi_report_replaced_host(NULL, 0) == -1);
  CHECK(!libi_report_replaced_name(NULL, 0) && !libi_report_replaced_by(NULL, 0) && !libi_report_replaced_failure(NULL, 0));
  CHECK(!libi_report_flat_host(NULL) && !libi_report_flat_failure(NULL));
  GIVES(LIBI_ERR_NULL, libi_report_cost(NULL, &seq, &rem));
  libi_report_free(NULL);
  CHECK(!libi_failure_text(NULL) && libi_failure_phase(NULL) == -1 && libi_failure_cause(NULL) == -1);
  CHECK(!libi_failure_refusal(NULL) && !libi_failure_evidence(NULL) && !libi_failure_tail(NULL));
  CHECK(libi_failure_elapsed(NULL) == -1 && libi_failure_member(NULL) == -1 && !libi_failure_exit(NULL));
  CHECK(libi_failure_exit_value(NULL) == 0);
  CHECK(libi_result_text(LIBI_OK) && !libi_result_text(9999));

  /* A session that has outlived its front end. */
  session = launch(front, "a:2", args, NULL);
  GIVES(LIBI_ERR_NULL, libi_session_report(session, NULL));
  GIVES(LIBI_ERR_NULL, libi_session_tally(session, &number, NULL, &number));
  GIVES(LIBI_ERR_NULL, libi_session_links(session, NULL, &number));
  GIVES(LIBI_ERR_HANDLE, libi_front_dispatch((libi_front *)(void *)session));
  libi_front_free(front);
  GIVES(LIBI_ERR_ENDED, libi_session_write(session, "x", 1, SOON));
  CHECK(libi_session_stage(session) == LIBI_STAGE_OVER);
  DONE(session, libi_session_wait_done(session, SOON), libi_session_error);
  DONE(session, libi_session_terminate(session, 0), libi_session_error);
  libi_session_free(session);
}

/* How many descriptors are open. */
static int descriptors(void)
{
  int count = 0, number;
  for (number = 0; number < 1024; number++) count += fcntl(number, F_GETFD) >= 0;
  return count;
}

int main(int argc, char **argv)
{
  int before = descriptors();
  CHECK(argc == 4);
  member_program = argv[1];
  shell = argv[2];
  directory = argv[3];
  describe();
  two_sessions_side_by_side();
  hosts_that_fail();
  hosts_that_cannot_launch_each_other();
  input_signals_and_ends();
  messages();
  forked();
  output_elsewhere();
  loop(LIBI_PROGRESS_THREAD, 0);
  loop(LIBI_PROGRESS_MANUAL, 0);
  loop(LIBI_PROGRESS_THREAD, 1);
  loop(LIBI_PROGRESS_MANUAL, 1);
  misuse();
  CHECK(descriptors() == before);
  puts("front: all as it should be");
  return 0;
}
