/* Members that fork, close descriptors, or exit without drain or detach. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child that lives until it is killed, at most one minute. */
static pid_t linger(void)
{
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(60);
    for (;;)
      pause();
  }
  return child;
}

static void ends_well(pid_t child)
{
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    CHECK(errno == EINTR);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A child that has the link as well, and does nothing with it. */
void forked_before(void)
{
  linger();
  take_place(LIBI_PROGRESS_THREAD);
  FINE(libi_member_barrier(me, TIMEOUT));
  leave();
}

/* A child that takes the same place: of the two at most one has it, and neither waits for ever. */
void beside(void)
{
  pid_t child = fork();
  CHECK(child >= 0);
  alarm(60);
  libi_result code = libi_member_init(LIBI_PROGRESS_THREAD, &me);
  if (code == LIBI_OK)
    code = libi_member_barrier(me, 1000);
  fprintf(stderr, "%s: %d %s\n", child == 0 ? "child" : "parent", code, libi_last_error());
  libi_member_free(me);
  me = NULL;
}

void forked_after(void)
{
  libi_pending *pending = NULL;
  libi_data *data = NULL;
  libi_member *second = NULL;
  libi_losses *losses = (libi_losses *)16;
  uint32_t ranks[1];
  FINE(libi_member_start_recv_from(me, my_rank, 3, &pending));
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(60);
    /* It knows what its parent was told, and can do nothing in its place. */
    CHECK(libi_member_rank(me) == my_rank && libi_member_size(me) == the_size && libi_member_master(me) == 0);
    CHECK(libi_member_ranks(me, LIBI_RANKS_LOST, ranks, 1) == 0 && libi_member_next_timeout(me) == -1);
    GIVES(LIBI_ERR_STATE, libi_member_losses(me, &losses));
    SAYS("forked");
    CHECK(losses == NULL);
    GIVES(LIBI_ERR_STATE, libi_member_barrier(me, LIBI_FOREVER));
    SAYS("forked");
    GIVES(LIBI_ERR_STATE, libi_member_send_to(me, my_rank, 3, "child", 5, LIBI_FOREVER));
    GIVES(LIBI_ERR_STATE, libi_member_drain(me, LIBI_FOREVER));
    GIVES(LIBI_ERR_STATE, libi_member_detach(me, LIBI_FOREVER));
    GIVES(LIBI_ERR_STATE, libi_member_dispatch(me));
    GIVES(LIBI_ERR_STATE, libi_pending_wait(pending, LIBI_FOREVER));
    GIVES(LIBI_ERR_STATE, libi_pending_poll(pending));
    GIVES(LIBI_ERR_STATE, libi_pending_cancel(pending));
    GIVES(LIBI_ERR_STATE, libi_member_init(LIBI_PROGRESS_THREAD, &second));
    CHECK(second == NULL);
    libi_pending_free(pending);
    libi_member_free(me);
    _exit(0);
  }
  ends_well(child);
  linger();
  FINE(libi_member_send_to(me, my_rank, 3, "parent", 6, TIMEOUT));
  FINE(libi_pending_wait(pending, TIMEOUT));
  FINE(libi_pending_take(pending, &data));
  CHECK(libi_data_length(data, 0) == 6 && memcmp(libi_data_bytes(data, 0), "parent", 6) == 0);
  libi_data_free(data);
  libi_pending_free(pending);
  FINE(libi_member_barrier(me, TIMEOUT));
  leave();
}

/* What it prints goes nowhere, and in particular into no link. */
void closed(void)
{
  for (int fd = 0; fd < 3; fd++)
    close(fd);
  take_place(LIBI_PROGRESS_THREAD);
  for (int fd = 0; fd < 3; fd++) {
    struct stat found;
    CHECK(fstat(fd, &found) == 0 && S_ISCHR(found.st_mode) && found.st_rdev == makedev(1, 3));
    CHECK(fcntl(fd, F_GETFD) == 0);
  }
  for (int i = 0; i < 100; i++) {
    printf("into /dev/null\n");
    fprintf(stderr, "into /dev/null\n");
    fflush(stdout);
    FINE(libi_member_barrier(me, TIMEOUT));
  }
  operations(LIBI_PROGRESS_THREAD);
  leave();
}

void twice(void)
{
  libi_member *second = NULL;
  take_place(LIBI_PROGRESS_THREAD);
  for (int i = 0; i < 3; i++) {
    GIVES(LIBI_ERR_STATE, libi_member_init(LIBI_PROGRESS_THREAD, &second));
    CHECK(strstr(libi_last_error(), "already") != NULL);
    CHECK(second == NULL);
    FINE(libi_member_barrier(me, TIMEOUT));
  }
  leave();
  GIVES(LIBI_ERR_STATE, libi_member_init(LIBI_PROGRESS_THREAD, &second));
  CHECK(second == NULL);
}

/* Every second member, which is no leader, exits without drain or detach. */
void never_finalizes(void)
{
  printf("rank %u was here\n", my_rank);
  FINE(libi_member_barrier(me, TIMEOUT));
  if (my_rank % 2 == 0)
    leave();
}

