/* Whatever is NULL, of another type, out of range, or over: each has its code, and nothing else happens. */

#include "parts.h"
#include "play.h"

void misuse(void)
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
