/* libi in a program with its own event loop: one thread, epoll, several sessions at a time. Only the loop
 * waits.
 *
 *     cc event_loop.c -o event_loop $(pkg-config --cflags --libs libi)
 *     ./event_loop [--stay] [HOSTS…]
 *
 * Each host list is a session, on this machine whatever its hosts: "a:2", "b[1-2]:2" and "c[1-3]:2" by
 * default. For each of them it prints
 * the events in the order in which they come, as below for the first one. With --stay, members stay until
 * SIGINT or SIGTERM ends all sessions.
 *
 *     session 1: up with 2 members
 *     session 1: the master says: 2 members are here
 *     session 1: [0] rank 0 of 2 was told to go
 *     session 1: [1] rank 1 of 2 was told to go
 *     session 1: rank 0 has ended with status 0
 *     session 1: rank 1 has ended with status 0
 *     session 1: done
 *     all sessions are over
 *
 * With LIBI_PROGRESS_MANUAL the library has no thread. The loop waits until the front end's descriptor is
 * readable or its timeout has passed, and dispatches: that calls a function for each event. Then it polls
 * the pending operations. The program is its own member; members are simpler, and wait.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include <libi.h>

enum { MAX_SESSIONS = 16, TIMEOUT = 20000, GRACE = 2000 };

/* A session, and its pending operations. */
struct running {
    libi_session *session; /* NULL when it is over */
    libi_pending *hello;   /* receives a message of its master */
    libi_pending *order;   /* sends one to it */
};

struct loop {
    libi_front *front;
    struct running all[MAX_SESSIONS];
    int count;
    const char *order;
    bool failed;
    bool ending;
    int64_t force_at; /* when remaining members are killed, once the loop is ending */
};

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void over(struct running *one)
{
    libi_pending_free(one->hello);
    libi_pending_free(one->order);
    libi_session_free(one->session);
    memset(one, 0, sizeof *one);
}

static int left(const struct loop *loop)
{
    int left = 0;
    for (int i = 0; i < loop->count; i++) left += loop->all[i].session != NULL;
    return left;
}

/* Sessions have the numbers from 1 on. Events of a session that was freed may still come. */
static struct running *of(struct loop *loop, uint32_t number)
{
    return number >= 1 && number <= (uint32_t)loop->count ? &loop->all[number - 1] : NULL;
}

static void is_up(struct loop *loop, struct running *one, uint32_t number)
{
    libi_session_info info;
    libi_session_query(one->session, &info, sizeof info);
    printf("session %u: up with %u members\n", number, info.size);
    if (libi_session_start_recv(one->session, &one->hello) != LIBI_OK) {
        fprintf(stderr, "session %u: %s\n", number, libi_last_error());
        loop->failed = true;
        over(one);
    }
}

static void is_given_up(struct loop *loop, struct running *one)
{
    libi_report *report;
    if (libi_session_report(one->session, &report) == LIBI_OK)
        fprintf(stderr, "%s\n", libi_report_text(report));
    libi_report_free(report);
    loop->failed = true;
    over(one);
}

static void is_lost(uint32_t number, const libi_event_info *event)
{
    libi_failure_info failure;
    libi_failure_query(event->failure, &failure, sizeof failure);
    printf("session %u: %s is lost: %s\n", number, event->host_name, failure.text);
}

/* Called by libi_front_dispatch(); may call everything but that. */
static void on_event(void *userdata, const libi_event *event)
{
    struct loop *loop = userdata;
    libi_event_info info;
    libi_event_query(event, &info, sizeof info);
    uint32_t number = info.session;
    struct running *one = of(loop, number);
    if (!one || !one->session) return;
    switch (info.kind) {
    case LIBI_EVENT_UP:
        is_up(loop, one, number);
        break;
    case LIBI_EVENT_GIVEN_UP:
        is_given_up(loop, one);
        break;
    case LIBI_EVENT_OUTPUT:
        fprintf(info.stream == 2 ? stderr : stdout, "session %u: [%d] %.*s", number, (int)info.rank,
                (int)info.length, (const char *)info.bytes);
        break;
    case LIBI_EVENT_EXITED:
        printf("session %u: rank %d has ended %s %d\n", number, (int)info.rank,
               info.exit == LIBI_EXIT_SIGNAL ? "by signal" : "with status", info.exit_value);
        break;
    case LIBI_EVENT_LOST:
        is_lost(number, &info);
        loop->failed = true;
        break;
    case LIBI_EVENT_DONE:
        printf("session %u: done\n", number);
        over(one);
        break;
    default: /* later versions may have more kinds */
        break;
    }
}

