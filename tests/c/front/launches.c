/* Launches that succeed, fail, or succeed in part, and their reports. */

#include <sys/stat.h>

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
  libi_options *how = local_options();
  libi_session_info session;
  libi_layout *layout;
  libi_layout_info laid_out;
  libi_report *report;
  libi_report_info info;
  libi_report_host_info host;
  libi_report_replacement_info replacement;
  struct seen seen;
  uint32_t ranks[8];
  both[0] = a;
  both[1] = b;
  GIVES(LIBI_ERR_LENGTH, libi_front_launch(front, both, 2, how, sessions, 1));
  SAYS("room for 1 of 2", libi_last_error());
  DONE(libi_front_launch(front, both, 2, how, sessions, 3));
  CHECK(sessions[0] && sessions[1] && !sessions[2]);
  DONE(libi_session_query(sessions[1], &session, sizeof session));
  CHECK(session.number == 9 && session.size == 1);
  DONE(libi_session_query(sessions[0], &session, sizeof session));
  CHECK(session.number == 5 && session.size == 4 && session.stage >= LIBI_STAGE_UP);
  CHECK(session.joined == 2 && session.failed == 0 && session.waiting == 0);
  CHECK(session.direct + session.fell_back <= 2);
  DONE(libi_session_layout(sessions[0], &layout));
  DONE(libi_layout_query(layout, &laid_out, sizeof laid_out));
  CHECK(laid_out.size == 4 && laid_out.session == 5);
  libi_layout_free(layout);
  DONE(libi_session_report(sessions[0], &report));
  DONE(libi_report_query(report, &info, sizeof info));
  CHECK(info.is_up && info.session == 5 && info.took > 0 && info.hosts == 2 && info.joined == 2);
  CHECK(info.replacements == 0 && !info.flat_host && !info.flat_failure);
  CHECK(info.cost_seq == -1 && info.cost_rem == -1); /* two hosts are too few to say */
  DONE(libi_report_host(report, 0, &host, sizeof host));
  CHECK(host.launcher == -1 && host.started >= 0 && host.hello > 0 && host.joined >= 0);
  DONE(libi_report_host(report, 1, &host, sizeof host));
  SAME("x2", host.name);
  CHECK(host.members == 2 && host.attempts == 1 && host.direct == -1 && !host.failure);
  GIVES(LIBI_NONE, libi_report_host(report, 2, &host, sizeof host));
  CHECK(!host.name && !host.members);
  GIVES(LIBI_NONE, libi_report_replacement(report, 0, &replacement, sizeof replacement));
  SAYS("2 hosts joined with 4 members", libi_report_text(report));
  SAYS("traceEvents", libi_report_json(report));
  SAYS("<svg", libi_report_svg(report));
  libi_report_free(report);
  GIVES(LIBI_NONE, libi_front_report(front, &report));

  seen = watch(front, 2);
  CHECK(seen.up == 2 && seen.exited == 5 && seen.codes[3] == 4 && seen.codes[0] == 1 && !seen.lost);
  SAME("first\n", seen.out);
  SAME("second\n", seen.err);
  DONE(libi_session_wait_done(sessions[1], SOON));
  CHECK(libi_session_ranks(sessions[0], LIBI_RANKS_ENDED, ranks, 2) == 4 && ranks[0] == 0 && ranks[1] == 1);
  CHECK(libi_session_ranks(sessions[0], LIBI_RANKS_ENDED, NULL, 0) == 4);
  CHECK(libi_session_ranks(sessions[0], LIBI_RANKS_LOST, NULL, 0) == 0);
  libi_session_free(sessions[0]);
  libi_session_free(sessions[1]);
  libi_distribution_free(a);
  libi_distribution_free(b);
  libi_front_free(front);
  libi_options_free(how);
}

