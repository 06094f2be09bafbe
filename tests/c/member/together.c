/* Event loops, threads, and callbacks. */
#include "check.h"

#include <ctype.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Without a thread of the library: by the descriptor, the timeout and dispatch alone. */
void loops(void)
{
  libi_pending *pending = NULL;
  for (int round = 0; round < 20; round++) {
    time_t by = time(NULL) + TIMEOUT / 1000;
    libi_result code;
    FINE(libi_member_start_barrier(me, &pending));
    while ((code = libi_pending_poll(pending)) == LIBI_NOT_YET) {
      struct pollfd fd = {libi_member_descriptor(me), POLLIN, 0};
      libi_timeout timeout = libi_member_next_timeout(me);
      CHECK(time(NULL) < by && timeout >= -1);
      poll(&fd, 1, timeout < 0 || timeout > 1000 ? 1000 : (int)timeout);
      FINE(libi_member_dispatch(me));
    }
    FINE(code);
    libi_pending_free(pending);
  }
}

struct talk {
  uint32_t tag;
  pthread_t thread;
};

/* Talks to its neighbours, while others do the same and the main thread is in a barrier; and has
   the text of its own failures. */
static void *talk(void *place)
{
  struct talk *talk = (struct talk *)place;
  uint32_t to = (my_rank + 1) % the_size, from = (my_rank + the_size - 1) % the_size;
  char key[32];
  CHECK(*libi_last_error() == 0);
  for (uint32_t round = 0; round < 30; round++) {
    libi_data *data = NULL;
    uint32_t number = talk->tag * 1000 + round, found;
    FINE(libi_member_send_to(me, to, talk->tag, &number, sizeof number, TIMEOUT));
    FINE(libi_member_recv_from(me, from, talk->tag, &data, TIMEOUT));
    CHECK(libi_data_length(data, 0) == sizeof found);
    memcpy(&found, libi_data_bytes(data, 0), sizeof found);
    CHECK(found == number);
    libi_data_free(data);
    snprintf(key, sizeof key, "%u is not a libi_element", talk->tag);
    GIVES(LIBI_ERR_ARGUMENT, libi_member_allreduce(me, (libi_element)talk->tag, LIBI_OP_SUM, "", 0, NULL, 0));
    SAYS(key);
  }
  return NULL;
}

void threads(void)
{
  struct talk talks[4];
  for (uint32_t i = 0; i < 4; i++) {
    talks[i].tag = 100 + i;
    CHECK(pthread_create(&talks[i].thread, NULL, talk, &talks[i]) == 0);
  }
  for (int round = 0; round < 30; round++)
    FINE(libi_member_barrier(me, TIMEOUT));
  for (int i = 0; i < 4; i++)
    CHECK(pthread_join(talks[i].thread, NULL) == 0);
  CHECK(*libi_last_error() == 0);
  FINE(libi_member_barrier(me, TIMEOUT));
}

static libi_pending *other;
static int calls, releases;

/* A function that the library has called gets an answer of whatever it calls, and the others wait
   for it no longer than it takes. */
static void refused(void)
{
  libi_data *data = NULL;
  libi_pending *pending = NULL;
  libi_member *second = NULL;
  libi_losses *losses = NULL;
  libi_member_info info;
  uint32_t ranks[1];
  uint64_t call;
  CHECK(libi_member_restarts(me) == 0 && libi_member_master(me) == 0);
  CHECK(libi_member_rank(me) == my_rank && libi_member_size(me) == the_size &&
      libi_member_query(me, &info, sizeof info) == LIBI_OK);
  CHECK(libi_member_ranks(me, LIBI_RANKS_LOST, ranks, 1) == 0 &&
      libi_member_ranks(me, LIBI_RANKS_ABSENT, ranks, 1) == 0);
  CHECK(libi_member_losses(me, &losses) == LIBI_OK && libi_losses_count(losses) == 0);
  libi_losses_free(losses);
  CHECK(libi_member_next_timeout(me) >= -1 && libi_member_descriptor(me) > 2);
  GIVES(LIBI_ERR_BUSY, libi_member_barrier(me, LIBI_FOREVER));
  SAYS("wait for itself");
  GIVES(LIBI_ERR_BUSY, libi_member_start_barrier(me, &pending));
  GIVES(LIBI_ERR_BUSY, libi_member_recv_from(me, 0, 0, &data, LIBI_FOREVER));
  GIVES(LIBI_ERR_BUSY, libi_member_drain(me, LIBI_FOREVER));
  GIVES(LIBI_ERR_BUSY, libi_member_first_call(me, &call, LIBI_FOREVER));
  GIVES(LIBI_ERR_BUSY, libi_member_detach(me, LIBI_FOREVER));
  GIVES(LIBI_ERR_BUSY, libi_member_dispatch(me));
  GIVES(LIBI_ERR_BUSY, libi_pending_wait(other, LIBI_FOREVER));
  GIVES(LIBI_ERR_BUSY, libi_pending_poll(other));
  GIVES(LIBI_ERR_BUSY, libi_pending_cancel(other));
  GIVES(LIBI_ERR_BUSY, libi_member_init(LIBI_PROGRESS_THREAD, &second));
  CHECK(data == NULL && pending == NULL);
  CHECK(second == NULL);
  libi_member_free(me);
}

