/* A debugger's front end: attaches a gdbserver to each of several processes on several hosts, and
 * lists the ports on which they listen.
 *
 *     cc gdbservers.c -o gdbservers $(pkg-config --cflags --libs libi)
 *     ./gdbservers --job PID             all processes of a job, by the PID of its srun or mpirun
 *     ./gdbservers HOST:PID…             these processes; hosts are names for this machine
 *     ./gdbservers --network HOST:PID…   these processes of other machines
 *     ./gdbservers                       three processes that it starts to try this, and ends
 *
 * Called with a job or with processes it prints, with other numbers:
 *
 *     HOST             PORT      PID
 *     node1           40001     1234
 *     node2           40002     1235
 *     2 of 2 gdbservers answer
 *     gdb -p is now: gdb -ex 'target remote HOST:PORT'; Ctrl-D ends this
 *     2 of 2 processes go on without a gdbserver
 *
 * and waits before the last line. A process stands still until a gdb has it continue.
 *
 * A client that reaches the port of a gdbserver has all rights of its process: the ports are bound
 * to the loopback address of their host, unless there is a --network, also in front of --job.
 * Attaching needs the right to trace: as root, or with 0 in /proc/sys/kernel/yama/ptrace_scope.
 *
 * Started by a user this is the front end; started by libi it is a member, which has gdbservers. If
 * the front end is killed, libi ends the members and their gdbservers; the processes go on.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <libi.h>

enum { TIMEOUT = 60000 /* ms, of a call of libi */, ATTACH = 20 /* s */, ANSWER = 5 /* s */ };

/* Starts a program with its output to a descriptor. It is killed when this process ends. */
static pid_t start(char *const *words, int output)
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        dup2(output, 1);
        dup2(output, 2);
        execvp(words[0], words);
        dprintf(2, "%s: %s\n", words[0], strerror(errno));
        _exit(127);
    }
    return pid;
}

static void stop(pid_t child)
{
    if (child > 0 && kill(child, SIGKILL) == 0) waitpid(child, NULL, 0);
}

/* The members send this to the front end as it is. */
struct server {
    char host[64], port[8]; /* the port is "-" if it does not listen */
    char said[256];         /* what it has printed: at last why it does not listen */
    pid_t target;           /* the process that it attaches to */
    bool is_well;           /* it answers; at the end, its process goes on */
    pid_t pid;
    int output; /* the reading end; stays open, since a gdbserver ends when it cannot print */
};

/* Appends what can be read before this time to a text. */
static bool read_more(int from, char *text, size_t room, time_t until)
{
    struct pollfd one = {.fd = from, .events = POLLIN};
    size_t had = strlen(text);
    time_t left = until - time(NULL);
    if (left <= 0 || poll(&one, 1, (int)left * 1000) <= 0) return false;
    ssize_t more = read(from, text + had, room - 1 - had);
    if (more > 0) text[had + (size_t)more] = 0;
    return more > 0;
}

static void start_gdbserver(struct server *server, const char *address)
{
    char where[64], target[16];
    char *words[] = {"gdbserver", "--attach", where, target, NULL};
    int ends[2] = {-1, -1};
    snprintf(where, sizeof where, "%s:0", address);
    snprintf(target, sizeof target, "%d", server->target);
    server->pid = pipe2(ends, O_CLOEXEC) == 0 ? start(words, ends[1]) : -1;
    if (server->pid < 0) snprintf(server->said, sizeof server->said, "%s", strerror(errno));
    close(ends[1]);
    server->output = ends[0];
}

/* Waits until it has printed its port, or has ended: its first line says why. */
static void learn_port(struct server *server, time_t until)
{
    const char *line;
    while (!(line = strstr(server->said, "Listening on port ")) || !strchr(line, '\n'))
        if (!read_more(server->output, server->said, sizeof server->said, until)) break;
    bool listens = line && sscanf(line, "Listening on port %7[0-9]", server->port) == 1;
    server->said[listens ? 0 : strcspn(server->said, "\n")] = 0;
}

