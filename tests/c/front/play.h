/* Helpers of all parts of the program. */
#ifndef PLAY_H
#define PLAY_H

#include "check.h"

/* The arguments of the program. */
extern const char *member_program, *shell, *directory;

/* The sum of the events of a session. */
struct seen {
  int waiting, up, given_up, exited, detached, lost, done, codes[256], signals[65];
  char out[4096], err[4096], lost_host[64];
};

/* Adds an event, and checks all its fields. */
void see(struct seen *seen, const libi_event *event);
/* All events of this front end until this many sessions are over. */
struct seen watch(libi_front *front, int sessions);
/* Processes of the test member, which does what its arguments say. */
libi_distribution *members(uint32_t session, const char *hosts, const char *const *args);
/* All hosts are this machine. */
libi_options *local_options(void);
libi_front *new_front(libi_progress progress);
/* Launches one session, by default on this machine. */
libi_session *launch(libi_front *front, const char *hosts, const char *const *args, const libi_options *how);
/* Options with the test shell as backend, with these faults. */
libi_options *through_shell(const char *faults);
libi_stage stage_of(const libi_session *session);

#endif
