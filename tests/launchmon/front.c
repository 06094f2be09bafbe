/* A front end of a tool that was written for LaunchMON's API:
 *
 *   front misuse DAEMON DIRECTORY
 *   front attach DAEMON DIRECTORY WHAT END PID
 *   front launch DAEMON DIRECTORY WHAT END LAUNCHER [WORD...]
 *
 * WHAT is what the daemon does, END how the session ends. */
#include "check.h"

#include <lmon_api/lmon_fe.h>

static int statuses[16], changes;

static int on_status(int *status) {
  if (changes < 16)
    statuses[changes++] = *status;
  return 0;
}

static int is(const char *what, const char *word) { return strcmp(what, word) == 0; }

static int status_of(int session) {
  int status = -1;
  IS(LMON_fe_getStatus(session, &status), LMON_OK);
  return status;
}

static void await_status(int session, int wanted) {
  CHECK(WIFREGISTERED(9) && WIFDETACHED(9) && !WIFBESPAWNED(9) && !WIFMWSPAWNED(9) && !WIFKILLED(9));
  for (int turn = 0; status_of(session) != wanted; turn++) {
    CHECK(turn < 6000);
    usleep(5000);
  }
}

/* Every call with a session of this kind. */
static void calls(int session, int code) {
  unsigned int size = 7;
  int number = 7;
  char text[8];
  MPIR_PROCDESC_EXT entry;
  lmon_rm_info_t info;
  struct note note = {1, "word"};
  IS(LMON_fe_getProctableSize(session, &size), code);
  IS(LMON_fe_getProctable(session, &entry, &size, 1), code);
  IS(LMON_fe_sendUsrDataBe(session, &note), code);
  IS(LMON_fe_recvUsrDataBe(session, &note), code);
  IS(LMON_fe_getRMInfo(session, &info), code);
  IS(LMON_fe_getResourceHandle(session, text, &number, 8), code);
  IS(LMON_fe_detach(session), code);
  IS(LMON_fe_kill(session), code);
  IS(LMON_fe_shutdownDaemons(session), code);
  CHECK(size == 7 && number == 7);
}

/* Calls that register something, in a session that there is not. */
static void registers(int session, int code) {
  int status;
  lmon_daemon_env_t variable = {"A", "b", NULL};
  IS(LMON_fe_regPackForFeToBe(session, pack), code);
  IS(LMON_fe_regUnpackForBeToFe(session, unpack), code);
  IS(LMON_fe_regStatusCB(session, on_status), code);
  IS(LMON_fe_putToBeDaemonEnv(session, &variable, 1), code);
  IS(LMON_fe_getStatus(session, &status), code);
}

static void launches(int session, char *daemon, int code) {
  char *words[] = {"mpirun", "true", NULL};
  IS(LMON_fe_attachAndSpawnDaemons(session, NULL, 1, daemon, NULL, NULL, NULL), code);
  IS(LMON_fe_launchAndSpawnDaemons(session, NULL, words[0], words, daemon, NULL, NULL, NULL), code);
}

