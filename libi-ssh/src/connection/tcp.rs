//! Connects to a host as `ssh` does: each of its addresses in turn, for `ConnectionAttempts`
//! times, within `ConnectTimeout` altogether.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::{Duration, Instant, sleep, timeout_at};

use super::Stop;
use super::words::{Notes, of_system};
use crate::settings::{AddressFamily, Settings};

pub(super) struct Connected {
    pub(super) stream: TcpStream,
    pub(super) address: SocketAddr,
}

/// Connects until `deadline`.
pub(super) async fn connect(
    settings: &Settings,
    notes: &Notes,
    deadline: Option<Instant>,
) -> Result<Connected, Stop> {
    let host = &settings.host_name;
    let addresses = resolve(host, settings.port, settings.family).await.map_err(|why| {
        notes.line(&format!("ssh: Could not resolve hostname {host}: {why}"));
        Stop::Failed
    })?;
    let from = match &settings.bind_address {
        None => Vec::new(),
        Some(local) => resolve(local, 0, settings.family).await.map_err(|why| {
            notes.line(&format!("getaddrinfo: {local}: {why}"));
            Stop::Failed
        })?,
    };
    let mut last = io::Error::from(io::ErrorKind::TimedOut);
    for attempt in 0..settings.connection_attempts.max(1) {
        if attempt > 0 {
            sleep(Duration::from_secs(1)).await;
        }
        for &address in &addresses {
            let local = from.iter().find(|local| local.is_ipv4() == address.is_ipv4());
            if !from.is_empty() && local.is_none() {
                continue;
            }
            match connect_to(address, local.copied(), settings.tcp_keep_alive, deadline).await {
                Ok(stream) => return Ok(Connected { stream, address }),
                Err(error) => last = error,
            }
        }
    }
    let port = settings.port;
    notes.line(&format!("ssh: connect to host {host} port {port}: {}", of_system(&last)));
    Err(Stop::Failed)
}

async fn connect_to(
    address: SocketAddr,
    local: Option<SocketAddr>,
    keep_alive: bool,
    deadline: Option<Instant>,
) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(local) = local {
        socket.bind(local)?;
    }
    socket.set_keepalive(keep_alive)?;
    let connecting = socket.connect(address);
    let stream = match deadline {
        None => connecting.await?,
        Some(deadline) => timeout_at(deadline, connecting).await.map_err(io::Error::from)??,
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Returns at least one address, or the text of the resolver.
async fn resolve(host: &str, port: u16, family: AddressFamily) -> Result<Vec<SocketAddr>, String> {
    let fits = |address: &SocketAddr| match family {
        AddressFamily::Any => true,
        AddressFamily::Inet => address.is_ipv4(),
        AddressFamily::Inet6 => address.is_ipv6(),
    };
    if let Ok(address) = host.parse::<IpAddr>() {
        // No thread is needed for these.
        let address = SocketAddr::new(address, port);
        return match fits(&address) {
            true => Ok(vec![address]),
            false => Err("Address family for hostname not supported".into()),
        };
    }
    let found = lookup_host((host, port)).await.map_err(|error| {
        let text = error.to_string();
        match text.strip_prefix("failed to lookup address information: ") {
            Some(reason) => reason.to_owned(),
            None => of_system(&error),
        }
    })?;
    let addresses: Vec<_> = found.filter(fits).collect();
    match addresses.is_empty() {
        true => Err("No address associated with hostname".into()),
        false => Ok(addresses),
    }
}