/* Sends it a packet "$REQUEST#SUM", and waits for "OK". It waits for the next client then. */
static bool ask(const struct server *server, const char *packet)
{
    struct sockaddr_in there = {.sin_family = AF_INET};
    there.sin_port = htons((uint16_t)atoi(server->port)); /* 0 is refused */
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    char answer[512] = "";
    time_t until = time(NULL) + ANSWER;
    int to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = to >= 0 && connect(to, (struct sockaddr *)&there, sizeof there) == 0 &&
                send(to, packet, strlen(packet), MSG_NOSIGNAL) > 0;
    while (good && !strstr(answer, "$OK#9a")) good = read_more(to, answer, sizeof answer, until);
    /* Without the acknowledgement it takes the end of the connection for an error, and ends. */
    good = good && send(to, "+", 1, MSG_NOSIGNAL) == 1;
    if (to >= 0) close(to);
    return good;
}

/* Whether a process runs and is not traced. */
static bool goes_on(pid_t pid)
{
    char path[64], text[2048] = "";
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    int status = open(path, O_RDONLY | O_CLOEXEC);
    if (status < 0) return false;
    read_more(status, text, sizeof text, time(NULL) + ANSWER);
    close(status);
    const char *state = strstr(text, "\nState:\t");
    return state && !strchr("tTZX", state[8]) && strstr(text, "\nTracerPid:\t0\n");
}

/* A member: argv has the address to bind to, and the process of each rank unless there is a job. */
static libi_result serve(libi_member *member, int argc, char **argv)
{
    libi_member_info me;
    libi_targets *targets = NULL;
    libi_targets_entry_info target;
    libi_data *order = NULL;
    char *sleep[] = {"sleep", "600", NULL};
    pid_t own = 0;
    libi_result result = libi_member_query(member, &me, sizeof me);
    if (argc == 2) result = libi_member_targets(member, &targets, TIMEOUT);
    size_t count = argc == 2 ? libi_targets_count(targets) : 1;
    struct server *servers = calloc(count + 1, sizeof *servers);
    if (!servers) return LIBI_ERR_NO_MEMORY;
    for (size_t i = 0; i < count; i++) {
        if (targets) libi_targets_entry(targets, i, &target, sizeof target);
        servers[i].target = targets ? target.pid : atoi(argv[2 + me.rank]);
        if (servers[i].target == 0) servers[i].target = own = start(sleep, 1); /* to try this */
        snprintf(servers[i].host, sizeof servers[i].host, "%s", me.host_name);
        snprintf(servers[i].port, sizeof servers[i].port, "-");
        start_gdbserver(&servers[i], argv[1]);
    }
    time_t until = time(NULL) + ATTACH;
    for (size_t i = 0; i < count; i++) {
        if (servers[i].pid > 0) learn_port(&servers[i], until);
        servers[i].is_well = ask(&servers[i], "$Hg0#df"); /* any thread */
    }
    size_t length = count * sizeof *servers;
    if (result == LIBI_OK) result = libi_member_gather_to_front(member, servers, length, TIMEOUT);

    /* Until the front end says that it is over, or is lost. */
    if (result == LIBI_OK) result = libi_member_broadcast_from_front(member, &order, LIBI_FOREVER);
    for (size_t i = 0; i < count; i++) {
        ask(&servers[i], "$D#44"); /* detach; refused if a gdb has had it do so */
        stop(servers[i].pid);
        close(servers[i].output);
        servers[i].is_well = goes_on(servers[i].target);
    }
    if (result == LIBI_OK) result = libi_member_gather_to_front(member, servers, length, TIMEOUT);
    if (result == LIBI_OK) result = libi_member_drain(member, TIMEOUT);
    stop(own);
    libi_data_free(order);
    libi_targets_free(targets);
    free(servers);
    return result;
}

/* Prints what members send, a table at first. Returns how many are not well; -1 if it fails. */
static int show(libi_session *session, bool is_table, const char *what)
{
    libi_data *all = NULL;
    struct server one;
    int count = 0, well = 0;
    if (libi_session_gather(session, &all, TIMEOUT) != LIBI_OK) return -1;
    if (is_table) printf("%-10s %10s %8s\n", "HOST", "PORT", "PID");
    for (size_t rank = 0; rank < libi_data_count(all); rank++) {
        const char *bytes = libi_data_bytes(all, rank);
        size_t left = libi_data_length(all, rank);
        for (; left >= sizeof one; left -= sizeof one, bytes += sizeof one, count++) {
            memcpy(&one, bytes, sizeof one);
            well += one.is_well;
            if (is_table)
                printf("%-10s %10s %8d %s\n", one.host, one.port, one.target, one.said);
        }
    }
    printf("%d of %d %s\n", well, count, what);
    libi_data_free(all);
    return count - well;
}

