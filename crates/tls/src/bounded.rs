//! A connection of which only so much is read before its handshake is complete.
//!
//! A stranger decides how long its messages are, and into how many records it cuts them. rustls keeps what it
//! cannot use yet, up to 64 KiB: too much for each of ten thousand connections.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tailrace_env::io::{AsyncRead, AsyncWrite, ReadBuf};
use tailrace_env::net::Stream;

/// Most bytes of a handshake, as they arrive. Clients send some 500, those with post-quantum keys 2 KiB, and
/// those that resume a session as much again.
const HANDSHAKE_BYTES_MAX: usize = 16 * 1024;

/// The same where clients show certificates: a chain has some KiB.
const WITH_CERTIFICATES_BYTES_MAX: usize = 64 * 1024;

/// Largest record of TLS. One that the client sends right behind its handshake may be read with it.
const RECORD_BYTES_MAX: usize = 5 + 16 * 1024 + 256;

/// Bytes that are read at once.
const COPIED_BYTES: usize = 4096;

/// The client has sent more than a handshake has.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the handshake is too long")]
pub(crate) struct TooLong;

/// The connection.
#[derive(Debug)]
pub struct Bounded {
    stream: Stream,
    /// Bytes that may still be read. `None` once the handshake is complete.
    left: Option<usize>,
}

impl Bounded {
    /// Bounds the handshake of a client.
    pub(crate) fn of_client(stream: Stream, shows_certificate: bool) -> Self {
        let handshake = if shows_certificate { WITH_CERTIFICATES_BYTES_MAX } else { HANDSHAKE_BYTES_MAX };
        Self { stream, left: Some(handshake + RECORD_BYTES_MAX) }
    }

    /// The handshake is bounded elsewhere.
    pub(crate) fn elsewhere(stream: Stream) -> Self {
        Self { stream, left: None }
    }

    /// The handshake is complete.
    pub(crate) fn open(&mut self) {
        self.left = None;
    }
}

impl AsyncRead for Bounded {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(left) = self.left else { return Pin::new(&mut self.stream).poll_read(cx, buffer) };
        if left == 0 {
            return Poll::Ready(Err(io::Error::other(TooLong)));
        }
        // By way of a copy: only safe code, and only before the handshake is complete.
        let mut part = [0; COPIED_BYTES];
        let mut part = ReadBuf::new(&mut part[..left.min(buffer.remaining()).min(COPIED_BYTES)]);
        let polled = Pin::new(&mut self.stream).poll_read(cx, &mut part);
        buffer.put_slice(part.filled());
        self.left = Some(left - part.filled().len());
        polled
    }
}

impl AsyncWrite for Bounded {
    #[inline]
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    #[inline]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
