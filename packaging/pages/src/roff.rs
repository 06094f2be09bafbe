//! Writes manual pages with the macros of man(7).

use std::fmt::Write as _;

/// A manual page under construction.
pub(crate) struct Roff(String);

impl Roff {
    pub(crate) fn new(name: &str, section: u8) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        Self(format!(
            ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n.TH {name} {section} \"\" \"libi {version}\" libi\n"
        ))
    }

    pub(crate) fn section(&mut self, title: &str) {
        let _ = writeln!(self.0, ".SH {title}");
    }

    pub(crate) fn subsection(&mut self, title: &str) {
        let _ = writeln!(self.0, ".SS {title}");
    }

    pub(crate) fn line(&mut self, text: &str) {
        let _ = writeln!(self.0, "{}", escaped(text));
    }

    /// Lines that are not filled, in bold: code.
    pub(crate) fn code(&mut self, code: &str) {
        self.0.push_str(".nf\n");
        for line in code.lines() {
            let _ = writeln!(self.0, "\\fB{}\\fR", escaped(line).trim_start_matches("\\&"));
        }
        self.0.push_str(".fi\n");
    }

    /// A term and its description.
    pub(crate) fn term(&mut self, term: &str, doc: &[String]) {
        let _ = writeln!(self.0, ".TP\n\\fB{}\\fR", escaped(term));
        // Paragraphs of a description keep its indentation.
        self.paragraphs(doc, ".IP");
    }

    /// The text of a comment: paragraphs, and lists whose items begin with `- `.
    pub(crate) fn text(&mut self, doc: &[String]) {
        self.paragraphs(doc, ".PP");
    }

    fn paragraphs(&mut self, doc: &[String], paragraph: &str) {
        // Inside a description a list must leave the indentation of what follows as it is.
        let (begin, end) = if paragraph == ".IP" { (".RS\n", ".RE\n") } else { ("", "") };
        let mut pending = None;
        let mut in_list = false;
        for line in doc {
            let trimmed = line.trim();
            if trimmed.is_empty() {
                pending = Some(paragraph);
            } else if let Some(item) = trimmed.strip_prefix("- ") {
                pending = None;
                let begin = if in_list { "" } else { begin };
                in_list = true;
                let _ = writeln!(self.0, "{begin}.IP \\(bu 2\n{}", escaped(item));
            } else {
                if let Some(request) = pending.take() {
                    let end = if in_list { end } else { "" };
                    in_list = false;
                    let _ = writeln!(self.0, "{end}{request}");
                }
                self.line(trimmed);
            }
        }
        if in_list {
            self.0.push_str(end);
        }
    }

    /// Terms below the last one: its constants.
    pub(crate) fn inner(&mut self, terms: impl FnOnce(&mut Self)) {
        self.0.push_str(".RS\n");
        terms(self);
        self.0.push_str(".RE\n");
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0.into_bytes()
    }
}

/// The text with nothing that roff interprets.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    if text.starts_with(['.', '\'']) {
        out.push_str("\\&");
    }
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '\'' => out.push_str("\\(aq"),
            '`' => out.push_str("\\(ga"),
            '^' => out.push_str("\\(ha"),
            '~' => out.push_str("\\(ti"),
            c if c.is_ascii() => out.push(c),
            c => _ = write!(out, "\\[u{:04X}]", u32::from(c)),
        }
    }
    out
}
