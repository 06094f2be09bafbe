//! What the fates of hosts allow, where a start is made for all of its hosts or for none.

/// What is known of the hosts of starts in which one host may end all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum Fates {
    /// Whether each host is started.
    Known,
    /// A host is open whose failure could end the others: the launch does not settle.
    Open,
    /// One has failed, and the others may end: the session does not go up.
    Ending,
}