static void misuse(char *daemon) {
  int session = 7;
  IS(LMON_fe_regErrorCB(NULL), LMON_EBDARG);
  IS(LMON_fe_regErrorCB(hear), LMON_OK);
  IS(LMON_fe_createSession(&session), LMON_EINIT);
  calls(0, LMON_EINIT);
  registers(0, LMON_EINIT);
  launches(0, daemon, LMON_EINIT);
  IS(LMON_fe_init(LMON_VERSION - 1), LMON_EINVAL);
  CHECK(strstr(heard, "libi: LMON_fe_init: ") == heard && strstr(heard, "900099") != NULL);
  IS(LMON_fe_init(LMON_VERSION), LMON_OK);
  IS(LMON_fe_init(LMON_VERSION), LMON_OK);
  for (int bad = -1; bad < 3; bad++) {
    calls(bad, LMON_EBDARG);
    registers(bad, LMON_EBDARG);
    launches(bad, daemon, LMON_EBDARG);
  }
  IS(LMON_fe_createSession(NULL), LMON_EBDARG);
  IS(LMON_fe_createSession(&session), LMON_OK);
  CHECK(session == 1);
  calls(session, LMON_EDUNAV);
  registers(session, LMON_OK);
  IS(LMON_fe_getStatus(session, NULL), LMON_EBDARG);
  IS(LMON_fe_regPackForFeToBe(session, NULL), LMON_EBDARG);
  IS(LMON_fe_regUnpackForBeToFe(session, NULL), LMON_EBDARG);
  IS(LMON_fe_regStatusCB(session, NULL), LMON_EBDARG);
  lmon_daemon_env_t variables[] = {{"A", NULL, NULL}, {NULL, "b", NULL}, {"A=B", "b", NULL}};
  IS(LMON_fe_putToBeDaemonEnv(session, NULL, 1), LMON_EBDARG);
  IS(LMON_fe_putToBeDaemonEnv(session, variables, -1), LMON_EBDARG);
  IS(LMON_fe_putToBeDaemonEnv(session, variables, 1), LMON_OK);
  IS(LMON_fe_putToBeDaemonEnv(session, variables, 2), LMON_EBDARG);
  IS(LMON_fe_putToBeDaemonEnv(session, variables + 2, 1), LMON_EBDARG);

  IS(LMON_fe_attachAndSpawnDaemons(session, NULL, getpid(), NULL, NULL, NULL, NULL), LMON_EBDARG);
  IS(LMON_fe_attachAndSpawnDaemons(session, NULL, getpid(), "", NULL, NULL, NULL), LMON_EBDARG);
  IS(LMON_fe_attachAndSpawnDaemons(session, "n1.invalid", 1, daemon, NULL, NULL, NULL), LMON_NOTIMPL);
  CHECK(strstr(heard, "n1.invalid is not this machine") != NULL);
  IS(LMON_fe_attachAndSpawnDaemons(session, "localhost", 2147483647, daemon, NULL, NULL, NULL), LMON_ELNCHR);
  CHECK(strstr(heard, "there is no process 2147483647") != NULL);
  IS(LMON_fe_attachAndSpawnDaemons(session, NULL, -1, daemon, NULL, NULL, NULL), LMON_ELNCHR);
  IS(LMON_fe_attachAndSpawnDaemons(session, NULL, getpid(), daemon, NULL, NULL, NULL), LMON_ELNCHR);
  CHECK(strstr(heard, "is no launcher that keeps a process table") != NULL);
  struct note note = {-1, ""};
  IS(LMON_fe_attachAndSpawnDaemons(session, NULL, getpid(), daemon, NULL, &note, NULL), LMON_ENEGCB);

  char *words[] = {"-n", "1", "true", NULL}, *none[] = {NULL};
  IS(LMON_fe_launchAndSpawnDaemons(session, NULL, NULL, words, daemon, NULL, NULL, NULL), LMON_EBDARG);
  IS(LMON_fe_launchAndSpawnDaemons(session, NULL, "aprun", words, daemon, NULL, NULL, NULL), LMON_EBDARG);
  CHECK(strstr(heard, "aprun is not known") != NULL);
  IS(LMON_fe_launchAndSpawnDaemons(session, NULL, "mpirun", none, daemon, NULL, NULL, NULL), LMON_EBDARG);
  IS(LMON_fe_launchAndSpawnDaemons(session, NULL, "mpirun", NULL, daemon, NULL, NULL, NULL), LMON_EBDARG);
  IS(LMON_fe_launchAndSpawnDaemons(session, NULL, "/no/such/mpirun", words, daemon, NULL, NULL, NULL),
     LMON_ELNCHR);
  calls(session, LMON_EDUNAV);
  CHECK(status_of(session) == 0);
  /* Another session has no function that packs. */
  IS(LMON_fe_createSession(&session), LMON_OK);
  IS(LMON_fe_attachAndSpawnDaemons(session, NULL, getpid(), daemon, NULL, &note, NULL), LMON_ENCLLB);
}

static void table_of(int session) {
  unsigned int size = 0, written = 0;
  IS(LMON_fe_getProctableSize(session, NULL), LMON_EBDARG);
  IS(LMON_fe_getProctableSize(session, &size), LMON_OK);
  MPIR_PROCDESC_EXT *table = malloc(sizeof *table * size);
  CHECK(table != NULL && size > 0);
  IS(LMON_fe_getProctable(session, NULL, &written, size), LMON_EBDARG);
  IS(LMON_fe_getProctable(session, table, NULL, size), LMON_EBDARG);
  IS(LMON_fe_getProctable(session, table, &written, 0), LMON_ETRUNC);
  CHECK(written == 0);
  IS(LMON_fe_getProctable(session, table, &written, size), LMON_OK);
  CHECK(written == size);
  print_and_free(stdout, table, (int)size);
  free(table);
}

static void resources(int session) {
  lmon_rm_info_t info;
  char text[64];
  int size;
  IS(LMON_fe_getRMInfo(session, NULL), LMON_EBDARG);
  IS(LMON_fe_getRMInfo(session, &info), LMON_OK);
  CHECK(info.index_to_cur_instance >= 0 && info.index_to_cur_instance < info.num_supported_types);
  rm_catalogue_e manager = info.rm_supported_types[info.index_to_cur_instance];
  printf("manager %d, launcher %d\n", (int)manager, info.rm_launcher_pid);
  IS(LMON_fe_getResourceHandle(session, NULL, &size, 64), LMON_EBDARG);
  IS(LMON_fe_getResourceHandle(session, text, NULL, 64), LMON_EBDARG);
  if (manager != RC_slurm) {
    IS(LMON_fe_getResourceHandle(session, text, &size, 64), LMON_EDUNAV);
    return;
  }
  IS(LMON_fe_getResourceHandle(session, text, &size, 1), LMON_ETRUNC);
  IS(LMON_fe_getResourceHandle(session, text, &size, 64), LMON_OK);
  CHECK(size > 0 && (size_t)size == strlen(text) && atoi(text) > 0);
}

