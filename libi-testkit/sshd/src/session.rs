//! Decides what a client may do: log in with the key, open sessions, and run one command in each.
//!
//! A connection is one task; dropping its [`Session`] ends the tasks of its commands, and these
//! kill their process groups ([`command`]).

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::time::Duration;

use russh::keys::{Algorithm, PrivateKey};
use russh::server::{
    Auth, ChannelOpenHandle, Config, Handler, Msg, PublicKeyOffer, Session as Connection, VerifiedPublicKey,
};
use russh::{Channel, ChannelId, MethodKind, MethodSet, Preferred, SshId};
use tokio::task::JoinSet;

use crate::{Shared, command, pause};

/// How long the server takes for what servers take long for.
pub(crate) struct Delays {
    pub(crate) connect: Duration,
    pub(crate) login: Duration,
    pub(crate) command: Duration,
}

/// One algorithm of each kind, the cheapest that clients have enabled by default.
pub(crate) fn config(host_key: PrivateKey, cipher: russh::cipher::Name) -> Config {
    Config {
        server_id: SshId::Standard(Cow::Borrowed("SSH-2.0-libi_test_sshd")),
        methods: MethodSet::from(&[MethodKind::PublicKey][..]),
        auth_rejection_time: Duration::ZERO,
        preferred: Preferred {
            kex: Cow::Owned(vec![
                russh::kex::CURVE25519,
                russh::kex::CURVE25519_PRE_RFC_8731,
                russh::kex::EXTENSION_SUPPORT_AS_SERVER,
                russh::kex::EXTENSION_OPENSSH_STRICT_KEX_AS_SERVER,
            ]),
            key: Cow::Owned(vec![host_key.algorithm(), Algorithm::Ed25519]),
            cipher: Cow::Owned(vec![cipher]),
            mac: Cow::Owned(vec![russh::mac::HMAC_SHA256_ETM]),
            compression: Cow::Owned(vec![russh::compression::NONE]),
            ..Preferred::default()
        },
        keys: vec![host_key],
        inactivity_timeout: None,
        nodelay: true,
        ..Config::default()
    }
}

/// A connection.
pub(crate) struct Session {
    shared: Arc<Shared>,
    client: SocketAddr,
    server: SocketAddr,
    /// Those that have no command yet.
    channels: HashMap<ChannelId, Channel<Msg>>,
    commands: JoinSet<()>,
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>, client: SocketAddr, server: SocketAddr) -> Self {
        Self { shared, client, server, channels: HashMap::new(), commands: JoinSet::new() }
    }

    fn admits(&self, key: &russh::keys::PublicKey) -> Auth {
        match &self.shared.user_key {
            Some(users) if users.key_data() != key.key_data() => Auth::reject(),
            _ => Auth::Accept,
        }
    }

    /// The variables that sshd sets, as far as they say something.
    fn variables(&self) -> [(&'static str, String); 2] {
        let Self { client, server, .. } = self;
        let connection = format!("{} {} {} {}", client.ip(), client.port(), server.ip(), server.port());
        let old = format!("{} {} {}", client.ip(), client.port(), server.port());
        [("SSH_CONNECTION", connection), ("SSH_CLIENT", old)]
    }
}

impl Handler for Session {
    type Error = russh::Error;

    async fn auth_publickey_offered(
        &mut self,
        _: &str,
        offer: PublicKeyOffer<'_>,
    ) -> Result<Auth, russh::Error> {
        Ok(self.admits(offer.public_key))
    }

    async fn auth_publickey(&mut self, _: &str, key: VerifiedPublicKey<'_>) -> Result<Auth, russh::Error> {
        pause(self.shared.delays.login).await;
        Ok(self.admits(key.public_key))
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Connection,
    ) -> Result<(), russh::Error> {
        self.channels.insert(channel.id(), channel);
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        id: ChannelId,
        command: &[u8],
        connection: &mut Connection,
    ) -> Result<(), russh::Error> {
        let Some(channel) = self.channels.remove(&id) else { return connection.channel_failure(id) };
        connection.channel_success(id)?;
        let (handle, delay) = (connection.handle(), self.shared.delays.command);
        let (command, variables) = (OsString::from_vec(command.to_vec()), self.variables());
        self.commands.spawn(async move {
            pause(delay).await;
            command::run(&command, variables, channel, &handle).await;
        });
        Ok(())
    }
}
