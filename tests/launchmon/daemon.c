/* A daemon of a tool that was written for LaunchMON's API. Its argument is what it does. */
#include "check.h"

#include <lmon_api/lmon_be.h>

static int is(const char *what, const char *word) { return strcmp(what, word) == 0; }

/* Every call of a process that is no daemon, or not yet. */
static void out_of_order(int code) {
  int number = 7;
  struct note note = {0, ""};
  IS(LMON_be_handshake(&note), code);
  IS(LMON_be_ready(&note), code);
  IS(LMON_be_amIMaster(), code);
  IS(LMON_be_getMyRank(&number), code);
  IS(LMON_be_getSize(&number), code);
  IS(LMON_be_barrier(), code);
  IS(LMON_be_broadcast(&number, 4), code);
  IS(LMON_be_gather(&number, 4, &number), code);
  IS(LMON_be_scatter(&number, 4, &number), code);
  IS(LMON_be_getMyProctabSize(&number), code);
  IS(LMON_be_sendUsrData(&note), code);
  IS(LMON_be_recvUsrData(&note), code);
  IS(LMON_be_finalize(), code);
  CHECK(number == 7);
}

static void collectives(int rank, int size) {
  int *all = malloc(sizeof(int) * (size_t)size), own = rank * 10, number = rank == 0 ? 77 : 0;
  CHECK(all != NULL);
  IS(LMON_be_broadcast(&number, sizeof number), LMON_OK);
  CHECK(number == 77);
  IS(LMON_be_gather(&own, sizeof own, rank == 0 ? all : NULL), LMON_OK);
  for (int at = 0; rank == 0 && at < size; at++) {
    CHECK(all[at] == at * 10);
    all[at] += 3;
  }
  IS(LMON_be_scatter(all, sizeof own, &own), LMON_OK);
  CHECK(own == rank * 10 + 3);
  IS(LMON_be_barrier(), LMON_OK);
  free(all);
}

static void misuse(void) {
  IS(LMON_be_getMyRank(NULL), LMON_EBDARG);
  IS(LMON_be_getSize(NULL), LMON_EBDARG);
  IS(LMON_be_getMyProctabSize(NULL), LMON_EBDARG);
  int size = 7;
  MPIR_PROCDESC_EXT entry;
  IS(LMON_be_getMyProctab(NULL, &size, 1), LMON_EBDARG);
  IS(LMON_be_getMyProctab(&entry, NULL, 1), LMON_EBDARG);
  IS(LMON_be_getMyProctab(&entry, &size, -1), LMON_EBDARG);
  IS(LMON_be_getMyProctab(&entry, &size, 0), LMON_ETRUNC);
  CHECK(size == 0);
  IS(LMON_be_init(LMON_VERSION, NULL, NULL), LMON_EINIT);
}

int main(int argc, char **argv) {
  IS(LMON_be_regErrorCB(NULL), LMON_EBDARG);
  IS(LMON_be_regErrorCB(hear), LMON_OK);
  IS(LMON_be_init(LMON_VERSION + 1, &argc, &argv), LMON_EINVAL);
  CHECK(argc == 2);
  const char *what = argv[1];
  if (is(what, "by hand")) {
    out_of_order(LMON_EINIT);
    IS(LMON_be_init(LMON_VERSION, &argc, &argv), LMON_EINIT);
    puts(heard);
    return 0;
  }
  IS(LMON_be_init(LMON_VERSION, &argc, &argv), LMON_OK);
  int rank, size, count, written;
  IS(LMON_be_getMyRank(&rank), LMON_OK);
  IS(LMON_be_getSize(&size), LMON_OK);
  IS(LMON_be_amIMaster(), rank == 0 ? LMON_YES : LMON_NO);
  IS(LMON_be_getMyProctabSize(&count), LMON_EINIT);

  IS(LMON_be_regPackForBeToFe(NULL), LMON_EBDARG);
  IS(LMON_be_regUnpackForFeToBe(NULL), LMON_EBDARG);
  IS(LMON_be_regPackForBeToFe(pack), LMON_OK);
  IS(LMON_be_regUnpackForFeToBe(unpack), LMON_OK);
  struct note note = {0, ""};
  IS(LMON_be_ready(&note), LMON_EINIT);
  IS(LMON_be_handshake(&note), LMON_OK);
  IS(LMON_be_handshake(&note), LMON_EINIT);
  if (is(what, "ends"))
    return 3;
  if (is(what, "deserts")) {
    IS(LMON_be_finalize(), LMON_OK);
    return 0;
  }
  IS(LMON_be_sendUsrData(&note), LMON_EINIT);
  collectives(rank, size);
  misuse();

  /* Its table, and what it was given, in a file of its own. */
  const char *directory = getenv("LMON_TEST_DIRECTORY"), *word = getenv("LMON_TEST_WORD");
  CHECK(directory != NULL && word != NULL);
  char name[64], ready[64], path[4096];
  snprintf(name, sizeof name, "daemon.%d", rank);
  snprintf(ready, sizeof ready, "ready.%d", rank);
  IS(LMON_be_getMyProctabSize(&count), LMON_OK);
  MPIR_PROCDESC_EXT *table = malloc(sizeof *table * (size_t)count);
  CHECK(table != NULL);
  IS(LMON_be_getMyProctab(table, &written, count), LMON_OK);
  CHECK(written == count);
  FILE *out = fopen(file(directory, name), "w");
  CHECK(out != NULL);
  print_and_free(out, table, count);
  free(table);
  fprintf(out, "%d %s, %s\n", note.number, note.word, word);
  fclose(out);
  strcpy(path, file(directory, name));
  CHECK(rename(path, file(directory, ready)) == 0);

  note.number = is(what, "packs nothing") && rank == 0 ? -1 : note.number + 1;
  if (note.number < 0)
    IS(LMON_be_ready(&note), LMON_ENEGCB);
  else
    IS(LMON_be_ready(&note), LMON_OK);
  IS(LMON_be_ready(&note), LMON_EINIT);

  if (is(what, "talks")) {
    for (int time = 0; time < 3; time++) {
      IS(LMON_be_recvUsrData(&note), LMON_OK);
      note.number *= 2;
      IS(LMON_be_sendUsrData(&note), LMON_OK);
      collectives(rank, size);
    }
    if (rank == 0) {
      IS(LMON_be_sendUsrData(NULL), LMON_EBDARG);
      IS(LMON_be_recvUsrData(NULL), LMON_EBDARG);
      note.number = -1;
      IS(LMON_be_sendUsrData(&note), LMON_ENEGCB);
    }
  }
  if (!is(what, "leaves"))
    await(directory, "stop");
  IS(LMON_be_finalize(), LMON_OK);
  out_of_order(LMON_EINIT);
  snprintf(name, sizeof name, "left.%d", rank);
  fclose(fopen(file(directory, name), "w"));
  return 0;
}
