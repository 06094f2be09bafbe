/* What a program may do wrong: each mistake has its code, leaves the member usable, and leaves no
   place for a result as it was. */
#include "check.h"

#define NOT_EVEN_NULL ((void *)16)

/* Every function that has a place for a result, with an object that is no member. */
static void without_a_member(libi_member *invalid, libi_result code)
{
  const void *part = "x";
  size_t length = 1;
  char recv[64];
  uint32_t ranks[1];
  libi_data *data = NULL;
  libi_pending *pending = NULL;
  libi_losses *losses = (libi_losses *)NOT_EVEN_NULL;
  libi_element element = LIBI_ELEMENT_U8;
#define BOTH(blocking, started)                   \
  do {                                            \
    data = (libi_data *)NOT_EVEN_NULL;            \
    GIVES(code, blocking);                        \
    CHECK(data == NULL || data == NOT_EVEN_NULL); \
    pending = (libi_pending *)NOT_EVEN_NULL;      \
    GIVES(code, started);                         \
    CHECK(pending == NULL);                       \
  } while (0)
  BOTH(libi_member_barrier(invalid, 0), libi_member_start_barrier(invalid, &pending));
  BOTH(libi_member_fence(invalid, 0), libi_member_start_fence(invalid, &pending));
  BOTH(libi_member_broadcast(invalid, 0, "x", 1, &data, 0),
      libi_member_start_broadcast(invalid, 0, "x", 1, &pending));
  CHECK(data == NULL);
  BOTH(libi_member_gather(invalid, 0, LIBI_LENGTHS_ANY, "x", 1, &data, 0),
      libi_member_start_gather(invalid, 0, LIBI_LENGTHS_ANY, "x", 1, &pending));
  BOTH(libi_member_gather(invalid, 0, LIBI_LENGTHS_EQUAL, "x", 1, &data, 0),
       libi_member_start_gather(invalid, 0, LIBI_LENGTHS_EQUAL, "x", 1, &pending));
  BOTH(libi_member_scatter(invalid, 0, &part, &length, 1, &data, 0),
       libi_member_start_scatter(invalid, 0, &part, &length, 1, &pending));
  BOTH(libi_member_allgather(invalid, LIBI_LENGTHS_ANY, "x", 1, &data, 0),
      libi_member_start_allgather(invalid, LIBI_LENGTHS_ANY, "x", 1, &pending));
  BOTH(libi_member_allgather(invalid, LIBI_LENGTHS_EQUAL, "x", 1, &data, 0),
       libi_member_start_allgather(invalid, LIBI_LENGTHS_EQUAL, "x", 1, &pending));
  BOTH(libi_member_alltoall(invalid, LIBI_LENGTHS_EQUAL, &part, &length, 1, &data, 0),
       libi_member_start_alltoall(invalid, LIBI_LENGTHS_EQUAL, &part, &length, 1, &pending));
  BOTH(libi_member_alltoall(invalid, LIBI_LENGTHS_ANY, &part, &length, 1, &data, 0),
       libi_member_start_alltoall(invalid, LIBI_LENGTHS_ANY, &part, &length, 1, &pending));
  BOTH(libi_member_reduce(invalid, 0, element, LIBI_OP_SUM, "x", 1, recv, 0),
       libi_member_start_reduce(invalid, 0, element, LIBI_OP_SUM, "x", 1, &pending));
  BOTH(libi_member_allreduce(invalid, element, LIBI_OP_SUM, "x", 1, recv, 0),
       libi_member_start_allreduce(invalid, element, LIBI_OP_SUM, "x", 1, &pending));
  BOTH(libi_member_scan(invalid, element, LIBI_OP_SUM, "x", 1, recv, 0),
       libi_member_start_scan(invalid, element, LIBI_OP_SUM, "x", 1, &pending));
  BOTH(libi_member_exscan(invalid, element, LIBI_OP_SUM, "x", 1, recv, 0),
       libi_member_start_exscan(invalid, element, LIBI_OP_SUM, "x", 1, &pending));
  BOTH(libi_member_ring(invalid, 1, "x", 1, "y", 1, NULL, &data, 0),
       libi_member_start_ring(invalid, 1, "x", 1, "y", 1, &pending));
  BOTH(libi_member_send_to(invalid, 0, 1, "x", 1, 0),
      libi_member_start_send_to(invalid, 0, 1, "x", 1, &pending));
  BOTH(libi_member_recv_from(invalid, 0, 1, &data, 0), libi_member_start_recv_from(invalid, 0, 1, &pending));
  BOTH(libi_member_send(invalid, "x", 1, 0), libi_member_start_send(invalid, "x", 1, &pending));
  BOTH(libi_member_recv(invalid, &data, 0), libi_member_start_recv(invalid, &pending));
  BOTH(libi_member_broadcast_from_front(invalid, &data, 0),
      libi_member_start_broadcast_from_front(invalid, &pending));
  BOTH(libi_member_gather_to_front(invalid, "x", 1, 0),
      libi_member_start_gather_to_front(invalid, "x", 1, &pending));
  BOTH(libi_member_put(invalid, "k", "x", 1, LIBI_KEY_LOCAL, 0),
      libi_member_start_put(invalid, "k", "x", 1, LIBI_KEY_LOCAL, &pending));
  BOTH(libi_member_get(invalid, "k", &data, 0), libi_member_start_get(invalid, "k", &pending));
  BOTH(libi_member_find(invalid, "k", &data, 0), libi_member_start_find(invalid, "k", &pending));
  GIVES(code, libi_member_broadcast_into(invalid, 0, recv, 1, 0));
  GIVES(code, libi_member_gather_into(invalid, 0, "x", 1, recv, 0));
  GIVES(code, libi_member_scatter_into(invalid, 0, "x", 1, recv, 0));
  GIVES(code, libi_member_allgather_into(invalid, "x", 1, recv, 0));
  GIVES(code, libi_member_drain(invalid, 0));
  GIVES(code, libi_member_detach(invalid, 0));
  GIVES(code, libi_member_dispatch(invalid));
  CHECK(libi_member_rank(invalid) == UINT32_MAX && libi_member_size(invalid) == 0 &&
      !libi_member_is_master(invalid) && libi_member_master(invalid) == UINT32_MAX);
  libi_member_info info;
  GIVES(code, libi_member_query(invalid, &info, sizeof info));
  CHECK(info.host_name == NULL && info.size == 0);
  CHECK(libi_member_ranks(invalid, LIBI_RANKS_ABSENT, ranks, 1) == 0 &&
      libi_member_ranks(invalid, LIBI_RANKS_LOST, ranks, 1) == 0);
  uint64_t call = 9;
  GIVES(code, libi_member_first_call(invalid, &call, 0));
  CHECK(call == 0 && libi_member_restarts(invalid) == 0);
  GIVES(code, libi_member_losses(invalid, &losses));
  CHECK(losses == NULL);
  CHECK(libi_member_descriptor(invalid) == -1 && libi_member_next_timeout(invalid) == -1);
}

