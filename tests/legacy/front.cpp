/* What front ends do: `PROGRAM SCENE DIRECTORY HOST HOST HOST HOST`, and what they find is said by CHECK. */
#include "front.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

const char *self;
const char *directory;
std::vector<std::string> hosts;

static std::vector<long> numbers(const std::string &text) {
  std::vector<long> numbers;
  const char *at = text.c_str();
  for (char *end; *at; at = *end ? end + 1 : end)
    numbers.push_back(strtol(at, &end, 10));
  return numbers;
}

static std::string file(const char *name) { return std::string(directory) + "/" + name; }

static std::vector<long> awaited;
static bool are_gone() {
  for (size_t at = 0; at < awaited.size(); at++)
    if (kill(awaited[at], 0) == 0 || errno != ESRCH)
      return false;
  return true;
}

static libi_sess_handle_t start(const std::string &role, const std::string &word) {
  libi_sess_handle_t session = create();
  Request request(session, self);
  request.arg("member").arg(role).arg(word).arg(directory).on(hosts[0], 2).on(hosts[1], 1).on(hosts[2], 1);
  launch(request);
  return session;
}

/* Several executables in a session, hosts that are named again, every call, and every kind of message. */
static void talk() {
  IS(LIBI_fe_init(LIBI_VERSION), LIBI_OK);
  libi_sess_handle_t session = create();
  char of[] = "OF_THE_SESSION", again[] = "AGAIN", nothing[] = "", first[] = "a b'\"$HOME\\",
      old[] = "old", fresh[] = "new";
  libi_env_t skipped = {nothing, old, NULL}, one = {of, first, &skipped},
      two = {again, old, NULL}, three = {again, fresh, NULL};
  IS(LIBI_fe_addToSessionEnvironment(session, &one), LIBI_OK);
  IS(LIBI_fe_addToSessionEnvironment(session, NULL), LIBI_OK);
  IS(LIBI_fe_addToSessionEnvironment(session, &two), LIBI_OK);
  IS(LIBI_fe_addToSessionEnvironment(session, &three), LIBI_OK);
  memset(first, 'x', sizeof first - 1);

  Request a(session, self), b(session, self);
  a.arg("member").arg("talk").arg("a").arg("it's \"quoted\" $HOME; *");
  a.on(hosts[0], 2).on(hosts[1], 1).on(hosts[0], 1).on(hosts[0], 1);
  b.arg("member").arg("talk").arg("b").arg("").on(hosts[1], 1).on(hosts[2], 2).on(hosts[0], 1);
  proc_dist_req_t both[2] = {a.request, b.request};
  IS(LIBI_fe_launch(both, 2), LIBI_OK);
  a.spoil();
  b.spoil();

  const char *where[9] = {"0", "0", "1", "0", "0", "1", "2", "2", "0"};
  unsigned int size = 0, count = 0;
  char **list = NULL;
  IS(LIBI_fe_getHostlistSize(session, &size), LIBI_OK);
  IS(LIBI_fe_getHostlist(session, &list, &count), LIBI_OK);
  CHECK(size == 9 && count == 9);
  std::string expected;
  for (int rank = 0; rank < 9; rank++) {
    CHECK(hosts[atoi(where[rank])] == list[rank]);
    free(list[rank]);
    char line[100];
    snprintf(line, sizeof line, "%d: %s a b'\"$HOME\\ new\n", rank, rank < 5
        ? "a it's \"quoted\" $HOME; *" : "b ");
    expected += line;
  }
  free(list);

  send(session, "");
  send(session, "hello");
  send(session, pattern(LONG));
  CHECK(receive(session) == expected);
  CHECK(receive(session) == "");
  CHECK(receive(session) == pattern(LONG));
  CHECK(receive(session) == "bye");
  void *data = NULL;
  int length = 0;
  IS(LIBI_fe_recvUsrData(session, &data, &length), LIBI_EIO);
  IS(LIBI_fe_sendUsrData(session, data, 0), LIBI_EIO);
}

/* As it is used: two sessions in one launch on hosts that both have, messages before they are
   received, members that leave and live on. The front end neither ends its sessions nor waits for
   them. */
