/* What all parts of the program do to play a session. */
#ifndef PLAY_H
#define PLAY_H

#include "check.h"

/* What the program was called with. */
extern const char *member_program, *shell, *directory;

/* What has happened in a session, added up. */
struct seen {
  int up, given_up, exited, released, lost, done, codes[256], signals[65];
  char out[4096], err[4096];
};

/* Adds an event, and looks at all that it has. */
void see(struct seen *seen, const libi_event *event);
/* All that happens in this front end until so many sessions are over. */
struct seen watch(libi_front *front, int sessions);
/* Processes of the program for members, which does what its arguments say. */
libi_distribution *members(uint32_t session, const char *hosts, const char *const *args);
libi_front *new_front(libi_progress progress);
/* Launches one session, and has it up. */
libi_session *launch(libi_front *front, const char *hosts, const char *const *args, const libi_options *how);
/* The stand-in shell, with these faults. */
libi_options *through_shell(const char *faults);

#endif
