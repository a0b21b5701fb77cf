//! The backlog of one connection.
//!
//! There are lanes. Control frames and heartbeats go before everything else, because behind a queue of
//! batches they would be late and this node would look dead. Then come announcements, then raft messages in
//! order, then frames for NATS clients, then bodies. Everything is bounded in bytes.

use std::collections::VecDeque;
use std::io::IoSlice;
use tailrace_env::time;
use tailrace_env::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::{Mutex, MutexGuard};
use tailrace_env::io::{AsyncWrite, AsyncWriteExt as _};
use tailrace_env::sync::Notify;
use tailrace_replication::raft::{Heartbeat, PeerMessage};
use tailrace_types::{RaftGroup, take_off};

use super::error::Ended;
use super::frame::{
    self, BODY_HEAD_BYTES, FrameKind, HEADER_BYTES, HEARTBEATS_BYTES_MAX, MESSAGES_MAX, RAFT_BATCH_BYTES,
};
use super::metrics::PeerMetrics;

/// Maximum bytes of waiting heartbeats: those of 10,000 groups, seven times over.
const HEARTBEATS_WAITING_BYTES_MAX: usize = 4 << 20;

/// Bytes of frames for NATS clients that are gathered before they are written, unless a single frame is
/// larger.
const NATS_CHUNK_BYTES: usize = 128 * 1024;

/// The buffer for outgoing frames keeps at most this much memory.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// Why something is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsent {
    Closed,
    Full,
}

struct Message {
    group: RaftGroup,
    message: PeerMessage,
    bytes: usize,
}

struct Body {
    kind: FrameKind,
    id: u64,
    head: [u8; BODY_HEAD_BYTES],
    body: Bytes,
}

#[derive(Default)]
struct NatsChunk {
    frames: BytesMut,
    interest: u64,
    messages: u64,
}

#[derive(Default)]
struct Lanes {
    closed: bool,
    /// The backlog is being sent, and nothing more is accepted.
    finishing: bool,
    /// Whole frames.
    control: BytesMut,
    control_frames: Vec<FrameKind>,
    /// Payloads of frames, with the number of rows. Only the last one grows.
    heartbeats: VecDeque<(BytesMut, usize)>,
    heartbeat_bytes: usize,
    /// Whole frames.
    leading: VecDeque<Bytes>,
    messages: VecDeque<Message>,
    /// Whole frames in order, and how many of them are messages.
    nats: VecDeque<NatsChunk>,
    nats_bytes: usize,
    bodies: VecDeque<Body>,
    /// Bytes of announcements, messages and bodies.
    bytes: usize,
    /// Something was taken and has not reached the socket yet.
    writing: bool,
}

impl Lanes {
    fn is_empty(&self) -> bool {
        self.control.is_empty()
            && self.heartbeats.is_empty()
            && self.leading.is_empty()
            && self.messages.is_empty()
            && self.nats.is_empty()
            && self.bodies.is_empty()
    }

    fn is_open(&self) -> bool {
        !self.closed && !self.finishing
    }

    fn take_off(&mut self, bytes: usize) {
        take_off(&mut self.bytes, bytes, "bytes that wait");
    }

    fn waiting_bytes(&self) -> usize {
        self.bytes + self.heartbeat_bytes + self.nats_bytes + self.control.len()
    }
}

/// The lanes of one connection, and their waiters.
pub(super) struct Outgoing {
    lanes: Mutex<Lanes>,
    bytes_max: usize,
    work: Notify,
    /// Notifies waiters for room, or for the end.
    taken: Notify,
}

/// What remains after a batch was written.
enum Settled {
    More,
    Empty,
    /// Nothing, and nothing more will come.
    Finished,
}

/// What is written at once.
#[derive(Default)]
struct Batch {
    buffer: BytesMut,
    messages: Vec<Message>,
    nats: BytesMut,
    head_of_tail: BytesMut,
    tail: Bytes,
}

