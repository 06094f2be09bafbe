/* Front ends, sessions, events and reports: everything a front end in C does, with members that a test provides.
 *
 *   front MEMBER SHELL DIRECTORY
 *
 * MEMBER and SHELL are the programs that all tests launch and launch with; the stand-in shell is told by DIRECTORY/faults which hosts
 * are not there. */

#include <fcntl.h>
#include <stdio.h>

#include "parts.h"
#include "play.h"

/* How many descriptors are open. */
static int descriptors(void)
{
  int count = 0, number;
  for (number = 0; number < 1024; number++) count += fcntl(number, F_GETFD) >= 0;
  return count;
}

int main(int argc, char **argv)
{
  int before = descriptors();
  libi_agent_serve_if_asked(); /* this program leads the hosts of commands.c, and keeps the sessions
                                  of keeping.c */
  CHECK(argc == 4);
  member_program = argv[1];
  shell = argv[2];
  directory = argv[3];
  describe();
  two_sessions_side_by_side();
  hosts_that_fail();
  a_failure_that_names_the_host_that_is_its_cause();
  hosts_that_cannot_launch_each_other();
  a_launch_that_waits_for_resources();
  input_signals_and_ends();
  messages();
  forked();
  output_elsewhere();
  folded_output();
  loop(LIBI_PROGRESS_THREAD, 0);
  loop(LIBI_PROGRESS_MANUAL, 0);
  loop(LIBI_PROGRESS_THREAD, 1);
  loop(LIBI_PROGRESS_MANUAL, 1);
  restarts(LIBI_PROGRESS_THREAD);
  restarts(LIBI_PROGRESS_MANUAL);
  growth(LIBI_PROGRESS_THREAD);
  growth(LIBI_PROGRESS_MANUAL);
  keeping(LIBI_PROGRESS_THREAD, NULL);
  keeping(LIBI_PROGRESS_MANUAL, argv[0]);
  commands(argv[0]);
  misuse();
  CHECK(descriptors() == before);
  puts("front: all as it should be");
  return 0;
}
