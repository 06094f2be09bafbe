//! Members on many hosts do everything that members can do together.

use std::time::Instant;

use libi::{FrontEnd, LinkPolicy, SessionId, SshClient};

use crate::{drawn_clients, options};
use libi_testkit::cases::Session;
use libi_testkit::labs::{MARK, Marked, Sshd};
use libi_testkit::launching::{Launch, launches};
use libi_testkit::local::launch_with;
use libi_testkit::operations;
use libi_testkit::playing::{Endings, play_front_end};

fn all_operations_come_out(links: LinkPolicy) {
    let Some(lab) = Sshd::up() else { return };
    for client in drawn_clients() {
        let options = options(lab.ssh("main", *client)).links(links);
        operations::all_come_out(&lab.member(), "n[0-127]:2", 256, &options);
    }
}

#[test]
fn two_members_on_each_of_128_hosts_do_every_operation_directly() {
    all_operations_come_out(LinkPolicy::Auto);
}

#[test]
fn two_members_on_each_of_128_hosts_do_every_operation_through_ssh_itself() {
    all_operations_come_out(LinkPolicy::Channel);
}

/// Of the launches of a file that play sessions of so many members, the one that plays the most.
fn launch_of(file: &str, size: u32) -> Option<Launch> {
    let is_meant = |case: &Session| case.size == size && case.present.len() == size as usize;
    launches(file, true, is_meant).into_iter().max_by_key(|launch| launch.sessions.len())
}

#[test]
fn cases_come_out_as_if_done_serially() {
    let Some(lab) = Sshd::up() else { return };
    drawn_clients().iter().for_each(|client| cases_come_out(&lab, *client));
}

fn cases_come_out(lab: &Sshd, client: SshClient) {
    for (file, size) in
        [("collective", 33), ("reduce", 33), ("exchange", 33), ("p2p", 33), ("kvs", 8), ("mixed", 17)]
    {
        let launch = launch_of(file, size).unwrap();
        let (mark, front, began) = (Marked::new(), FrontEnd::new().unwrap(), Instant::now());
        let distributions = launch.distributions_of(&lab.member(), SessionId(0), &launch.words());
        let marked = |one: libi::Distribution| one.env(MARK, &mark.0);
        let distributions: Vec<_> = distributions.into_iter().map(marked).collect();
        let options = options(lab.ssh("main", client)).strategy(launch.strategy);
        let session = launch_with(&front, &distributions, &options);
        let played = play_front_end(&launch, &session);
        let mut endings = Endings::default();
        endings.follow(&front, &[session.id()]);
        endings.are_good(session.id(), &launch, &played);
        let cases = launch.sessions.len();
        println!("{client}, {file}: {cases} cases on {} hosts in {:?}", launch.hosts(), began.elapsed());
        drop((session, front));
        mark.nothing_is_left();
    }
}
