//! Replaces `~`, `%` tokens and `${VARIABLE}` in a path: ssh_config(5), TOKENS.
//!
//! A token that cannot be replaced, or that versions of `ssh` replace differently (`%C`), is an
//! error.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::Context;

/// A path that cannot be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unresolved;

/// What the tokens of a host stand for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'a> {
    pub(super) named: &'a str,
    pub(super) host_name: &'a str,
    pub(super) alias: Option<&'a str>,
    pub(super) port: u16,
    pub(super) user: &'a str,
}

/// Replaces everything. A relative path is left relative, as in `ssh`.
pub(super) fn path(text: &str, names: &Names<'_>, context: &Context<'_>) -> Result<PathBuf, Unresolved> {
    let text = tilde(text, context)?;
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_slice();
    while let Some((&byte, after)) = rest.split_first() {
        match (byte, after) {
            (b'%', [token, after @ ..]) => {
                out.extend(replacement(*token, names, context)?);
                rest = after;
            }
            (b'%', []) => return Err(Unresolved),
            (b'$', [b'{', after @ ..]) => {
                let end = after.iter().position(|&byte| byte == b'}').ok_or(Unresolved)?;
                let (variable, after) = after.split_at_checked(end).ok_or(Unresolved)?;
                let value = context.variable(OsStr::from_bytes(variable)).ok_or(Unresolved)?;
                out.extend(value.as_bytes());
                rest = after.get(1..).unwrap_or_default();
            }
            _ => {
                out.push(byte);
                rest = after;
            }
        }
    }
    Ok(PathBuf::from(OsStr::from_bytes(&out)))
}

/// Resolves a path that `ssh -G` prints with its tokens replaced. One that is left may be a token of
/// an old version or a plain character.
pub(super) fn replaced_path(text: &str, context: &Context<'_>) -> Result<PathBuf, Unresolved> {
    if text.contains('%') || text.contains("${") {
        return Err(Unresolved);
    }
    let path = PathBuf::from(OsStr::from_bytes(&tilde(text, context)?));
    // `ssh -G` prints a list of paths without quotes: part of a name would not be absolute.
    if path.is_absolute() { Ok(path) } else { Err(Unresolved) }
}

/// The home directory of another user is not looked up.
fn tilde(text: &str, context: &Context<'_>) -> Result<Vec<u8>, Unresolved> {
    let Some(rest) = text.strip_prefix('~') else { return Ok(text.as_bytes().to_vec()) };
    if !rest.is_empty() && !rest.starts_with('/') {
        return Err(Unresolved);
    }
    Ok([context.home.as_os_str().as_bytes(), rest.as_bytes()].concat())
}

fn replacement(token: u8, names: &Names<'_>, context: &Context<'_>) -> Result<Vec<u8>, Unresolved> {
    let local = context.host_name.as_str();
    Ok(match token {
        b'%' => b"%".to_vec(),
        b'h' => names.host_name.into(),
        b'n' => names.named.into(),
        b'k' => names.alias.unwrap_or(names.named).into(),
        b'p' => names.port.to_string().into(),
        b'r' => names.user.into(),
        b'u' => context.user.as_bytes().to_vec(),
        b'd' => context.home.as_os_str().as_bytes().to_vec(),
        b'i' => context.uid.to_string().into(),
        b'l' => local.into(),
        b'L' => local.split('.').next().unwrap_or_default().into(),
        _ => return Err(Unresolved),
    })
}
