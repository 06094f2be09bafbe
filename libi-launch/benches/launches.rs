//! The time of whole launches on healthy clusters, in virtual time, compared with the model's
//! optimum.
//!
//! `cargo bench -p libi-launch --bench launches` runs the launch machines, from the front end's
//! `Begin` to its `Up`, with a true cost and an assumed cost that may be wrong. The optimum is that
//! of the greedy tree at the true cost with constant REM, after the front end's launch of the first
//! host. The launches of a launcher take turns in one of three ways:
//!
//! - *lock*: a start returns at once, and its SEQ follows those before it;
//! - *start*: a start itself takes SEQ;
//! - *share*: a start returns at once, and all starts share the launcher's processor.
#![allow(clippy::unwrap_used, reason = "a measurement fails by panicking")]

#[path = "../tests/simulation/driver.rs"]
mod driver;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::dist::OsBytes;
use libi_core::dist::layout::Block;
use libi_core::ids::{HostIndex, Rank};
use libi_core::join::SessionKey;
use libi_core::plan::greedy;
use libi_core::plan::late::Attempt;
use libi_core::sim::rng::Rng;
use libi_core::sim::{Agenda, MachineId as Id, Sim, World};
use libi_core::time::Instant;
use libi_launch::machine::{Effect, Event, HostSpec, LaunchPlan, LinkId, Node, Notice, Program, StartId};
use libi_launch::options::LaunchOptions;

use driver::{Driver, Input, Output};
use libi_test_core::processor::{Next, Processor};

/// The latency of links.
const LATENCY: Duration = Duration::from_micros(50);
/// The duration of a start that returns at once.
const ASYNC_START: Duration = Duration::from_micros(300);

fn main() {
    let only: Option<u32> = std::env::args().nth(1).and_then(|hosts| hosts.parse().ok());
    let ms = Duration::from_millis;
    let us = Duration::from_micros;
    let costs = [
        (Cost::new(ms(7), ms(172)), 0.0),
        (Cost::new(ms(7), ms(172)), 0.5),
        (Cost::new(us(500), ms(3)), 0.0),
        (Cost::new(ms(7), ms(2_000)), 0.0),
    ];
    println!(
        "{:>6} {:>12} {:>6}  {:<6} {:>8}   times the optimum with a word that is",
        "hosts", "SEQ, REM", "varies", "turns", "optimum"
    );
    println!(
        "{:>44}   {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>12}",
        "", "true", "a third", "3 times", "SEQ third", "SEQ 3 t.", "default", "CPU time"
    );
    for hosts in [64, 512, 10_000].into_iter().filter(|hosts| only.is_none_or(|only| only == *hosts)) {
        for (cost, varies) in costs {
            for turns in [Turns::Lock, Turns::Start, Turns::Share] {
                row(hosts, cost, varies, turns);
            }
        }
    }
}

fn row(hosts: u32, cost: Cost, varies: f64, turns: Turns) {
    let optimum = cost.rem + greedy::plan(NonZeroU32::new(hosts).unwrap(), &cost).1.launch_time();
    let words = [
        cost,
        Cost::new(cost.seq / 3, cost.rem / 3),
        Cost::new(cost.seq * 3, cost.rem * 3),
        Cost::new(cost.seq / 3, cost.rem),
        Cost::new(cost.seq * 3, cost.rem),
        Cost::new(Duration::from_millis(5), Duration::from_millis(200)),
    ];
    let seeds = if hosts > 1_000 { 1..=1 } else { 1..=10 };
    let clock = std::time::Instant::now();
    let mut runs = 0;
    let ratios = words.map(|word| {
        let ratios = seeds.clone().map(|seed| {
            runs += 1;
            launch(hosts, word, Cluster::new(cost, varies, turns, seed)).as_secs_f64() / optimum.as_secs_f64()
        });
        ratios.sum::<f64>() / seeds.clone().count() as f64
    });
    let wall = clock.elapsed() / runs;
    let [exact, third, thrice, fast, slow, default] = ratios;
    println!(
        "{hosts:>6} {:>12} {:>6}  {:<6} {:>6.3} s   {exact:>9.2} {third:>9.2} {thrice:>9.2} \
         {fast:>9.2} {slow:>9.2} {default:>9.2} {:>9.1} ms",
        format!("{:?}, {:?}", cost.seq, cost.rem),
        if varies > 0.0 { "±50 %" } else { "" },
        format!("{turns:?}").to_lowercase(),
        optimum.as_secs_f64(),
        wall.as_secs_f64() * 1e3,
    );
}

/// The time from the front end's `Begin` to its `Up`.
fn launch(hosts: u32, word: Cost, cluster: Cluster) -> Duration {
    let program = Program {
        executable: OsBytes::try_from("tool").unwrap(),
        args: Vec::new(),
        env: Vec::new(),
        cwd: None,
    };
    let task = |host: u32| HostSpec {
        host: HostIndex(host),
        attempt: Attempt::default(),
        name: format!("node{host}"),
        user: None,
        port: None,
        below: 0,
        faults: 0,
        restarts: 0,
        blocks: vec![Block { first: Rank(host), count: 1, distribution: 0 }],
    };
    let tasks = (0..hosts).map(task).collect();
    let plan = LaunchPlan {
        hosts: tasks,
        programs: vec![program],
        size: hosts,
        secret: None,
        options: LaunchOptions::local().deadline(Duration::from_secs(600)).cost(word),
    };
    let mut sim = Sim::new(cluster);
    let front = sim.agenda.start(Driver::new(Node::front(SessionKey(1), &plan, 1)));
    sim.world.hosts.push(Host::default());
    sim.agenda.tell(Instant::ZERO, front, Event::Begin.into());
    while sim.world.up.is_none() {
        let soon = sim.agenda.now() + Duration::from_millis(50);
        sim.run(soon, u64::MAX);
        sim.agenda.plan(soon, Happening::Nothing);
    }
    if std::env::var_os("LIBI_WORST").is_some() {
        sim.world.tell_of_the_last();
    }
    sim.world.up.unwrap().since(Instant::ZERO)
}

