//! Numbers that mean one thing each: sessions, ranks, hosts.

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
    /// A session of one launch call: the processes that are launched together and share a communicator.
    SessionId,
    "session"
);
id!(
    /// A member of a session, counted from 0. Rank 0 is the master.
    Rank,
    "rank"
);
id!(
    /// A host of a session, counted in the order in which ranks first appear on hosts.
    HostIndex,
    "host"
);
id!(
    /// One of a process's links. Numbers are given by the process, in the order in which it starts what is at their other
    /// ends.
    LinkId,
    "link"
);

impl LinkId {
    /// The link to the one that has started this process.
    pub const PARENT: Self = Self(0);
}
