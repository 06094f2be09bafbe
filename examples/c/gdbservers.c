/* A debugger's front end: attaches a gdbserver to each of several processes on several hosts, and learns
 * the ports on which they listen.
 *
 *     cc gdbservers.c -o gdbservers $(pkg-config --cflags --libs libi)
 *     ./gdbservers [--shell ssh] [HOST:PID… | --job PID]
 *
 * The processes are those that are named, or all of a running job whose launcher (srun, mpirun, …) is named.
 * Hosts are names for this machine unless there is a shell. One member is launched on each. It starts the
 * gdbservers of its host, and reports their ports to the front end through the master. Called with
 * processes it prints, with other numbers:
 *
 *     HOST             PORT      PID
 *     node1           40001     1234
 *     node2           40002     1235
 *     2 of 2 gdbservers answer
 *     gdb -p is now: gdb -ex 'target remote HOST:PORT'; the end of standard input ends this
 *     2 of 2 processes go on without a gdbserver
 *
 * and waits before the last line. Called without processes it starts three to try with, and does not
 * wait; its last line is
 *
 *     3 processes that were started to try this are ended
 *
 * A client that reaches the port of a gdbserver has all rights of its process: the ports are bound to the
 * loopback address, unless there is a shell. Attaching needs the right to trace: as root, or with 0 in
 * /proc/sys/kernel/yama/ptrace_scope.
 *
 * If the front end is killed, libi ends the members, and the gdbservers end with their members
 * (PR_SET_PDEATHSIG). The processes go on.
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

enum { MAX_TARGETS = 1000, TIMEOUT = 60000, ATTACH = 20000, ANSWER = 5000, END = 2000 };

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Whether there is something to read before this time. */
static bool readable(int fd, int64_t until)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    for (;;) {
        int64_t left = until - now();
        int found = poll(&one, 1, left > 0 ? (int)left : 0);
        if (found >= 0 || errno != EINTR) return found > 0;
    }
}

/* Starts a program that ends with this process at the latest; *printed is the reading end of its output. */
static pid_t start(char *const *words, int last_signal, int *printed)
{
    int pipes[2] = {-1, -1};
    pid_t parent = getpid();
    if (printed && pipe2(pipes, O_CLOEXEC) < 0) return -1;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, last_signal);
        if (getppid() != parent) _exit(1);
        if (printed) {
            dup2(pipes[1], 1);
            dup2(pipes[1], 2);
        }
        execvp(words[0], words);
        dprintf(2, "%s: %s\n", words[0], strerror(errno));
        _exit(127);
    }
    if (printed) {
        close(pipes[1]);
        *printed = pipes[0];
    }
    return pid;
}

/* ---- gdbserver, as a client sees it ---- */

/* Sends a request of its protocol, "$WHAT#SUM"; true if the answer begins like this. */
static bool ask(int to, const char *what, const char *wanted)
{
    char packet[64], answer[8192];
    size_t had = 0;
    unsigned sum = 0;
    bool whole = false;
    int64_t until = now() + ANSWER;
    for (const char *at = what; *at; at++) sum += (unsigned char)*at;
    int length = snprintf(packet, sizeof packet, "$%s#%02x", what, sum & 255);
    if (send(to, packet, (size_t)length, MSG_NOSIGNAL) != length) return false;
    while (!whole && had < sizeof answer - 1 && readable(to, until)) {
        ssize_t more = recv(to, answer + had, sizeof answer - 1 - had, 0);
        if (more <= 0) break;
        had += (size_t)more;
        answer[had] = 0;
        char *end = strchr(answer, '#');
        whole = end && answer + had >= end + 3;
    }
    /* Without the acknowledgement it would take the end of the connection for an error, and end. */
    whole = whole && send(to, "+", 1, MSG_NOSIGNAL) == 1;
    return whole && answer[0] == '+' && strncmp(answer + 2, wanted, strlen(wanted)) == 0;
}

static int dial(int port)
{
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (to >= 0 && connect(to, (struct sockaddr *)&there, sizeof there) == 0) return to;
    if (to >= 0) close(to);
    return -1;
}

/* Whether the gdbserver on this port answers. It waits for the next client then. */
static bool answers(int port)
{
    int to = dial(port);
    bool good = to >= 0 && ask(to, "qSupported", "PacketSize=");
    if (to >= 0) close(to);
    return good;
}

