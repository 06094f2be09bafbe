//! Drives a node as the runtime does: reads its links, and keeps data of the session from it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use libi_core::machine::Machine;
use libi_core::time::Instant;
use libi_core::wire::{Arrival, LinkInput};
use libi_launch::machine::{Effect, Event, LinkId, Node};

/// The nodes of this process, in the order of their starts; for the log.
static NODES: AtomicU64 = AtomicU64::new(0);

/// A node with its links.
#[derive(Debug)]
pub(crate) struct Driver {
    node: Node,
    links: BTreeMap<LinkId, LinkInput>,
    closed: BTreeSet<LinkId>,
    /// Tells this node from others in the log, if there is one.
    log: Option<u64>,
}

/// An input of a driver.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    Event(Event),
    /// Bytes have arrived on a link.
    Bytes(LinkId, Vec<u8>),
}

/// An output of a driver.
#[derive(Debug)]
pub(crate) enum Output {
    Effect(Effect),
    /// A data frame has arrived for the communication half.
    Data(LinkId, Vec<u8>),
}

impl Driver {
    pub(crate) fn new(node: Node) -> Self {
        let log = std::env::var_os("LIBI_SIMULATION_LOG").map(|_| NODES.fetch_add(1, Ordering::Relaxed));
        Self { node, links: BTreeMap::new(), closed: BTreeSet::new(), log }
    }

    fn link(&mut self, link: LinkId) -> &mut LinkInput {
        self.links.entry(link).or_default()
    }

    fn tell(&mut self, event: Event, now: Instant, out: &mut Vec<Output>) {
        let mut effects = Vec::new();
        if let Some(id) = self.log {
            println!("{now} node {id} {:?}: {event:?}", self.node.rank());
        }
        let has_ended = matches!(event, Event::Closed(LinkId::PARENT));
        self.node.on(event, now, &mut effects);
        if has_ended && effects.iter().any(|effect| matches!(effect, Effect::Reopen(_))) {
            // The end of a connection may be noticed in each direction.
            self.node.on(Event::Closed(LinkId::PARENT), now, &mut effects);
        }
        for effect in effects {
            if let Some(id) = self.log {
                println!("{now} node {id} {:?}: -> {effect:?}", self.node.rank());
            }
            match &effect {
                Effect::Trust(link) => self.link(*link).trust(),
                Effect::SessionUp(tree) => {
                    let links: Vec<_> = tree.links().filter(|link| self.node.carries_data(*link)).collect();
                    links.into_iter().for_each(|link| self.link(link).carry_data(true));
                }
                Effect::Carry(link) => self.link(*link).carry_data(true),
                Effect::Cut(link, _) => self.link(*link).carry_data(false),
                Effect::Severed(link, ..) => self.link(*link).carry_data(false),
                Effect::Adopted { link, .. } => self.link(*link).carry_data(true),
                Effect::Reattached => self.link(LinkId::PARENT).carry_data(true),
                Effect::Reopen(link) => drop(self.links.remove(link)),
                Effect::TakeHelper => drop(self.links.remove(&LinkId::PARENT)),
                Effect::Close(link) => drop(self.closed.insert(*link)),
                _ => {}
            }
            out.push(Output::Effect(effect));
        }
    }

    fn receive(&mut self, link: LinkId, mut bytes: &[u8], now: Instant, out: &mut Vec<Output>) {
        let mut told = false;
        while !self.closed.contains(&link)
            && let Some(arrival) = self.link(link).next(&mut bytes)
        {
            match arrival {
                Arrival::Items(items) => self.tell(Event::Received(link, items), now, out),
                Arrival::Data(frame) => {
                    out.push(Output::Data(link, frame));
                    continue;
                }
                Arrival::Violation(error) => return self.tell(Event::Violation(link, error), now, out),
            }
            told = true;
        }
        if !told && !self.closed.contains(&link) {
            self.tell(Event::Received(link, Vec::new()), now, out);
        }
    }
}

impl Machine for Driver {
    type Event = Input;
    type Effect = Output;

    fn on(&mut self, input: Input, now: Instant, out: &mut Vec<Output>) {
        match input {
            Input::Event(event) => self.tell(event, now, out),
            Input::Bytes(link, bytes) => self.receive(link, &bytes, now, out),
        }
    }
}

impl Deref for Driver {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

impl From<Event> for Input {
    fn from(event: Event) -> Self {
        Self::Event(event)
    }
}
