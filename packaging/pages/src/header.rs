//! Splits `include/libi.h`, which cbindgen generates, into documented declarations.

/// A declaration and its comment.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    /// The declaration as written in the header, without the comments of constants.
    pub(crate) code: String,
    /// The lines of the comment.
    pub(crate) doc: Vec<String>,
}

/// What is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Function,
    /// An incomplete structure: an object of the library.
    Object,
    /// Another type.
    Type,
    /// A macro, or a constant of an enumeration.
    Constant,
}

/// The declarations of a header, in its order. Declarations without a comment are left out.
pub(crate) fn parse(text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut doc = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let trimmed = line.trim();
        if trimmed.starts_with("/**") {
            doc = comment(line, &mut lines);
        } else if let Some(rest) = trimmed.strip_prefix("#define ") {
            let name = rest.split_whitespace().next().unwrap_or_default().to_owned();
            let doc = std::mem::take(&mut doc);
            if !doc.is_empty() && name.starts_with("LIBI_") {
                items.push(Item { kind: Kind::Constant, name, code: trimmed.to_owned(), doc });
            }
        } else if trimmed.is_empty() || trimmed.starts_with('#') || trimmed.starts_with('/') {
            // A condition or a heading. The comment of a macro may precede its condition.
        } else {
            let doc = std::mem::take(&mut doc);
            declaration(line, doc, &mut lines, &mut items);
        }
    }
    items
}

/// The lines of a comment, without the asterisks.
fn comment<'a>(first: &str, lines: &mut impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut doc = Vec::new();
    let mut line = first.trim().trim_start_matches("/**").to_owned();
    loop {
        let (text, end) = match line.split_once("*/") {
            Some((text, _)) => (text.to_owned(), true),
            None => (line, false),
        };
        let text = text.trim_start_matches('*').trim_end();
        doc.push(text.strip_prefix(' ').unwrap_or(text).to_owned());
        if end {
            break;
        }
        match lines.next() {
            Some(next) => line = next.trim_start().to_owned(),
            None => break,
        }
    }
    let empty = |line: &String| line.trim().is_empty();
    while doc.last().is_some_and(empty) {
        doc.pop();
    }
    let start = doc.iter().position(|line| !line.trim().is_empty()).unwrap_or(0);
    doc.split_off(start)
}

/// Reads a declaration up to its semicolon. Constants inside an enumeration become items.
fn declaration<'a>(
    first: &str,
    doc: Vec<String>,
    lines: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
    items: &mut Vec<Item>,
) {
    let mut code: Vec<String> = Vec::new();
    let mut depth = 0_usize;
    let mut constants = Vec::new();
    let mut constant_doc = Vec::new();
    let mut line = first.to_owned();
    loop {
        if line.trim().starts_with("/**") {
            constant_doc = comment(&line, lines);
            if first.contains("struct") {
                // The comment of a member stays with it.
                code.push(format!("  /* {} */", constant_doc.join(" ").trim()));
            }
        } else {
            depth += line.matches('{').count();
            depth = depth.saturating_sub(line.matches('}').count());
            let name = line.trim().split([' ', ',', '=']).next().unwrap_or_default();
            if depth > 0 && name.starts_with("LIBI_") {
                let doc = std::mem::take(&mut constant_doc);
                let code = line.trim().trim_end_matches(',').to_owned();
                constants.push(Item { kind: Kind::Constant, name: name.to_owned(), code, doc });
            }
            code.push(line.trim_end().to_owned());
            if depth == 0 && line.contains([';', '}']) || line.trim() == "extern \"C\" {" {
                break;
            }
        }
        match lines.next() {
            Some(next) => line = next.to_owned(),
            None => break,
        }
    }
    let code = code.join("\n");
    let kind = if code.starts_with("typedef struct") && !code.contains('{') {
        Kind::Object
    } else if code.starts_with("typedef") || code.contains('{') {
        Kind::Type
    } else {
        Kind::Function
    };
    let name = name_of(&code, kind);
    if name.starts_with("libi_") && !doc.is_empty() {
        items.push(Item { kind, name, code, doc });
    }
    items.extend(constants.into_iter().filter(|constant| !constant.doc.is_empty()));
}

/// The declared name: before the parameters, in the parentheses of a function pointer, or the last.
fn name_of(code: &str, kind: Kind) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let before = match code.split_once("(*") {
        Some((_, rest)) if kind == Kind::Type => rest.split(')').next().unwrap_or_default(),
        _ if kind == Kind::Function => code.split('(').next().unwrap_or_default(),
        _ => code.trim_end().trim_end_matches(';'),
    };
    before.rsplit(|c: char| !is_name(c)).find(|word| !word.is_empty()).unwrap_or_default().to_owned()
}
