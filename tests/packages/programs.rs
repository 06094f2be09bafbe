//! Builds the examples in all ways that users have, and runs them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use libi_testkit::native;

use crate::examples::{self, RUNS};
use crate::tree::Tree;
use crate::{TIMEOUT, enabled, run_successfully};

/// How long an example may take.
const SHORT: Duration = Duration::from_secs(120);

/// Compiler warnings that the examples must not cause.
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-pedantic", "-Werror"];

/// How a program is linked with the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkMethod {
    /// `pkg-config --libs`
    Shared,
    /// `pkg-config --static --libs` with `-l:liblibi.a`: libi is linked statically, system libraries are
    /// not.
    Static,
    /// `cc -static` and `pkg-config --static --libs`: everything is linked statically.
    AllStatic,
    /// `libi::libi`
    CMakeShared,
    /// `libi::libi_static`
    CMakeStatic,
    /// `libi::libi_static` and `-static`
    CMakeAllStatic,
}

impl LinkMethod {
    /// Whether the program loads `liblibi.so`, and whether it loads anything.
    fn loads(self) -> (bool, bool) {
        match self {
            Self::Shared | Self::CMakeShared => (true, true),
            Self::Static | Self::CMakeStatic => (false, true),
            Self::AllStatic | Self::CMakeAllStatic => (false, false),
        }
    }
}

/// Builds every example with each of these methods, checks its dependencies and runs it.
pub(crate) fn build_and_run(tree: &Tree, ways: &[LinkMethod]) {
    for &method in ways {
        let work = tree.work(&format!("{method:?}"));
        match method {
            LinkMethod::Shared | LinkMethod::Static | LinkMethod::AllStatic => {
                with_pkg_config(tree, method, &work);
            }
            LinkMethod::CMakeShared | LinkMethod::CMakeStatic | LinkMethod::CMakeAllStatic => {
                with_cmake(tree, method, &work);
            }
        }
        for (name, _) in examples::all() {
            assert_eq!(
                loads(&work.join(&name)),
                method.loads(),
                "{name}, {method:?}: whether liblibi.so, and anything, is loaded"
            );
        }
        for run in RUNS {
            let mut command = Command::new(work.join(run.program));
            command.args(run.args).current_dir(&work);
            if method == LinkMethod::Shared {
                command.env("LD_LIBRARY_PATH", tree.libraries());
            }
            let shown = format!("{method:?}: {command:?}");
            let ended = native::run_command(&mut command, SHORT);
            assert_eq!(ended.code, Some(run.code), "{shown}\n{}\n{}", ended.out, ended.err);
            for line in run.stdout {
                assert!(ended.out.contains(line), "{shown} does not say {line:?}\n{}", ended.out);
            }
            assert_eq!(run.stderr.is_empty(), ended.err.is_empty(), "{shown}\n{}", ended.err);
            assert!(
                ended.err.contains(run.stderr),
                "{shown} does not complain of {:?}\n{}",
                run.stderr,
                ended.err
            );
        }
    }
}

/// Compiles with the flags of pkg-config.
fn with_pkg_config(tree: &Tree, method: LinkMethod, work: &Path) {
    let flags = match method {
        LinkMethod::Shared => tree.pkg_config(&["--cflags", "--libs"]),
        _ => tree.pkg_config(&["--static", "--cflags", "--libs"]),
    };
    let flags = flags.into_iter().map(|flag| match (method, &*flag) {
        (LinkMethod::Static, "-llibi") => "-l:liblibi.a".to_owned(),
        _ => flag,
    });
    let flags: Vec<_> = flags.collect();
    for (name, source) in examples::all() {
        let program = work.join(&name);
        std::fs::create_dir_all(program.parent().unwrap()).unwrap();
        let mut compiler = match source.ends_with(".cpp") {
            true => standard("c++", "-std=c++17"),
            false => standard("cc", "-std=c11"),
        };
        if method == LinkMethod::AllStatic {
            compiler.arg("-static");
        }
        compiler.args(WARNINGS).arg(native::root().join(source)).arg("-o").arg(program).args(&flags);
        link(&mut compiler, method);
    }
}

/// Runs a linking command. The only warning allowed is the one of a fully static program that
/// `getaddrinfo` needs shared libraries at run time: the front end of the legacy interface resolves
/// names. Members never do.
fn link(command: &mut Command, method: LinkMethod) {
    let shown = format!("{command:?}");
    let ended = native::run_command(command, TIMEOUT);
    assert_eq!(ended.code, Some(0), "{shown}\n{}\n{}", ended.out, ended.err);
    let is_known = |line: &str| method.loads() == (false, false) && line.contains("Using 'getaddrinfo'");
    let mut warnings = ended.err.lines().filter(|line| line.contains("warning"));
    assert!(warnings.all(is_known), "{shown}\n{}", ended.err);
}

fn standard(compiler: &str, standard: &str) -> Command {
    let mut command = Command::new(compiler);
    command.arg(standard);
    command
}

/// Builds the examples as a CMake project outside this source tree.
fn with_cmake(tree: &Tree, method: LinkMethod, work: &Path) {
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(native::root().join("examples")).arg("-B").arg(work);
    configure.arg(define("CMAKE_PREFIX_PATH", &tree.prefix().display().to_string()));
    configure
        .arg(define("CMAKE_C_FLAGS", &WARNINGS.join(" ")))
        .arg(define("CMAKE_CXX_FLAGS", &WARNINGS.join(" ")));
    // Packages that happen to be installed on this machine are not searched.
    configure.arg("-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF");
    if method != LinkMethod::CMakeShared {
        configure.arg("-DLIBI_EXAMPLES_STATIC=ON");
    }
    if method == LinkMethod::CMakeAllStatic {
        configure.arg("-DCMAKE_EXE_LINKER_FLAGS=-static");
    }
    run_successfully(&mut configure);
    link(Command::new("cmake").arg("--build").arg(work).args(["--parallel", "2"]), method);
}

fn define(name: &str, value: &str) -> String {
    format!("-D{name}={value}")
}

/// Whether a program loads `liblibi.so`, and whether it loads anything.
fn loads(program: &Path) -> (bool, bool) {
    let said = run_successfully(Command::new("readelf").arg("-d").arg(program));
    let needed: Vec<_> = said.lines().filter(|line| line.contains("(NEEDED)")).collect();
    (needed.iter().any(|line| line.contains(&format!("[{}]", native::soname()))), !needed.is_empty())
}

#[test]
fn programs_build_against_the_installation_also_when_moved() {
    use LinkMethod::{AllStatic, CMakeAllStatic, CMakeShared, CMakeStatic, Shared, Static};

    if !enabled() {
        return;
    }
    let tree = Tree::in_own_prefix("programs").installed_by_script();
    build_and_run(&tree, &[Shared, Static, AllStatic]);
    build_and_run(&tree.moved(), &[CMakeShared, CMakeStatic, CMakeAllStatic]);
}
