// The start of an overlay network: a front end launches daemons and back ends side by side, and tells
// each process its place in a tree and where its parent listens. Then the processes detach: from there
// on they have their own connections, without libi.
//
//     c++ -std=c++17 topology_exchange.cpp -o topology_exchange $(pkg-config --cflags --libs libi)
//     ./topology_exchange [--shell ssh] [--address ADDRESS] [DAEMONS [BACK_ENDS]]
//
// DAEMONS and BACK_ENDS are host lists, whose hosts are names for this machine unless there is a shell.
// ADDRESS is the address of this machine for the hosts, 127.0.0.1 by default. It prints, with other
// ports:
//
//     3 daemons and 6 back ends are up
//     daemon 0 on node1 listens on 127.0.0.1:40001, below the front end
//     daemon 1 on node2 listens on 127.0.0.1:40002, below daemon 0
//     daemon 2 on node3 listens on 127.0.0.1:40003, below daemon 0
//     all 9 processes have detached
//     the squares of the ranks of 6 back ends add up to 55
//     all have ended
//
//       front end                       daemons                          back ends
//         topology, to both  -------->  master recv, broadcast  ------>  master recv, broadcast
//         ports  <--------------------  gather, master send
//         table, to both  ----------->  master recv, broadcast  ------>  master recv, broadcast
//         waits until all have detached detach                           detach
//         frees libi's objects          =================== own connections ====================
//         go  ----------------------->  go  -------------------------->
//         prints  <-------------------  sum  <-------------------------  square of the rank
//         end  ---------------------->  end  ------------------------->  ends
//
// No process is left behind: one that has not detached ends with the front end by libi; one that has
// detached ends when the connection to its parent breaks or times out. The program is its own member:
// started by hand it is the front end.

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <iostream>
#include <random>
#include <sstream>
#include <system_error>

#include <libi.hpp>

using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

/// Timeout of calls of libi.
constexpr auto timeout = 20s;
/// Timeout of reads from peers: longer than the front end waits for the last process to detach.
constexpr auto read_timeout = 30s;

constexpr std::uint32_t daemons = 1, back_ends = 2;

// Messages on the own connections: numbers of 8 bytes.
constexpr std::uint64_t go = 1, end = 2;

[[noreturn]] void fail(const char *what) { throw std::system_error(errno, std::generic_category(), what); }

[[noreturn]] void complain(const std::string &what) { throw std::runtime_error(what); }

/// A place on the network: numbers alone, so that no process has to look up a name.
sockaddr_in place(const std::string &address, std::uint16_t port) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(port);
    if (inet_pton(AF_INET, address.c_str(), &place.sin_addr) != 1) complain("no address: " + address);
    return place;
}

/// The place that a text such as "127.0.0.1:4711" is.
sockaddr_in place(const std::string &text) {
    auto colon = text.rfind(':');
    if (colon == std::string::npos) complain("no port: " + text);
    return place(text.substr(0, colon), static_cast<std::uint16_t>(std::stoul(text.substr(colon + 1))));
}

/// A socket. Whatever waits has a deadline.
class connection {
public:
    explicit connection(int type = SOCK_STREAM) : descriptor(::socket(AF_INET, type | SOCK_CLOEXEC, 0)) {
        if (descriptor < 0) fail("no socket");
    }
    connection(connection &&other) noexcept : descriptor(std::exchange(other.descriptor, -1)) {}
    connection &operator=(connection &&) = delete;
    ~connection() {
        if (descriptor >= 0) ::close(descriptor);
    }

