//! Members on hosts that rsh reaches do everything that members can do together.

use libi::{Exit, FrontEnd, LinkPolicy, Stream};
use libi_core::plan::Strategy;

use crate::options;
use libi_testkit::labs::{Marked, Rshd};
use libi_testkit::local::{Heard, launch_with};
use libi_testkit::operations;

const HOSTS: &str = "127.0.1.[1-16]:2";

/// Whether hosts have launched each other, which is `deep`, or all of them were launched by one.
fn all_operations_come_out(links: LinkPolicy, strategy: &str, deep: bool) {
    let Some(lab) = Rshd::up() else { return };
    let strategy: Strategy = strategy.parse().unwrap();
    let options = options(lab.backend("main")).links(links).strategy(strategy);
    let (report, _) = operations::all_come_out(&lab.member(), HOSTS, 32, &options);
    let mut launchers: Vec<_> = report.hosts().iter().map(|host| host.launcher).collect();
    launchers.sort_unstable();
    launchers.dedup();
    assert_eq!(launchers.len() > 2, deep, "{launchers:?}");
    lab.nothing_is_left();
}

#[test]
fn two_members_on_each_of_16_hosts_do_every_operation_through_rsh_itself() {
    all_operations_come_out(LinkPolicy::Channel, "flat", false);
}

#[test]
fn hosts_that_have_launched_each_other_do_every_operation_through_rsh_itself() {
    all_operations_come_out(LinkPolicy::Channel, "kary:2", true);
}

#[test]
fn hosts_that_have_launched_each_other_do_every_operation_directly() {
    all_operations_come_out(LinkPolicy::Auto, "kary:3", true);
}

#[test]
fn what_leaders_print_to_both_streams_arrives_on_both_and_not_what_rsh_says() {
    let Some(lab) = Rshd::up() else { return };
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    let words =
        ["out:before", "err:early", "join", "out:to out", "err:to err", "env:ODD", "cwd", "finish:30000"];
    let members = mark.program(&lab.member(), "127.0.1.[1-4]:2", &words);
    let odd = "it's \"$HOME\" `id` \\ \n\u{fc} !! * ".repeat(200);
    let members = members.current_dir("/usr/share").env("ODD", &odd);
    let session = launch_with(&front, &[members], &options(lab.backend("main")));
    let heard = Heard::all(&front);
    for rank in 0..8 {
        assert_eq!(heard.exits[&rank], Exit::Code(0), "{rank}");
        let (out, err) = (heard.text(rank, Stream::Out), heard.text(rank, Stream::Err));
        assert!(out.ends_with(&format!("to out\n{odd}\n/usr/share\n")), "{rank}: {out}");
        // Before they take their places, leaders have one stream for both.
        let is_leader = rank % 2 == 0;
        let (early_out, early_err) =
            if is_leader { ("before\nearly\n", "") } else { ("before\n", "early\n") };
        assert!(out.starts_with(early_out) && err == format!("{early_err}to err\n"), "{rank}: {out}{err}");
    }
    drop((session, front));
    mark.nothing_is_left();
    lab.nothing_is_left();
}
