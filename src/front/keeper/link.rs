//! A connection between a keeper and a front end, with its messages.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::engine::message_link::MessageLink;

/// Sends a message.
pub(super) fn send<T: Serialize>(link: &mut MessageLink, message: &T) {
    match postcard::to_allocvec(message) {
        Ok(bytes) => link.send(&bytes),
        // What cannot be sent cannot be left out either.
        Err(_) => link.end(),
    }
}

/// Takes the messages that have arrived. A message that is none ends the connection.
pub(super) fn receive<T: DeserializeOwned>(link: &mut MessageLink) -> Vec<T> {
    let mut messages = Vec::new();
    link.receive(&mut messages);
    let mut all = Vec::with_capacity(messages.len());
    for message in messages {
        match postcard::from_bytes(&message) {
            Ok(message) => all.push(message),
            Err(_) => {
                link.end();
                break;
            }
        }
    }
    all
}
