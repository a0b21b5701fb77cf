//! Answers over TLS: copied from memory and from files into one bounded buffer, and encrypted from there.
//!
//! The copy is cheap compared to the encryption, and lets an answer's header and its records leave in one TLS
//! record. As for sendfile, files are read only where they are in memory.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tailrace_env::time::Instant;

use bytes::Buf;
use tailrace_env::io::AsyncWrite as _;
use tailrace_env::task::NextTurn;
use tailrace_tls::TlsStream;

use super::queue::{Item, Queue, too_short};

/// Bytes staged at once: four TLS records. rustls holds as much again. An idle connection has neither buffer.
const STAGED_BYTES: usize = 64 * 1024;

/// Bytes encrypted before other tasks get a turn. This takes some tenths of a millisecond.
const TURN_BYTES: usize = 256 * 1024;

/// Bytes on their way into TLS.
#[derive(Default)]
pub(super) struct Staged {
    bytes: Vec<u8>,
    /// Number of bytes that TLS has taken.
    taken: usize,
    /// The answers that end within the buffer.
    ends: Vec<(i16, Instant)>,
    /// TLS may hold bytes that the socket has not taken yet.
    unflushed: bool,
    next_turn: NextTurn,
}

impl Staged {
    pub(super) fn is_empty(&self) -> bool {
        !self.unflushed && self.rest().is_empty()
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// Sends until the socket takes no more, the disk has to be waited for, the turn is over, or everything
    /// is sent.
    pub(super) fn poll_send(
        &mut self,
        queue: &mut Queue,
        stream: &mut TlsStream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = 0;
        loop {
            if bytes >= TURN_BYTES {
                self.next_turn.ask(cx);
                return Poll::Pending;
            }
            if self.rest().is_empty() {
                self.settle(queue);
                if queue.items.is_empty() {
                    return self.poll_flush(stream, cx);
                }
                ready!(self.poll_stage(queue, cx))?;
                continue;
            }
            let taken = ready!(Pin::new(&mut *stream).poll_write(cx, self.rest()))?;
            self.taken += taken;
            self.unflushed = true;
            queue.took(taken as u64);
            bytes += taken;
        }
    }

    fn poll_flush(&mut self, stream: &mut TlsStream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unflushed {
            ready!(Pin::new(stream).poll_flush(cx))?;
            *self = Self::default();
        }
        Poll::Ready(Ok(()))
    }

    /// Records the response times of the answers that TLS has taken completely.
    fn settle(&mut self, queue: &Queue) {
        for (api_key, started) in self.ends.drain(..) {
            queue.metrics.answered(api_key, started.elapsed());
        }
        self.bytes.clear();
        self.taken = 0;
    }

    /// Fills the buffer with the next bytes that are in memory. Pending if none are.
    fn poll_stage(&mut self, queue: &mut Queue, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.bytes.len() < STAGED_BYTES {
            let room = STAGED_BYTES - self.bytes.len();
            match queue.items.front_mut() {
                None => break,
                Some(Item::End { api_key, started, .. }) => {
                    self.ends.push((*api_key, *started));
                    queue.items.pop_front();
                }
                Some(Item::Bytes(bytes)) => {
                    let part = room.min(bytes.len());
                    self.bytes.extend_from_slice(&bytes[..part]);
                    bytes.advance(part);
                    if bytes.is_empty() {
                        queue.items.pop_front();
                    }
                }
                Some(Item::File { extent, .. }) if extent.bytes() == 0 => {
                    queue.items.pop_front();
                }
                Some(Item::File { .. }) => match queue.poll_warm(cx)? {
                    Poll::Ready(()) => self.stage_file(queue, room)?,
                    Poll::Pending if self.bytes.is_empty() => return Poll::Pending,
                    Poll::Pending => break,
                },
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Copies the next part of the first file, whose first `warm_bytes` are in memory.
    fn stage_file(&mut self, queue: &mut Queue, room: usize) -> io::Result<()> {
        let Some(Item::File { extent, warm_bytes }) = queue.items.front_mut() else { return Ok(()) };
        let wanted = extent.bytes().min(*warm_bytes).min(room as u64);
        let before = self.bytes.len();
        self.bytes.resize(before + usize::try_from(wanted).unwrap_or(room), 0);
        let read = extent.read_at(&mut self.bytes[before..], 0)?;
        self.bytes.truncate(before + read);
        if read == 0 {
            return Err(too_short(extent));
        }
        extent.advance(read as u64);
        *warm_bytes -= read as u64;
        queue.metrics.bytes_fetched.inc_by(read as u64);
        Ok(())
    }
}
