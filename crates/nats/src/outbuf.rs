//! The outgoing bytes of one connection. The buffer is bounded. Publishers fill it, and the first task that
//! can write empties it.
//!
//! Publishers append under a short lock and write once per burst, straight to the socket. This wakes no task.
//! The connection's own task continues only if the socket is full, or is not a plain one (TLS, WebSocket).
//! There is one writer at a time, so bytes keep their order. Idle connections hold no buffer. Buffers come
//! from a small pool of each thread.
//!
//! Out of scope: the choice of receivers (router), and reading (connection).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Waker};
use tailrace_env::time;
use tailrace_env::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tailrace_env::net::{Stream, WriteHalf};
use tailrace_env::sync::Notify;

use crate::close::CloseReason;

/// Bytes of one buffer for small messages. Larger payloads are shared between their receivers.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;

/// Smallest payload that is copied once for all its receivers instead of once for each.
pub(super) const SHARED_BYTES_MIN: usize = 16 * 1024;

/// Number of buffers that each thread keeps for reuse: 2 MiB.
const POOL_BUFFERS: usize = 32;

/// Number of buffers in one vectored write.
const VECTORS: usize = 32;

/// Bytes passed to the socket at once before others may append again.
const BATCH_BYTES: usize = 256 * 1024;

/// Rounds in which a publisher writes what others append meanwhile, before the connection's own task takes
/// over.
const PUBLISHERS_ROUNDS: usize = 4;

/// The same for the connection's own task, which then waits for its next turn, so that large payloads do not
/// hold up others.
const OWNERS_ROUNDS: usize = 1;

thread_local! {
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Returns an empty buffer, possibly a reused one.
pub(super) fn take_buffer() -> Vec<u8> {
    POOL.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Keeps a buffer for reuse, unless it is unusually large or there are enough.
pub(super) fn give_buffer(mut buffer: Vec<u8>) {
    if buffer.capacity() == 0 || buffer.capacity() > 2 * CHUNK_BYTES {
        return;
    }
    buffer.clear();
    POOL.with_borrow_mut(|pool| {
        if pool.len() < POOL_BUFFERS {
            pool.push(buffer);
        }
    });
}

#[derive(Debug)]
enum Chunk {
    Own(Vec<u8>),
    Shared(Bytes),
}

impl Chunk {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }

    fn recycle(self) {
        if let Self::Own(buffer) = self {
            give_buffer(buffer);
        }
    }
}

/// Bytes that were taken out of the buffer to be written.
#[derive(Debug, Default)]
pub(super) struct Batch {
    chunks: VecDeque<Chunk>,
    /// Number of bytes of the first chunk that were written.
    offset: usize,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Fills `vectors` with the next bytes to write. Returns the number of vectors.
    pub(super) fn vectors<'a>(&'a self, vectors: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        for (chunk, vector) in self.chunks.iter().zip(vectors) {
            let from = if count == 0 { self.offset } else { 0 };
            *vector = IoSlice::new(&chunk.bytes()[from..]);
            count += 1;
        }
        count
    }

    /// Drops the bytes that were written.
    pub(super) fn advance(&mut self, mut written: usize) {
        while let Some(chunk) = self.chunks.front() {
            let left = chunk.bytes().len() - self.offset;
            if written < left {
                self.offset += written;
                return;
            }
            written -= left;
            self.offset = 0;
            if let Some(chunk) = self.chunks.pop_front() {
                chunk.recycle();
            }
        }
    }
}

/// Limits of one connection's buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutLimits {
    /// Bytes at which the connection is closed.
    pub(super) pending_max: usize,
    /// Bytes at which publishers are slowed.
    pub(super) slow_at: usize,
    /// Time without progress after which the connection is closed.
    pub(super) write_deadline: Duration,
}

