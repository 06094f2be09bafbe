//! Standard input that the front end provides for programs: for the master, or for all.

use libi_core::ids::Rank;
use libi_core::wire::{Kind, encode_bytes};

use super::{ChildMessage, Effect, LinkId, Node};
use crate::machine::input_flow::InputFlow;
use crate::machine::output_relay::MAX_FRAME_TEXT;
use crate::options::StandardInput;

/// What a node knows of standard input.
#[derive(Debug, Default)]
pub(super) enum NodeInput {
    /// This node has no part in it.
    #[default]
    None,
    /// At the front end, it goes to the master; at the master, to its program.
    Master,
    /// It goes to the programs of this node and to all below.
    All(InputFlow),
}

impl NodeInput {
    pub(super) fn of_front_end(input: StandardInput) -> Self {
        match input {
            StandardInput::Empty => Self::None,
            StandardInput::Master => Self::Master,
            StandardInput::All => Self::All(InputFlow::new(false)),
        }
    }

    /// What a child on such a host is told.
    pub(super) fn for_child(&self, is_leader: bool, is_master: bool) -> StandardInput {
        match self {
            Self::All(_) if is_leader => StandardInput::All,
            Self::Master if is_master => StandardInput::Master,
            _ => StandardInput::Empty,
        }
    }
}

impl Node {
    /// Whether the program of this rank, which is to run on this host, gets standard input from the
    /// front end. A member that is restarted gets none.
    #[must_use]
    pub fn gives_input_to(&self, rank: Rank) -> bool {
        match self.input {
            // What was given to its first process is lost.
            _ if self.restarts.last(rank) > 0 => false,
            NodeInput::None => false,
            NodeInput::Master => rank == Rank(0),
            NodeInput::All(_) => true,
        }
    }

    /// Takes part as the config says, with so many programs.
    pub(super) fn set_input(&mut self, input: StandardInput, programs: u32, out: &mut Vec<Effect>) {
        let programs = match input {
            StandardInput::Empty => return,
            StandardInput::Master => {
                self.input = NodeInput::Master;
                1
            }
            StandardInput::All => {
                self.input = NodeInput::All(InputFlow::new(true));
                programs
            }
        };
        out.push(Effect::TakeInput(programs));
    }

    /// The user of the front end provides input.
    pub(super) fn user_input(&mut self, bytes: &[u8], out: &mut Vec<Effect>) {
        if !self.stage.is_up() {
            return;
        }
        match &self.input {
            NodeInput::None => {}
            NodeInput::Master => {
                if let Some(link) = self.children.master() {
                    send_input(link, bytes, out);
                }
            }
            NodeInput::All(_) => self.pass_on_input(bytes, out),
        }
    }

    /// Input has come from the parent; `None` if none is due.
    pub(super) fn input_from_parent(&mut self, bytes: &[u8], out: &mut Vec<Effect>) -> Option<()> {
        match &self.input {
            NodeInput::None => return None,
            NodeInput::Master => {}
            NodeInput::All(_) => self.pass_on_input(bytes, out),
        }
        out.push(Effect::Input(bytes.to_vec()));
        Some(())
    }

    fn pass_on_input(&mut self, bytes: &[u8], out: &mut Vec<Effect>) {
        let NodeInput::All(flow) = &mut self.input else { return };
        let growth = &self.growth;
        let takes_part = |child: &super::Child| child.host().is_some_and(|host| !growth.is_late(host));
        let leaders: Vec<_> =
            self.children.up().filter(|(_, child)| takes_part(child)).map(|(link, _)| link).collect();
        for link in &leaders {
            send_input(*link, bytes, out);
        }
        flow.give(bytes.len(), leaders);
    }

    /// Programs of this node have taken input.
    pub(super) fn input_taken(&mut self, bytes: u32) {
        match &mut self.input {
            NodeInput::All(flow) => flow.own_took(bytes),
            NodeInput::None | NodeInput::Master => self.reports.push(ChildMessage::InputTaken(bytes)),
        }
    }

    /// A child reports that input was taken. Returns whether that is a matter of this node.
    pub(super) fn child_took_input(&mut self, link: LinkId, bytes: u32) -> bool {
        let NodeInput::All(flow) = &mut self.input else { return false };
        flow.took(link, bytes);
        true
    }

    /// Reports what all have taken.
    pub(super) fn report_input(&mut self) {
        let NodeInput::All(flow) = &mut self.input else { return };
        let children = &self.children;
        let news = flow.news(|link| children.get(link).is_some_and(super::Child::is_up));
        if news > 0 {
            self.reports.push(ChildMessage::InputTaken(news));
        }
    }
}

fn send_input(link: LinkId, bytes: &[u8], out: &mut Vec<Effect>) {
    // An empty slice is end of file, and has a frame, too.
    for part in bytes.chunks(MAX_FRAME_TEXT).chain(bytes.is_empty().then_some(bytes)) {
        out.extend(encode_bytes(Kind::Stdio, part).map(|frame| Effect::Send(link, frame)));
    }
}
