//! One Kafka connection. It reads frames, decides requests in order, and sends answers in the same order.
//!
//! The whole connection is one task. Each turn moves everything that can move: the request being decided,
//! answers that became ready, bytes to and from the socket. Requests are decided one after the other. An
//! answer that has to wait (for a sync, for data to arrive) does not block the decision of the next request.
//! Answers leave in the order of their requests, as the protocol demands.
//!
//! A client that violates a quota gets its answer at once. Then the connection is not read for a while
//! (KIP-219). Requests that were read before are still answered.
//!
//! The limits are: requests in flight, bytes in the outbox, memory of frames being read (see `budget`), time
//! for a started frame to arrive, time for the socket to accept an answer, and idle time.

use std::collections::VecDeque;
use std::future::Future;
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
use crate::work;
use tailrace_env::aside::TURN;
use tailrace_env::budget::{RequestBudget, Reservation, SMALL_FRAME_BYTES, Ticket};
use tailrace_env::task::NextTurn;

/// Free room in the read buffer. The buffer grows to a frame's size once that size is known and admitted.
const READ_BYTES: usize = 16 * 1024;

/// The connection stops reading while more bytes than this wait for the socket or for an earlier answer.
/// Record batches in files count too, because they show how far the client lags.
const OUTBOX_BYTES_MAX: u64 = 1024 * 1024;

/// The connection stops reading while requests that wait for their answers take more memory than this. A few
/// bytes of a frame can decode to many bytes of memory.
const WAITING_BYTES_MAX: usize = 256 * 1024;

/// A partial frame smaller than this takes no more memory than this while it waits for the rest.
const FEW_BYTES: usize = 2 * 1024;

/// Factor by which the admitted part of a large frame grows beyond what has arrived.
const ADMITTED_TIMES: usize = 4;

/// Bytes of a large frame that must arrive between two limit checks while other connections wait for memory.
const LEAST_BYTES: usize = 64 * 1024;

/// Interval at which a quiet connection checks its time limits.
const LIMITS_INTERVAL: Duration = Duration::from_secs(1);

/// Time for pending answers after the client has closed its sending side. A client that is gone altogether
/// looks the same until the server sends to it.
const HALF_CLOSED_MAX: Duration = Duration::from_secs(5);

/// Bytes of an answer that the client must take between two limit checks while others wait for room.
const LEAST_ANSWER_BYTES: u64 = 1024 * 1024;

/// Consecutive checks at which the client may take less than that. One more closes the connection.
const SLOW_LOOKS: u32 = 2;

/// First bytes of every TLS client. As a frame length they exceed the default limit.
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
    /// Memory that the request takes beyond its frame while it waits.
    request_bytes: usize,
}

/// A request that is still being decided.
struct Deciding {
    api_key: i16,
    started: Instant,
    decision: Boxed<Result<Decided, Closed>>,
}

pub(crate) struct Connection {
    transport: Transport,
    server: Arc<KafkaServer>,
    input: BytesMut,
    /// Bytes in `input` at the last limit check.
    input_before: usize,
    /// Bytes that the client had taken at the last limit check, and the number of consecutive checks with too
    /// few.
    taken_before: u64,
    slow_looks: u32,
    /// Arrival time of the first byte of the frame in `input`.
    frame_started: Option<Instant>,
    /// Start of the client's time limit for the frame in `input`.
    frame_clock: Option<Instant>,
    /// The last turn did not read, for reasons that are not the client's.
    paused: bool,
    /// Time at which the client closed its sending side.
    input_ended: Option<Instant>,
    /// Access to the memory for the frame being read: to that of logins until the client is logged in.
    ticket: Ticket,
    is_login_frame: bool,
    /// Memory for the frame being read, if it is large.
    reservation: Option<Reservation>,
    /// A small frame that has partially arrived.
    half_read: Option<Held>,
    deciding: Option<Deciding>,
    replies: VecDeque<PendingReply>,
    /// Bytes of answers that are ready but wait for an earlier one.
    replies_bytes: u64,
    /// Memory of requests that wait for their answers.
    waiting_bytes: usize,
    outbox: Outbox,
    limits: Sleep,
    /// The connection is not read before this ends, because of a quota.
    muted_until: Option<Sleep>,
    /// Schedules another turn if one ended before all work was done.
    next_turn: NextTurn,
    last_request: Instant,
    /// The reason for which the connection ends once all answers are sent.
    closing: Option<Closed>,
    /// The server is stopping. Requests that were read are still answered, but nothing more is read.
    stopping: bool,
    session: Arc<ClientSession>,
}

