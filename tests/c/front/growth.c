/* Sessions that grow while they are up. */

#include <stdio.h>

#include "parts.h"
#include "play.h"

/* Waits for an event of this kind; returns its ranks. */
static size_t await(libi_front *front, libi_event_kind kind, uint32_t *ranks, size_t room, const char *text)
{
  for (;;) {
    libi_event *event;
    libi_event_info info;
    DONE(libi_front_next_event(front, &event, SOON));
    DONE(libi_event_query(event, &info, sizeof info));
    if (info.kind == LIBI_EVENT_OUTPUT && info.stream == 2) {
      fwrite(info.bytes, 1, info.length, stderr);
    }
    if (info.kind == kind) {
      size_t count = libi_event_ranks(event, ranks, room);
      SAYS(text, info.text);
      libi_event_free(event);
      return count;
    }
    libi_event_free(event);
  }
}

void growth(libi_progress progress)
{
  static const char *calls[] = {"join", "talk:grow:6", "finish:30000", NULL};
  libi_front *front = new_front(progress);
  libi_options *how = local_options();
  libi_distribution *more = members(1, "b1:3", calls), *one = members(9, "c1", calls);
  const libi_distribution *first[1], *second[1], *none[1] = {NULL};
  libi_session *session;
  libi_session_info info;
  libi_layout *layout;
  libi_layout_info where;
  libi_growth grown;
  uint32_t ranks[4] = {99, 99, 99, 99};
  int well = 0;
  first[0] = more;
  second[0] = one;

  /* Calls of other sessions have the same members from the beginning to the end. */
  session = launch(front, "a1", calls, NULL);
  GIVES(LIBI_ERR_NOT_GROWN, libi_session_add(session, first, 1, &grown, sizeof grown));
  SAYS("OnLoss::Continue", libi_last_error());
  CHECK(grown.ranks == 0);
  await(front, LIBI_EVENT_NOT_GROWN, NULL, 0, "has not grown");
  libi_session_free(session);
  SAME("the session has not grown", libi_result_text(LIBI_ERR_NOT_GROWN));

  DONE(libi_options_set_on_loss(how, LIBI_ON_LOSS_CONTINUE));
  session = launch(front, "a[1-2]", calls, how);
  DONE(libi_session_add(session, first, 1, &grown, sizeof grown));
  CHECK(grown.first_rank == 2 && grown.ranks == 3 && grown.absent == 0);
  CHECK(grown.first_host == 2 && grown.hosts == 1);
  CHECK(await(front, LIBI_EVENT_GROWN, ranks, 4, "session 1 has grown by ranks 2-4") == 3);
  CHECK(ranks[0] == 2 && ranks[2] == 4 && ranks[3] == 99);
  DONE(libi_session_request_add(session, second, 1));
  CHECK(await(front, LIBI_EVENT_GROWN, ranks, 4, "has grown by rank") == 1 && ranks[0] == 5);
  DONE(libi_session_query(session, &info, sizeof info));
  CHECK(info.size == 6);
  DONE(libi_session_layout(session, &layout));
  DONE(libi_layout_query(layout, &where, sizeof where));
  CHECK(where.size == 6 && where.hosts == 4);
  libi_layout_free(layout);
  GIVES(LIBI_ERR_NULL, libi_session_add(session, first, 1, NULL, sizeof grown));
  GIVES(LIBI_ERR_NULL, libi_session_add(session, NULL, 1, &grown, sizeof grown));
  GIVES(LIBI_ERR_NULL, libi_session_add(session, none, 1, &grown, sizeof grown));
  GIVES(LIBI_ERR_NULL, libi_session_add(NULL, first, 1, &grown, sizeof grown));
  GIVES(LIBI_ERR_NULL, libi_session_request_add(NULL, first, 1));
  GIVES(LIBI_ERR_LAYOUT, libi_session_request_add(session, first, 0));
  for (well = 0; well < 6; well++) await(front, LIBI_EVENT_EXITED, NULL, 0, "exited 0");
  libi_session_free(session);
  libi_distribution_free(more);
  libi_distribution_free(one);
  libi_options_free(how);
  libi_front_free(front);
}