void hosts_that_fail(void)
{
  static const char *args[] = {"join", "finish:10000", NULL};
  libi_options *how = through_shell("fault bad* refuse unknown-host\n");
  libi_front *front = new_front(LIBI_PROGRESS_THREAD);
  libi_distribution *what = members(1, "good1,bad1,bad2", args);
  const libi_distribution *all[1];
  libi_hosts *spares = libi_hosts_new();
  libi_session *session;
  libi_report *report;
  libi_report_info info;
  libi_report_host_info host;
  libi_report_replacement_info replacement;
  libi_failure_info failure;
  libi_event *event;
  const char *why;
  struct seen seen;
  all[0] = what;
  GIVES(LIBI_ERR_NOT_LAUNCHED, libi_front_launch(front, all, 1, how, &session, 1));
  CHECK(!session);
  SAYS("bad[1-2]  unknown host name", libi_last_error());
  DONE(libi_front_report(front, &report));
  DONE(libi_report_query(report, &info, sizeof info));
  CHECK(!info.is_up && info.joined == 1);
  DONE(libi_report_host(report, 1, &host, sizeof host));
  DONE(libi_failure_query(host.failure, &failure, sizeof failure));
  CHECK(failure.phase == LIBI_PHASE_STARTING && failure.cause == LIBI_CAUSE_EXITED);
  CHECK(failure.exit == LIBI_EXIT_CODE && failure.exit_value == 255);
  CHECK(failure.elapsed > 0 && failure.member == -1);
  SAME("unknown host name", failure.shell_error);
  SAYS("Could not resolve hostname", failure.evidence);
  SAYS("bad1", failure.tail);
  SAYS("exited 255", failure.text);
  libi_report_free(report);

  /* Fewer hosts are enough, and a spare replaces one. */
  DONE(libi_options_set_min_hosts(how, 2));
  DONE(libi_hosts_add_list(spares, "good2"));
  DONE(libi_options_set_spares(how, spares));
  DONE(libi_front_start(front, all, 1, how, &session, 1));
  DONE(libi_session_wait_up(session, SOON));
  DONE(libi_session_report(session, &report));
  DONE(libi_report_query(report, &info, sizeof info));
  CHECK(info.is_up && info.joined == 2 && info.replacements == 1);
  DONE(libi_report_replacement(report, 0, &replacement, sizeof replacement));
  SAYS("bad", replacement.name);
  SAME("good2", replacement.spare);
  CHECK(replacement.host >= 1);
  DONE(libi_failure_query(replacement.failure, &failure, sizeof failure));
  SAYS("Could not resolve", failure.evidence);
  GIVES(LIBI_NONE, libi_report_replacement(report, 1, &replacement, sizeof replacement));
  CHECK(!replacement.name && !replacement.failure);
  libi_report_free(report);
  GIVES(LIBI_ERR_NULL, libi_session_report(session, NULL));
  why = libi_last_error();
  seen = watch(front, 2); /* including the session that was given up */
  CHECK(seen.given_up == 1 && seen.codes[0] == 2);
  while (libi_front_next_event(front, &event, 0) == LIBI_OK) libi_event_free(event);
  CHECK(libi_last_error() == why); /* LIBI_NOT_YET is not a failure */
  libi_session_free(session);

  /* A launch that fails before the program waits for it. */
  DONE(libi_options_set_min_hosts(how, 0));
  DONE(libi_options_set_spares(how, NULL));
  DONE(libi_front_start(front, all, 1, how, &session, 1));
  GIVES(LIBI_ERR_NOT_LAUNCHED, libi_session_wait_up(session, SOON));
  SAYS("bad[1-2]", libi_last_error());
  CHECK(stage_of(session) >= LIBI_STAGE_GIVEN_UP);
  libi_session_free(session);
  libi_distribution_free(what);
  libi_hosts_free(spares);
  libi_options_free(how);
  libi_front_free(front);
}

void a_failure_that_names_the_host_that_is_its_cause(void)
{
  /* It does not end by itself before it is given up. */
  static const char *args[] = {"join", "finish:10000", NULL};
  libi_options *how = through_shell("fault bad* refuse unknown-host\n");
  libi_front *front = new_front(LIBI_PROGRESS_THREAD);
  libi_distribution *what = members(1, "bad1,good1", args);
  const libi_distribution *all[1];
  libi_session *session;
  libi_report *report;
  libi_report_host_info host;
  libi_failure_info failure;
  all[0] = what;
  GIVES(LIBI_ERR_NOT_LAUNCHED, libi_front_launch(front, all, 1, how, &session, 1));
  DONE(libi_front_report(front, &report));
  DONE(libi_report_host(report, 1, &host, sizeof host));
  DONE(libi_failure_query(host.failure, &failure, sizeof failure));
  SAYS("bad1 has the master, and failed", failure.text);
  CHECK(failure.cause == LIBI_CAUSE_MASTER_FAILED);
  libi_report_free(report);
  libi_distribution_free(what);
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
  libi_report_info info;
  libi_failure_info failure;
  DONE(libi_options_set_cost(how, 2000, 20000));
  /* The first host is to launch all others. If the front end launched beside it, that could have left it
   * two, which may as well be dead. */
  DONE(libi_options_set_links(how, LIBI_LINKS_CHANNEL));
  session = launch(front, "n[00-63]", args, how);
  DONE(libi_session_report(session, &report));
  DONE(libi_report_query(report, &info, sizeof info));
  CHECK(info.flat_host != NULL);
  DONE(libi_failure_query(info.flat_failure, &failure, sizeof failure));
  SAYS("Permission denied", failure.text);
  CHECK(info.cost_seq > 0 && info.cost_rem > 10000);
  libi_report_free(report);
  libi_session_free(session);
  libi_options_free(how);
  libi_front_free(front);
}

void a_launch_that_waits_for_resources(void)
{
  static const char *args[] = {"join", "finish:10000", NULL};
  libi_options *how = libi_options_new();
  libi_front *front = new_front(LIBI_PROGRESS_THREAD);
  libi_session *session;
  struct seen seen;
  char path[512];
  FILE *file;
  snprintf(path, sizeof path, "%s/srun", directory);
  CHECK((file = fopen(path, "w")) != NULL);
  fputs("#!/bin/sh\necho srun: job 18 queued and waiting for resources >&2\n"
        "echo srun: job 18 has been allocated resources >&2\n"
        "for command; do :; done\nSLURMD_NODENAME=n1 exec /bin/sh -c \"$command\"\n",
      file);
  CHECK(fclose(file) == 0 && chmod(path, 0755) == 0);
  DONE(libi_options_set_backend(how, LIBI_BACKEND_SRUN, path));
  DONE(libi_options_set_loopback(how, true));
  DONE(libi_options_set_queue_timeout(how, 10000));
  session = launch(front, "n1", args, how);
  seen = watch(front, 1);
  CHECK(seen.waiting == 1 && seen.up == 1 && seen.codes[0] == 1);
  libi_session_free(session);
  libi_options_free(how);
  libi_front_free(front);
}