static void talks(int session) {
  IS(LMON_fe_sendUsrDataBe(session, NULL), LMON_EBDARG);
  IS(LMON_fe_recvUsrDataBe(session, NULL), LMON_EBDARG);
  struct note note = {5, "question"};
  for (int time = 0; time < 3; time++) {
    IS(LMON_fe_sendUsrDataBe(session, &note), LMON_OK);
    IS(LMON_fe_recvUsrDataBe(session, &note), LMON_OK);
  }
  CHECK(note.number == 40 && is(note.word, "question"));
}

/* Ends the session in this way. */
static void end(int session, const char *how, const char *directory) {
  struct note note = {1, ""};
  if (is(how, "detach")) {
    IS(LMON_fe_detach(session), LMON_OK);
    await_status(session, 1 | 2 | 8);
    CHECK(statuses[changes - 1] == (1 | 2 | 8));
    IS(LMON_fe_detach(session), LMON_EDUNAV);
    IS(LMON_fe_kill(session), LMON_EDUNAV);
    IS(LMON_fe_sendUsrDataBe(session, &note), LMON_EDUNAV);
    puts("detached");
    fflush(stdout);
    await(directory, "end");
  } else if (is(how, "shutdown")) {
    IS(LMON_fe_shutdownDaemons(session), LMON_OK);
    await_status(session, 1);
    IS(LMON_fe_sendUsrDataBe(session, &note), LMON_EDUNAV);
    IS(LMON_fe_recvUsrDataBe(session, &note), LMON_ESUBCOM);
    IS(LMON_fe_shutdownDaemons(session), LMON_OK);
  } else if (is(how, "kill")) {
    IS(LMON_fe_kill(session), LMON_OK);
    await_status(session, 1 | 16);
    IS(LMON_fe_kill(session), LMON_EDUNAV);
    IS(LMON_fe_detach(session), LMON_EDUNAV);
    IS(LMON_fe_sendUsrDataBe(session, &note), LMON_EDUNAV);
  } else if (is(how, "left")) {
    /* The daemons have left. */
    await_status(session, 1);
    IS(LMON_fe_detach(session), LMON_OK);
  } else if (is(how, "lost")) {
    /* The master is killed. */
    IS(LMON_fe_recvUsrDataBe(session, &note), LMON_ESUBCOM);
    await_status(session, 1);
    IS(LMON_fe_sendUsrDataBe(session, &note), LMON_EDUNAV);
    IS(LMON_fe_shutdownDaemons(session), LMON_OK);
  } else if (is(how, "stay")) {
    for (;;)
      pause();
  } else {
    CHECK(is(how, "exit"));
  }
}

int main(int argc, char **argv) {
  CHECK(argc >= 4);
  char *daemon = argv[2], *directory = argv[3];
  if (is(argv[1], "misuse")) {
    misuse(daemon);
    return 0;
  }
  CHECK(argc >= 7);
  char *what = argv[4], *how = argv[5];
  int session, other, code;
  if (getenv("LMON_TEST_QUIET") == NULL)
    IS(LMON_fe_regErrorCB(hear), LMON_OK);
  IS(LMON_fe_init(LMON_VERSION), LMON_OK);
  IS(LMON_fe_createSession(&other), LMON_OK);
  IS(LMON_fe_createSession(&session), LMON_OK);
  CHECK(other != session);
  IS(LMON_fe_regPackForFeToBe(session, pack), LMON_OK);
  IS(LMON_fe_regUnpackForBeToFe(session, unpack), LMON_OK);
  IS(LMON_fe_regStatusCB(session, on_status), LMON_OK);
  lmon_daemon_env_t variables[] = {{"LMON_TEST_DIRECTORY", directory, NULL},
                                   {"LMON_TEST_WORD", "two words", NULL}};
  IS(LMON_fe_putToBeDaemonEnv(session, variables, 2), LMON_OK);

  struct note febe = {41, "start"}, befe = {0, ""};
  /* With the path in front or without it. */
  char *with[] = {daemon, what, NULL};
  if (is(argv[1], "attach"))
    code = LMON_fe_attachAndSpawnDaemons(session, NULL, atoi(argv[6]), daemon, with + 1, &febe, &befe);
  else
    code = LMON_fe_launchAndSpawnDaemons(session, "localhost", argv[6], argv + 6, daemon, with, &febe, &befe);
  if (code != LMON_OK) {
    printf("%d: %s", code, heard);
    CHECK(status_of(session) == 0);
    calls(session, LMON_EDUNAV);
    return 0;
  }
  CHECK(befe.number == 42 && is(befe.word, "start"));
  CHECK(changes >= 2 && statuses[0] == 1 && statuses[1] == 3);
  IS(LMON_fe_attachAndSpawnDaemons(session, NULL, 1, daemon, with, NULL, NULL), LMON_EBDARG);
  IS(LMON_fe_putToBeDaemonEnv(session, variables, 2), LMON_EBDARG);
  table_of(session);
  resources(session);
  if (is(what, "talks"))
    talks(session);
  puts("ready");
  fflush(stdout);
  await(directory, "go");
  end(session, how, directory);
  puts("ended");
  return 0;
}
