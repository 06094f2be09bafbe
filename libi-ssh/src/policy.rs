//! Decides which servers are accepted for a host: what its settings, the known hosts and the
//! algorithms come to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use russh::keys::PublicKeyOrCertificate;

use crate::algorithms::{self, Agreed};
use crate::connection::{Judgement, NoOffer, Offer, Policy};
use crate::known_hosts::{
    Asked, HOST_KEY_FAILED, KnownHosts, Level, Message, Offered, judge, learn, order_of_host_key_algorithms,
    stored_name,
};
use crate::settings::{Algorithms, Settings};

/// See the [module](self).
pub(crate) struct HostPolicy {
    pub(crate) settings: Arc<Settings>,
    pub(crate) known: Arc<KnownHosts>,
    /// Whether a weaker connection than that of `ssh` will do.
    pub(crate) fast: bool,
}

impl HostPolicy {
    /// The algorithms of host keys, in the order in which `ssh` offers them.
    fn host_keys(&self) -> Vec<String> {
        let Settings { host_name, port, trust, algorithms, .. } = &*self.settings;
        let name = trust.alias.clone().unwrap_or_else(|| stored_name(host_name, *port));
        let known = self.known.lookup(trust, &name);
        order_of_host_key_algorithms(&algorithms.host_keys, algorithms.prefers_known_keys, &known)
    }

    fn is_printed(&self, message: &Message) -> bool {
        self.settings.prints && (message.level != Level::Info || self.settings.prints_notices)
    }
}

impl Policy for HostPolicy {
    fn offer(&self, kexinit: &[u8]) -> Result<Offer, NoOffer> {
        let server = algorithms::Offer::parse(kexinit)
            .map_err(|_| NoOffer::Declined("the server's list of algorithms is not understood".to_owned()))?;
        let ours = Algorithms { host_keys: self.host_keys(), ..self.settings.algorithms.clone() };
        let agreed =
            algorithms::agree(&ours, &server, self.fast).map_err(|disagreement| {
                match disagreement.words() {
                    Some(words) => NoOffer::Refused(words),
                    None => NoOffer::Declined(disagreement.to_string()),
                }
            })?;
        let Agreed { kex, host_key, cipher_to_server, cipher_to_client, mac_to_server, mac_to_client } =
            agreed;
        if cipher_to_server != cipher_to_client || mac_to_server != mac_to_client {
            return Err(NoOffer::Declined("the server wants other ciphers for each direction".to_owned()));
        }
        Ok(Offer { kex, host_key, cipher: cipher_to_server, mac: mac_to_server })
    }

    fn judge(&self, address: Option<SocketAddr>, key: &PublicKeyOrCertificate) -> Judgement {
        let offered = match key {
            PublicKeyOrCertificate::PublicKey { key, .. } => Offered::Key(key),
            PublicKeyOrCertificate::Certificate(certificate) => Offered::Certificate(certificate),
        };
        let Settings { host_name, port, trust, .. } = &*self.settings;
        let address = address.map(|address| address.ip());
        let asked = Asked { host: host_name, port: *port, address, offered, now: SystemTime::now() };
        let mut judged = judge(&self.known, trust, &asked);
        if let Some(learned) = judged.learned {
            let file = trust.user_files.first();
            let stored = file.map(|file| learn(file, &learned.names, &learned.blob, trust.hashes));
            judged.messages.push(if matches!(stored, Some(Ok(()))) { learned.added } else { learned.failed });
        }
        // The last line of a refusal is printed by the connection.
        let says = |message: &&Message| self.is_printed(message) && message.text != HOST_KEY_FAILED;
        let lines = judged.messages.iter().filter(says).map(|message| message.text.clone()).collect();
        Judgement { is_trusted: judged.accepted, lines }
    }
}