/* Makes it detach from its process, which ends it. */
static void let_go(int port)
{
    int to = dial(port); /* refused if a gdb has detached it before */
    if (to >= 0 && ask(to, "Hg0", "OK")) ask(to, "D", "OK");
    if (to >= 0) close(to);
}

/* ---- members ---- */

struct server {
    pid_t pid;    /* of the gdbserver */
    pid_t target; /* of the process */
    int port;     /* 0 if it does not listen */
    int printed;  /* its output; it stays open, since a gdbserver ends when it cannot print */
    char said[512];
};

static void attach(struct server *server, const char *address, const char *target)
{
    char where[64];
    char *words[] = {"gdbserver", "--attach", where, (char *)target, NULL};
    snprintf(where, sizeof where, "%s:0", address);
    server->target = (pid_t)atol(target);
    server->printed = -1;
    server->pid = start(words, SIGTERM, &server->printed);
}

/* Waits until a gdbserver has printed its port, or has ended. */
static void learn_port(struct server *server, int64_t until)
{
    size_t had = 0;
    while (server->pid > 0 && had < sizeof server->said - 1 && readable(server->printed, until)) {
        ssize_t more = read(server->printed, server->said + had, sizeof server->said - 1 - had);
        if (more <= 0) break;
        had += (size_t)more;
        server->said[had] = 0;
        const char *line = strstr(server->said, "Listening on port ");
        if (line && strchr(line, '\n') && sscanf(line, "Listening on port %d", &server->port) == 1) return;
    }
}

/* Ends a gdbserver; its process goes on. */
static void detach(struct server *server)
{
    static const int signals[] = {0, SIGTERM, SIGKILL};
    if (server->port) let_go(server->port);
    for (int i = server->port ? 0 : 1; server->pid > 0 && i < 3; i++) {
        if (signals[i]) kill(server->pid, signals[i]);
        /* Its end is the end of its output. */
        int64_t until = now() + END;
        char rest[512];
        while (readable(server->printed, until) && read(server->printed, rest, sizeof rest) > 0) continue;
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid ||
            (now() < until && waitpid(server->pid, NULL, 0) == server->pid))
            server->pid = 0;
    }
    if (server->printed >= 0) close(server->printed);
}

/* Whether a process runs and is not traced. */
static bool goes_on(pid_t pid)
{
    char path[64], line[256], state = 0;
    int tracer = -1;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *status = fopen(path, "re");
    while (status && fgets(line, sizeof line, status)) {
        sscanf(line, "State: %c", &state);
        sscanf(line, "TracerPid: %d", &tracer);
    }
    if (status) fclose(status);
    return tracer == 0 && state && !strchr("tTZX", state);
}

/* Sends the lines of all members to the front end. */
static libi_result tell(libi_member *member, const char *lines)
{
    libi_data *all = NULL;
    libi_result result = libi_member_gather(member, 0, LIBI_LENGTHS_ANY, lines, strlen(lines), &all, TIMEOUT);
    char *text = NULL;
    size_t length = 0;
    FILE *whole = open_memstream(&text, &length);
    for (size_t i = 0; whole && i < libi_data_count(all); i++)
        fwrite(libi_data_bytes(all, i), 1, libi_data_length(all, i), whole);
    libi_data_free(all);
    if (whole) fclose(whole);
    if (result == LIBI_OK && !text) result = LIBI_ERR_NO_MEMORY;
    if (result == LIBI_OK && libi_member_is_master(member))
        result = libi_member_send(member, text, length, TIMEOUT);
    free(text);
    return result;
}

/* The member. argv has the address to bind to and the processes of this host. */
static libi_result serve(libi_member *member, int argc, char **argv)
{
    static struct server servers[MAX_TARGETS];
    static char lines[MAX_TARGETS * 256];
    int count = argc > 2 ? argc - 2 : 0;
    size_t length = 0;
    libi_member_info info;
    libi_member_query(member, &info, sizeof info);
    for (int i = 0; i < count; i++) attach(&servers[i], argv[1], argv[i + 2]);
    for (int64_t until = now() + ATTACH, i = 0; i < count; i++) learn_port(&servers[i], until);
    for (int i = 0; i < count; i++) {
        /* Without a port: the first line that the gdbserver has printed. */
        length += (size_t)snprintf(lines + length, sizeof lines - length, "%.60s %d %ld %.150s\n",
                                   info.host_name, servers[i].port, (long)servers[i].target,
                                   servers[i].port ? ""
                                   : strtok(servers[i].said, "\n") ? servers[i].said : "no output");
        if (length >= sizeof lines) length = sizeof lines - 1;
    }
    libi_result result = tell(member, lines);

    /* The front end tells the master to end, which the others learn by the barrier. All end as well if the
     * front end is lost. */
    libi_data *order = NULL;
    if (result == LIBI_OK && libi_member_is_master(member))
        result = libi_member_recv(member, &order, LIBI_FOREVER);
    libi_data_free(order);
    if (result == LIBI_OK) result = libi_member_barrier(member, LIBI_FOREVER);

    for (int i = 0; i < count; i++) detach(&servers[i]);
    for (int i = lines[0] = 0; i < count; i++) strcat(lines, goes_on(servers[i].target) ? "+" : "-");
    if (result == LIBI_OK) result = tell(member, lines);
    if (result == LIBI_OK) result = libi_member_drain(member, TIMEOUT);
    return result;
}

