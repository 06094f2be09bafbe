//! `libi-ffi/symbols.txt` is what `liblibi.so` exports, and that is what the headers declare.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libi_testkit::native;

/// What `nm` says that a file defines for others.
fn exported(library: &Path) -> BTreeSet<String> {
    let said = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output();
    let said = said.expect("nm comes with the compiler");
    assert!(said.status.success(), "nm {}: {}", library.display(), String::from_utf8_lossy(&said.stderr));
    let lines = String::from_utf8(said.stdout).expect("symbols are text");
    lines.lines().filter_map(|line| line.split_whitespace().last()).map(str::to_owned).collect()
}

/// All headers for C, also those in directories below.
fn headers(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("there are headers") {
        let path = entry.expect("the directory can be read").path();
        if path.is_dir() {
            headers(&path, found);
        } else if path.extension().is_some_and(|end| end == "h") {
            found.push(path);
        }
    }
}

/// Code without its comments.
fn uncommented(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("/*") {
        code.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    code.push_str(rest);
    code.lines().map(|line| line.split("//").next().unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

/// The functions that a header declares whose first argument is an object.
fn methods(header: &str) -> Vec<String> {
    let code = uncommented(header);
    let calls = code.match_indices("(").filter_map(|(at, _)| {
        let name = code[..at].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
        let (kind, rest) = code[at + 1..].trim_start().trim_start_matches("const ").split_once(' ')?;
        let is_object = kind.starts_with("libi_") && rest.starts_with('*') && !rest.starts_with("**");
        (name.starts_with("libi_") && is_object).then(|| name.to_owned())
    });
    calls.collect()
}

/// What a header declares: names of ours before a parenthesis, unless a comment or a macro has
/// them. A pointer to a function has the name of what that returns there.
fn declared(header: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    // A macro may go on in the next line.
    let joined = uncommented(header).replace("\\\n", " ");
    let lines = joined.lines().filter(|line| !line.trim_start().starts_with('#'));
    let code = lines.collect::<Vec<_>>().join("\n");
    for (at, _) in code.match_indices('(').filter(|(at, _)| !code[at + 1..].trim_start().starts_with('*')) {
        let name = code[..at].trim_end().rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
        names.extend(
            name.filter(|name| ["libi_", "LIBI_", "LMON_"].iter().any(|ours| name.starts_with(ours)))
                .map(str::to_owned),
        );
    }
    names
}

/// All programs of tests in C and C++ below a directory.
fn programs(directory: &Path, text: &mut String) {
    for entry in fs::read_dir(directory).expect("there are tests") {
        let path = entry.expect("the directory can be read").path();
        if path.is_dir() {
            programs(&path, text);
        } else if path.extension().is_some_and(|end| end == "c" || end == "cpp") {
            text.push_str(&fs::read_to_string(&path).expect("a program can be read"));
        }
    }
}

#[test]
fn every_function_is_called_by_a_test_in_its_language() {
    let mut text = String::new();
    ["tests/c", "tests/legacy", "tests/launchmon", "tests/packages"]
        .into_iter()
        .for_each(|place| programs(&native::root().join(place), &mut text));
    let text = uncommented(&text);
    let list = fs::read_to_string(native::root().join("libi-ffi/symbols.txt")).expect("there is a list");
    let functions: Vec<&str> = list.lines().filter(|line| !line.is_empty()).collect();
    assert!(functions.len() > 150, "{functions:?}");
    let uncalled: Vec<_> =
        functions.iter().filter(|function| !text.contains(&format!("{function}("))).collect();
    assert!(uncalled.is_empty(), "no test calls {uncalled:?}");
}

#[test]
fn every_function_of_an_object_is_called_with_null() {
    let mut text = String::new();
    programs(&native::root().join("tests/c"), &mut text);
    let text = uncommented(&text);
    let header = fs::read_to_string(native::root().join("include/libi.h")).expect("there is a header");
    let methods = methods(&header);
    assert!(methods.len() > 120, "{methods:?}");
    // Some are called in a function that is called with NULL, and with others, for `invalid`.
    let is_called =
        |name: &str| ["NULL", "invalid"].iter().any(|none| text.contains(&format!("{name}({none}")));
    let uncalled: Vec<_> = methods.iter().filter(|name| !is_called(name)).collect();
    assert!(uncalled.is_empty(), "no test calls with NULL {uncalled:?}");
}

#[test]
fn nothing_is_exported_but_what_the_list_has() {
    let exported = exported(&native::library().join("liblibi.so"));
    let file = native::root().join("libi-ffi/symbols.txt");
    if std::env::var_os("LIBI_WRITE_SYMBOLS").is_some() {
        let lines: String = exported.iter().map(|name| format!("{name}\n")).collect();
        fs::write(&file, lines).expect("the list is written");
    }
    let list = fs::read_to_string(&file).expect("there is a list");
    let listed: BTreeSet<String> = list.lines().map(str::to_owned).collect();
    let (gone, new): (Vec<_>, Vec<_>) =
        (listed.difference(&exported).collect(), exported.difference(&listed).collect());
    assert!(
        gone.is_empty() && new.is_empty(),
        "liblibi.so lacks {gone:?} of libi-ffi/symbols.txt, and exports {new:?} beside: a program \
         that was linked before may \
         miss what is gone. LIBI_WRITE_SYMBOLS=1 cargo test --test symbols writes the list."
    );
}

#[test]
fn the_headers_declare_what_is_exported() {
    let mut files = Vec::new();
    headers(&native::root().join("include"), &mut files);
    let text = |file: &PathBuf| fs::read_to_string(file).expect("a header is text");
    let declared: BTreeSet<String> = files.iter().flat_map(|file| declared(&text(file))).collect();
    let exported = exported(&native::library().join("liblibi.so"));
    let (undefined, unknown): (Vec<_>, Vec<_>) =
        (declared.difference(&exported).collect(), exported.difference(&declared).collect());
    assert!(
        undefined.is_empty() && unknown.is_empty(),
        "the headers declare {undefined:?}, which liblibi.so has not; it exports {unknown:?}, \
         which no header has"
    );
}

#[test]
fn declarations_are_found_in_what_headers_are_made_of() {
    let header = "#define LIBI_ONE(x) \\\n  libi_macro(x)\n/** As libi_comment(). */\nint \
                  libi_one(void); // and libi_end()\n\
        const char *LIBI_two (libi_code (*libi_pointer)(int), void *data);\ntypedef int \
        (*libi_callback)(int);\n";
    let expected = ["libi_one", "LIBI_two"].map(str::to_owned);
    assert_eq!(declared(header), BTreeSet::from(expected));
}
