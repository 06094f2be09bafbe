/* What members do: `PROGRAM member ROLE …`. */
#include "check.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <pthread.h>

static int rank = -1;
static int size = -1;
static bool is_master;

static void join() {
  IS(LIBI_finalize(), LIBI_EINIT);
  IS(LIBI_amIMaster(), LIBI_EINIT);
  IS(LIBI_getMyRank(&rank), LIBI_EINIT);
  IS(LIBI_getSize(&size), LIBI_EINIT);
  IS(LIBI_barrier(), LIBI_EINIT);
  IS(LIBI_broadcast(&rank, sizeof rank), LIBI_EINIT);
  IS(LIBI_init(LIBI_VERSION, NULL, NULL), LIBI_OK);
  IS(LIBI_init(LIBI_VERSION, NULL, NULL), LIBI_EINIT);
  IS(LIBI_getMyRank(&rank), LIBI_OK);
  IS(LIBI_getSize(&size), LIBI_OK);
  is_master = LIBI_amIMaster() == LIBI_YES;
  IS(LIBI_amIMaster(), rank == 0 ? LIBI_YES : LIBI_NO);
  CHECK(rank >= 0 && rank < size && is_master == (rank == 0));
}

/* All call it; the master's arrives. What the others give must not be looked at. */
static void send(const std::string &message) {
  int length = is_master ? static_cast<int>(message.size()) : -1173856631;
  void *data = is_master ? const_cast<char *>(message.data()) : reinterpret_cast<void *>(7);
  if (is_master || rank % 2)
    IS(LIBI_sendUsrData(data, &length), LIBI_OK);
  else
    IS(LIBI_sendUsrData(NULL, NULL), LIBI_OK);
}

/* What the master has received. Others' arguments stay what they are. */
static std::string receive() {
  void *data = &rank;
  int length = -1173856631;
  IS(LIBI_recvUsrData(&data, &length), LIBI_OK);
  if (!is_master) {
    CHECK(data == &rank && length == -1173856631);
    return "";
  }
  CHECK(length >= 0 && (data == NULL) == (length == 0));
  std::string message(static_cast<char *>(data), data ? length : 0);
  free(data);
  return message;
}

/* A line of each, in the order of ranks, at the master. */
static std::string lines(const std::string &own) {
  char line[256] = "";
  CHECK(own.size() + 2 < sizeof line);
  snprintf(line, sizeof line, "%s\n", own.c_str());
  std::vector<char> all(is_master ? sizeof line * size : 0);
  void *place = is_master ? static_cast<void *>(&all[0]) : reinterpret_cast<void *>(9);
  IS(LIBI_gather(line, sizeof line, place), LIBI_OK);
  std::string text;
  for (size_t at = 0; at < all.size(); at += sizeof line)
    text += &all[at];
  return text;
}

static std::string number(long number) {
  char text[32];
  snprintf(text, sizeof text, "%ld", number);
  return text;
}

/* Every call, and who is where. The arguments are sent to the front end, also the master's. */
static int talk(int argc, char **argv) {
  join();
  std::string own = number(rank) + ":";
  for (int at = 3; at < argc; at++)
    own += std::string(" ") + argv[at];
  const char *value = getenv("OF_THE_SESSION");
  own += std::string(" ") + (value ? value : "-") + " " + (getenv("AGAIN") ? getenv("AGAIN") : "-");
  std::string all = lines(own);
  send(all);

  CHECK(receive() == "");
  CHECK(receive() == (is_master ? "hello" : ""));
  CHECK(receive() == (is_master ? pattern(LONG) : ""));

  IS(LIBI_barrier(), LIBI_OK);
  std::string big = is_master ? pattern(LONG) : std::string(LONG, 'x');
  IS(LIBI_broadcast(&big[0], LONG), LIBI_OK);
  CHECK(big == pattern(LONG));
  IS(LIBI_broadcast(NULL, 0), LIBI_OK);

  std::vector<int> parts, sums;
  for (int at = 0; at < size * 3; at++)
    parts.push_back(at * at);
  int part[3] = {-1, -1, -1};
  void *given = is_master ? static_cast<void *>(&parts[0]) : reinterpret_cast<void *>(5);
  IS(LIBI_scatter(given, sizeof part, part), LIBI_OK);
  for (int at = 0; at < 3; at++)
    CHECK(part[at] == (rank * 3 + at) * (rank * 3 + at));
  sums.resize(is_master ? size : 0);
  part[0] += part[2];
  IS(LIBI_gather(part, sizeof(int), is_master ? static_cast<void *>(&sums[0]) : NULL), LIBI_OK);
  for (size_t at = 0; at < sums.size(); at++)
    CHECK(sums[at] == parts[at * 3] + parts[at * 3 + 2]);
  IS(LIBI_gather(NULL, 0, NULL), LIBI_OK);
  IS(LIBI_scatter(NULL, 0, NULL), LIBI_OK);

  send("");
  send(pattern(LONG));
  send("bye");
  IS(LIBI_finalize(), LIBI_OK);
  IS(LIBI_finalize(), LIBI_EINIT);
  IS(LIBI_barrier(), LIBI_EINIT);
  IS(LIBI_init(LIBI_VERSION, &argc, &argv), LIBI_EINIT);
  return 0;
}