static int released;

static void release(void *userdata)
{
  CHECK(userdata == &released);
  released++;
}

static void fold(void *userdata, libi_value *into, const void *other, size_t length)
{
  (void)userdata, (void)into, (void)other, (void)length;
}

/* What was given for a function is released though nothing is called. */
static void folds_without_a_member(libi_member *invalid, libi_result code)
{
  libi_data *data = NULL;
  libi_pending *pending = NULL;
  released = 0;
  GIVES(code, libi_member_reduce_by(invalid, 0, fold, &released, release, "x", 1, &data, 0));
  GIVES(code, libi_member_start_reduce_by(invalid, 0, fold, &released, release, "x", 1, &pending));
  GIVES(code, libi_member_allreduce_by(invalid, fold, &released, release, "x", 1, &data, 0));
  GIVES(code, libi_member_start_allreduce_by(invalid, fold, &released, release, "x", 1, &pending));
  GIVES(code, libi_member_scan_by(invalid, fold, &released, release, "x", 1, &data, 0));
  GIVES(code, libi_member_start_scan_by(invalid, fold, &released, release, "x", 1, &pending));
  GIVES(code, libi_member_exscan_by(invalid, fold, &released, release, "x", 1, &data, 0));
  GIVES(code, libi_member_start_exscan_by(invalid, fold, &released, release, "x", 1, &pending));
  CHECK(released == 8 && data == NULL && pending == NULL);
}

