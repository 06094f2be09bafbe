//! What happens on a connection without being asked for: the host key, the banner, the loss.

use std::sync::{Arc, Mutex, PoisonError};

use russh::client::{DisconnectReason, Handler, Session};
use russh::keys::PublicKeyOrCertificate;
use russh::{ChannelId, ChannelOpenFailure, Error};

use super::Policy;
use super::words::{Lost, Notes, Peer};

/// What russh tells about a connection.
pub(super) struct Observer {
    pub(super) policy: Arc<dyn Policy>,
    pub(super) peer: Peer,
    pub(super) notes: Notes,
    pub(super) seen: Arc<Seen>,
}

/// What has been observed.
#[derive(Default)]
pub(super) struct Seen {
    lost: Mutex<Option<Lost>>,
    open_failure: Mutex<Option<String>>,
}

impl Seen {
    pub(super) fn lost(&self) -> Option<Lost> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What the server said about a channel that it did not open.
    pub(super) fn open_failure(&self) -> Option<String> {
        self.open_failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Bounds what is kept of a text of the server.
const TEXT: usize = 400;

impl Handler for Observer {
    type Error = Error;

    async fn check_server_key(&mut self, key: &PublicKeyOrCertificate) -> Result<bool, Error> {
        let judgement = self.policy.judge(self.peer.0, key);
        for line in &judgement.lines {
            self.notes.line(line);
        }
        Ok(judgement.is_trusted)
    }

    async fn auth_banner(&mut self, banner: &str, _: &mut Session) -> Result<(), Error> {
        self.notes.banner(banner);
        Ok(())
    }

    async fn channel_open_failure(
        &mut self,
        _: ChannelId,
        reason: ChannelOpenFailure,
        description: &str,
        _: &str,
        _: &mut Session,
    ) -> Result<(), Error> {
        let reason = match reason {
            ChannelOpenFailure::AdministrativelyProhibited => "administratively prohibited",
            ChannelOpenFailure::ConnectFailed => "connect failed",
            ChannelOpenFailure::UnknownChannelType => "unknown channel type",
            ChannelOpenFailure::ResourceShortage => "resource shortage",
            ChannelOpenFailure::Other { .. } => "unknown reason",
        };
        let text: String = match description.is_empty() {
            true => reason.to_owned(),
            false => format!("{reason}: {description}").chars().take(TEXT).collect(),
        };
        *self.seen.open_failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        Ok(())
    }

    async fn disconnected(&mut self, reason: DisconnectReason<Error>) -> Result<(), Error> {
        let lost = match reason {
            DisconnectReason::ReceivedDisconnect(info) => Lost::Disconnected {
                code: info.reason_code as u32,
                message: info.message.chars().take(TEXT).collect(),
            },
            DisconnectReason::Error(error) => Lost::Failed(error),
        };
        *self.seen.lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(lost);
        Ok(())
    }
}
