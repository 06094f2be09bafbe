/* Collective calls that fail, at all members, with names; and that the next is a new chance. */
#include "check.h"

#include <signal.h>
#include <unistd.h>

/* One calls a fence where all others are in a barrier. */
void mismatch(uint32_t other)
{
  libi_pending *pending = NULL;
  char one[32];
  for (int form = 0; form < 2; form++) {
    libi_result code;
    const char *said;
    if (form == 0) {
      code = my_rank == other ? libi_member_fence(me, TIMEOUT) : libi_member_barrier(me, TIMEOUT);
      said = libi_last_error();
    } else {
      FINE(my_rank == other ? libi_member_start_fence(me, &pending)
          : libi_member_start_barrier(me, &pending));
      code = libi_pending_wait(pending, TIMEOUT);
      said = libi_last_error();
    }
    GIVES(LIBI_ERR_MISMATCH, code);
    snprintf(one, sizeof one, "rank %u called fence", other);
    CHECK(strstr(said, one) != NULL && strstr(said, "called barrier") != NULL);
    libi_pending_free(pending);
    FINE(libi_member_barrier(me, TIMEOUT));
  }
  /* Lengths that are to be equal, and are not. */
  libi_data *data = NULL;
  GIVES(LIBI_ERR_MISMATCH,
      libi_member_allgather(me, LIBI_LENGTHS_EQUAL, "12", my_rank == other ? 1 : 2, &data, TIMEOUT));
  SAYS("rank");
  CHECK(data == NULL);
  uint32_t numbers[2] = {1, 2};
  GIVES(LIBI_ERR_MISMATCH,
        libi_member_allreduce(me, my_rank == other ? LIBI_ELEMENT_I32 : LIBI_ELEMENT_U32,
            LIBI_OP_SUM, numbers, 2,
                              numbers, TIMEOUT));
  CHECK(numbers[0] == 1 && numbers[1] == 2);
  FINE(libi_member_barrier(me, TIMEOUT));
  /* Not as many parts as there are members. */
  const void *parts[1] = {"x"};
  size_t lengths[1] = {1};
  libi_result code = my_rank == other
      ? libi_member_alltoall(me, LIBI_LENGTHS_EQUAL, parts, lengths, 1, &data, TIMEOUT)
                                      : libi_member_barrier(me, TIMEOUT);
  GIVES(my_rank == other ? LIBI_ERR_PARTS : LIBI_ERR_CANCELLED, code);
  FINE(libi_member_barrier(me, TIMEOUT));
}

/* One comes late, when all others have given up. */
void impatient(uint32_t late)
{
  libi_data *data = NULL;
  libi_result code;
  if (my_rank == late) {
    /* They say so when they have. */
    for (uint32_t rank = 0; rank < the_size; rank++)
      if (rank != late) {
        FINE(libi_member_recv_from(me, rank, 1, &data, TIMEOUT));
        libi_data_free(data);
      }
    code = libi_member_barrier(me, TIMEOUT);
    GIVES(LIBI_ERR_CANCELLED, code);
    SAYS("cancelled");
  } else {
    code = libi_member_barrier(me, 50);
    CHECK(code == LIBI_ERR_TIMED_OUT || code == LIBI_ERR_CANCELLED);
    SAYS(code == LIBI_ERR_TIMED_OUT ? "timed out" : "cancelled");
    FINE(libi_member_send_to(me, late, 1, "", 0, TIMEOUT));
  }
  FINE(libi_member_barrier(me, TIMEOUT));
  /* One cancels, and says so to the one that is late. */
  libi_pending *pending = NULL;
  uint32_t hasty = (late + 1) % the_size;
  char name[32];
  if (my_rank == late) {
    FINE(libi_member_recv_from(me, hasty, 2, &data, TIMEOUT));
    libi_data_free(data);
  }
  FINE(libi_member_start_barrier(me, &pending));
  if (my_rank == hasty) {
    FINE(libi_pending_cancel(pending));
    FINE(libi_member_send_to(me, late, 2, "", 0, TIMEOUT));
  }
  GIVES(LIBI_ERR_CANCELLED, libi_pending_wait(pending, TIMEOUT));
  snprintf(name, sizeof name, "rank %u cancelled", hasty);
  CHECK(strstr(libi_last_error(), my_rank == hasty ? "cancelled here" : name) != NULL);
  libi_pending_free(pending);
  FINE(libi_member_barrier(me, TIMEOUT));
}

