/* What front ends do: `PROGRAM SCENE DIRECTORY HOST HOST HOST HOST`, and what they find is said by CHECK. */
#include "check.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

static char *text(const std::string &text) { return strdup(text.c_str()); }

/* A request: what is passed in is overwritten and freed when the launch is over. */
struct Request {
  proc_dist_req_t request;

  Request(libi_sess_handle_t session, const char *path) {
    request.sessionHandle = session;
    request.proc_path = text(path);
    request.proc_argv = static_cast<char **>(calloc(16, sizeof(char *)));
    request.hd = NULL;
  }

  Request &arg(const std::string &word) {
    int at = 0;
    while (request.proc_argv[at])
      at++;
    request.proc_argv[at] = text(word);
    return *this;
  }

  Request &on(const std::string &host, unsigned int count) {
    host_dist_t **end = &request.hd;
    while (*end)
      end = &(*end)->next;
    *end = static_cast<host_dist_t *>(malloc(sizeof(host_dist_t)));
    (*end)->hostname = text(host);
    (*end)->nproc = count;
    (*end)->next = NULL;
    return *this;
  }

  void spoil() {
    memset(request.proc_path, 'x', strlen(request.proc_path));
    for (int at = 0; request.proc_argv[at]; at++)
      free(request.proc_argv[at]);
    free(request.proc_argv);
    while (request.hd) {
      host_dist_t *next = request.hd->next;
      memset(request.hd->hostname, 'x', strlen(request.hd->hostname));
      free(request.hd->hostname);
      free(request.hd);
      request.hd = next;
    }
    free(request.proc_path);
  }
};

static const char *self;
static const char *directory;
static std::vector<std::string> hosts;

static libi_sess_handle_t create() {
  libi_sess_handle_t session = NULL;
  IS(LIBI_fe_createSession(session), LIBI_OK);
  CHECK(session != NULL);
  return session;
}

static void send(libi_sess_handle_t session, const std::string &message) {
  std::string copy = message;
  IS(LIBI_fe_sendUsrData(session, copy.empty() ? NULL : &copy[0], static_cast<int>(copy.size())), LIBI_OK);
  copy.assign(copy.size(), '?');
}

static std::string receive(libi_sess_handle_t session) {
  void *data = &data;
  int length = -1;
  IS(LIBI_fe_recvUsrData(session, &data, &length), LIBI_OK);
  CHECK(length >= 0 && (data == NULL) == (length == 0));
  std::string message(static_cast<char *>(data), data ? length : 0);
  free(data);
  return message;
}

static void launch(Request &request) {
  IS(LIBI_fe_launch(&request.request, 1), LIBI_OK);
  request.spoil();
}

static std::vector<long> numbers(const std::string &text) {
  std::vector<long> numbers;
  const char *at = text.c_str();
  for (char *end; *at; at = *end ? end + 1 : end)
    numbers.push_back(strtol(at, &end, 10));
  return numbers;
}

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
  request.arg("member").arg(role).arg(word).on(hosts[0], 2).on(hosts[1], 1).on(hosts[2], 1);
  launch(request);
  return session;
}