/* It lives on when the session has ended: until the file is there that its front end makes afterwards. */
void finalizes(void)
{
  const char *directory = getenv("LIBI_TEST_DIRECTORY");
  char path[4096];
  FINE(libi_member_barrier(me, TIMEOUT));
  FINE(libi_member_detach(me, TIMEOUT));
  FINE(libi_member_detach(me, TIMEOUT));
  alarm(60);
  snprintf(path, sizeof path, "%s/ended", directory);
  while (access(path, F_OK) != 0)
    usleep(2000);
  libi_member_free(me);
  me = NULL;
  snprintf(path, sizeof path, "%s/lived.%u", directory, my_rank);
  close(open(path, O_CREAT | O_WRONLY, 0600));
}

/* It is released, and does as daemons do: closes all descriptors, opens files of its own, which get
   the numbers of those that were closed, and lives on past the time of many heartbeats. Nothing
   gets into its files, and nothing of them is closed. */
void closes_all(void)
{
  enum { FILES = 200 };
  const char *directory = getenv("LIBI_TEST_DIRECTORY");
  char path[4096];
  int files[FILES], file;
  struct stat found;
  FINE(libi_member_barrier(me, TIMEOUT));
  FINE(libi_member_detach(me, TIMEOUT));
  FINE(libi_member_drain(me, TIMEOUT)); /* others may hang on it */
  alarm(60);
  CHECK(close_range(0, ~0U, 0) == 0);
  for (file = 0; file < FILES; file++) {
    snprintf(path, sizeof path, "%s/file.%u.%d", directory, my_rank, file);
    CHECK((files[file] = open(path, O_CREAT | O_RDWR, 0600)) == file);
  }
  snprintf(path, sizeof path, "%s/ready.%u", directory, my_rank);
  CHECK(close(open(path, O_CREAT | O_WRONLY, 0600)) == 0);
  snprintf(path, sizeof path, "%s/ended", directory);
  while (access(path, F_OK) != 0)
    usleep(2000);
  if (my_rank % 2) {
    GIVES(LIBI_ERR_ENDED, libi_member_barrier(me, TIMEOUT));
    FINE(libi_member_drain(me, TIMEOUT));
    libi_member_free(me);
  }
  me = NULL;
  for (file = 0; file < FILES; file++)
    CHECK(fstat(files[file], &found) == 0 && found.st_size == 0 && lseek(files[file], 0, SEEK_CUR) == 0);
  snprintf(path, sizeof path, "%s/lived.%u", directory, my_rank);
  CHECK(close(open(path, O_CREAT | O_WRONLY, 0600)) == 0);
}

/* What the front end sends comes back to it, twice. */
void front(void)
{
  libi_data *data = NULL;
  libi_pending *received = NULL, *sent = NULL;
  FINE(libi_member_broadcast_from_front(me, &data, TIMEOUT));
  FINE(libi_member_gather_to_front(me, libi_data_bytes(data, 0), libi_data_length(data, 0), TIMEOUT));
  libi_data_free(data);
  FINE(libi_member_start_broadcast_from_front(me, &received));
  data = taken(received);
  FINE(libi_member_start_gather_to_front(me, libi_data_bytes(data, 0), my_rank, &sent));
  CHECK(taken(sent) == NULL);
  libi_data_free(data);
  data = NULL;
  if (my_rank != 0) {
    GIVES(LIBI_ERR_NOT_MASTER, libi_member_recv(me, &data, TIMEOUT));
    GIVES(LIBI_ERR_NOT_MASTER, libi_member_send(me, "x", 1, TIMEOUT));
    SAYS("master");
    FINE(libi_member_start_recv(me, &received));
    GIVES(LIBI_ERR_NOT_MASTER, libi_pending_wait(received, TIMEOUT));
    libi_pending_free(received);
    CHECK(data == NULL);
    FINE(libi_member_barrier(me, TIMEOUT));
    return;
  }
  FINE(libi_member_recv(me, &data, TIMEOUT));
  CHECK(libi_data_count(data) == 1 && libi_data_length(data, 0) > 0);
  FINE(libi_member_send(me, libi_data_bytes(data, 0), libi_data_length(data, 0), TIMEOUT));
  libi_data_free(data);
  FINE(libi_member_start_recv(me, &received));
  FINE(libi_pending_wait(received, TIMEOUT));
  FINE(libi_pending_take(received, &data));
  FINE(libi_member_start_send(me, libi_data_bytes(data, 0), libi_data_length(data, 0), &sent));
  CHECK(taken(sent) == NULL);
  libi_data_free(data);
  libi_pending_free(received);
  FINE(libi_member_barrier(me, TIMEOUT));
}

/* Writes to one that has gone, with SIGPIPE as the program wants it. */
void sigpipe(int ignored)
{
  void (*wanted)(int) = ignored ? SIG_IGN : SIG_DFL;
  struct sigaction found;
  unsigned char *bytes = pattern(100000, 1);
  libi_result code = LIBI_OK;
  signal(SIGPIPE, wanted);
  take_place(LIBI_PROGRESS_THREAD);
  FINE(libi_member_barrier(me, TIMEOUT));
  if (my_rank == the_size - 1)
    _exit(0);
  while (code == LIBI_OK)
    code = libi_member_send_to(me, the_size - 1, 0, bytes, 100000, TIMEOUT);
  GIVES(LIBI_ERR_PEER_LOST, code);
  free(bytes);
  CHECK(sigaction(SIGPIPE, NULL, &found) == 0 && found.sa_handler == wanted);
  leave();
}
