/* Launches that come up, that do not, and that do in some way; and all that is reported of them. */

#include "parts.h"
#include "play.h"

void two_sessions_side_by_side(void)
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

void hosts_that_fail(void)
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
  SAYS("bad[1-2]  unknown host name", why = libi_front_error(front));
  DONE(front, libi_front_report(front, &report), libi_front_error);
  CHECK(!libi_report_is_up(report) && libi_report_joined(report) == 1);
  failure = libi_report_failure(report, 1);
  CHECK(libi_failure_phase(failure) == LIBI_PHASE_STARTING && libi_failure_cause(failure) == LIBI_CAUSE_EXITED);
  CHECK(libi_failure_exit(failure) == LIBI_EXIT_CODE && libi_failure_exit_value(failure) == 255);
  CHECK(libi_failure_elapsed(failure) > 0 && libi_failure_member(failure) == -1);
  SAME("unknown host name", libi_failure_refusal(failure));
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

void hosts_that_cannot_launch_each_other(void)
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
