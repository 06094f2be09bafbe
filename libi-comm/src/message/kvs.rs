//! Messages of the key-value store, as they travel. `group::kvs` says what they do.

use libi_core::ids::Rank;
use serde::{Deserialize, Serialize};

use crate::contract::KeyScope;

/// The order of values of a key: the greater version is the later value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Version {
    /// How many fences its host had passed.
    pub(crate) fences: u64,
    /// Greater than every count that its leader had seen.
    pub(crate) count: u64,
    /// The [rank](libi_core::topology::Topology::host_rank) of its host; `None` for the front end.
    pub(crate) leader: Option<Rank>,
}

/// A message about keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum KvsMessage {
    /// To the server of the sender: a value of this length.
    Put { key: String, scope: KeyScope, length: u64 },
    /// Upwards: a local value has been put here or below.
    Announce { key: String, version: Version },
    /// Looks a key up.
    Query(Query),
    /// The query is not needed any more.
    CancelQuery { key: String, wait: bool },
    /// The reply to a query, as of so many fences, with a value of this length.
    Reply { to: Query, fences: u64, reply: Reply, length: u64 },
    /// Upwards: an announced value is lost with its host.
    ValueLost { key: String, version: Version },
    /// Downwards, to the host of a value: a later version existed and is lost. The value must get a
    /// version later than that.
    RaiseVersion { key: String, over: Version },
    /// More bytes of the value of the last message.
    Continue,
    /// Upwards, to another parent: a value was put here or below, as was announced to an earlier one.
    AnnounceAgain { key: String, version: Version },
    /// All values here and below are announced again.
    AnnouncedAll,
}

/// A lookup of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Query {
    pub(crate) key: String,
    /// Whether to wait for a value if there is none.
    pub(crate) wait: bool,
    /// The number of the query at its sender. A later one for the same key replaces it.
    pub(crate) nth: u64,
    /// How many fences the sender has passed; a reply must not be older.
    pub(crate) fences: u64,
}

/// The reply to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// A value.
    Value(Version),
    /// A replicated value that no fence has distributed yet. The receiver must not cache it, as it
    /// would not learn of a later value.
    Unfenced(Version),
    /// From above: the key has no value. From below: the value is no longer there.
    NotFound,
    /// The value with this version is lost.
    Lost(Version),
    /// The server is lost.
    Unreachable,
}
