use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use libi_core::dist::OsBytes;
use libi_launch::ssh_client::{ClientAnswer, ClientRequest, ClientStart, encode};
use nix::sys::socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::*;

const LONG: Duration = Duration::from_secs(20);

fn pair() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap()
}

/// The launching process's end of a start, as it is handed to the client.
fn hand_over(client: &OwnedFd, name: &str) -> MessageSocket {
    let (ours, its) = pair();
    let null = std::fs::File::open("/dev/null").unwrap();
    let program = OsBytes::try_from(name).unwrap();
    let message = encode(&ClientStart { program, args: Vec::new(), fast: false }).unwrap();
    let fds = [null.as_raw_fd(), null.as_raw_fd(), null.as_raw_fd(), its.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&fds)];
    let slices = [IoSlice::new(&message)];
    sendmsg::<()>(client.as_raw_fd(), &slices, &rights, MsgFlags::empty(), None).unwrap();
    MessageSocket::new(ours).unwrap()
}

async fn answer(start: &MessageSocket) -> Option<ClientAnswer> {
    timeout(LONG, start.next()).await.expect("an answer in time").ok().flatten().map(|(answer, _)| answer)
}

/// Tells when it is dropped.
struct Guard(Option<oneshot::Sender<()>>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.take().map(|sender| sender.send(()));
    }
}

#[tokio::test]
async fn a_start_is_received_taken_and_ended_and_another_is_declined() {
    let (ours, its) = pair();
    let socket = MessageSocket::new(its).unwrap();
    let served = tokio::spawn(serve(socket, |start, _, taken| async move {
        if start.program.as_bytes() == b"ssh" {
            taken.tell();
            return Outcome::Ended(7);
        }
        Outcome::Declined { why: "it is another".to_owned(), of_all: true }
    }));
    let (taken, declined) = (hand_over(&ours, "ssh"), hand_over(&ours, "another"));
    for expected in [ClientAnswer::Received, ClientAnswer::Taken, ClientAnswer::Ended(7)] {
        assert_eq!(answer(&taken).await, Some(expected));
    }
    assert_eq!(answer(&taken).await, None);
    assert_eq!(answer(&declined).await, Some(ClientAnswer::Received));
    let why = ClientAnswer::Declined { why: "it is another".to_owned(), of_all: true };
    assert_eq!(answer(&declined).await, Some(why));
    drop(ours);
    timeout(LONG, served).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_start_ends_with_its_socket_and_those_that_are_not_kept_with_the_client() {
    let (ours, its) = pair();
    let finish = Arc::new(Notify::new());
    let (sender, mut dropped) = tokio::sync::mpsc::unbounded_channel();
    let (may_finish, senders) = (Arc::clone(&finish), sender);
    let served = tokio::spawn(serve(MessageSocket::new(its).unwrap(), move |start, _, taken| {
        let (may_finish, senders) = (Arc::clone(&may_finish), senders.clone());
        async move {
            let (guard, gone) = oneshot::channel();
            let _guard = Guard(Some(guard));
            let _ = senders.send((start.program.to_string(), gone));
            taken.tell();
            may_finish.notified().await;
            Outcome::Ended(0)
        }
    }));
    let starts = ["closed", "kept", "open"].map(|name| hand_over(&ours, name));
    let mut gone = std::collections::BTreeMap::new();
    for _ in 0..3 {
        let (name, receiver) = timeout(LONG, dropped.recv()).await.unwrap().unwrap();
        gone.insert(name, receiver);
    }
    for start in &starts {
        assert_eq!(answer(start).await, Some(ClientAnswer::Received));
        assert_eq!(answer(start).await, Some(ClientAnswer::Taken));
    }
    let [closed, kept, open] = starts;
    drop(closed);
    timeout(LONG, gone.remove("closed").unwrap()).await.unwrap().unwrap();
    kept.send(&ClientRequest::Keep).unwrap();
    drop((kept, ours));
    timeout(LONG, gone.remove("open").unwrap()).await.unwrap().unwrap();
    assert_eq!(answer(&open).await, None, "it has no other end");
    let mut kept = gone.remove("kept").unwrap();
    assert!(kept.try_recv().is_err() && !served.is_finished(), "the connection to keep goes on");
    finish.notify_one();
    timeout(LONG, kept).await.unwrap().unwrap();
    timeout(LONG, served).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn what_is_no_start_ends_the_client() {
    let (ours, its) = pair();
    let socket = MessageSocket::new(its).unwrap();
    let served = tokio::spawn(serve(socket, |_, _, _| async { Outcome::Ended(0) }));
    nix::sys::socket::send(ours.as_raw_fd(), b"\xff\xff\xff", MsgFlags::empty()).unwrap();
    timeout(LONG, served).await.unwrap().unwrap().unwrap();
}
