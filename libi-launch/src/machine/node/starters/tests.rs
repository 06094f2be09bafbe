//! What is made of the lines of a starter that ends all its programs.

use std::collections::BTreeMap;
use std::time::Duration;

use libi_core::dist::layout::Block;
use libi_core::ids::{HostIndex, Rank};
use libi_core::machine::Machine;
use libi_core::secure::{Entropy, Secret};

use super::super::{Event, LaunchPlan, SessionKey};
use super::*;
use crate::backend::Srun;
use crate::backend::tests::{host, program};
use crate::machine::host_table::HostState;
use crate::machine::{CarriedSecret, HostSpec};
use crate::options::LaunchOptions;

const START: StartId = StartId(1);
/// How long hosts wait that are launched again, in milliseconds.
const BACK_OFF: u64 = 200;

/// What a session that is up is told if its starter says that it ends all programs, and this
/// happens a second later, or nothing, until its time to say why is over.
fn told(next: Option<Event>) -> Vec<String> {
    let options = LaunchOptions::default();
    let grace = options.rules.kill_grace;
    let plan = LaunchPlan { hosts: Vec::new(), programs: Vec::new(), size: 0, secret: None, options };
    let mut node = Node::front(SessionKey(1), &plan, 1);
    node.stage.go_up();
    node.starts.add_bulk(START, BTreeMap::from([("n1".to_owned(), LinkId(1))]));
    let (mut out, mut now) = (Vec::new(), Instant::ZERO);
    node.on(Event::StarterEndsAll(START, b"srun: aborted\n".to_vec()), now, &mut out);
    if let Some(event) = next {
        now += Duration::from_secs(1);
        node.on(event, now, &mut out);
    }
    node.on(Event::Woken, Instant::ZERO + grace, &mut out);
    node.on(Event::StarterExited(START, Exit::Code(1)), now + grace, &mut out);
    let revoked = out.into_iter().filter_map(|effect| match effect {
        Effect::Notify(Notice::Revoked(why)) => Some(why),
        _ => None,
    });
    revoked.collect()
}

#[test]
fn a_session_that_is_up_is_told_once_why_its_programs_are_ended() {
    assert_eq!(told(None), ["srun: aborted"]);
    let exited = |exit| Some(Event::StarterExited(START, exit));
    assert_eq!(told(exited(Exit::Code(1))), ["srun: aborted"]);
    assert!(matches!(&told(exited(Exit::Signal(9)))[..], [why] if why.ends_with("was killed by signal 9")));
    let refused = Event::StarterRefused(START, b"CANCELLED\n".to_vec());
    assert_eq!(told(Some(refused)), ["CANCELLED"]);
}

/// A front end that has begun to start the hosts n0, n1, n2 and n3 by `srun`, and the start.
fn starting() -> (Node, StartId) {
    let named = |index: u32| HostSpec {
        host: HostIndex(index),
        blocks: vec![Block { first: Rank(index), count: 1, distribution: 0 }],
        ..host(&format!("n{index}"), None, None)
    };
    let plan = LaunchPlan {
        hosts: (0..4).map(named).collect(),
        programs: vec![program()],
        size: 4,
        secret: Some(CarriedSecret(Secret::new(Entropy::new(&mut [1; Entropy::LEN])))),
        options: LaunchOptions::local().backend(Srun::new()),
    };
    let mut node = Node::front(SessionKey(1), &plan, 1);
    let begun = [Event::Begin, Event::Listening(vec![([127, 0, 0, 1], 7).into()])];
    let start = at(&mut node, 0, begun).pop().unwrap();
    (node, start)
}

/// The starts that follow from these events, after so many milliseconds.
fn at(node: &mut Node, millis: u64, events: impl IntoIterator<Item = Event>) -> Vec<StartId> {
    let (mut out, now) = (Vec::new(), Instant::ZERO + Duration::from_millis(millis));
    events.into_iter().for_each(|event| node.on(event, now, &mut out));
    let starts = out.into_iter().filter_map(|effect| match effect {
        Effect::Start(start, _) => Some(start),
        _ => None,
    });
    let starts: Vec<_> = starts.collect();
    let started: Vec<_> = starts.iter().map(|start| Event::Started(*start)).collect();
    assert!(started.is_empty() || at(node, millis, started).is_empty());
    starts
}

fn ends_all(start: StartId) -> Event {
    Event::StarterEndsAll(start, b"srun: aborted\n".to_vec())
}

fn killed(start: StartId, host: &str) -> Event {
    Event::HostEnded(start, host.to_owned(), Exit::Signal(TERMINATE))
}

/// The third host cannot be started.
fn failed(start: StartId) -> Event {
    Event::HostFailed(start, "n2".to_owned(), b"no prolog\n".to_vec())
}

#[test]
fn hosts_that_were_killed_before_the_reason_was_said_are_launched_again_once_it_is() {
    let (mut node, start) = starting();
    let others = ["n0", "n1", "n3"].map(|host| killed(start, host));
    assert_eq!(at(&mut node, 10, [ends_all(start)].into_iter().chain(others)), []);
    assert_eq!(at(&mut node, 20, [failed(start)]), []);
    assert_eq!(at(&mut node, 20 + BACK_OFF, [Event::Woken]).len(), 1, "long before the reason is late");
}

#[test]
fn hosts_whose_end_is_not_told_are_launched_again_once_the_reason_for_the_end_of_all_is_known() {
    for is_said_first in [true, false] {
        let (mut node, start) = starting();
        let mut events = [ends_all(start), failed(start)];
        if !is_said_first {
            events.reverse();
        }
        at(&mut node, 10, [killed(start, "n0")].into_iter().chain(events));
        let again = at(&mut node, 10 + BACK_OFF, [Event::Woken]).pop().unwrap();
        let refused = Event::StarterRefused(again, b"expired\n".to_vec());
        at(&mut node, 300, [refused, Event::StarterExited(again, Exit::Code(1))]);
        let causes: Vec<_> = node.front_end().unwrap().hosts().map(cause).collect();
        assert_eq!(causes, ["expired", "expired", "no prolog", "expired"]);
    }
}

fn cause(state: &HostState) -> String {
    match state {
        HostState::Failed(failure) => match &failure.cause {
            Cause::NotStarted(why) => why.clone(),
            other => other.to_string(),
        },
        other => format!("{other:?}"),
    }
}
