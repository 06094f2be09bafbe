//! The program that a process has divided from before its `main`, to lead the host in its place.
//!
//! It runs already, and is the first member of the host: the node's first start of a member takes
//! it.

use std::sync::{Arc, Mutex, PoisonError};

use libi_launch::machine::Stream as StdStream;
use libi_launch::process::Child;

use super::starting::Started;
use crate::engine::stream::Stream;

/// A running program, and this process's ends of its streams.
pub(crate) struct OwnProgram {
    pub(crate) child: Child,
    pub(crate) link: Stream,
    pub(crate) printed: Vec<(StdStream, Stream)>,
    /// Leads to its standard input, which is empty unless the session provides it.
    pub(crate) stdin: Option<Stream>,
}

impl OwnProgram {
    pub(super) fn into_started(self) -> Started {
        let Self { child, link, printed, stdin: _ } = self;
        let (first, trailer) = (Vec::new(), None);
        Started { child, input: Some(link), output: None, print_pipes: printed, first, trailer }
    }
}

/// Holds the program until it is a member. What is left in it when the session is over never was
/// one.
#[derive(Clone, Default)]
pub(crate) struct OwnProgramSlot(Arc<Mutex<Option<OwnProgram>>>);

impl OwnProgramSlot {
    pub(crate) fn of(program: OwnProgram) -> Self {
        Self(Arc::new(Mutex::new(Some(program))))
    }

    pub(crate) fn take(&self) -> Option<OwnProgram> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn take_stdin(&self) -> Option<Stream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut()?.stdin.take()
    }
}
