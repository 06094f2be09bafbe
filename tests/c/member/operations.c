/* Every operation in all forms, with several roots and lengths. */
#include "check.h"

uint32_t nth = 1;

libi_data *taken(libi_pending *pending)
{
  static int way;
  libi_data *data = (libi_data *)1;
  libi_result code = LIBI_NOT_YET;
  CHECK(pending != NULL);
  switch (way++ % 3) {
  case 0:
    code = libi_pending_wait(pending, TIMEOUT);
    break;
  case 1:
    while ((code = libi_pending_poll(pending)) == LIBI_NOT_YET)
      libi_pending_wait(pending, 1);
    break;
  default:
    while ((code = libi_pending_wait(pending, 10)) == LIBI_NOT_YET)
      ;
  }
  if (code != LIBI_OK)
    fprintf(stderr, "%s\n", libi_last_error());
  FINE(code);
  /* It goes on saying the same. */
  FINE(libi_pending_poll(pending));
  FINE(libi_pending_wait(pending, 0));
  FINE(libi_pending_cancel(pending));
  FINE(libi_pending_take(pending, &data));
  libi_data *again = (libi_data *)1;
  GIVES(LIBI_ERR_STATE, libi_pending_take(pending, &again));
  CHECK(again == NULL && strstr(libi_last_error(), "taken before") != NULL);
  FINE(libi_pending_wait(pending, 0));
  libi_pending_free(pending);
  return data;
}

/* How long the bytes of a rank are where they may differ. */
static size_t length_of(uint32_t rank, size_t length)
{
  return length == 0 ? 0 : length + rank % 3;
}

static void has_all(libi_data *data, size_t length, int equal, uint32_t seed)
{
  CHECK(libi_data_count(data) == the_size);
  for (uint32_t rank = 0; rank < the_size; rank++)
    CHECK(is_pattern(data, rank, equal ? length : length_of(rank, length), seed + rank));
  CHECK(libi_data_bytes(data, the_size) == NULL && libi_data_length(data, the_size) == 0);
  libi_data_free(data);
}

static void has_one(libi_data *data, size_t length, uint32_t seed)
{
  CHECK(libi_data_count(data) == 1 && is_pattern(data, 0, length, seed));
  libi_data_free(data);
}

static void broadcasts(uint32_t root, size_t length)
{
  int mine = my_rank == root;
  uint32_t seed = nth++;
  unsigned char *bytes = pattern(length, seed), *buffer = pattern(length, mine ? seed : seed + 1);
  libi_data *data = NULL;
  libi_pending *pending = NULL;
  /* What others than the root give is not looked at. */
  FINE(libi_member_broadcast(me, root, mine ? bytes : NULL, length, &data, TIMEOUT));
  has_one(data, length, seed);
  FINE(libi_member_start_broadcast(me, root, mine ? bytes : NULL, length, &pending));
  has_one(taken(pending), length, seed);
  FINE(libi_member_broadcast_into(me, root, buffer, length, TIMEOUT));
  CHECK(memcmp(buffer, bytes, length) == 0);
  free(bytes);
  free(buffer);
}

static void gathers(uint32_t root, size_t length)
{
  int mine = my_rank == root;
  uint32_t seed = nth++;
  size_t own = length_of(my_rank, length);
  unsigned char *bytes = pattern(own, seed + my_rank);
  libi_data *data[4];
  libi_pending *pending = NULL;
  FINE(libi_member_gather(me, root, LIBI_LENGTHS_ANY, bytes, own, mine ? &data[0] : NULL, TIMEOUT));
  FINE(libi_member_start_gather(me, root, LIBI_LENGTHS_ANY, bytes, own, &pending));
  data[1] = taken(pending);
  FINE(libi_member_gather(me, root, LIBI_LENGTHS_EQUAL, bytes, length, &data[2], TIMEOUT));
  FINE(libi_member_start_gather(me, root, LIBI_LENGTHS_EQUAL, bytes, length, &pending));
  data[3] = taken(pending);
  for (int i = 0; i < 4; i++) {
    if (mine)
      has_all(data[i], length, i > 1, seed);
    else
      CHECK(i == 0 || data[i] == NULL);
  }
  unsigned char *all = mine ? pattern(length * the_size, 0) : NULL;
  FINE(libi_member_gather_into(me, root, bytes, length, all, TIMEOUT));
  for (uint32_t rank = 0; mine && rank < the_size; rank++) {
    unsigned char *expected = pattern(length, seed + rank);
    CHECK(memcmp(all + rank * length, expected, length) == 0);
    free(expected);
  }
  free(all);
  free(bytes);
}