/* Whether an operation has finished, with or without success. */
static bool has_finished(struct loop *loop, libi_pending *pending)
{
    libi_result result = pending ? libi_pending_poll(pending) : LIBI_NOT_YET;
    if (result != LIBI_NOT_YET && result != LIBI_OK && !loop->ending) {
        fprintf(stderr, "%s\n", libi_last_error());
        loop->failed = true;
    }
    return result != LIBI_NOT_YET;
}

/* Polls the operations: the descriptor stays readable while one has finished that was not polled. */
static void poll_operations(struct loop *loop)
{
    for (int i = 0; i < loop->count; i++) {
        struct running *one = &loop->all[i];
        libi_data *message = NULL;
        if (has_finished(loop, one->hello)) {
            if (libi_pending_take(one->hello, &message) == LIBI_OK) {
                printf("session %d: the master says: %.*s\n", i + 1, (int)libi_data_length(message, 0),
                       (const char *)libi_data_bytes(message, 0));
                if (libi_session_start_send(one->session, loop->order, strlen(loop->order), &one->order) !=
                    LIBI_OK)
                    fprintf(stderr, "session %d: %s\n", i + 1, libi_last_error());
            }
            libi_data_free(message);
            libi_pending_free(one->hello);
            one->hello = NULL;
        }
        if (has_finished(loop, one->order)) {
            libi_pending_free(one->order);
            one->order = NULL;
        }
    }
}

/* Sends a signal to all members. A session that is not up yet ends when it is freed. */
static void signal_all(struct loop *loop, int number)
{
    for (int i = 0; i < loop->count; i++) {
        struct running *one = &loop->all[i];
        if (!one->session) continue;
        libi_session_info info;
        libi_session_query(one->session, &info, sizeof info);
        if (info.stage == LIBI_STAGE_LAUNCHING || libi_session_kill(one->session, number) != LIBI_OK)
            over(one);
    }
}

static void end_all(struct loop *loop, int number)
{
    printf("signal %d: all sessions are told to end\n", number);
    loop->force_at = now() + (loop->ending ? 0 : GRACE); /* at once the second time */
    loop->ending = true;
    signal_all(loop, SIGTERM);
}

static libi_result start(struct loop *loop, int count, char **lists, const char *program)
{
    const libi_distribution *what[MAX_SESSIONS];
    libi_session *sessions[MAX_SESSIONS] = {NULL};
    libi_options *options = libi_options_new();
    libi_result result;
    for (int i = 0; i < count; i++) {
        libi_distribution *one = libi_distribution_new((uint32_t)i + 1, program);
        libi_distribution_set_host_list(one, lists[i]); /* if this fails, so does the launch */
        what[i] = one;
    }
    libi_options_set_backend(options, LIBI_BACKEND_LOCAL, NULL);
    result = libi_front_start(loop->front, what, (size_t)count, options, sessions, MAX_SESSIONS);
    libi_options_free(options);
    if (result != LIBI_OK) fprintf(stderr, "%s\n", libi_last_error());
    for (int i = 0; i < count; i++) {
        loop->all[i].session = sessions[i];
        libi_distribution_free((libi_distribution *)what[i]);
    }
    loop->count = count;
    return result;
}

/* The loop. A real program has more descriptors and timers in it. */
static bool run(struct loop *loop, int epoll, int signals)
{
    struct epoll_event ready;
    struct signalfd_siginfo signal;
    while (left(loop) > 0) {
        int64_t timeout = libi_front_next_timeout(loop->front); /* every call may change it */
        if (loop->ending) {
            int64_t until = loop->force_at > now() ? loop->force_at - now() : 0;
            if (timeout < 0 || timeout > until) timeout = until;
        }
        int count = epoll_wait(epoll, &ready, 1, timeout > 60000 ? 60000 : (int)timeout);
        if (count < 0 && errno != EINTR) return false;
        if (count == 1 && ready.data.fd == signals && read(signals, &signal, sizeof signal) == sizeof signal)
            end_all(loop, (int)signal.ssi_signo);
        if (libi_front_dispatch(loop->front) != LIBI_OK) {
            fprintf(stderr, "%s\n", libi_last_error());
            return false;
        }
        poll_operations(loop);
        if (loop->ending && now() >= loop->force_at) {
            signal_all(loop, SIGKILL);
            loop->force_at = now() + GRACE;
        }
        fflush(stdout);
    }
    return true;
}