impl Outgoing {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { lanes: Mutex::default(), bytes_max, work: Notify::new(), taken: Notify::new() }
    }

    /// Queues a raft message that is not a heartbeat.
    pub(super) fn push_message(&self, group: RaftGroup, message: PeerMessage) -> Result<(), Unsent> {
        let bytes = frame::message_bytes(&message);
        let mut lanes = self.room(bytes)?;
        lanes.bytes += bytes;
        lanes.messages.push_back(Message { group, message, bytes });
        self.wake(lanes);
        Ok(())
    }

    pub(super) fn push_heartbeat(&self, group: RaftGroup, heartbeat: &Heartbeat) -> Result<(), Unsent> {
        let bytes = frame::heartbeat_bytes(heartbeat);
        let mut lanes = self.room(0)?;
        if lanes.heartbeat_bytes + bytes > HEARTBEATS_WAITING_BYTES_MAX {
            return Err(Unsent::Full);
        }
        lanes.heartbeat_bytes += bytes;
        match lanes.heartbeats.back_mut() {
            Some((payload, rows)) if payload.len() + bytes <= HEARTBEATS_BYTES_MAX => {
                frame::put_heartbeat(payload, group, heartbeat);
                *rows += 1;
            }
            _ => {
                let mut payload = BytesMut::new();
                frame::put_heartbeat(&mut payload, group, heartbeat);
                lanes.heartbeats.push_back((payload, 1));
            }
        }
        self.wake(lanes);
        Ok(())
    }

    /// Queues whole frames. A complete list replaces what waited before it.
    pub(super) fn push_leading(&self, complete: bool, frames: &[Bytes]) -> Result<(), Unsent> {
        let bytes = frames.iter().map(Bytes::len).sum();
        let mut lanes = self.room(bytes)?;
        if complete {
            let gone = lanes.leading.drain(..).map(|frame| frame.len()).sum();
            lanes.take_off(gone);
        }
        lanes.bytes += bytes;
        lanes.leading.extend(frames.iter().cloned());
        self.wake(lanes);
        Ok(())
    }

    /// Queues a frame for NATS clients, of this many bytes with its header, if no more than `room` wait then.
    pub(super) fn push_nats(
        &self,
        kind: FrameKind,
        bytes: usize,
        room: usize,
        write: impl FnOnce(&mut BytesMut),
    ) -> Result<(), Unsent> {
        let mut lanes = self.lanes.lock();
        if !lanes.is_open() {
            return Err(Unsent::Closed);
        }
        // A single frame may be larger than the bound.
        if lanes.nats_bytes > 0 && lanes.nats_bytes + bytes > room {
            return Err(Unsent::Full);
        }
        let begins = lanes.nats.back().is_none_or(|chunk| chunk.frames.len() + bytes > NATS_CHUNK_BYTES);
        if begins {
            lanes.nats.push_back(NatsChunk::default());
        }
        let lanes_now = &mut *lanes;
        if let Some(chunk) = lanes_now.nats.back_mut() {
            let before = chunk.frames.len();
            let at = frame::begin(&mut chunk.frames, kind);
            write(&mut chunk.frames);
            frame::end(&mut chunk.frames, at);
            lanes_now.nats_bytes += chunk.frames.len() - before;
            match kind {
                FrameKind::NatsInterest => chunk.interest += 1,
                _ => chunk.messages += 1,
            }
        }
        self.wake(lanes);
        Ok(())
    }

    /// Returns the bytes for NATS clients that wait.
    pub(super) fn nats_bytes(&self) -> usize {
        self.lanes.lock().nats_bytes
    }

    /// Waits until no more than `bytes` for NATS clients wait.
    pub(super) async fn nats_room(&self, bytes: usize) {
        self.until(|lanes| lanes.nats_bytes <= bytes).await;
    }

    /// Queues a request. `detail` is its kind.
    pub(super) fn push_request(&self, id: u64, detail: u8, body: Bytes) -> Result<(), Unsent> {
        let lanes = self.room(BODY_HEAD_BYTES + body.len())?;
        self.push_body(lanes, FrameKind::Request, id, detail, body);
        Ok(())
    }

    /// Queues an answer, however much waits: the reader of requests waits for [`Outgoing::room_below`] first.
    pub(super) fn push_answer(&self, id: u64, detail: u8, body: Bytes) {
        let lanes = self.lanes.lock();
        if lanes.is_open() {
            self.push_body(lanes, FrameKind::Answer, id, detail, body);
        }
    }

    fn push_body(&self, mut lanes: MutexGuard<'_, Lanes>, kind: FrameKind, id: u64, detail: u8, body: Bytes) {
        let head = frame::body_head(kind, id, detail, &body);
        lanes.bytes += BODY_HEAD_BYTES + body.len();
        lanes.bodies.push_back(Body { kind, id, head, body });
        self.wake(lanes);
    }

    /// Cancels a request: removes it from the queue, or tells the other end if it is already in flight.
    pub(super) fn cancel(&self, id: u64) {
        let mut lanes = self.lanes.lock();
        if let Some(at) = lanes.bodies.iter().position(|body| body.id == id) {
            if let Some(body) = lanes.bodies.remove(at) {
                lanes.take_off(BODY_HEAD_BYTES + body.body.len());
            }
            return;
        }
        drop(lanes);
        self.push_control(FrameKind::Cancel, id);
    }

    /// Queues a frame that carries a number. There are never many: each answers one, or belongs to a request
    /// or a tick.
    pub(super) fn push_control(&self, kind: FrameKind, number: u64) {
        let mut lanes = self.lanes.lock();
        if lanes.is_open() {
            frame::put_number(&mut lanes.control, kind, number);
            lanes.control_frames.push(kind);
            self.wake(lanes);
        }
    }

    /// Drops the backlog, and accepts nothing more.
    pub(super) fn close(&self) {
        *self.lanes.lock() = Lanes { closed: true, ..Lanes::default() };
        self.taken.notify_waiters();
    }

    /// Reports whether more than `bytes` wait.
    pub(super) fn is_above(&self, bytes: usize) -> bool {
        self.lanes.lock().waiting_bytes() > bytes
    }

    /// Waits until fewer than `bytes` wait.
    pub(super) async fn room_below(&self, bytes: usize) {
        self.until(|lanes| lanes.waiting_bytes() < bytes).await;
    }

    /// Accepts nothing more, and sends the backlog. Then it is the other end's turn to close.
    pub(super) fn finish(&self) {
        self.lanes.lock().finishing = true;
        self.work.notify_one();
    }

    /// Waits for the end.
    pub(super) async fn closed(&self) {
        self.until(|_| false).await;
    }

    async fn until(&self, holds: impl Fn(&Lanes) -> bool) {
        loop {
            let taken = self.taken.notified();
            let mut taken = std::pin::pin!(taken);
            taken.as_mut().enable();
            {
                let lanes = self.lanes.lock();
                if lanes.closed || holds(&lanes) {
                    return;
                }
            }
            taken.await;
        }
    }

    /// Sends the backlog and what is added to it. Ends only with the connection.
    pub(super) async fn send_all(
        &self,
        socket: &mut (impl AsyncWrite + Unpin),
        metrics: &PeerMetrics,
        stall_max: Duration,
    ) -> Ended {
        let mut batch = Batch::default();
        loop {
            if self.take(&mut batch, metrics) {
                if let Err(ended) = send_batch(socket, &mut batch, metrics, stall_max).await {
                    return ended;
                }
                continue;
            }
            match time::timeout(stall_max, socket.flush()).await {
                Err(_) => return Ended::Stalled(stall_max),
                Ok(Err(error)) => return Ended::Socket(error),
                Ok(Ok(())) => {}
            }
            match self.settle() {
                Settled::More => {}
                Settled::Empty => self.work.notified().await,
                Settled::Finished => {
                    // Closing right away would take back what the other end has not read.
                    return match socket.shutdown().await {
                        Ok(()) => std::future::pending().await,
                        Err(error) => Ended::Socket(error),
                    };
                }
            }
        }
    }

    /// Moves what is next from the lanes to the batch. False if there is nothing.
    fn take(&self, batch: &mut Batch, metrics: &PeerMetrics) -> bool {
        let mut lanes = self.lanes.lock();
        if lanes.is_empty() {
            return false;
        }
        lanes.writing = true;
        batch.buffer.extend_from_slice(&lanes.control.split());
        lanes.control_frames.drain(..).for_each(|kind| metrics.sent(kind, 1));
        lanes.heartbeat_bytes = 0;
        let heartbeats = std::mem::take(&mut lanes.heartbeats);
        while batch.buffer.len() < RAFT_BATCH_BYTES
            && let Some(frame) = lanes.leading.pop_front()
        {
            lanes.take_off(frame.len());
            batch.buffer.extend_from_slice(&frame);
            metrics.sent(FrameKind::Leading, 1);
        }
        take_messages(&mut lanes, &mut batch.messages);
        if let Some(chunk) = lanes.nats.pop_front() {
            take_off(&mut lanes.nats_bytes, chunk.frames.len(), "bytes of NATS clients that wait");
            metrics.sent(FrameKind::NatsInterest, chunk.interest);
            metrics.sent(FrameKind::NatsMessage, chunk.messages);
            batch.nats = chunk.frames;
        }
        if let Some(body) = lanes.bodies.pop_front() {
            lanes.take_off(BODY_HEAD_BYTES + body.body.len());
            batch.tail = body.body;
            drop(lanes);
            put_messages(batch, heartbeats, metrics);
            batch.head_of_tail.extend_from_slice(&body.head);
            metrics.sent(body.kind, 1);
        } else {
            drop(lanes);
            put_messages(batch, heartbeats, metrics);
        }
        self.taken.notify_waiters();
        true
    }

    /// Records that all that was taken has reached the socket.
    fn settle(&self) -> Settled {
        let mut lanes = self.lanes.lock();
        lanes.writing = false;
        match (lanes.is_empty(), lanes.finishing) {
            (false, _) => Settled::More,
            (true, false) => Settled::Empty,
            (true, true) => Settled::Finished,
        }
    }

    fn room(&self, bytes: usize) -> Result<MutexGuard<'_, Lanes>, Unsent> {
        let lanes = self.lanes.lock();
        if !lanes.is_open() {
            return Err(Unsent::Closed);
        }
        // A single frame may be larger than the bound.
        if lanes.bytes > 0 && lanes.bytes + bytes > self.bytes_max {
            return Err(Unsent::Full);
        }
        Ok(lanes)
    }

    fn wake(&self, lanes: MutexGuard<'_, Lanes>) {
        let writing = lanes.writing;
        drop(lanes);
        // A busy writer checks again before it waits.
        if !writing {
            self.work.notify_one();
        }
    }
}

