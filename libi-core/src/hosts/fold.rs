//! Folds names: neighbours that differ in one number share a bracket.
//!
//! The first pass makes brackets from names, `rack1-n[01-16], rack2-n[01-16]`; each further pass
//! joins neighbours with the same brackets that differ in one number before them,
//! `rack[1-2]-n[01-16]`. The number has to be before the brackets, since the first bracket of a
//! pattern varies slowest. There are at most [`PASSES`] passes, and each compares a text only with
//! its neighbours, so the whole is linear.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::{HostList, PackedHost};

/// The most brackets a pattern gets.
const PASSES: usize = 8;

/// Numbers with more digits never end a range, which must fit 64 bits.
const RANGE_DIGITS: usize = 19;

/// Folds names for display: `node017`, `node018`, `login` become `node[017-018],login`.
///
/// Accepts any text as a name, keeps order and repeats and drops nothing. If the names are valid
/// host names, [`HostList::parse`] reads the result as the same names.
pub fn fold_names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let mut out = String::new();
    fold(names.len(), &|index| names[index], &|_, _| true, |_, pattern| {
        separate(&mut out);
        out.push_str(pattern);
    });
    out
}

pub(super) fn fold_list(list: &HostList) -> String {
    let resolve = |index: usize| list.entries[index].resolve(&list.text);
    let name = |index: usize| resolve(index).name;
    // Most neighbours share the stored user; the texts need not be compared then.
    let bare = |entry: &PackedHost| (entry.user, entry.user_len, entry.port, entry.count);
    let same_group = |one: usize, other: usize| {
        let (a, b) = (&list.entries[one], &list.entries[other]);
        bare(a) == bare(b)
            || (a.port, a.count) == (b.port, b.count) && resolve(one).user == resolve(other).user
    };
    let mut out = String::new();
    fold(list.len(), &name, &same_group, |first, pattern| {
        separate(&mut out);
        // Writing to a String cannot fail.
        let _ = resolve(first).write(pattern, &mut out);
    });
    out
}

fn separate(out: &mut String) {
    if !out.is_empty() {
        out.push(',');
    }
}

/// Patterns, each with the index of the first name it stands for.
#[derive(Default)]
struct Patterns {
    text: String,
    /// The first name and the end of the pattern in the text.
    items: Vec<(usize, usize)>,
}

impl Patterns {
    fn at(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.items[index - 1].1 };
        &self.text[start..self.items[index].1]
    }

    fn close(&mut self, first: usize) {
        self.items.push((first, self.text.len()));
    }
}

/// Folds `len` names and passes each pattern to `emit` with the index of its first name. Only names
/// whose indices are in the `same_group` share a pattern.
fn fold<'a>(
    len: usize,
    name: &impl Fn(usize) -> &'a str,
    same_group: &impl Fn(usize, usize) -> bool,
    mut emit: impl FnMut(usize, &str),
) {
    let (mut patterns, mut brackets) = pass(len, name, same_group, &|index| index);
    for _ in 1..PASSES {
        // Only patterns with brackets can be joined further; the others were compared already.
        if brackets < 2 {
            break;
        }
        let known = patterns;
        let before = known.items.len();
        (patterns, brackets) =
            pass(before, &|index| known.at(index), same_group, &|index| known.items[index].0);
    }
    for index in 0..patterns.items.len() {
        emit(patterns.items[index].0, patterns.at(index));
    }
}

/// Joins neighbours once; also returns the number of brackets made.
fn pass<'a>(
    len: usize,
    pattern: &impl Fn(usize) -> &'a str,
    same_group: &impl Fn(usize, usize) -> bool,
    origin: &impl Fn(usize) -> usize,
) -> (Patterns, usize) {
    let mut out = Patterns::default();
    let mut brackets = 0;
    let mut index = 0;
    while index < len {
        let start = index;
        let first = pattern(start);
        let next =
            |index: usize| (index < len && same_group(origin(start), origin(index))).then(|| pattern(index));
        index += 1;
        if let Some(number) = next(index).and_then(|other| differing_number(first, other)) {
            let (before, after) = (&first[..number.start], &first[number.end..]);
            let mut run = NumberRun::new(&first[number]);
            out.text.push_str(before);
            out.text.push('[');
            while let Some(digits) = next(index).and_then(|other| between(other, before, after)) {
                run.take(digits, &mut out.text);
                index += 1;
            }
            run.write(&mut out.text);
            out.text.push(']');
            out.text.push_str(after);
            brackets += 1;
        } else {
            out.text.push_str(first);
        }
        out.close(origin(start));
    }
    (out, brackets)
}