static void calling(void *userdata, libi_value *into, const void *bytes, size_t length)
{
  CHECK(userdata == NULL && length == 1 && memcmp(bytes, "x", 1) == 0 && libi_value_length(into) == 1);
  GIVES(LIBI_ERR_HANDLE, libi_value_resize((libi_value *)me, 1));
  refused();
  calls++;
}

static void releasing(void *userdata)
{
  CHECK(userdata == NULL);
  refused();
  __atomic_add_fetch(&releases, 1, __ATOMIC_SEQ_CST);
}

void folds_that_call(void)
{
  libi_data *data = NULL;
  time_t by = time(NULL) + TIMEOUT / 1000;
  int total = 0;
  FINE(libi_member_start_recv_from(me, my_rank, 3, &other));
  for (int round = 0; round < 10; round++) {
    FINE(libi_member_allreduce_by(me, calling, NULL, releasing, "x", 1, &data, TIMEOUT));
    CHECK(libi_data_length(data, 0) == 1);
    libi_data_free(data);
  }
  FINE(libi_member_allreduce(me, LIBI_ELEMENT_I32, LIBI_OP_SUM, &calls, 1, &total, TIMEOUT));
  CHECK(total >= 10 * (int)(the_size - 1));
  while (__atomic_load_n(&releases, __ATOMIC_SEQ_CST) < 10) {
    CHECK(time(NULL) < by);
    sched_yield();
  }
  FINE(libi_pending_cancel(other));
  libi_pending_free(other);
  FINE(libi_member_barrier(me, TIMEOUT));
}

static void at_exit(void)
{
  if (libi_member_barrier(me, LIBI_FOREVER) != LIBI_ERR_BUSY)
    _exit(8);
}

static void exiting(void *userdata, libi_value *into, const void *bytes, size_t length)
{
  (void)into, (void)bytes, (void)length;
  if (my_rank == *(uint32_t *)userdata)
    exit(7);
}

/* In C++ it throws; the exception must not pass through the library. */
static void throwing(void *userdata, libi_value *into, const void *bytes, size_t length)
{
  (void)into, (void)bytes, (void)length;
  if (my_rank != *(uint32_t *)userdata)
    return;
#ifdef __cplusplus
  throw my_rank;
#else
  abort();
#endif
}

/* Whether a text has this rank, as a number or within a range. Members that have heard of a loss leave,
   and may be lost as well for those that have not: "ranks 1-3" in place of "ranks 2-3". */
static int names_rank(const char *text, uint32_t rank)
{
  while (*text != '\0') {
    unsigned first, last;
    char *end;
    if (!isdigit((unsigned char)*text)) {
      text++;
      continue;
    }
    first = last = (unsigned)strtoul(text, &end, 10);
    if (end[0] == '-' && isdigit((unsigned char)end[1]))
      last = (unsigned)strtoul(end + 1, &end, 10);
    if (first <= rank && rank <= last)
      return 1;
    text = end;
  }
  return 0;
}

/* The one that ends is the first of its host, which combines for the other; both are lost. */
void fold_that_ends(uint32_t which, int by_exit)
{
  libi_data *data = NULL;
  FINE(libi_member_barrier(me, TIMEOUT));
  if (my_rank == which && by_exit)
    atexit(at_exit);
  GIVES(LIBI_ERR_PEER_LOST,
      libi_member_allreduce_by(me, by_exit ? exiting : throwing, &which, NULL, "x", 1, &data, TIMEOUT));
  CHECK(names_rank(libi_last_error(), which));
}
