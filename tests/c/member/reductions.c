/* Reductions and prefix reductions: of numbers, by the operations of the library, and of anything, by functions of this
 * program. */
#include "check.h"

#include <sched.h>
#include <time.h>

/* All elements and operations over numbers of which the results are known: of rank r, 2 * r + 3 and
   its double. */
#define REDUCES(type, element, is_float)                                              \
  do {                                                                                \
    for (int op = LIBI_OP_SUM; op <= ((is_float) ? LIBI_OP_MAX : LIBI_OP_OR); op++) { \
      type expected[2] = {3, 6}, mine[2], result[2] = {0, 0};                         \
      for (uint32_t rank = 1; rank < the_size; rank++)                                \
        for (int i = 0; i < 2; i++) {                                                 \
          type a = expected[i], b = (type)((2 * rank + 3) << i);                      \
          expected[i] = op == LIBI_OP_SUM   ? (type)(a + b)                           \
                        : op == LIBI_OP_MIN ? (a < b ? a : b)                         \
                        : op == LIBI_OP_MAX ? (a > b ? a : b)                         \
                        : op == LIBI_OP_AND ? (type)((uint64_t)a & (uint64_t)b)       \
                                            : (type)((uint64_t)a | (uint64_t)b);      \
        }                                                                             \
      for (int i = 0; i < 2; i++)                                                     \
        mine[i] = (type)((2 * my_rank + 3) << i);                                     \
      reduces(element, (libi_op)op, mine, 2, sizeof mine, expected, result);          \
    }                                                                                 \
  } while (0)

static void reduces(libi_element element, libi_op op, const void *mine, size_t count, size_t length,
                    const void *expected, void *result)
{
  libi_pending *pending = NULL;
  uint32_t root = nth++ % the_size;
  int gets = my_rank == root;
  /* Nothing has to be aligned, and the result may be where the numbers are. */
  unsigned char *place = pattern(length + 1, 0);
  memcpy(place + 1, mine, length);
  FINE(libi_member_allreduce(me, element, op, place + 1, count, place + 1, TIMEOUT));
  CHECK(memcmp(place + 1, expected, length) == 0);
  free(place);
  FINE(libi_member_reduce(me, root, element, op, mine, count, gets ? result : NULL, TIMEOUT));
  CHECK(!gets || memcmp(result, expected, length) == 0);
  FINE(libi_member_start_allreduce(me, element, op, mine, count, &pending));
  libi_data *data = taken(pending);
  CHECK(libi_data_length(data, 0) == length && memcmp(libi_data_bytes(data, 0), expected, length) == 0);
  libi_data_free(data);
  FINE(libi_member_start_reduce(me, root, element, op, mine, count, &pending));
  data = taken(pending);
  CHECK((data != NULL) == gets);
  CHECK(!gets || memcmp(libi_data_bytes(data, 0), expected, length) == 0);
  libi_data_free(data);
  FINE(libi_member_allreduce(me, element, op, NULL, 0, NULL, TIMEOUT));
}

/* How often a function was called and released. */
struct count {
  int calls, releases;
};

/* Appends, in the order of ranks. */
static void append(void *userdata, libi_value *into, const void *other, size_t length)
{
  struct count *count = (struct count *)userdata;
  size_t before = libi_value_length(into);
  __atomic_add_fetch(&count->calls, 1, __ATOMIC_SEQ_CST);
  /* Not before the last call. */
  CHECK(__atomic_load_n(&count->releases, __ATOMIC_SEQ_CST) == 0);
  FINE(libi_value_resize(into, before + length + 7));
  FINE(libi_value_resize(into, before + length));
  memcpy((unsigned char *)libi_value_bytes(into) + before, other, length);
  GIVES(LIBI_ERR_NULL, libi_value_resize(NULL, 1));
  GIVES(LIBI_ERR_NO_MEMORY, libi_value_resize(into, SIZE_MAX));
  CHECK(libi_value_bytes(NULL) == NULL && libi_value_length(NULL) == 0);
  CHECK(libi_value_length(into) == before + length);
}

static void count_release(void *userdata)
{
  __atomic_add_fetch(&((struct count *)userdata)->releases, 1, __ATOMIC_SEQ_CST);
}

