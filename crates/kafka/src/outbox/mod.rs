//! Answers on their way out of one connection: bytes in memory by vectored writes, record batches by sendfile; over TLS
//! both through a bounded buffer, see `tls`.

mod tls;

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{Buf, Bytes};
use rustix::net::SendFlags;
use tailrace_log::Extent;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::metrics::KafkaMetrics;
use tailrace_runtime::budget::Reservation;
use tailrace_runtime::disk::ServerDisk;
use tailrace_runtime::residency;
use tailrace_runtime::transport::Transport;

/// Most bytes that one sendfile call moves: what a socket takes at once, and a bound on the time of the call.
const SENDFILE_BYTES: u64 = 512 * 1024;

/// Bytes whose presence in memory is checked, or ensured, at once.
const WARM_BYTES: u64 = 1024 * 1024;

/// Buffers of one vectored write.
const VECTORS: usize = 16;

/// One part of an answer.
#[derive(Clone)]
pub(crate) enum ReplyPart {
    Bytes(Bytes),
    File(Extent<ServerDisk>),
    /// What the answer takes in memory, until all of it is sent.
    Room(Arc<Reservation>),
}

enum Item {
    Bytes(Bytes),
    File {
        extent: Extent<ServerDisk>,
        /// So many bytes at its beginning are in memory.
        warm_bytes: u64,
    },
    /// The answer's end: the request took from `started` to now.
    End {
        api_key: i16,
        started: Instant,
        room: Option<Arc<Reservation>>,
    },
}

/// What is still to be sent, in order.
pub(crate) struct Outbox {
    items: VecDeque<Item>,
    pending_bytes: u64,
    /// Bytes that the socket has taken so far.
    taken_bytes: u64,
    warming: Option<JoinHandle<io::Result<()>>>,
    metrics: Arc<KafkaMetrics>,
    /// What TLS is given next; stays empty on a plain connection.
    staged: tls::Staged,
    /// When the socket last took something, or the outbox was last empty.
    last_progress: Instant,
}

impl Outbox {
    pub(crate) fn new(metrics: Arc<KafkaMetrics>) -> Self {
        let items = VecDeque::new();
        let staged = tls::Staged::default();
        Self {
            items,
            pending_bytes: 0,
            taken_bytes: 0,
            warming: None,
            metrics,
            staged,
            last_progress: Instant::now(),
        }
    }

    /// Bytes not yet taken by the socket.
    pub(crate) fn pending_bytes(&self) -> u64 {
        self.pending_bytes
    }

