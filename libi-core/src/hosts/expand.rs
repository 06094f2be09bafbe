//! Expands a parsed list into its hosts, in two passes over the text.
//!
//! The first pass adds up sizes and finds every mistake; the second writes hosts into memory that
//! was allocated once, in the right amount. A list beyond the bounds therefore costs only its
//! parsing.

use alloc::string::String;
use alloc::vec::Vec;

use super::error::{HostListError, HostListErrorKind as Kind, InputKind, ListFault};
use super::size::Size;
use super::syntax::{Host, Item, NamePart, Parser, Span};
use super::{HostList, MAX_HOSTS, MAX_TEXT, PackedHost};

/// What a pass does with the items of a text.
pub(super) enum Sink {
    /// Adds them up and checks the bounds. With the last item's user.
    Measure(Size, Option<Span>),
    /// Expands them.
    Write(HostList),
}

/// Runs `walk`, which passes every item to the sink, once for each pass.
pub(super) fn build(
    kind: InputKind,
    text: &str,
    walk: impl Fn(&mut Parser<'_>, &mut Sink) -> Result<(), ListFault>,
) -> Result<HostList, HostListError> {
    let pass = |mut sink: Sink| match walk(&mut Parser::new(text), &mut sink) {
        Ok(()) => Ok(sink),
        Err(fault) => Err(fault.locate(kind, text)),
    };
    if u32::try_from(text.len()).is_err() {
        return Err(ListFault::new(0, Kind::TextTooLong).locate(kind, text));
    }
    let mut list = HostList::new();
    if let Sink::Measure(size, _) = pass(Sink::Measure(Size::NO_HOSTS, None))? {
        list.text = String::with_capacity(size.text as usize);
        list.entries = Vec::with_capacity(size.hosts as usize);
    }
    match pass(Sink::Write(list))? {
        Sink::Write(list) => Ok(list),
        Sink::Measure(..) => Ok(HostList::new()),
    }
}

impl Sink {
    /// Processes the item that the parser has just read.
    pub(super) fn take(&mut self, parser: &Parser<'_>, item: &Item) -> Result<(), ListFault> {
        match self {
            Sink::Measure(total, last_user) => {
                *total = total.union(item.size);
                // Counted as it is stored: once for neighbours that share it.
                let user = item.user.map(|user| user.of(parser.text));
                if user != last_user.map(|user| user.of(parser.text)) {
                    total.text += user.map_or(0, str::len) as u64;
                }
                *last_user = item.user;
                let start = item.start as usize;
                if total.hosts > MAX_HOSTS as u64 {
                    return Err(ListFault::new(start, Kind::TooManyHosts));
                }
                if total.text > MAX_TEXT as u64 {
                    return Err(ListFault::new(start, Kind::TextTooLong));
                }
            }
            Sink::Write(list) => {
                let user = item.user.map(|user| user.of(parser.text));
                let template = list.template(user, item.port, item.count.unwrap_or(1));
                match item.host {
                    Host::Plain(name) => list.push_checked(template, name.of(parser.text)),
                    Host::Tree => {
                        let mut expansion = Expansion { parser, template, name: String::new(), list };
                        expansion.walk(0, parser.nodes.len(), None);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Writes the names of a tree in order; only the end of the current name changes from one to the
/// next.
struct Expansion<'p> {
    parser: &'p Parser<'p>,
    template: PackedHost,
    name: String,
    list: &'p mut HostList,
}

/// The parts behind a group, which follow each of its alternatives.
struct Continuation<'a> {
    at: usize,
    end: usize,
    outer: Option<&'a Continuation<'a>>,
}

impl Expansion<'_> {
    /// Writes all names that continue with the parts `at..end` and then `rest`; leaves `name`
    /// unchanged.
    ///
    /// It recurses once for each part of a name. There are at most twice `MAX_NAME` parts: every
    /// part has a character, except groups, whose alternatives begin with one.
    fn walk(&mut self, at: usize, end: usize, rest: Option<&Continuation<'_>>) {
        if at == end {
            match rest {
                None => self.list.push_checked(self.template, &self.name),
                Some(rest) => self.walk(rest.at, rest.end, rest.outer),
            }
            return;
        }
        let length = self.name.len();
        match self.parser.nodes[at] {
            NamePart::Literal(span) => {
                self.name.push_str(span.of(self.parser.text));
                self.walk(at + 1, end, rest);
            }
            NamePart::Range(index) => {
                let range = self.parser.ranges[index as usize];
                push_padded(&mut self.name, range.lo, range.width);
                for number in range.lo..=range.hi {
                    self.walk(at + 1, end, rest);
                    if number < range.hi {
                        increment(&mut self.name, length);
                    }
                }
            }
            NamePart::Group(close) => {
                let rest = Continuation { at: close as usize, end, outer: rest };
                let mut child = at + 1;
                while child < close as usize {
                    let (from, to) = match self.parser.nodes[child] {
                        NamePart::Alternative(to) => (child + 1, to as usize),
                        _ => (child, child + 1),
                    };
                    self.walk(from, to, Some(&rest));
                    child = to;
                }
            }
            // Occurs only as the child of a group, above.
            NamePart::Alternative(_) => {}
        }
        self.name.truncate(length);
    }
}

fn push_padded(name: &mut String, number: u64, width: u8) {
    use core::fmt::Write;
    // Writing to a String cannot fail.
    let _ = write!(name, "{number:0width$}", width = usize::from(width));
}

/// Adds 1 to the decimal number that starts at `start` and ends `name`.
///
/// Far cheaper than formatting again: nine times out of ten only the last digit changes.
fn increment(name: &mut String, start: usize) {
    let mut nines = 0;
    while name.len() > start && name.ends_with('9') {
        name.pop();
        nines += 1;
    }
    let digit = if name.len() > start { name.pop().and_then(|digit| digit.to_digit(10)) } else { None };
    name.extend(char::from_digit(digit.unwrap_or(0) + 1, 10));
    name.extend(core::iter::repeat_n('0', nines));
}
