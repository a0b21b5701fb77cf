//! One Kafka connection: frames in, requests decided in their order, answers out in the same order.
//!
//! The whole connection is one task. Each turn moves whatever can move: the request being decided, the answers that
//! became ready, bytes to the socket, bytes from it. Requests are decided one after the other, but an answer that has
//! to wait (for a sync, for data to arrive) does not keep the next request from being decided; answers leave in the
//! order of their requests, as the protocol demands.
//!
//! Bounds: requests in flight, bytes waiting in the outbox, memory of frames being read (see `budget`), time for a
//! started frame to arrive, time for the socket to take an answer, idle time.

use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tailrace_env::time::{Duration, Instant};
use tailrace_env::{select, time};

use bytes::{Bytes, BytesMut};
use tailrace_env::time::Sleep;
use tailrace_kafka_wire::ApiKey;

use crate::closed::Closed;
use crate::context::Decided;
use crate::decide::{RequestFrame, decide};
use crate::half_read::Held;
use crate::outbox::{Outbox, ReplyPart};
use crate::server::KafkaServer;
use crate::session::ClientSession;
use crate::transport::Transport;
use tailrace_env::aside::TURN;
use tailrace_env::budget::{Reservation, SMALL_FRAME_BYTES, Ticket};
use tailrace_env::task::NextTurn;

/// Room kept free in the read buffer; grows to a frame's size once that is known and admitted.
const READ_BYTES: usize = 16 * 1024;

/// No further request is read while more than this waits to be sent, be it for the socket or for an earlier answer.
/// Record batches count too, though they are in files, because they say how far the client lags.
const OUTBOX_BYTES_MAX: u64 = 1024 * 1024;

/// No further request is read while those that wait for their answers take more than that, once decoded: some bytes of a frame become
/// many of memory.
const WAITING_BYTES_MAX: usize = 256 * 1024;

/// A frame of which less has arrived takes no more memory than that while it waits.
const FEW_BYTES: usize = 2 * 1024;

/// So many times what has arrived of a large frame is admitted.
const ADMITTED_TIMES: usize = 4;

/// Bytes of a large frame that must arrive between two looks at the limits, while others wait for memory.
const LEAST_BYTES: usize = 64 * 1024;

/// How often a quiet connection looks at its time limits.
const LIMITS_INTERVAL: Duration = Duration::from_secs(1);

/// After the client has closed its direction, answers that are due may take this long. A client that is gone
/// altogether looks the same until something is sent to it.
const HALF_CLOSED_MAX: Duration = Duration::from_secs(5);

/// Bytes of an answer that must be read between two looks at the limits, while others wait for room.
const LEAST_ANSWER_BYTES: u64 = 1024 * 1024;

/// So many looks in a row at which less was read cost the connection.
const SLOW_LOOKS: u32 = 2;

/// How every TLS client begins. As a frame's length it is beyond the default limit.
const TLS_HANDSHAKE: [u8; 2] = [0x16, 0x03];

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// An answer, or the promise of one.
enum Waiting {
    Ready(Vec<ReplyPart>),
    Later(Boxed<Result<Vec<ReplyPart>, Closed>>),
}

struct PendingReply {
    api_key: i16,
    started: Instant,
    waiting: Waiting,
    /// What the request takes beyond its frame while it waits.
    request_bytes: usize,
}

/// A request whose road through the server is not decided yet.
struct Deciding {
    api_key: i16,
    started: Instant,
    decision: Boxed<Result<Decided, Closed>>,
}

pub(crate) struct Connection {
    transport: Transport,
    server: Arc<KafkaServer>,
    input: BytesMut,
    /// Bytes in `input` at the last look at the limits.
    input_before: usize,
    /// Bytes that the client had taken at the last look, and looks in a row at which it took too few.
    taken_before: u64,
    slow_looks: u32,
    /// Arrival of the first byte of the frame in `input`.
    frame_started: Option<Instant>,
    /// Since when the client has had the time to send the frame in `input`.
    frame_clock: Option<Instant>,
    /// Nothing was read at the last turn, for reasons that are not the client's.
    paused: bool,
    /// The client has closed its direction.
    input_ended: Option<Instant>,
    /// Access to request memory.
    ticket: Ticket,
    /// Memory for the frame being read, if it is a large one.
    reservation: Option<Reservation>,
    /// A small frame that has stopped half-way.
    half_read: Option<Held>,
    deciding: Option<Deciding>,
    replies: VecDeque<PendingReply>,
    /// Of answers that are ready and wait for an earlier one.
    replies_bytes: u64,
    /// Of requests that wait.
    waiting_bytes: usize,
    outbox: Outbox,
    limits: Sleep,
    /// Asked for where a turn has ended before all was done.
    next_turn: NextTurn,
    last_request: Instant,
    /// The server is stopping: what was read is answered, nothing more is read.
    stopping: bool,
    session: Arc<ClientSession>,
}

