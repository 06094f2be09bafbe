//! Manual pages of the C interface: a page per object with all its functions, `libi(3)` with the rest,
//! and for each function a page that leads to the one that describes it.

use std::collections::BTreeMap;

use crate::Page;
use crate::header::{Item, Kind};
use crate::roff::Roff;

/// The page of declarations that belong to no object.
const GENERAL: &str = "libi";

/// All pages of section 3.
pub(crate) fn all(items: &[Item]) -> Vec<Page> {
    let objects: Vec<&str> =
        items.iter().filter(|item| item.kind == Kind::Object).map(|item| item.name.as_str()).collect();
    let mut groups: BTreeMap<&str, Vec<&Item>> = BTreeMap::new();
    for item in items {
        groups.entry(object_of(item, &objects)).or_default().push(item);
    }
    let mut pages = Vec::new();
    for (&name, group) in &groups {
        let others: Vec<_> = groups.keys().copied().filter(|other| *other != name).collect();
        pages.push((path(name), page(name, group, &others)));
        for item in group.iter().filter(|item| item.kind == Kind::Function && item.name != name) {
            pages.push((path(&item.name), format!(".so man3/{name}.3\n").into_bytes()));
        }
    }
    pages
}

fn path(name: &str) -> std::path::PathBuf {
    format!("man/man3/{name}.3").into()
}

/// The object that a function belongs to: the longest one whose name the function's begins with.
fn object_of<'a>(item: &Item, objects: &[&'a str]) -> &'a str {
    let belongs = |object: &&&str| {
        let rest = item.name.strip_prefix(**object);
        rest.is_some_and(|rest| rest.is_empty() || (item.kind == Kind::Function && rest.starts_with('_')))
    };
    objects.iter().filter(belongs).max_by_key(|object| object.len()).copied().unwrap_or(GENERAL)
}

fn page(name: &str, group: &[&Item], others: &[&str]) -> Vec<u8> {
    let of = |kind| group.iter().copied().filter(move |item| item.kind == kind);
    let functions: Vec<_> = of(Kind::Function).collect();
    let mut page = Roff::new(name, 3);
    page.section("NAME");
    let mut names = vec![name];
    names.extend(functions.iter().map(|item| item.name.as_str()).filter(|function| *function != name));
    let object = of(Kind::Object).next();
    let purpose = object.map_or("C interface of libi".to_owned(), |object| first_sentence(&object.doc));
    page.line(&format!("{} - {purpose}", names.join(", ")));
    page.section("SYNOPSIS");
    page.code("#include <libi.h>");
    for item in &functions {
        page.text(&[String::new(), String::new()]);
        page.code(&format!("\n{}", item.code));
    }
    page.section("DESCRIPTION");
    if let Some(object) = object {
        page.text(&object.doc);
    } else {
        page.line("This page describes the types, the constants and the functions that belong to no object.");
    }
    types(&mut page, group);
    let mut functions = of(Kind::Function).peekable();
    if functions.peek().is_some() {
        page.section("FUNCTIONS");
    }
    for item in functions {
        page.subsection(&item.name);
        page.code(&item.code);
        page.text(&[&[String::new()][..], &item.doc].concat());
    }
    let mut macros = of(Kind::Constant).filter(|item| is_macro(item)).peekable();
    if macros.peek().is_some() {
        page.section("CONSTANTS");
    }
    for item in macros {
        page.term(item.code.trim_start_matches("#define "), &item.doc);
    }
    page.section("SEE ALSO");
    let others: Vec<_> = others.iter().map(|other| format!("{other}(3)")).collect();
    page.line(&format!("{}, libi(1)", others.join(", ")));
    page.finish()
}

/// The types, each with the constants of an enumeration, which follow it in the header.
fn types(page: &mut Roff, group: &[&Item]) {
    let mut rest = group;
    let is_type = |item: &&Item| item.kind == Kind::Type;
    if rest.iter().any(is_type) {
        page.section("TYPES");
    }
    while let Some(at) = rest.iter().position(is_type) {
        let item = rest[at];
        rest = &rest[at + 1..];
        page.term(&item.name, &item.doc);
        if !item.code.contains("enum ") {
            if item.code.contains('{') {
                page.code(&format!("\n{}", item.code));
            }
            continue;
        }
        let count = rest.iter().take_while(|item| item.kind == Kind::Constant && !is_macro(item)).count();
        page.inner(|page| {
            rest[..count].iter().for_each(|constant| page.term(&constant.code, &constant.doc));
        });
    }
}

/// Whether a constant is a macro, rather than one of an enumeration.
fn is_macro(item: &Item) -> bool {
    item.code.starts_with("#define ")
}

/// The first sentence of a comment, without its full stop, for the line NAME.
fn first_sentence(doc: &[String]) -> String {
    let paragraph: Vec<_> = doc.iter().map(|line| line.trim()).take_while(|line| !line.is_empty()).collect();
    let text = paragraph.join(" ");
    text.split_once(". ").map_or(text.as_str(), |(first, _)| first).trim_end_matches('.').to_owned()
}
