//! Parsers for the formats of resource managers.
//!
//! The texts are written by programs, so they are parsed strictly: plain host names, no brackets
//! except Slurm's, and nothing is skipped. Memory grows with the text, except for Slurm's brackets,
//! which have the bounds of every host list.

use super::super::error::{HostListError, HostListErrorKind as Kind, InputKind, ListFault};
use super::super::{HostList, HostRef, name};

/// Parses Slurm's node list, `node[001-064,100]`, with its tasks per node, `2(x3),1`. Without the
/// latter every host has one task.
///
/// # Errors
/// A mistake in either, distinguished by [`HostListError::text`], or different numbers of hosts.
pub fn parse_slurm(nodes: &str, tasks_per_node: Option<&str>) -> Result<HostList, HostListError> {
    let mut hosts = HostList::parse(nodes)?;
    // Slurm writes none of these; a count from here would be overwritten below silently.
    if hosts.iter().any(|host| host.user.is_some() || host.port.is_some() || host.count != 1) {
        let at = nodes.find(['@', ':', '*']).unwrap_or(0);
        return Err(ListFault::new(at, Kind::PlainNameExpected).locate(InputKind::List, nodes));
    }
    let Some(text) = tasks_per_node else { return Ok(hosts) };
    let located = |fault: ListFault| fault.locate(InputKind::TaskCounts, text);
    let mut named: u64 = 0;
    for (at, field) in fields(text, |c| c == ',' || c.is_ascii_whitespace()) {
        let (count, repeat) =
            task_count(field).map_err(|(offset, kind)| located(ListFault::new(at + offset, kind)))?;
        let from = usize::try_from(named).unwrap_or(usize::MAX).min(hosts.len());
        let entries = hosts.entries[from..].iter_mut();
        entries.take(repeat as usize).for_each(|entry| entry.count = count);
        named = named.saturating_add(u64::from(repeat));
    }
    if named != hosts.len() as u64 {
        let kind = Kind::TaskMismatch { hosts: hosts.len(), counts: named };
        return Err(located(ListFault::new(0, kind)));
    }
    Ok(hosts)
}

/// `2(x3)`, two tasks on each of three hosts, or `2`. A mistake is returned with its offset.
fn task_count(field: &str) -> Result<(u32, u32), (usize, Kind)> {
    let number = |offset: usize, digits| name::parse_count(digits).map_err(|kind| (offset, kind));
    let Some((tasks, repeat)) = field.split_once("(x") else { return Ok((number(0, field)?, 1)) };
    let Some(repeat) = repeat.strip_suffix(')') else {
        return Err((tasks.len(), Kind::UnexpectedCharacter('(')));
    };
    Ok((number(0, tasks)?, number(tasks.len() + 2, repeat)?))
}

/// Parses the file that `PBS_NODEFILE` names: a host on each line, once for each of its slots.
/// Every line is an entry.
///
/// # Errors
/// The first line that is not a plain host name.
pub fn parse_pbs_nodefile(text: &str) -> Result<HostList, HostListError> {
    parse_lines(text, |line, list| {
        line.host(list, 1)?;
        line.end()
    })
}

/// Parses the file that `LSB_DJOB_HOSTFILE` names: a host on each line, once for each of its slots.
/// Every line is an entry.
///
/// # Errors
/// The first line that is not a plain host name.
pub fn parse_lsf_hostfile(text: &str) -> Result<HostList, HostListError> {
    parse_pbs_nodefile(text)
}

/// Reads `LSB_MCPU_HOSTS`: `hostA 2 hostB 4`.
///
/// # Errors
/// The first host that is not a plain name or has no number of slots.
pub fn parse_lsf_mcpu_hosts(text: &str) -> Result<HostList, HostListError> {
    let mut list = HostList::new();
    let mut line = Fields::new(text, 0);
    while !line.is_done() {
        line.host_and_slots(&mut list).map_err(|fault| fault.locate(InputKind::List, text))?;
    }
    Ok(list)
}

/// Parses the file that `PE_HOSTFILE` names: host, slots, queue and processors on each line. The
/// latter two are ignored and may be missing.
///
/// # Errors
/// The first line that does not begin with a plain host name and a number of slots.
pub fn parse_grid_engine_hostfile(text: &str) -> Result<HostList, HostListError> {
    parse_lines(text, Fields::host_and_slots)
}

/// Passes each line that is not blank to `parse`.
fn parse_lines<'t>(
    text: &'t str,
    parse: impl Fn(&mut Fields<'t>, &mut HostList) -> Result<(), ListFault>,
) -> Result<HostList, HostListError> {
    let mut list = HostList::new();
    let mut start = 0;
    for content in text.split_inclusive('\n') {
        let mut line = Fields::new(content, start);
        if !line.is_done() {
            parse(&mut line, &mut list).map_err(|fault| fault.locate(InputKind::File, text))?;
        }
        start += content.len();
    }
    Ok(list)
}

/// The non-empty pieces of `text` between ASCII separators, with their offsets.
fn fields(text: &str, separator: impl Fn(char) -> bool) -> impl Iterator<Item = (usize, &str)> {
    let mut next = 0;
    let pieces = text.split(separator).map(move |piece| {
        let start = next;
        next += piece.len() + 1;
        (start, piece)
    });
    pieces.filter(|(_, piece)| !piece.is_empty())
}

/// The fields of a line, one by one.
struct Fields<'t> {
    rest: &'t str,
    /// The offset of `rest` in the whole text.
    at: usize,
}

impl<'t> Fields<'t> {
    fn new(text: &'t str, at: usize) -> Self {
        let rest = text.trim_ascii_start();
        Fields { rest, at: at + text.len() - rest.len() }
    }

    fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    fn field(&mut self) -> (usize, &'t str) {
        let end = self.rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(self.rest.len());
        let (field, rest) = self.rest.split_at(end);
        let at = self.at;
        *self = Fields::new(rest, at + end);
        (at, field)
    }

    fn host(&mut self, list: &mut HostList, count: u32) -> Result<(), ListFault> {
        let (at, name) = self.field();
        // A count behind the name, as in other formats; an address has more colons.
        match name.split_once(':') {
            Some((_, rest)) if !rest.contains(':') => Err(ListFault::new(at, Kind::PlainNameExpected)),
            _ => push(list, at, name, count),
        }
    }

    fn host_and_slots(&mut self, list: &mut HostList) -> Result<(), ListFault> {
        let (at, name) = self.field();
        if self.is_done() {
            return Err(ListFault::new(at + name.len(), Kind::MissingSlots));
        }
        let (digits_at, digits) = self.field();
        let count = name::parse_count(digits).map_err(|kind| ListFault::new(digits_at, kind))?;
        push(list, at, name, count)
    }

    fn end(&self) -> Result<(), ListFault> {
        if self.is_done() { Ok(()) } else { Err(ListFault::new(self.at, Kind::TrailingText)) }
    }
}

fn push(list: &mut HostList, at: usize, name: &str, count: u32) -> Result<(), ListFault> {
    list.push(HostRef { count, ..HostRef::new(name) }).map_err(|kind| ListFault::new(at, kind))
}
