/* Prints the hosts and processes of a host list.
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
    /* Before 1.0, another minor version may be incompatible. The soname prevents that; this check is for
     * programs that load the library with dlopen(). */
    if (libi_version() / 1000 != LIBI_VERSION_NUMBER / 1000) {
        fprintf(stderr, "compiled with another libi than %s\n", libi_version_text());
        return 1;
    }

    libi_hosts *hosts = libi_hosts_new();
    if (libi_hosts_add_list(hosts, argv[1]) != LIBI_OK) {
        fprintf(stderr, "%s\n", libi_last_error());
        libi_hosts_free(hosts);
        return 2;
    }
    libi_hosts_entry_info entry;
    for (size_t i = 0; libi_hosts_entry(hosts, i, &entry, sizeof entry) == LIBI_OK; i++)
        printf("%s: %" PRIu32 " processes\n", entry.name, entry.processes);
    printf("%s: %" PRIu64 " processes on %zu hosts\n", libi_hosts_fold(hosts), libi_hosts_processes(hosts),
           libi_hosts_count(hosts));
    libi_hosts_free(hosts);
    return 0;
}
