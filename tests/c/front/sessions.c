/* What a front end does with sessions that are up, how they end, and programs that have loops of
   their own or fork. */

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
  libi_options *how = local_options();
  libi_event *event;
  libi_session *session;
  struct seen seen;

  DONE(libi_options_set_input(how, true));
  session = launch(front, "a:2", reads, how);
  DONE(libi_session_write(session, bytes, sizeof bytes, SOON));
  DONE(libi_session_write(session, NULL, 0, SOON));
  GIVES(LIBI_ERR_NULL, libi_session_write(session, NULL, 1, SOON));
  DONE(libi_session_close_input(session));
  seen = watch(front, 1);
  SAME("1000\n", seen.out);
  libi_session_free(session);

  session = launch(front, "a[1-2]:2", waits, NULL);
  GIVES(LIBI_ERR_TIMED_OUT, libi_session_wait_done(session, 0));
  GIVES(LIBI_ERR_ARGUMENT, libi_session_kill(session, 65));
  DONE(libi_session_kill(session, SIGUSR1));
  seen = watch(front, 1);
  CHECK(seen.signals[SIGUSR1] == 4);
  libi_session_free(session);

  session = launch(front, "a[1-2]:2", stays, NULL);
  do { /* it ignores the signal from here on */
    DONE(libi_front_next_event(front, &event, SOON));
    see(&seen, event);
    libi_event_free(event);
  } while (!strstr(seen.out, "deaf"));
  DONE(libi_session_terminate(session, 100));
  CHECK(stage_of(session) == LIBI_STAGE_OVER);
  GIVES(LIBI_ERR_ENDED, libi_session_write(session, bytes, 1, SOON));
  libi_session_free(session);
  while (libi_front_next_event(front, &event, 0) == LIBI_OK) libi_event_free(event);

  session = launch(front, "a", waits, NULL);
  /* without the option for input */
  GIVES(LIBI_ERR_STATE, libi_session_write(session, bytes, sizeof bytes, SOON));
  SAYS("no standard input", libi_last_error());
  libi_session_free(session);

  session = launch(front, "a:3", leaves, NULL);
  seen = watch(front, 1);
  CHECK(seen.detached == 3);
  libi_session_free(session);

  /* The first process of a host leads it, goes, and takes the other with it. */
  DONE(libi_options_set_input(how, false));
  DONE(libi_options_set_engine(how, LIBI_ENGINE_IN_PROGRAM));
  session = launch(front, "a[1-2]:2", dies, how);
  memset(&seen, 0, sizeof seen);
  while (!seen.lost) {
    DONE(libi_front_next_event(front, &event, SOON));
    see(&seen, event);
    libi_event_free(event);
  }
  SAME("a2", seen.lost_host);
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
  DONE(libi_session_send(session, "one", 3, SOON));
  DONE(libi_session_recv(session, &data, SOON));
  CHECK(libi_data_count(data) == 1 && libi_data_length(data, 0) == 3 &&
      !memcmp(libi_data_bytes(data, 0), "one", 3));
  libi_data_free(data);
  DONE(libi_session_start_recv(session, &receives));
  GIVES(LIBI_NOT_YET, libi_pending_poll(receives));
  GIVES(LIBI_ERR_TIMED_OUT, libi_session_recv(session, &data, 0));
  CHECK(!data);
  DONE(libi_session_start_send(session, "2", 1, &sends));
  DONE(libi_pending_wait(receives, SOON));
  DONE(libi_pending_take(receives, &data));
  CHECK(libi_data_count(data) == 1 && libi_data_length(data, 0) == 1);
  DONE(libi_pending_wait(sends, SOON));
  libi_data_free(data);
  libi_pending_free(receives);
  libi_pending_free(sends);
  CHECK(libi_session_gather(session, &data, 0) != LIBI_OK && !data); /* the members make no such call */
  CHECK(libi_session_broadcast(session, NULL, 1, 0) == LIBI_ERR_NULL);
  DONE(libi_session_start_gather(session, &receives));
  DONE(libi_pending_cancel(receives));
  libi_pending_free(receives);
  DONE(libi_session_start_broadcast(session, "", 0, &sends));
  libi_pending_free(sends);
  CHECK(watch(front, 1).codes[0] == 4);
  GIVES(LIBI_ERR_PEER_LOST, libi_session_send(session, "late", 4, SOON));
  SAYS("rank 0", libi_last_error());
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
    libi_session_info info;
    GIVES(LIBI_ERR_STATE, libi_front_next_event(front, &event, SOON));
    GIVES(LIBI_ERR_STATE, libi_session_terminate(session, SOON));
    GIVES(LIBI_ERR_STATE, libi_session_query(session, &info, sizeof info));
    CHECK(libi_session_ranks(session, LIBI_RANKS_LOST, NULL, 0) == 0 && libi_front_descriptor(front) == -1);
    libi_session_free(session);
    libi_front_free(front);
    kill(getpid(), SIGKILL); /* leak checkers do not look at a killed process */
  }
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  CHECK(stage_of(session) == LIBI_STAGE_UP);
  DONE(libi_session_terminate(session, 0));
  libi_session_free(session);
  libi_front_free(front);
}

