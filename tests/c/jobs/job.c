/* A tool in C that launches a job under control, with a daemon beside it: `job LAUNCHER... -- PROGRAM...`. The
 * daemon is the same program. Each call of the interface for jobs is made here, with what it returns. */
#include <libi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMEOUT = 60000, MOST = 64 };

#define CHECK(is_true)                                                                                       \
    do {                                                                                                     \
        if (!(is_true)) {                                                                                    \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #is_true, libi_last_error());             \
            exit(70);                                                                                        \
        }                                                                                                    \
    } while (0)

static void serve(libi_member *member)
{
    libi_targets *targets;
    CHECK(libi_member_targets(member, &targets, TIMEOUT) == LIBI_OK);
    size_t count = libi_targets_count(targets), left = count;
    libi_targets_entry_info info;
    for (size_t at = 0; at < count; at++) {
        CHECK(libi_targets_entry(targets, at, &info, sizeof info) == LIBI_OK);
        CHECK(info.is_running && info.is_held && strcmp(info.executable, "/bin/sh") == 0);
    }
    CHECK(libi_targets_entry(targets, count, &info, sizeof info) == LIBI_NONE);
    uint32_t rank = 7;
    CHECK(libi_targets_next_end(targets, &rank, 0) == LIBI_NOT_YET && rank == UINT32_MAX);
    /* The front end names one, and then all. The last one is let go here before. */
    size_t released;
    CHECK(libi_member_release_when_told(member, targets, &released, TIMEOUT) == LIBI_OK && released == 1);
    CHECK(libi_targets_release(targets, count - 1, TIMEOUT) == LIBI_OK);
    CHECK(libi_targets_release(targets, count, TIMEOUT) == LIBI_NONE);
    CHECK(libi_member_release_when_told(member, targets, NULL, TIMEOUT) == LIBI_OK);
    for (; left > 0; left--) CHECK(libi_targets_next_end(targets, &rank, TIMEOUT) == LIBI_OK && rank < count);
    CHECK(libi_targets_next_end(targets, &rank, TIMEOUT) == LIBI_NONE);
    CHECK(libi_targets_entry(targets, 0, &info, sizeof info) == LIBI_OK && !info.is_running && !info.is_held);
    libi_targets_free(targets);
    CHECK(libi_member_drain(member, TIMEOUT) == LIBI_OK);
}

/* NULL for each object. */
static void nothing(void)
{
    libi_session *session;
    libi_processes *processes;
    libi_targets *targets;
    libi_job_info job;
    libi_processes_entry_info process;
    libi_targets_entry_info target;
    uint32_t rank = 9;
    int status = 9;
    CHECK(libi_job_query(NULL, &job, sizeof job) == LIBI_ERR_NULL && job.launcher == NULL);
    CHECK(libi_job_host(NULL, 0) == NULL);
    CHECK(libi_job_processes(NULL, &processes) == LIBI_ERR_NULL && processes == NULL);
    CHECK(libi_job_wait(NULL, &status, 0) == LIBI_ERR_NULL && status == -1);
    libi_job_free(NULL);
    CHECK(libi_processes_count(NULL) == 0);
    CHECK(libi_processes_entry(NULL, 0, &process, sizeof process) == LIBI_ERR_NULL && !process.host_name);
    libi_processes_free(NULL);
    CHECK(libi_targets_count(NULL) == 0);
    CHECK(libi_targets_entry(NULL, 0, &target, sizeof target) == LIBI_ERR_NULL && !target.executable);
    CHECK(libi_targets_release(NULL, 0, 0) == LIBI_ERR_NULL);
    CHECK(libi_targets_next_end(NULL, &rank, 0) == LIBI_ERR_NULL && rank == UINT32_MAX);
    libi_targets_free(NULL);
    libi_watch *watch;
    libi_watch_event_info event;
    CHECK(libi_job_watch(NULL, NULL, &watch) == LIBI_ERR_NULL && watch == NULL);
    CHECK(libi_watch_next(NULL, &event, sizeof event, 0) == LIBI_ERR_NULL && event.host_name == NULL);
    libi_watch_free(NULL);
    CHECK(libi_front_launch_beside(NULL, NULL, 0, NULL, NULL, &session) == LIBI_ERR_NULL);
    CHECK(libi_session_processes_of(NULL, NULL, &processes, 0) == LIBI_ERR_NULL);
    CHECK(libi_session_release(NULL, &rank, 1, 0) == LIBI_ERR_NULL);
    CHECK(libi_member_targets(NULL, &targets, 0) == LIBI_ERR_NULL && targets == NULL);
    CHECK(libi_member_release_when_told(NULL, NULL, NULL, 0) == LIBI_ERR_NULL);
}

