//! Parses what `ssh -v` prints during a login: how far it came, how long each step took, what was
//! negotiated, and what failed.
//!
//! This is pure code: the caller passes each line and the time of its arrival. The parser knows the
//! messages of OpenSSH 8 and 9 at the first verbosity level. If they are missing, because the
//! program or its version is another one or because it is told to be quiet, the result is "unknown"
//! and never a guess. Errors are recognized without `-v` as well.
//!
//! | step | starts with | ends when |
//! |---|---|---|
//! | connect | the start of `ssh` | the connection is established (jump host: the banner arrives) |
//! | key exchange | the connection | the new keys are in use |
//! | authentication | the new keys | the server accepts the login |
//! | session | the login | the remote shell has answered, see [`Transcript::shell_answered`] |
//!
//! For a jump host, `ssh` starts a second `ssh`, and both print to the same stream. The last banner
//! starts the login that counts; everything before belongs to the connection through the jump host.
//!
//! A server can have `ssh` print text that looks like one of its messages. That can only mislead
//! the diagnosis of this server.

mod login_error;

#[cfg(test)]
mod tests;

use std::time::Duration;

use libi_core::time::Instant;

pub use login_error::LoginError;

/// How far a login has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoginStage {
    /// No connection is known of.
    Nothing,
    /// The connection is established.
    Connection,
    /// Keys are negotiated; the server has proved its identity.
    Keys,
    /// The server has accepted the login.
    Login,
    /// The remote shell has answered.
    Shell,
}

/// How long each step of a login took, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoginTiming {
    /// From the start to the connection.
    pub connect: Option<Duration>,
    /// From the connection until the new keys were in use.
    pub key_exchange: Option<Duration>,
    /// From the new keys until the login was accepted.
    pub authentication: Option<Duration>,
    /// From the login until the remote shell answered.
    pub session: Option<Duration>,
}

/// Details of a login, as far as the messages tell them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginDetails {
    /// Version string of the client.
    pub client: Option<String>,
    /// Version string of the server.
    pub server: Option<String>,
    /// Address and port of the connection.
    pub address: Option<String>,
    /// Key exchange algorithm.
    pub key_exchange: Option<String>,
    /// Cipher for received data.
    pub cipher: Option<String>,
    /// Host key with which the server proved its identity.
    pub host_key: Option<String>,
    /// Method of the successful authentication.
    pub method: Option<String>,
    /// Key of the successful authentication, if it used one.
    pub key: Option<String>,
    /// Number of keys offered.
    pub offered: u32,
    /// An existing shared connection was used, so nothing was set up.
    pub shared: bool,
    /// Another program made the connection, as with a jump host.
    pub by_proxy: bool,
}

/// State of the parser; see the [module](self).
#[derive(Clone, Debug)]
pub struct Transcript {
    began: Instant,
    connected: Option<Instant>,
    keys_agreed: Option<Instant>,
    authenticated: Option<Instant>,
    shell_answered: Option<Instant>,
    details: LoginDetails,
    error: Option<(LoginError, String)>,
    last: String,
}

impl Transcript {
    /// Maximum number of characters kept of a line.
    const MAX_KEPT: usize = 400;

    /// Starts with a program that was started at `now`.
    #[must_use]
    pub fn begin(now: Instant) -> Self {
        Self {
            began: now,
            connected: None,
            keys_agreed: None,
            authenticated: None,
            shell_answered: None,
            details: LoginDetails::default(),
            error: None,
            last: String::new(),
        }
    }

    /// Processes a line of the program's standard error.
    pub fn line(&mut self, line: &str, now: Instant) {
        let line = line.trim_end();
        match line.strip_prefix("debug1: ") {
            Some(detail) => self.detail(detail, now),
            None if line.starts_with("debug2: ") || line.starts_with("debug3: ") => {}
            None => self.statement(line, now),
        }
    }

    /// Records that the remote shell has answered.
    pub fn shell_answered(&mut self, now: Instant) {
        self.shell_answered.get_or_insert(now);
    }

    /// How far the login has come.
    #[must_use]
    pub fn stage(&self) -> LoginStage {
        match self {
            Self { shell_answered: Some(_), .. } => LoginStage::Shell,
            Self { authenticated: Some(_), .. } => LoginStage::Login,
            Self { keys_agreed: Some(_), .. } => LoginStage::Keys,
            Self { connected: Some(_), .. } => LoginStage::Connection,
            _ => self.error().map_or(LoginStage::Nothing, |(error, _)| error.stage()),
        }
    }

