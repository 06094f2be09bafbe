/* A complete small program: it launches itself four times, and prints their output.
 *
 *     cc hello.c -o hello $(pkg-config --cflags --libs libi)
 *     ./hello
 *
 * It prints, in any order (with LIBI_BACKEND_LOCAL all hosts are this machine; by default other hosts are
 * reached by ssh):
 *
 *     [0] hello from rank 0 of 4 on here1
 *     [1] hello from rank 1 of 4 on here1
 *     [2] hello from rank 2 of 4 on here2
 *     [3] hello from rank 3 of 4 on here2
 */

#include <stdio.h>

#include <libi.h>

/* The program as it is started by hand. */
static libi_result launch(const char *program)
{
    libi_distribution *hello = libi_distribution_new(0, program);
    libi_options *options = libi_options_new();
    libi_front *front = NULL;
    libi_session *session = NULL;
    libi_event *event;
    libi_event_info info;

    libi_distribution_set_host_list(hello, "here[1-2]:2"); /* if this fails, so does the launch */
    libi_options_set_backend(options, LIBI_BACKEND_LOCAL, NULL);
    libi_result result = libi_front_new(LIBI_PROGRESS_THREAD, &front);
    if (result == LIBI_OK)
        result = libi_front_launch(front, (const libi_distribution *[]){hello}, 1, options, &session, 1);
    for (bool done = false; result == LIBI_OK && !done; libi_event_free(event)) {
        result = libi_front_next_event(front, &event, 10000); /* LIBI_NOT_YET after 10 s without one */
        libi_event_query(event, &info, sizeof info);
        done = info.kind == LIBI_EVENT_DONE;
        if (info.kind == LIBI_EVENT_OUTPUT)
            printf("[%d] %.*s", (int)info.rank, (int)info.length, (const char *)info.bytes);
    }
    if (result != LIBI_OK) fprintf(stderr, "%s: %s\n", libi_result_text(result), libi_last_error());
    libi_session_free(session); /* ends members that are still running */
    libi_front_free(front);
    libi_options_free(options);
    libi_distribution_free(hello);
    return result;
}

int main(int argc, char **argv)
{
    libi_member *member;
    libi_member_info info;
    libi_result result = libi_member_init(LIBI_PROGRESS_THREAD, &member); /* returns when the session is up */
    if (result == LIBI_ERR_STARTED_BY_HAND && argc == 1) return launch(argv[0]) == LIBI_OK ? 0 : 1;
    if (result == LIBI_OK) {
        libi_member_query(member, &info, sizeof info);
        printf("hello from rank %u of %u on %s\n", info.rank, info.size, info.host_name);
        fflush(stdout); /* output that is still buffered when the member is freed may be lost */
        result = libi_member_drain(member, 10000); /* what it has sent is on its way */
    }
    if (result != LIBI_OK) fprintf(stderr, "%s\n", libi_last_error());
    libi_member_free(member);
    return result == LIBI_OK ? 0 : 1;
}
