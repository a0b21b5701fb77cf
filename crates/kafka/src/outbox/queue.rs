//! The unsent parts of a connection's answers, in order, independent of how they are sent.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tailrace_env::task;
use tailrace_env::time::Instant;

use bytes::Bytes;
use tailrace_env::task::JoinHandle;
use tailrace_log::Extent;

use crate::metrics::KafkaMetrics;
use tailrace_env::budget::Reservation;
use tailrace_node::NodeDisk;

/// Bytes that are checked for presence in memory, or read into it, at once.
const WARM_BYTES: u64 = 1024 * 1024;

/// One part of an answer.
#[derive(Clone)]
pub(crate) enum ReplyPart {
    Bytes(Bytes),
    File(Extent<NodeDisk>),
    /// The memory of the answer, held until all of it is sent.
    Room(Arc<Reservation>),
}

/// An item to send.
pub(super) enum Item {
    Bytes(Bytes),
    File {
        extent: Extent<NodeDisk>,
        /// Number of bytes at the start of the file that are in memory.
        warm_bytes: u64,
    },
    /// The end of an answer. The request has taken from `started` until now.
    End {
        api_key: i16,
        started: Instant,
        room: Option<Arc<Reservation>>,
    },
}

/// Items still to be sent, in order.
pub(super) struct Queue {
    pub(super) items: VecDeque<Item>,
    pending_bytes: u64,
    /// Bytes that the socket has taken so far.
    taken_bytes: u64,
    warming: Option<JoinHandle<io::Result<()>>>,
    pub(super) metrics: Arc<KafkaMetrics>,
    /// Time at which the socket last took something, or nothing was left to send.
    pub(super) last_progress: Instant,
}

impl Queue {
    pub(super) fn new(metrics: Arc<KafkaMetrics>) -> Self {
        Self {
            items: VecDeque::new(),
            pending_bytes: 0,
            taken_bytes: 0,
            warming: None,
            metrics,
            last_progress: Instant::now(),
        }
    }

    pub(super) fn pending_bytes(&self) -> u64 {
        self.pending_bytes
    }

    pub(super) fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    /// Queues one whole answer.
    pub(super) fn push(&mut self, api_key: i16, started: Instant, parts: Vec<ReplyPart>) {
        let mut room = None;
        for part in parts {
            match part {
                ReplyPart::Room(held) => room = Some(held),
                ReplyPart::Bytes(bytes) => {
                    self.pending_bytes += bytes.len() as u64;
                    self.items.push_back(Item::Bytes(bytes));
                }
                ReplyPart::File(extent) => {
                    self.pending_bytes += extent.bytes();
                    self.items.push_back(Item::File { extent, warm_bytes: 0 });
                }
            }
        }
        self.items.push_back(Item::End { api_key, started, room });
    }

    /// Brings the next bytes of the first file into memory.
    pub(super) fn poll_warm(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(warming) = &mut self.warming {
            let outcome = ready!(Pin::new(warming).poll(cx));
            self.warming = None;
            outcome.map_err(io::Error::other)??;
            // The client is not to blame for the time that our disk takes.
            self.last_progress = Instant::now();
        }
        let Some(Item::File { extent, warm_bytes }) = self.items.front_mut() else {
            return Poll::Ready(Ok(()));
        };
        if *warm_bytes > 0 {
            return Poll::Ready(Ok(()));
        }
        let next = extent.part(0..extent.bytes().min(WARM_BYTES));
        *warm_bytes = next.bytes();
        if next.is_resident() {
            return Poll::Ready(Ok(()));
        }
        self.metrics.cold_reads.inc();
        self.warming = Some(task::spawn_blocking(move || next.warm()));
        self.poll_warm(cx)
    }

    /// Counts `bytes` that the socket, or TLS in front of it, has taken.
    pub(super) fn took(&mut self, bytes: u64) {
        self.pending_bytes -= bytes;
        self.taken_bytes += bytes;
        self.metrics.bytes_sent.inc_by(bytes);
        self.last_progress = Instant::now();
    }
}

pub(super) fn too_short(extent: &Extent<NodeDisk>) -> io::Error {
    let end = extent.position() + extent.bytes();
    io::Error::new(io::ErrorKind::UnexpectedEof, format!("the segment ends before position {end}"))
}