/* LIBI_init is given what callers have, and leaves it as it is. The front end is sent how each has
   called it. */
static int arguments(int argc, char **argv) {
  std::string how = argv[3];
  int none = 0, rest = argc - 1, all = argc;
  char **begin = argv + 1, **empty = NULL, **first = argv;
  if (how == "null")
    IS(LIBI_init(0, NULL, NULL), LIBI_OK);
  else if (how == "none")
    IS(LIBI_init(-5, &none, &empty), LIBI_OK);
  else if (how == "first")
    IS(LIBI_init(77, &rest, &begin), LIBI_OK);
  else
    IS(LIBI_init(LIBI_VERSION, &all, &first), LIBI_OK);
  CHECK(none == 0 && empty == NULL && rest == argc - 1 && begin == argv + 1 && all == argc && first == argv);
  CHECK(argc == 4 && argv[argc] == NULL && std::string(argv[2]) == "arguments");
  is_master = LIBI_amIMaster() == LIBI_YES;
  IS(LIBI_getMyRank(&rank), LIBI_OK);
  IS(LIBI_getSize(&size), LIBI_OK);
  IS(LIBI_barrier(), LIBI_OK);
  send(lines(how));
  IS(LIBI_finalize(), LIBI_OK);
  return 0;
}

static void touch(const char *directory, const std::string &name) {
  std::string path = std::string(directory) + "/" + name;
  int file = open(path.c_str(), O_CREAT | O_WRONLY, 0666);
  CHECK(file >= 0);
  close(file);
}

static bool exists(const char *directory, const std::string &name) {
  struct stat found;
  return stat((std::string(directory) + "/" + name).c_str(), &found) == 0;
}

static const char *directory;
static bool front_end_is_gone() { return exists(directory, "gone"); }
static bool is_over() { return exists(directory, "over"); }

static void *leave(void *code) {
  *static_cast<libi_rc_e *>(code) = LIBI_finalize();
  return NULL;
}

