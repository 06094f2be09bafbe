/* NULL, objects of another type, values out of range: each has its code and no other effect. */

#include "parts.h"
#include "play.h"

static void nothing(void)
{
  libi_session *session;
  libi_layout *layout;
  libi_report *report;
  libi_event *event;
  libi_data *data;
  libi_pending *pending;
  libi_session_info session_info;
  libi_event_info event_info;
  libi_report_info info;
  libi_report_host_info host;
  libi_report_replacement_info replacement;
  libi_failure_info failure;
  const libi_distribution *missing[1] = {NULL};

  GIVES(LIBI_ERR_NULL, libi_front_launch(NULL, missing, 1, NULL, &session, 1));
  GIVES(LIBI_ERR_NULL, libi_front_start(NULL, missing, 1, NULL, &session, 1));
  GIVES(LIBI_ERR_NULL, libi_front_next_event(NULL, &event, 0));
  GIVES(LIBI_ERR_NULL, libi_front_set_event_callback(NULL, NULL, NULL));
  GIVES(LIBI_ERR_NULL, libi_front_dispatch(NULL));
  GIVES(LIBI_ERR_NULL, libi_front_report(NULL, &report));
  CHECK(libi_front_descriptor(NULL) == -1 && libi_front_next_timeout(NULL) == -1);
  libi_front_free(NULL);

  GIVES(LIBI_ERR_NULL, libi_session_wait_up(NULL, 0));
  GIVES(LIBI_ERR_NULL, libi_session_wait_done(NULL, 0));
  GIVES(LIBI_ERR_NULL, libi_session_write(NULL, "x", 1, 0));
  GIVES(LIBI_ERR_NULL, libi_session_close_input(NULL));
  GIVES(LIBI_ERR_NULL, libi_session_kill(NULL, 15));
  GIVES(LIBI_ERR_NULL, libi_session_terminate(NULL, 0));
  GIVES(LIBI_ERR_NULL, libi_session_report(NULL, &report));
  GIVES(LIBI_ERR_NULL, libi_session_layout(NULL, &layout));
  memset(&session_info, 9, sizeof session_info);
  GIVES(LIBI_ERR_NULL, libi_session_query(NULL, &session_info, sizeof session_info));
  CHECK(session_info.size == 0 && session_info.fell_back == 0);
  GIVES(LIBI_ERR_NULL, libi_session_broadcast(NULL, "x", 1, 0));
  GIVES(LIBI_ERR_NULL, libi_session_start_broadcast(NULL, "x", 1, &pending));
  GIVES(LIBI_ERR_NULL, libi_session_gather(NULL, &data, 0));
  GIVES(LIBI_ERR_NULL, libi_session_start_gather(NULL, &pending));
  CHECK(libi_session_ranks(NULL, LIBI_RANKS_LOST, NULL, 0) == 0);
  libi_session_free(NULL);

  memset(&event_info, 9, sizeof event_info);
  GIVES(LIBI_ERR_NULL, libi_event_query(NULL, &event_info, sizeof event_info));
  CHECK(event_info.kind == LIBI_EVENT_OTHER && !event_info.bytes && !event_info.failure);
  libi_event_free(NULL);
  GIVES(LIBI_ERR_NULL, libi_report_query(NULL, &info, sizeof info));
  GIVES(LIBI_ERR_NULL, libi_report_host(NULL, 0, &host, sizeof host));
  GIVES(LIBI_ERR_NULL, libi_report_replacement(NULL, 0, &replacement, sizeof replacement));
  CHECK(!libi_report_text(NULL) && !libi_report_json(NULL) && !libi_report_svg(NULL));
  libi_report_free(NULL);
  GIVES(LIBI_ERR_NULL, libi_failure_query(NULL, &failure, sizeof failure));
  CHECK(!failure.text);
}

/* The library's log lines, in whatever thread. */
static int log_lines;

