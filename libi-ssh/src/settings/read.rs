//! Decides whether what `ssh -G` prints is understood, and what it means.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::rules::{Rule, rule};
use super::tokens::{self, Names};
use super::{
    AddressFamily, Algorithms, Context, Declined, Dump, HostKeyLists, Jump, Login, Role, Settings, Strict,
    Trust,
};
use crate::known_hosts::matches;

/// Identity files that `ssh` tries if none is named.
const DEFAULT_IDENTITIES: [&str; 7] =
    ["id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "id_xmss", "id_dsa"];

const AGENT_VARIABLE: &str = "SSH_AUTH_SOCK";

impl Settings {
    /// What a dump means for the host that was named on the command line.
    pub(crate) fn from_dump(
        dump: &Dump,
        named: &str,
        role: Role,
        lists: &HostKeyLists,
        context: &Context<'_>,
    ) -> Result<Self, Declined> {
        let reader = Reader { dump, context };
        reader.obey_rules(role)?;
        let host_name = dump.value("HostName").ok_or(Declined::Missing("HostName"))?;
        let user = dump.value("User").ok_or(Declined::Missing("User"))?;
        let port = reader.number("Port", 22)?;
        let alias = dump.value("HostKeyAlias");
        let names = Names { named, host_name, alias, port, user };
        let (prints, prints_notices) = match dump.value("LogLevel").unwrap_or("INFO") {
            "QUIET" => (false, false),
            "ERROR" => (true, false),
            "INFO" => (true, true),
            value => return Err(declined("LogLevel", value)),
        };
        let timeout = |keyword| {
            let seconds = reader.number::<u64>(keyword, 0)?;
            Ok((seconds > 0).then(|| Duration::from_secs(seconds)))
        };
        Ok(Self {
            named: named.to_owned(),
            host_name: host_name.to_owned(),
            port,
            user: user.to_owned(),
            family: match dump.value("AddressFamily").unwrap_or("any") {
                "any" => AddressFamily::Any,
                "inet" => AddressFamily::Inet,
                "inet6" => AddressFamily::Inet6,
                value => return Err(declined("AddressFamily", value)),
            },
            bind_address: dump.value("BindAddress").map(str::to_owned),
            connect_timeout: timeout("ConnectTimeout")?,
            connection_attempts: reader.number("ConnectionAttempts", 1)?,
            tcp_keep_alive: reader.switch("TCPKeepAlive", true)?,
            alive_interval: timeout("ServerAliveInterval")?,
            alive_count: reader.number("ServerAliveCountMax", 3)?,
            login: reader.login(&names)?,
            trust: reader.trust(&names)?,
            algorithms: reader.algorithms(lists)?,
            variables: if role == Role::Target { reader.variables()? } else { Vec::new() },
            jumps: reader.jumps()?,
            prints,
            prints_notices,
        })
    }
}

fn declined(keyword: &'static str, value: &str) -> Declined {
    Declined::Value { keyword, value: value.to_owned() }
}

struct Reader<'a> {
    dump: &'a Dump,
    context: &'a Context<'a>,
}