void before_a_place(void)
{
  libi_hosts *hosts = libi_hosts_new();
  int had = descriptors();
  GIVES(LIBI_ERR_NULL, libi_member_init(LIBI_PROGRESS_THREAD, NULL));
  GIVES(LIBI_ERR_ARGUMENT, libi_member_init((libi_progress)7, &me));
  SAYS("7 is not a libi_progress");
  GIVES(LIBI_ERR_STARTED_BY_HAND, libi_member_init(LIBI_PROGRESS_THREAD, &me));
  CHECK(me == NULL);
  SAYS("not started by libi");
  without_a_member(NULL, LIBI_ERR_NULL);
  SAYS("the member is NULL");
  without_a_member((libi_member *)hosts, LIBI_ERR_HANDLE);
  folds_without_a_member(NULL, LIBI_ERR_NULL);
  folds_without_a_member((libi_member *)hosts, LIBI_ERR_HANDLE);
  libi_hosts_free(hosts);
  libi_member_free(NULL);

  libi_data *data = (libi_data *)NOT_EVEN_NULL;
  libi_ring_position place = {9, 9, 9};
  GIVES(LIBI_ERR_NULL, libi_pending_wait(NULL, 0));
  GIVES(LIBI_ERR_NULL, libi_pending_poll(NULL));
  GIVES(LIBI_ERR_NULL, libi_pending_take(NULL, &data));
  GIVES(LIBI_ERR_NULL, libi_pending_ring_position(NULL, &place));
  GIVES(LIBI_ERR_NULL, libi_pending_cancel(NULL));
  CHECK(data == NULL && place.size == 0);
  libi_pending_free(NULL);
  CHECK(libi_data_count(NULL) == 0 && libi_data_bytes(NULL, 0) == NULL && libi_data_length(NULL, 0) == 0);
  libi_data_free(NULL);
  libi_losses_entry_info info;
  uint32_t rank = 9;
  CHECK(libi_losses_count(NULL) == 0 && libi_losses_ranks(NULL, 0, &rank, 1) == 0 && rank == 9);
  GIVES(LIBI_ERR_NULL, libi_losses_entry(NULL, 0, &info, sizeof info));
  CHECK(info.host_name == NULL && info.members == 0);
  libi_losses_free(NULL);
  CHECK(descriptors() == had);
}