/* Every code that a front end can meet before anything is launched, and when a launch fails. */
static void states() {
  libi_sess_handle_t session = NULL;
  Request none(NULL, self);
  void *data = NULL;
  int length = 0;
  unsigned int size = 77;
  char **list = NULL;
  IS(LIBI_fe_createSession(session), LIBI_EINIT);
  IS(LIBI_fe_launch(&none.request, 1), LIBI_EINIT);
  IS(LIBI_fe_launch(NULL, 0), LIBI_EINIT);
  IS(LIBI_fe_addToSessionEnvironment(session, NULL), LIBI_EINIT);
  IS(LIBI_fe_sendUsrData(session, NULL, 0), LIBI_EINIT);
  IS(LIBI_fe_recvUsrData(session, &data, &length), LIBI_EINIT);
  IS(LIBI_fe_getMaxMsgBufLen(&length), LIBI_EINIT);
  IS(LIBI_fe_getHostlistSize(session, &size), LIBI_EINIT);
  IS(LIBI_fe_getHostlist(session, &list, &size), LIBI_EINIT);
  IS(LIBI_fe_finalize(session), LIBI_EINIT);
  // A process that nobody has launched is no member.
  IS(LIBI_finalize(), LIBI_EINIT);
  IS(LIBI_init(LIBI_VERSION, NULL, NULL), LIBI_EINIT);
  IS(LIBI_amIMaster(), LIBI_EINIT);

  IS(LIBI_fe_init(12345), LIBI_OK);
  IS(LIBI_fe_getMaxMsgBufLen(&length), LIBI_OK);
  CHECK(length == LIBI_MAX_BUFFER_LENGTH);
  IS(LIBI_fe_launch(NULL, 0), LIBI_ELAUNCH);
  IS(LIBI_fe_launch(&none.request, 1), LIBI_ESESS);
  IS(LIBI_fe_launch(&none.request, -1), LIBI_ELAUNCH);
  IS(LIBI_fe_addToSessionEnvironment(session, NULL), LIBI_ESESS);
  IS(LIBI_fe_sendUsrData(session, NULL, 0), LIBI_ESESS);
  IS(LIBI_fe_recvUsrData(session, &data, &length), LIBI_ESESS);
  IS(LIBI_fe_getHostlistSize(session, &size), LIBI_ESESS);
  IS(LIBI_fe_getHostlist(session, &list, &size), LIBI_ESESS);
  IS(LIBI_fe_finalize(session), LIBI_ESESS);

  session = create();
  IS(LIBI_fe_sendUsrData(session, NULL, 0), LIBI_ELAUNCH);
  IS(LIBI_fe_recvUsrData(session, &data, &length), LIBI_ELAUNCH);
  IS(LIBI_fe_getHostlistSize(session, &size), LIBI_ELAUNCH);
  IS(LIBI_fe_getHostlist(session, &list, &size), LIBI_ELAUNCH);
  CHECK(size == 77 && list == NULL);
  Request empty(session, self);
  empty.request.proc_argv = NULL;
  IS(LIBI_fe_launch(&empty.request, 1), LIBI_ELAUNCH);
  Request nobody(session, self);
  nobody.on(hosts[0], 0);
  IS(LIBI_fe_launch(&nobody.request, 1), LIBI_ELAUNCH);
  Request pathless(session, "");
  pathless.on(hosts[0], 1);
  IS(LIBI_fe_launch(&pathless.request, 1), LIBI_ELAUNCH);
  Request endless(session, self);
  endless.on(std::string(100000, 'n'), 1);
  IS(LIBI_fe_launch(&endless.request, 1), LIBI_ELAUNCH);
  Request odd(session, self);
  odd.on("-oProxyCommand=true", 1);
  IS(LIBI_fe_launch(&odd.request, 1), LIBI_ELAUNCH);
  CHECK(std::string(LIBI_last_error()).find("-oProxyCommand") != std::string::npos);
  Request missing(session, "/there/is/no/such/program");
  missing.on(hosts[0], 1).on(hosts[1], 2);
  IS(LIBI_fe_launch(&missing.request, 1), LIBI_ELAUNCH);
  std::string why = LIBI_last_error();
  CHECK(why.find(hosts[0]) != std::string::npos);
  CHECK(why.find("the program was not found") != std::string::npos || why.find("No such file") != std::string::npos);

  // Of two sessions one cannot start: neither is launched, and both may be later.
  libi_sess_handle_t other = create();
  Request good(session, self), bad(other, self);
  good.arg("member").arg("arguments").arg("all").on(hosts[0], 1);
  bad.arg("member").arg("fail").on(hosts[1], 1);
  proc_dist_req_t both[2] = {good.request, bad.request};
  IS(LIBI_fe_launch(both, 2), LIBI_ELAUNCH);
  IS(LIBI_fe_getHostlistSize(session, &size), LIBI_ELAUNCH);
  both[1].sessionHandle = NULL;
  IS(LIBI_fe_launch(both, 2), LIBI_ESESS);
  IS(LIBI_fe_launch(both, 1), LIBI_OK);
  IS(LIBI_fe_launch(both, 1), LIBI_ESESSALREADYLAUNCHED);
  both[1].sessionHandle = other;
  IS(LIBI_fe_launch(both, 2), LIBI_ESESSALREADYLAUNCHED);
  IS(LIBI_fe_getHostlistSize(other, &size), LIBI_ELAUNCH);
  IS(LIBI_fe_finalize(other), LIBI_OK);
  IS(LIBI_fe_finalize(other), LIBI_ESESS);

  // Each way to call LIBI_init.
  const char *ways[4] = {"all", "null", "none", "first"};
  libi_sess_handle_t last = create();
  std::vector<proc_dist_req_t> requests;
  for (int way = 0; way < 4; way++) {
    Request one(last, self);
    requests.push_back(one.arg("member").arg("arguments").arg(ways[way]).on(hosts[way], 1).request);
  }
  IS(LIBI_fe_launch(&requests[0], 4), LIBI_OK);
  IS(LIBI_fe_init(LIBI_VERSION), LIBI_OK);
  IS(LIBI_fe_getHostlistSize(last, &size), LIBI_OK);
  CHECK(size == 4);
}

/* Several executables in a session, hosts that are named again, every call, and every kind of message. */
static void talk() {
  IS(LIBI_fe_init(LIBI_VERSION), LIBI_OK);
  libi_sess_handle_t session = create();
  char of[] = "OF_THE_SESSION", again[] = "AGAIN", nothing[] = "", first[] = "a b'\"$HOME\\", old[] = "old", fresh[] = "new";
  libi_env_t skipped = {nothing, old, NULL}, one = {of, first, &skipped}, two = {again, old, NULL}, three = {again, fresh, NULL};
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
    snprintf(line, sizeof line, "%d: %s a b'\"$HOME\\ new\n", rank, rank < 5 ? "a it's \"quoted\" $HOME; *" : "b ");
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

/* As it is used: two sessions in one launch on hosts that both have, messages before anybody asks for them, members that leave and live
 * on. The front end neither ends its sessions nor waits for them. */
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

/* The session is ended: who has left it lives on, and everybody else does not. */
static void finalize() {
  IS(LIBI_fe_init(LIBI_VERSION), LIBI_OK);
  libi_sess_handle_t session = start("stay", "even");
  std::vector<long> pids = numbers(receive(session));
  CHECK(pids.size() == 4);
  IS(LIBI_fe_finalize(session), LIBI_OK);
  IS(LIBI_fe_finalize(session), LIBI_ESESS);
  awaited.push_back(pids[1]);
  awaited.push_back(pids[3]);
  CHECK(eventually(are_gone));
  CHECK(kill(pids[0], SIGTERM) == 0 && kill(pids[2], SIGTERM) == 0);
  awaited = pids;
  CHECK(eventually(are_gone));
}

/* What was said is there when nobody is left who has said it. */
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

static std::string file(const char *name) { return std::string(directory) + "/" + name; }
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
