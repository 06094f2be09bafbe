#include <stdio.h>

#include "play.h"

const char *member_program, *shell, *directory;

void see(struct seen *seen, const libi_event *event)
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

struct seen watch(libi_front *front, int sessions)
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

libi_distribution *members(uint32_t session, const char *hosts, const char *const *args)
{
  libi_distribution *members = libi_distribution_new(session, member_program);
  DONE(members, libi_distribution_set_host_list(members, hosts), libi_distribution_error);
  DONE(members, libi_distribution_set_args(members, args), libi_distribution_error);
  return members;
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
  libi_session *session;
  all[0] = what;
  DONE(front, libi_front_launch(front, all, 1, how, &session, 1), libi_front_error);
  libi_distribution_free(what);
  return session;
}

libi_options *through_shell(const char *faults)
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
