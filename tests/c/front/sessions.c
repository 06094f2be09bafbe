/* What a front end does with sessions that are up, how they end, and programs that have loops of their own or fork. */

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "parts.h"
#include "play.h"

void input_signals_and_ends(void)
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

void messages(void)
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
void forked(void)
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

void output_elsewhere(void)
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

void loop(libi_progress progress, int ends_from_within)
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