impl Connection {
    pub(crate) fn new(
        transport: Transport,
        peer: SocketAddr,
        local: SocketAddr,
        server: Arc<KafkaServer>,
    ) -> Self {
        let outbox = Outbox::new(Arc::clone(&server.metrics));
        Self {
            transport,
            input: BytesMut::new(),
            input_before: 0,
            taken_before: 0,
            slow_looks: 0,
            frame_started: None,
            frame_clock: None,
            paused: false,
            input_ended: None,
            ticket: server.budget.ticket(),
            reservation: None,
            half_read: None,
            deciding: None,
            replies: VecDeque::new(),
            replies_bytes: 0,
            waiting_bytes: 0,
            outbox,
            limits: time::sleep(LIMITS_INTERVAL),
            next_turn: NextTurn::default(),
            last_request: Instant::now(),
            stopping: false,
            session: Arc::new(ClientSession::new(peer, local)),
            server,
        }
    }

    /// Serves the connection to its end, and says why it ended.
    pub(crate) async fn run(mut self) -> Closed {
        let mut stopping = self.server.node.stopping();
        let closed = loop {
            let serving = !self.stopping;
            let turns = std::future::poll_fn(|cx| self.poll_turns(cx));
            select! {
                Err(closed) = turns => break closed,
                _ = stopping.changed(), if serving => self.stopping = true,
            }
        };
        self.transport.close().await;
        // Nothing of what still waits here acquires anything from now on.
        if self.session.has_share_sessions() {
            let (node, session) = (&self.server.node, &self.session);
            node.share_groups().connection_closed(node, &session.caller, session.id);
        }
        closed
    }

    /// Moves everything that can move. Never ready but with the connection's end.
    fn poll_turns(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Closed>> {
        let began = Instant::now();
        loop {
            let decided = self.poll_deciding(cx)?;
            self.poll_replies(cx)?;
            let was_full = self.outbox_is_full();
            if let Poll::Ready(Err(error)) = self.outbox.poll_send(&mut self.transport, cx) {
                return Poll::Ready(Err(error.into()));
            }
            let has_room_again = was_full && !self.outbox_is_full();
            let read = self.poll_read_if_allowed(cx)?;
            if !decided && !read && !has_room_again {
                break;
            }
            if began.elapsed() >= TURN {
                self.next_turn.ask(cx);
                break;
            }
        }
        if self.is_quiet() {
            if self.stopping {
                return Poll::Ready(Err(Closed::Stopping));
            }
            if self.input_ended.is_some() {
                return Poll::Ready(Err(Closed::ByClient));
            }
        }
        self.poll_limits(cx)
    }

    /// True if no answer is due.
    fn is_quiet(&self) -> bool {
        self.deciding.is_none() && self.replies.is_empty() && self.outbox.is_empty()
    }

    fn may_read(&self) -> bool {
        !self.stopping
            && self.input_ended.is_none()
            && self.deciding.is_none()
            && self.replies.len() < self.server.limits.in_flight_max
            && self.outbox.pending_bytes() + self.replies_bytes < OUTBOX_BYTES_MAX
            && self.waiting_bytes < WAITING_BYTES_MAX
    }

    /// True if so much waits for the socket that no further answer is made.
    fn outbox_is_full(&self) -> bool {
        self.outbox.pending_bytes() >= OUTBOX_BYTES_MAX
    }

    /// True if a request was decided.
    fn poll_deciding(&mut self, cx: &mut Context<'_>) -> Result<bool, Closed> {
        let Some(deciding) = &mut self.deciding else { return Ok(false) };
        let Poll::Ready(decided) = deciding.decision.as_mut().poll(cx) else { return Ok(false) };
        let (api_key, started) = (deciding.api_key, deciding.started);
        self.deciding = None;
        let decoded = self.session.take_decoded_bytes();
        let mut request_bytes = 0;
        let waiting = match decided? {
            Decided::NoReply => {
                self.server.metrics.answered(api_key, started.elapsed());
                return Ok(true);
            }
            Decided::Reply(parts) => {
                self.replies_bytes += bytes_of(&parts);
                Waiting::Ready(parts)
            }
            Decided::Later(promise) => {
                request_bytes = decoded;
                self.waiting_bytes += decoded;
                Waiting::Later(promise)
            }
        };
        self.replies.push_back(PendingReply { api_key, started, waiting, request_bytes });
        Ok(true)
    }

    /// Moves answers that are ready, and that no earlier one holds up, to the outbox. What is to be made later is not made before there is
    /// room for it.
    fn poll_replies(&mut self, cx: &mut Context<'_>) -> Result<(), Closed> {
        loop {
            let outbox_is_full = self.outbox_is_full();
            let Some(head) = self.replies.front_mut() else { return Ok(()) };
            if let Waiting::Later(promise) = &mut head.waiting {
                if outbox_is_full {
                    return Ok(());
                }
                let Poll::Ready(parts) = promise.as_mut().poll(cx) else { return Ok(()) };
                let parts = parts?;
                self.replies_bytes += bytes_of(&parts);
                self.waiting_bytes -= std::mem::take(&mut head.request_bytes);
                head.waiting = Waiting::Ready(parts);
            }
            let Some(PendingReply { api_key, started, waiting: Waiting::Ready(parts), .. }) =
                self.replies.pop_front()
            else {
                return Ok(());
            };
            self.replies_bytes -= bytes_of(&parts);
            self.outbox.push(api_key, started, parts);
        }
    }

    /// True if a frame began or something was read.
    fn poll_read_if_allowed(&mut self, cx: &mut Context<'_>) -> Result<bool, Closed> {
        if !self.may_read() {
            self.paused = true;
            return Ok(false);
        }
        if std::mem::take(&mut self.paused) && self.frame_clock.is_some() {
            // What was left in the socket meanwhile is not late.
            self.frame_clock = Some(Instant::now());
        }
        self.poll_read(cx)
    }

    /// Takes the next frame out of the buffer, or reads more into it. True if either happened.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Result<bool, Closed> {
        if self.half_read.as_ref().is_some_and(Held::is_given_up) {
            return Err(Closed::HalfRead);
        }
        let missing = match self.frame_bytes()? {
            Some(frame) if self.input.len() >= frame => {
                self.begin_frame(frame);
                return Ok(true);
            }
            Some(frame) => {
                let Poll::Ready(admitted) = self.poll_admission(frame, cx) else { return Ok(false) };
                admitted.min(frame) - self.input.len()
            }
            None => 0,
        };
        let room = missing.max(READ_BYTES);
        let Poll::Ready(count) = self.transport.poll_read(&mut self.input, room, cx)? else {
            self.count_half_read(cx);
            return Ok(false);
        };
        let now = Instant::now();
        if count == 0 {
            self.input_ended = Some(now);
            return Ok(true);
        }
        self.frame_started.get_or_insert(now);
        self.frame_clock.get_or_insert(now);
        self.server.metrics.bytes_received.inc_by(count as u64);
        Ok(true)
    }

