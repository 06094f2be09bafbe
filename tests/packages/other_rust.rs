//! A program may link libi and another static library that is written in Rust.

use std::path::Path;
use std::process::Command;

use libi_testkit::native;

use crate::tree::Tree;
use crate::{enabled, run_successfully};

/// Links a program with all objects of both libraries, so that duplicate symbols are errors.
fn link(tree: &Tree, ours: &Path, other: &Path, program: &Path) -> Command {
    let mut compiler = Command::new("cc");
    compiler.arg("-std=c11").arg(native::root().join("tests/packages/both.c")).arg("-o").arg(program);
    compiler.arg("-Wl,--whole-archive").arg(ours).arg(other).arg("-Wl,--no-whole-archive");
    let flags = tree.pkg_config(&["--static", "--cflags", "--libs"]);
    compiler.args(flags.into_iter().filter(|flag| flag != "-llibi"));
    compiler
}

#[test]
fn another_rust_static_library_can_be_linked_too() {
    if !enabled() {
        return;
    }
    let tree = Tree::in_own_prefix("beside").installed_by_script();
    let work = tree.work("beside");
    let other = work.join("libother.a");
    let mut rustc = Command::new("rustc");
    rustc
        .args(["--edition", "2024", "-O", "tests/packages/other.rs", "-o"])
        .arg(&other)
        .current_dir(native::root());
    run_successfully(&mut rustc);

    let program = work.join("both");
    run_successfully(&mut link(&tree, &tree.libraries().join("liblibi.a"), &other, &program));
    let ended = native::run_command(&mut Command::new(&program), crate::TIMEOUT);
    assert_eq!((ended.code, &*ended.out), (Some(0), "2 -1 0 n[1-3]\n"), "{}", ended.err);
    assert!(
        ended.err.contains("none is negative"),
        "the other library prints its own message: {}",
        ended.err
    );

    // The unprocessed library of the compiler does cause duplicate symbols.
    let unchanged = native::library().join("liblibi.a");
    let refused = link(&tree, &unchanged, &other, &program).env("LC_ALL", "C").output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && text.contains("multiple definition"), "{text}");
}