/* One other than the first is killed while all others wait for it. */
void lost(uint32_t victim)
{
  char name[32];
  uint32_t ranks[4] = {9, 9, 9, 9};
  libi_data *data = NULL;
  FINE(libi_member_barrier(me, TIMEOUT));
  if (my_rank == victim)
    raise(SIGKILL);
  snprintf(name, sizeof name, "rank %u", victim);
  GIVES(LIBI_ERR_PEER_LOST, libi_member_barrier(me, TIMEOUT));
  SAYS(name);
  GIVES(LIBI_ERR_PEER_LOST, libi_member_recv_from(me, victim, 0, &data, TIMEOUT));
  SAYS(name);
  CHECK(libi_member_ranks(me, LIBI_RANKS_LOST, NULL, 0) == 1);
  CHECK(libi_member_ranks(me, LIBI_RANKS_LOST, ranks, 0) == 1 && ranks[0] == 9);
  CHECK(libi_member_ranks(me, LIBI_RANKS_LOST, ranks, 4) == 1 && ranks[0] == victim && ranks[1] == 9);
  /* Nobody ends before all have looked. */
  for (uint32_t rank = 1; rank < the_size; rank++)
    if (rank != victim && my_rank == 0) {
      FINE(libi_member_recv_from(me, rank, 1, &data, TIMEOUT));
      libi_data_free(data);
    }
  for (uint32_t rank = 1; rank < the_size; rank++)
    if (rank != victim && my_rank == 0)
      FINE(libi_member_send_to(me, rank, 1, "", 0, TIMEOUT));
  if (my_rank != 0) {
    FINE(libi_member_send_to(me, 0, 1, "", 0, TIMEOUT));
    FINE(libi_member_recv_from(me, 0, 1, &data, TIMEOUT));
    libi_data_free(data);
  }
}

/* One is killed before its call, and calls go on without it. */
void left(uint32_t victim)
{
  uint32_t ranks[4] = {9, 9, 9, 9};
  char recv[64] = ".................";
  libi_pending *pending = NULL;
  libi_data *data = NULL;
  FINE(libi_member_barrier(me, TIMEOUT));
  CHECK(libi_member_ranks(me, LIBI_RANKS_MISSING, ranks, 4) == 0 && ranks[0] == 9);
  if (my_rank == victim)
    raise(SIGKILL);
  FINE(libi_member_allgather_into(me, "ab", 2, recv, TIMEOUT));
  for (uint32_t i = 0; i < the_size; i++)
    CHECK(memcmp(recv + 2 * i, i == victim ? ".." : "ab", 2) == 0);
  CHECK(libi_member_ranks(me, LIBI_RANKS_MISSING, NULL, 0) == 1);
  CHECK(libi_member_ranks(me, LIBI_RANKS_LEFT, NULL, 0) == the_size - 1);
  CHECK(libi_member_ranks(me, LIBI_RANKS_LEFT, ranks, 1) == the_size - 1 && ranks[0] == (victim == 0 ? 1U : 0U));
  CHECK(libi_member_ranks(me, LIBI_RANKS_MISSING, ranks, 4) == 1 && ranks[0] == victim && ranks[1] == 9);
  ranks[0] = 9;
  FINE(libi_member_start_allgather(me, LIBI_LENGTHS_ANY, "abc", 3, &pending));
  CHECK(libi_pending_missing(pending, ranks, 4) == 0 && libi_pending_missing(NULL, ranks, 4) == 0);
  FINE(libi_pending_wait(pending, TIMEOUT));
  CHECK(libi_pending_missing(pending, NULL, 0) == 1);
  CHECK(libi_pending_missing(pending, ranks, 4) == 1 && ranks[0] == victim && ranks[1] == 9);
  FINE(libi_pending_take(pending, &data));
  CHECK(libi_pending_missing(pending, ranks, 4) == 1);
  libi_data_free(data);
  libi_pending_free(pending);
  GIVES(LIBI_ERR_PEER_LOST, libi_member_broadcast(me, victim, NULL, 0, &data, TIMEOUT));
  FINE(libi_member_barrier(me, TIMEOUT));
}

/* Two of a host did not come up. */
void absent(uint32_t rank)
{
  uint32_t ranks[4] = {9, 9, 9, 9};
  libi_data *data = NULL;
  char recv[64] = ".................";
  CHECK(libi_member_ranks(me, LIBI_RANKS_ABSENT, NULL, 0) == 2 &&
      libi_member_ranks(me, LIBI_RANKS_ABSENT, ranks, 1) == 2);
  CHECK(ranks[0] == rank && ranks[1] == 9);
  CHECK(libi_member_ranks(me, LIBI_RANKS_ABSENT, ranks, 4) == 2 && ranks[1] == rank + 1 && ranks[2] == 9);
  CHECK(libi_member_ranks(me, LIBI_RANKS_LOST, NULL, 0) == 0);
  FINE(libi_member_allgather_into(me, "ab", 2, recv, TIMEOUT));
  for (uint32_t i = 0; i < the_size; i++)
    CHECK(memcmp(recv + 2 * i, i == rank || i == rank + 1 ? ".." : "ab", 2) == 0);
  FINE(libi_member_gather_into(me, 0, "cd", 2, recv, TIMEOUT));
  for (uint32_t i = 0; my_rank == 0 && i < the_size; i++)
    CHECK(memcmp(recv + 2 * i, i == rank || i == rank + 1 ? ".." : "cd", 2) == 0);
  FINE(libi_member_allgather(me, LIBI_LENGTHS_ANY, "ab", 2, &data, TIMEOUT));
  CHECK(libi_data_count(data) == the_size && libi_data_length(data, rank) == 0);
  CHECK(libi_data_bytes(data, rank) != NULL && libi_data_length(data, 0) == 2);
  libi_data_free(data);
  GIVES(LIBI_ERR_ABSENT, libi_member_send_to(me, rank, 0, "x", 1, TIMEOUT));
}