static void overlay() {
  IS(LIBI_fe_init(LIBI_VERSION), LIBI_OK);
  libi_sess_handle_t inner = create(), outer = create();
  Request nodes(inner, self), ends(outer, self), more(outer, self);
  nodes.arg("member").arg("live").arg(directory).arg("main").arg("i").on(hosts[0], 1).on(hosts[1], 1);
  ends.arg("member").arg("live").arg(directory).arg("main").arg("o");
  more.arg("member").arg("live").arg(directory).arg("thread").arg("o").on(hosts[3], 1).on(hosts[2], 1);
  for (int turn = 0; turn < 3; turn++)
    for (int host = 0; host < 3; host++)
      ends.on(hosts[host], 1);
  proc_dist_req_t all[3] = {ends.request, nodes.request, more.request};
  IS(LIBI_fe_launch(all, 3), LIBI_OK);
  libi_sess_handle_t sessions[2] = {inner, outer};
  for (int one = 0; one < 2; one++) {
    send(sessions[one], "one");
    send(sessions[one], "two");
    send(sessions[one], "three");
  }
  std::string pids = receive(outer) + receive(inner);
  CHECK(numbers(pids).size() == 13);
  printf("%s", pids.c_str());
  // Those who have not left by the time this process ends go with it.
  for (int one = 0; one < 13; one++) {
    char name[64];
    snprintf(name, sizeof name, "/%c%d.left", one < 11 ? 'o' : 'i', one < 11 ? one : one - 11);
    std::string path = std::string(directory) + name;
    int turn = 0;
    while (access(path.c_str(), F_OK) != 0 && turn++ < 6000)
      usleep(5000);
  }
}

/* An overlay network that stands by itself, beside this process. */
static bool is_over() { return access((std::string(directory) + "/over").c_str(), F_OK) == 0; }

static void network() {
  IS(LIBI_fe_init(LIBI_VERSION), LIBI_OK);
  libi_sess_handle_t session = create();
  Request nodes(session, self);
  nodes.arg("member").arg("node").arg(directory);
  for (size_t host = 0; host < hosts.size(); host++)
    nodes.on(hosts[host], 2);
  launch(nodes);
  printf("%s", receive(session).c_str());
  fflush(stdout);
  CHECK(eventually(is_over));
}

/* Somebody ends this process, or its master. */
static void stay() {
  IS(LIBI_fe_init(LIBI_VERSION), LIBI_OK);
  libi_sess_handle_t session = start("stay", "all");
  printf("%s\n", receive(session).c_str());
  fflush(stdout);
  void *data = NULL;
  int length = 0;
  IS(LIBI_fe_recvUsrData(session, &data, &length), LIBI_EIO);
  IS(LIBI_fe_recvUsrData(session, &data, &length), LIBI_EIO);
  char word[] = "word";
  IS(LIBI_fe_sendUsrData(session, word, 4), LIBI_EIO);
  CHECK(std::string(LIBI_last_error()).find("LIBI_fe_sendUsrData: ") == 0);
  unsigned int size = 0;
  IS(LIBI_fe_getHostlistSize(session, &size), LIBI_OK);
  CHECK(size == 4);
  IS(LIBI_fe_finalize(session), LIBI_OK);
}

/* A member is killed while the others wait for it. */
static void lose() {
  IS(LIBI_fe_init(LIBI_VERSION), LIBI_OK);
  libi_sess_handle_t session = start("lose", "");
  std::vector<long> pids = numbers(receive(session));
  CHECK(pids.size() == 4);
  CHECK(receive(session) == "lost");
  awaited = pids;
  CHECK(eventually(are_gone));
}

static bool have_left() {
  return access(file("0.left").c_str(), F_OK) == 0 && access(file("2.left").c_str(), F_OK) == 0;
}

