//! The programs of test sessions, their data, and the expected results: for the simulator, for
//! links in memory, and for real processes.
//!
//! | question | module |
//! |---|---|
//! | how `tests/cases/*.toml` are read, and what they mean | [`case`] |
//! | the steps of a program | [`step`] |
//! | hosts and trees | [`shape`] |
//! | which bytes each process has for each other | [`data`] |
//! | the expected result of a step | [`oracle`] |
//! | shared memory | [`heap`] |

#![allow(missing_docs, reason = "there are no users but tests, which are their documentation")]
#![allow(clippy::missing_panics_doc, reason = "a test fails by panicking")]

pub mod case;
pub mod data;
pub mod heap;
pub mod oracle;
pub mod shape;
pub mod step;
pub mod transfers;

pub use case::{Session, sessions};
pub use oracle::Oracle;

/// The files of cases.
pub const FILES: [(&str, &str); 6] = [
    ("collective", include_str!("../../../tests/cases/collective.toml")),
    ("reduce", include_str!("../../../tests/cases/reduce.toml")),
    ("exchange", include_str!("../../../tests/cases/exchange.toml")),
    ("p2p", include_str!("../../../tests/cases/p2p.toml")),
    ("kvs", include_str!("../../../tests/cases/kvs.toml")),
    ("mixed", include_str!("../../../tests/cases/mixed.toml")),
];