static int launch(int count, char **lists, const char *order, const char *program)
{
    struct loop loop = {.order = order};
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, SIGINT);
    sigaddset(&own, SIGTERM);
    sigprocmask(SIG_BLOCK, &own, NULL); /* members do not inherit that */
    int signals = signalfd(-1, &own, SFD_CLOEXEC | SFD_NONBLOCK), epoll = epoll_create1(EPOLL_CLOEXEC);

    bool good = libi_front_new(LIBI_PROGRESS_MANUAL, &loop.front) == LIBI_OK;
    if (!good) fprintf(stderr, "%s\n", libi_last_error());
    struct epoll_event about_signals = {.events = EPOLLIN, .data.fd = signals};
    struct epoll_event about_front = {.events = EPOLLIN, .data.fd = libi_front_descriptor(loop.front)};
    good = good && epoll_ctl(epoll, EPOLL_CTL_ADD, signals, &about_signals) == 0;
    good = good && epoll_ctl(epoll, EPOLL_CTL_ADD, about_front.data.fd, &about_front) == 0;
    good = good && libi_front_set_event_callback(loop.front, on_event, &loop) == LIBI_OK;
    good = good && start(&loop, count, lists, program) == LIBI_OK && run(&loop, epoll, signals);
    if (good) printf("all sessions are over\n");

    for (int i = 0; i < loop.count; i++) over(&loop.all[i]);
    libi_front_free(loop.front); /* ends what is left */
    close(epoll);
    close(signals);
    return good && !loop.failed ? 0 : 1;
}

/* The member: it reports to the front end, receives an order, and carries it out. */
static libi_result serve(libi_member *member)
{
    static char line[64];
    libi_data *all = NULL, *received = NULL, *order = NULL;
    libi_result result = libi_member_gather(member, 0, LIBI_LENGTHS_EQUAL, "", 1, &all, TIMEOUT);
    int length = snprintf(line, sizeof line, "%zu members are here", libi_data_count(all));
    libi_data_free(all);
    if (libi_member_is_master(member)) { /* which alone talks to the front end */
        if (result == LIBI_OK) result = libi_member_send(member, line, (size_t)length, TIMEOUT);
        if (result == LIBI_OK) result = libi_member_recv(member, &received, TIMEOUT);
    }
    if (result == LIBI_OK)
        result = libi_member_broadcast(member, 0, libi_data_bytes(received, 0),
                                       libi_data_length(received, 0), &order, TIMEOUT);
    libi_data_free(received);
    if (result != LIBI_OK) return result;
    bool stays = libi_data_length(order, 0) == 4 && memcmp(libi_data_bytes(order, 0), "stay", 4) == 0;
    printf("rank %u of %u was told to %s\n", libi_member_rank(member), libi_member_size(member),
           stays ? "stay" : "go");
    fflush(stdout); /* at the latest before the member is freed */
    libi_data_free(order);
    while (stays) pause(); /* until a signal ends it */
    return libi_member_drain(member, TIMEOUT);
}

int main(int argc, char **argv)
{
    libi_member *member;
    libi_result result = libi_member_init(LIBI_PROGRESS_THREAD, &member);
    if (result == LIBI_OK) result = serve(member);
    if (result != LIBI_OK && result != LIBI_ERR_STARTED_BY_HAND) fprintf(stderr, "%s\n", libi_last_error());
    libi_member_free(member);
    if (result != LIBI_ERR_STARTED_BY_HAND) return result == LIBI_OK ? 0 : 1;

    static char *usual[] = {"a:2", "b[1-2]:2", "c[1-3]:2"};
    bool stay = argc > 1 && strcmp(argv[1], "--stay") == 0;
    char **lists = argv + 1 + stay;
    int count = argc - 1 - stay;
    if (count > MAX_SESSIONS || (count > 0 && lists[0][0] == '-')) {
        fprintf(stderr, "usage: %s [--stay] [HOSTS…]: a session on each of at most %d host lists\n",
                argv[0], MAX_SESSIONS);
        return 2;
    }
    return launch(count ? count : 3, count ? lists : usual, stay ? "stay" : "go", argv[0]);
}
