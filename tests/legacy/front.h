/* What scenes of the front end have in common. */
#ifndef FRONT_H
#define FRONT_H

#include "check.h"

extern const char *self;
extern const char *directory;
extern std::vector<std::string> hosts;

void states();

inline char *text(const std::string &text) { return strdup(text.c_str()); }

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

inline libi_sess_handle_t create() {
  libi_sess_handle_t session = NULL;
  IS(LIBI_fe_createSession(session), LIBI_OK);
  CHECK(session != NULL);
  return session;
}

inline void send(libi_sess_handle_t session, const std::string &message) {
  std::string copy = message;
  IS(LIBI_fe_sendUsrData(session, copy.empty() ? NULL : &copy[0], static_cast<int>(copy.size())), LIBI_OK);
  copy.assign(copy.size(), '?');
}

inline std::string receive(libi_sess_handle_t session) {
  void *data = &data;
  int length = -1;
  IS(LIBI_fe_recvUsrData(session, &data, &length), LIBI_OK);
  CHECK(length >= 0 && (data == NULL) == (length == 0));
  std::string message(static_cast<char *>(data), data ? length : 0);
  free(data);
  return message;
}

inline void launch(Request &request) {
  IS(LIBI_fe_launch(&request.request, 1), LIBI_OK);
  request.spoil();
}

#endif
