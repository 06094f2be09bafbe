//! Reads what `ssh -v` prints while it logs in: how far it came, what each part of it took, what was agreed on, and
//! what was in the way.
//!
//! Pure: whoever reads the lines says when each has come. The words are those of OpenSSH 8 and 9, as it prints them at its
//! first level of detail. Where they are not found, because the program is another one, or another version, or is told to be
//! quiet, the answer is that nothing is known, and no guess. What stands in the way is recognised without `-v` as well.
//!
//! | part | from | until |
//! |---|---|---|
//! | connect | the start of the program | there is a connection; behind a jump host, until the other side has greeted |
//! | key exchange | then | the new keys are in use |
//! | authentication | then | the other side has let us in |
//! | session | then | the shell over there has said something, which the caller [tells](Transcript::shell) |
//!
//! Where a jump host is used, `ssh` calls itself for it, and both print into one stream. The last greeting begins the login
//! that counts; what comes before belongs to its connection.
//!
//! A server can have text printed that looks like a line of `ssh`. It can deceive nobody but whoever asks about that server.

mod login_error;

#[cfg(test)]
mod tests;

use std::time::Duration;

use libi_core::time::Instant;

pub use login_error::LoginError;

/// How far a login has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoginStage {
    /// Nothing is known of a connection.
    Nothing,
    /// There is a connection.
    Connection,
    /// Keys are agreed on; the other side has proved who it is.
    Keys,
    /// We are let in.
    Login,
    /// The shell over there has said something.
    Shell,
}

/// How long each part of a login has taken, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoginTiming {
    /// Until there was a connection.
    pub connect: Option<Duration>,
    /// From then until the new keys were in use.
    pub key_exchange: Option<Duration>,
    /// From then until we were let in.
    pub authentication: Option<Duration>,
    /// From then until the shell has said something.
    pub session: Option<Duration>,
}

/// What has been learnt of a login, as far as the words were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginDetails {
    /// The client, as it calls itself.
    pub client: Option<String>,
    /// The server, as it calls itself.
    pub server: Option<String>,
    /// The address and the port that were connected to.
    pub address: Option<String>,
    /// How keys were agreed on.
    pub key_exchange: Option<String>,
    /// By what the bytes that come are encrypted.
    pub cipher: Option<String>,
    /// The key by which the server has proved who it is.
    pub host_key: Option<String>,
    /// By which method we were let in.
    pub method: Option<String>,
    /// Which key it was, if it was one.
    pub key: Option<String>,
    /// How many keys were offered.
    pub offered: u32,
    /// A connection that was there before was used: nothing was set up.
    pub shared: bool,
    /// The connection was made by another program, as for a jump host.
    pub by_proxy: bool,
}

/// A login, as its lines tell of it; see the [module](self).
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
    /// The longest piece of a line that is kept.
    const MAX_KEPT: usize = 400;

    /// Of a program that was started now.
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

    /// The program has printed a line on its standard error.
    pub fn line(&mut self, line: &str, now: Instant) {
        let line = line.trim_end();
        match line.strip_prefix("debug1: ") {
            Some(detail) => self.detail(detail, now),
            None if line.starts_with("debug2: ") || line.starts_with("debug3: ") => {}
            None => self.statement(line, now),
        }
    }

    /// The shell over there has said something.
    pub fn shell_answered(&mut self, now: Instant) {
        self.shell_answered.get_or_insert(now);
    }

    /// How far it has come.
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

    /// How long each part has taken.
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

    /// From the start until the shell has said something.
    #[must_use]
    pub fn setup_time(&self) -> Option<Duration> {
        Some(self.shell_answered?.since(self.began))
    }

    /// What has been learnt.
    #[must_use]
    pub fn details(&self) -> &LoginDetails {
        &self.details
    }

    /// What stood in the way, if it was recognised, and the line that says so.
    #[must_use]
    pub fn error(&self) -> Option<(LoginError, &str)> {
        self.error.as_ref().map(|(error, line)| (*error, line.as_str()))
    }

    /// The last line that was not a detail: what people are shown if nothing was recognised.
    #[must_use]
    pub fn last_line(&self) -> &str {
        &self.last
    }

    /// A line of `-v`.
    fn detail(&mut self, line: &str, now: Instant) {
        let details = &mut self.details;
        if let Some(to) = line.strip_prefix("Connecting to ") {
            // "host [address] port 22."
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
            // Keys are changed later as well, on long connections.
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

    /// Any other line.
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
        // Whoever is let in is in no trouble of ours; what follows is what is said over there.
        if self.authenticated.is_none() && self.shell_answered.is_none() && self.error.is_none() {
            // One of them is framed by these.
            let plain = line.trim_matches(['@', ' ']);
            self.error = LoginError::of_line(line).map(|error| (error, kept(plain)));
        }
        self.last = kept(line);
    }

    /// The other side has said what it is: here a login begins, perhaps behind that of a jump host.
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

/// As much of a text as is kept, with nothing in it that a terminal would obey.
fn kept(text: &str) -> String {
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.trim().chars().take(Transcript::MAX_KEPT).map(plain).collect()
}