    /// Bytes that the socket has taken so far.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    /// True if everything was handed to the kernel.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.staged.is_empty()
    }

    /// Since when the socket has taken nothing; `None` if there is nothing to take.
    pub(crate) fn stalled_since(&self) -> Option<Instant> {
        (!self.is_empty()).then_some(self.last_progress)
    }

    /// Queues one whole answer.
    pub(crate) fn push(&mut self, api_key: i16, started: Instant, parts: Vec<ReplyPart>) {
        if self.is_empty() {
            self.last_progress = Instant::now();
        }
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

    /// True if an answer that is not sent holds memory that others may wait for.
    pub(crate) fn holds_room(&self) -> bool {
        self.items.iter().any(|item| matches!(item, Item::End { room: Some(_), .. }))
    }

    /// Sends until the socket takes no more, the disk has to be waited for, or all is sent.
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
            Transport::Plain(stream) => self.poll_send_plain(stream, cx),
            Transport::Tls(stream) => self.poll_send_tls(stream, cx),
        }
    }

    fn poll_send_plain(&mut self, stream: &TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            self.settle();
            match self.items.front() {
                None => return Poll::Ready(Ok(())),
                Some(Item::File { .. }) => ready!(self.poll_file(stream, cx))?,
                Some(_) => ready!(self.poll_bytes(stream, cx))?,
            }
        }
    }

    /// Drops what is sent from the front, and times the answers that are complete.
    fn settle(&mut self) {
        while let Some(front) = self.items.front() {
            match front {
                Item::Bytes(bytes) if bytes.is_empty() => {}
                Item::File { extent, .. } if extent.bytes() == 0 => {}
                Item::End { api_key, started, .. } => self.metrics.answered(*api_key, started.elapsed()),
                _ => break,
            }
            self.items.pop_front();
        }
    }

    fn poll_bytes(&mut self, stream: &TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(stream.poll_write_ready(cx))?;
        let mut vectors = [IoSlice::new(&[]); VECTORS];
        let (mut count, mut file_follows) = (0, false);
        for item in &self.items {
            match item {
                Item::Bytes(bytes) if count < VECTORS => {
                    vectors[count] = IoSlice::new(bytes);
                    count += 1;
                }
                Item::End { .. } => {}
                Item::File { .. } => {
                    file_follows = true;
                    break;
                }
                Item::Bytes(_) => break,
            }
        }
        // A header alone would wake the client for nothing: the records follow at once.
        let flags = if file_follows { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL };
        let sent = stream.try_io(Interest::WRITABLE, || {
            let mut control = rustix::net::SendAncillaryBuffer::default();
            Ok(rustix::net::sendmsg(stream, &vectors[..count], &mut control, flags)?)
        });
        match sent {
            Ok(sent) => {
                self.took(sent as u64);
                self.advance_bytes(sent);
                Poll::Ready(Ok(()))
            }
            Err(error) => unless_would_block(error),
        }
    }

    fn advance_bytes(&mut self, mut sent: usize) {
        for item in &mut self.items {
            if let Item::Bytes(bytes) = item {
                let part = sent.min(bytes.len());
                bytes.advance(part);
                sent -= part;
                if sent == 0 {
                    break;
                }
            }
        }
    }

    fn poll_file(&mut self, stream: &TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_warm(cx))?;
        ready!(stream.poll_write_ready(cx))?;
        let Some(Item::File { extent, warm_bytes }) = self.items.front_mut() else {
            return Poll::Ready(Ok(()));
        };
        let bytes = extent.bytes().min(SENDFILE_BYTES).min(*warm_bytes);
        let (file, mut position) = extent.file();
        let sent = stream.try_io(Interest::WRITABLE, || {
            let count = usize::try_from(bytes).unwrap_or(usize::MAX);
            Ok(rustix::fs::sendfile(stream, file.as_fd(), Some(&mut position), count)?)
        });
        match sent {
            Ok(0) => Poll::Ready(Err(too_short(extent))),
            Ok(sent) => {
                extent.advance(sent as u64);
                *warm_bytes -= sent as u64;
                self.metrics.bytes_fetched.inc_by(sent as u64);
                self.took(sent as u64);
                Poll::Ready(Ok(()))
            }
            Err(error) => unless_would_block(error),
        }
    }

    /// Makes sure that the next bytes of the file in front are in memory.
    fn poll_warm(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(warming) = &mut self.warming {
            let outcome = ready!(Pin::new(warming).poll(cx));
            self.warming = None;
            outcome.map_err(io::Error::other)??;
            // Waiting for our disk is not the client's stall.
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
        if residency::is_resident(&next) {
            return Poll::Ready(Ok(()));
        }
        self.metrics.cold_reads.inc();
        self.warming = Some(tokio::task::spawn_blocking(move || residency::warm(&next)));
        self.poll_warm(cx)
    }

    fn took(&mut self, bytes: u64) {
        self.pending_bytes -= bytes;
        self.taken_bytes += bytes;
        self.metrics.bytes_sent.inc_by(bytes);
        self.last_progress = Instant::now();
    }
}

fn too_short(extent: &Extent<ServerDisk>) -> io::Error {
    let end = extent.file().1 + extent.bytes();
    io::Error::new(io::ErrorKind::UnexpectedEof, format!("the segment ends before position {end}"))
}

/// A full socket is no error: tokio has noted it, and the next look at its readiness registers the task.
fn unless_would_block(error: io::Error) -> Poll<io::Result<()>> {
    if error.kind() == io::ErrorKind::WouldBlock { Poll::Ready(Ok(())) } else { Poll::Ready(Err(error)) }
}