/* Launches members: one on each host of a job, or one for each process that is named. */
static bool launch(libi_front *front, libi_job *job, char **targets, const char *program,
                   bool network, libi_session **session)
{
    libi_processes *found = NULL; /* by members, where the launcher does not know all processes */
    libi_hosts *hosts = libi_hosts_new();
    libi_options *options = libi_options_new();
    libi_distribution *members = libi_distribution_new(0, program);
    const libi_distribution *all[] = {members};
    libi_distribution_add_arg(members, network ? "" : "localhost");
    libi_options_set_output(options, LIBI_OUTPUT_DISCARD, NULL); /* members send what is needed */
    if (!job && !network) libi_options_set_backend(options, LIBI_BACKEND_LOCAL, NULL);
    for (int i = 0; !job && targets[i]; i++) {
        const char *colon = strrchr(targets[i], ':');
        char host[256];
        snprintf(host, sizeof host, "%.*s", (int)(colon - targets[i]), targets[i]);
        libi_hosts_add_host(hosts, host, NULL, 0, 1);
        libi_distribution_add_arg(members, colon + 1);
    }
    libi_distribution_set_hosts(members, hosts);
    /* What has failed in the calls above, the launch returns. */
    bool good = job ? libi_front_launch_beside(front, job, 0, members, options, session) == LIBI_OK
                    : libi_front_launch(front, all, 1, options, session, 1) == LIBI_OK;
    if (good && job) good = libi_session_processes_of(*session, job, &found, TIMEOUT) == LIBI_OK;
    libi_processes_free(found);
    libi_distribution_free(members);
    libi_options_free(options);
    libi_hosts_free(hosts);
    return good;
}

/* Has gdbservers attached to the processes of a job, or to those that are named, and ended. */
static bool debug(int launcher, char **targets, const char *program, bool network, bool waits)
{
    libi_front *front = NULL;
    libi_session *session = NULL;
    libi_job *job = NULL;
    int silent = -1;
    if (libi_front_new(LIBI_PROGRESS_THREAD, &front) == LIBI_OK &&
        (!launcher || libi_job_attach(launcher, &job, TIMEOUT) == LIBI_OK) &&
        launch(front, job, targets, program, network, &session))
        silent = show(session, true, "gdbservers answer");
    if (silent >= 0 && waits) {
        printf("gdb -p is now: gdb -ex 'target remote HOST:PORT'; Ctrl-D ends this\n");
        while (getchar() != EOF) continue;
    }
    bool good = silent >= 0 && libi_session_broadcast(session, "end", 3, TIMEOUT) == LIBI_OK &&
                show(session, false, "processes go on without a gdbserver") >= 0 &&
                libi_session_wait_done(session, TIMEOUT) == LIBI_OK;
    if (!good) fprintf(stderr, "%s\n", libi_last_error());
    libi_session_free(session);
    libi_job_free(job);
    libi_front_free(front);
    return good && silent == 0;
}

int main(int argc, char **argv)
{
    libi_member *member;
    libi_result result = libi_member_init(LIBI_PROGRESS_THREAD, &member);
    if (result == LIBI_OK) result = serve(member, argc, argv);
    if (result != LIBI_OK && result != LIBI_ERR_STARTED_BY_HAND)
        fprintf(stderr, "%s\n", libi_last_error());
    libi_member_free(member);
    if (result != LIBI_ERR_STARTED_BY_HAND) return result != LIBI_OK;

    setvbuf(stdout, NULL, _IOLBF, 0);
    char *trial[] = {"alpha:0", "alpha:0", "beta:0", NULL};
    bool network = argc > 1 && strcmp(argv[1], "--network") == 0;
    char **targets = argc > 1 ? argv + 1 + network : trial;
    bool is_job = targets[0] && strcmp(targets[0], "--job") == 0 && targets[1] && !targets[2];
    bool is_wrong = !targets[0] || (is_job && atoi(targets[1]) <= 0);
    for (int pid, i = 0; !is_job && targets[i]; i++) /* nothing may follow the number */
        is_wrong |= sscanf(targets[i], "%*[^:]:%d%c", &pid, &(char){0}) != 1 || pid < 0;
    if (is_wrong) {
        fprintf(stderr, "usage: %s [--network] [HOST:PID… | --job PID]\n", argv[0]);
        return 2;
    }
    bool good = debug(is_job ? atoi(targets[1]) : 0, targets, argv[0], network, argc > 1);
    if (argc == 1) printf("3 processes that were started to try this are ended\n");
    return !good;
}
