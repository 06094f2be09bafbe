//! All version numbers agree.

use std::fs;
use std::process::Command;

use libi_testkit::native;

use crate::tree::Tree;
use crate::{enabled, run_successfully};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The parts of Cargo's version.
fn parts() -> [u32; 3] {
    let parts =
        [env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"), env!("CARGO_PKG_VERSION_PATCH")];
    parts.map(|part| part.parse().unwrap())
}

/// The answer of the installed package to `find_package(libi WANTED)`: version and compatibility.
fn cmake_compatibility(tree: &Tree, wanted: &str) -> String {
    let numbers: Vec<_> = wanted.split('.').collect();
    let mut cmake = Command::new("cmake");
    cmake.arg(format!("-DPACKAGE_FIND_VERSION={wanted}"));
    cmake.arg(format!("-DPACKAGE_FIND_VERSION_COUNT={}", numbers.len()));
    for (name, number) in ["MAJOR", "MINOR", "PATCH"].into_iter().zip(numbers) {
        cmake.arg(format!("-DPACKAGE_FIND_VERSION_{name}={number}"));
    }
    cmake.arg(format!(
        "-DFILE={}",
        tree.prefix().join("share/cmake/libi/libi-config-version.cmake").display()
    ));
    run_successfully(cmake.arg("-P").arg(native::root().join("tests/packages/version.cmake")))
        .trim_end()
        .to_owned()
}

#[test]
fn header_library_soname_and_packages_are_of_the_version_that_cargo_has() {
    if !enabled() {
        return;
    }
    let tree = Tree::in_own_prefix("versions").installed_by_script();
    let [major, minor, patch] = parts();
    let number = major * 1_000_000 + minor * 1_000 + patch;

    let program = tree.work("version").join("version");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", "tests/packages/version.c", "-o"]);
    compiler.arg(&program).args(tree.pkg_config(&["--cflags", "--libs"])).current_dir(native::root());
    run_successfully(&mut compiler);
    let said = run_successfully(Command::new(&program).env("LD_LIBRARY_PATH", tree.libraries()));
    assert_eq!(said, format!("{VERSION} {number}\n{VERSION} {number}\n"), "the header, and the library");

    let stdout = run_successfully(Command::new("readelf").arg("-d").arg(tree.libraries().join("liblibi.so")));
    let named = stdout.lines().find(|line| line.contains("(SONAME)")).unwrap_or_default();
    assert!(named.ends_with(&format!("[{}]", native::soname())), "{named}");

    assert_eq!(tree.pkg_config(&["--modversion"]), [VERSION]);
    let pc = fs::read_to_string(tree.libraries().join("pkgconfig/libi.pc")).unwrap();
    assert!(!pc.contains('@'), "a placeholder was not replaced:\n{pc}");

    let later = format!("{major}.{minor}.{}", patch + 1);
    let next = format!("{major}.{}", minor + 1);
    for (wanted, answer) in [
        (VERSION, "exact"),
        (&format!("{major}.{minor}"), if patch == 0 { "exact" } else { "compatible" }),
        (&*later, "no"),
        (&*next, "no"),
        (&format!("{}.0", major + 1), "no"),
        // Before 1.0 a program for an older series may break.
        (
            &format!("{major}.{}", minor.saturating_sub(1)),
            if minor == 0 || major > 0 { "compatible" } else { "no" },
        ),
    ] {
        assert_eq!(
            cmake_compatibility(&tree, wanted),
            format!("{VERSION} {answer}"),
            "find_package(libi {wanted})"
        );
    }
}