/* ---- the front end ---- */

/* Makes one distribution for each host, all of one session, with its processes as arguments. */
static int describe(int count, char **targets, const char *program, const char *address,
                    libi_distribution **what)
{
    int hosts = 0;
    char **done = calloc((size_t)count, sizeof *done);
    for (int i = 0; done && i < count; i++) {
        char *colon = strrchr(targets[i], ':');
        size_t length = colon ? (size_t)(colon - targets[i]) : 0;
        if (!length || atol(colon + 1) <= 0) {
            fprintf(stderr, "not of the form HOST:PID: %s\n", targets[i]);
            hosts = 0;
            break;
        }
        int host = 0;
        while (host < hosts && (strncmp(done[host], targets[i], length + 1) != 0)) host++;
        if (host == hosts) {
            char *name = strndup(targets[i], length);
            done[hosts++] = targets[i];
            what[host] = libi_distribution_new(0, program);
            libi_distribution_set_host_list(what[host], name); /* if this fails, so does the launch */
            libi_distribution_add_arg(what[host], address);
            free(name);
        }
        libi_distribution_add_arg(what[host], colon + 1);
    }
    free(done);
    return hosts;
}

/* The next message of the master, as a text to be freed; NULL if there is none. */
static char *hear(libi_session *session)
{
    libi_data *data = NULL;
    char *text = NULL;
    if (libi_session_recv(session, &data, TIMEOUT) == LIBI_OK)
        text = strndup(libi_data_bytes(data, 0), libi_data_length(data, 0));
    libi_data_free(data);
    return text;
}

/* Prints the ports, and tries those that can be reached from here. Returns how many failed. */
static int show(char *lines, bool reachable)
{
    int all = 0, listening = 0, answering = 0;
    printf("%-10s %10s %8s\n", "HOST", "PORT", "PID");
    for (char *rest, *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), all++) {
        char host[64];
        int port = 0, words = 0;
        long pid = 0;
        if (sscanf(line, "%63s %d %ld %n", host, &port, &pid, &words) < 3) continue;
        if (port) printf("%-10s %10d %8ld\n", host, port, pid);
        else printf("%-10s %10s %8ld %s\n", host, "-", pid, line + words);
        listening += port != 0;
        answering += port && reachable && answers(port);
    }
    if (reachable) printf("%d of %d gdbservers answer\n", answering, all);
    fflush(stdout);
    return all - (reachable ? answering : listening);
}

static bool work(libi_session *session, bool reachable, bool waits)
{
    char *lines = hear(session);
    bool good = lines && show(lines, reachable) == 0;
    if (lines && waits) {
        printf("gdb -p is now: gdb -ex 'target remote HOST:PORT'; the end of standard input ends this\n");
        fflush(stdout);
        while (getchar() != EOF) continue;
    }
    free(lines);
    if (!lines || libi_session_send(session, "end", 3, TIMEOUT) != LIBI_OK || !(lines = hear(session))) {
        fprintf(stderr, "%s\n", libi_last_error());
        return false;
    }
    size_t going = 0;
    for (const char *at = lines; *at; at++) going += *at == '+';
    printf("%zu of %zu processes go on without a gdbserver\n", going, strlen(lines));
    free(lines);
    return libi_session_wait_done(session, TIMEOUT) == LIBI_OK && good;
}

