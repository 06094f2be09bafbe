/* Reads a host list and says what it stands for.
 *
 *     hosts 'node[001-064]:8, me@login:2222'
 *
 * How this is compiled and linked: README.md, "Using it from C and C++".
 */

#include <inttypes.h>
#include <stdio.h>

#include <libi.h>

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s LIST\n", argv[0]);
        return 2;
    }
    /* Until 1.0, a library of another series may have changed. The soname keeps it away; this is for who loads it by dlopen(). */
    if (libi_version() / 1000 != LIBI_VERSION_NUMBER / 1000) {
        fprintf(stderr, "compiled with another libi than %s\n", libi_version_text());
        return 1;
    }

    libi_hosts *hosts = libi_hosts_new();
    if (libi_hosts_parse(hosts, argv[1]) != LIBI_OK) {
        fprintf(stderr, "%s\n", libi_hosts_error(hosts));
        libi_hosts_free(hosts);
        return 2;
    }
    for (size_t i = 0; i < libi_hosts_count(hosts); i++)
        printf("%s: %" PRIu32 " processes\n", libi_hosts_name(hosts, i), libi_hosts_slots(hosts, i));
    printf("%s: %" PRIu64 " processes on %zu hosts\n", libi_hosts_fold(hosts), libi_hosts_processes(hosts), libi_hosts_count(hosts));
    libi_hosts_free(hosts);
    return 0;
}
