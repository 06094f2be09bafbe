//! A server in the process of the test: russh's, with commands of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use russh::keys::key::safe_rng;
use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, PrivateKey, PublicKey};
use russh::server::{self, Auth, Msg, Session};
use russh::{Channel, ChannelId, Error, MethodKind, MethodSet, Sig};
use tokio::net::TcpListener;

use super::super::*;
use super::lab::{Directory, Run, accepting, settings_for};

pub(super) struct Server {
    port: u16,
    host_key: PublicKey,
    directory: Directory,
    counts: Arc<Counts>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Counts {
    logins: AtomicU64,
    flooded: AtomicU64,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(super) async fn start() -> Server {
        let key = || PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).unwrap();
        let (host_key, user_key) = (key(), key());
        let directory = Directory::new();
        let path = directory.0.join("key");
        fs::write(&path, user_key.to_openssh(LineEnding::LF).unwrap()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let public = host_key.public_key().clone();
        let config = Arc::new(server::Config {
            keys: vec![host_key],
            methods: MethodSet::from(&[MethodKind::PublicKey][..]),
            auth_rejection_time: Duration::ZERO,
            auth_rejection_time_initial: Some(Duration::ZERO),
            ..server::Config::default()
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let counts = Arc::new(Counts::default());
        let (of_task, user) = (Arc::clone(&counts), user_key.public_key().clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (user, counts) = (user.clone(), Arc::clone(&of_task));
                let client = Client { user, counts, channel: None, vanishes: false };
                if let Ok(session) = server::run_stream(Arc::clone(&config), stream, client).await {
                    tokio::spawn(session);
                }
            }
        });
        Server { port, host_key: public, directory, counts, task }
    }

    pub(super) fn settings(&self) -> Settings {
        let mut settings = settings_for(self.port);
        settings.login.identities = vec![self.directory.0.join("key")];
        settings
    }

    pub(super) fn policy(&self) -> Arc<dyn Policy> {
        accepting(Some(self.host_key.clone()))
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) async fn run(&self, command: &str) -> Run {
        Run::simple(self.settings(), self.policy(), command).await
    }

    pub(super) fn logins(&self) -> u64 {
        self.counts.logins.load(Ordering::Relaxed)
    }

    /// How much was sent to clients that do not read.
    pub(super) fn flooded(&self) -> u64 {
        self.counts.flooded.load(Ordering::Relaxed)
    }
}

struct Client {
    user: PublicKey,
    counts: Arc<Counts>,
    channel: Option<Channel<Msg>>,
    /// Once the input has ended.
    vanishes: bool,
}

impl Client {
    fn judge(&self, user: &str, key: &PublicKey) -> Auth {
        match user == "user" && key.key_data() == self.user.key_data() {
            true => Auth::Accept,
            false => Auth::reject(),
        }
    }
}

impl server::Handler for Client {
    type Error = Error;

    async fn auth_publickey_offered(
        &mut self,
        user: &str,
        key: server::PublicKeyOffer<'_>,
    ) -> Result<Auth, Error> {
        Ok(self.judge(user, key.public_key))
    }

    async fn auth_publickey(
        &mut self,
        user: &str,
        key: server::VerifiedPublicKey<'_>,
    ) -> Result<Auth, Error> {
        self.counts.logins.fetch_add(1, Ordering::Relaxed);
        Ok(self.judge(user, key.public_key))
    }

    async fn channel_eof(&mut self, _: ChannelId, _: &mut Session) -> Result<(), Error> {
        match self.vanishes {
            true => Err(Error::Disconnect),
            false => Ok(()),
        }
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: server::ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Error> {
        self.channel = Some(channel);
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        id: ChannelId,
        command: &[u8],
        session: &mut Session,
    ) -> Result<(), Error> {
        let Some(mut channel) = self.channel.take() else {
            return session.channel_failure(id);
        };
        if command == b"refused" {
            return session.channel_failure(id);
        }
        session.channel_success(id)?;
        self.vanishes = command == b"vanish";
        if command == b"hang" {
            // The whole session: it answers nothing.
            std::future::pending::<()>().await;
        }
        let (handle, counts, command) = (session.handle(), Arc::clone(&self.counts), command.to_vec());
        tokio::spawn(async move {
            match &*command {
                b"say" => {
                    channel.data_bytes(&b"out"[..]).await?;
                    channel.extended_data_bytes(1, &b"err"[..]).await?;
                    channel.exit_status(7).await?;
                }
                b"killed" => {
                    let _ =
                        handle.exit_signal_request(id, Sig::SEGV, false, String::new(), String::new()).await;
                }
                b"cat" => {
                    loop {
                        match channel.wait().await {
                            Some(russh::ChannelMsg::Data { data }) => channel.data_bytes(data).await?,
                            Some(russh::ChannelMsg::Eof) | None => break,
                            Some(_) => {}
                        }
                    }
                    channel.exit_status(0).await?;
                }
                b"flood" => loop {
                    channel.data_bytes(vec![0; 32 * 1024]).await?;
                    counts.flooded.fetch_add(32 * 1024, Ordering::Relaxed);
                },
                _ => return channel.data_bytes(&b"part"[..]).await,
            }
            channel.eof().await?;
            channel.close().await
        });
        Ok(())
    }
}