    /// How long each step took.
    #[must_use]
    pub fn timing(&self) -> LoginTiming {
        let between = |from: Option<Instant>, to: Option<Instant>| Some(to?.since(from?));
        LoginTiming {
            connect: between(Some(self.began), self.connected),
            key_exchange: between(self.connected, self.keys_agreed),
            authentication: between(self.keys_agreed, self.authenticated),
            session: between(self.authenticated, self.shell_answered),
        }
    }

    /// Time from the start until the remote shell answered.
    #[must_use]
    pub fn setup_time(&self) -> Option<Duration> {
        Some(self.shell_answered?.since(self.began))
    }

    /// What is known about the login.
    #[must_use]
    pub fn details(&self) -> &LoginDetails {
        &self.details
    }

    /// The error that was recognized, and its line.
    #[must_use]
    pub fn error(&self) -> Option<(LoginError, &str)> {
        self.error.as_ref().map(|(error, line)| (*error, line.as_str()))
    }

    /// The last line that was not debug output, to be shown if no error was recognized.
    #[must_use]
    pub fn last_line(&self) -> &str {
        &self.last
    }

    /// A debug line.
    fn detail(&mut self, line: &str, now: Instant) {
        let details = &mut self.details;
        if let Some(to) = line.strip_prefix("Connecting to ") {
            // The line ends with "host [address] port 22."
            let address = to
                .trim_end_matches('.')
                .split_once('[')
                .map(|(_, rest)| rest.replacen("] port ", " port ", 1));
            details.address = address.or(details.address.take());
        } else if line.starts_with("Executing proxy command: ") {
            details.by_proxy = true;
        } else if line.starts_with("Connection established.") {
            self.connected.get_or_insert(now);
        } else if let Some(remote) = line.strip_prefix("Remote protocol version ") {
            let server = remote.split_once("remote software version ").map(|(_, software)| kept(software));
            self.banner(server, now);
        } else if let Some(algorithm) = line.strip_prefix("kex: algorithm: ") {
            details.key_exchange = Some(kept(algorithm)).filter(|name| name != "(no match)");
        } else if let Some(rest) = line.strip_prefix("kex: server->client cipher: ") {
            details.cipher = rest.split_whitespace().next().map(kept);
        } else if let Some(key) = line.strip_prefix("Server host key: ") {
            details.host_key = Some(kept(key));
        } else if line.starts_with("SSH2_MSG_NEWKEYS received") {
            // Long connections change their keys again later.
            self.keys_agreed.get_or_insert(now);
        } else if line.starts_with("Offering public key: ") {
            details.offered = details.offered.saturating_add(1);
        } else if let Some(key) = line.strip_prefix("Server accepts key: ") {
            details.key = Some(kept(key));
        } else if let Some(method) = line.strip_prefix("Authentication succeeded (") {
            self.authenticated(method.split(')').next(), now);
        } else if line.starts_with("mux_client_request_session: ") {
            details.shared = true;
        }
    }

    /// A line that is not debug output.
    fn statement(&mut self, line: &str, now: Instant) {
        if let Some(rest) = line.strip_prefix("Authenticated to ") {
            let method = rest.split_once("using \"").and_then(|(_, method)| method.split('"').next());
            return self.authenticated(method, now);
        }
        if self.details.client.is_none() && line.starts_with("OpenSSH_") {
            self.details.client = line.split(',').next().map(kept);
            return;
        }
        if line.starts_with("Transferred: ") || line.starts_with("Bytes per second: ") || line.is_empty() {
            return;
        }
        // After the login, lines are output of the remote side.
        if self.authenticated.is_none() && self.shell_answered.is_none() && self.error.is_none() {
            // Strips the frame around the warning about a changed key.
            let plain = line.trim_matches(['@', ' ']);
            self.error = LoginError::of_line(line).map(|error| (error, kept(plain)));
        }
        self.last = kept(line);
    }

    /// The server's banner: a login starts here, perhaps behind that of a jump host.
    fn banner(&mut self, server: Option<String>, now: Instant) {
        let details = &mut self.details;
        if details.by_proxy {
            self.connected = Some(now);
            (self.keys_agreed, self.authenticated) = (None, None);
            (details.key, details.method, details.offered) = (None, None, 0);
        } else {
            self.connected.get_or_insert(now);
        }
        details.server = server;
    }

    fn authenticated(&mut self, method: Option<&str>, now: Instant) {
        self.authenticated.get_or_insert(now);
        if let Some(method) = method {
            self.details.method.get_or_insert_with(|| kept(method));
        }
    }
}

/// Truncates a text and replaces control characters, which a terminal would obey.
fn kept(text: &str) -> String {
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.trim().chars().take(Transcript::MAX_KEPT).map(plain).collect()
}
