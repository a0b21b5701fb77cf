//! Outgoing answers of one connection. On a plain socket, bytes in memory go out by vectored writes and
//! record batches by sendfile (see `plain`). Over TLS, both pass through a bounded buffer (see `tls`).
//! `queue` holds what waits.

mod plain;
mod queue;
mod tls;

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use tailrace_env::time::Instant;

use crate::metrics::KafkaMetrics;
use crate::transport::Transport;

pub(crate) use queue::ReplyPart;
use queue::{Item, Queue};
use tls::Staged;

/// Bytes still to be sent, in order.
pub(crate) struct Outbox {
    queue: Queue,
    /// The next bytes for TLS. Stays empty on a plain connection.
    staged: Staged,
}

impl Outbox {
    pub(crate) fn new(metrics: Arc<KafkaMetrics>) -> Self {
        Self { queue: Queue::new(metrics), staged: Staged::default() }
    }

    /// Bytes that the socket has not taken yet.
    pub(crate) fn pending_bytes(&self) -> u64 {
        self.queue.pending_bytes()
    }

    /// Bytes that the socket has taken so far.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.queue.taken_bytes()
    }

    /// Reports whether everything has been handed to the kernel.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.items.is_empty() && self.staged.is_empty()
    }

    /// Returns the time at which the socket last took something. `None` if nothing is left to send.
    pub(crate) fn stalled_since(&self) -> Option<Instant> {
        (!self.is_empty()).then_some(self.queue.last_progress)
    }

    /// Queues one whole answer.
    pub(crate) fn push(&mut self, api_key: i16, started: Instant, parts: Vec<ReplyPart>) {
        if self.is_empty() {
            self.queue.last_progress = Instant::now();
        }
        self.queue.push(api_key, started, parts);
    }

    /// Reports whether an unsent answer holds memory that others may wait for.
    pub(crate) fn holds_room(&self) -> bool {
        self.queue.items.iter().any(|item| matches!(item, Item::End { room: Some(_), .. }))
    }

    /// Sends until the socket takes no more, the disk has to be waited for, the turn is over, or everything
    /// is sent.
    ///
    /// Ready once everything is sent. While pending, the task is woken when it can continue.
    ///
    /// # Errors
    /// An error of the socket or the disk. The connection is unusable after it.
    pub(crate) fn poll_send(
        &mut self,
        transport: &mut Transport,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        match transport {
            Transport::Plain(stream) => plain::poll_send(&mut self.queue, stream, cx),
            Transport::Tls(stream) => self.staged.poll_send(&mut self.queue, stream, cx),
        }
    }
}
