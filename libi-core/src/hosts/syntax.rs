//! Parses one item of a host list into a tree, without expanding it.
//!
//! The tree lies flat in one vector that is reused for every item. Each part adds to a [`Size`], so
//! that the cost of an item is known before it is expanded. Every byte is visited a fixed number of
//! times; only brackets recurse, at most [`MAX_DEPTH`] deep.

use alloc::vec::Vec;
use core::num::NonZeroU16;

use super::error::{HostListErrorKind as Kind, ListFault};
use super::name::{self, in_name, is_separator, is_space};
use super::size::Size;
use super::{MAX_DEPTH, MAX_HOSTS, MAX_NAME};

/// A byte range of the text. Texts beyond 4 GiB are rejected before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Span {
    pub(super) fn new(start: usize, end: usize) -> Self {
        Span { start: start as u32, end: end as u32 }
    }

    pub(super) fn of(self, text: &str) -> &str {
        &text[self.start as usize..self.end as usize]
    }
}

/// A part of a name. The parts of a name follow one another; a group is followed by its
/// alternatives.
#[derive(Debug, Clone, Copy)]
pub(super) enum NamePart {
    Literal(Span),
    /// An index into the ranges.
    Range(u32),
    /// A bracket, with the index behind its last alternative.
    Group(u32),
    /// An alternative of several parts, with the index behind the last. A single part has no such
    /// node.
    Alternative(u32),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) lo: u64,
    pub(super) hi: u64,
    pub(super) width: u8,
}

/// One item, not expanded. If the host has brackets, its tree is in the parser until the next item.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) start: u32,
    pub(super) user: Option<Span>,
    pub(super) host: Host,
    pub(super) port: Option<NonZeroU16>,
    /// `None` if it is absent, which means 1.
    pub(super) count: Option<u32>,
    /// The size of the expanded host, without the user.
    pub(super) size: Size,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Host {
    Plain(Span),
    Tree,
}

/// Stops an item at the part that exceeds the bounds. Every alternative is at least a host and
/// every literal at least a character of a name, so this also bounds the tree.
fn bounded(size: Size, at: usize) -> Result<Size, ListFault> {
    if size.hosts > MAX_HOSTS as u64 {
        Err(ListFault::new(at, Kind::TooManyHosts))
    } else if size.longest > MAX_NAME as u64 {
        Err(ListFault::new(at, Kind::NameTooLong))
    } else {
        Ok(size)
    }
}

