//! Gives `liblibi.so` its soname: the versions with which a program that was linked against this one will work.
//!
//! Before 1.0 a minor version may break, so a program asks for `liblibi.so.0.1`; from then on for `liblibi.so.1`. cargo-c gives
//! the same ones.

use std::env::var;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let of = |name: &str| var(name).unwrap_or_else(|error| panic!("cargo says nothing of {name}: {error}"));
    let (major, minor) = (of("CARGO_PKG_VERSION_MAJOR"), of("CARGO_PKG_VERSION_MINOR"));
    let series = if major == "0" { format!("0.{minor}") } else { major };
    if of("CARGO_CFG_TARGET_OS") == "linux" {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,liblibi.so.{series}");
    }
}
