//! The same answers over TLS: copied into one bounded buffer, from memory and from files, and encrypted from there.
//!
//! The copy is small beside the encryption, and it lets an answer's header and its records leave in one TLS record.
//! Files are read only where they are in memory, as for sendfile.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Buf;
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::{Item, Outbox, too_short};

/// Bytes staged at once: four TLS records. rustls holds as much again. An idle connection has neither.
const STAGED_BYTES: usize = 64 * 1024;

/// Bytes on their way into TLS.
#[derive(Default)]
pub(super) struct Staged {
    bytes: Vec<u8>,
    /// So many of them are in TLS's hands.
    taken: usize,
    /// The answers that end within them.
    ends: Vec<(i16, Instant)>,
    /// TLS may hold what the socket has not taken.
    unflushed: bool,
}

impl Staged {
    pub(super) fn is_empty(&self) -> bool {
        !self.unflushed && self.rest().is_empty()
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }
}

impl Outbox {
    pub(super) fn poll_send_tls(
        &mut self,
        stream: &mut TlsStream<TcpStream>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.staged.rest().is_empty() {
                self.settle_staged();
                if self.items.is_empty() {
                    return self.poll_flush_tls(stream, cx);
                }
                ready!(self.poll_stage(cx))?;
                continue;
            }
            let taken = ready!(Pin::new(&mut *stream).poll_write(cx, self.staged.rest()))?;
            self.staged.taken += taken;
            self.staged.unflushed = true;
            self.took(taken as u64);
        }
    }

    fn poll_flush_tls(
        &mut self,
        stream: &mut TlsStream<TcpStream>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if self.staged.unflushed {
            ready!(Pin::new(stream).poll_flush(cx))?;
            self.staged = Staged::default();
        }
        Poll::Ready(Ok(()))
    }

    /// Times the answers that TLS has taken whole.
    fn settle_staged(&mut self) {
        for (api_key, started) in self.staged.ends.drain(..) {
            self.metrics.answered(api_key, started.elapsed());
        }
        self.staged.bytes.clear();
        self.staged.taken = 0;
    }

    /// Fills the buffer with what comes next, as far as it is in memory. Pending: nothing is.
    fn poll_stage(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.staged.bytes.len() < STAGED_BYTES {
            let room = STAGED_BYTES - self.staged.bytes.len();
            match self.items.front_mut() {
                None => break,
                Some(Item::End { api_key, started, .. }) => {
                    self.staged.ends.push((*api_key, *started));
                    self.items.pop_front();
                }
                Some(Item::Bytes(bytes)) => {
                    let part = room.min(bytes.len());
                    self.staged.bytes.extend_from_slice(&bytes[..part]);
                    bytes.advance(part);
                    if bytes.is_empty() {
                        self.items.pop_front();
                    }
                }
                Some(Item::File { extent, .. }) if extent.bytes() == 0 => {
                    self.items.pop_front();
                }
                Some(Item::File { .. }) => match self.poll_warm(cx)? {
                    Poll::Ready(()) => self.stage_file(room)?,
                    Poll::Pending if self.staged.bytes.is_empty() => return Poll::Pending,
                    Poll::Pending => break,
                },
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Copies the next part of the file in front, whose first `warm_bytes` are in memory.
    fn stage_file(&mut self, room: usize) -> io::Result<()> {
        let Some(Item::File { extent, warm_bytes }) = self.items.front_mut() else { return Ok(()) };
        let wanted = extent.bytes().min(*warm_bytes).min(room as u64);
        let before = self.staged.bytes.len();
        self.staged.bytes.resize(before + usize::try_from(wanted).unwrap_or(room), 0);
        let read = extent.read_at(&mut self.staged.bytes[before..], 0)?;
        self.staged.bytes.truncate(before + read);
        if read == 0 {
            return Err(too_short(extent));
        }
        extent.advance(read as u64);
        *warm_bytes -= read as u64;
        self.metrics.bytes_fetched.inc_by(read as u64);
        Ok(())
    }
}
