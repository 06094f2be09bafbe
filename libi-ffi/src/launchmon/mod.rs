//! The front-end and back-end calls of LaunchMON's API, `include/lmon_api/`: tools written for it
//! compile unchanged, attach to jobs or launch them under control, and have daemons beside them.
//!
//! A process has at most one front end, whose sessions are numbered, and is at most one daemon.
//!
//! # States
//!
//! ```text
//! session   new --attach or launch--> launching --all daemons are ready--> up --> the functions
//!            ^                            |                                 |      that end it
//!            '--------- a failure --------'                                 '- detached, killed, without daemons
//!
//! daemon    outside --LMON_be_init--> in --handshake--> introduced --ready--> ready --finalize--> out
//! ```
//!
//! # Messages
//!
//! ```text
//!   front end                                  daemons
//!     | == launches beside the job ==========> | LMON_be_init
//!     | -- the table, as for every job ------> | LMON_be_handshake: their processes
//!     | -- whether ranks are held, febe -----> | LMON_be_handshake: unpacked
//!     | <------------------ befe, or a code -- | LMON_be_ready: gathered
//!     | -- data, or "let the ranks go" ------> | master: its mailbox
//!     | <------------- data, or "they went" -- | master
//! ```
//!
//! After that messages of both directions come into a [`mailbox`], since the order to let ranks go
//! has to reach daemons whatever they do: a thread in each daemon waits for it, if ranks are held.
//!
//! | what fails | what follows |
//! |---|---|
//! | the job or a daemon, before all are ready | a code; daemons end, and a job that was launched ends too |
//! | a daemon, later | calls that need it return LMON_ESUBCOM |
//! | the front end exits | it lets ranks go; daemons end |
//! | the front end is killed | daemons end, and let their ranks go if they can; what is held goes on at its time limit |
//! | a callback | LMON_ENCLLB without one, LMON_ENEGCB, or LMON_ECLLB if its length is not possible |
//!
//! Each failure is one line for the error callback, which is standard error by default.

mod codes;
mod daemon;
mod daemon_calls;
mod failure;
mod front;
mod front_calls;
mod limits;
mod mailbox;
mod messages;
mod packing;
mod releases;
mod resources;
mod sessions;
mod spawn;
mod table;
mod tool;
