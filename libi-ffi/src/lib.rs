//! The C face of libi: `liblibi.so`, `liblibi.a`, and what `include/libi.h` is made of.
//!
//! Every function of [`libi`] that a program needs stands here once more, as C can call it. Nothing is decided
//! here; a function checks what it is given, calls, and puts what came of it into a code and a text.
//!
//! # Rules of the header
//! They stand at its top ([`result`]), for those who read nothing else. Here is how they are kept:
//!
//! | rule | kept by |
//! |---|---|
//! | a NULL, a freed handle, or one of another type is a code, as far as can be told | [`object`]: each object begins with a mark, which goes when it is freed |
//! | a panic does not cross, and what it left half done is not used again | [`object`]: the object is poisoned, and every later call on it says so |
//! | each object has the text of what failed last, for each thread that uses it | [`object`] |
//! | an object that only one may use at a time says so to the second | [`object`]: its value is a `Mutex`, which nobody waits for |
//! | a function that the library has called cannot wait for itself; a child that was forked says nothing over its parent's links | [`reentry`] |
//! | strings and bytes are copied in; what a getter gives is the object's, until that is freed or changed | [`args`] |
//! | codes are never used again for anything else | [`result`] |
//!
//! # Where things are
//!
//! | module | functions |
//! |---|---|
//! | [`hosts`], [`distribution`] | `libi_hosts_…`, `libi_distribution_…`: what is to be launched where |
//! | [`options`] | `libi_options_…`: how |
//! | [`front`], [`session`], [`layout`] | `libi_front_…`, `libi_session_…`, `libi_layout_…` |
//! | [`event`], [`report`], [`failure`] | `libi_event_…`, `libi_report_…`, `libi_failure_…` |
//! | [`member`], [`pending`], [`data`] | `libi_member_…`, `libi_pending_…`, `libi_data_…` |
//! | [`version`] | `libi_version…` |
//! | [`legacy`] | `LIBI_…`: the interface of 2011, declared in `include/libi/libi_api.h` |
//!
//! # Safety
//! All functions are `unsafe` for one reason: they follow the pointers that C has given them. What these have to be is what the header
//! says, and every `SAFETY: as the header asks` stands for that.
#![allow(unsafe_code, reason = "C is met here")]
#![allow(non_camel_case_types, reason = "types are called as in C")]
#![allow(unreachable_pub, reason = "C reaches it")]
#![allow(clippy::missing_safety_doc, reason = "it is the same for all: see the head of this crate")]

mod args;
/// cbindgen:ignore
mod legacy;
mod object;
mod reentry;

// In the order of the header.
mod result;

mod version;

mod progress;

mod hosts;

mod distribution;
mod options;

mod front;

mod session;

mod layout;

mod event;

mod report;

mod failure;

mod member;

mod pending;

mod data;
