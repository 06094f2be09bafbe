//! The README and the manual are true: what they show is run, compiled, or marked.
//!
//! A fenced block says by its info string what it is:
//!
//! | info string | what the test does |
//! |---|---|
//! | `sh` | runs each command in a fresh directory with `libi` and the examples in `PATH`; it must exit with 0 |
//! | `sh,needs-hosts`, `sh,needs-install`, `sh,needs-checkout` | checks that the programs named exist, runs nothing |
//! | `c` | compiles it as C11 with warnings as errors; a whole program is also run |
//! | `rust…` | nothing: it is a documentation test of the crate |
//! | `text`, `cmake` | checks that each `$ libi …` line of a transcript parses: the command exists |
//!
//! Links between documents must lead somewhere, and lines stay within 100 columns.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use libi_testkit::native::{Link, run_command};
use libi_testkit::{native, programs};

const TIMEOUT: Duration = Duration::from_secs(60);

/// A fenced block of a document.
struct Block {
    document: PathBuf,
    line: usize,
    info: String,
    text: String,
}

impl Block {
    fn place(&self) -> String {
        format!("{}:{}", self.document.display(), self.line)
    }

    /// The commands of a shell block: comments dropped, continued lines joined.
    fn commands(&self) -> Vec<String> {
        let joined = self.text.replace("\\\n", " ");
        let lines = joined.lines().map(str::trim);
        lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
    }
}

/// The README and the manual.
fn documents() -> Vec<PathBuf> {
    let root = native::root();
    let pages = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = pages.filter(|path| path.extension().is_some_and(|ext| ext == "md")).collect();
    all.sort();
    all.push(root.join("README.md"));
    all.push(root.join("CONTRIBUTING.md"));
    all.push(root.join("packaging/README.md"));
    all
}

fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let mut open: Option<Block> = None;
        for (number, line) in text.lines().enumerate() {
            match (line.trim_start().strip_prefix("```"), &mut open) {
                (Some(info), None) => {
                    let (document, info) = (document.clone(), info.trim().to_owned());
                    open = Some(Block { document, line: number + 1, info, text: String::new() });
                }
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (None, Some(block)) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{}: a block is never closed", document.display());
    }
    blocks
}

/// A directory of this test's own.
fn directory(name: &str) -> PathBuf {
    let path = native::scratch().join(format!("documents.{name}.{}", std::process::id()));
    fs::create_dir_all(&path).unwrap();
    path
}

/// Runs a line by the shell with the programs that the tests have built.
fn shell(line: &str, directory: &Path) -> native::Ended {
    let programs = Path::new(programs::libi()).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.arg("-c").arg(line).env("PATH", path).current_dir(directory);
    run_command(native::without_job(&mut command), TIMEOUT)
}

/// Where the tests have built the examples.
fn examples() -> PathBuf {
    Path::new(programs::libi()).parent().unwrap().join("examples")
}

/// The example, or the command of `libi`, that a command runs by cargo, as the tests have built it.
fn built_by_tests(line: &str) -> Option<String> {
    if let Some((_, words)) = line.split_once(" -p libi-cli -- ") {
        return Some(format!("libi {words}"));
    }
    let words: Vec<_> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "--example")?;
    let example = examples().join(words.get(at + 1)?);
    assert!(example.exists(), "{line}: there is no {}", example.display());
    Some(example.display().to_string())
}

#[test]
fn commands_in_documents_run() {
    let mut ran = 0;
    for block in blocks().iter().filter(|block| block.info == "sh") {
        let directory = directory("commands");
        for line in block.commands() {
            // This is part of the first, and the tests have built what the second does.
            if line == "tests/run" || line.starts_with("cargo build ") {
                continue;
            }
            let line = line.replace("target/release/examples", &examples().display().to_string());
            let line = match line.starts_with("cargo run ") {
                true => built_by_tests(&line).unwrap_or_else(|| panic!("{}: {line}", block.place())),
                false => line,
            };
            let ended = shell(&line, &directory);
            assert_eq!(ended.code, Some(0), "{}: {line}\n{}{}", block.place(), ended.out, ended.err);
            ran += 1;
        }
        fs::remove_dir_all(directory).unwrap();
    }
    assert!(ran > 3, "only {ran} commands were found in the documents");
}