fn take_messages(lanes: &mut Lanes, messages: &mut Vec<Message>) {
    let mut bytes = 0;
    while let Some(next) = lanes.messages.front() {
        let fits = bytes + next.bytes <= RAFT_BATCH_BYTES && messages.len() < MESSAGES_MAX;
        if !messages.is_empty() && !fits {
            break;
        }
        bytes += next.bytes;
        messages.extend(lanes.messages.pop_front());
    }
    lanes.take_off(bytes);
}

/// Copies messages to the buffer: the only copy on their way to the socket.
fn put_messages(batch: &mut Batch, heartbeats: VecDeque<(BytesMut, usize)>, metrics: &PeerMetrics) {
    for (payload, rows) in heartbeats {
        let at = frame::begin(&mut batch.buffer, FrameKind::Heartbeats);
        batch.buffer.extend_from_slice(&payload);
        frame::end(&mut batch.buffer, at);
        metrics.sent(FrameKind::Heartbeats, 1);
        metrics.sent_messages.inc_by(rows as u64);
    }
    if batch.messages.is_empty() {
        return;
    }
    batch.buffer.reserve(HEADER_BYTES + batch.messages.iter().map(|message| message.bytes).sum::<usize>());
    metrics.sent(FrameKind::Raft, 1);
    metrics.sent_messages.inc_by(batch.messages.len() as u64);
    let at = frame::begin(&mut batch.buffer, FrameKind::Raft);
    for Message { group, message, .. } in batch.messages.drain(..) {
        frame::put_message(&mut batch.buffer, group, &message);
    }
    frame::end(&mut batch.buffer, at);
}