impl Reader<'_> {
    fn obey_rules(&self, role: Role) -> Result<(), Declined> {
        if role == Role::Target && self.dump.value("BatchMode").is_none() {
            return Err(Declined::Missing("BatchMode"));
        }
        let clears = self.dump.value("ClearAllForwardings") == Some("yes");
        for (keyword, value) in self.dump.lines() {
            let (keyword, rule) = rule(keyword).ok_or_else(|| Declined::Keyword(keyword.to_owned()))?;
            match rule {
                Rule::Ignored | Rule::Read => {}
                Rule::OnlyTarget(_) if role == Role::Jump => {}
                Rule::Only(known) | Rule::OnlyTarget(known) => {
                    if !known.contains(&value) {
                        return Err(declined(keyword, value));
                    }
                }
                Rule::Kerberos => {
                    if value != "no" && self.context.may_have_kerberos() {
                        return Err(Declined::Kerberos { keyword });
                    }
                }
                Rule::Forwarding => {
                    if !clears && role == Role::Target {
                        return Err(declined(keyword, value));
                    }
                }
                Rule::SharedConnection => {
                    if value == "none" {
                        continue;
                    }
                    let path = tokens::replaced_path(value, self.context)
                        .map_err(|_| Declined::Token { keyword, value: value.to_owned() })?;
                    // A jump host might even open one (`ControlMaster`).
                    if role == Role::Jump || (self.context.exists)(&path) {
                        return Err(Declined::SharedConnection(path));
                    }
                }
            }
        }
        Ok(())
    }

    fn number<T: FromStr>(&self, keyword: &'static str, default: T) -> Result<T, Declined> {
        let Some(value) = self.dump.value(keyword) else { return Ok(default) };
        value.parse().map_err(|_| declined(keyword, value))
    }

    fn switch(&self, keyword: &'static str, default: bool) -> Result<bool, Declined> {
        match self.dump.value(keyword) {
            None => Ok(default),
            Some("yes" | "true") => Ok(true),
            Some("no" | "false") => Ok(false),
            Some(value) => Err(declined(keyword, value)),
        }
    }

    fn list(&self, keyword: &'static str) -> Result<Vec<String>, Declined> {
        self.dump.list(keyword).ok_or(Declined::Missing(keyword))
    }

    fn login(&self, names: &Names<'_>) -> Result<Login, Declined> {
        let files = |keyword: &'static str| -> Result<Vec<PathBuf>, Declined> {
            let values = self.dump.values(keyword).filter(|value| !value.eq_ignore_ascii_case("none"));
            let file = |value: &str| {
                tokens::path(value, names, self.context)
                    .map_err(|_| Declined::Token { keyword, value: value.to_owned() })
            };
            values.map(file).collect()
        };
        let identities = files("IdentityFile")?;
        let defaults = DEFAULT_IDENTITIES.map(|name| self.context.home.join(".ssh").join(name));
        if let Some(key) = identities
            .iter()
            .find(|file| file.to_string_lossy().ends_with("_sk") && (self.context.exists)(file))
        {
            return Err(Declined::SecurityKey(key.clone()));
        }
        let preferred = self.dump.list("PreferredAuthentications");
        let is_preferred = preferred.is_none_or(|list| list.iter().any(|method| method == "publickey"));
        Ok(Login {
            public_keys: self.switch("PubkeyAuthentication", true)? && is_preferred,
            identities_are_named: !identities.iter().all(|file| defaults.contains(file)),
            identities,
            certificates: files("CertificateFile")?,
            identities_only: self.switch("IdentitiesOnly", false)?,
            agent: self.agent()?,
            accepted: self
                .list("PubkeyAcceptedAlgorithms")
                .or_else(|_| self.list("PubkeyAcceptedKeyTypes"))?,
        })
    }

    fn agent(&self) -> Result<Option<PathBuf>, Declined> {
        let keyword = "IdentityAgent";
        let variable = match self.dump.first(keyword) {
            None => AGENT_VARIABLE,
            Some(none) if none.eq_ignore_ascii_case("none") => return Ok(None),
            Some(AGENT_VARIABLE) => AGENT_VARIABLE,
            Some(value) => match value.strip_prefix('$') {
                Some(variable) if !variable.starts_with('{') => variable,
                _ => {
                    let path = tokens::replaced_path(value, self.context)
                        .map_err(|_| Declined::Token { keyword, value: value.to_owned() })?;
                    return Ok(Some(path));
                }
            },
        };
        let value = self.context.variable(OsStr::new(variable)).filter(|value| !value.is_empty());
        Ok(value.map(PathBuf::from))
    }

    fn trust(&self, names: &Names<'_>) -> Result<Trust, Declined> {
        let files = |keyword: &'static str| -> Result<Vec<PathBuf>, Declined> {
            let Some(list) = self.dump.value(keyword) else { return Ok(Vec::new()) };
            let file = |value: &str| {
                tokens::replaced_path(value, self.context)
                    .map_err(|_| Declined::Token { keyword, value: list.to_owned() })
            };
            list.split(' ').filter(|word| !word.is_empty()).map(file).collect()
        };
        let strict = match self.dump.value("StrictHostKeyChecking").unwrap_or("ask") {
            "true" | "yes" => Strict::Yes,
            "ask" => Strict::Ask,
            "accept-new" => Strict::AcceptNew,
            "false" | "no" | "off" => Strict::No,
            value => return Err(declined("StrictHostKeyChecking", value)),
        };
        let user_files = files("UserKnownHostsFile")?;
        if user_files.is_empty() && matches!(strict, Strict::AcceptNew | Strict::No) {
            return Err(declined("UserKnownHostsFile", "none"));
        }
        Ok(Trust {
            strict,
            user_files,
            global_files: files("GlobalKnownHostsFile")?,
            alias: names.alias.map(str::to_owned),
            // The default since OpenSSH 8.5; `ssh -G` prints it.
            checks_address: self.switch("CheckHostIP", false)?,
            hashes: self.switch("HashKnownHosts", false)?,
            trusts_loopback: self.switch("NoHostAuthenticationForLocalhost", false)?,
            rsa_bits: self.number("RequiredRSASize", self.number("RSAMinSize", 1024)?)?,
            authority_signatures: self.list("CASignatureAlgorithms")?,
            revoked: None,
        })
    }

    fn algorithms(&self, lists: &HostKeyLists) -> Result<Algorithms, Declined> {
        let host_keys = self.list("HostKeyAlgorithms")?;
        let prefers_known_keys = match lists {
            HostKeyLists::Default => true,
            // Unless the user has set or reordered the list, it is the default one, with more at its end.
            HostKeyLists::Configured { default, may_be_shortened } => {
                let is_default = !default.is_empty() && host_keys.starts_with(default);
                if !is_default && *may_be_shortened {
                    return Err(Declined::HostKeyOrder);
                }
                is_default
            }
        };
        Ok(Algorithms {
            kex: self.list("KexAlgorithms")?,
            host_keys,
            prefers_known_keys,
            ciphers: self.list("Ciphers")?,
            macs: self.list("MACs")?,
        })
    }

    fn variables(&self) -> Result<Vec<(String, String)>, Declined> {
        let patterns: Vec<&str> = self.dump.values("SendEnv").collect();
        let mut variables = Vec::new();
        for (name, value) in &self.context.environment {
            let Some(name) = name.to_str() else { continue };
            if !patterns.iter().any(|pattern| matches_variable(name, pattern)) {
                continue;
            }
            let value = value.to_str().ok_or_else(|| declined("SendEnv", name))?;
            variables.push((name.to_owned(), value.to_owned()));
        }
        for set in self.dump.values("SetEnv") {
            let (name, value) = set.split_once('=').ok_or_else(|| declined("SetEnv", set))?;
            variables.push((name.to_owned(), value.to_owned()));
        }
        Ok(variables)
    }

    fn jumps(&self) -> Result<Vec<Jump>, Declined> {
        let Some(list) = self.dump.value("ProxyJump") else { return Ok(Vec::new()) };
        let jump = |text: &str| jump(text).ok_or_else(|| declined("ProxyJump", list));
        list.split(',').map(jump).collect()
    }
}

