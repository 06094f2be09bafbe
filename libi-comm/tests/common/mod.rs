//! What members are to do, with which data, and what has to come of it: for the simulator, links in memory, and real
//! processes alike.
//!
//! | to find out | look at |
//! |---|---|
//! | how `tests/cases/*.toml` are read, and what they mean | [`case`] |
//! | what a step of a program is | [`step`] |
//! | who is on which host, and who started whom | [`shape`] |
//! | which bytes somebody has for somebody | [`data`] |
//! | what has to come of a step | [`oracle`] |
//! | how memory is lent | [`heap`] |
//!
//! It needs `libi_comm`, `libi_core`, `serde` and `toml`, and can be included by its path.
#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    clippy::missing_panics_doc,
    reason = "each test needs only a part"
)]

pub mod case;
pub mod data;
pub mod heap;
pub mod oracle;
pub mod shape;
pub mod step;

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
