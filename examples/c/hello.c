/* The smallest whole: starts itself four times, and prints what those say.
 *
 *     cc hello.c -o hello $(pkg-config --cflags --libs libi)
 *     ./hello
 *
 * It prints, in any order (the hosts are names for this machine; libi_options_via_ssh() makes them real ones):
 *
 *     [0] hello from rank 0 of 4 on here1
 *     [1] hello from rank 1 of 4 on here1
 *     [2] hello from rank 2 of 4 on here2
 *     [3] hello from rank 3 of 4 on here2
 */

#include <stdio.h>

#include <libi.h>

/* What the program does when it is started by hand. */
static libi_result launch(const char *program)
{
    libi_distribution *hello = libi_distribution_new(0, program);
    libi_front *front;
    libi_session *session = NULL;
    libi_event *event;

    libi_result result = libi_front_new(LIBI_PROGRESS_THREAD, &front);
    if (result == LIBI_OK) result = libi_distribution_set_host_list(hello, "here[1-2]:2");
    if (result == LIBI_OK)
        result = libi_front_launch(front, (const libi_distribution *[]){hello}, 1, NULL, &session, 1);
    for (bool done = false; result == LIBI_OK && !done; libi_event_free(event)) {
        result = libi_front_next_event(front, 10000, &event); /* LIBI_NOT_YET if nothing happens for 10 s */
        done = libi_event_kind_of(event) == LIBI_EVENT_DONE;
        if (libi_event_kind_of(event) == LIBI_EVENT_OUTPUT)
            printf("[%d] %.*s", (int)libi_event_rank(event), (int)libi_event_length(event),
                   (const char *)libi_event_bytes(event));
    }
    if (result != LIBI_OK) fprintf(stderr, "%s: %s\n", libi_result_text(result), libi_front_error(front));
    libi_session_free(session); /* members that are still there end with it */
    libi_front_free(front);
    libi_distribution_free(hello);
    return result;
}

int main(int argc, char **argv)
{
    libi_member *member;
    libi_result result = libi_member_init(LIBI_PROGRESS_THREAD, &member); /* comes back when the session is up */
    if (result == LIBI_ERR_STARTED_BY_HAND && argc == 1) {
        result = launch(argv[0]);
    } else {
        if (result == LIBI_OK) {
            printf("hello from rank %u of %u on %s\n", libi_member_rank(member), libi_member_size(member),
                   libi_member_host_name(member));
            fflush(stdout); /* what is still in a buffer when the member is freed may be lost */
            result = libi_member_finish(member, 10000); /* others may need this process to reach the front end */
        }
        if (result != LIBI_OK) fprintf(stderr, "%s\n", libi_member_error(member));
    }
    libi_member_free(member);
    return result == LIBI_OK ? 0 : 1;
}