    void connect(const sockaddr_in &to) {
        // A host that does not answer at all is given up by then, too.
        timeval most{std::chrono::seconds(read_timeout).count(), 0};
        ::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
        if (::connect(descriptor, reinterpret_cast<const sockaddr *>(&to), sizeof to) < 0)
            fail("no connection to the parent");
    }
    void listen(const std::string &address) {
        sockaddr_in here = place(address, 0);
        if (::bind(descriptor, reinterpret_cast<const sockaddr *>(&here), sizeof here) < 0)
            fail("cannot bind");
        if (::listen(descriptor, SOMAXCONN) < 0) fail("cannot listen");
    }
    /// Which address and port this end has.
    std::pair<std::string, std::uint16_t> name() const {
        sockaddr_in here{};
        socklen_t length = sizeof here;
        char text[INET_ADDRSTRLEN];
        if (::getsockname(descriptor, reinterpret_cast<sockaddr *>(&here), &length) < 0) fail("no name");
        return {inet_ntop(AF_INET, &here.sin_addr, text, sizeof text), ntohs(here.sin_port)};
    }
    std::string text() const { return name().first + ":" + std::to_string(name().second); }

    /// The next one that connects and knows the secret: anybody may try.
    connection accept(std::uint64_t secret) const {
        for (auto until = steady_clock::now() + read_timeout;;) {
            wait(until);
            connection peer(::accept4(descriptor, nullptr, nullptr, SOCK_CLOEXEC), 0);
            try {
                if (peer.read(1s) == secret) return peer;
            } catch (const std::exception &) {
                // It is none of ours.
            }
        }
    }
    void write(std::uint64_t word) const {
        word = htobe64(word);
        // Without MSG_NOSIGNAL a peer that is gone would end this process by SIGPIPE.
        if (::send(descriptor, &word, sizeof word, MSG_NOSIGNAL) != sizeof word) fail("a peer is gone");
    }
    std::uint64_t read(steady_clock::duration most = read_timeout) const {
        std::uint64_t word = 0;
        auto until = steady_clock::now() + most;
        for (std::size_t had = 0; had < sizeof word;) {
            wait(until);
            ssize_t more = ::recv(descriptor, reinterpret_cast<char *>(&word) + had, sizeof word - had, 0);
            if (more < 0) fail("a peer is gone");
            if (more == 0) complain("a peer has ended");
            had += static_cast<std::size_t>(more);
        }
        return be64toh(word);
    }
    void expect(std::uint64_t wanted) const {
        if (read() != wanted) complain("a peer says what makes no sense");
    }
    /// Waits until the peer has closed it.
    void expect_end() const {
        char byte;
        wait(steady_clock::now() + read_timeout);
        if (::recv(descriptor, &byte, 1, 0) != 0) complain("a peer has not ended as it should");
    }

private:
    connection(int descriptor, int) : descriptor(descriptor) {
        if (descriptor < 0) fail("cannot accept");
    }
    void wait(steady_clock::time_point until) const {
        for (;;) {
            auto left =
                std::chrono::duration_cast<std::chrono::milliseconds>(until - steady_clock::now()).count();
            pollfd one{descriptor, POLLIN, 0};
            int found = left > 0 ? ::poll(&one, 1, static_cast<int>(left)) : 0;
            if (found > 0) return;
            if (found == 0) complain("a peer has kept us waiting for too long");
            if (errno != EINTR) fail("poll");
        }
    }
    int descriptor;
};

/// Who is below whom. As text: a line "ROLE RANK PARENT" for each process, where -1 is the front end.
struct topology {
    struct node {
        std::uint32_t role, rank;
        int parent; // the rank of a daemon
    };
    std::vector<node> nodes;