/// Requests to the connection's own task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Signals {
    /// Announce that the server is about to stop.
    pub(super) lame_duck: bool,
    /// Remove subscriptions that have received their last message.
    pub(super) expired: bool,
    /// Send INFO again, because nodes have joined or left.
    pub(super) info: bool,
    /// Measure the round trip.
    pub(super) measure: bool,
    /// Take over the limits that the claims of the account now have.
    pub(super) limits: bool,
    /// Remove subscriptions that the rules no longer allow.
    pub(super) rights: bool,
    /// Send what is left, and close.
    pub(super) finish: Option<CloseReason>,
}

#[derive(Debug)]
struct OutbufState {
    /// The socket, if publishers may write to it.
    socket: Option<Arc<WriteHalf>>,
    waiting: Batch,
    tail: Vec<u8>,
    /// Bytes in `waiting`, in `tail` and with a writer.
    pending: usize,
    /// Whether a burst has this connection on its list.
    touched: bool,
    writing: bool,
    /// Whether the socket is full and the connection's task waits for it.
    blocked: bool,
    /// Time at which the socket last took something, or the buffer was last empty.
    progress: Instant,
    /// Time at which the first of the pending messages was read.
    since: Option<Instant>,
    waker: Option<Waker>,
    signals: Signals,
    closed: Option<CloseReason>,
    /// Whether the connection accepts no more messages, but still sends what waits.
    leaving: bool,
    messages: u64,
    bytes: u64,
}

/// The size of one message for one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeliverySize {
    /// Upper bound for the whole message, including the control line and line ends.
    pub(super) bytes_max: usize,
    /// Size for the counters: headers and payload.
    pub(super) body_bytes: usize,
}

/// The task that writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    /// A task other than the connection's own. It wakes that one if anything is left.
    Publisher,
    /// The connection's own task. It is awake, and handles the rest in its next turn, because a task that
    /// wakes itself takes turns from others.
    Owner,
}

/// The outcome for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Appended {
    /// The message is in the buffer.
    Yes,
    /// The message is in the buffer, and the connection was on no burst's list. The caller now has to flush
    /// it.
    First,
    /// The connection is closed or refused the message.
    No,
}

/// The buffer. See the module's documentation.
#[derive(Debug)]
pub(super) struct OutBuffer {
    /// Every critical section leaves it consistent, even after a panic.
    state: Mutex<OutbufState>,
    limits: OutLimits,
    /// Notified when there is room again.
    room: Notify,
    waiting_for_room: AtomicUsize,
    /// Copies of the number of pending bytes, and of whether the connection is closed, for lock-free reads.
    pending: AtomicUsize,
    closed: AtomicBool,
    /// Bytes that waited when the connection was closed.
    dropped: AtomicUsize,
}

/// The buffer's state as the connection's own task sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnersView {
    pub(super) signals: Signals,
    /// Set if the connection has to end.
    pub(super) closed: Option<CloseReason>,
    /// Whether bytes wait that no other task will write.
    pub(super) has_work: bool,
    /// Whether bytes wait.
    pub(super) pending: bool,
}

/// Counters of what was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

impl OutBuffer {
    pub(super) fn new(limits: OutLimits, socket: Option<Arc<WriteHalf>>) -> Self {
        let state = OutbufState {
            socket,
            waiting: Batch::default(),
            tail: Vec::new(),
            pending: 0,
            touched: false,
            writing: false,
            blocked: false,
            progress: Instant::now(),
            since: None,
            waker: None,
            signals: Signals::default(),
            closed: None,
            leaving: false,
            messages: 0,
            bytes: 0,
        };
        Self {
            state: Mutex::new(state),
            limits,
            room: Notify::new(),
            waiting_for_room: AtomicUsize::new(0),
            pending: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            dropped: AtomicUsize::new(0),
        }
    }

