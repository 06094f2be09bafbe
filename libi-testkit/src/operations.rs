//! Everything that members can do together, done by members on hosts with real servers.

use std::sync::Arc;
use std::time::Instant;

use libi::{Exit, FrontEnd, LaunchOptions, LaunchReport, LinkCounts, Stream};

use crate::labs::Marked;
use crate::local::{Heard, launch_with};

/// Every operation: from and to the first, the last and one between, with nothing, little, and more
/// than fits into a pipe.
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

/// So many members of this program on these hosts do all of it and end well, within the deadline of
/// the launch after that. Gives what is known then.
pub fn all_come_out(
    program: &str,
    hosts: &str,
    size: u32,
    options: &LaunchOptions,
) -> (Arc<LaunchReport>, LinkCounts) {
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    let talk = operations(size).into_iter().map(|operation| format!("talk:{operation}"));
    let words: Vec<String> =
        ["join".to_owned()].into_iter().chain(talk).chain(["finish:60000".to_owned()]).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let members = mark.program(program, hosts, &words);
    let began = Instant::now();
    let session = launch_with(&front, &[members], options);
    println!("{} after {:?}", session.report().unwrap(), began.elapsed());
    let (mut heard, deadline) = (Heard::default(), Instant::now() + options.deadline);
    while !heard.done {
        let event = front.next_event(deadline.saturating_duration_since(Instant::now()));
        heard.note(event.unwrap_or_else(|| panic!("they do not end: {}", heard.described())));
    }
    for rank in 0..size {
        let text = heard.text(rank, Stream::Err);
        assert_eq!(heard.exits.get(&rank), Some(&Exit::Code(0)), "rank {rank}: {text}");
    }
    println!("all have done everything after {:?}", began.elapsed());
    let (report, links) = (session.report().unwrap(), session.links());
    drop((session, front));
    mark.nothing_is_left();
    (report, links)
}