async fn send_batch(
    socket: &mut (impl AsyncWrite + Unpin),
    batch: &mut Batch,
    metrics: &PeerMetrics,
    stall_max: Duration,
) -> Result<(), Ended> {
    let parts = [&batch.buffer[..], &batch.nats[..], &batch.head_of_tail[..], &batch.tail[..]];
    let mut vectors = parts.map(IoSlice::new);
    let mut left = &mut vectors[..];
    // Skips empty ones in front.
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        let sent = match time::timeout(stall_max, socket.write_vectored(left)).await {
            Err(_) => return Err(Ended::Stalled(stall_max)),
            Ok(Ok(0)) => return Err(Ended::Socket(std::io::ErrorKind::WriteZero.into())),
            Ok(sent) => sent?,
        };
        metrics.sent_bytes.inc_by(sent as u64);
        IoSlice::advance_slices(&mut left, sent);
    }
    batch.buffer.clear();
    if batch.buffer.capacity() > BUFFER_BYTES_KEPT {
        batch.buffer = BytesMut::new();
    }
    (batch.nats, batch.tail) = (BytesMut::new(), Bytes::new());
    batch.head_of_tail.clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "18 go of 3 bytes that wait")]
    fn no_more_is_taken_than_waits() {
        let outgoing = Outgoing::new(1 << 20);
        assert!(outgoing.push_request(7, 0, Bytes::from_static(b"body")).is_ok());
        outgoing.lanes.lock().bytes = 3;
        outgoing.cancel(7);
    }
}
