/* The parts of the program. */
#ifndef PARTS_H
#define PARTS_H

#include <libi.h>

/* Hosts, placement and options, without a launch: describe.c */
void describe(void);

/* Launches, and what is reported of them: launches.c */
void two_sessions_side_by_side(void);
void hosts_that_fail(void);
void a_failure_that_names_the_host_that_is_its_cause(void);
void hosts_that_cannot_launch_each_other(void);
void a_launch_that_waits_for_resources(void);

/* Sessions that are up: sessions.c */
void input_signals_and_ends(void);
void messages(void);
void forked(void);
void output_elsewhere(void);
void folded_output(void);
void loop(libi_progress progress, int ends_from_within);

/* Members that are started again: restarts.c */
void restarts(libi_progress progress);

/* Sessions that grow: growth.c */
void growth(libi_progress progress);

/* Sessions that outlive their front end: keeping.c */
void keeping(libi_progress progress, const char *keeper);

/* Commands in a session of agents: commands.c */
void commands(const char *own_program);

/* What a program does wrong: misuse.c */
void misuse(void);

#endif