/* What is given is wrong; nothing is called, so that all members still count the same. */
static void arguments(void)
{
  libi_data *data = NULL;
  libi_pending *pending = NULL;
  const void *parts[64];
  size_t lengths[64];
  char recv[64];
  for (uint32_t i = 0; i < 64; i++)
    parts[i] = "part", lengths[i] = 4;
  parts[the_size - 1] = NULL;
#define WRONG(code, call, text)             \
  do {                                      \
    GIVES(code, call);                      \
    SAYS(text);                             \
    CHECK(data == NULL && pending == NULL); \
  } while (0)
  WRONG(LIBI_ERR_NULL, libi_member_start_barrier(me, NULL), "pending");
  WRONG(LIBI_ERR_NULL, libi_member_broadcast(me, my_rank, NULL, 1, &data, 0), "bytes");
  WRONG(LIBI_ERR_NULL, libi_member_broadcast(me, 0, "x", 1, NULL, 0), "data");
  WRONG(LIBI_ERR_NULL, libi_member_broadcast_into(me, 0, NULL, 1, 0), "buffer");
  WRONG(LIBI_ERR_NULL, libi_member_gather(me, my_rank, LIBI_LENGTHS_ANY, "x", 1, NULL, 0), "data");
  WRONG(LIBI_ERR_NULL, libi_member_gather(me, 0, LIBI_LENGTHS_ANY, NULL, 1, &data, 0), "bytes");
  WRONG(LIBI_ERR_ARGUMENT, libi_member_gather(me, 0, (libi_lengths)2, "x", 1, &data, 0),
      "2 is not a libi_lengths");
  WRONG(LIBI_ERR_NULL, libi_member_gather_into(me, my_rank, "x", 1, NULL, 0), "recv");
  WRONG(LIBI_ERR_NULL, libi_member_gather_into(me, 0, NULL, 1, recv, 0), "send");
  WRONG(LIBI_ERR_NULL, libi_member_allgather_into(me, "x", 1, NULL, 0), "recv");
  WRONG(LIBI_ERR_NULL, libi_member_scatter_into(me, my_rank, NULL, 1, recv, 0), "send");
  WRONG(LIBI_ERR_NULL, libi_member_scatter_into(me, 0, "x", 1, NULL, 0), "recv");
  WRONG(LIBI_ERR_NULL, libi_member_allgather(me, LIBI_LENGTHS_ANY, "x", 1, NULL, 0), "data");
  WRONG(LIBI_ERR_NULL, libi_member_scatter(me, my_rank, NULL, lengths, the_size, &data, 0), "parts");
  WRONG(LIBI_ERR_NULL, libi_member_scatter(me, my_rank, parts, NULL, the_size, &data, 0), "lengths");
  snprintf(recv, sizeof recv, "part %u", the_size - 1);
  WRONG(LIBI_ERR_NULL, libi_member_scatter(me, my_rank, parts, lengths, the_size, &data, 0), recv);
  WRONG(LIBI_ERR_NULL,
      libi_member_alltoall(me, LIBI_LENGTHS_EQUAL, parts, lengths, the_size, &data, 0), recv);
  WRONG(LIBI_ERR_NULL,
      libi_member_start_alltoall(me, LIBI_LENGTHS_ANY, parts, lengths, the_size, &pending), recv);
  WRONG(LIBI_ERR_ARGUMENT,
      libi_member_alltoall(me, LIBI_LENGTHS_EQUAL, parts, lengths, SIZE_MAX / 16, &data, 0),
      "no session has");
  WRONG(LIBI_ERR_ARGUMENT, libi_member_allgather_into(me, "x", SIZE_MAX / 2, recv, 0), "too many");
  WRONG(LIBI_ERR_ARGUMENT, libi_member_allgather(me, LIBI_LENGTHS_ANY, "x", SIZE_MAX, &data, 0), "cannot be");
  WRONG(LIBI_ERR_NULL, libi_member_ring(me, 1, NULL, 1, "", 0, NULL, &data, 0), "left");
  WRONG(LIBI_ERR_NULL, libi_member_ring(me, 1, "", 0, NULL, 1, NULL, &data, 0), "right");
  WRONG(LIBI_ERR_NULL, libi_member_ring(me, 1, "", 0, "", 0, NULL, NULL, 0), "data");
  WRONG(LIBI_ERR_ARGUMENT,
      libi_member_allreduce(me, (libi_element)7, LIBI_OP_SUM, "x", 1, recv, 0), "7 is not a libi_element");
  WRONG(LIBI_ERR_ARGUMENT, libi_member_start_allreduce(me, (libi_element)-1, LIBI_OP_SUM, "x", 1,
      &pending), "-1 is not a libi_element");
  WRONG(LIBI_ERR_ARGUMENT,
      libi_member_reduce(me, 0, LIBI_ELEMENT_U8, (libi_op)5, "x", 1, recv, 0), "5 is not a libi_op");
  WRONG(LIBI_ERR_ARGUMENT,
      libi_member_start_reduce(me, 0, LIBI_ELEMENT_F32, LIBI_OP_OR, "xxxx", 1, &pending), "bitwise");
  WRONG(LIBI_ERR_ARGUMENT,
      libi_member_allreduce(me, LIBI_ELEMENT_F64, LIBI_OP_SUM, "x", SIZE_MAX / 4, recv, 0), "numbers");
  WRONG(LIBI_ERR_NULL, libi_member_allreduce(me, LIBI_ELEMENT_F64, LIBI_OP_SUM, NULL, 1, recv, 0), "numbers");
  WRONG(LIBI_ERR_NULL, libi_member_allreduce(me, LIBI_ELEMENT_U8, LIBI_OP_SUM, "x", 1, NULL, 0), "result");
  WRONG(LIBI_ERR_ARGUMENT, libi_member_scan(me, LIBI_ELEMENT_U8, (libi_op)5, "x", 1, recv, 0),
      "5 is not a libi_op");
  WRONG(LIBI_ERR_ARGUMENT,
      libi_member_start_scan(me, (libi_element)7, LIBI_OP_SUM, "x", 1, &pending), "7 is not a libi_element");
  WRONG(LIBI_ERR_ARGUMENT,
      libi_member_start_exscan(me, LIBI_ELEMENT_F32, LIBI_OP_AND, "xxxx", 1, &pending), "bitwise");
  WRONG(LIBI_ERR_NULL, libi_member_exscan(me, LIBI_ELEMENT_U8, LIBI_OP_SUM, "x", 1, NULL, 0), "result");
  released = 0;
  WRONG(LIBI_ERR_NULL, libi_member_allreduce_by(me, NULL, &released, release, "x", 1, &data, 0), "fold");
  WRONG(LIBI_ERR_NULL,
      libi_member_start_reduce_by(me, 0, fold, &released, release, NULL, 1, &pending), "bytes");
  WRONG(LIBI_ERR_NULL, libi_member_start_scan_by(me, NULL, &released, release, "x", 1, &pending), "fold");
  WRONG(LIBI_ERR_NULL, libi_member_exscan_by(me, fold, &released, release, "x", 1, NULL, 0), "data");
  CHECK(released == 4);
  WRONG(LIBI_ERR_NULL, libi_member_send_to(me, 0, 0, NULL, 1, 0), "bytes");
  WRONG(LIBI_ERR_NULL, libi_member_send(me, NULL, 1, 0), "bytes");
  WRONG(LIBI_ERR_NULL, libi_member_recv(me, NULL, 0), "data");
  WRONG(LIBI_ERR_NULL, libi_member_broadcast_from_front(me, NULL, 0), "data");
  WRONG(LIBI_ERR_NULL, libi_member_gather_to_front(me, NULL, 1, 0), "bytes");
  WRONG(LIBI_ERR_NULL, libi_member_recv_from(me, 0, 0, NULL, 0), "data");
  WRONG(LIBI_ERR_NULL, libi_member_put(me, NULL, "x", 1, LIBI_KEY_REPLICATED, 0), "the key");
  WRONG(LIBI_ERR_NULL, libi_member_put(me, "k", NULL, 1, LIBI_KEY_REPLICATED, 0), "bytes");
  WRONG(LIBI_ERR_ARGUMENT, libi_member_put(me, "k", "x", 1, (libi_key_scope)2, 0),
      "2 is not a libi_key_scope");
  WRONG(LIBI_ERR_ARGUMENT, libi_member_get(me, "\xff", &data, 0), "UTF-8");
  WRONG(LIBI_ERR_NULL, libi_member_get(me, "k", NULL, 0), "data");
  WRONG(LIBI_ERR_NULL, libi_member_find(me, NULL, &data, 0), "the key");
  WRONG(LIBI_ERR_NULL, libi_member_start_find(me, NULL, &pending), "the key");
  char *key = (char *)malloc(100001);
  memset(key, 'k', 100000);
  key[100000] = 0;
  WRONG(LIBI_ERR_LONG_KEY, libi_member_put(me, key, "x", 1, LIBI_KEY_REPLICATED, TIMEOUT), "the limit is");
  free(key);
  WRONG(LIBI_ERR_NO_SUCH_PEER, libi_member_send_to(me, the_size, 0, "x", 1, TIMEOUT), "no rank");
  WRONG(LIBI_ERR_NO_SUCH_PEER, libi_member_recv_from(me, UINT32_MAX, 0, &data, TIMEOUT), "no rank");
}

