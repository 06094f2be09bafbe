//! The lines of `ssh -G`, and whether those for one host tell those for another.

use super::rules::{Rule, rule};

/// The lines of `ssh -G`: keyword in lower case, value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dump {
    lines: Vec<(String, String)>,
}

impl Dump {
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| {
            let (keyword, value) = line.split_once(' ').unwrap_or((line, ""));
            (!keyword.is_empty()).then(|| (keyword.to_ascii_lowercase(), value.to_owned()))
        });
        Self { lines: lines.collect() }
    }

    /// The same configuration for another host, if the name appears only where it stands for itself.
    pub(crate) fn renamed(&self, from: &str, to: &str) -> Option<Self> {
        let (lower, to_lower) = (from.to_ascii_lowercase(), to.to_ascii_lowercase());
        let line = |(keyword, value): &(String, String)| {
            let value = match keyword.as_str() {
                "host" if value == from => to.to_owned(),
                "hostname" if *value == lower => to_lower.clone(),
                _ if holds_no_name(keyword) => value.clone(),
                _ if value.to_ascii_lowercase().contains(&lower) => return None,
                _ => value.clone(),
            };
            Some((keyword.clone(), value))
        };
        Some(Self { lines: self.lines.iter().map(line).collect::<Option<_>>()? })
    }

    /// The first value of a keyword, other than `none`.
    pub(super) fn value(&self, keyword: &str) -> Option<&str> {
        self.first(keyword).filter(|value| !value.eq_ignore_ascii_case("none"))
    }

    pub(super) fn first(&self, keyword: &str) -> Option<&str> {
        let mut lines = self.lines.iter();
        lines.find(|line| line.0.eq_ignore_ascii_case(keyword)).map(|(_, value)| value.as_str())
    }

    pub(super) fn values(&self, keyword: &'static str) -> impl Iterator<Item = &str> {
        let same = |line: &&(String, String)| line.0.eq_ignore_ascii_case(keyword);
        self.lines.iter().filter(same).map(|(_, value)| value.as_str())
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = (&str, &str)> {
        self.lines.iter().map(|(keyword, value)| (keyword.as_str(), value.as_str()))
    }

    pub(crate) fn list(&self, keyword: &str) -> Option<Vec<String>> {
        self.value(keyword).map(|list| list.split(',').map(str::to_owned).collect())
    }
}

/// Whether values of a keyword come from a fixed set of words or are numbers or algorithms, so that
/// a short host name is found in them by chance only.
fn holds_no_name(keyword: &str) -> bool {
    keyword.ends_with("algorithms")
        || keyword.ends_with("authentication")
        || matches!(
            keyword,
            "ciphers" | "macs" | "xauthlocation" | "loglevel" | "ipqos" | "syslogfacility" | "sessiontype"
                | "securitykeyprovider" | "stricthostkeychecking" | "requesttty" | "fingerprinthash"
                | "streamlocalbindmask" | "tunneldevice" | "permitremoteopen" | "rekeylimit" | "addressfamily"
        )
        || rule(keyword).is_some_and(|(_, rule)| matches!(rule, Rule::Only(_) | Rule::OnlyTarget(_)))
        // Numbers and switches.
        || matches!(
            keyword,
            "port" | "connecttimeout" | "connectionattempts" | "serveraliveinterval" | "serveralivecountmax"
                | "requiredrsasize" | "forwardx11timeout" | "numberofpasswordprompts" | "canonicalizemaxdots"
                | "canonicalizefallbacklocal" | "canonicalizepermittedcnames" | "checkhostip"
                | "clearallforwardings" | "controlpersist" | "enableescapecommandline" | "enablesshkeysign"
                | "escapechar" | "exitonforwardfailure" | "forwardx11trusted" | "gatewayports"
                | "gssapidelegatecredentials" | "gssapikeyexchange" | "gssapirenewalforcesrekey"
                | "gssapitrustdns" | "hashknownhosts" | "identitiesonly" | "nohostauthenticationforlocalhost"
                | "streamlocalbindunlink" | "tcpkeepalive" | "updatehostkeys"
        )
}