/// The position of the number in `one` where `other` has a different number, if all else is equal;
/// in equal texts, the last number. Nothing at or behind a bracket counts, nor anything in an IPv6
/// address.
fn differing_number(one: &str, other: &str) -> Option<Range<usize>> {
    let (a, b) = (one.as_bytes(), other.as_bytes());
    let limit = a.iter().position(|&byte| byte == b'[').unwrap_or(a.len());
    let same = a.iter().zip(b).position(|(x, y)| x != y).unwrap_or(a.len().min(b.len())).min(limit);
    let start = if same == limit && a.len() == b.len() {
        let end = a[..limit].iter().rposition(u8::is_ascii_digit)? + 1;
        end - trailing_digits(&a[..end])
    } else {
        same - trailing_digits(&a[..same])
    };
    let end = start + leading_digits(&a[start..]);
    if end == start || one.contains(':') {
        return None;
    }
    between(other, &one[..start], &one[end..]).map(|_| start..end)
}

/// The digits of `text` between `before` and `after`, if that is all there is between them.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let digits = text.strip_prefix(before)?.strip_suffix(after)?;
    (!digits.is_empty() && leading_digits(digits.as_bytes()) == digits.len()).then_some(digits)
}

fn leading_digits(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len())
}

fn trailing_digits(bytes: &[u8]) -> usize {
    bytes.len() - bytes.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |last| last + 1)
}

/// Numbers that are read but not yet written, since the next may extend their range.
struct NumberRun<'a> {
    first: &'a str,
    last: &'a str,
    /// The number behind `last` and its width, if a range can go on there.
    next: Option<(u64, usize)>,
}

impl<'a> NumberRun<'a> {
    fn new(digits: &'a str) -> Self {
        NumberRun { first: digits, last: digits, next: successor(digits) }
    }

    /// Extends the range, or writes it and begins another.
    fn take(&mut self, digits: &'a str, out: &mut String) {
        if self.next.is_some() && self.next == value(digits) {
            self.last = digits;
            self.next = successor(digits);
        } else {
            self.write(out);
            out.push(',');
            *self = NumberRun::new(digits);
        }
    }

    fn write(&self, out: &mut String) {
        out.push_str(self.first);
        // The same number twice is two runs, so equal ends are one number.
        if self.first != self.last {
            out.push('-');
            out.push_str(self.last);
        }
    }
}

fn value(digits: &str) -> Option<(u64, usize)> {
    if digits.len() > RANGE_DIGITS {
        return None;
    }
    Some((digits.bytes().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')), digits.len()))
}

/// The number that continues a range behind `digits`: padding keeps its width, and `99` leads to
/// `100` as `099` does.
fn successor(digits: &str) -> Option<(u64, usize)> {
    let (value, width) = value(digits)?;
    let wider = digits.bytes().all(|digit| digit == b'9');
    Some((value + 1, width + usize::from(wider)))
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    use super::*;

    /// The work of `pass` per name is linear in it, so counting its requests bounds the whole.
    #[test]
    fn each_pass_asks_for_a_name_a_fixed_number_of_times() {
        let long = "1,".repeat(2000);
        let shapes: [&dyn Fn(usize) -> String; 5] = [
            &|_| String::from("a"),
            &|i| format!("n{i}"),
            &|i| format!("a{}b{}", i / 2, i % 2),
            &|i| format!("a{}b{}", i / 2, i.div_ceil(2)),
            &|i| format!("a{i}[{long}]"),
        ];
        for shape in shapes {
            let names: Vec<String> = (0..500).map(shape).collect();
            let asked = Cell::new(0);
            let name = |index: usize| {
                asked.set(asked.get() + 1);
                names[index].as_str()
            };
            pass(names.len(), &name, &|_, _| true, &|index| index);
            assert!(asked.get() <= 4 * names.len(), "{}", names[0]);
        }
    }
}