/// The first words of `libi` commands are commands, and the options that follow are known.
#[test]
fn commands_that_need_hosts_exist() {
    let known = ["sh,needs-hosts", "sh,needs-install", "sh,needs-checkout"];
    let other = ["sh", "c", "text", "cmake", "rust", "rust,no_run", "toml"];
    for block in blocks() {
        let info = block.info.as_str();
        assert!(known.contains(&info) || other.contains(&info), "{}: {info:?} is unknown", block.place());
        let shown = block.text.lines().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned);
        let lines = if known.contains(&info) { block.commands() } else { shown.collect() };
        for line in lines {
            let mut words = line.split_whitespace();
            if words.next() != Some("libi") {
                continue;
            }
            let command = words.next().unwrap_or_else(|| panic!("{}: {line}", block.place()));
            let help = shell(&format!("libi {command} --help"), native::scratch());
            assert_eq!(help.code, Some(0), "{}: {line}: {}", block.place(), help.err);
            let own = line.split(" ./").next().unwrap_or(&line);
            for option in own.split_whitespace().filter(|word| word.starts_with("--")) {
                let name = option.split('=').next().unwrap_or(option);
                assert!(help.out.contains(name), "{}: libi {command} has no {name}", block.place());
            }
        }
    }
}

#[test]
fn c_in_documents_compiles_and_whole_programs_run() {
    let mut whole = 0;
    for (number, block) in blocks().iter().filter(|block| block.info == "c").enumerate() {
        let directory = directory(&format!("c{number}"));
        let source = directory.join("program.c");
        let is_whole = block.text.contains("int main(");
        let text = match is_whole {
            true => block.text.clone(),
            false => format!(
                "#include <libi.h>\n#include <stdio.h>\n#include <string.h>\n\
                 int fragment(libi_front *front, libi_session *session, libi_member *member);\n\
                 int fragment(libi_front *front, libi_session *session, libi_member *member) {{\n\
                 (void)front; (void)session; (void)member;\n{}\nreturn 0; }}\n\
                 int main(void) {{ return 0; }}\n",
                block.text
            ),
        };
        fs::write(&source, text).unwrap();
        eprintln!("{}", block.place());
        let program =
            native::compile(&format!("document{number}"), &[source.to_str().unwrap()], Link::Shared, &[]);
        if is_whole {
            let ended = run_command(Command::new(program).current_dir(&directory), TIMEOUT);
            assert_eq!(ended.code, Some(0), "{}: {}{}", block.place(), ended.out, ended.err);
            whole += 1;
        }
        fs::remove_dir_all(directory).unwrap();
    }
    assert!(whole > 0, "no document has a whole program in C");
}

#[test]
fn links_between_documents_lead_somewhere() {
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { document.clone() } else { document.parent().unwrap().join(file) };
            assert!(path.exists(), "{}: {target} leads nowhere", document.display());
            if !anchor.is_empty() {
                let headings = fs::read_to_string(&path).unwrap();
                let found =
                    headings.lines().filter(|line| line.starts_with('#')).any(|line| slug(line) == anchor);
                assert!(found, "{}: {target} names no heading", document.display());
            }
        }
    }
}

/// The anchor of a heading.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|ch| ch.is_alphanumeric() || *ch == ' ' || *ch == '-' || *ch == '_');
    kept.collect::<String>().replace(' ', "-")
}

#[test]
fn documents_stay_short() {
    let bytes = fs::metadata(native::root().join("README.md")).unwrap().len();
    assert!(bytes <= 8 * 1024, "README.md has {bytes} bytes");
    let glossary = fs::read_to_string(native::root().join("docs/glossary.md")).unwrap();
    let rows = glossary.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| word |"));
    assert!(rows.count() <= 40, "the glossary has more than 40 entries");
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for (number, line) in (1..).zip(text.lines()) {
            // A row of a table cannot be broken.
            let is_long = line.chars().count() > 100 && !line.starts_with('|');
            assert!(!is_long, "{}:{number} is longer than 100 columns", document.display());
        }
    }
}