/// Names of variables match with their case.
fn matches_variable(name: &str, pattern: &str) -> bool {
    matches(name.as_bytes(), pattern.as_bytes())
}

/// `[user@]host[:port]`, where an IPv6 address has brackets if a port follows.
fn jump(text: &str) -> Option<Jump> {
    if text.contains("://") || text.contains('%') {
        return None;
    }
    let (user, rest) = match text.rsplit_once('@') {
        Some((user, rest)) => (Some(user), rest),
        None => (None, text),
    };
    let (host, port) = if let Some(rest) = rest.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        (host, if after.is_empty() { None } else { Some(after.strip_prefix(':')?) })
    } else if rest.matches(':').count() == 1 {
        let (host, port) = rest.split_once(':')?;
        (host, Some(port))
    } else {
        (rest, None)
    };
    let port = match port {
        Some(port) => Some(port.parse().ok().filter(|&port: &u16| port > 0)?),
        None => None,
    };
    let is_plain = |text: &str| !text.is_empty() && !text.starts_with('-') && !text.contains(['/', ' ']);
    if !is_plain(host) || !user.is_none_or(is_plain) {
        return None;
    }
    Some(Jump { user: user.map(str::to_owned), host: host.to_owned(), port })
}

#[cfg(test)]
mod tests;
