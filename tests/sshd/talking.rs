//! Members on many hosts do everything that members can do together.

use std::time::Instant;

use libi::{Exit, FrontEnd, LaunchOptions, Links, SessionId, Stream};

use crate::lab::{Marked, Sshd};
use crate::launching::{Launch, MEMBER, launches};
use crate::local::{Heard, launch_with};
use crate::play::common::Session;
use crate::playing::{Endings, play_front_end};
use crate::{PATIENCE, options};

/// Every operation: from and to the first, the last and one between, with nothing, little, and more than fits into a pipe.
fn operations(size: u32) -> Vec<String> {
    let mut all = vec!["barrier".to_owned(), "ring".to_owned()];
    for length in [0, 1, 100_000 / size] {
        for root in [0, size / 2, size - 1] {
            let rooted = ["broadcast", "gather", "scatter", "reduce"];
            all.extend(rooted.map(|operation| format!("{operation}:{root}:{length}")));
        }
        all.extend(["allgather", "alltoall", "allreduce", "pairs"].map(|what| format!("{what}:{length}")));
    }
    all.extend([format!("broadcast:{}:1000000", size - 1), "keys".to_owned(), "flight:20".to_owned()]);
    all.extend([format!("mismatch:{}", size / 2), format!("impatient:0:{}", size - 1)]);
    all
}

fn all_operations_come_out(links: Links) {
    let Some(lab) = Sshd::up() else { return };
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    let talk = operations(256).into_iter().map(|operation| format!("talk:{operation}"));
    let words: Vec<String> =
        ["join".to_owned()].into_iter().chain(talk).chain(["finish:60000".to_owned()]).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let members = mark.program(&lab.member(), "n[0-127]:2", &words);
    let began = Instant::now();
    let options = LaunchOptions { links, ..options(lab.ssh("main")) };
    let session = launch_with(&front, &[members], &options);
    println!("{} after {:?}", session.report().unwrap(), began.elapsed());
    let (mut heard, deadline) = (Heard::default(), Instant::now() + PATIENCE);
    while !heard.done {
        let event = front.next_event(deadline.saturating_duration_since(Instant::now()));
        heard.note(event.unwrap_or_else(|| panic!("they do not end: {}", heard.described())));
    }
    for rank in 0..256 {
        let text = heard.text(rank, Stream::Err);
        assert_eq!(heard.exits.get(&rank), Some(&Exit::Code(0)), "rank {rank}: {text}");
    }
    println!("all have done everything after {:?}", began.elapsed());
    drop((session, front));
    mark.nothing_is_left();
}

#[test]
fn two_members_on_each_of_128_hosts_do_every_operation_directly() {
    all_operations_come_out(Links::Auto);
}

#[test]
fn two_members_on_each_of_128_hosts_do_every_operation_through_ssh_itself() {
    all_operations_come_out(Links::Channel);
}

/// Of the launches of a file that play sessions of so many members, the one that plays the most.
fn launch_of(file: &str, size: u32) -> Option<Launch> {
    let is_meant = |case: &Session| case.size == size && case.present.len() == size as usize;
    launches(file, true, is_meant).into_iter().max_by_key(|launch| launch.sessions.len())
}

#[test]
fn cases_come_out_as_if_done_serially() {
    let Some(lab) = Sshd::up() else { return };
    for (file, size) in
        [("collective", 33), ("reduce", 33), ("exchange", 33), ("mail", 33), ("keys", 8), ("mixed", 17)]
    {
        let launch = launch_of(file, size).unwrap();
        let (mark, front, began) = (Marked::new(), FrontEnd::new().unwrap(), Instant::now());
        let mut distributions = launch.distributions(SessionId(0), &launch.words());
        for distribution in &mut distributions {
            distribution.env.push(mark.variable());
            assert_eq!(distribution.executable.to_string(), MEMBER, "all are there");
            distribution.executable = lab.member().as_str().try_into().unwrap();
        }
        let options = LaunchOptions { strategy: launch.strategy, ..options(lab.ssh("main")) };
        let session = launch_with(&front, &distributions, &options);
        let played = play_front_end(&launch, &session);
        let mut endings = Endings::default();
        endings.follow(&front, &[session.id()]);
        endings.are_good(session.id(), &launch, &played);
        let cases = launch.sessions.len();
        println!("{file}: {cases} cases on {} hosts in {:?}", launch.hosts(), began.elapsed());
        drop((session, front));
        mark.nothing_is_left();
    }
}
