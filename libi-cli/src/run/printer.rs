//! Prints what ranks print: as it comes, with labels, or gathered.
//!
//! | style | standard output of ranks | their standard error |
//! |---|---|---|
//! | raw | as it comes | as it comes |
//! | labelled | whole lines, behind a label | the same |
//! | folded | when all have ended; identical text once, behind the ranks and hosts | labelled; identical lines that come together once |
//!
//! A line that is longer than [`LONGEST_LINE`] is printed in parts. With a JSON document on standard
//! output, everything goes to standard error.

use std::collections::BTreeMap;
use std::io::{self, Write};

use libi::hosts::HostRef;
use libi::{HostList, Rank, Session, Stream};
use libi_core::ranks::Ranks;

use super::folded::FoldedText;

/// How output is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Raw,
    /// Behind the rank.
    Tagged,
    /// Behind host and rank.
    Labelled,
    Folded,
    /// Behind the host, where each has one process.
    ByHost,
    /// The same, folded.
    FoldedByHost,
}

/// The longest line that is kept until it is complete.
const LONGEST_LINE: usize = 64 << 10;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Printer {
    style: Style,
    /// Standard output holds something else.
    to_stderr: bool,
    /// Lines that are not complete, by rank; of standard error if true.
    lines: BTreeMap<(u32, bool), Vec<u8>>,
    /// What ranks have printed, where it is folded.
    folded: FoldedText,
}

impl Printer {
    pub(crate) fn new(style: Style, to_stderr: bool) -> Self {
        Self { style, to_stderr, lines: BTreeMap::new(), folded: FoldedText::default() }
    }

    /// A rank of this session has printed.
    pub(crate) fn print(
        &mut self,
        session: &Session,
        rank: Rank,
        stream: Stream,
        bytes: &[u8],
    ) -> io::Result<()> {
        match (self.style, stream) {
            (Style::Raw, _) => self.write(stream, bytes),
            (Style::FoldedByHost, Stream::Out) => {
                self.folded.add(&one(rank), bytes);
                Ok(())
            }
            _ => {
                let line = self.lines.entry((rank.0, stream == Stream::Err)).or_default();
                line.extend_from_slice(bytes);
                let whole: Vec<u8> = match line.iter().rposition(|byte| *byte == b'\n') {
                    Some(last) => line.drain(..=last).collect(),
                    None if line.len() > LONGEST_LINE => std::mem::take(line),
                    None => return Ok(()),
                };
                self.write_labelled(session, &one(rank), stream, &whole)
            }
        }
    }

    /// Ranks of this session have printed the same.
    pub(super) fn print_folded(
        &mut self,
        session: &Session,
        ranks: &Ranks,
        stream: Stream,
        bytes: &[u8],
    ) -> io::Result<()> {
        if stream == Stream::Out {
            self.folded.add(ranks, bytes);
            return Ok(());
        }
        let is_begun = |rank: Rank| self.lines.get(&(rank.0, true)).is_some_and(|line| !line.is_empty());
        if bytes.ends_with(b"\n") && !ranks.iter().any(is_begun) {
            return self.write_labelled(session, ranks, stream, bytes);
        }
        ranks.iter().try_for_each(|rank| self.print(session, rank, stream, bytes))
    }

    /// The session is over: prints what is left.
    pub(crate) fn finish(&mut self, session: &Session) -> io::Result<()> {
        for ((rank, is_err), line) in std::mem::take(&mut self.lines) {
            let stream = if is_err { Stream::Err } else { Stream::Out };
            if !line.is_empty() {
                self.write_labelled(session, &one(Rank(rank)), stream, &line)?;
            }
        }
        for (mut text, ranks) in self.folded.take() {
            if text.last().is_some_and(|last| *last != b'\n') {
                text.push(b'\n');
            }
            let hosts = hosts_of(session, &ranks);
            let head = match self.style {
                Style::FoldedByHost => format!("---- {hosts}\n"),
                _ => format!("---- {ranks} on {hosts}\n"),
            };
            self.write(Stream::Out, &[head.as_bytes(), &text].concat())?;
        }
        Ok(())
    }

    fn write_labelled(
        &self,
        session: &Session,
        ranks: &Ranks,
        stream: Stream,
        lines: &[u8],
    ) -> io::Result<()> {
        let label = match self.style {
            Style::Tagged => format!("[{}] ", numbers(ranks)),
            Style::ByHost | Style::FoldedByHost => format!("{}: ", hosts_of(session, ranks)),
            _ => match ranks.lowest().filter(|_| ranks.len() == 1) {
                Some(rank) => format!("[{}:{}] ", host_of(session, rank), rank.0),
                None => format!("[{}:{}] ", hosts_of(session, ranks), numbers(ranks)),
            },
        };
        let mut text = Vec::with_capacity(lines.len() + label.len());
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            text.extend_from_slice(label.as_bytes());
            text.extend_from_slice(line);
        }
        if !text.ends_with(b"\n") {
            text.push(b'\n');
        }
        self.write(stream, &text)
    }

    fn write(&self, stream: Stream, text: &[u8]) -> io::Result<()> {
        if stream == Stream::Out && !self.to_stderr {
            let mut out = io::stdout().lock();
            out.write_all(text).and_then(|()| out.flush())
        } else {
            io::stderr().lock().write_all(text)
        }
    }
}

fn one(rank: Rank) -> Ranks {
    [rank].into_iter().collect()
}

/// The numbers of ranks, as `0-3,7`.
fn numbers(ranks: &Ranks) -> String {
    let run = |(first, last): (Rank, Rank)| match first == last {
        true => first.0.to_string(),
        false => format!("{}-{}", first.0, last.0),
    };
    ranks.runs().map(run).collect::<Vec<_>>().join(",")
}

/// The name of the host of a rank.
pub(super) fn host_of(session: &Session, rank: Rank) -> &str {
    let layout = session.layout();
    let host = layout.host_of(rank).and_then(|host| layout.hosts().entry(host.0 as usize));
    host.map_or("", |host| host.name)
}

/// The hosts of these ranks, as a folded list.
pub(super) fn hosts_of(session: &Session, ranks: &Ranks) -> String {
    let (mut hosts, mut last) = (HostList::new(), "");
    for rank in ranks.iter() {
        let name = host_of(session, rank);
        if name != last {
            // The name comes from a list, so it can be pushed.
            let _ = hosts.push(HostRef::new(name));
            last = name;
        }
    }
    libi_core::dist::distinct(&hosts).fold()
}
