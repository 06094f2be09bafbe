// Merges host lists into one that is written short.
//
//     hosts 'node[1-3]' node4
//
// How this is compiled and linked: README.md, "Using it from C and C++".

#include <iostream>
#include <memory>

#include <libi.h>

int main(int argc, char **argv)
{
    std::unique_ptr<libi_hosts, decltype(&libi_hosts_free)> hosts(libi_hosts_new(), libi_hosts_free);
    for (int i = 1; i < argc; i++) {
        if (libi_hosts_add_list(hosts.get(), argv[i]) != LIBI_OK) {
            std::cerr << libi_last_error() << '\n';
            return 2;
        }
    }
    std::cout << libi_hosts_fold(hosts.get()) << '\n';
}