/// Reads items from left to right.
pub(super) struct Parser<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    end: usize,
    pub(super) nodes: Vec<NamePart>,
    pub(super) ranges: Vec<Range>,
    /// The number of visited bytes, for the test that parsing is linear.
    #[cfg(test)]
    pub(super) bytes_visited: core::cell::Cell<usize>,
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Parser {
            text,
            at: 0,
            end: text.len(),
            nodes: Vec::new(),
            ranges: Vec::new(),
            #[cfg(test)]
            bytes_visited: core::cell::Cell::new(0),
        }
    }

    /// Continues at `start`, with `end` as the end of the text.
    pub(super) fn restrict_to(&mut self, start: usize, end: usize) {
        self.at = start;
        self.end = end;
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.byte(self.at)
    }

    fn byte(&self, at: usize) -> Option<u8> {
        if at < self.end { self.text.as_bytes().get(at).copied() } else { None }
    }

    /// The position behind the `wanted` bytes from `at` on.
    pub(super) fn run(&self, at: usize, wanted: impl Fn(u8) -> bool) -> usize {
        let rest = self.text.as_bytes().get(at..self.end).unwrap_or_default();
        let len = rest.iter().position(|&byte| !wanted(byte)).unwrap_or(rest.len());
        #[cfg(test)]
        self.bytes_visited.set(self.bytes_visited.get() + len + 1);
        at + len
    }

    /// Skips separators; returns whether an item follows.
    pub(super) fn seek_item(&mut self) -> bool {
        self.at = self.run(self.at, is_separator);
        self.at < self.end
    }

    /// The name of a host file's setting, if `name =` is next; moves to the `=`.
    pub(super) fn setting(&mut self) -> Option<Span> {
        let end = self.run(self.at, in_name);
        let equals = self.run(end, is_space);
        (end > self.at && self.byte(equals) == Some(b'=')).then(|| {
            let start = core::mem::replace(&mut self.at, equals);
            Span::new(start, end)
        })
    }

    /// The error for the text at `at`.
    fn unexpected(&self, at: usize) -> ListFault {
        match self.text.get(at..).and_then(|rest| rest.chars().next()) {
            Some(']') => ListFault::new(at, Kind::StrayBracket),
            Some(other) => ListFault::new(at, Kind::UnexpectedCharacter(other)),
            None => ListFault::new(at, Kind::MissingHost),
        }
    }

    fn ends_item(&self, at: usize) -> bool {
        self.byte(at).is_none_or(is_separator)
    }

    fn ends_host(&self, at: usize) -> bool {
        self.ends_item(at) || matches!(self.byte(at), Some(b':' | b'*'))
    }

    /// Parses the next item, up to the separator behind it.
    pub(super) fn item(&mut self) -> Result<Item, ListFault> {
        let start = self.at;
        self.nodes.clear();
        self.ranges.clear();
        let mut user = None;
        let run = self.run(start, in_name);
        if self.byte(run) == Some(b'@') {
            let span = Span::new(start, run);
            self.read(span, name::check_user)?;
            user = Some(span);
            self.at = run + 1;
        }
        let (host, size, bare) = self.host()?;
        let (port, count) = self.suffix(bare)?;
        if !self.ends_item(self.at) {
            return Err(self.unexpected(self.at));
        }
        Ok(Item { start: start as u32, user, host, port, count, size })
    }

    /// A name, an address or an expression; also returns whether it is an address without brackets.
    fn host(&mut self) -> Result<(Host, Size, bool), ListFault> {
        let start = self.at;
        let run = self.run(start, in_name);
        if let Some(address) = self.bracketed_address() {
            return self.plain(address, address.end as usize + 1, false);
        }
        if let Some(address) = self.bare_address(run) {
            return self.plain(address, address.end as usize, true);
        }
        if self.byte(run) != Some(b'[') {
            // The common case: no tree for a plain name.
            if run == start && !self.ends_host(start) {
                return Err(self.unexpected(start));
            }
            return self.plain(Span::new(start, run), run, false);
        }
        Ok((Host::Tree, self.parts(0, true)?, false))
    }

    fn plain(&mut self, span: Span, end: usize, bare: bool) -> Result<(Host, Size, bool), ListFault> {
        self.read(span, name::check_host)?;
        self.at = end;
        Ok((Host::Plain(span), Size::literal((span.end - span.start) as usize), bare))
    }

    /// Text in brackets that contains a `:` can only be an address: no expression may contain one.
    fn bracketed_address(&self) -> Option<Span> {
        if self.peek() != Some(b'[') {
            return None;
        }
        let start = self.at + 1;
        let end = self.run(start, |byte| !is_separator(byte) && !matches!(byte, b'[' | b']' | b'@'));
        let inside = &self.text.as_bytes()[start..end];
        (self.byte(end) == Some(b']') && inside.contains(&b':')).then(|| Span::new(start, end))
    }

    /// An address without brackets is recognised by `::` or seven colons.
    fn bare_address(&self, name_end: usize) -> Option<Span> {
        if self.byte(name_end) != Some(b':') {
            return None;
        }
        let start = self.at;
        let end = self.run(start, |byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'));
        let inside = self.text.as_bytes().get(start..end)?;
        let colons = inside.iter().filter(|&&byte| byte == b':').count();
        if colons != 7 && !inside.windows(2).any(|pair| pair == b"::") {
            return None;
        }
        let zone = self.byte(end) == Some(b'%');
        Some(Span::new(start, if zone { self.run(end + 1, in_name) } else { end }))
    }

    /// Consecutive parts of a name. `leading` if the name begins here.
    fn parts(&mut self, depth: usize, mut leading: bool) -> Result<Size, ListFault> {
        let mut size = Size::EMPTY_NAME;
        loop {
            let start = self.at;
            let part = match self.peek() {
                Some(b'[') => self.group(depth, leading)?,
                Some(b'-') if leading => return Err(ListFault::new(self.at, Kind::LeadingDash)),
                Some(byte) if in_name(byte) => {
                    let end = self.run(self.at, in_name);
                    self.nodes.push(NamePart::Literal(Span::new(self.at, end)));
                    Size::literal(end - core::mem::replace(&mut self.at, end))
                }
                _ => return Ok(size),
            };
            size = bounded(size.concat(part), start)?;
            leading = false;
        }
    }

    fn group(&mut self, depth: usize, leading: bool) -> Result<Size, ListFault> {
        let open = self.at;
        if depth == MAX_DEPTH {
            return Err(ListFault::new(open, Kind::NestedTooDeep));
        }
        let group = self.nodes.len();
        self.nodes.push(NamePart::Group(0));
        let mut size = Size::NO_HOSTS;
        loop {
            self.at += 1;
            size = bounded(size.union(self.alternative(open, depth, leading)?), open)?;
            match self.peek() {
                Some(b',') => {}
                Some(b']') => break,
                _ => return Err(self.inside_brackets(open)),
            }
        }
        self.at += 1;
        self.nodes[group] = NamePart::Group(self.nodes.len() as u32);
        Ok(size)
    }

    fn alternative(&mut self, open: usize, depth: usize, leading: bool) -> Result<Size, ListFault> {
        match self.peek() {
            Some(b',' | b']') => return Err(ListFault::new(self.at, Kind::EmptyAlternative)),
            Some(b'[') => return Err(ListFault::new(self.at, Kind::BareNestedBracket)),
            Some(byte) if in_name(byte) => {}
            _ => return Err(self.inside_brackets(open)),
        }
        let first = self.nodes.len();
        self.nodes.push(NamePart::Alternative(0));
        let size = match self.range()? {
            Some(range) => range.concat(self.parts(depth + 1, false)?),
            None => self.parts(depth + 1, leading)?,
        };
        if self.nodes.len() == first + 2 {
            self.nodes.swap_remove(first);
        } else {
            self.nodes[first] = NamePart::Alternative(self.nodes.len() as u32);
        }
        Ok(size)
    }

    /// The error for text that is not allowed in brackets.
    fn inside_brackets(&self, open: usize) -> ListFault {
        match self.peek() {
            None => ListFault::new(open, Kind::UnclosedBracket),
            Some(byte) if is_space(byte) => ListFault::new(self.at, Kind::WhiteSpaceInBrackets),
            Some(_) => self.unexpected(self.at),
        }
    }

    /// Rejects `a-c`, which would otherwise be the host of that name.
    fn reject_letter_range(&self) -> Result<(), ListFault> {
        let letter = |at: usize| self.byte(at).is_some_and(|byte| byte.is_ascii_alphabetic());
        let range = letter(self.at) && self.byte(self.at + 1) == Some(b'-') && letter(self.at + 2);
        match self.byte(self.at + 3) {
            Some(b',' | b']') if range => Err(ListFault::new(self.at, Kind::NotARange)),
            _ => Ok(()),
        }
    }

    /// Parses `digits-digits`, if present.
    fn range(&mut self) -> Result<Option<Size>, ListFault> {
        let start = self.at;
        self.reject_letter_range()?;
        let dash = self.run(start, |byte| byte.is_ascii_digit());
        let end = self.run(dash + 1, |byte| byte.is_ascii_digit());
        if dash == start || self.byte(dash) != Some(b'-') {
            return Ok(None);
        }
        if end == dash + 1 {
            // `1-x` is hardly meant as a word; `1-[2-3]` can only be one.
            let word = self.byte(end).is_some_and(in_name);
            return if word { Err(ListFault::new(start, Kind::NotARange)) } else { Ok(None) };
        }
        if self.byte(end).is_some_and(in_name) {
            return Err(ListFault::new(end, Kind::RangeTail));
        }
        let number = |from: usize, to: usize| {
            let digits = &self.text[from..to];
            let value = if digits.len() > 20 { None } else { digits.parse().ok() };
            value.ok_or(ListFault::new(from, Kind::NumberTooLarge))
        };
        let (lo, hi): (u64, u64) = (number(start, dash)?, number(dash + 1, end)?);
        if lo > hi {
            return Err(ListFault::new(start, Kind::RangeBackwards { from: lo, to: hi }));
        }
        let padded = |from: usize, to: usize| to - from > 1 && self.byte(from) == Some(b'0');
        if padded(dash + 1, end) && end - (dash + 1) != dash - start {
            return Err(ListFault::new(start, Kind::RangePadding));
        }
        let width = if padded(start, dash) { (dash - start) as u8 } else { 1 };
        self.nodes.push(NamePart::Range(self.ranges.len() as u32));
        self.ranges.push(Range { lo, hi, width });
        self.at = end;
        Ok(Some(Size::range(lo, hi, width)))
    }

    /// Parses count and port, if present.
    fn suffix(&mut self, bare: bool) -> Result<(Option<NonZeroU16>, Option<u32>), ListFault> {
        match self.peek() {
            Some(b':') if bare => return Err(ListFault::new(self.at, Kind::BareAddressSuffix)),
            Some(b':' | b'*') => {}
            _ => return Ok((None, None)),
        }
        let counted = self.peek() == Some(b'*');
        let first = self.number()?;
        if counted || !matches!(self.peek(), Some(b':' | b'*')) {
            return Ok((None, Some(self.read(first, name::parse_count)?)));
        }
        let port = self.read(first, name::parse_port)?;
        let second = self.number()?;
        Ok((Some(port), Some(self.read(second, name::parse_count)?)))
    }

    /// Applies `rule` to the text of `span`; an error refers to its beginning.
    pub(super) fn read<T>(&self, span: Span, rule: impl Fn(&str) -> Result<T, Kind>) -> Result<T, ListFault> {
        rule(span.of(self.text)).map_err(|kind| ListFault::new(span.start as usize, kind))
    }

    /// The digits behind the sign at this position.
    fn number(&mut self) -> Result<Span, ListFault> {
        let start = self.at + 1;
        self.at = self.run(start, |byte| byte.is_ascii_digit());
        if self.at > start {
            Ok(Span::new(start, self.at))
        } else if self.ends_item(start) {
            Err(ListFault::new(start, Kind::MissingNumber))
        } else {
            Err(self.unexpected(start))
        }
    }
}
