//! Answers on their way out of one connection: bytes in memory by vectored writes, record batches by sendfile, see
//! `plain`; over TLS both through a bounded buffer, see `tls`. `queue` is what waits.

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

/// What is still to be sent, in order.
pub(crate) struct Outbox {
    queue: Queue,
    /// What TLS is given next; stays empty on a plain connection.
    staged: Staged,
}

impl Outbox {
    pub(crate) fn new(metrics: Arc<KafkaMetrics>) -> Self {
        Self { queue: Queue::new(metrics), staged: Staged::default() }
    }

    /// Bytes not yet taken by the socket.
    pub(crate) fn pending_bytes(&self) -> u64 {
        self.queue.pending_bytes()
    }

    /// Bytes that the socket has taken so far.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.queue.taken_bytes()
    }

    /// True if everything was handed to the kernel.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.items.is_empty() && self.staged.is_empty()
    }

    /// Since when the socket has taken nothing; `None` if there is nothing to take.
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

    /// True if an answer that is not sent holds memory that others may wait for.
    pub(crate) fn holds_room(&self) -> bool {
        self.queue.items.iter().any(|item| matches!(item, Item::End { room: Some(_), .. }))
    }

    /// Sends until the socket takes no more, the disk has to be waited for, the turn is over, or all is sent.
    ///
    /// Ready: everything was sent. Pending: the task is woken when it can go on.
    ///
    /// # Errors
    /// The socket's, or the disk's; the connection is of no use then.
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
