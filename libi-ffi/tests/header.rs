//! `include/libi.h` is what cbindgen makes of the sources, put in order by this test.

use std::path::Path;
use std::process::Command;

/// The sections of the header in their order, and the types in each whose names do not tell. A
/// section's types come before its functions, and must not need types of later sections.
const SECTIONS: [(&str, &str, &[&str]); 19] = [
    ("", "Results, versions and log lines", &["libi_result", "libi_timeout", "libi_micros"]),
    ("libi_hosts_", "Host lists", &["libi_placement"]),
    ("libi_distribution_", "Distributions: what to start where", &[]),
    (
        "libi_options_",
        "Options: how a launch proceeds",
        &["libi_rule", "libi_output", "libi_links", "libi_backend"],
    ),
    ("libi_front_", "The front end", &["libi_progress", "libi_event_callback"]),
    ("libi_session_", "Sessions, as their front end has them", &["libi_stage", "libi_ranks"]),
    ("libi_layout_", "Layouts: where ranks run", &[]),
    ("libi_failure_", "Failures", &["libi_phase", "libi_cause", "libi_exit"]),
    ("libi_event_", "Events", &[]),
    ("libi_report_", "Reports of launches", &[]),
    ("libi_data_", "Received bytes", &[]),
    ("libi_pending_", "Operations in progress", &["libi_ring_position"]),
    ("libi_value_", "Values of a reduction by a function", &["libi_fold", "libi_release"]),
    ("libi_losses_", "Losses of members", &["libi_loss_kind"]),
    ("libi_member_", "Members", &["libi_lengths", "libi_element", "libi_op", "libi_key_scope"]),
    ("libi_processes_", "Processes of a job", &[]),
    ("libi_job_", "Jobs of other launchers", &["libi_launcher"]),
    ("libi_targets_", "Processes of a job on the host of a daemon", &[]),
    ("libi_watch_", "Watches of jobs: what happens to them", &[]),
];

/// The header as cbindgen makes it.
fn generated() -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).expect("cbindgen.toml is read");
    let made = cbindgen::Builder::new().with_crate(here).with_config(config).generate();
    let mut text = Vec::new();
    made.expect("cbindgen understands the sources").write(&mut text);
    String::from_utf8(text).expect("the header is UTF-8")
}

/// The name that an item declares.
fn name(item: &str) -> &str {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    // Its documentation comes first, and comments in it are before its closing brace.
    let code = item.rsplit_once("*/\n").map_or(item, |(_, code)| code).trim_end_matches(';');
    let before = match (code.find("(*"), code.rfind('}'), code.find('(')) {
        (Some(pointer), ..) => return code[pointer + 2..].split(|c| !is_name(c)).next().unwrap_or(""),
        (None, Some(_), _) => code,
        (None, None, Some(parameters)) => &code[..parameters],
        (None, None, None) => code,
    };
    before.rsplit(|c| !is_name(c)).next().unwrap_or("")
}

/// Puts comments of one line on one line.
fn one_line_comments(header: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in header.lines() {
        lines.push(line.to_owned());
        if let [.., begin, text, end] = &lines[..]
            && let Some(text) = text.trim_start().strip_prefix("* ")
            && begin.trim_start() == "/**"
            && end.trim_start() == "*/"
            && begin.len() + text.len() + 4 <= 100
        {
            let whole = format!("{begin} {text} */");
            lines.truncate(lines.len() - 3);
            lines.push(whole);
        }
    }
    lines.join("\n") + "\n"
}

