/* A node of an overlay network, as tools of 2011 have them: it learns from LIBI where all others listen,
   leaves, and is connected with them by itself. A node whose parent is lost connects to the next one above. */
#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

static int rank, size;
static std::vector<int> ports;

static struct sockaddr_in address(int port) {
  struct sockaddr_in at;
  memset(&at, 0, sizeof at);
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<unsigned short>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return at;
}

static int listener(int *port) {
  struct sockaddr_in at = address(0);
  socklen_t length = sizeof at;
  int listening = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(listening >= 0 && bind(listening, reinterpret_cast<struct sockaddr *>(&at), length) == 0);
  CHECK(listen(listening, 64) == 0);
  CHECK(getsockname(listening, reinterpret_cast<struct sockaddr *>(&at), &length) == 0);
  *port = ntohs(at.sin_port);
  return listening;
}

static bool transfer(int stream, int *number, bool reads) {
  for (size_t done = 0; done < sizeof *number;) {
    char *at = reinterpret_cast<char *>(number) + done;
    size_t rest = sizeof *number - done;
    ssize_t count = reads ? read(stream, at, rest) : write(stream, at, rest);
    if (count <= 0)
      return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

/* Connects to the nearest node above that is left, beginning with this one; -1 if the root is gone. */
static int connect_above(int *parent) {
  for (;; *parent = (*parent - 1) / 2) {
    struct sockaddr_in at = address(ports[*parent]);
    int stream = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(stream >= 0);
    bool is_there = connect(stream, reinterpret_cast<struct sockaddr *>(&at), sizeof at) == 0;
    if (is_there && transfer(stream, &rank, false))
      return stream;
    close(stream);
    if (*parent == 0)
      return -1;
  }
}

/* How many nodes are here and below. Children that are lost are no children any more. */
static int wave(std::vector<int> *children) {
  int count = 1, go = 0;
  std::vector<int> left;
  for (size_t at = 0; at < children->size(); at++) {
    int below = 0;
    if (transfer((*children)[at], &go, false) && transfer((*children)[at], &below, true)) {
      left.push_back((*children)[at]);
      count += below;
    } else {
      close((*children)[at]);
    }
  }
  *children = left;
  return count;
}

/* A wave has come from above. False if the parent is lost. */
static bool answer(int above, std::vector<int> *children) {
  int go;
  if (!transfer(above, &go, true))
    return false;
  int count = wave(children);
  return transfer(above, &count, false);
}

/* Learns where all listen, tells the front end the process IDs, and leaves. */
static int bootstrap() {
  int port, listening = listener(&port), pid = getpid();
  IS(LIBI_init(LIBI_VERSION, NULL, NULL), LIBI_OK);
  IS(LIBI_getMyRank(&rank), LIBI_OK);
  IS(LIBI_getSize(&size), LIBI_OK);
  ports.resize(size);
  std::vector<int> pids(size);
  IS(LIBI_gather(&port, sizeof port, &ports[0]), LIBI_OK);
  IS(LIBI_broadcast(&ports[0], static_cast<int>(sizeof(int) * ports.size())), LIBI_OK);
  IS(LIBI_gather(&pid, sizeof pid, &pids[0]), LIBI_OK);
  std::string text;
  for (int at = 0; at < size; at++) {
    char line[32];
    snprintf(line, sizeof line, "%d\n", pids[at]);
    text += line;
  }
  int bytes = static_cast<int>(text.size());
  IS(LIBI_sendUsrData(&text[0], &bytes), LIBI_OK);
  IS(LIBI_finalize(), LIBI_OK);
  return listening;
}

int node(const char *directory) {
  signal(SIGPIPE, SIG_IGN);
  int listening = bootstrap(), parent = (rank - 1) / 2;
  int above = rank ? connect_above(&parent) : -1;
  std::vector<int> children;
  std::string over = std::string(directory) + "/over";
  while (rank ? above >= 0 : access(over.c_str(), F_OK) != 0) {
    struct pollfd streams[2] = {{listening, POLLIN, 0}, {above, POLLIN, 0}};
    CHECK(poll(streams, rank ? 2 : 1, rank ? -1 : 5) >= 0);
    if (streams[0].revents) {
      int stream = accept(listening, NULL, NULL), who;
      if (stream >= 0 && transfer(stream, &who, true))
        children.push_back(stream);
    }
    if (rank == 0) {
      char name[32];
      snprintf(name, sizeof name, "/count.%d", wave(&children));
      close(open((directory + std::string(name)).c_str(), O_CREAT | O_WRONLY, 0666));
    } else if (streams[1].revents && !answer(above, &children)) {
      close(above);
      above = connect_above(&parent);
    }
  }
  return 0;
}
