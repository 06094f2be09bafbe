// The same in C++: `job LAUNCHER... -- PROGRAM...`; see job.c.
#include <iostream>
#include <libi.hpp>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using std::chrono::seconds;

static int serve(libi::member &member)
{
    libi::targets targets = member.targets(seconds(60));
    if (member.release_when_told(targets, seconds(60)) != targets.size() - 1) return 71;
    targets.release(targets.size() - 1, seconds(60));
    std::uint32_t rank = 0;
    std::size_t ended = 0;
    while (targets.next_end(rank, seconds(60))) ++ended;
    member.drain(seconds(60));
    return ended == targets.size() && !targets.entry(0).is_running ? 0 : 72;
}

static int control(const std::vector<std::string> &launcher, const std::vector<std::string> &program)
{
    libi::job job = libi::job::launch(launcher, program, seconds(30), seconds(60));
    libi::front_end front;
    char self[4096] = "";
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return 73;
    libi::options here;
    here.backend(LIBI_BACKEND_LOCAL);
    libi::session session = front.launch_beside(job, libi::distribution(0, self), here);
    libi::processes all = session.processes_of(job, seconds(60));
    if (all.size() != job.processes().size() || job.hosts().size() != 1) return 74;
    here.agent(self);
    libi::watch watch = libi::watch::of(job, here);
    libi_watch_event_info event;
    if (watch.next(event, seconds(0))) return 78;
    std::vector<std::uint32_t> ranks;
    for (std::size_t nth = 0; nth + 1 < all.size(); ++nth) ranks.push_back(all.entry(nth).rank);
    session.release(ranks, seconds(60));
    int status = 0;
    if (!job.wait(seconds(60), &status)) return 75;
    std::size_t events = 0;
    while (watch.next(event, seconds(60))) ++events;
    if (events != all.size() + 1) return 79;
    std::cout << "ended with status " << WEXITSTATUS(status) << std::endl;
    session.wait_done(seconds(60));
    return 0;
}

int main(int argc, char **argv)
{
    try {
        libi_agent_serve_if_asked();
        if (libi::member member = libi::member::init()) return serve(member);
        try {
            libi::job::attach(getpid(), seconds(0));
            return 76;
        } catch (const libi::error &error) {
            if (error.code() != LIBI_ERR_NOT_ATTACHED) return 77;
        }
        std::vector<std::string> words[2];
        int side = 0;
        for (int at = 1; at < argc; ++at) {
            if (side == 0 && std::string(argv[at]) == "--") side = 1;
            else words[side].push_back(argv[at]);
        }
        return control(words[0], words[1]);
    } catch (const std::exception &error) {
        std::cerr << error.what() << std::endl;
        return 70;
    }
}
