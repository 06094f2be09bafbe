//! The generated pages are complete and well-formed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A directory with freshly generated pages.
fn generated(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    let status = Command::new(env!("CARGO_BIN_EXE_libi-pages")).arg(&directory).status().unwrap();
    assert!(status.success());
    directory
}

fn read(directory: &Path, page: &str) -> String {
    let path = directory.join(page);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn pages(directory: &Path) -> Vec<PathBuf> {
    let sections = ["man/man1", "man/man3"].map(|section| directory.join(section));
    let entries = sections.iter().flat_map(|section| fs::read_dir(section).unwrap());
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn every_command_has_a_page_with_all_its_options() {
    let directory = generated("commands");
    let main = read(&directory, "man/man1/libi.1");
    let commands = ["run", "attach", "shell", "doctor", "plan", "simulate", "hosts", "job", "trace"];
    let definition = fs::read_to_string(format!("{ROOT}/libi-cli/src/command.rs")).unwrap();
    assert_eq!(
        definition.matches("    #[command(after_help").count(),
        commands.len(),
        "a command is not listed"
    );
    for command in commands {
        assert!(main.contains(&format!("libi\\-{command}(1)")), "{command} is not in libi(1)");
        let page = read(&directory, &format!("man/man1/libi-{command}.1"));
        let source = [format!("{command}.rs"), format!("{command}/mod.rs")]
            .iter()
            .find_map(|file| fs::read_to_string(format!("{ROOT}/libi-cli/src/{file}")).ok());
        for option in long_options(&source.unwrap()) {
            assert!(page.contains(&option.replace('-', "\\-")), "--{option} is not in libi-{command}(1)");
        }
        assert!(page.contains("Examples:"), "{command}");
    }
    for (script, word) in [
        ("bash-completion/completions/libi", "--time-limit"),
        ("zsh/site-functions/_libi", "--time-limit"),
        ("fish/vendor_completions.d/libi.fish", "time-limit"),
    ] {
        let script = read(&directory, script);
        assert!(commands.iter().all(|command| script.contains(command)) && script.contains(word));
    }
}

/// The long options in the source of a command: `long = "NAME"`, or `long` and the field's name.
fn long_options(source: &str) -> Vec<String> {
    let mut options = Vec::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let Some(arg) = line.trim().strip_prefix("#[arg(") else { continue };
        if !arg.split([',', '(', ')', ' ']).any(|word| word == "long") {
            continue;
        }
        match arg.split_once("long = \"") {
            Some((_, rest)) => options.extend(rest.split('"').next().map(str::to_owned)),
            None => options.extend(
                lines
                    .next()
                    .and_then(|field| field.trim().split(':').next())
                    .map(|name| name.replace('_', "-")),
            ),
        }
    }
    assert!(!options.is_empty());
    options
}

#[test]
fn every_c_function_has_a_page_and_a_description() {
    let directory = generated("functions");
    let symbols = fs::read_to_string(format!("{ROOT}/libi-ffi/symbols.txt")).unwrap();
    for function in symbols.lines().filter(|symbol| symbol.starts_with("libi_")) {
        let mut page = read(&directory, &format!("man/man3/{function}.3"));
        if let Some(target) = page.strip_prefix(".so ") {
            page = read(&directory, &format!("man/{}", target.trim_end()));
        }
        assert!(page.contains(&format!("\n.SS {function}\n")), "{function} is not described");
    }
    let general = read(&directory, "man/man3/libi.3");
    for word in ["LIBI_OK", "LIBI_ERR_TIMED_OUT", "libi_result"] {
        assert!(general.contains(word), "{word}");
    }
    let (_, types) = general.split_once("\n\\fBlibi_backend\\fR\n").unwrap();
    let after = types.split("\n.RE\n").next().unwrap();
    assert!(after.contains("LIBI_BACKEND_AUTO = 0"), "constants follow their type: {after}");
}

#[test]
fn formatters_find_no_mistake() {
    let directory = generated("formatted");
    let formatters: [(&str, &[&str]); 2] =
        [("groff", &["-man", "-Tutf8", "-ww", "-z"]), ("mandoc", &["-T", "lint", "-W", "warning"])];
    for (formatter, arguments) in formatters {
        for page in pages(&directory) {
            if fs::read_to_string(&page).unwrap().starts_with(".so ") {
                continue;
            }
            let Ok(output) = Command::new(formatter).args(arguments).arg(&page).output() else {
                eprintln!("skipped: {formatter} is not installed");
                break;
            };
            let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            // A page has no date, so that it depends on the sources only.
            let mistakes: Vec<_> = text.lines().filter(|line| !line.contains("missing date")).collect();
            assert!(mistakes.is_empty(), "{mistakes:#?}");
        }
    }
}
