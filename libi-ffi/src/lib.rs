//! The C face of libi.
//!
//! **Nothing is here yet.** This crate will become `liblibi.so` and `liblibi.a` with `include/libi.h`, and with
//! `include/libi/libi_api.h`, which is source compatible with the LIBI interface of 2011.
#![deny(missing_docs)]
