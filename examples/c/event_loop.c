/* libi in a program that has an event loop of its own: one thread, epoll, several sessions at a time, nothing that waits but the loop.
 *
 *     cc event_loop.c -o event_loop $(pkg-config --cflags --libs libi)
 *     ./event_loop [--stay] [HOSTS…]
 *
 * Each host list is a session: "a:2", "b[1-2]:2" and "c[1-3]:2" if there is none. Of each it prints what happens, as the following of the
 * first, in whatever order it comes; with --stay members stay until SIGINT or SIGTERM ends all sessions.
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
 * With LIBI_PROGRESS_MANUAL the library has no thread. The loop waits until the front end's descriptor is readable or its patience is
 * over, and dispatches: then events come to a function, and operations that are pending are looked at. The program is its own
 * member; members are simpler, and wait.
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

enum { MOST = 16, PATIENCE = 20000, GRACE = 2000 };

/* A session, and what we wait for in it. */
struct running {
    libi_session *session; /* NULL when it is over */
    libi_pending *hello;   /* what its master has to say */
    libi_pending *order;   /* what we have to say to it */
};

struct loop {
    libi_front *front;
    struct running all[MOST];
    int count;
    const char *order;
    bool failed;
    bool ending;
    int64_t force_at; /* when those that do not end are killed, once we are ending */
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

/* Sessions bear the numbers from 1 on. What happens in one that was freed may still be told. */
static struct running *of(struct loop *loop, uint32_t number)
{
    return number >= 1 && number <= (uint32_t)loop->count ? &loop->all[number - 1] : NULL;
}

static void is_up(struct loop *loop, struct running *one, uint32_t number)
{
    printf("session %u: up with %u members\n", number, libi_session_size(one->session));
    if (libi_session_start_recv(one->session, &one->hello) != LIBI_OK) {
        fprintf(stderr, "session %u: %s\n", number, libi_session_error(one->session));
        loop->failed = true;
        over(one);
    }
}

static void is_given_up(struct loop *loop, struct running *one)
{
    libi_report *report;
    if (libi_session_report(one->session, &report) == LIBI_OK) fprintf(stderr, "%s\n", libi_report_text(report));
    libi_report_free(report);
    loop->failed = true;
    over(one);
}

/* Called by libi_front_dispatch(). All functions but that may be called from here. */
static void on_event(void *userdata, const libi_event *event)
{
    struct loop *loop = userdata;
    uint32_t number = libi_event_session(event);
    struct running *one = of(loop, number);
    if (!one || !one->session) return;
    switch (libi_event_kind_of(event)) {
    case LIBI_EVENT_UP:
        is_up(loop, one, number);
        break;
    case LIBI_EVENT_GIVEN_UP:
        is_given_up(loop, one);
        break;
    case LIBI_EVENT_OUTPUT:
        fprintf(libi_event_stream(event) == 2 ? stderr : stdout, "session %u: [%d] %.*s", number, (int)libi_event_rank(event),
                (int)libi_event_length(event), (const char *)libi_event_bytes(event));
        break;
    case LIBI_EVENT_EXITED:
        printf("session %u: rank %d has ended %s %d\n", number, (int)libi_event_rank(event),
               libi_event_exit(event) == LIBI_EXIT_SIGNAL ? "by signal" : "with status", (int)libi_event_exit_value(event));
        break;
    case LIBI_EVENT_LOST:
        printf("session %u: %s is lost: %s\n", number, libi_event_host_name(event), libi_failure_text(libi_event_failure(event)));
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

/* Whether an operation is over, one way or another. */
static bool is_over(struct loop *loop, libi_pending *pending)
{
    libi_result result = pending ? libi_pending_poll(pending) : LIBI_NOT_YET;
    if (result != LIBI_NOT_YET && result != LIBI_OK && !loop->ending) {
        fprintf(stderr, "%s\n", libi_pending_error(pending));
        loop->failed = true;
    }
    return result != LIBI_NOT_YET;
}

/* Looks at what is pending: the descriptor is readable as long as something is over that nobody has looked at. */
static void look(struct loop *loop)
{
    for (int i = 0; i < loop->count; i++) {
        struct running *one = &loop->all[i];
        libi_data *said = NULL;
        if (is_over(loop, one->hello)) {
            if (libi_pending_take(one->hello, &said) == LIBI_OK) {
                printf("session %d: the master says: %.*s\n", i + 1, (int)libi_data_length(said, 0), (const char *)libi_data_bytes(said, 0));
                if (libi_session_start_send(one->session, loop->order, strlen(loop->order), &one->order) != LIBI_OK)
                    fprintf(stderr, "session %d: %s\n", i + 1, libi_session_error(one->session));
            }
            libi_data_free(said);
            libi_pending_free(one->hello);
            one->hello = NULL;
        }
        if (is_over(loop, one->order)) {
            libi_pending_free(one->order);
            one->order = NULL;
        }
    }
}

/* Sends a signal to everybody. A session that is not up yet ends when it is freed. */
static void signal_all(struct loop *loop, int number)
{
    for (int i = 0; i < loop->count; i++) {
        struct running *one = &loop->all[i];
        if (!one->session) continue;
        if (libi_session_stage(one->session) == LIBI_STAGE_LAUNCHING || libi_session_kill(one->session, number) != LIBI_OK) over(one);
    }
}

static void end_all(struct loop *loop, int number)
{
    printf("signal %d: all sessions are told to end\n", number);
    loop->force_at = now() + (loop->ending ? 0 : GRACE); /* who asks twice does not want to wait */
    loop->ending = true;
    signal_all(loop, SIGTERM);
}

static libi_result start(struct loop *loop, int count, char **lists, const char *program)
{
    const libi_distribution *what[MOST];
    libi_session *sessions[MOST] = {NULL};
    libi_result result = LIBI_OK;
    for (int i = 0; i < count; i++) {
        libi_distribution *one = libi_distribution_new((uint32_t)i + 1, program);
        if (result == LIBI_OK && (result = libi_distribution_set_host_list(one, lists[i])) != LIBI_OK)
            fprintf(stderr, "%s: %s\n", lists[i], libi_distribution_error(one));
        what[i] = one;
    }
    if (result == LIBI_OK) {
        result = libi_front_start(loop->front, what, (size_t)count, NULL, sessions, MOST);
        if (result != LIBI_OK) fprintf(stderr, "%s\n", libi_front_error(loop->front));
    }
    for (int i = 0; i < count; i++) {
        loop->all[i].session = sessions[i];
        libi_distribution_free((libi_distribution *)what[i]);
    }
    loop->count = count;
    return result;
}

/* The loop itself; a program would have more descriptors and timers in it. */
static bool run(struct loop *loop, int epoll, int signals)
{
    struct epoll_event ready;
    struct signalfd_siginfo signal;
    while (left(loop) > 0) {
        int64_t most = libi_front_patience(loop->front); /* asked each time: every call may change it */
        if (loop->ending) {
            int64_t until = loop->force_at > now() ? loop->force_at - now() : 0;
            if (most < 0 || most > until) most = until;
        }
        int count = epoll_wait(epoll, &ready, 1, most > 60000 ? 60000 : (int)most);
        if (count < 0 && errno != EINTR) return false;
        if (count == 1 && ready.data.fd == signals && read(signals, &signal, sizeof signal) == sizeof signal)
            end_all(loop, (int)signal.ssi_signo);
        if (libi_front_dispatch(loop->front) != LIBI_OK) {
            fprintf(stderr, "%s\n", libi_front_error(loop->front));
            return false;
        }
        look(loop);
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
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGINT);
    sigaddset(&ours, SIGTERM);
    sigprocmask(SIG_BLOCK, &ours, NULL); /* members do not inherit that */
    int signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK), epoll = epoll_create1(EPOLL_CLOEXEC);

    bool good = libi_front_new(LIBI_PROGRESS_MANUAL, &loop.front) == LIBI_OK;
    if (!good) fprintf(stderr, "%s\n", libi_front_error(loop.front));
    struct epoll_event about_signals = {.events = EPOLLIN, .data.fd = signals};
    struct epoll_event about_front = {.events = EPOLLIN, .data.fd = libi_front_descriptor(loop.front)};
    good = good && epoll_ctl(epoll, EPOLL_CTL_ADD, signals, &about_signals) == 0;
    good = good && epoll_ctl(epoll, EPOLL_CTL_ADD, about_front.data.fd, &about_front) == 0;
    good = good && libi_front_on_event(loop.front, &loop, on_event) == LIBI_OK;
    good = good && start(&loop, count, lists, program) == LIBI_OK && run(&loop, epoll, signals);
    if (good) printf("all sessions are over\n");

    for (int i = 0; i < loop.count; i++) over(&loop.all[i]);
    libi_front_free(loop.front); /* whatever is left ends */
    close(epoll);
    close(signals);
    return good && !loop.failed ? 0 : 1;
}

/* What a member does: says that it is there, hears what to do, and does it. */
static libi_result serve(libi_member *member)
{
    static char line[64];
    libi_data *all = NULL, *order = NULL;
    /* Only the master sends and hears; the others do nothing by these calls. */
    libi_result result = libi_member_gather(member, 0, "", 1, &all, PATIENCE);
    int length = snprintf(line, sizeof line, "%zu members are here", libi_data_count(all));
    libi_data_free(all);
    if (result == LIBI_OK) result = libi_member_send(member, line, (size_t)length, PATIENCE);
    if (result == LIBI_OK) result = libi_member_recv(member, &order, PATIENCE);
    if (result == LIBI_OK) {
        libi_data *heard = order;
        result = libi_member_broadcast(member, 0, libi_data_bytes(heard, 0), libi_data_length(heard, 0), &order, PATIENCE);
        libi_data_free(heard);
    }
    if (result != LIBI_OK) return result;
    bool stays = libi_data_length(order, 0) == 4 && memcmp(libi_data_bytes(order, 0), "stay", 4) == 0;
    printf("rank %u of %u was told to %s\n", libi_member_rank(member), libi_member_size(member), stays ? "stay" : "go");
    fflush(stdout); /* at the latest before the member is freed */
    libi_data_free(order);
    while (stays) pause(); /* until a signal ends it */
    return libi_member_finish(member, PATIENCE);
}

int main(int argc, char **argv)
{
    libi_member *member;
    libi_result result = libi_member_init(LIBI_PROGRESS_THREAD, &member);
    if (result == LIBI_OK) result = serve(member);
    if (result != LIBI_OK && result != LIBI_ERR_STARTED_BY_HAND) fprintf(stderr, "%s\n", libi_member_error(member));
    libi_member_free(member);
    if (result != LIBI_ERR_STARTED_BY_HAND) return result == LIBI_OK ? 0 : 1;

    static char *usual[] = {"a:2", "b[1-2]:2", "c[1-3]:2"};
    bool stay = argc > 1 && strcmp(argv[1], "--stay") == 0;
    char **lists = argv + 1 + stay;
    int count = argc - 1 - stay;
    if (count > MOST || (count > 0 && lists[0][0] == '-')) {
        fprintf(stderr, "usage: %s [--stay] [HOSTS…]: a session on each of at most %d host lists\n", argv[0], MOST);
        return 2;
    }
    return launch(count ? count : 3, count ? lists : usual, stay ? "stay" : "go", argv[0]);
}
