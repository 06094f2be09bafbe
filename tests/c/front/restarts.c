/* Members that are killed, and started again. */

#include <signal.h>
#include <stdio.h>

#include "parts.h"
#include "play.h"

/* Waits for an event of this kind about this rank, and for the number in its output if it has one. */
static int await(libi_front *front, libi_event_kind kind, uint32_t rank, const char *text)
{
  static struct seen seen;
  int found = 0, number = 0;
  while (!found) {
    libi_event *event;
    libi_event_info info;
    uint32_t ranks[2] = {99, 99};
    DONE(libi_front_next_event(front, &event, SOON));
    memset(&seen, 0, sizeof seen);
    see(&seen, event);
    DONE(libi_event_query(event, &info, sizeof info));
    if (info.kind == kind && info.rank == (int64_t)rank) {
      found = 1;
      CHECK(libi_event_ranks(event, ranks, 2) == 1 && ranks[0] == rank && ranks[1] == 99);
      if (kind == LIBI_EVENT_OUTPUT) CHECK(sscanf(seen.out, "pid %d", &number) == 1);
      SAYS(text, info.text);
    }
    libi_event_free(event);
  }
  return number;
}

/* Kills a member, and waits until that is known. */
static void lose(libi_front *front, uint32_t rank)
{
  CHECK(kill(await(front, LIBI_EVENT_OUTPUT, rank, ""), SIGKILL) == 0);
  await(front, LIBI_EVENT_EXITED, rank, "killed by signal 9");
}

/* Ends a session, and forgets what it has printed, and may print while it ends. */
static libi_front *end(libi_front *front, libi_session *session, libi_progress progress)
{
  libi_session_free(session);
  libi_front_free(front);
  return new_front(progress);
}

void restarts(libi_progress progress)
{
  static const char *runs[] = {"join", "out:pid {pid}", "wait", NULL};
  libi_front *front = new_front(progress);
  libi_options *how = local_options();
  libi_session *session;
  uint32_t rank = 9;

  DONE(libi_options_set_on_loss(how, LIBI_ON_LOSS_CONTINUE));
  DONE(libi_options_set_restarts(how, 1));
  session = launch(front, "a[1-2]:2", runs, how);
  await(front, LIBI_EVENT_OUTPUT, 3, "");
  GIVES(LIBI_ERR_NOT_RESTARTED, libi_session_restart(session, 3, SOON));
  SAYS("still running", libi_last_error());
  await(front, LIBI_EVENT_NOT_RESTARTED, 3, "rank 3 on a2 was not restarted: the member is still running");
  front = end(front, session, progress);

  /* By itself, as often as the options say; then by a call that waits, and by a request. */
  session = launch(front, "a[1-2]:2", runs, how);
  lose(front, 3);
  await(front, LIBI_EVENT_RESTARTED, 3, "rank 3 on a2 was restarted");
  lose(front, 3);
  CHECK(libi_session_ranks(session, LIBI_RANKS_ENDED, &rank, 1) == 1 && rank == 3);
  DONE(libi_session_restart(session, 3, SOON));
  CHECK(libi_session_ranks(session, LIBI_RANKS_ENDED, NULL, 0) == 0);
  await(front, LIBI_EVENT_RESTARTED, 3, "rank 3 on a2 was restarted");
  lose(front, 3);
  DONE(libi_session_request_restart(session, 3));
  await(front, LIBI_EVENT_RESTARTED, 3, "rank 3 on a2 was restarted");
  DONE(libi_session_request_restart(session, 4));
  await(front, LIBI_EVENT_NOT_RESTARTED, 4, "no such rank");
  GIVES(LIBI_ERR_NULL, libi_session_restart(NULL, 3, SOON));
  GIVES(LIBI_ERR_NULL, libi_session_request_restart(NULL, 3));
  GIVES(LIBI_ERR_NULL, libi_session_restart_on(NULL, 3, "b1", SOON));
  GIVES(LIBI_ERR_NULL, libi_session_restart_on(session, 3, NULL, SOON));
  GIVES(LIBI_ERR_ARGUMENT, libi_session_restart_on(session, 3, "b[1-", SOON));
  GIVES(LIBI_ERR_NOT_RESTARTED, libi_session_restart_on(session, 3, "b1", SOON));
  SAYS("the host of the member is up", libi_last_error());
  GIVES(LIBI_ERR_NULL, libi_session_request_restart_on(NULL, 3, "b1"));
  GIVES(LIBI_ERR_NULL, libi_session_request_restart_on(session, 3, NULL));
  GIVES(LIBI_ERR_NOT_RESTARTED, libi_session_request_restart_on(session, 3, "b[1-2]"));
  DONE(libi_session_request_restart_on(session, 3, "b1"));
  await(front, LIBI_EVENT_NOT_RESTARTED, 3, "the host of the member is up");
  GIVES(LIBI_ERR_NULL, libi_options_set_restarts(NULL, 3));
  SAME("the member was not restarted", libi_result_text(LIBI_ERR_NOT_RESTARTED));
  GIVES(LIBI_ERR_ARGUMENT, libi_session_set_on_loss(session, LIBI_ON_LOSS_FAIL));
  SAYS("chosen at the launch", libi_last_error());
  GIVES(LIBI_ERR_ARGUMENT, libi_session_set_on_loss(session, 3));
  GIVES(LIBI_ERR_NULL, libi_session_set_on_loss(NULL, LIBI_ON_LOSS_END));
  DONE(libi_session_set_on_loss(session, LIBI_ON_LOSS_END));
  DONE(libi_session_set_on_loss(session, LIBI_ON_LOSS_CONTINUE));
  front = end(front, session, progress);
  libi_options_free(how);

  /* The master is lost, and the next rank is one. */
  how = local_options();
  DONE(libi_options_set_on_loss(how, LIBI_ON_LOSS_CONTINUE));
  DONE(libi_options_set_replace_master(how, true));
  GIVES(LIBI_ERR_NULL, libi_options_set_replace_master(NULL, true));
  session = launch(front, "a[1-2]:2", runs, how);
  CHECK(libi_session_master(session) == 0 && libi_session_master(NULL) == UINT32_MAX);
  CHECK(kill(await(front, LIBI_EVENT_OUTPUT, 0, ""), SIGKILL) == 0);
  await(front, LIBI_EVENT_MASTER_REPLACED, 1, "rank 1 on a1 is the master now");
  CHECK(libi_session_master(session) == 1);
  DONE(libi_session_send(session, "x", 1, SOON));
  front = end(front, session, progress);
  libi_options_free(how);

  /* Calls of other sessions do not go on without lost members. */
  session = launch(front, "a:2", runs, NULL);
  lose(front, 1);
  GIVES(LIBI_ERR_NOT_RESTARTED, libi_session_restart(session, 1, SOON));
  SAYS("OnLoss::Continue", libi_last_error());
  front = end(front, session, progress);
  libi_front_free(front);
}