    static topology of(const libi::layout &daemons_at, const libi::layout &back_ends_at) {
        topology all;
        for (std::uint32_t rank = 0; rank < daemons_at.size(); rank++)
            all.nodes.push_back({daemons, rank, rank == 0 ? -1 : static_cast<int>((rank - 1) / 2)});
        for (std::uint32_t rank = 0; rank < back_ends_at.size(); rank++) {
            // The daemon of its own host, if there is one.
            std::uint32_t parent = rank % daemons_at.size();
            for (std::uint32_t daemon = 0; daemon < daemons_at.size(); daemon++)
                if (daemons_at.host_name_of(daemon) == back_ends_at.host_name_of(rank)) parent = daemon;
            all.nodes.push_back({back_ends, rank, static_cast<int>(parent)});
        }
        return all;
    }
    static topology read(std::istream &text) {
        topology all;
        for (node one; text >> one.role >> one.rank >> one.parent;) all.nodes.push_back(one);
        return all;
    }
    std::string text() const {
        std::ostringstream text;
        for (const node &one : nodes) text << one.role << ' ' << one.rank << ' ' << one.parent << '\n';
        return text.str();
    }
    int parent(std::uint32_t role, std::uint32_t rank) const {
        for (const node &one : nodes)
            if (one.role == role && one.rank == rank) return one.parent;
        complain("the topology has no place for this process");
    }
    std::size_t children(std::uint32_t daemon) const {
        std::size_t count = 0;
        for (const node &one : nodes) count += one.parent == static_cast<int>(daemon);
        return count;
    }
};

/// Which address of this machine leads to that one.
std::string address_towards(const std::string &there) {
    connection probe(SOCK_DGRAM); // nothing is sent
    probe.connect(place(there, 9));
    return probe.name().first;
}

/// The next message of the front end, which only the master receives and broadcasts to the others.
std::string broadcast_from_front_end(libi::member &me) {
    std::string message = me.is_master() ? me.recv(timeout).str() : "";
    return me.broadcast(0, message, timeout).str();
}

/// The member.
void serve(libi::member me, std::uint32_t role) {
    std::istringstream order(broadcast_from_front_end(me));
    std::string front_end;
    order >> front_end;
    topology all = topology::read(order);
    std::uint32_t rank = me.rank();
    int parent = all.parent(role, rank);

    connection listener;
    if (role == daemons) {
        listener.listen(address_towards(front_end));
        libi::data ports = me.gather(0, listener.text() + "\n", timeout);
        std::string table;
        for (std::size_t i = 0; i < ports.size(); i++) table += ports.str(i); // at the master alone
        if (me.is_master()) me.send(table, timeout);
    }
    std::istringstream table(broadcast_from_front_end(me));
    std::uint64_t secret = 0;
    std::string where;
    table >> secret;
    for (int line = -1; line <= parent; line++) table >> where;
    me.detach(timeout);

    // From here on this process survives the front end. Until all have detached, others may still reach
    // the front end through it; then the message comes.
    connection up;
    up.connect(place(where));
    up.write(secret);
    up.expect(go);
    me.reset();

    std::vector<connection> down;
    std::size_t children = role == daemons ? all.children(rank) : 0;
    while (down.size() < children) down.push_back(listener.accept(secret));
    for (const connection &child : down) child.write(go);
    std::uint64_t sum = role == back_ends ? std::uint64_t{rank} * rank : 0;
    for (const connection &child : down) sum += child.read();
    up.write(sum);
    up.expect(end);
    for (const connection &child : down) child.write(end);
    for (const connection &child : down) child.expect_end();
}

/// Waits until all members of both sessions have detached.
void wait_until_detached(libi::front_end &front, std::size_t processes) {
    std::size_t detached = 0;
    while (auto event = front.next_event(timeout)) {
        std::string name =
            (event.session() == daemons ? "daemon " : "back end ") + std::to_string(event.rank());
        switch (event.kind()) {
        case LIBI_EVENT_OUTPUT: std::cerr << name << ": " << event.output().str(); break;
        case LIBI_EVENT_EXITED: complain(name + " has ended early");
        case LIBI_EVENT_LOST: complain(event.host_name() + " is lost: " + event.failure());
        case LIBI_EVENT_DETACHED: detached++; break;
        default: break; // later versions may have more kinds
        }
        if (detached == processes) return;
    }
    complain("not all processes have detached in time");
}

