/* Sessions that outlive their front end. */

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "parts.h"
#include "play.h"

/* Waits for an event of this kind, whose text has this. */
static void await(libi_front *front, libi_event_kind kind, const char *text)
{
  libi_event *event;
  libi_event_info info = {.kind = (libi_event_kind)-1};
  for (;;) {
    DONE(libi_front_next_event(front, &event, SOON));
    DONE(libi_event_query(event, &info, sizeof info));
    if (info.kind == kind) break;
    libi_event_free(event);
  }
  SAYS(text, info.text);
  libi_event_free(event);
}

void keeping(libi_progress progress, const char *keeper)
{
  static const char *calls[] = {"join", "talk:orders", NULL};
  libi_front *front = new_front(progress), *next = new_front(progress);
  libi_options *how = local_options();
  libi_session *session, *other;
  libi_session_info info;
  struct stat file;
  char ticket[4096];
  snprintf(ticket, sizeof ticket, "%s/ticket", directory);

  GIVES(LIBI_ERR_NULL, libi_options_set_detached(NULL, ticket, 1000));
  GIVES(LIBI_ERR_NULL, libi_options_set_keeper(NULL, "h", keeper, false));
  GIVES(LIBI_ERR_STATE, libi_options_set_keeper(how, NULL, keeper, false));
  libi_options_free(how);
  how = local_options();
  DONE(libi_options_set_detached(how, ticket, 600000));
  DONE(libi_options_set_keeper(how, NULL, "/bin/true", false));
  {
    libi_distribution *one = members(1, "a1", calls);
    const libi_distribution *all[1];
    all[0] = one;
    GIVES(LIBI_ERR_SYSTEM, libi_front_launch(front, all, 1, how, &session, 1));
    SAYS("/bin/true has ended at once", libi_last_error());
    libi_distribution_free(one);
  }
  GIVES(LIBI_ERR_NOT_ATTACHED, libi_front_attach(front, ticket, SOON, &session));
  CHECK(!session);
  SAYS("cannot attach", libi_last_error());
  SAME("the session or the job cannot be attached to", libi_result_text(LIBI_ERR_NOT_ATTACHED));
  GIVES(LIBI_ERR_NULL, libi_front_attach(NULL, ticket, SOON, &session));
  GIVES(LIBI_ERR_NULL, libi_front_attach(front, NULL, SOON, &session));
  GIVES(LIBI_ERR_NULL, libi_front_attach(front, ticket, SOON, NULL));

  DONE(libi_options_set_keeper(how, NULL, keeper, false));
  session = launch(front, "a[1-3]", calls, how);
  CHECK(!stat(ticket, &file) && (file.st_mode & 0777) == 0600);
  libi_session_free(session);
  libi_front_free(front);

  DONE(libi_front_attach(next, ticket, SOON, &session));
  DONE(libi_session_query(session, &info, sizeof info));
  CHECK(info.size == 3 && info.stage == LIBI_STAGE_UP && info.missed == 0);
  front = new_front(progress);
  DONE(libi_front_attach(front, ticket, SOON, &other));
  await(next, LIBI_EVENT_REVOKED, "another front end");
  GIVES(LIBI_ERR_ENDED, libi_session_broadcast(session, "no", 2, SOON));
  libi_session_free(session);
  DONE(libi_session_broadcast(other, "end", 3, SOON));
  await(front, LIBI_EVENT_DONE, "is done");
  libi_session_free(other);

  /* Ended by its front end. */
  session = launch(front, "a1", calls, how);
  DONE(libi_session_terminate(session, 100));
  libi_session_free(session);
  DONE(libi_options_set_detached(how, NULL, 0));
  libi_options_free(how);
  libi_front_free(next);
  libi_front_free(front);
}