/// Puts the items of the generated header into sections with headings.
fn ordered(header: &str) -> String {
    // A comma after the last enumerator is an error in C++98.
    let header =
        one_line_comments(&header.replace(",\n} libi_", "\n} libi_").replace("struct  {", "struct {"));
    let (begin, rest) = header.split_once("#include <stdbool.h>\n").expect("it has includes");
    let (types, rest) = rest.split_once("#ifdef __cplusplus\nextern").expect("it has functions");
    let (_, rest) = rest.split_once("#endif").expect("it has functions");
    let (_, rest) = rest.split_once('\n').expect("it has functions");
    let (functions, _) = rest.split_once("#ifdef __cplusplus\n}").expect("it has an end");

    let mut sections = vec![String::new(); SECTIONS.len()];
    let (mut defines, mut objects) = (String::new(), String::new());
    for item in types.split("\n\n").chain(functions.split("\n\n")).map(str::trim) {
        let name = name(item);
        let section = if item.is_empty() {
            continue;
        } else if item.contains("#define") {
            &mut defines
        } else if item.ends_with(&format!("typedef struct {name} {name};")) {
            &mut objects
        } else {
            let explicit = SECTIONS.iter().position(|section| section.2.contains(&name));
            let by_prefix = || {
                SECTIONS.iter().skip(1).position(|section| name.starts_with(section.0)).map_or(0, |at| at + 1)
            };
            &mut sections[explicit.unwrap_or_else(by_prefix)]
        };
        // cbindgen has a tag for all uses of a type, or for none.
        section.push_str(&item.replacen("typedef enum {", &format!("typedef enum {name} {{"), 1).replacen(
            "typedef struct {",
            &format!("typedef struct {name} {{"),
            1,
        ));
        section.push_str("\n\n");
    }

    let mut text = format!("{begin}#include <stdbool.h>\n\n");
    let heading = |title: &str| format!("/* ---- {title} {} */\n\n", "-".repeat(88 - title.len()));
    text += "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n";
    text += &heading("Versions and constants");
    text += &defines;
    text += &heading("Objects");
    text += &objects;
    for (section, (_, title, _)) in sections.iter().zip(SECTIONS) {
        text += &heading(title);
        text += section;
    }
    text += "#ifdef __cplusplus\n} /* extern \"C\" */\n#endif\n\n#endif /* LIBI_H */\n";
    // The interface of 2011 has an enumerator of this name and value.
    let ok = "/** Success: LIBI_RESULT_OK. libi/libi_api.h has a LIBI_OK of its own with the same value. */\n\
              #if !defined(LIBI_OK) && !defined(LIBI_API_STD_H)\n#define LIBI_OK LIBI_RESULT_OK\n#endif\n\n";
    text.replacen(&heading("Objects"), &format!("{ok}{}", heading("Objects")), 1)
}

#[test]
fn the_header_is_what_the_sources_say() {
    let text = ordered(&generated());
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../include/libi.h");
    if std::env::var_os("LIBI_WRITE_HEADER").is_some() {
        std::fs::write(&header, &text).expect("the header is written");
    }
    let found = std::fs::read_to_string(&header).unwrap_or_default();
    assert!(
        found == text,
        "include/libi.h is not what libi-ffi/src says: LIBI_WRITE_HEADER=1 cargo test -p libi-ffi \
         --test header"
    );
    let is_long = |line: &&str| line.chars().count() > 100 && !line.starts_with("#define");
    let long: Vec<_> = text.lines().filter(is_long).collect();
    assert!(long.is_empty(), "lines of more than 100 columns: {long:#?}");
}

/// Compiles the header alone, as the first include of a file.
fn compiles(compiler: &str, language: &str, standard: &str) {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../include/libi.h");
    let mut command = Command::new(compiler);
    command.args(["-x", language, standard, "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]);
    let said = command.args(["-include"]).arg(header).arg("/dev/null").output().expect("there is a compiler");
    assert!(said.status.success(), "{standard}: {}", String::from_utf8_lossy(&said.stderr));
}

#[test]
fn the_header_is_clean_in_all_standards() {
    for standard in ["-std=c99", "-std=c11", "-std=c17"] {
        compiles("cc", "c", standard);
    }
    for standard in ["-std=c++98", "-std=c++11", "-std=c++14", "-std=c++17", "-std=c++20"] {
        compiles("c++", "c++", standard);
    }
}