/// What the launches of one launcher wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turns {
    Lock,
    Start,
    Share,
}

#[derive(Default)]
struct Host {
    parent: Option<(Id, LinkId)>,
    children: BTreeMap<LinkId, Id>,
    /// Bytes for processes that are not up yet.
    pending: BTreeMap<LinkId, Vec<Vec<u8>>>,
    free: Instant,
    processor: Processor<LinkId>,
    began: Instant,
    launched: Vec<Instant>,
}

struct Cluster {
    cost: Cost,
    varies: f64,
    turns: Turns,
    rng: Rng,
    hosts: Vec<Host>,
    up: Option<Instant>,
}

enum Happening {
    /// A started process is up.
    Runs(Id, LinkId),
    /// The first job on a processor is done, unless something has changed since that was predicted.
    Turn(Id, u64),
    Nothing,
}

impl Cluster {
    fn new(cost: Cost, varies: f64, turns: Turns, seed: u64) -> Self {
        Self { cost, varies, turns, rng: Rng::new(seed), hosts: Vec::new(), up: None }
    }

    fn host(&mut self, id: Id) -> &mut Host {
        &mut self.hosts[id.0 as usize]
    }

    /// The time from the end of SEQ until the process is up.
    fn rest(&mut self) -> Duration {
        let factor = 1.0 - self.varies + 2.0 * self.varies * self.rng.unit();
        self.cost.rem.mul_f64(factor).saturating_sub(self.cost.seq)
    }

    fn start(&mut self, from: Id, (start, link): (StartId, LinkId), agenda: &mut Agenda<Self>) {
        let now = agenda.now();
        let (seq, turns) = (self.cost.seq, self.turns);
        let host = self.host(from);
        host.launched.push(now);
        let started = if turns == Turns::Start { seq } else { ASYNC_START.min(seq) };
        agenda.tell(now + started, from, Event::Started(start).into());
        if turns == Turns::Share {
            let next = host.processor.enter(now, seq, link);
            next_turn(from, next, agenda);
        } else {
            host.free = host.free.max(now) + seq;
            let free = host.free;
            let rest = self.rest();
            agenda.plan(free + rest, Happening::Runs(from, link));
        }
    }

    /// Prints the chain of launches that ended last.
    fn tell_of_the_last(&self) {
        let mut id = (0..self.hosts.len()).max_by_key(|&i| self.hosts[i].began).unwrap();
        loop {
            let host = &self.hosts[id];
            let launched: Vec<_> = host.launched.iter().map(|at| at.as_nanos() / 1_000_000).collect();
            println!("  {id} up {} launches {} at {launched:?}", host.began, launched.len());
            match host.parent {
                Some((parent, _)) => id = parent.0 as usize,
                None => break,
            }
        }
    }
}

fn next_turn(from: Id, next: Next, agenda: &mut Agenda<Cluster>) {
    if let Some((at, changes)) = next {
        agenda.plan(at, Happening::Turn(from, changes));
    }
}

impl World for Cluster {
    type Machine = Driver;
    type WorldEvent = Happening;

    fn carry_out(&mut self, from: Id, output: Output, agenda: &mut Agenda<Self>) {
        let effect = match output {
            Output::Effect(effect) => effect,
            Output::Data(link, frame) => panic!("{frame:?} on {link}, where no program talks"),
        };
        let at = agenda.now() + LATENCY;
        match effect {
            Effect::Start(start, request) => {
                request.links().for_each(|link| self.start(from, (start, link), agenda));
            }
            Effect::Send(LinkId::PARENT, bytes) => {
                if let Some((parent, link)) = self.host(from).parent {
                    agenda.tell(at, parent, Input::Bytes(link, bytes));
                }
            }
            Effect::Send(link, bytes) => match self.host(from).children.get(&link) {
                Some(child) => agenda.tell(at, *child, Input::Bytes(LinkId::PARENT, bytes)),
                None => self.host(from).pending.entry(link).or_default().push(bytes),
            },
            Effect::WakeAt(at) => agenda.tell(at, from, Event::Woken.into()),
            Effect::Notify(Notice::Up) if from == Id(0) => self.up = Some(agenda.now()),
            Effect::Notify(Notice::GivenUp) => panic!("given up on a healthy cluster"),
            // No process ends here, and no direct links are offered, because there is no secret.
            _ => {}
        }
    }

    fn on_world_event(&mut self, what: Happening, agenda: &mut Agenda<Self>) {
        let now = agenda.now();
        match what {
            Happening::Nothing => {}
            Happening::Runs(from, link) => {
                let id = agenda.start(Driver::new(Node::member(1, "node".to_owned(), self.rng.bits())));
                self.hosts.push(Host { parent: Some((from, link)), began: now, ..Host::default() });
                self.host(from).children.insert(link, id);
                agenda.tell(now, id, Event::Begin.into());
                for bytes in self.host(from).pending.remove(&link).unwrap_or_default() {
                    agenda.tell(now, id, Input::Bytes(LinkId::PARENT, bytes));
                }
            }
            Happening::Turn(from, changes) => {
                if let Some((link, next)) = self.host(from).processor.leave(now, changes) {
                    let rest = self.rest();
                    agenda.plan(now + rest, Happening::Runs(from, link));
                    next_turn(from, next, agenda);
                }
            }
        }
    }
}