/// The messages by libi. The secret authenticates the later connections; libi keeps it confidential.
void exchange(libi::front_end &front, std::vector<libi::session> &sessions, const connection &listener,
              std::uint64_t secret) {
    std::size_t processes = sessions[0].size() + sessions[1].size();
    std::cout << sessions[0].size() << " daemons and " << sessions[1].size() << " back ends are up"
              << std::endl;

    libi::layout at = sessions[0].layout();
    topology all = topology::of(at, sessions[1].layout());
    for (libi::session &session : sessions) session.send(listener.name().first + "\n" + all.text(), timeout);

    std::string ports = sessions[0].recv(timeout).str(), port;
    std::istringstream lines(ports);
    for (std::uint32_t rank = 0; lines >> port; rank++) {
        int parent = all.parent(daemons, rank);
        std::cout << "daemon " << rank << " on " << at.host_name_of(rank) << " listens on " << port
                  << ", below " << (parent < 0 ? "the front end" : "daemon " + std::to_string(parent))
                  << std::endl;
    }

    std::string table = std::to_string(secret) + "\n" + listener.text() + "\n" + ports;
    for (libi::session &session : sessions) session.send(table, timeout);
    wait_until_detached(front, processes);
    std::cout << "all " << processes << " processes have detached" << std::endl;
}

/// The front end.
void launch(const std::string &daemon_hosts, const std::string &back_end_hosts, const std::string &shell,
            const std::string &address) {
    char program[PATH_MAX];
    ssize_t length = ::readlink("/proc/self/exe", program, sizeof program);
    if (length < 0 || length == sizeof program) fail("/proc/self/exe");
    std::string self(program, static_cast<std::size_t>(length));
    connection listener;
    listener.listen(address);
    std::random_device random;
    std::uint64_t secret = std::uint64_t{random()} << 32 | random();

    libi::options how;
    if (shell.empty()) how.backend(LIBI_BACKEND_LOCAL);
    else if (shell == "ssh") how.backend(LIBI_BACKEND_SSH);
    else how.backend(LIBI_BACKEND_SHELL, shell);
    libi::distribution for_daemons(daemons, self), for_back_ends(back_ends, self);
    for_daemons.host_list(daemon_hosts).arg("daemon");
    for_back_ends.host_list(back_end_hosts).arg("back-end");
    libi::front_end front;
    std::vector<libi::session> sessions = front.launch({for_daemons, for_back_ends}, how);
    std::size_t leaves = sessions[1].size();
    try {
        exchange(front, sessions, listener, secret);
    } catch (const libi::error &) {
        // The output of a member that has ended may explain it.
        while (auto event = front.next_event(100ms)) std::cerr << event.output().str();
        throw;
    }
    sessions.clear();
    front.reset();

    connection root = listener.accept(secret);
    root.write(go);
    std::cout << "the squares of the ranks of " << leaves << " back ends add up to " << root.read()
              << std::endl;
    root.write(end);
    root.expect_end();
    std::cout << "all have ended" << std::endl;
}

} // namespace

int main(int argc, char **argv) try {
    std::vector<std::string> words(argv + 1, argv + argc), lists;
    if (libi::member me = libi::member::init()) {
        serve(std::move(me), words.at(0) == "daemon" ? daemons : back_ends);
        return 0;
    }
    std::string shell, address = "127.0.0.1";
    for (std::size_t i = 0; i < words.size(); i++) {
        if (words[i] == "--shell" && i + 1 < words.size()) shell = words[++i];
        else if (words[i] == "--address" && i + 1 < words.size()) address = words[++i];
        else lists.push_back(words[i]);
    }
    if (lists.size() > 2 || (!lists.empty() && lists[0].substr(0, 1) == "-")) {
        std::cerr << "usage: " << argv[0] << " [--shell ssh] [--address ADDRESS] [DAEMONS [BACK_ENDS]]\n";
        return 2;
    }
    if (lists.empty()) lists = {"node[1-3]", "node[2-4]:2"};
    launch(lists.front(), lists.back(), shell, address);
    return 0;
} catch (const std::exception &error) {
    std::cerr << error.what() << std::endl;
    return 1;
}
