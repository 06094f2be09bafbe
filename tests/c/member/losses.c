/* How members were lost, as the members that are left know it. */
#include "check.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

/* The loss of this rank, which is in exactly one. */
static size_t loss_of(const libi_losses *losses, uint32_t rank)
{
  size_t found = SIZE_MAX;
  for (size_t i = 0; i < libi_losses_count(losses); i++) {
    uint32_t ranks[8];
    size_t count = libi_losses_ranks(losses, i, ranks, 8);
    CHECK(count >= 1 && count <= 8);
    for (size_t at = 0; at < count; at++)
      if (ranks[at] == rank) {
        CHECK(found == SIZE_MAX);
        found = i;
      }
  }
  CHECK(found != SIZE_MAX);
  return found;
}

/* A loss of all that one needs to know, and nothing else. */
static void is_loss(const libi_losses *losses, uint32_t rank, uint32_t members, const char *host,
    bool is_leader, libi_loss_kind kind, int32_t exit_value, const char *text)
{
  size_t index = loss_of(losses, rank);
  uint32_t ranks[4] = {99, 99, 99, 99};
  libi_losses_entry_info info;
  FINE(libi_losses_entry(losses, index, &info, sizeof info));
  CHECK(info.host_name != NULL && strcmp(info.host_name, host) == 0);
  CHECK(info.is_leader == is_leader);
  CHECK(info.kind == kind && info.exit_value == exit_value);
  CHECK(info.text != NULL && strcmp(info.text, text) == 0);
  CHECK(info.members == members && libi_losses_ranks(losses, index, NULL, 0) == members);
  CHECK(libi_losses_ranks(losses, index, ranks, 1) == members && ranks[0] == rank && ranks[1] == 99);
  CHECK(libi_losses_ranks(losses, index, ranks, 4) == members && ranks[members - 1] == rank + members - 1);
  CHECK(ranks[members] == 99);
  /* A program of an earlier version knows the first two only. */
  memset(&info, 0x55, sizeof info);
  FINE(libi_losses_entry(losses, index, &info, offsetof(libi_losses_entry_info, kind)));
  CHECK(strcmp(info.host_name, host) == 0 && info.is_leader == is_leader && info.exit_value == 0x55555555);
}

/* No member is lost yet: none is before all have looked. */
static libi_losses *before_all_losses(void)
{
  libi_losses *before = NULL;
  libi_losses_entry_info info;
  uint32_t ranks[1] = {99};
  FINE(libi_member_losses(me, &before));
  CHECK(before != NULL && libi_losses_count(before) == 0);
  memset(&info, 0x55, sizeof info);
  GIVES(LIBI_NONE, libi_losses_entry(before, 0, &info, sizeof info));
  CHECK(info.host_name == NULL && info.exit_value == 0 && info.members == 0);
  CHECK(libi_losses_ranks(before, 0, ranks, 1) == 0 && ranks[0] == 99);
  FINE(libi_member_barrier(me, TIMEOUT));
  return before;
}

/* No member ends before all that are left have looked. */
static void all_have_looked(libi_losses *before, libi_losses *after)
{
  libi_losses_entry_info info;
  size_t count = libi_losses_count(after);
  GIVES(LIBI_NONE, libi_losses_entry(after, count, &info, sizeof info));
  CHECK(libi_losses_count(before) == 0);
  libi_losses_free(before);
  libi_losses_free(after);
  FINE(libi_member_barrier(me, TIMEOUT));
}

/* One is killed and one exits. Calls go on without them. */
void losses(uint32_t killed)
{
  uint32_t exits = killed - 2;
  char killed_host[16], exits_host[16], killed_text[64], exits_text[64];
  libi_losses *before = before_all_losses(), *after = NULL;
  if (my_rank == killed)
    raise(SIGKILL);
  if (my_rank == exits)
    _exit(7);
  FINE(libi_member_barrier(me, TIMEOUT));
  CHECK(libi_member_ranks(me, LIBI_RANKS_MISSING, NULL, 0) == 2);
  FINE(libi_member_losses(me, &after));
  CHECK(libi_losses_count(after) == 2);
  /* The hosts have two members each. */
  snprintf(killed_host, sizeof killed_host, "host%u", killed / 2 + 1);
  snprintf(exits_host, sizeof exits_host, "host%u", exits / 2 + 1);
  snprintf(killed_text, sizeof killed_text, "rank %u on %s was killed by signal 9", killed, killed_host);
  snprintf(exits_text, sizeof exits_text, "rank %u on %s exited 7", exits, exits_host);
  is_loss(after, killed, 1, killed_host, false, LIBI_LOSS_KILLED, SIGKILL, killed_text);
  is_loss(after, exits, 1, exits_host, false, LIBI_LOSS_EXITED, 7, exits_text);
  all_have_looked(before, after);
}

/* The leader of a host is killed, and the other member of the host is lost with it. */
void lost_leader(uint32_t leader)
{
  char host[16], text[96];
  libi_losses *before = before_all_losses(), *after = NULL;
  if (my_rank == leader)
    raise(SIGKILL);
  /* The other member ends with its leader: that may be while it is in this call. */
  FINE(libi_member_barrier(me, TIMEOUT));
  CHECK(libi_member_ranks(me, LIBI_RANKS_MISSING, NULL, 0) == 2);
  FINE(libi_member_losses(me, &after));
  CHECK(libi_losses_count(after) == 1);
  snprintf(host, sizeof host, "host%u", leader / 2 + 1);
  snprintf(text, sizeof text, "ranks %u-%u: the process that led %s was killed by signal 9", leader,
      leader + 1, host);
  is_loss(after, leader, 2, host, true, LIBI_LOSS_KILLED, SIGKILL, text);
  all_have_looked(before, after);
}

/* One is killed in its fourth call, and restarted: it goes on with the call that the others are at. */
void restarted(uint32_t victim)
{
  uint64_t first = 99;
  uint32_t again = libi_member_restarts(me);
  FINE(libi_member_first_call(me, &first, TIMEOUT));
  CHECK((first == 0) == (again == 0) && again == (my_rank == victim && first > 0));
  for (uint64_t call = first;; call++) {
    uint32_t often = again;
    if (my_rank == victim && call == 3)
      raise(SIGKILL);
    FINE(libi_member_allreduce(me, LIBI_ELEMENT_U32, LIBI_OP_MAX, &often, 1, &often, TIMEOUT));
    if (often == 0)
      continue;
    CHECK(libi_member_ranks(me, LIBI_RANKS_MISSING, NULL, 0) == 0);
    CHECK(libi_member_ranks(me, LIBI_RANKS_LOST, NULL, 0) == 0);
    /* All are at the same call. */
    uint64_t least = call, most = call;
    FINE(libi_member_allreduce(me, LIBI_ELEMENT_U64, LIBI_OP_MIN, &call, 1, &least, TIMEOUT));
    FINE(libi_member_allreduce(me, LIBI_ELEMENT_U64, LIBI_OP_MAX, &call, 1, &most, TIMEOUT));
    CHECK(least == call && most == call && call >= 3);
    return;
  }
}