/* Leaves, and lives on when the front end is gone: nothing that it prints then ends it, or holds it up. */
static int live(int, char **argv) {
  directory = argv[3];
  join();
  send(lines(number(getpid())));
  std::string first = receive(), second = receive(), third = receive();
  CHECK(!is_master || (first == "one" && second == "two" && third == "three"));
  if (std::string(argv[4]) == "thread") {
    pthread_t thread;
    libi_rc_e code = LIBI_NOTIMPL;
    CHECK(pthread_create(&thread, NULL, leave, &code) == 0 && pthread_join(thread, NULL) == 0);
    IS(code, LIBI_OK);
  } else {
    IS(LIBI_finalize(), LIBI_OK);
  }
  touch(directory, std::string(argv[5]) + number(rank) + ".left");
  CHECK(eventually(front_end_is_gone));
  for (int line = 0; line < 20000; line++) {
    CHECK(printf("this is not read, however much there is of it\n") > 0);
    fprintf(stderr, "nor this\n");
  }
  CHECK(fflush(stdout) == 0);
  CHECK(printf("and it can run others\n") > 0 && fflush(stdout) == 0 && system("echo like this one") == 0);
  struct sigaction action;
  CHECK(sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
  touch(directory, std::string(argv[5]) + number(rank) + ".lives");
  // As daemons do.
  int null = open("/dev/null", O_RDWR);
  CHECK(null > 2 && dup2(null, 0) == 0 && dup2(null, 1) == 1 && dup2(null, 2) == 2 && close(null) == 0);
  touch(directory, std::string(argv[5]) + number(rank) + ".daemon");
  eventually(is_over);
  touch(directory, std::string(argv[5]) + number(rank) + ".ends");
  return 0;
}

/* Stays, or leaves, until it is ended. */
static int stay(int, char **argv) {
  join();
  std::string pids = lines(number(getpid()));
  int bytes = static_cast<int>(pids.size());
  // Whoever reads them may end the master before the others have come back from this.
  LIBI_sendUsrData(is_master ? &pids[0] : NULL, &bytes);
  bool leaves = std::string(argv[3]) == "even" && rank % 2 == 0;
  if (leaves) {
    IS(LIBI_finalize(), LIBI_OK);
    touch(argv[4], number(rank) + ".left");
    for (;;)
      pause();
  }
  void *data;
  int length;
  LIBI_recvUsrData(&data, &length);
  for (;;)
    pause();
}

/* Somebody is lost while all others wait for it. */
static int lose(int, char **) {
  join();
  send(lines(number(getpid())));
  if (rank == size - 1)
    raise(SIGKILL);
  IS(LIBI_barrier(), LIBI_EIO);
  CHECK(std::string(LIBI_last_error()).find("LIBI_barrier: ") == 0);
  std::string text = "lost";
  int count = 4;
  IS(LIBI_sendUsrData(is_master ? &text[0] : NULL, is_master ? &count : NULL), LIBI_EIO);
  IS(LIBI_finalize(), LIBI_OK);
  return 0;
}

/* Sends much, leaves, and ends: the data can be received at any time. */
static int speak(int, char **) {
  join();
  printf("printed by %d\n", rank);
  send(lines(number(getpid())));
  send("first");
  send("");
  send("third");
  IS(LIBI_finalize(), LIBI_OK);
  printf("printed later by %d\n", rank);
  return 0;
}

/* The one that others hang on ends long before them; none of them is lost by that. */
static int carry(int, char **argv) {
  join();
  send(lines(number(getpid())));
  if (!is_master) {
    CHECK(eventually(is_over));
    touch(argv[3], number(rank) + ".worked");
  }
  IS(LIBI_finalize(), LIBI_OK);
  if (!is_master)
    touch(argv[3], number(rank) + ".finalized");
  return 0;
}

static int others;
static const char *stage;
static bool are_there() {
  for (int one = 1; one <= others; one++)
    if (!exists(directory, number(one) + stage))
      return false;
  return true;
}

/* Nobody comes back before the master has what it waits for, or has sent what it sends. */
static int together(int, char **argv) {
  directory = argv[3];
  join();
  others = size - 1;
  for (int turn = 0; turn < 2; turn++) {
    std::string before = turn ? ".sends" : ".receives", after = turn ? ".sent" : ".received";
    if (!is_master) {
      touch(directory, number(rank) + before);
    } else {
      stage = before.c_str();
      CHECK(eventually(are_there));
      for (int one = 1; one < size; one++)
        CHECK(!exists(directory, number(one) + after));
    }
    if (turn)
      send("done");
    else
      CHECK(receive() == (is_master ? "go" : ""));
    if (!is_master)
      touch(directory, number(rank) + after);
  }
  // A child has nothing to do with the session of its parent, and its end is none of that.
  pid_t child = fork();
  if (child == 0) {
    IS(LIBI_barrier(), LIBI_EINIT);
    IS(LIBI_finalize(), LIBI_EINIT);
    IS(LIBI_init(LIBI_VERSION, NULL, NULL), LIBI_EINIT);
    exit(7);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
  IS(LIBI_barrier(), LIBI_OK);
  IS(LIBI_finalize(), LIBI_OK);
  return 0;
}

/* What the environment has. */
static int environment(int argc, char **argv) {
  join();
  std::string own = number(rank);
  for (int at = 3; at < argc; at++) {
    const char *value = getenv(argv[at]);
    own += std::string(" ") + argv[at] + "=" + (value ? value : "-");
  }
  own += " nice=" + number(getpriority(PRIO_PROCESS, 0));
  send(lines(own));
  IS(LIBI_finalize(), LIBI_OK);
  return 0;
}

int member(int argc, char **argv) {
  std::string role = argv[2];
  if (role == "talk")
    return talk(argc, argv);
  if (role == "arguments")
    return arguments(argc, argv);
  if (role == "live")
    return live(argc, argv);
  if (role == "stay")
    return stay(argc, argv);
  if (role == "lose")
    return lose(argc, argv);
  if (role == "speak")
    return speak(argc, argv);
  if (role == "carry") {
    directory = argv[3];
    return carry(argc, argv);
  }
  if (role == "together")
    return together(argc, argv);
  if (role == "environment")
    return environment(argc, argv);
  if (role == "idle") {
    if (LIBI_init(LIBI_VERSION, NULL, NULL) == LIBI_OK)
      for (;;)
        pause();
    return 0;
  }
  if (role == "fail")
    return 3;
  if (role == "node")
    return node(argv[3]);
  fprintf(stderr, "no such role: %s\n", argv[2]);
  return 2;
}