/* What is refused, and why. */
static void refused(void)
{
    libi_job *job = (libi_job *)8;
    CHECK(libi_job_attach((int32_t)getpid(), &job, 100) == LIBI_ERR_NOT_ATTACHED && job == NULL);
    CHECK(strstr(libi_last_error(), "is no launcher that keeps a process table"));
    CHECK(libi_job_attach(1, NULL, 0) == LIBI_ERR_NULL);
    CHECK(libi_job_attach_to_session((int32_t)getpid(), 7, &job, 0) == LIBI_ERR_NOT_ATTACHED);
    CHECK(strstr(libi_last_error(), "has no session 7") && job == NULL);
    CHECK(libi_job_attach_to_session(1, 0, NULL, 0) == LIBI_ERR_NULL);
    CHECK(libi_job_attach_on("n1", 1, NULL, &job, 1000) == LIBI_ERR_NOT_ATTACHED && job == NULL);
    CHECK(strstr(libi_last_error(), "cannot look for the launcher on n1"));
    CHECK(libi_job_attach_on(NULL, 1, NULL, &job, 0) == LIBI_ERR_NULL);
    CHECK(libi_job_attach_on("n1", 1, NULL, NULL, 0) == LIBI_ERR_NULL);
    CHECK(libi_job_attach_to_slurm("123456.7", &job, 0) == LIBI_ERR_NOT_ATTACHED);
    CHECK(strstr(libi_last_error(), "no srun on this machine has launched job 123456.7"));
    CHECK(libi_job_attach_to_slurm(NULL, &job, 0) == LIBI_ERR_NULL);
    const char *many[] = {"mpirun", "-n", "1", "a", ":", "-n", "1", NULL}, *program[] = {"b", NULL};
    CHECK(libi_job_launch(many, program, 1000, &job, TIMEOUT) == LIBI_ERR_ARGUMENT);
    CHECK(libi_job_launch(program, program, -1, &job, TIMEOUT) == LIBI_ERR_ARGUMENT);
    CHECK(libi_job_launch(program + 1, program, 1000, &job, TIMEOUT) == LIBI_ERR_ARGUMENT);
    CHECK(libi_job_launch(many, NULL, 1000, &job, TIMEOUT) == LIBI_ERR_ARGUMENT);
    const char *unknown[] = {"srun", "--no-such-option", "4", "a", NULL};
    CHECK(libi_job_launch(unknown, NULL, 1000, &job, TIMEOUT) == LIBI_ERR_ARGUMENT);
    CHECK(strstr(libi_last_error(), "--no-such-option is not known"));
    const char *none[] = {"/no/such/launcher", NULL};
    CHECK(libi_job_launch(none, program, 1000, &job, TIMEOUT) == LIBI_ERR_SYSTEM);
}

/* All that is told of a job that has ended. */
static void ended(libi_watch *watch, uint32_t processes)
{
    libi_watch_event_info event;
    uint32_t ends = 0, launchers = 0;
    libi_result next;
    CHECK(libi_watch_next(watch, NULL, 0, 0) == LIBI_ERR_NULL);
    while ((next = libi_watch_next(watch, &event, sizeof event, TIMEOUT)) == LIBI_OK) {
        CHECK(event.exit != LIBI_EXIT_NONE && event.host_name == NULL && event.text == NULL);
        if (event.event == LIBI_JOB_EVENT_ENDED) ends++;
        if (event.event == LIBI_JOB_EVENT_LAUNCHER_ENDED) launchers++;
    }
    CHECK(next == LIBI_NONE && ends == processes && launchers == 1);
    libi_watch_free(watch);
}

