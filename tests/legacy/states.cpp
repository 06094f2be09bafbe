/* Every code that a front end can meet. */
#include "front.h"

/* Every code that a front end can meet before anything is launched, and when a launch fails. */
void states() {
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
  // A process that was not launched is no member.
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
  Request no_processes(session, self);
  no_processes.on(hosts[0], 0);
  IS(LIBI_fe_launch(&no_processes.request, 1), LIBI_ELAUNCH);
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
  CHECK(why.find("program not found") != std::string::npos || why.find("No such file") != std::string::npos);

  // Of two sessions one cannot start: neither is launched, and both may be later.
  libi_sess_handle_t other = create();
  Request good(session, self), idle(session, self), bad(other, self);
  good.arg("member").arg("arguments").arg("all").on(hosts[0], 1);
  idle.arg("member").arg("idle").on(hosts[0], 1); // it may be up already when the other fails
  bad.arg("member").arg("fail").on(hosts[1], 1);
  proc_dist_req_t both[2] = {idle.request, bad.request};
  IS(LIBI_fe_launch(both, 2), LIBI_ELAUNCH);
  both[0] = good.request;
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
  CHECK(receive(last) == "all\nnull\nnone\nfirst\n");
  IS(LIBI_fe_recvUsrData(last, &data, &length), LIBI_EIO); // they have ended
}
