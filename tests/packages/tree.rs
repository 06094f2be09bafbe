//! Which files are installed where.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use libi_testkit::native;

use crate::{TIMEOUT, enabled, run_successfully};

/// Debian's library directory.
fn multiarch() -> String {
    format!("lib/{}-linux-gnu", std::env::consts::ARCH)
}

/// An empty directory for the files of a test.
fn directory(name: &str) -> PathBuf {
    let directory = native::scratch().join(format!("packages.{name}.{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// The build directory, shared by all tests.
fn target() -> PathBuf {
    native::scratch().join("../packages")
}

/// An installation, in a directory that is removed with it.
pub(crate) struct Tree {
    directory: PathBuf,
    /// The staging directory; empty if there is none.
    destdir: PathBuf,
    prefix: PathBuf,
    libdir: String,
}

impl Tree {
    /// Debian's layout: the prefix `/usr` in a staging directory.
    pub(crate) fn in_debian_layout(name: &str) -> Self {
        let directory = directory(name);
        Self { destdir: directory.join("package"), directory, prefix: "/usr".into(), libdir: multiarch() }
    }

    /// A prefix of its own.
    pub(crate) fn in_own_prefix(name: &str) -> Self {
        let directory = directory(name);
        Self { destdir: PathBuf::new(), prefix: directory.join("there"), directory, libdir: "lib".into() }
    }

    /// Installs with `packaging/install`.
    pub(crate) fn installed_by_script(self) -> Self {
        self.script(&[]);
        self
    }

    /// Runs `packaging/install` with these arguments.
    pub(crate) fn script(&self, words: &[&str]) {
        run_successfully(&mut self.command(words));
    }

    /// `packaging/install` with a restrictive umask and coloured compiler output.
    fn command(&self, words: &[&str]) -> Command {
        let mut script = Command::new("sh");
        script.args(["-c", r#"umask 077 && exec "$0" "$@""#]).arg(native::root().join("packaging/install"));
        script.args(words).env("CARGO", env!("CARGO")).env("CARGO_TARGET_DIR", target());
        self.with_paths(script.env("CARGO_TERM_COLOR", "always"));
        script
    }

    /// The message of a command that fails before it installs any file.
    fn failure_message(&self, command: &mut Command) -> String {
        let ended = native::run_command(command, TIMEOUT);
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{}", ended.err);
        assert_eq!(self.files(), BTreeSet::new());
        ended.err
    }

    /// Installs with `cargo cinstall`.
    pub(crate) fn installed_by_cargo_c(self) -> Self {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "cinstall",
            "--locked",
            "--package",
            "libi-ffi",
            "--profile",
            "packaged",
            "--target-dir",
        ]);
        run_successfully(self.with_paths(cargo.arg(target()).current_dir(native::root())));
        self
    }

    fn with_paths<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.arg("--prefix").arg(&self.prefix).arg("--libdir").arg(&self.libdir);
        if !self.destdir.as_os_str().is_empty() {
            command.arg("--destdir").arg(&self.destdir);
        }
        command
    }

    /// Moves the installation to a prefix that it was not configured for.
    pub(crate) fn moved(mut self) -> Self {
        let elsewhere = self.directory.join("elsewhere");
        fs::rename(&self.prefix, &elsewhere).unwrap();
        self.prefix = elsewhere;
        self
    }

    /// A directory for built programs.
    pub(crate) fn work(&self, name: &str) -> PathBuf {
        let work = self.directory.join(name);
        fs::create_dir_all(&work).unwrap();
        work
    }

    /// The current path of the prefix.
    pub(crate) fn prefix(&self) -> PathBuf {
        match self.destdir.as_os_str().is_empty() {
            true => self.prefix.clone(),
            false => self.destdir.join(self.prefix.strip_prefix("/").unwrap()),
        }
    }

    /// The current path of the library directory.
    pub(crate) fn libraries(&self) -> PathBuf {
        self.prefix().join(&self.libdir)
    }

    /// All files and links, relative to the prefix.
    pub(crate) fn files(&self) -> BTreeSet<String> {
        let (prefix, mut found) = (self.prefix(), BTreeSet::new());
        if prefix.exists() {
            walk(&prefix, &prefix, &mut found);
        }
        found
    }

    /// The output of pkg-config for `libi`, split into words.
    pub(crate) fn pkg_config(&self, words: &[&str]) -> Vec<String> {
        self.pkg_config_of("libi", words)
    }

    fn pkg_config_of(&self, package: &str, words: &[&str]) -> Vec<String> {
        let mut command = Command::new("pkg-config");
        command.args(words).arg(package).env("PKG_CONFIG_LIBDIR", self.libraries().join("pkgconfig"));
        if !self.destdir.as_os_str().is_empty() {
            command.env("PKG_CONFIG_SYSROOT_DIR", &self.destdir);
        }
        // This /usr is not the system's.
        command.env("PKG_CONFIG_ALLOW_SYSTEM_CFLAGS", "1").env("PKG_CONFIG_ALLOW_SYSTEM_LIBS", "1");
        // A space in a path does not end a word.
        let said = run_successfully(&mut command).replace("\\ ", "\0");
        said.split_whitespace().map(|word| word.replace('\0', " ")).collect()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // The files of a failed test are kept.
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

fn walk(from: &Path, directory: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            walk(from, &entry.path(), found);
        } else {
            found.insert(entry.path().strip_prefix(from).unwrap().to_str().unwrap().to_owned());
        }
    }
}

/// The files to be installed, relative to the prefix.
fn expected(libdir: &str) -> BTreeSet<String> {
    let version = env!("CARGO_PKG_VERSION");
    let mut files = BTreeSet::new();
    walk(native::root(), &native::root().join("include"), &mut files);
    let libraries = [
        "liblibi.a",
        "liblibi.so",
        &format!("liblibi.so.{version}"),
        &native::soname(),
        "libxplat.a",
        "pkgconfig/libi.pc",
        "pkgconfig/libi-static.pc",
    ];
    files.extend(libraries.map(|file| format!("{libdir}/{file}")));
    files.extend(["", "-version"].map(|which| format!("share/cmake/libi/libi-config{which}.cmake")));
    files
}

/// Whether the script, but not cargo-c, installs this file: the program, its pages and completions, and
/// what build systems for the LIBI of 2011 link.
fn is_of_script_only(file: &str) -> bool {
    let directories = ["bin/", "share/man/", "share/bash-completion/", "share/zsh/", "share/fish/"];
    directories.iter().any(|directory| file.starts_with(directory))
        || ["/libxplat.a", "/libi-static.pc"].iter().any(|end| file.ends_with(end))
}

/// The symbols that an archive or a shared library exports.
fn exported(library: &Path, how: &[&str]) -> BTreeSet<String> {
    let said = run_successfully(Command::new("nm").args(how).arg("--defined-only").arg(library));
    // Lines without three words, such as the names of an archive's members, are no symbols.
    let names = said.lines().filter_map(|line| line.split_whitespace().nth(2));
    names.map(str::to_owned).collect()
}

#[test]
fn the_script_installs_exports_the_listed_symbols_and_uninstalls() {
    if !enabled() {
        return;
    }
    let tree = Tree::in_debian_layout("script").installed_by_script();
    let (pages, files): (BTreeSet<_>, _) = tree
        .files()
        .into_iter()
        .partition(|file| is_of_script_only(file) && !file.ends_with(".a") && !file.ends_with(".pc"));
    assert_eq!(files, expected(&multiarch()));
    for page in ["man/man1/libi.1", "man/man1/libi-run.1", "man/man3/libi_member_init.3", "man/man3/libi.3"] {
        assert!(pages.contains(&format!("share/{page}")), "{page}");
    }
    for script in [
        "bash-completion/completions/libi",
        "zsh/site-functions/_libi",
        "fish/vendor_completions.d/libi.fish",
    ] {
        assert!(pages.contains(&format!("share/{script}")), "{script}");
    }
    let version = run_successfully(Command::new(tree.prefix().join("bin/libi")).arg("--version"));
    assert_eq!(version, format!("libi {}\n", env!("CARGO_PKG_VERSION")));
    assert!(tree.prefix().join("bin/libi-agent").exists());
    let mode = fs::metadata(tree.prefix().join("include/libi")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755, "the directory is readable by all users");

    let library = tree.libraries().join("liblibi.so");
    let real = library.canonicalize().unwrap();
    assert!(real.ends_with(format!("liblibi.so.{}", env!("CARGO_PKG_VERSION"))), "{}", real.display());
    assert_eq!(tree.libraries().join(native::soname()).canonicalize().unwrap(), real);

    let list = fs::read_to_string(native::root().join("libi-ffi/symbols.txt")).unwrap();
    let listed: BTreeSet<_> = list.lines().map(str::to_owned).collect();
    assert_eq!(exported(&library, &["-D"]), listed);
    assert_eq!(exported(&tree.libraries().join("liblibi.a"), &["-g"]), listed);

    // Other files in the same tree survive an uninstallation.
    fs::write(tree.prefix().join("include/others.h"), "").unwrap();
    tree.script(&["--uninstall"]);
    assert_eq!(tree.files(), BTreeSet::from(["include/others.h".to_owned()]));
}

#[test]
fn a_prefix_may_have_spaces_in_it() {
    if !enabled() {
        return;
    }
    let tree = Tree::in_own_prefix("of many words").installed_by_script();
    let program = tree.work("version").join("version");
    let mut compiler = Command::new("cc");
    compiler.arg(native::root().join("tests/packages/version.c")).arg("-o").arg(&program);
    run_successfully(compiler.args(tree.pkg_config(&["--cflags", "--libs"])));
    let said = run_successfully(Command::new(&program).env("LD_LIBRARY_PATH", tree.libraries()));
    assert!(said.starts_with(env!("CARGO_PKG_VERSION")), "{said}");

    // libi-static.pc puts the library into the program.
    let program = tree.work("static").join("version");
    let mut compiler = Command::new("cc");
    compiler.arg(native::root().join("tests/packages/version.c")).arg("-o").arg(&program);
    run_successfully(compiler.args(tree.pkg_config_of("libi-static", &["--cflags", "--libs"])));
    let said = run_successfully(&mut Command::new(&program));
    assert!(said.starts_with(env!("CARGO_PKG_VERSION")), "{said}");
}

#[test]
fn the_script_fails_before_building_with_a_reason() {
    if !enabled() {
        return;
    }
    for name in ["it's", "a\"", "#1", "$HOME", "back\\slash", "two\nlines"] {
        let mut tree = Tree::in_own_prefix("refused");
        tree.prefix.push(name);
        let said = tree.failure_message(&mut tree.command(&[]));
        assert!(said.contains(name) && said.contains("cannot be in libi.pc"), "{said}");
    }
    let tree = Tree::in_own_prefix("without");
    let said = tree.failure_message(tree.command(&[]).env("LD", "/no/such/linker"));
    assert!(said.contains("/no/such/linker is missing: this needs cargo, cc and binutils"), "{said}");
}

/// Whether cargo-c is there. It takes minutes to build; `tests/run all` installs it.
fn has_cargo_c() -> bool {
    let found = Command::new(env!("CARGO")).args(["cinstall", "--version"]).output();
    let found = found.is_ok_and(|ended| ended.status.success());
    if !found {
        eprintln!("skipped: cargo-c is not installed");
    }
    found
}

#[test]
fn cargo_c_installs_the_same_files() {
    if !enabled() || !has_cargo_c() {
        return;
    }
    let (script, cargo_c) = (
        Tree::in_debian_layout("same").installed_by_script(),
        Tree::in_debian_layout("cargo_c").installed_by_cargo_c(),
    );
    let mut by_script = script.files();
    by_script.retain(|file| !is_of_script_only(file));
    assert_eq!(cargo_c.files(), by_script);

    // The script leaves out two libraries that the C compiler adds by itself.
    let said = |tree: &Tree| fs::read_to_string(tree.libraries().join("pkgconfig/libi.pc")).unwrap();
    let by_compiler = |line: &str| {
        let words = line.split(' ').filter(|word| !["-lgcc_s", "-lc"].contains(word));
        words.collect::<Vec<_>>().join(" ")
    };
    let expected: Vec<_> = said(&cargo_c).lines().map(by_compiler).collect();
    assert_eq!(said(&script).lines().collect::<Vec<_>>(), expected);

    // Headers and the package for CMake are the same files.
    for file in
        script.files().iter().filter(|file| file.starts_with("include/") || file.starts_with("share/cmake/"))
    {
        let read = |tree: &Tree| fs::read(tree.prefix().join(file)).unwrap();
        assert!(read(&script) == read(&cargo_c), "{file}");
    }

    use crate::programs::LinkMethod::{CMakeShared, CMakeStatic, Shared, Static};
    crate::programs::build_and_run(&cargo_c, &[Shared, Static, CMakeShared, CMakeStatic]);
}
