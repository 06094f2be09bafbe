//! The C interface of libi: `liblibi.so`, `liblibi.a`, and the source of `include/libi.h`.
//!
//! Every function of [`libi`] that a program needs is here in a form that C can call. Nothing is
//! decided here: a function checks its arguments, calls the Rust function, and turns the result
//! into a code and a text.
//!
//! # Design of the interface
//!
//! **Objects.** A type is opaque and has a prefix; its functions take it as first argument.
//! `libi_X_new` makes an object and `libi_X_free` frees it.
//!
//! | object | purpose |
//! |---|---|
//! | `libi_hosts`, `libi_distribution`, `libi_options` | builders: what to launch, where, how |
//! | `libi_front`, `libi_session` | a front end and the sessions that it has launched |
//! | `libi_layout`, `libi_event`, `libi_report`, `libi_failure` | values that describe a session |
//! | `libi_member` | this process as a member of a session |
//! | `libi_losses` | how members were lost, as a member knows it |
//! | `libi_job`, `libi_processes`, `libi_targets` | a running job of another launcher, its processes, and those on a daemon's host |
//! | `libi_pending`, `libi_data`, `libi_value` | operations in progress and their bytes |
//!
//! **Names.** One style: `libi_OBJECT_set_X` replaces, `libi_OBJECT_add_X` appends,
//! `libi_OBJECT_X` reads. Every wait takes a `libi_timeout` as its last argument.
//!
//! **Codes** are enums, so that a debugger and a `switch` know their names. Their numbers are
//! written out and never used again for another meaning. C may pass any integer: functions take
//! enums as `c_int` (the `…_arg` aliases, which the header shows as the enum) and check them.
//!
//! **Failures.** A function that can fail returns a `libi_result`. The text of the calling
//! thread's last failure is `libi_last_error()`; no object keeps texts. A builder remembers the
//! first of its calls that failed, and a launch that is given this builder returns that failure:
//! a setter whose code is not looked at cannot lead to a launch of something else.
//!
//! **Structs.** What is known about an event, a report, a host and so on is a plain struct,
//! filled by one call: `libi_event_query(event, &info, sizeof info)`. The size is the caller's; a
//! later version appends members and fills as many as the caller knows. Strings in such a struct
//! belong to the object.
//!
//! **Two forms of every operation.** `libi_member_X(…, timeout)` waits.
//! `libi_member_start_X(…, libi_pending **)` takes the same inputs and returns at once. The
//! alternative, one function with an optional `libi_pending **`, would put a NULL into every
//! waiting call and a timeout without meaning into every other one. An operation to which all
//! members contribute takes a `libi_lengths` instead of having a second function for equal
//! lengths. `…_into` is the form for equal lengths with the caller's own memory.
//!
//! # Rules of the header, and where they are kept
//!
//! - NULL is `LIBI_ERR_NULL`: [`object`], [`args`].
//! - Use of a freed object, or of one of another type, is undefined. Most cases are detected by a
//!   mark at the start of each object, which is cleared by free: [`object`].
//! - A panic does not cross into C. The object is poisoned, and every later call reports that:
//!   [`object`].
//! - Each thread has a text for its last failure: [`error`].
//! - A builder remembers its first failure: [`object::Builder`].
//! - A builder or a pending operation used by two threads is `LIBI_ERR_BUSY`. Its `Mutex` is only
//!   tried: [`object`].
//! - A callback cannot wait for itself, and a forked child cannot affect its parent's links:
//!   [`reentry`].
//! - Strings and bytes are copied in: [`args`].
//!
//! # Modules
//!
//! In the order of the header:
//!
//! | module | functions |
//! |---|---|
//! | [`result`], [`error`] | `libi_result_text`, `libi_last_error` |
//! | [`version`], [`log`] | `libi_version`, `libi_set_log` |
//! | [`hosts`], [`distribution`] | `libi_hosts_…`, `libi_distribution_…` |
//! | [`options`] | `libi_options_…` |
//! | [`front`], [`session`] | `libi_front_…`, `libi_session_…` |
//! | [`layout`], [`event`] | `libi_layout_…`, `libi_event_…` |
//! | [`report`], [`failure`] | `libi_report_…`, `libi_failure_…` |
//! | [`member`] | `libi_member_…`, `libi_value_…`, `libi_losses_…` |
//! | [`job`] | `libi_job_…`, `libi_processes_…`, `libi_targets_…`, and what daemons beside a job call |
//! | [`pending`], [`data`] | `libi_pending_…`, `libi_data_…` |
//! | [`legacy`] | `LIBI_…`: the interface of 2011, declared in `include/libi/libi_api.h` |
//! | [`launchmon`] | `LMON_…`: the API of LaunchMON, declared in `include/lmon_api/` |
//! | [`compat`] | what these two have in common |
//!
//! # Safety
//!
//! All functions are `unsafe` for one reason: they follow pointers that C has passed. What these
//! pointers must be is documented in the header; `SAFETY: as documented in the header` refers to
//! that.
#![allow(unsafe_code, reason = "the interface to C")]
#![allow(non_camel_case_types, reason = "types have their names of C")]
#![allow(unreachable_pub, reason = "C reaches it")]
#![allow(clippy::missing_safety_doc, reason = "the same for all functions: see the crate's documentation")]

mod args;
mod compat;
/// cbindgen:ignore
mod launchmon;
/// cbindgen:ignore
mod legacy;
mod object;
mod reentry;
mod text;

// In the order of the header.
mod result;

mod error;

mod version;

mod log;

mod progress;

mod hosts;

mod distribution;

mod options;

mod front;

mod session;

mod command;

mod layout;

mod event;

mod report;

mod failure;

mod member;

mod job;

mod pending;

mod data;
