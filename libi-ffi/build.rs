//! Sets the soname of `liblibi.so`: the versions that a program linked against this one can use.
//!
//! Before 1.0 each minor version may be incompatible, so it is `liblibi.so.0.1`; later it is
//! `liblibi.so.1`. cargo-c uses the same names.

use std::env::var;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let of = |name: &str| var(name).unwrap_or_else(|error| panic!("{name} is not set: {error}"));
    let (major, minor) = (of("CARGO_PKG_VERSION_MAJOR"), of("CARGO_PKG_VERSION_MINOR"));
    let series = if major == "0" { format!("0.{minor}") } else { major };
    if of("CARGO_CFG_TARGET_OS") == "linux" {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,liblibi.so.{series}");
    }
}
