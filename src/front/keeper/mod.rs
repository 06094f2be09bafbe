//! Sessions that outlive their front end: a process of its own, the *keeper*, launches such a session and
//! keeps it, and front ends come and go.
//!
//! ```text
//!    front end ----- start, once ----> keeper: the reactor of a front end with this one session
//!        |                               |
//!        |  reads it                     |  writes it when it listens, removes it at its end
//!        +--------> ticket file <--------+
//!        |                               |
//!        +--- connection, sealed with ---+-----> hosts
//!             the secret of the file
//! ```
//!
//! A front end that launches a detached session starts the keeper, here or on another host ([`start`]), and
//! attaches to it by the ticket file as every later one does ([`attach`], [`client`]). From then on its calls, its commands and its answers
//! are [messages](message). What it knows of the session is a [copy](super::session) of what the keeper
//! knows, and the keeper sends what has changed.
//!
//! # States of a keeper
//!
//! | state | event | next |
//! |---|---|---|
//! | empty | a front end brings a launch | keeps it, attached |
//! | empty | none does within [`EMPTY_FOR`](serve::EMPTY_FOR), or it leaves before | over |
//! | attached | another front end attaches | attached to that one; the first one is told, and has nothing any more |
//! | attached | the connection ends, or its host is silent | alone |
//! | attached | the front end ends the session | attached, until the session is over |
//! | alone | a front end attaches | attached |
//! | alone | the limit has passed | ends the session; over when that is over |
//! | any | SIGTERM | ends the session; over when that is over |
//! | any | all members have ended, and the front end that was told so has left in order, or has taken the last event | over |
//! | any | it is killed | its hosts lose the top of their tree, and end; the front end hears of it |
//!
//! A session whose members end while the keeper is alone is kept for the rest of the limit, so that the next
//! front end hears how it has ended.
//!
//! # What a front end that leaves leaves behind
//!
//! | | the next front end |
//! |---|---|
//! | events that were not taken | gets them, in order |
//! | output beyond 1 MiB, with no front end | lacks the oldest of it, and knows how much |
//! | messages to the master | they are sent |
//! | messages of the master that had not arrived there | gets them, in order |
//! | commands, restarts, growth that it waited for | they go on; events report their ends |
//! | what follows a loss, as chosen last | it stays |
//!
//! A message has arrived when the front end's process has confirmed it, and an event when
//! [`FrontEnd::next_event`](super::FrontEnd::next_event) has returned it.
//!
//! # Who may have the session
//! A process that can read the ticket file: it has mode 0600 and is refused if others may read it. The
//! connection is a direct link as those of hosts are, encrypted, with a secret that is nowhere else. By
//! default it is accepted at the loopback address alone.

mod attach;
pub(super) mod client;
mod link;
pub(super) mod message;
mod news;
mod serve;
mod start;
mod ticket;

pub(super) use client::KeptSessions;
pub(crate) use serve::serve;
pub(super) use start::launched_elsewhere;
pub(crate) use start::serves;
