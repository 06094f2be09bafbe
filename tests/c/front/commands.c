/* Commands in a session of agents, which this program is itself. */

#include <signal.h>
#include <stdio.h>

#include "parts.h"
#include "play.h"

/* What was heard of a command. */
struct heard {
  char out[256];
  int ended, codes[256], signalled, outcomes[5];
};

/* Takes events until the command is done. */
static struct heard hear(libi_front *front, libi_command *command)
{
  struct heard heard;
  libi_event *event;
  libi_event_info info;
  int done = 0;
  memset(&heard, 0, sizeof heard);
  while (!done) {
    DONE(libi_front_next_event(front, &event, SOON));
    DONE(libi_event_query(event, &info, sizeof info));
    if (info.command == libi_command_number(command)) {
      CHECK(info.rank == -1 && info.text);
      switch (info.kind) {
      case LIBI_EVENT_COMMAND_OUTPUT:
        CHECK(info.host >= 0 && info.host_name && info.stream == 1);
        CHECK(strlen(heard.out) + info.length < sizeof heard.out);
        strncat(heard.out, (const char *)info.bytes, info.length);
        break;
      case LIBI_EVENT_COMMAND_ENDED:
        CHECK(info.outcome != LIBI_OUTCOME_NONE);
        heard.ended++;
        heard.outcomes[info.outcome]++;
        if (info.exit == LIBI_EXIT_CODE) heard.codes[info.exit_value]++;
        if (info.exit == LIBI_EXIT_SIGNAL) heard.signalled = info.exit_value;
        break;
      case LIBI_EVENT_COMMAND_DONE:
        done = 1;
        break;
      default:
        CHECK(0);
      }
    }
    libi_event_free(event);
  }
  return heard;
}

/* A shell that runs this script. */
static libi_distribution *script(const char *text)
{
  libi_distribution *what = libi_distribution_new(0, "/bin/sh");
  DONE(libi_distribution_add_arg(what, "-c"));
  DONE(libi_distribution_add_arg(what, text));
  return what;
}

void commands(const char *own_program)
{
  libi_front *front = new_front(LIBI_PROGRESS_THREAD);
  libi_options *how = local_options();
  libi_distribution *idle = libi_distribution_new(0, ""), *what;
  const libi_distribution *all[1];
  libi_hosts *some = libi_hosts_new();
  libi_session *session;
  libi_command *command;
  struct heard heard;
  size_t failures;
  uint32_t live[3], last = 2;

  /* Under valgrind, /proc/self/exe is valgrind. */
  DONE(libi_options_set_agent(how, own_program));
  DONE(libi_options_set_no_programs(how, true));
  DONE(libi_distribution_set_host_list(idle, "a[1-3]"));
  all[0] = idle;
  DONE(libi_front_launch(front, all, 1, how, &session, 1));
  CHECK(libi_session_live_hosts(session, live, 3) == 3 && live[0] == 0 && live[2] == 2);
  CHECK(libi_session_live_hosts(session, NULL, 0) == 3 && libi_session_live_hosts(NULL, live, 3) == 0);

  what = script("echo x; exit $((3 + LIBI_LOCAL_RANK))");
  DONE(libi_session_spawn(session, what, NULL, 2, -1, &command));
  CHECK(libi_command_number(command) == 1);
  heard = hear(front, command);
  SAME("x\nx\nx\nx\nx\nx\n", heard.out);
  CHECK(heard.ended == 6 && heard.codes[3] == 3 && heard.codes[4] == 3 && heard.outcomes[1] == 6);
  DONE(libi_command_wait(command, SOON, &failures));
  CHECK(failures == 6);
  DONE(libi_command_wait(command, 0, NULL));
  libi_command_free(command);

  DONE(libi_hosts_add_list(some, "a[2-3]"));
  libi_distribution_free(what);
  what = script("exec sleep 1000");
  DONE(libi_session_spawn(session, what, some, 1, -1, &command));
  GIVES(LIBI_ERR_TIMED_OUT, libi_command_wait(command, 0, NULL));
  GIVES(LIBI_ERR_ARGUMENT, libi_command_kill(command, NULL, 0, 65));
  DONE(libi_command_kill(command, &last, 1, SIGTERM));
  DONE(libi_command_kill(command, NULL, 0, SIGTERM));
  heard = hear(front, command);
  CHECK(heard.ended == 2 && heard.signalled == SIGTERM);
  libi_command_free(command);
  DONE(libi_session_spawn(session, what, some, 1, 100, &command));
  heard = hear(front, command);
  CHECK(heard.ended == 2 && heard.outcomes[LIBI_OUTCOME_TIMED_OUT] == 2);
  libi_command_free(command);

  libi_distribution_free(what);
  what = libi_distribution_new(0, "/no/such/program");
  DONE(libi_session_spawn(session, what, NULL, 1, -1, &command));
  heard = hear(front, command);
  CHECK(heard.outcomes[LIBI_OUTCOME_NOT_STARTED] == 3);
  libi_command_free(command);

  GIVES(LIBI_ERR_ARGUMENT, libi_session_spawn(session, what, NULL, 0, -1, &command));
  GIVES(LIBI_ERR_NULL, libi_session_spawn(session, NULL, NULL, 1, -1, &command));
  GIVES(LIBI_ERR_NULL, libi_session_spawn(session, what, NULL, 1, -1, NULL));
  GIVES(LIBI_ERR_NULL, libi_session_spawn(NULL, what, NULL, 1, -1, &command));
  DONE(libi_hosts_add_list(some, "b"));
  GIVES(LIBI_ERR_ARGUMENT, libi_session_spawn(session, what, some, 1, -1, &command));
  SAYS("b is not in the session", libi_last_error());
  CHECK(!command && libi_command_number(NULL) == 0);
  GIVES(LIBI_ERR_NULL, libi_command_wait(NULL, 0, NULL));
  GIVES(LIBI_ERR_NULL, libi_command_kill(NULL, NULL, 0, SIGTERM));
  libi_command_free(NULL);
  GIVES(LIBI_ERR_NULL, libi_options_set_no_programs(NULL, true));

  DONE(libi_session_terminate(session, 0));
  GIVES(LIBI_ERR_ENDED, libi_session_spawn(session, what, NULL, 1, -1, &command));
  libi_session_free(session);
  libi_hosts_free(some);
  libi_distribution_free(what);
  libi_distribution_free(idle);
  libi_options_free(how);
  libi_front_free(front);
}