void misuse(void)
{
  libi_data *data = NULL;
  libi_pending *pending = NULL;
  libi_member *second = NULL;
  libi_losses *losses = NULL;
  libi_losses_entry_info info;
  char buffer[32] = "unchanged";
  arguments();
  FINE(libi_member_barrier(me, TIMEOUT));

  GIVES(LIBI_ERR_STATE, libi_member_init(LIBI_PROGRESS_THREAD, &second));
  CHECK(strstr(libi_last_error(), "already") != NULL);
  CHECK(second == NULL);

  /* No place for the result, or one of no size. */
  GIVES(LIBI_ERR_NULL, libi_member_first_call(me, NULL, TIMEOUT));
  SAYS("call");
  GIVES(LIBI_ERR_NULL, libi_member_losses(me, NULL));
  SAYS("losses");
  FINE(libi_member_losses(me, &losses));
  GIVES(LIBI_ERR_NULL, libi_losses_entry(losses, 0, NULL, sizeof info));
  GIVES(LIBI_ERR_ARGUMENT, libi_losses_entry(losses, 0, &info, 0));
  GIVES(LIBI_ERR_HANDLE, libi_losses_entry((libi_losses *)me, 0, &info, sizeof info));
  libi_losses_free(losses);

  /* A buffer of another length. */
  size_t length = my_rank == 0 ? 5 : 6;
  if (my_rank == 0)
    FINE(libi_member_broadcast_into(me, 0, buffer, 5, TIMEOUT));
  else {
    GIVES(LIBI_ERR_LENGTH, libi_member_broadcast_into(me, 0, buffer, length, TIMEOUT));
    SAYS("received 5 bytes for a buffer of 6");
  }
  if (my_rank == 0) {
    char send[64 * 3] = {0};
    FINE(libi_member_scatter_into(me, 0, send, 3, buffer + 16, TIMEOUT));
  } else
    GIVES(LIBI_ERR_LENGTH, libi_member_scatter_into(me, 0, NULL, 2, buffer, TIMEOUT));
  CHECK(strcmp(buffer, "unchanged") == 0);

  /* Before it is over, and after it was freed. */
  FINE(libi_member_start_recv_from(me, my_rank, 5, &pending));
  GIVES(LIBI_NOT_YET, libi_pending_poll(pending));
  GIVES(LIBI_NOT_YET, libi_pending_wait(pending, 0));
  GIVES(LIBI_ERR_STATE, libi_pending_take(pending, &data));
  GIVES(LIBI_ERR_NULL, libi_pending_take(pending, NULL));
  libi_ring_position place;
  GIVES(LIBI_ERR_STATE, libi_pending_ring_position(pending, &place));
  FINE(libi_pending_cancel(pending));
  GIVES(LIBI_ERR_CANCELLED, libi_pending_poll(pending));
  GIVES(LIBI_ERR_CANCELLED, libi_pending_wait(pending, TIMEOUT));
  GIVES(LIBI_ERR_CANCELLED, libi_pending_take(pending, &data));
  CHECK(strstr(libi_last_error(), "cancelled here") != NULL);
  CHECK(data == NULL);
  libi_pending_free(pending);
  FINE(libi_member_start_recv_from(me, my_rank, 5, &pending));
  GIVES(LIBI_NOT_YET, libi_pending_wait(pending, 1));
  /* An object of another type. */
  GIVES(LIBI_ERR_HANDLE, libi_member_barrier((libi_member *)pending, 0));
  GIVES(LIBI_ERR_HANDLE, libi_pending_wait((libi_pending *)me, 0));
  CHECK(libi_data_count((libi_data *)me) == 0);
  libi_data_free((libi_data *)me);
  libi_pending_free(pending);
  FINE(libi_member_barrier(me, TIMEOUT));
}
