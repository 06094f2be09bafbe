// Calls everything in include/libi.hpp once. The program is its own member.

#include <array>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <type_traits>

#include <unistd.h>

#include <libi.hpp>

using namespace std::chrono_literals;

#define CHECK(what)                                                                                  \
    do {                                                                                             \
        if (!(what)) {                                                                               \
            std::cerr << __FILE__ << ":" << __LINE__ << ": false: " << #what << std::endl;          \
            std::exit(1);                                                                            \
        }                                                                                            \
    } while (0)

namespace {

constexpr auto soon = 20s;

template <class T> constexpr bool moves_alone =
    !std::is_copy_constructible<T>::value && !std::is_copy_assignable<T>::value &&
    std::is_nothrow_move_constructible<T>::value && std::is_nothrow_move_assignable<T>::value;
static_assert(moves_alone<libi::hosts> && moves_alone<libi::distribution> &&
                  moves_alone<libi::options> && moves_alone<libi::event> &&
                  moves_alone<libi::layout> && moves_alone<libi::report> &&
                  moves_alone<libi::data> && moves_alone<libi::pending> && moves_alone<libi::losses> &&
                  moves_alone<libi::session> && moves_alone<libi::front_end> && moves_alone<libi::member>,
              "each has its object for itself");

/// The code and the text of what is thrown.
template <class Body> libi::error thrown(Body body) {
    try {
        body();
    } catch (const libi::error &error) {
        return error;
    }
    return libi::error(LIBI_OK, "nothing was thrown");
}
bool says(const libi::error &error, const char *part) {
    return std::string(error.what()).find(part) != std::string::npos;
}

void descriptions() {
    libi::hosts list("n[1-2]:2");
    list.add_list("n3").add_file_text("n4 # a comment\n").add_host("n5", 3);
    CHECK(list.size() == 5 && list.processes() == 9 && std::string(list.entry(4).name) == "n5");
    CHECK(list.entry(4).processes == 3 && !list.entry(5).name);
    CHECK(list.place(4, LIBI_PLACE_CYCLIC).fold() == "n[1-4]:1" || list.processes() == 4);
    libi::error wrong = thrown([&] { list.add_list("n[1"); });
    CHECK(wrong.code() == LIBI_ERR_HOSTS && says(wrong, "never closed") && list.processes() == 4);
    CHECK(!libi::hosts().add_job());

    libi_hosts *behind = list.get();
    libi::hosts moved = std::move(list);
    CHECK(!list && moved && moved.get() == behind && list.size() == 0);
    list = std::move(moved);
    CHECK(list.get() == behind && !moved);
    moved.reset(list.release());
    CHECK(!list && moved.get() == behind);
    CHECK(thrown([&] { list.add_list("n1"); }).code() == LIBI_ERR_NULL);
    CHECK(says(thrown([&] { list.add_list("n1"); }), "NULL"));

    CHECK(thrown([] { libi::distribution(0, "x").env("a=b", "c"); }).code() == LIBI_ERR_ARGUMENT);
    CHECK(thrown([] { libi::options().ssh_option("BatchMode=yes"); }).code() == LIBI_ERR_STATE);
    libi::options how;
    how.min_hosts(0).min_hosts(1).settle(1s).spares(libi::hosts("n1"))
        .local_hosts(libi::hosts()).deadline(5s).rule(LIBI_RULE_KILL_GRACE, 100ms)
        .rule(LIBI_RULE_ATTEMPTS, 1).front_end_launches(8);
    how.input_to_all().input().output(LIBI_OUTPUT_EVENTS)
        .output(LIBI_OUTPUT_FILES, "/nowhere")
        .output(LIBI_OUTPUT_DISCARD).links(LIBI_LINKS_CHANNEL).engine(LIBI_ENGINE_APART);
    how.allow_plain().front_end_limits().backend(LIBI_BACKEND_RSH).backend(LIBI_BACKEND_SHELL, "x");
    how.backend(LIBI_BACKEND_SSH).ssh_option("BatchMode=yes").backend(LIBI_BACKEND_LOCAL);
    CHECK(libi_options_rule(how.get(), LIBI_RULE_KILL_GRACE) == 100 &&
        libi_options_rule(how.get(), LIBI_RULE_ATTEMPTS) == 1);

    std::array<std::uint16_t, 2> numbers{{1, 2}};
    CHECK(libi::bytes(numbers).size() == 4 && libi::bytes(std::string("a\0b", 3)).size() == 3 &&
        libi::bytes("abc").size() == 3);
    CHECK(libi::bytes().str().empty() && libi::bytes(libi::bytes("abc")).str() == "abc");
}

/// What a member of the first session does: each call, and whether it is as it should be.
void talk(libi::member &me) {
    std::uint32_t rank = me.rank(), size = me.size();
    CHECK(size == 4 && me.is_master() == (rank == 0) && me.host() == rank / 2 &&
        me.host_name() == (rank < 2 ? "a" : "b") && me.ranks(LIBI_RANKS_ABSENT).empty());
    libi::data order = me.is_master() ? me.recv(soon) : libi::data();
    CHECK(me.broadcast(0, order.str(), soon).str() == "begin");

    std::string mine(rank, 'x');
    libi::data all = me.gather(1, mine, soon);
    CHECK(rank == 1 ? all.size() == 4 && all.str(3) == "xxx" : !all && all.size() == 0);
    all = me.allgather(mine, soon);
    CHECK(all.size() == 4 && all[2].size() == 2 && all.str(0).empty());
    std::vector<libi::bytes> parts;
    for (const char *part : {"zero", "one", "two", ""}) parts.push_back(part);
    CHECK(me.scatter(3, rank == 3 ? parts : std::vector<libi::bytes>(), soon).str() == parts[rank].str());
    all = me.alltoall(parts, soon);
    CHECK(all.size() == 4 && all.str(0) == parts[rank].str() && all.str(3) == parts[rank].str());
    CHECK((me.allreduce<double>(LIBI_OP_SUM, {1.5, double(rank)}, soon) == std::vector<double>{6.0, 6.0}));
    auto most = me.reduce<std::uint64_t>(2, LIBI_OP_MAX, {rank}, soon);
    CHECK(most[0] == (rank == 2 ? 3 : rank));
    CHECK(me.scan<std::int32_t>(LIBI_OP_SUM, {std::int32_t(rank) + 1},
        soon)[0] == std::int32_t((rank + 1) * (rank + 2) / 2));
    CHECK(me.exscan<float>(LIBI_OP_MAX, {float(rank)}, soon)[0] == (rank == 0 ? 0 : float(rank - 1)));
    CHECK(thrown([&] { me.send_to(9, 7, "x", soon); }).code() == LIBI_ERR_NO_SUCH_PEER);

    me.send_to((rank + 1) % size, 7, std::vector<std::uint32_t>{rank, 99}, soon);
    CHECK((me.recv_from((rank + 3) % size, 7, soon).numbers<std::uint32_t>() ==
        std::vector<std::uint32_t>{(rank + 3) % size, 99}));
    CHECK(thrown([&] { me.recv_from((rank + 3) % size, 7, -1s); }).code() == LIBI_ERR_TIMED_OUT);

    me.put("key " + std::to_string(rank), mine, LIBI_KEY_REPLICATED, soon);
    me.fence(soon);
    libi::data found = me.find("key 3", soon);
    CHECK(found && found.str() == "xxx" && !me.find("no such key", soon) &&
        me.get_value("key 1", libi::forever).str() == "x");

    libi::pending barrier = me.start_barrier();
    while (!barrier.poll()) continue;
    CHECK(!barrier.take());
    CHECK(me.start_broadcast(0, "word").wait(soon).str() == "word");
    libi::pending gathered = me.start_gather(0, mine), of_all = me.start_allgather(mine),
        fence = me.start_fence();
    CHECK(fence.wait_for(soon) && of_all.wait(soon).size() == 4 &&
        gathered.wait(soon).size() == (rank ? 0U : 4U));
    libi_pending *finding = nullptr;
    CHECK(libi_member_start_find(me.get(), "no such key", &finding) == LIBI_OK);
    CHECK(!libi::pending(finding).wait(soon));
    me.gather_to_front(me.broadcast_from_front(soon).str() + mine, soon);
    libi::pending never = me.start_recv();
    if (!me.is_master()) {
        CHECK(thrown([&] { never.wait(soon); }).code() == LIBI_ERR_NOT_MASTER);
    } else {
        CHECK(!never.wait_for(1ms) && me.next_timeout() == libi::forever);
        never.cancel();
        CHECK(thrown([&] { never.poll(); }).code() == LIBI_ERR_CANCELLED);
    }
    if (me.is_master()) {
        me.start_send("all is well").wait(soon);
        me.send("truly", soon);
    }
    me.barrier(soon);
}

/// One member is killed, one exits, and the others know how.
void lose(libi::member &me) {
    CHECK(me.losses() && me.losses().size() == 0);
    me.barrier(soon);
    if (me.rank() == 1) std::raise(SIGKILL);
    if (me.rank() == 3) std::_Exit(7);
    me.barrier(soon);
    libi::losses losses = me.losses();
    std::size_t killed = losses.ranks(0) == std::vector<std::uint32_t>{1} ? 0 : 1, exited = 1 - killed;
    CHECK(losses.size() == 2 && losses.ranks(killed) == std::vector<std::uint32_t>{1} &&
        losses.ranks(exited) == std::vector<std::uint32_t>{3} && losses.ranks(2).empty());
    libi_losses_entry_info how = losses.entry(killed);
    CHECK(how.kind == LIBI_LOSS_KILLED && how.exit_value == SIGKILL && how.members == 1 && !how.is_leader);
    how = losses.entry(exited);
    CHECK(how.kind == LIBI_LOSS_EXITED && how.exit_value == 7 && how.members == 1 && !how.is_leader);
    CHECK(losses.host_name(killed) == "a" && losses.host_name(exited) == "b" && losses.host_name(2).empty());
    CHECK(losses.text(killed) == "rank 1 on a was killed by signal 9" &&
        losses.text(exited) == "rank 3 on b exited 7");
    me.barrier(soon);
}

/// One member is killed, and comes back.
void come_back(libi::member &me) {
    CHECK((me.first_call(soon) == 0) == (me.restarts() == 0));
    while (me.allreduce(LIBI_OP_MAX, std::vector<std::uint32_t>{me.restarts()}, soon)[0] == 0)
        if (me.rank() == 1) std::raise(SIGKILL);
}

/// The master is killed, and the next rank is one.
void lead(libi::member &me) {
    CHECK(me.master() == 0 && me.is_master() == (me.rank() == 0));
    me.barrier(soon);
    if (me.rank() == 0) std::raise(SIGKILL);
    me.barrier(soon);
    CHECK(me.master() == 1 && me.is_master() == (me.rank() == 1));
    me.barrier(soon);
}

/// Others join, until there are four.
void grow(libi::member &me) {
    CHECK((me.first_call(soon) == 0) == (me.rank() < 2));
    while (me.allreduce(LIBI_OP_SUM, std::vector<std::uint32_t>{1}, soon)[0] < 4) CHECK(me.size() <= 4);
    CHECK(me.size() == 4);
}

int serve(libi::member me, const std::string &role) {
    if (role == "talks") talk(me);
    if (role == "loses") lose(me);
    if (role == "comes back") come_back(me);
    if (role == "leads") lead(me);
    if (role == "grows") grow(me);
    if (role == "waits") me.recv_from(me.rank(), 0, libi::forever);
    std::cout << "rank " << me.rank() << std::endl;
    if (role == "leaves") me.detach(soon);
    else me.drain(soon);
    return 0;
}

/// All hosts are this machine.
libi::options local() {
    libi::options options;
    options.backend(LIBI_BACKEND_LOCAL);
    return options;
}

/// A session that goes on without two of its members.
void losses(const std::string &self) {
    libi::distribution loses(7, self);
    loses.host_list("a:2,b:2").arg("loses");
    libi::front_end front;
    libi::session session = front.launch(loses, local().on_loss(LIBI_ON_LOSS_CONTINUE));
    int well = 0, killed = 0, failed = 0;
    while (libi::event event = front.next_event(soon)) {
        if (event.kind() == LIBI_EVENT_OUTPUT && event.stream() == 2) std::cerr << event.output().str();
        if (event.kind() == LIBI_EVENT_EXITED) {
            well += event.exit() == LIBI_EXIT_CODE && event.exit_value() == 0;
            failed += event.exit() == LIBI_EXIT_CODE && event.exit_value() == 7 && event.rank() == 3;
            killed += event.exit() == LIBI_EXIT_SIGNAL && event.exit_value() == SIGKILL && event.rank() == 1;
        }
        if (event.kind() == LIBI_EVENT_DONE) break;
    }
    CHECK(well == 2 && killed == 1 && failed == 1);
}

/// A session one of whose members is restarted.
void restarts(const std::string &self) {
    libi::distribution comes(8, self);
    comes.host_list("a:2,b:2").arg("comes back");
    libi::front_end front;
    libi::session session = front.launch(comes, local().on_loss(LIBI_ON_LOSS_CONTINUE).restarts(0));
    int well = 0, restarted = 0, refused = 0;
    session.request_restart(99);
    session.request_restart_on(99, "c");
    CHECK(thrown([&] { session.restart_on(1, "c", soon); }).code() == LIBI_ERR_NOT_RESTARTED);
    while (libi::event event = front.next_event(soon)) {
        if (event.kind() == LIBI_EVENT_OUTPUT && event.stream() == 2) std::cerr << event.output().str();
        restarted += event.kind() == LIBI_EVENT_RESTARTED && event.rank() == 1;
        refused += event.kind() == LIBI_EVENT_NOT_RESTARTED && event.rank() == 99;
        if (event.kind() == LIBI_EVENT_EXITED) {
            well += event.exit() == LIBI_EXIT_CODE && event.exit_value() == 0;
            if (event.exit() == LIBI_EXIT_SIGNAL) session.restart(1, soon);
        }
        if (event.kind() == LIBI_EVENT_DONE) break;
    }
    CHECK(well == 4 && restarted == 1 && refused == 2);
}

/// A session that outlives its front end, which this program keeps.
void keeping(const std::string &self, const std::string &keeper) {
    const std::string ticket = "objects." + std::to_string(getpid()) + ".ticket";
    libi::distribution comes(11, self);
    comes.host_list("a:2").arg("waits");
    {
        libi::front_end front;
        libi::session session = front.launch(comes, local().detached(ticket, 600s).keeper("", keeper, false));
        CHECK(session.size() == 2);
    }
    libi::front_end front;
    libi::session session = front.attach(ticket, soon);
    CHECK(session.size() == 2 && session.info().missed == 0);
    session.terminate(100ms);
    libi::error gone = thrown([&] { front.attach(ticket + ".none", soon); });
    CHECK(gone.code() == LIBI_ERR_NOT_ATTACHED && says(gone, "cannot be read"));
}

/// A session whose master is replaced.
void masters(const std::string &self) {
    libi::distribution leads(10, self);
    leads.host_list("a:2,b:2").arg("leads");
    libi::front_end front;
    libi::options options = local();
    options.on_loss(LIBI_ON_LOSS_CONTINUE).replace_master();
    libi::session session = front.launch(leads, options);
    int well = 0, replaced = 0;
    while (libi::event event = front.next_event(soon)) {
        if (event.kind() == LIBI_EVENT_OUTPUT && event.stream() == 2) std::cerr << event.output().str();
        well += event.kind() == LIBI_EVENT_EXITED && event.exit() == LIBI_EXIT_CODE && event.exit_value() == 0;
        replaced += event.kind() == LIBI_EVENT_MASTER_REPLACED && event.rank() == 1;
        if (event.kind() == LIBI_EVENT_DONE) break;
    }
    CHECK(well == 3 && replaced == 1 && session.master() != 0);
}

/// A session that grows twice.
void grows(const std::string &self) {
    libi::distribution grows(9, self), more(9, self), last(9, self);
    grows.host_list("a,b").arg("grows");
    more.host_list("c").arg("grows");
    last.host_list("d").arg("grows");
    libi::front_end front;
    libi::session session = front.launch(grows, local().on_loss(LIBI_ON_LOSS_CONTINUE));
    libi_growth growth = session.add(more);
    CHECK(growth.first_rank == 2 && growth.ranks == 1 && growth.absent == 0 && session.size() == 3);
    session.request_add({last});
    int well = 0, grown = 0;
    while (libi::event event = front.next_event(soon)) {
        if (event.kind() == LIBI_EVENT_OUTPUT && event.stream() == 2) std::cerr << event.output().str();
        well += event.kind() == LIBI_EVENT_EXITED && event.exit() == LIBI_EXIT_CODE && event.exit_value() == 0;
        grown += event.kind() == LIBI_EVENT_GROWN;
        if (event.kind() == LIBI_EVENT_DONE) break;
    }
    CHECK(well == 4 && grown == 2 && session.size() == 4);
}

void front(const std::string &self) {
    libi::distribution talks(5, self), leaves(6, self);
    talks.host_list("a:2,b:2").arg("talks").env("X", "y").directory("/");
    leaves.hosts(libi::hosts("c")).arg("leaves");
    libi::front_end front;
    CHECK(!front.report() && front.descriptor() >= 0 && front.next_timeout() == libi::forever &&
        !front.next_event(0s));
    std::vector<libi::session> both = front.launch({talks, leaves}, local());
    CHECK(both.size() == 2 && both[0].number() == 5 && both[0].size() == 4 && both[1].number() == 6);
    CHECK(both[0].report().is_up() && both[0].report().hosts() == 2 && both[0].report().joined() == 2);
    CHECK(both[0].report().took() > 0us && both[0].report().failure(0).empty());
    CHECK(both[0].report().text().find("2 hosts joined with 4 members") != std::string::npos);
    CHECK(!both[0].report().json().empty() && !both[0].report().svg().empty());
    libi::layout where = both[0].layout();
    CHECK(where.size() == 4 && where.hosts() == 2 && where.host_name(1) == "b" &&
        where.host_name_of(1) == "a" && where.host_name_of(4).empty());
    both[0].start_send("begin").wait(soon);
    libi::pending well = both[0].start_recv();
    both[0].broadcast("all ", soon);
    libi::data all = both[0].gather(soon);
    CHECK(all.size() == 4 && all.str(3) == "all xxx");
    try {
        CHECK(well.wait(soon).str() == "all is well" && both[0].recv(soon).str() == "truly");
    } catch (const libi::error &error) {
        std::cerr << error.what() << std::endl;
        // a member has said why
        while (libi::event event = front.next_event(0s)) std::cerr << event.output().str();
        std::exit(1);
    }

    int done = 0, exited = 0, detached = 0, printed = 0;
    while (libi::event event = front.next_event(soon)) {
        printed += event.kind() == LIBI_EVENT_OUTPUT && event.stream() == 1 &&
            event.output().str().substr(0, 5) == "rank ";
        exited += event.kind() == LIBI_EVENT_EXITED && event.exit() == LIBI_EXIT_CODE &&
            event.exit_value() == 0;
        detached += event.kind() == LIBI_EVENT_DETACHED && event.session() == 6 && event.rank() == 0;
        CHECK(event.kind() != LIBI_EVENT_LOST && event.failure().empty() && !event.text().empty());
        CHECK(event.host_name().empty() == (event.kind() != LIBI_EVENT_EXITED));
        if (event.kind() == LIBI_EVENT_DONE && ++done == 2) break;
    }
    CHECK(done == 2 && exited == 4 && detached == 1 && printed == 5);
    both[0].wait_done(soon);
    CHECK(both[0].ranks(LIBI_RANKS_ENDED).size() == 4 && both[0].ranks(LIBI_RANKS_LOST).empty());

    // A loop of one's own, and sessions that end in different ways.
    libi::front_end looped(LIBI_PROGRESS_MANUAL);
    libi::distribution waits(7, self);
    waits.host_list("a:2").arg("waits");
    libi::session session = looped.start(waits, local().input());
    while (session.stage() == LIBI_STAGE_LAUNCHING) looped.dispatch();
    session.wait_up(soon);
    session.write("nobody reads this", soon);
    session.close_input();
    CHECK(thrown([&] { session.wait_done(0s); }).code() == LIBI_ERR_TIMED_OUT);
    session.kill(9);
    session.wait_done(soon);
    session = looped.launch(waits, local());
    session.terminate(1s);
    CHECK(session.stage() == LIBI_STAGE_OVER && thrown([&] { session.send("x", soon); }).code() != LIBI_OK);

    libi::error failed = thrown([&] {
        front.launch(libi::distribution(8, "/no/such/program").host_list("a"), local());
    });
    CHECK(failed.code() == LIBI_ERR_NOT_LAUNCHED && says(failed, "a"));
    CHECK(front.report() && !front.report().is_up() && !front.report().failure(0).empty());
    CHECK(thrown([] { libi::front_end(static_cast<libi_progress>(99)); }).code() == LIBI_ERR_ARGUMENT);
    CHECK(std::string(libi::error(LIBI_ERR_BUSY, "").what()) == libi_result_text(LIBI_ERR_BUSY));
}

} // namespace

int main(int argc, char **argv) {
    libi_agent_serve_if_asked(); // this program keeps the sessions of keeping()
    if (libi::member me = libi::member::init()) return serve(std::move(me), argc > 1 ? argv[1] : "");
    CHECK(!libi::member::init());
    descriptions();
    front(argv[0]);
    losses(argv[0]);
    restarts(argv[0]);
    keeping(argv[0], "");
    keeping(argv[0], argv[0]);
    masters(argv[0]);
    grows(argv[0]);
    std::cout << "objects: all as they should be" << std::endl;
}
