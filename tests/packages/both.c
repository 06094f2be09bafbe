/* Uses libi and another static library that is written in Rust. */

#include <stddef.h>
#include <stdio.h>

#include <libi.h>

int other_count(const int *numbers, size_t count);

int main(void)
{
    const int numbers[] = {3, 1, 3}, negative[] = {1, -1};
    libi_hosts *hosts = libi_hosts_new();
    libi_result parsed = libi_hosts_add_list(hosts, "n[1-3]");
    printf("%d %d %d %s\n", other_count(numbers, 3), other_count(negative, 2), (int)parsed,
        libi_hosts_fold(hosts));
    libi_hosts_free(hosts);
    return 0;
}