static void on_log(void *userdata, libi_log_level level, const char *target, const char *text)
{
  CHECK(userdata == &log_lines && level >= LIBI_LOG_ERROR && level <= LIBI_LOG_TRACE);
  CHECK(target && *target && text && *text);
  libi_member *member;
  GIVES(LIBI_ERR_BUSY, libi_member_init(LIBI_PROGRESS_THREAD, &member));
  __atomic_add_fetch(&log_lines, 1, __ATOMIC_SEQ_CST);
}

static void log_callback(void)
{
  libi_front *front = new_front(LIBI_PROGRESS_THREAD);
  libi_options *how = libi_options_new();
  libi_distribution *what = members(1, "a", NULL);
  const libi_distribution *all[1];
  libi_session *session;
  all[0] = what;
  GIVES(LIBI_ERR_ARGUMENT, libi_set_log((libi_log_level)6, on_log, NULL));
  DONE(libi_set_log(LIBI_LOG_TRACE, on_log, &log_lines));
  DONE(libi_options_set_backend(how, LIBI_BACKEND_RSH, "/bin/false"));
  DONE(libi_options_set_rule(how, LIBI_RULE_ATTEMPTS, 1));
  GIVES(LIBI_ERR_PLAIN, libi_front_launch(front, all, 1, how, &session, 1));
  DONE(libi_options_set_allow_plain(how, true)); /* there is a warning */
  GIVES(LIBI_ERR_NOT_LAUNCHED, libi_front_launch(front, all, 1, how, &session, 1));
  CHECK(__atomic_load_n(&log_lines, __ATOMIC_SEQ_CST) > 0);
  DONE(libi_set_log(LIBI_LOG_OFF, NULL, NULL));
  libi_distribution_free(what);
  libi_options_free(how);
  libi_front_free(front);
}

void misuse(void)
{
  static const char *args[] = {"join", "wait", NULL};
  libi_front *front = new_front(LIBI_PROGRESS_THREAD), *none = NULL;
  libi_session *session;
  libi_event *event;
  const libi_distribution *missing[1] = {NULL};

  nothing();
  CHECK(libi_result_text(LIBI_OK) && !libi_result_text((libi_result)9999));
  log_callback();
  GIVES(LIBI_ERR_NULL, libi_front_new(LIBI_PROGRESS_THREAD, NULL));
  none = front;
  GIVES(LIBI_ERR_ARGUMENT, libi_front_new((libi_progress)7, &none));
  SAYS("7 is not a libi_progress", libi_last_error());
  CHECK(!none);

  GIVES(LIBI_NOT_YET, libi_front_next_event(front, &event, 0));
  CHECK(!event);
  GIVES(LIBI_ERR_NULL, libi_front_next_event(front, NULL, 0));
  GIVES(LIBI_ERR_NULL, libi_front_report(front, NULL));
  GIVES(LIBI_ERR_LAYOUT, libi_front_launch(front, NULL, 0, NULL, &session, 1));
  GIVES(LIBI_ERR_NULL, libi_front_launch(front, missing, 1, NULL, &session, 1));
  GIVES(LIBI_ERR_NULL, libi_front_start(front, missing, 1, NULL, NULL, 1));

  /* A session that has outlived its front end. */
  session = launch(front, "a:2", args, NULL);
  GIVES(LIBI_ERR_NULL, libi_session_report(session, NULL));
  GIVES(LIBI_ERR_NULL, libi_session_layout(session, NULL));
  GIVES(LIBI_ERR_NULL, libi_session_query(session, NULL, 1));
  CHECK(libi_session_ranks(session, LIBI_RANKS_ABSENT, NULL, 0) == 0 &&
      libi_session_ranks(session, (libi_ranks)9, NULL, 0) == 0);
  GIVES(LIBI_ERR_HANDLE, libi_front_dispatch((libi_front *)(void *)session));
  libi_front_free(front);
  GIVES(LIBI_ERR_ENDED, libi_session_write(session, "x", 1, SOON));
  CHECK(stage_of(session) == LIBI_STAGE_OVER);
  DONE(libi_session_wait_done(session, SOON));
  DONE(libi_session_terminate(session, 0));
  libi_session_free(session);
}