    /// Bytes that wait.
    pub(super) fn pending(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    /// Messages and bytes put into the buffer so far.
    pub(super) fn sent(&self) -> Sent {
        let state = self.state.lock();
        Sent { messages: state.messages, bytes: state.bytes }
    }

    /// Bytes that waited when the connection was closed.
    pub(super) fn dropped(&self) -> usize {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Time at which the socket last took something, or something was put into the empty buffer.
    pub(super) fn last_progress(&self) -> Instant {
        self.state.lock().progress
    }

    /// Reports whether the connection is about to end, or has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Appends a message that `write` writes to the buffer. Refuses it if the connection is closed, or closes
    /// the connection if this message is too much. `admit` may also refuse, under the lock. `shared` and a
    /// line end follow what `write` wrote.
    #[inline]
    pub(super) fn append(
        &self,
        size: DeliverySize,
        read_at: Instant,
        admit: impl FnOnce() -> bool,
        write: impl FnOnce(&mut Vec<u8>),
        shared: Option<&Bytes>,
    ) -> Appended {
        let mut state = self.state.lock();
        if state.closed.is_some() || state.leaving || !admit() {
            return Appended::No;
        }
        if state.pending + size.bytes_max > self.limits.pending_max {
            self.close_now(&mut state, CloseReason::SlowConsumerPending);
            return Appended::No;
        }
        if state.pending == 0 {
            state.since = Some(read_at);
            state.progress = read_at;
        }
        let inline = if shared.is_some() { 0 } else { size.bytes_max };
        state.reserve(inline);
        let before = state.tail.len();
        write(&mut state.tail);
        let mut added = state.tail.len() - before;
        if let Some(shared) = shared {
            state.push_shared(shared);
            added += shared.len() + 2;
        }
        state.pending += added;
        state.messages += 1;
        state.bytes += size.body_bytes as u64;
        self.pending.store(state.pending, Ordering::Relaxed);
        if std::mem::replace(&mut state.touched, true) { Appended::Yes } else { Appended::First }
    }

    /// Appends bytes of the protocol itself, which are not a message and must not be lost.
    pub(super) fn append_control(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state.lock();
        if state.closed.is_some() {
            return;
        }
        if state.pending == 0 {
            state.progress = Instant::now();
        }
        state.reserve(0);
        let before = state.tail.len();
        write(&mut state.tail);
        let bytes = state.tail.len() - before;
        state.pending += bytes;
        self.pending.store(state.pending, Ordering::Relaxed);
        if state.pending > self.limits.pending_max {
            self.close_now(&mut state, CloseReason::SlowConsumerPending);
        }
    }

    /// Writes what waits, in a limited number of batches, unless another task is writing or the socket is
    /// full. Once everything is written, calls `drained` with the time since the first message was read.
    /// Returns true if the connection's own task has to handle the rest.
    pub(super) fn flush(&self, writer: Writer, drained: impl FnOnce(Duration)) -> bool {
        let mut state = self.state.lock();
        state.touched = false;
        if state.writing || state.blocked || state.pending == 0 {
            return false;
        }
        let Some(socket) = state.socket.clone() else {
            state.wake_for(writer);
            return true;
        };
        let rounds = match writer {
            Writer::Publisher => PUBLISHERS_ROUNDS,
            Writer::Owner => OWNERS_ROUNDS,
        };
        state.writing = true;
        for _ in 0..rounds {
            let mut batch = state.take_batch();
            drop(state);
            let (written, outcome) = write_batch(&socket, &mut batch);
            state = self.state.lock();
            self.wrote(&mut state, written);
            match outcome {
                Ok(true) if state.pending == 0 => break,
                Ok(true) => {}
                Ok(false) => {
                    state.put_back(batch);
                    state.blocked = true;
                    break;
                }
                Err(_) => {
                    self.close_now(&mut state, CloseReason::WriteError);
                    break;
                }
            }
        }
        state.writing = false;
        if state.pending > 0 || state.leaving {
            state.wake_for(writer);
            return state.pending > 0;
        }
        if let Some(since) = state.since.take() {
            drop(state);
            drained(since.elapsed());
        }
        false
    }

    /// Leaves writing to the connection's own task.
    pub(super) fn hand_over(&self) {
        let mut state = self.state.lock();
        state.touched = false;
        if state.pending > 0 && !state.blocked && !state.writing {
            state.wake();
        }
    }

    fn wrote(&self, state: &mut OutbufState, bytes: usize) {
        if bytes == 0 || state.closed.is_some() {
            return;
        }
        state.pending -= bytes;
        state.progress = Instant::now();
        self.pending.store(state.pending, Ordering::Relaxed);
        if state.pending <= self.limits.slow_at / 2 {
            self.give_room();
        }
    }

    fn give_room(&self) {
        if self.waiting_for_room.load(Ordering::Acquire) > 0 {
            self.room.notify_waiters();
        }
    }

    /// Reports whether publishers should wait before they add more.
    pub(super) fn is_crowded(&self) -> bool {
        self.pending() > self.limits.slow_at
    }

    /// Reports whether so much waits that the connection is closer to being closed than to slowing
    /// publishers.
    pub(super) fn is_far_behind(&self) -> bool {
        let OutLimits { slow_at, pending_max, .. } = self.limits;
        self.pending() > slow_at + (pending_max - slow_at) / 2
    }

    /// Runs `work` while no messages can be appended.
    pub(super) fn locked<T>(&self, work: impl FnOnce() -> T) -> T {
        let _state = self.state.lock();
        work()
    }

    /// Waits until there is room again. The longest wait depends on how full the buffer is: at least a third
    /// of `most`, in which a busy consumer catches up, half of `most` if it is half full, and ten times
    /// `most` if it is full. A consumer that reads, however slowly, is therefore not disconnected. One that
    /// does not read is, a little later.
    pub(super) async fn wait_for_room(&self, most: Duration) {
        let fill = (self.pending() as f64 / self.limits.pending_max as f64).clamp(0.0, 1.0);
        let above_half = (fill * 2.0 - 1.0).max(0.0);
        let limit = most.mul_f64(fill.max(1.0 / 3.0) + 9.0 * above_half * above_half);
        self.waiting_for_room.fetch_add(1, Ordering::AcqRel);
        let notified = self.room.notified();
        if self.is_crowded() {
            // For a consumer that does not read, the wait ends at the limit.
            let _ = time::timeout(limit, notified).await;
        }
        self.waiting_for_room.fetch_sub(1, Ordering::AcqRel);
    }

    // ---- for the connection's own task ----

    /// Starts to end the connection. It accepts no more messages, queue groups pick other members, and its
    /// task is woken when everything is written.
    pub(super) fn begin_goodbye(&self) {
        self.state.lock().leaving = true;
        self.closed.store(true, Ordering::Release);
    }

    /// Takes the bytes to write, for streams that only the connection's task writes to.
    pub(super) fn take(&self) -> Batch {
        let mut state = self.state.lock();
        state.touched = false;
        state.take_batch()
    }

    /// Counts what the connection's task wrote. If nothing is left, returns the time since the first message
    /// was read.
    pub(super) fn written(&self, bytes: usize) -> Option<Duration> {
        let mut state = self.state.lock();
        self.wrote(&mut state, bytes);
        if state.pending > 0 {
            return None;
        }
        Some(state.since.take()?.elapsed())
    }

    /// Registers the connection's task for wake-ups, and returns what it has to do.
    pub(super) fn poll_owner(&self, cx: &mut Context<'_>) -> OwnersView {
        let (view, socket) = {
            let mut state = self.state.lock();
            match &mut state.waker {
                Some(waker) => waker.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
            let view = OwnersView {
                signals: std::mem::take(&mut state.signals),
                closed: state.closed,
                has_work: state.pending > 0 && !state.blocked && !state.writing,
                pending: state.pending > 0,
            };
            let socket = if state.blocked { state.socket.clone() } else { None };
            (view, socket)
        };
        let Some(socket) = socket else { return view };
        // The next write finds an error.
        if socket.poll_write_ready(cx).is_pending() {
            return view;
        }
        self.state.lock().blocked = false;
        OwnersView { has_work: true, ..view }
    }

    /// Sets signals and wakes the connection's task.
    pub(super) fn signal(&self, set: impl FnOnce(&mut Signals)) {
        let mut state = self.state.lock();
        set(&mut state.signals);
        state.wake();
    }

    /// Puts signals back for the next look.
    pub(super) fn put_back_signals(&self, signals: Signals) {
        if signals == Signals::default() {
            return;
        }
        let Signals { lame_duck, expired, info, measure, limits, rights, finish } = signals;
        let mut state = self.state.lock();
        state.signals.lame_duck |= lame_duck;
        state.signals.expired |= expired;
        state.signals.info |= info;
        state.signals.measure |= measure;
        state.signals.limits |= limits;
        state.signals.rights |= rights;
        state.signals.finish = state.signals.finish.or(finish);
    }

    /// Ends the connection once everything that waits is sent.
    pub(super) fn finish(&self, reason: CloseReason) {
        self.signal(|signals| signals.finish = Some(reason));
    }

    /// Ends the connection at once. The first reason counts.
    pub(super) fn close(&self, reason: CloseReason) {
        self.close_now(&mut self.state.lock(), reason);
    }

    fn close_now(&self, state: &mut OutbufState, reason: CloseReason) {
        if state.closed.is_some() {
            return;
        }
        self.dropped.store(state.pending, Ordering::Relaxed);
        state.close(reason);
        self.closed.store(true, Ordering::Release);
        self.pending.store(0, Ordering::Relaxed);
        self.give_room();
    }

    /// Releases the socket, so that nothing is written any more.
    pub(super) fn release(&self, reason: CloseReason) -> CloseReason {
        let mut state = self.state.lock();
        self.close_now(&mut state, reason);
        state.socket = None;
        state.waker = None;
        state.closed.unwrap_or(reason)
    }

    /// Time at which the connection is closed if the socket continues to take nothing.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let state = self.state.lock();
        (state.pending > 0).then(|| state.progress + self.limits.write_deadline)
    }
}

impl OutbufState {
    /// Makes room for `bytes` more in the tail, or starts a new one.
    #[inline]
    fn reserve(&mut self, bytes: usize) {
        if self.tail.len() + bytes > CHUNK_BYTES || self.tail.capacity() == 0 {
            self.begin_tail();
        }
    }

    #[cold]
    fn begin_tail(&mut self) {
        if !self.tail.is_empty() {
            let tail = std::mem::take(&mut self.tail);
            self.waiting.chunks.push_back(Chunk::Own(tail));
        }
        if self.tail.capacity() == 0 {
            self.tail = take_buffer();
        }
    }

    fn push_shared(&mut self, shared: &Bytes) {
        let tail = std::mem::take(&mut self.tail);
        self.waiting.chunks.push_back(Chunk::Own(tail));
        self.waiting.chunks.push_back(Chunk::Shared(shared.clone()));
        self.tail = take_buffer();
        self.tail.extend_from_slice(b"\r\n");
    }

    fn take_batch(&mut self) -> Batch {
        if !self.tail.is_empty() {
            let tail = std::mem::take(&mut self.tail);
            self.waiting.chunks.push_back(Chunk::Own(tail));
        }
        let mut bytes = 0;
        let within = |chunk: &&Chunk| {
            bytes += chunk.bytes().len();
            bytes <= BATCH_BYTES
        };
        let count = self.waiting.chunks.iter().take_while(within).count().max(1);
        if count >= self.waiting.chunks.len() {
            return std::mem::take(&mut self.waiting);
        }
        let rest = self.waiting.chunks.split_off(count);
        let offset = std::mem::take(&mut self.waiting.offset);
        Batch { chunks: std::mem::replace(&mut self.waiting.chunks, rest), offset }
    }

    fn put_back(&mut self, mut batch: Batch) {
        if self.closed.is_some() {
            return;
        }
        batch.chunks.append(&mut self.waiting.chunks);
        self.waiting = batch;
    }

    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    fn wake_for(&self, writer: Writer) {
        if writer == Writer::Publisher {
            self.wake();
        }
    }

    fn close(&mut self, reason: CloseReason) {
        self.closed = Some(reason);
        self.waiting = Batch::default();
        self.tail = Vec::new();
        self.pending = 0;
        self.since = None;
        self.wake();
    }
}

/// Writes until everything is written (true) or the socket is full (false). Also returns the number of bytes
/// written.
fn write_batch(socket: &Stream, batch: &mut Batch) -> (usize, io::Result<bool>) {
    let mut total = 0;
    while !batch.is_empty() {
        let mut vectors = [IoSlice::new(&[]); VECTORS];
        let count = batch.vectors(&mut vectors);
        match socket.try_write(&vectors[..count], false) {
            Ok(0) => return (total, Err(io::ErrorKind::WriteZero.into())),
            Ok(written) => {
                total += written;
                batch.advance(written);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return (total, Ok(false)),
            Err(error) => return (total, Err(error)),
        }
    }
    (total, Ok(true))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::os::fd::BorrowedFd;
    use std::task::Poll;

    use tailrace_env::io::ReadBuf;
    use tailrace_env::net::{BufferSizes, Socket};

    use super::*;

    #[test]
    fn signals_that_are_put_back_are_seen_at_the_next_look() {
        tailrace_runtime::install();
        let of_out = OutLimits { pending_max: 1, slow_at: 1, write_deadline: Duration::from_secs(1) };
        let out = OutBuffer::new(of_out, None);
        let finish = Some(CloseReason::Client);
        let (limits, rights) = (true, true);
        let all =
            Signals { lame_duck: true, expired: true, info: true, measure: true, limits, rights, finish };
        let look = || out.poll_owner(&mut Context::from_waker(Waker::noop())).signals;
        out.put_back_signals(all);
        assert_eq!(look(), all);
        assert_eq!(look(), Signals::default());
    }

    /// A socket that accepts everything.
    struct Sink;

    impl Socket for Sink {
        fn poll_read_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_read(&self, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_write_ready(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn try_write(&self, buffers: &[IoSlice<'_>], _: bool) -> io::Result<usize> {
            Ok(buffers.iter().map(|buffer| buffer.len()).sum())
        }

        fn try_send_file(&self, _: BorrowedFd<'_>, _: u64, _: usize) -> io::Result<usize> {
            unreachable!("no files are sent to NATS clients")
        }

        fn shutdown_write(&self) -> io::Result<()> {
            Ok(())
        }

        fn set_buffers(&self, _: BufferSizes) -> io::Result<()> {
            Ok(())
        }

        fn local_addr(&self) -> io::Result<SocketAddr> {
            Ok(([127, 0, 0, 1], 1).into())
        }
    }

    /// The connection's own task is not woken for what it left itself. It has to ask for its next turn.
    #[test]
    fn what_the_owner_leaves_it_is_told_of_and_what_others_leave_wakes_it() {
        struct Woken(AtomicUsize);
        impl std::task::Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        tailrace_runtime::install();
        let second = Duration::from_secs(1);
        let limits = OutLimits { pending_max: usize::MAX, slow_at: usize::MAX, write_deadline: second };
        let (_, socket) = Stream::new(Arc::new(Sink)).into_split();
        let out = OutBuffer::new(limits, Some(Arc::new(socket)));
        let woken = Arc::new(Woken(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&woken));
        let count = || woken.0.load(Ordering::Relaxed);
        let _ = out.poll_owner(&mut Context::from_waker(&waker));
        let put = |batches: usize| {
            (0..batches).for_each(|_| out.append_control(|buffer| buffer.resize(BATCH_BYTES, b'x')));
        };
        put(2);
        assert!(out.flush(Writer::Owner, |_| ()), "the second batch is for its next turn");
        assert_eq!((out.pending(), count()), (BATCH_BYTES, 0));
        assert!(!out.flush(Writer::Owner, |_| ()));
        assert_eq!((out.pending(), count()), (0, 0));
        put(PUBLISHERS_ROUNDS + 1);
        out.flush(Writer::Publisher, |_| ());
        assert_eq!((out.pending(), count()), (BATCH_BYTES, 1));
    }
}