/* A part for each rank. */
struct parts {
  const void **parts;
  size_t *lengths;
};

static struct parts parts_for_all(size_t length, int equal, uint32_t seed)
{
  struct parts all;
  all.parts = (const void **)calloc(the_size, sizeof(void *));
  all.lengths = (size_t *)calloc(the_size, sizeof(size_t));
  for (uint32_t rank = 0; rank < the_size; rank++) {
    all.lengths[rank] = equal ? length : length_of(rank, length);
    /* Nothing may be nowhere. */
    all.parts[rank] = all.lengths[rank] == 0 ? NULL : pattern(all.lengths[rank], seed + rank);
  }
  return all;
}

static void free_parts(struct parts all)
{
  for (uint32_t rank = 0; rank < the_size; rank++)
    free((void *)all.parts[rank]);
  free((void *)all.parts);
  free(all.lengths);
}

static void scatters(uint32_t root, size_t length)
{
  int mine = my_rank == root;
  uint32_t seed = nth++;
  size_t own = length_of(my_rank, length);
  struct parts all = parts_for_all(length, 0, seed);
  libi_data *data = NULL;
  libi_pending *pending = NULL;
  FINE(libi_member_scatter(me, root, mine ? all.parts : NULL, all.lengths, mine ? the_size : 0,
      &data, TIMEOUT));
  has_one(data, own, seed + my_rank);
  FINE(libi_member_start_scatter(me, root, mine ? all.parts : NULL, all.lengths, the_size, &pending));
  has_one(taken(pending), own, seed + my_rank);
  free_parts(all);

  unsigned char *send = pattern(length * the_size, seed), *recv = pattern(length, seed + 1);
  FINE(libi_member_scatter_into(me, root, mine ? send : NULL, length, recv, TIMEOUT));
  CHECK(memcmp(recv, send + my_rank * length, length) == 0);
  free(send);
  free(recv);
}

static void allgathers(size_t length)
{
  uint32_t seed = nth++;
  size_t own = length_of(my_rank, length);
  unsigned char *bytes = pattern(own, seed + my_rank), *all = pattern(length * the_size, 0);
  libi_data *data = NULL;
  libi_pending *pending = NULL;
  FINE(libi_member_allgather(me, LIBI_LENGTHS_ANY, bytes, own, &data, TIMEOUT));
  has_all(data, length, 0, seed);
  FINE(libi_member_start_allgather(me, LIBI_LENGTHS_ANY, bytes, own, &pending));
  has_all(taken(pending), length, 0, seed);
  FINE(libi_member_allgather(me, LIBI_LENGTHS_EQUAL, bytes, length, &data, TIMEOUT));
  has_all(data, length, 1, seed);
  FINE(libi_member_start_allgather(me, LIBI_LENGTHS_EQUAL, bytes, length, &pending));
  has_all(taken(pending), length, 1, seed);
  /* What is sent may be where it will be. */
  memcpy(all + my_rank * length, bytes, length);
  FINE(libi_member_allgather_into(me, all + my_rank * length, length, all, TIMEOUT));
  for (uint32_t rank = 0; rank < the_size; rank++) {
    unsigned char *expected = pattern(length, seed + rank);
    CHECK(memcmp(all + rank * length, expected, length) == 0);
    free(expected);
  }
  free(all);
  free(bytes);
}

