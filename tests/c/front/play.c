#include <stdio.h>

#include "play.h"

const char *member_program, *shell, *directory;

void see(struct seen *seen, const libi_event *event)
{
  libi_event_info info;
  DONE(libi_event_query(event, &info, sizeof info));
  CHECK(info.text && *info.text);
  seen->waiting += info.kind == LIBI_EVENT_WAITING && strstr(info.text, "job 18 queued");
  seen->up += info.kind == LIBI_EVENT_UP;
  seen->given_up += info.kind == LIBI_EVENT_GIVEN_UP;
  seen->detached += info.kind == LIBI_EVENT_DETACHED;
  seen->done += info.kind == LIBI_EVENT_DONE;
  if (info.kind == LIBI_EVENT_OUTPUT) {
    char *to = info.stream == 2 ? seen->err : seen->out;
    CHECK(info.stream == 1 || info.stream == 2);
    CHECK(strlen(to) + info.length < sizeof seen->out);
    strncat(to, (const char *)info.bytes, info.length);
  } else {
    CHECK(!info.bytes && info.length == 0 && info.stream == 0);
  }
  if (info.kind == LIBI_EVENT_EXITED) {
    seen->exited++;
    if (info.exit == LIBI_EXIT_CODE) seen->codes[info.exit_value & 255]++;
    if (info.exit == LIBI_EXIT_SIGNAL) seen->signals[info.exit_value]++;
  } else {
    CHECK(info.exit == LIBI_EXIT_NONE && info.exit_value == 0);
  }
  CHECK((info.rank >= 0) ==
        (info.kind == LIBI_EVENT_OUTPUT || info.kind == LIBI_EVENT_EXITED ||
            info.kind == LIBI_EVENT_DETACHED || info.kind == LIBI_EVENT_RESTARTED ||
            info.kind == LIBI_EVENT_NOT_RESTARTED ||
            info.kind == LIBI_EVENT_MASTER_REPLACED));
  if (info.kind == LIBI_EVENT_LOST) {
    libi_failure_info failure;
    seen->lost++;
    snprintf(seen->lost_host, sizeof seen->lost_host, "%s", info.host_name);
    CHECK(info.host >= 0);
    DONE(libi_failure_query(info.failure, &failure, sizeof failure));
    CHECK(failure.text);
  } else {
    bool of_member = info.kind == LIBI_EVENT_EXITED || info.kind == LIBI_EVENT_RESTARTED ||
                     info.kind == LIBI_EVENT_NOT_RESTARTED ||
                     info.kind == LIBI_EVENT_MASTER_REPLACED;
    CHECK(info.host == -1 && !info.host_name == !of_member && !info.failure);
  }
}

struct seen watch(libi_front *front, int sessions)
{
  static struct seen seen;
  libi_event *event;
  memset(&seen, 0, sizeof seen);
  while (seen.done + seen.given_up < sessions) {
    DONE(libi_front_next_event(front, &event, SOON));
    see(&seen, event);
    libi_event_free(event);
  }
  return seen;
}

libi_distribution *members(uint32_t session, const char *hosts, const char *const *args)
{
  libi_distribution *members = libi_distribution_new(session, member_program);
  DONE(libi_distribution_set_host_list(members, hosts));
  DONE(libi_distribution_set_args(members, args));
  return members;
}

libi_options *local_options(void)
{
  libi_options *options = libi_options_new();
  DONE(libi_options_set_backend(options, LIBI_BACKEND_LOCAL, NULL));
  return options;
}

libi_front *new_front(libi_progress progress)
{
  libi_front *front;
  GIVES(LIBI_OK, libi_front_new(progress, &front));
  return front;
}

libi_session *launch(libi_front *front, const char *hosts, const char *const *args, const libi_options *how)
{
  libi_distribution *what = members(1, hosts, args);
  const libi_distribution *all[1];
  libi_options *local = local_options();
  libi_session *session;
  all[0] = what;
  DONE(libi_front_launch(front, all, 1, how ? how : local, &session, 1));
  libi_options_free(local);
  libi_distribution_free(what);
  return session;
}

libi_options *through_shell(const char *faults)
{
  char path[512];
  FILE *file;
  libi_options *how = libi_options_new();
  DONE(libi_options_set_backend(how, LIBI_BACKEND_SHELL, shell));
  DONE(libi_options_set_loopback(how, true));
  snprintf(path, sizeof path, "%s/faults", directory);
  CHECK((file = fopen(path, "w")) != NULL && fputs(faults, file) >= 0 && fclose(file) == 0);
  CHECK(setenv("LIBI_TEST_SHELL", path, 1) == 0);
  return how;
}

libi_stage stage_of(const libi_session *session)
{
  libi_session_info info;
  DONE(libi_session_query(session, &info, sizeof info));
  return info.stage;
}