static bool launch(int count, char **targets, const char *program, const char *shell, bool waits)
{
    libi_distribution *what[MAX_TARGETS] = {NULL};
    libi_session *session = NULL;
    libi_front *front = NULL;
    libi_options *how = libi_options_new();
    bool good = true;
    if (!shell) libi_options_set_backend(how, LIBI_BACKEND_LOCAL, NULL);
    else if (strcmp(shell, "ssh") == 0) libi_options_set_backend(how, LIBI_BACKEND_SSH, NULL);
    else libi_options_set_backend(how, LIBI_BACKEND_SHELL, shell);
    libi_options_set_output(how, LIBI_OUTPUT_DISCARD, NULL); /* members send what is needed */
    int hosts = describe(count, targets, program, shell ? "" : "localhost", what);
    if (good && hosts > 0) {
        good = libi_front_new(LIBI_PROGRESS_THREAD, &front) == LIBI_OK &&
               libi_front_launch(front, (const libi_distribution *const *)what, (size_t)hosts, how, &session,
                                 1) == LIBI_OK;
        if (!good) fprintf(stderr, "%s\n", libi_last_error());
        good = good && work(session, !shell, waits);
    }
    libi_session_free(session);
    libi_front_free(front);
    libi_options_free(how);
    for (int i = 0; i < MAX_TARGETS; i++) libi_distribution_free(what[i]);
    return good && hosts > 0;
}

/* The processes of a running job. Returns how many; 0 if it cannot be attached to. */
static int of_job(int pid, char **targets)
{
    libi_job *job;
    libi_processes *all = NULL;
    libi_processes_entry_info one;
    int count = 0;
    if (libi_job_attach(pid, &job, TIMEOUT) == LIBI_OK && libi_job_processes(job, &all) == LIBI_OK) {
        while (count < MAX_TARGETS && libi_processes_entry(all, (size_t)count, &one, sizeof one) == LIBI_OK) {
            size_t room = strlen(one.host_name) + 16;
            targets[count] = malloc(room);
            if (targets[count]) snprintf(targets[count++], room, "%s:%d", one.host_name, one.pid);
            else break;
        }
    } else fprintf(stderr, "%s\n", libi_last_error());
    libi_processes_free(all);
    libi_job_free(job);
    return count;
}

/* Runs it with own processes, which end with this one. */
static bool try_it(const char *program)
{
    static const char *hosts[] = {"alpha", "alpha", "beta"};
    char texts[3][32], *targets[3], *words[] = {"sleep", "600", NULL};
    pid_t pids[3];
    for (int i = 0; i < 3; i++) {
        pids[i] = start(words, SIGKILL, NULL);
        snprintf(texts[i], sizeof texts[i], "%s:%ld", hosts[i], (long)pids[i]);
        targets[i] = texts[i];
    }
    bool good = launch(3, targets, program, NULL, false);
    for (int i = 0; i < 3; i++) {
        if (pids[i] > 0) kill(pids[i], SIGKILL);
        good = pids[i] > 0 && waitpid(pids[i], NULL, 0) == pids[i] && good;
    }
    printf("3 processes that were started to try this are ended\n");
    return good;
}

int main(int argc, char **argv)
{
    libi_member *member;
    libi_result result = libi_member_init(LIBI_PROGRESS_THREAD, &member);
    if (result == LIBI_OK) result = serve(member, argc, argv);
    if (result != LIBI_OK && result != LIBI_ERR_STARTED_BY_HAND) fprintf(stderr, "%s\n", libi_last_error());
    libi_member_free(member);
    if (result != LIBI_ERR_STARTED_BY_HAND) return result == LIBI_OK ? 0 : 1;

    char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1); /* the same path on all hosts */
    if (length < 0) return 1;
    program[length] = 0;
    const char *shell = argc > 2 && strcmp(argv[1], "--shell") == 0 ? argv[2] : NULL;
    int first = shell ? 3 : 1;
    if (argc - first == 2 && strcmp(argv[first], "--job") == 0) {
        static char *targets[MAX_TARGETS];
        int count = of_job(atoi(argv[first + 1]), targets);
        bool good = count > 0 && launch(count, targets, program, shell, true);
        for (int i = 0; i < count; i++) free(targets[i]);
        return good ? 0 : 1;
    }
    if (argc - first > MAX_TARGETS || (first < argc && argv[first][0] == '-') || (shell && first == argc)) {
        fprintf(stderr, "usage: %s [--shell ssh] [HOST:PID… | --job PID]\n", argv[0]);
        return 2;
    }
    bool good = first == argc ? try_it(program) : launch(argc - first, argv + first, program, shell, true);
    return good ? 0 : 1;
}