/* The session is ended: members that have left it live on, all others end. */
static void finalize() {
  IS(LIBI_fe_init(LIBI_VERSION), LIBI_OK);
  libi_sess_handle_t session = start("stay", "even");
  std::vector<long> pids = numbers(receive(session));
  CHECK(pids.size() == 4);
  CHECK(eventually(have_left)); // who has not left by then is ended
  IS(LIBI_fe_finalize(session), LIBI_OK);
  IS(LIBI_fe_finalize(session), LIBI_ESESS);
  awaited.push_back(pids[1]);
  awaited.push_back(pids[3]);
  CHECK(eventually(are_gone));
  CHECK(kill(pids[0], SIGTERM) == 0 && kill(pids[2], SIGTERM) == 0);
  awaited = pids;
  CHECK(eventually(are_gone));
}

/* Messages can be received after their senders have ended. */
static void late() {
  IS(LIBI_fe_init(LIBI_VERSION), LIBI_OK);
  libi_sess_handle_t session = start("speak", "");
  awaited = numbers(receive(session));
  CHECK(awaited.size() == 4 && eventually(are_gone));
  CHECK(receive(session) == "first");
  CHECK(receive(session) == "");
  CHECK(receive(session) == "third");
  void *data = NULL;
  int length = 0;
  IS(LIBI_fe_recvUsrData(session, &data, &length), LIBI_EIO);
}

static bool have_finalized() {
  return access(file("1.finalized").c_str(), F_OK) == 0 && access(file("2.finalized").c_str(), F_OK) == 0 &&
         access(file("3.finalized").c_str(), F_OK) == 0;
}

/* The master ends at once, the others have work to do. */
static void carry() {
  IS(LIBI_fe_init(LIBI_VERSION), LIBI_OK);
  libi_sess_handle_t session = start("carry", directory);
  awaited = numbers(receive(session));
  CHECK(awaited.size() == 4);
  std::string over = file("over");
  fclose(fopen(over.c_str(), "w"));
  CHECK(eventually(have_finalized));
  CHECK(eventually(are_gone));
}

/* Members wait for each other. A child of this process that is a front end itself is one of its own. */
static void together() {
  IS(LIBI_fe_init(LIBI_VERSION), LIBI_OK);
  libi_sess_handle_t session = start("together", directory);
  pid_t child = fork();
  if (child == 0) {
    unsigned int size;
    IS(LIBI_fe_getHostlistSize(session, &size), LIBI_EINIT);
    IS(LIBI_fe_init(LIBI_VERSION), LIBI_OK);
    IS(LIBI_fe_getHostlistSize(session, &size), LIBI_ESESS);
    session = create();
    Request request(session, self);
    request.arg("member").arg("arguments").arg("all").on(hosts[1], 2);
    launch(request);
    exit(7);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
  send(session, "go");
  CHECK(receive(session) == "done");
}

/* What members have in their environment. */
static void environment() {
  IS(LIBI_fe_init(LIBI_VERSION), LIBI_OK);
  libi_sess_handle_t session = create();
  Request request(session, self);
  request.arg("member").arg("environment").arg("LIBI_TREE_TYPE").arg("XPLAT_REMCMD").arg("LIBI_DEBUG");
  request.arg("LIBI_TEST_SHELL_HOST").arg("SSH_CONNECTION");
  for (size_t host = 0; host < hosts.size(); host++)
    request.on(hosts[host], 1);
  if (LIBI_fe_launch(&request.request, 1) == LIBI_OK)
    printf("%s", receive(session).c_str());
  else
    printf("not launched\n");
}

int main(int argc, char **argv) {
  CHECK(argc > 2);
  if (std::string(argv[1]) == "member")
    return member(argc, argv);
  self = argv[0];
  directory = argv[2];
  for (int at = 3; at < argc; at++)
    hosts.push_back(argv[at]);
  std::string scene = argv[1];
  if (scene == "states")
    states();
  else if (scene == "talk")
    talk();
  else if (scene == "overlay")
    overlay();
  else if (scene == "network")
    network();
  else if (scene == "stay")
    stay();
  else if (scene == "lose")
    lose();
  else if (scene == "finalize")
    finalize();
  else if (scene == "late")
    late();
  else if (scene == "carry")
    carry();
  else if (scene == "together")
    together();
  else if (scene == "environment")
    environment();
  else
    CHECK(!"such a scene");
  return 0;
}