    /// Nothing more comes for now: what there is of a small frame takes memory that was not asked for.
    fn count_half_read(&mut self, cx: &Context<'_>) {
        if self.input.is_empty() || self.reservation.as_ref().is_some_and(|held| held.bytes() > 0) {
            self.half_read = None;
            return;
        }
        if self.input.len() < FEW_BYTES && self.input.capacity() > 2 * FEW_BYTES {
            self.input = BytesMut::from(&self.input[..]);
        }
        let bytes = self.input.capacity();
        if self.half_read.as_ref().is_none_or(|held| held.bytes() != bytes) {
            self.half_read = None;
            let address = self.session.peer.ip();
            self.half_read = Some(self.server.half_read.hold(address, bytes, Instant::now(), cx.waker()));
        }
    }

    /// Length of the frame in front of the buffer with its length field, `None` while that has not arrived, or not enough of the frame to
    /// tell how long it may be.
    fn frame_bytes(&self) -> Result<Option<usize>, Closed> {
        let Some(prefix) = self.input.first_chunk::<4>() else { return Ok(None) };
        let length = i32::from_be_bytes(*prefix);
        let limits = &self.server.limits;
        let (max, other_max) = (limits.request_bytes_max, limits.other_bytes_max);
        let bytes = match usize::try_from(length) {
            Ok(bytes) if bytes > 0 && length <= max => 4 + bytes,
            _ if prefix[..2] == TLS_HANDSHAKE => return Err(Closed::TlsOnPlain),
            _ => return Err(Closed::FrameLength { length, max }),
        };
        if length <= other_max {
            return Ok(Some(bytes));
        }
        match self.input.get(4..6) {
            None => Ok(None),
            Some(key) if key == ApiKey::Produce.code().to_be_bytes() => Ok(Some(bytes)),
            Some(_) => Err(Closed::OtherLength { length, max: other_max }),
        }
    }

