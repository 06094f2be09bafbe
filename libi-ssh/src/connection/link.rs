//! A connection to a host that has been logged in to, directly or through other hosts.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use russh::client::{Config, Handle, connect_stream};
use russh::{Error, Limits, SshId};
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout};

use super::handler::{Observer, Seen};
use super::identities::Identities;
use super::offer::NoOffer;
use super::stream::{Closer, Transport, wrap};
use super::words::{Lost, Notes, Peer, lost_before_start};
use super::{Stop, Target, login, preface, tcp};
use crate::settings::Settings;

const IDENTIFICATION: &str = concat!("SSH-2.0-libi_", env!("CARGO_PKG_VERSION"));

/// `ssh` agrees on new keys after as many bytes, and at no particular time.
const REKEY_BYTES: usize = 1 << 30;
const REKEY_TIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// How long the end of russh's task is awaited, once it must end.
const END: Duration = Duration::from_secs(1);

/// A connection. All is closed when it is dropped.
pub(super) struct Link {
    pub(super) handle: Handle<Observer>,
    pub(super) seen: Arc<Seen>,
    pub(super) peer: Peer,
    _closer: Closer,
    /// The connection that carries this one.
    _through: Option<Box<Link>>,
}

impl Link {
    /// Waits for the end of a connection that is ending; returns why it does.
    pub(super) async fn ended(&mut self) -> Lost {
        let _ = timeout(END, &mut self.handle).await;
        self.seen.lost().unwrap_or(Lost::Failed(Error::Disconnect))
    }
}

/// Connects to a host through others. `take` is called once the start cannot be declined anymore.
pub(super) async fn reach(
    jumps: &[Target],
    target: &Target,
    identities: &Identities,
    notes: &Notes,
    take: &mut impl FnMut(),
) -> Result<Link, Stop> {
    for hop in jumps.iter().chain([target]) {
        if let Some(path) = identities.needs_token(&hop.settings.login) {
            return Err(Stop::Declined(format!("{}: key of a security token", path.display())));
        }
    }
    let mut link: Option<Link> = None;
    for (index, jump) in jumps.iter().enumerate() {
        let followers = || jumps.iter().skip(index + 1).chain([target]);
        link = Some(follow(link, jump, identities, notes, &mut || {}).await.inspect_err(|stop| {
            if matches!(stop, Stop::Failed) {
                followers().for_each(|hop| tell_closed(hop, notes));
            }
        })?);
    }
    follow(link, target, identities, notes, take).await
}

/// What `ssh` prints when its proxy ends.
fn tell_closed(hop: &Target, notes: &Notes) {
    let notes = notes.of_host(hop.settings.prints);
    notes.line("kex_exchange_identification: Connection closed by remote host");
    notes.line(&format!("Connection closed by {}", Peer(None)));
}

/// Connects to the next host.
async fn follow(
    through: Option<Link>,
    target: &Target,
    identities: &Identities,
    notes: &Notes,
    take: &mut impl FnMut(),
) -> Result<Link, Stop> {
    let settings = &*target.settings;
    let of_host = notes.of_host(settings.prints);
    let deadline = settings.connect_timeout.map(|timeout| Instant::now() + timeout);
    let (transport, peer): (Box<dyn Transport>, Peer) = match &through {
        None => {
            let connected = tcp::connect(settings, &of_host, deadline).await?;
            (Box::new(connected.stream), Peer(Some(connected.address)))
        }
        Some(link) => match forward(link, settings).await {
            Ok(transport) => (transport, Peer(None)),
            Err(reason) => {
                notes.line(&format!("channel 0: open failed: {reason}"));
                notes.line("stdio forwarding failed");
                tell_closed(target, notes);
                return Err(Stop::Failed);
            }
        },
    };
    let mut link = agree(through, transport, peer, target, &of_host, deadline, take).await?;
    login::log_in(&mut link, settings, identities, &of_host).await?;
    Ok(link)
}

/// Opens a channel through a host to the next one.
async fn forward(link: &Link, settings: &Settings) -> Result<Box<dyn Transport>, String> {
    let (host, port) = (settings.host_name.as_str(), u32::from(settings.port));
    match link.handle.channel_open_direct_tcpip(host, port, "127.0.0.1", 65535).await {
        Ok(channel) => Ok(Box::new(channel.into_stream())),
        Err(error) => Err(link.seen.open_failure().unwrap_or_else(|| error.to_string())),
    }
}

/// Agrees on keys with a server.
async fn agree(
    through: Option<Link>,
    mut transport: Box<dyn Transport>,
    peer: Peer,
    target: &Target,
    notes: &Notes,
    deadline: Option<Instant>,
    take: &mut impl FnMut(),
) -> Result<Link, Stop> {
    let identification = format!("{IDENTIFICATION}\r\n");
    // A failure shows when the server's is read.
    let _ = transport.write_all(identification.as_bytes()).await;
    let _ = transport.flush().await;
    let preface = preface::read(&mut *transport, peer, notes, deadline).await?;
    let offer = match target.policy.offer(&preface.kexinit) {
        Ok(offer) => offer,
        Err(NoOffer::Declined(reason)) => return Err(Stop::Declined(reason)),
        Err(NoOffer::Refused(why)) => {
            notes.line(&format!("Unable to negotiate with {peer}: {why}"));
            return Err(Stop::Failed);
        }
    };
    let unknown = |name: &str| Stop::Declined(format!("algorithm {name}"));
    let preferred = offer.preferred().map_err(unknown)?;
    take();
    let settings = &target.settings;
    let config = Config {
        client_id: SshId::Standard(Cow::Borrowed(IDENTIFICATION)),
        limits: Limits::new(REKEY_BYTES, REKEY_BYTES, REKEY_TIME),
        channel_buffer_size: 16,
        preferred,
        keepalive_interval: settings.alive_interval,
        keepalive_max: settings.alive_count as usize,
        ..Config::default()
    };
    let seen = Arc::new(Seen::default());
    let policy = Arc::clone(&target.policy);
    let observer = Observer { policy, peer, notes: notes.clone(), seen: Arc::clone(&seen) };
    let (stream, closer) = wrap(transport, preface.replayed, identification.len());
    match connect_stream(Arc::new(config), stream, observer).await {
        Ok(handle) => Ok(Link { handle, seen, peer, _closer: closer, _through: through.map(Box::new) }),
        Err(Error::UnknownKey) => {
            notes.line("Host key verification failed.");
            Err(Stop::Failed)
        }
        Err(error) => {
            lost_before_start(notes, peer, &seen.lost().unwrap_or(Lost::Failed(error)));
            Err(Stop::Failed)
        }
    }
}
