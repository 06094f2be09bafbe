//! The transport of a connection, between the socket and russh.
//!
//! It can be taken away from russh's task at any time ([`Closer`]), gives back what was read
//! before russh was asked, leaves out the identification that was already sent, and reads into a
//! buffer: russh reads the length of each packet by itself.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What carries a connection: a TCP connection, or a channel of another connection.
pub(super) trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

/// The end that russh holds.
pub(super) struct Stream(Arc<Mutex<Shared>>);

/// Closes the transport when it is dropped.
pub(super) struct Closer(Arc<Mutex<Shared>>);

struct Shared {
    transport: Option<Box<dyn Transport>>,
    buffer: Box<[u8]>,
    read: std::ops::Range<usize>,
    /// Bytes that russh writes and the server has got already.
    already_sent: usize,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

const BUFFER: usize = 4096;

/// Wraps a transport. `replayed` was read from it, and is read again first.
pub(super) fn wrap(
    transport: Box<dyn Transport>,
    replayed: Vec<u8>,
    already_sent: usize,
) -> (Stream, Closer) {
    let read = 0..replayed.len();
    let mut buffer = replayed;
    buffer.resize(buffer.len().max(BUFFER), 0);
    let shared = Arc::new(Mutex::new(Shared {
        transport: Some(transport),
        buffer: buffer.into_boxed_slice(),
        read,
        already_sent,
        reader: None,
        writer: None,
    }));
    (Stream(Arc::clone(&shared)), Closer(shared))
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Closer {
    fn drop(&mut self) {
        let mut shared = lock(&self.0);
        let transport = shared.transport.take();
        let wakers = [shared.reader.take(), shared.writer.take()];
        drop(shared);
        drop(transport);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}

fn closed() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut guard = lock(&self.0);
        let shared = &mut *guard;
        let Some(transport) = &mut shared.transport else {
            return Poll::Ready(Err(closed()));
        };
        if shared.read.is_empty() {
            shared.reader = Some(context.waker().clone());
            if into.remaining() >= BUFFER {
                return Pin::new(transport).poll_read(context, into);
            }
            if shared.buffer.len() > BUFFER {
                shared.buffer = vec![0; BUFFER].into_boxed_slice();
            }
            let mut filled = ReadBuf::new(&mut shared.buffer);
            ready!(Pin::new(transport).poll_read(context, &mut filled))?;
            shared.read = 0..filled.filled().len();
        }
        let length = shared.read.len().min(into.remaining());
        if let Some(bytes) = shared.buffer.get(shared.read.start..shared.read.start + length) {
            into.put_slice(bytes);
        }
        shared.read.start += length;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut guard = lock(&self.0);
        let shared = &mut *guard;
        let Some(transport) = &mut shared.transport else {
            return Poll::Ready(Err(closed()));
        };
        if shared.already_sent > 0 {
            let length = shared.already_sent.min(bytes.len());
            shared.already_sent -= length;
            return Poll::Ready(Ok(length));
        }
        shared.writer = Some(context.waker().clone());
        Pin::new(transport).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut lock(&self.0).transport {
            Some(transport) => Pin::new(transport).poll_flush(context),
            None => Poll::Ready(Err(closed())),
        }
    }

    /// Never fails: russh would keep the reason of the loss to itself.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut lock(&self.0).transport {
            Some(transport) => {
                let _ = ready!(Pin::new(transport).poll_shutdown(context));
                Poll::Ready(Ok(()))
            }
            None => Poll::Ready(Ok(())),
        }
    }
}
