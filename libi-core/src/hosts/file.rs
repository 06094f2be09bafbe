//! Host files: one host on a line, or several, with comments and settings.
//!
//! ```text
//! # anything behind a # is a comment
//! node[001-064]:8 node100          as in a host list, brackets included
//! node101 slots=4 max_slots=8      Open MPI; blanks around `=` are ignored
//! node102:4 user=alice ifname=ib0  MPICH
//! ```
//!
//! Order and repeats are kept; each mention is an entry of its own. A setting applies to the item
//! in front of it on the same line, hence to every host of its brackets. The settings:
//!
//! | setting | effect |
//! |---|---|
//! | `slots`, `cpu`, `count` | the count, as `:n` |
//! | `user`, `username`, `user-name`, `user_name` | the user, as `user@` |
//! | `port` | the remote shell's port |
//! | `max_slots`, `binding`, `ifname`, `boards`, `sockets`, `cores`, variants | no effect |
//!
//! An unknown setting is an error: it may be a misspelt known one.

use alloc::string::ToString;

use super::HostList;
use super::error::{HostListError, HostListErrorKind as Kind, InputKind, ListFault};
use super::expand::{self, Sink};
use super::name;
use super::syntax::{Item, Parser, Span};

/// Parses a host file. The [module](self) describes the format.
///
/// # Errors
/// The first mistake with its line and column, or the item with which the list exceeds its bounds.
pub fn parse_host_file(text: &str) -> Result<HostList, HostListError> {
    expand::build(InputKind::File, text, |parser, sink| {
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let content = line.split('#').next().unwrap_or(line);
            parser.restrict_to(start, start + content.len());
            parse_line(parser, sink)?;
            start += line.len();
        }
        Ok(())
    })
}

fn parse_line(parser: &mut Parser<'_>, sink: &mut Sink) -> Result<(), ListFault> {
    let mut last: Option<Item> = None;
    while parser.seek_item() {
        if let Some(key) = parser.setting() {
            let value = value_of(parser, key)?;
            set(parser, last.as_mut(), key, value)?;
        } else {
            // The parser drops its tree when it reads the next item.
            if let Some(item) = last.take() {
                sink.take(parser, &item)?;
            }
            last = Some(parser.item()?);
        }
    }
    last.map_or(Ok(()), |item| sink.take(parser, &item))
}

/// The text behind `=`, up to white space. The parser stands at the `=`.
fn value_of(parser: &mut Parser<'_>, key: Span) -> Result<Span, ListFault> {
    let start = parser.run(parser.at + 1, name::is_space);
    parser.at = parser.run(start, |byte| !name::is_space(byte));
    if parser.at == start {
        return Err(ListFault::new(key.start as usize, Kind::MissingValue(key.of(parser.text).to_string())));
    }
    Ok(Span::new(start, parser.at))
}

fn set(parser: &Parser<'_>, item: Option<&mut Item>, key: Span, value: Span) -> Result<(), ListFault> {
    let setting = key.of(parser.text);
    let fault = |kind: fn(_) -> Kind| ListFault::new(key.start as usize, kind(setting.to_string()));
    let Some(item) = item else {
        return Err(fault(Kind::SettingWithoutHost));
    };
    let again = match setting {
        "slots" | "cpu" | "count" => item.count.replace(parser.read(value, name::parse_count)?).is_some(),
        "user" | "username" | "user-name" | "user_name" => {
            parser.read(value, name::check_user)?;
            item.user.replace(value).is_some()
        }
        "port" => item.port.replace(parser.read(value, name::parse_port)?).is_some(),
        "max_slots" | "max-slots" | "slots_max" | "slots-max" => false,
        "max_cpu" | "max-cpu" | "cpu_max" | "cpu-max" => false,
        "max_count" | "max-count" | "count_max" | "count-max" => false,
        "binding" | "ifname" | "boards" | "sockets" | "cores" => false,
        "sockets_per_board" | "sockets-per-board" | "cores_per_socket" | "cores-per-socket" => false,
        _ => return Err(fault(Kind::UnknownSetting)),
    };
    if again { Err(fault(Kind::DuplicateSetting)) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