impl Connection {
    pub(crate) fn new(transport: Transport, session: ClientSession, server: Arc<KafkaServer>) -> Self {
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
            is_login_frame: false,
            reservation: None,
            half_read: None,
            deciding: None,
            replies: VecDeque::new(),
            replies_bytes: 0,
            waiting_bytes: 0,
            outbox,
            limits: time::sleep(LIMITS_INTERVAL),
            muted_until: None,
            next_turn: NextTurn::default(),
            last_request: Instant::now(),
            closing: None,
            stopping: false,
            session: Arc::new(session),
            server,
        }
    }

    /// Serves the connection to its end, and returns the reason for it.
    pub(crate) async fn run(mut self) -> Closed {
        let mut stopping = self.server.node.stopping();
        let closed = loop {
            let serving = !self.stopping;
            let turns = std::future::poll_fn(|cx| self.poll_counted(cx));
            select! {
                Err(closed) = turns => break closed,
                _ = stopping.changed(), if serving => self.stopping = true,
            }
        };
        self.transport.close().await;
        // The requests still waiting here must not acquire records any more.
        if self.session.has_share_sessions() {
            let (node, session) = (&self.server.node, &self.session);
            node.share_groups().connection_closed(node, session.caller(), session.id);
        }
        closed
    }

    /// Takes turns, and counts their time for the client's quota.
    fn poll_counted(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Closed>> {
        work::begin_turn();
        let polled = self.poll_turns(cx);
        self.session.work.end_turn();
        polled
    }

    /// Moves everything that can move. Ready only when the connection ends.
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
            self.poll_muted(cx);
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
            if let Some(closed) = self.closing.take() {
                return Poll::Ready(Err(closed));
            }
            if self.stopping {
                return Poll::Ready(Err(Closed::Stopping));
            }
            if self.input_ended.is_some() {
                return Poll::Ready(Err(Closed::ByClient));
            }
        }
        self.poll_limits(cx)
    }

    /// Reports whether no answer is due.
    fn is_quiet(&self) -> bool {
        self.deciding.is_none() && self.replies.is_empty() && self.outbox.is_empty()
    }

    fn may_read(&self) -> bool {
        !self.stopping
            && self.closing.is_none()
            && self.input_ended.is_none()
            && self.deciding.is_none()
            && (self.muted_until.is_none() || self.holds_memory())
            && self.replies.len() < self.server.limits.in_flight_max
            && self.outbox.pending_bytes() + self.replies_bytes < OUTBOX_BYTES_MAX
            && self.waiting_bytes < WAITING_BYTES_MAX
    }

    /// Begins and ends the time in which the connection is not read. A client that stays away for longer than
    /// an idle one may does not keep its connection for that.
    fn poll_muted(&mut self, cx: &mut Context<'_>) {
        let throttle_ms = self.session.take_throttle_ms();
        if throttle_ms > 0 {
            let wait = Duration::from_millis(throttle_ms.into()).min(self.server.limits.idle_max);
            let until = Instant::now() + wait;
            match &mut self.muted_until {
                Some(muted) if muted.deadline() >= until => {}
                Some(muted) => muted.reset(until),
                None => self.muted_until = Some(time::sleep_until(until)),
            }
        }
        if self.muted_until.as_mut().is_some_and(|muted| Pin::new(muted).poll(cx).is_ready()) {
            self.muted_until = None;
        }
    }

    /// Reports whether a large frame is being read. It is read to its end even from a client that is held up,
    /// because it takes memory for which others wait.
    fn holds_memory(&self) -> bool {
        self.reservation.as_ref().is_some_and(|reservation| reservation.bytes() > 0)
    }

    /// Reports whether so many bytes wait for the socket that no further answer is made.
    fn outbox_is_full(&self) -> bool {
        self.outbox.pending_bytes() >= OUTBOX_BYTES_MAX
    }

    /// Reports whether a request was decided.
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
            Decided::Last(parts, closed) => {
                self.replies_bytes += bytes_of(&parts);
                self.closing = Some(closed);
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

    /// Moves ready answers that no earlier one blocks to the outbox. A promised answer is not polled while
    /// the outbox is full.
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

    /// Reports whether a frame started or something was read.
    fn poll_read_if_allowed(&mut self, cx: &mut Context<'_>) -> Result<bool, Closed> {
        if !self.may_read() {
            self.paused = true;
            return Ok(false);
        }
        if std::mem::take(&mut self.paused) && self.frame_clock.is_some() {
            // The client is not late for the time in which the server did not read.
            self.frame_clock = Some(Instant::now());
        }
        self.poll_read(cx)
    }

    /// Takes the next frame out of the buffer, or reads more into it. Reports whether either happened.
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

    /// Counts the memory of a partial small frame. Nothing more arrives for now, and the frame holds memory
    /// that was not reserved.
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

    /// Length of the first frame in the buffer, including its length field. `None` until that field has
    /// arrived, and as much of the frame as is needed to know its limit.
    fn frame_bytes(&self) -> Result<Option<usize>, Closed> {
        let Some(prefix) = self.input.first_chunk::<4>() else { return Ok(None) };
        let length = i32::from_be_bytes(*prefix);
        let limits = &self.server.limits;
        let (max, other_max) = if self.session.login().is_due() {
            (limits.login_bytes_max, limits.login_bytes_max)
        } else {
            (limits.request_bytes_max, limits.other_bytes_max)
        };
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

    /// The memory from which the frame being read takes. Strangers have their own.
    fn frame_budget(&self) -> &Arc<RequestBudget> {
        if self.is_login_frame { &self.server.login_budget } else { &self.server.budget }
    }

    /// Returns how many bytes of the first frame may be read, always more than have arrived. Small frames
    /// need no admission, because every connection's read buffer is that large.
    fn poll_admission(&mut self, frame: usize, cx: &Context<'_>) -> Poll<usize> {
        if frame <= SMALL_FRAME_BYTES {
            return Poll::Ready(frame);
        }
        if self.reservation.is_none() {
            // A login ends between two frames, so a frame keeps to the budget in which it began.
            self.is_login_frame = self.session.login().is_due();
            self.ticket = self.frame_budget().ticket();
        }
        let budget = Arc::clone(self.frame_budget());
        let reservation = self.reservation.get_or_insert_with(|| budget.take(0));
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
                    // The client did not cause the wait for memory. Its time to send the rest starts now.
                    self.frame_clock = Some(Instant::now());
                }
                Poll::Ready(reservation.bytes())
            }
            Poll::Pending => {
                let metrics = &self.server.metrics;
                if !was_waiting && self.is_login_frame {
                    metrics.login_memory_waits.inc();
                } else if !was_waiting {
                    metrics.request_memory_waits.inc();
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
        if self.holds_memory()
            && self.may_read()
            && !self.ticket.is_waiting()
            && self.frame_clock.is_some_and(|since| since.elapsed() >= 2 * LIMITS_INTERVAL)
            && arrived < LEAST_BYTES
            && self.frame_budget().has_line()
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
        // Bytes left in the socket are not late. But a partially read frame must be followed by the rest,
        // even while answers to earlier requests are due.
        if let Some(since) = self.frame_clock.filter(|_| self.may_read() && !self.ticket.is_waiting())
            && since.elapsed() >= limits.request_read_timeout
        {
            return Err(Closed::SlowRequest);
        }
        let mut login = self.session.login();
        if login.is_late() && self.deciding.is_none() {
            return Err(Closed::SlowLogin);
        }
        if login.is_revoked(&self.server.node) {
            return Err(Closed::CredentialChanged);
        }
        drop(login);
        if !self.is_quiet() || self.frame_clock.is_some() {
            return Ok(());
        }
        if self.last_request.elapsed() >= limits.idle_max && self.muted_until.is_none() {
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