    /// How many bytes of the frame in front may be read; more than there are already. Small frames need no admission: each connection's read
    /// buffer is as large.
    fn poll_admission(&mut self, frame: usize, cx: &Context<'_>) -> Poll<usize> {
        if frame <= SMALL_FRAME_BYTES {
            return Poll::Ready(frame);
        }
        let reservation = self.reservation.get_or_insert_with(|| self.server.budget.take(0));
        let admitted = reservation.bytes().max(SMALL_FRAME_BYTES);
        if self.input.len() < admitted {
            return Poll::Ready(admitted);
        }
        let was_waiting = self.ticket.is_waiting();
        // The buffer may have had room for more than was admitted.
        let step = (admitted.max(self.input.len()) * ADMITTED_TIMES).min(frame);
        match self.ticket.poll_grow(reservation, step, frame, cx) {
            Poll::Ready(()) => {
                if was_waiting {
                    // Waiting for memory was not the client's fault: its time to send the rest begins now.
                    self.frame_clock = Some(Instant::now());
                }
                Poll::Ready(reservation.bytes())
            }
            Poll::Pending => {
                if !was_waiting {
                    self.server.metrics.request_memory_waits.inc();
                }
                Poll::Pending
            }
        }
    }

    fn begin_frame(&mut self, frame: usize) {
        let now = Instant::now();
        let started = self.frame_started.take().unwrap_or(now);
        self.half_read = None;
        let mut bytes = self.input.split_to(frame).freeze();
        let next_started = (!self.input.is_empty()).then_some(now);
        (self.frame_started, self.frame_clock) = (next_started, next_started);
        self.last_request = now;
        let body: Bytes = bytes.split_off(4);
        let api_key = body.first_chunk::<2>().map_or(-1, |key| i16::from_be_bytes(*key));
        let request = RequestFrame { body, reservation: self.reservation.take() };
        let (server, session) = (Arc::clone(&self.server), Arc::clone(&self.session));
        let decision = Box::pin(decide(server, session, request));
        self.deciding = Some(Deciding { api_key, started, decision });
    }

    fn poll_limits(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Closed>> {
        while Pin::new(&mut self.limits).poll(cx).is_ready() {
            self.check_limits()?;
            self.limits.reset(time::Instant::now() + LIMITS_INTERVAL);
        }
        Poll::Pending
    }

    fn check_limits(&mut self) -> Result<(), Closed> {
        let limits = &self.server.limits;
        let arrived = self.input.len().saturating_sub(self.input_before);
        self.input_before = self.input.len();
        let holds_memory = self.reservation.as_ref().is_some_and(|reservation| reservation.bytes() > 0);
        if holds_memory
            && self.may_read()
            && !self.ticket.is_waiting()
            && self.frame_clock.is_some_and(|since| since.elapsed() >= 2 * LIMITS_INTERVAL)
            && arrived < LEAST_BYTES
            && self.server.budget.has_line()
        {
            return Err(Closed::SlowRequest);
        }
        if self.outbox.stalled_since().is_some_and(|since| since.elapsed() >= limits.response_write_timeout) {
            return Err(Closed::SlowReader);
        }
        let taken =
            self.outbox.taken_bytes() - std::mem::replace(&mut self.taken_before, self.outbox.taken_bytes());
        let is_slow =
            taken < LEAST_ANSWER_BYTES && self.outbox.holds_room() && self.server.aside.is_short_of_room();
        self.slow_looks = if is_slow { self.slow_looks + 1 } else { 0 };
        if self.slow_looks > SLOW_LOOKS {
            return Err(Closed::SlowReader);
        }
        if self.input_ended.is_some_and(|since| since.elapsed() >= HALF_CLOSED_MAX) {
            return Err(Closed::ByClient);
        }
        // Bytes that are left in the socket are not late; what was read of a frame must be followed by the rest, even
        // while answers to earlier requests are due.
        if let Some(since) = self.frame_clock.filter(|_| self.may_read() && !self.ticket.is_waiting())
            && since.elapsed() >= limits.request_read_timeout
        {
            return Err(Closed::SlowRequest);
        }
        if !self.is_quiet() || self.frame_clock.is_some() {
            return Ok(());
        }
        if self.last_request.elapsed() >= limits.idle_max {
            return Err(Closed::Idle);
        }
        if self.input.is_empty() && self.last_request.elapsed() >= LIMITS_INTERVAL {
            // An idle connection keeps no buffer.
            self.input = BytesMut::new();
        }
        Ok(())
    }
}

fn bytes_of(parts: &[ReplyPart]) -> u64 {
    let bytes = |part: &ReplyPart| match part {
        ReplyPart::Bytes(bytes) => bytes.len() as u64,
        ReplyPart::File(extent) => extent.bytes(),
        ReplyPart::Room(_) => 0,
    };
    parts.iter().map(bytes).sum()
}