/* What rank gives to another is the pattern of both. */
static void alltoalls(size_t length)
{
  for (int equal = 0; equal < 2; equal++) {
    uint32_t seed = nth++;
    struct parts all = parts_for_all(length, equal, seed + my_rank * 50);
    libi_data *data[2];
    libi_pending *pending = NULL;
    if (equal) {
      FINE(libi_member_alltoall(me, LIBI_LENGTHS_EQUAL, all.parts, all.lengths, the_size, &data[0], TIMEOUT));
      FINE(libi_member_start_alltoall(me, LIBI_LENGTHS_EQUAL, all.parts, all.lengths, the_size, &pending));
    } else {
      FINE(libi_member_alltoall(me, LIBI_LENGTHS_ANY, all.parts, all.lengths, the_size, &data[0], TIMEOUT));
      FINE(libi_member_start_alltoall(me, LIBI_LENGTHS_ANY, all.parts, all.lengths, the_size, &pending));
    }
    data[1] = taken(pending);
    for (int i = 0; i < 2; i++) {
      CHECK(libi_data_count(data[i]) == the_size);
      for (uint32_t rank = 0; rank < the_size; rank++)
        CHECK(is_pattern(data[i], rank, equal ? length : length_of(my_rank, length),
            seed + rank * 50 + my_rank));
      libi_data_free(data[i]);
    }
    free_parts(all);
  }
}

static void rings(void)
{
  libi_pending *pending = NULL;
  libi_data *data = NULL;
  char left[32], right[32], from_left[32], from_right[32];
  libi_ring_position place = {99, 99, 99};
  snprintf(left, sizeof left, "left of %u", my_rank);
  snprintf(right, sizeof right, "right of %u!", my_rank);
  for (int form = 0; form < 3; form++) {
    if (form == 0) {
      FINE(libi_member_ring(me, 5, left, strlen(left), right, strlen(right), &place, &data, TIMEOUT));
    } else if (form == 1) {
      FINE(libi_member_ring(me, 5, left, strlen(left), right, strlen(right), NULL, &data, TIMEOUT));
    } else {
      FINE(libi_member_start_ring(me, 5, left, strlen(left), right, strlen(right), &pending));
      GIVES(LIBI_ERR_STATE, libi_pending_ring_position(pending, &place));
      CHECK(place.size == 0);
      FINE(libi_pending_wait(pending, TIMEOUT));
      GIVES(LIBI_ERR_NULL, libi_pending_ring_position(pending, NULL));
      FINE(libi_pending_ring_position(pending, &place));
      data = taken(pending);
    }
    uint32_t rank = place.rank;
    CHECK(rank < the_size && place.size == the_size && place.before == 5 * (uint64_t)rank);
    CHECK(libi_data_count(data) == 2);
    /* Who the neighbours are depends on the tree. */
    uint32_t places[64], to_left = UINT32_MAX, to_right = UINT32_MAX;
    FINE(libi_member_allgather_into(me, &rank, sizeof rank, places, TIMEOUT));
    for (uint32_t i = 0; i < the_size; i++) {
      to_left = places[i] == (rank + the_size - 1) % the_size ? i : to_left;
      to_right = places[i] == (rank + 1) % the_size ? i : to_right;
    }
    snprintf(from_left, sizeof from_left, "right of %u!", to_left);
    snprintf(from_right, sizeof from_right, "left of %u", to_right);
    CHECK(libi_data_length(data, 0) == strlen(from_left) && libi_data_length(data, 1) == strlen(from_right));
    CHECK(memcmp(libi_data_bytes(data, 0), from_left, strlen(from_left)) == 0);
    CHECK(memcmp(libi_data_bytes(data, 1), from_right, strlen(from_right)) == 0);
    libi_data_free(data);
  }
}