int main(int argc, char **argv)
{
    libi_agent_serve_if_asked();
    libi_member *member;
    libi_result joined = libi_member_init(LIBI_PROGRESS_THREAD, &member);
    if (joined != LIBI_ERR_STARTED_BY_HAND) {
        CHECK(joined == LIBI_OK);
        serve(member);
        libi_member_free(member);
        return 0;
    }
    nothing();
    refused();
    const char *launcher[MOST] = {NULL};
    int at = 1;
    for (; at < argc && at < MOST && strcmp(argv[at], "--") != 0; at++) launcher[at - 1] = argv[at];
    CHECK(at < argc && at < MOST);
    libi_job *job;
    CHECK(libi_job_launch(launcher, (const char *const *)argv + at + 1, 30000, &job, TIMEOUT) == LIBI_OK);

    libi_job_info info;
    CHECK(libi_job_query(job, &info, sizeof info) == LIBI_OK);
    CHECK(info.is_running && info.is_whole && info.hosts == 1 && info.launcher_pid > 0 && info.launcher[0] == '/');
    CHECK(libi_job_host(job, 0) != NULL && libi_job_host(job, 1) == NULL);
    CHECK(libi_job_wait(job, NULL, 0) == LIBI_NOT_YET);
    printf("launcher %d, %u processes, Slurm job %s\n", (int)info.kind, info.processes,
           info.slurm_job ? info.slurm_job : "none");

    libi_front *front;
    libi_session *session;
    char self[4096] = "";
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    libi_distribution *daemon = libi_distribution_new(0, self);
    libi_options *options = libi_options_new();
    CHECK(libi_options_set_backend(options, LIBI_BACKEND_LOCAL, NULL) == LIBI_OK);
    CHECK(libi_front_new(LIBI_PROGRESS_THREAD, &front) == LIBI_OK);
    CHECK(libi_front_launch_beside(front, NULL, 0, daemon, options, &session) == LIBI_ERR_NULL && !session);
    CHECK(libi_front_launch_beside(front, job, 0, daemon, options, &session) == LIBI_OK);

    libi_watch *watch;
    libi_watch_event_info event;
    CHECK(libi_job_watch(job, options, &watch) != LIBI_OK && watch == NULL); /* without an agent */
    CHECK(libi_options_set_agent(options, self) == LIBI_OK);
    CHECK(libi_job_watch(job, options, &watch) == LIBI_OK);
    CHECK(libi_watch_next(watch, &event, sizeof event, 0) == LIBI_NOT_YET);

    libi_processes *known, *all;
    CHECK(libi_job_processes(job, &known) == LIBI_OK);
    CHECK(libi_session_processes_of(session, job, &all, TIMEOUT) == LIBI_OK);
    size_t count = libi_processes_count(all);
    CHECK(count == info.processes && libi_processes_count(known) == count && count < MOST);
    uint32_t ranks[MOST];
    libi_processes_entry_info process;
    for (size_t nth = 0; nth < count; nth++) {
        CHECK(libi_processes_entry(all, nth, &process, sizeof process) == LIBI_OK);
        CHECK(strcmp(process.host_name, libi_job_host(job, 0)) == 0 && process.pid > 0);
        CHECK(strcmp(process.executable, "/bin/sh") == 0);
        ranks[nth] = process.rank;
    }
    CHECK(libi_processes_entry(all, count, &process, sizeof process) == LIBI_NONE);
    CHECK(libi_session_release(session, ranks, 1, TIMEOUT) == LIBI_OK);
    CHECK(libi_session_release(session, ranks, count, TIMEOUT) == LIBI_OK);
    int status = 0;
    CHECK(libi_job_wait(job, &status, TIMEOUT) == LIBI_OK);
    ended(watch, info.processes);
    printf("ended with status %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    CHECK(libi_session_wait_done(session, TIMEOUT) == LIBI_OK);
    libi_processes_free(known);
    libi_processes_free(all);
    libi_session_free(session);
    libi_front_free(front);
    libi_options_free(options);
    libi_distribution_free(daemon);
    libi_job_free(job);
    return 0;
}