/* The values of lower ranks, and with them that of this member: numbers, and anything in the order of ranks. */
static void prefixes(void)
{
  static struct count counts[2][4];
  struct count *count = counts[nth++ % 2];
  int32_t mine[2] = {(int32_t)my_rank + 1, -3}, sums[2] = {0, 0}, before[2] = {7, 8};
  int32_t below = (int32_t)(my_rank * (my_rank + 1) / 2), lower = my_rank == 0 ? 7 : below;
  char text[16], all[16 * 64] = "";
  for (uint32_t rank = 0; rank < my_rank; rank++)
    snprintf(all + strlen(all), 16, "%u,", rank);
  size_t length = strlen(all);
  snprintf(text, sizeof text, "%u,", my_rank);
  strcat(all, text);
  libi_pending *pending = NULL;
  libi_data *data = NULL;

  FINE(libi_member_scan(me, LIBI_ELEMENT_I32, LIBI_OP_SUM, mine, 2, sums, TIMEOUT));
  CHECK(sums[0] == below + mine[0] && sums[1] == -3 * ((int32_t)my_rank + 1));
  FINE(libi_member_exscan(me, LIBI_ELEMENT_I32, LIBI_OP_SUM, mine, 2, before, TIMEOUT));
  CHECK(before[0] == lower && before[1] == (my_rank == 0 ? 8 : -3 * (int32_t)my_rank));
  FINE(libi_member_exscan(me, LIBI_ELEMENT_I32, LIBI_OP_SUM, NULL, 0, NULL, TIMEOUT));
  FINE(libi_member_start_scan(me, LIBI_ELEMENT_I32, LIBI_OP_SUM, mine, 2, &pending));
  data = taken(pending);
  CHECK(libi_data_length(data, 0) == sizeof sums && memcmp(libi_data_bytes(data, 0), sums, sizeof sums) == 0);
  libi_data_free(data);
  FINE(libi_member_start_exscan(me, LIBI_ELEMENT_I32, LIBI_OP_SUM, mine, 2, &pending));
  data = taken(pending);
  CHECK((data == NULL) == (my_rank == 0));
  CHECK(my_rank == 0 || memcmp(libi_data_bytes(data, 0), before, sizeof before) == 0);
  libi_data_free(data);

  for (int i = 0; i < 4; i++) {
    size_t expected = i < 2 ? strlen(all) : length;
    data = NULL;
    if (i == 0)
      FINE(libi_member_scan_by(me, append, &count[i], NULL, text, strlen(text), &data, TIMEOUT));
    else if (i == 1)
      FINE(libi_member_start_scan_by(me, append, &count[i], NULL, text, strlen(text), &pending));
    else if (i == 2)
      FINE(libi_member_exscan_by(me, append, &count[i], NULL, text, strlen(text), &data, TIMEOUT));
    else
      FINE(libi_member_start_exscan_by(me, append, &count[i], NULL, text, strlen(text), &pending));
    if (i % 2 == 1)
      data = taken(pending);
    CHECK((data == NULL) == (expected == 0));
    CHECK(data == NULL || (libi_data_length(data, 0) == expected && memcmp(libi_data_bytes(data, 0), all, expected) == 0));
    libi_data_free(data);
  }
  FINE(libi_member_barrier(me, TIMEOUT));
}

static void folds(void)
{
  /* Whoever has been told that an operation is over may find its function in use still, for a moment. */
  static struct count counts[8][4];
  struct count *count = counts[nth % 8];
  time_t by = time(NULL) + TIMEOUT / 1000;
  uint32_t root = nth % the_size;
  int gets = my_rank == root;
  char mine[16], expected[16 * 64];
  expected[0] = 0;
  for (uint32_t rank = 0; rank < the_size; rank++)
    snprintf(expected + strlen(expected), 16, "%u%s", rank, rank % 2 ? "," : ";;");
  snprintf(mine, sizeof mine, "%u%s", my_rank, my_rank % 2 ? "," : ";;");
  libi_data *data[4] = {NULL, NULL, NULL, NULL};
  libi_pending *pending = NULL;
  FINE(libi_member_reduce_by(me, root, append, &count[0], count_release, mine, strlen(mine), gets
      ? &data[0] : NULL, TIMEOUT));
  FINE(libi_member_start_reduce_by(me, root, append, &count[1], count_release, mine, strlen(mine), &pending));
  data[1] = taken(pending);
  FINE(libi_member_allreduce_by(me, append, &count[2], count_release, mine, strlen(mine), &data[2], TIMEOUT));
  FINE(libi_member_start_allreduce_by(me, append, &count[3], NULL, mine, strlen(mine), &pending));
  data[3] = taken(pending);
  for (int i = 0; i < 4; i++) {
    if (i > 1 || gets)
      CHECK(libi_data_length(data[i], 0) == strlen(expected) &&
            memcmp(libi_data_bytes(data[i], 0), expected, strlen(expected)) == 0);
    else
      CHECK(data[i] == NULL);
    libi_data_free(data[i]);
  }
  nth++;
  for (int i = 0; i < 3; i++)
    while (__atomic_load_n(&count[i].releases, __ATOMIC_SEQ_CST) < 1) {
      CHECK(time(NULL) < by);
      sched_yield();
    }
  /* Which members combine depends on the tree, and on the process that leads a host. */
  int32_t calls[4], sums[4];
  for (int i = 0; i < 4; i++) {
    CHECK(count[i].releases == (i < 3));
    calls[i] = count[i].calls;
  }
  FINE(libi_member_allreduce(me, LIBI_ELEMENT_I32, LIBI_OP_SUM, calls, 4, sums, TIMEOUT));
  for (int i = 0; i < 4; i++)
    CHECK(the_size == 1 || sums[i] > 0);
}

void reductions(void)
{
  REDUCES(uint8_t, LIBI_ELEMENT_U8, 0);
  REDUCES(int32_t, LIBI_ELEMENT_I32, 0);
  REDUCES(uint32_t, LIBI_ELEMENT_U32, 0);
  REDUCES(int64_t, LIBI_ELEMENT_I64, 0);
  REDUCES(uint64_t, LIBI_ELEMENT_U64, 0);
  REDUCES(float, LIBI_ELEMENT_F32, 1);
  REDUCES(double, LIBI_ELEMENT_F64, 1);
  folds();
  folds();
  prefixes();
}
