//! Newtypes for the numbers of sessions, ranks, hosts, links and starts.

use core::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $word:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub u32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
    };
}

id!(
    /// A session of one launch call: processes that are launched together and share a communicator.
    SessionId,
    "session"
);
id!(
    /// A member of a session, counted from 0. Rank 0 is the master.
    Rank,
    "rank"
);
id!(
    /// A host of a session, numbered in the order in which ranks first appear on hosts.
    HostIndex,
    "host"
);
id!(
    /// A link of a process. Each process numbers its own links, in the order in which it starts its
    /// children.
    LinkId,
    "link"
);

id!(
    /// A start of a process: an act of a back-end that brings up one process or many. Each process
    /// numbers its own starts.
    StartId,
    "start"
);

impl LinkId {
    /// The link to the process that started this one.
    pub const PARENT: Self = Self(0);
}