/* Each member sends its neighbour two messages with two tags, which receives them in the other order. */
static void messages(size_t length)
{
  uint32_t seed = nth++, to = (my_rank + 1) % the_size, from = (my_rank + the_size - 1) % the_size;
  unsigned char *bytes = pattern(length, seed + my_rank);
  libi_pending *sent = NULL, *receives = NULL;
  libi_data *data = NULL;
  FINE(libi_member_start_recv_from(me, from, 8, &receives));
  FINE(libi_member_start_send_to(me, to, 7, bytes, length, &sent));
  FINE(libi_member_send_to(me, to, 8, bytes, length, TIMEOUT));
  has_one(taken(receives), length, seed + from);
  FINE(libi_member_recv_from(me, from, 7, &data, TIMEOUT));
  has_one(data, length, seed + from);
  CHECK(taken(sent) == NULL);
  free(bytes);
}

static void keys(void)
{
  char key[32];
  libi_data *data = NULL;
  libi_pending *pending = NULL;
  uint32_t seed = nth++;
  unsigned char *bytes = pattern(100, seed + my_rank);
  for (int scope = LIBI_KEY_REPLICATED; scope <= LIBI_KEY_LOCAL; scope++) {
    snprintf(key, sizeof key, "%u of %d of %u", my_rank, scope, seed);
    if (my_rank % 2) {
      FINE(libi_member_put(me, key, bytes, 100, (libi_key_scope)scope, TIMEOUT));
    } else {
      FINE(libi_member_start_put(me, key, bytes, 100, (libi_key_scope)scope, &pending));
      CHECK(taken(pending) == NULL);
    }
  }
  if (seed % 2) {
    FINE(libi_member_fence(me, TIMEOUT));
  } else {
    FINE(libi_member_start_fence(me, &pending));
    CHECK(taken(pending) == NULL);
  }
  for (uint32_t rank = 0; rank < the_size; rank++)
    for (int scope = LIBI_KEY_REPLICATED; scope <= LIBI_KEY_LOCAL; scope++) {
      snprintf(key, sizeof key, "%u of %d of %u", rank, scope, seed);
      FINE(libi_member_get(me, key, &data, TIMEOUT));
      has_one(data, 100, seed + rank);
      FINE(libi_member_start_get(me, key, &pending));
      has_one(taken(pending), 100, seed + rank);
      FINE(libi_member_find(me, key, &data, TIMEOUT));
      has_one(data, 100, seed + rank);
      FINE(libi_member_start_find(me, key, &pending));
      has_one(taken(pending), 100, seed + rank);
    }
  GIVES(LIBI_NONE, libi_member_find(me, "absent key", &data, TIMEOUT));
  CHECK(data == NULL);
  FINE(libi_member_start_find(me, "absent key", &pending));
  GIVES(LIBI_NONE, libi_pending_wait(pending, TIMEOUT));
  GIVES(LIBI_NONE, libi_pending_poll(pending));
  GIVES(LIBI_NONE, libi_pending_take(pending, &data));
  libi_pending_free(pending);
  free(bytes);
}

void operations(int progress)
{
  static const size_t lengths[] = {0, 1, 1000, 40000};
  libi_pending *pending = NULL;
  CHECK(libi_member_ranks(me, LIBI_RANKS_ABSENT, NULL, 0) == 0 &&
      libi_member_ranks(me, LIBI_RANKS_LOST, NULL, 0) == 0);
  CHECK(libi_member_descriptor(me) > 2);
  CHECK(progress == LIBI_PROGRESS_MANUAL || libi_member_next_timeout(me) == LIBI_FOREVER);
  FINE(libi_member_dispatch(me));
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    uint32_t roots[] = {0, the_size / 2, the_size - 1};
    for (int j = 0; j < 3; j++) {
      broadcasts(roots[j], lengths[i]);
      gathers(roots[j], lengths[i]);
      scatters(roots[j], lengths[i]);
    }
    allgathers(lengths[i]);
    alltoalls(lengths[i]);
    messages(lengths[i]);
  }
  reductions();
  rings();
  keys();
  keys();
  FINE(libi_member_start_barrier(me, &pending));
  CHECK(taken(pending) == NULL);
  FINE(libi_member_barrier(me, TIMEOUT));
}