void output_elsewhere(void)
{
  static const char *args[] = {"join", "out:rank {rank}", "finish:10000", NULL};
  char path[512], line[32];
  FILE *file;
  libi_front *front = new_front(LIBI_PROGRESS_THREAD);
  libi_options *how = local_options();
  libi_session *session;
  snprintf(path, sizeof path, "%s/output", directory);
  DONE(libi_options_set_output(how, LIBI_OUTPUT_FILES, path));
  session = launch(front, "a:2", args, how);
  CHECK(watch(front, 1).out[0] == 0);
  libi_session_free(session);
  strcat(path, "/1.out");
  CHECK((file = fopen(path, "r")) != NULL && fgets(line, sizeof line, file));
  SAME("rank 1\n", line);
  fclose(file);
  DONE(libi_options_set_output(how, LIBI_OUTPUT_DISCARD, NULL));
  session = launch(front, "a:2", args, how);
  CHECK(watch(front, 1).out[0] == 0);
  libi_session_free(session);
  libi_options_free(how);
  libi_front_free(front);
}

/* Equal lines come once, with all ranks; every rank has all of its lines, in order. */
void folded_output(void)
{
  static const char *args[] = {"join", "out:same", "out:rank {rank}", "finish:10000", NULL};
  char text[4][100] = {"", "", "", ""};
  libi_front *front = new_front(LIBI_PROGRESS_THREAD);
  libi_options *how = local_options();
  libi_session *session;
  libi_event *event;
  libi_event_info info;
  uint32_t ranks[4];
  size_t count, place;
  int done = 0;
  libi_options *wrong = libi_options_new();
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_folded_output(wrong, -1));
  libi_options_free(wrong);
  GIVES(LIBI_ERR_NULL, libi_options_set_folded_output(NULL, 100));
  DONE(libi_options_set_folded_output(how, 100));
  session = launch(front, "a:2,b:2", args, how);
  while (!done) {
    DONE(libi_front_next_event(front, &event, SOON));
    DONE(libi_event_query(event, &info, sizeof info));
    CHECK(info.kind != LIBI_EVENT_OUTPUT);
    done = info.kind == LIBI_EVENT_DONE;
    if (info.kind == LIBI_EVENT_FOLDED) {
      CHECK(info.rank == -1 && info.stream == 1);
      count = libi_event_ranks(event, ranks, 4);
      CHECK(count >= 1 && count <= 4 && libi_event_ranks(event, NULL, 0) == count);
      for (place = 0; place < count; place++) {
        CHECK(ranks[place] < 4);
        strncat(text[ranks[place]], info.bytes, info.length);
      }
    }
    if (info.kind == LIBI_EVENT_EXITED) {
      CHECK(libi_event_ranks(event, ranks, 4) == 1 && ranks[0] == info.rank);
    }
    libi_event_free(event);
  }
  CHECK(libi_event_ranks(NULL, ranks, 4) == 0);
  SAME("same\nrank 0\n", text[0]);
  SAME("same\nrank 3\n", text[3]);
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
  if (loop->ends_from_within && loop->seen.up) {
    libi_front_free(loop->front);
    loop->front = NULL;
  }
}

void loop(libi_progress progress, int ends_from_within)
{
  static const char *args[] = {"join", "out:{rank}", "finish:10000", NULL};
  struct loop state;
  libi_distribution *what = members(1, "a[1-2]:2", args);
  libi_options *how = local_options();
  const libi_distribution *all[1];
  libi_session *session;
  memset(&state, 0, sizeof state);
  state.ends_from_within = ends_from_within;
  state.front = new_front(progress);
  all[0] = what;
  GIVES(LIBI_OK, libi_front_set_event_callback(state.front, on_event, &state));
  DONE(libi_front_start(state.front, all, 1, how, &session, 1));
  libi_options_free(how);
  while (state.front && !state.seen.done) {
    struct pollfd ready = {0, POLLIN, 0};
    libi_timeout timeout = libi_front_next_timeout(state.front);
    ready.fd = libi_front_descriptor(state.front);
    if (timeout < 0 || timeout > SOON) timeout = SOON;
    CHECK(poll(&ready, 1, (int)timeout) >= 0);
    DONE(libi_front_dispatch(state.front));
  }
  CHECK(state.seen.up == 1 && (ends_from_within || state.seen.codes[0] == 4));
  libi_session_free(session);
  libi_distribution_free(what);
  if (!ends_from_within) GIVES(LIBI_OK, libi_front_set_event_callback(state.front, NULL, NULL));
  libi_front_free(state.front);
}
