/* A front end and its members with the interface of 2011, in one program. Started by hand, it is
 * the front end; started by the front end, it is a member.
 *
 *   c++ legacy.cpp -llibi -o legacy && ./legacy node1 node2 node3
 *
 * It launches two members on each host. The front end asks for squares, each member computes one,
 * and the master sends them back. Programs of 2011 look like this, and compile without changes. New
 * programs should use libi.h.
 */
#include <libi/libi_api.h>

/* The codes say little; LIBI_last_error(), which came later, says what was wrong. */
static void check(libi_rc_e code) {
  if (code != LIBI_OK) {
    fprintf(stderr, "%d: %s\n", code, LIBI_last_error());
    exit(1);
  }
}

/* What each member does. */
static int work(int argc, char **argv) {
  /* Comes back when all members of the session have come this far. */
  check(LIBI_init(LIBI_VERSION, &argc, &argv));
  int rank, size;
  check(LIBI_getMyRank(&rank));
  check(LIBI_getSize(&size));
  bool is_master = LIBI_amIMaster() == LIBI_YES;

  /* All call it, and the master gets the message. */
  void *order = NULL;
  int length = 0;
  check(LIBI_recvUsrData(&order, &length));

  /* The others get it from the master. */
  int first = is_master ? *static_cast<int *>(order) : 0;
  free(order);
  check(LIBI_broadcast(&first, sizeof first));

  int number = first + rank;
  int square = number * number;
  int *squares = is_master ? static_cast<int *>(malloc(size * sizeof square)) : NULL;
  check(LIBI_gather(&square, sizeof square, squares));

  /* Again all call it, and what the master gives is sent. */
  length = static_cast<int>(size * sizeof square);
  check(LIBI_sendUsrData(squares, &length));
  free(squares);

  /* From here on the process is on its own: it could live on when the front end has ended. */
  check(LIBI_finalize());
  return 0;
}

/* What the front end does. */
static int launch(char *program, char **hosts) {
  check(LIBI_fe_init(LIBI_VERSION));
  libi_sess_handle_t session;
  check(LIBI_fe_createSession(session));

  char name[] = "EXAMPLE", value[] = "yes";
  libi_env_t variable = {name, value, NULL};
  check(LIBI_fe_addToSessionEnvironment(session, &variable));

  /* A list of hosts, in the order in which ranks are given out. */
  host_dist_t *list = NULL, **end = &list;
  for (; *hosts; hosts++) {
    *end = static_cast<host_dist_t *>(malloc(sizeof(host_dist_t)));
    (*end)->hostname = *hosts;
    (*end)->nproc = 2;
    (*end)->next = NULL;
    end = &(*end)->next;
  }

  /* The program is the same on all hosts; several of these may be of one session, or of several. */
  char member[] = "--member";
  char *arguments[] = {member, NULL};
  proc_dist_req_t request = {session, program, arguments, list};
  check(LIBI_fe_launch(&request, 1));
  while (list) {
    host_dist_t *next = list->next;
    free(list);
    list = next;
  }

  /* The master gets this when it asks for it. */
  int first = 10;
  check(LIBI_fe_sendUsrData(session, &first, sizeof first));

  void *message = NULL;
  int length = 0;
  check(LIBI_fe_recvUsrData(session, &message, &length));

  char **names = NULL;
  unsigned int count = 0;
  check(LIBI_fe_getHostlist(session, &names, &count));
  const int *squares = static_cast<const int *>(message);
  for (unsigned int rank = 0; rank < count; rank++) {
    printf("rank %u on %s: %d\n", rank, names[rank], squares[rank]);
    free(names[rank]);
  }
  free(names);
  free(message);

  check(LIBI_fe_finalize(session));
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s HOST...\n", argv[0]);
    return 2;
  }
  if (strcmp(argv[1], "--member") == 0)
    return work(argc, argv);
  return launch(argv[0], argv + 1);
}
