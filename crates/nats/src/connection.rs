//! One connection: a task that reads, runs the session, and writes what others could not write.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tailrace_env::time::{Duration, Instant};
use tailrace_env::{task, time};

use tailrace_env::io::ByteStream;
use tailrace_env::net;
use tailrace_env::time::Sleep;
use tailrace_nats_wire::write_info;

use crate::auth::{self, Asker};
use crate::client::{Client, TransportKind};
use crate::close::CloseReason;
use crate::front::NatsFront;
use crate::input::Input;
use crate::jetstream;
use crate::outbuf::{Batch, OutBuffer, OwnersView, Writer};
use crate::places::ConnectionPlace;
use crate::quotas::{self, Hold};
use crate::server::NatsServer;
use crate::session::{Next, Session};
use crate::system;
use crate::websocket::{ClosingFrame, Cookies};
use tailrace_env::aside::TURN;
use tailrace_env::metrics::ReasonLabel;
use tailrace_env::task::NextTurn;

/// Number of bursts after which other tasks get a turn, even if the bursts took less time than a turn.
const BURSTS_IN_A_ROW: u32 = 8;

/// Bytes given to TLS or WebSocket, which encrypt or compress them, before other tasks get a turn.
const TURN_BYTES: usize = 256 * 1024;

/// Time for sending the last bytes to a client whose connection is being closed.
const FAREWELL_MAX: Duration = Duration::from_secs(1);

/// Interval at which deadlines are checked while something waits to be written.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// Number of bytes waiting at a connection's end from which their memory should go back to the system.
const DROPPED_MUCH: usize = 1024 * 1024;

/// The same for subscriptions, each of which takes some hundred bytes.
const SUBSCRIPTIONS_MANY: usize = 4096;

/// Number of buffers in one vectored write.
const VECTORS: usize = 16;

/// The byte stream of a connection.
pub(crate) enum Transport {
    /// A plain socket. Publishers write to it directly.
    Plain(net::Stream),
    /// A stream that only the connection's own task may use. If it can send a reason when it closes, it has a
    /// place for that reason.
    Boxed(Box<dyn ByteStream>, TransportKind, Option<ClosingFrame>),
}

enum Stream {
    Plain(net::Stream),
    Boxed { stream: Box<dyn ByteStream>, batch: Batch, unflushed: bool },
}

/// An event of the connection.
enum Event {
    Read(Next),
    View(OwnersView),
    Tick,
}

/// An open connection.
struct Connection {
    server: Arc<NatsServer>,
    client: Arc<Client>,
    session: Session,
    stream: Stream,
    closing: Option<ClosingFrame>,
    input: Input,
    wanted: usize,
    sleep: Sleep,
    opened: Instant,
    last_input: Instant,
    /// The connection is not read before this ends, because of a quota.
    hold: Hold,
    nonce: String,
    cookies: Cookies,
    bursts: u32,
    /// Start of this turn's first burst. `None` if other tasks have had a turn since, or if there was nothing
    /// to do.
    turn: Option<Instant>,
    /// Schedules another turn if one ended before everything was written.
    next_turn: NextTurn,
    place: ConnectionPlace,
}

impl Drop for Connection {
    /// However the connection ended, even by a bug: stops deliveries to it and removes its subscriptions.
    fn drop(&mut self) {
        self.client.out.release(CloseReason::Internal);
        while self.session.leave(&self.server.front) {}
    }
}

/// The parameters of a new connection.
pub(crate) struct Opening {
    pub(crate) id: u64,
    pub(crate) peer: SocketAddr,
    pub(crate) transport: Transport,
    /// The nonce that clients with an nkey sign. Empty if none is needed.
    pub(crate) nonce: String,
    /// Whether INFO was sent before the TLS handshake.
    pub(crate) info_sent: bool,
    /// Credentials for what CONNECT leaves out.
    pub(crate) cookies: Cookies,
    /// The certificate that the client shows (DER), if certificates are looked at.
    pub(crate) certificate: Option<Arc<[u8]>>,
    pub(crate) place: ConnectionPlace,
}

/// Serves one connection over any transport.
pub(crate) async fn serve_one(server: Arc<NatsServer>, opening: Opening) {
    let front = &server.front;
    front.metrics().connections_accepted.inc();
    let connection = Connection::new(&server, opening);
    let client = Arc::clone(connection.client());
    let _registered = front.register(&client);
    tracing::debug!(client = client.id, caller = %client.caller(), "NATS connection opened");
    let reason = connection.run().await;
    quotas::leaves(&server, &client);
    let caller = client.caller();
    front.monitor().ended(&client, reason);
    if client.permissions().is_some() {
        system::disconnected(front, &client, reason).await;
    }
    if reason.is_slow_consumer() {
        front.metrics().slow_consumers.inc();
        let name = client.said().map(|said| said.name.clone()).unwrap_or_default();
        tracing::warn!(client = client.id, %caller, name, %reason, "slow consumer disconnected");
    } else {
        tracing::debug!(client = client.id, %caller, %reason, "NATS connection closed");
    }
    if !reason.is_ordinary() {
        let reason = reason.label();
        front.metrics().connections_cut.get_or_create(&ReasonLabel { reason }).inc();
    }
}

impl Connection {
    fn new(server: &Arc<NatsServer>, opening: Opening) -> Self {
        let front = &server.front;
        let limits = front.limits().out;
        let mut closing = None;
        let (stream, out, kind) = match opening.transport {
            Transport::Plain(socket) => {
                let (reader, writer) = socket.into_split();
                let out = OutBuffer::new(limits, Some(Arc::new(writer)));
                (Stream::Plain(reader), out, TransportKind::Plain)
            }
            Transport::Boxed(stream, kind, frame) => {
                closing = frame;
                let stream = Stream::Boxed { stream, batch: Batch::default(), unflushed: false };
                (stream, OutBuffer::new(limits, None), kind)
            }
        };
        let client = Arc::new(Client::new(opening.id, opening.peer, kind, out));
        if !opening.info_sent {
            let mut info = front.info(&client);
            info.nonce.clone_from(&opening.nonce);
            client.out.append_control(|out| write_info(out, &info));
        }
        let now = Instant::now();
        let asker = Asker {
            node: Arc::downgrade(&server.node),
            client: client.caller(),
            connection: client.connection(),
            certificate: opening.certificate,
        };
        Self {
            session: Session::new(front, &client, asker),
            server: Arc::clone(server),
            client,
            stream,
            closing,
            input: Input::default(),
            wanted: 0,
            sleep: time::sleep(Duration::ZERO),
            opened: now,
            last_input: now,
            hold: Hold::default(),
            nonce: opening.nonce,
            cookies: opening.cookies,
            bursts: 0,
            turn: None,
            next_turn: NextTurn::default(),
            place: opening.place,
        }
    }

    fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Serves the connection to its end, and returns the reason for it.
    async fn run(mut self) -> CloseReason {
        self.flush();
        let reason = self.serve().await;
        // Messages published before the end are still captured.
        self.settle().await;
        self.begin_api_calls();
        self.session.farewell(reason);
        self.say_goodbye(reason).await;
        let reason = self.client.out.release(reason);
        let frees_much = self.client.out.dropped() >= DROPPED_MUCH
            || self.session.subscription_count() >= SUBSCRIPTIONS_MANY;
        while self.session.leave(&self.server.front) {
            task::yield_now().await;
        }
        if frees_much {
            self.front().freed_much();
        }
        reason
    }

    async fn serve(&mut self) -> CloseReason {
        loop {
            let event = std::future::poll_fn(|cx| self.poll_event(cx)).await;
            let reason = match event {
                Event::Read(next) => self.after_read(next).await,
                Event::View(view) => self.look(view).await,
                Event::Tick => self.tick(),
            };
            if let Some(reason) = reason {
                return reason;
            }
        }
    }

    fn front(&self) -> &NatsFront {
        &self.server.front
    }

    // ---- events ----

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        let view = self.client.out.poll_owner(cx);
        if view.closed.is_some() || view.signals != Default::default() {
            return Poll::Ready(Event::View(view));
        }
        if let Poll::Ready(Err(_)) = self.poll_output(&view, cx) {
            self.client.out.close(CloseReason::WriteError);
        }
        if let Poll::Ready(next) = self.poll_input(cx) {
            return Poll::Ready(Event::Read(next));
        }
        if view.pending {
            self.sooner(Instant::now() + WATCH_INTERVAL);
        }
        if Pin::new(&mut self.sleep).poll(cx).is_pending() {
            self.turn = None;
            return Poll::Pending;
        }
        Poll::Ready(Event::Tick)
    }

    async fn look(&mut self, view: OwnersView) -> Option<CloseReason> {
        while view.signals.expired && self.session.remove_expired(&self.server.front) {
            task::yield_now().await;
        }
        if view.signals.lame_duck {
            self.session.send_info(&self.server.front, true);
            self.flush();
        }
        if view.signals.info {
            self.session.send_news(&self.server.front);
            self.flush();
        }
        if view.signals.limits {
            self.session.follow_limits(&self.server.front);
        }
        if view.signals.rights {
            self.session.begin_check();
            while self.session.check_some(&self.server.front) {
                task::yield_now().await;
            }
            self.flush();
        }
        if view.signals.measure && self.session.measure_round_trip(self.opened) {
            self.flush();
        }
        view.closed.or(view.signals.finish)
    }

    // ---- input ----

    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        if self.is_held(cx) {
            return Poll::Pending;
        }
        let read = match &mut self.stream {
            Stream::Plain(reader) => self.input.poll_read(reader, self.wanted, cx),
            Stream::Boxed { stream, .. } => self.input.poll_read(&mut **stream, self.wanted, cx),
        };
        match ready!(read) {
            Ok(0) => Poll::Ready(Next::Close(CloseReason::Client)),
            Err(_) => Poll::Ready(Next::Close(CloseReason::ReadError)),
            Ok(_) => {
                self.last_input = Instant::now();
                // A client that sends something is alive, even if it does not answer PINGs.
                self.session.pings_unanswered = 0;
                if self.input.unused().len() < self.wanted {
                    self.turn.get_or_insert(self.last_input);
                    return Poll::Ready(Next::Read(self.wanted));
                }
                self.session.burst.begin(self.last_input);
                Poll::Ready(self.process(self.last_input))
            }
        }
    }

    /// Reports whether the client is beyond a quota, so that nothing is read from it for now.
    fn is_held(&mut self, cx: &mut Context<'_>) -> bool {
        let interval = self.server.front.limits().ping_interval;
        if let Some(now) = self.hold.poll(&self.client, interval, cx) {
            self.forgive_silence(now);
        }
        self.hold.is_on()
    }

    /// The client may have sent something that was not read.
    fn forgive_silence(&mut self, now: Instant) {
        (self.last_input, self.session.pings_unanswered) = (now, 0);
    }

    /// Processes what was read, until the turn, which starts at `now`, is over.
    fn process(&mut self, now: Instant) -> Next {
        self.turn.get_or_insert(now);
        let (used, next) = self.session.process(&self.server.front, self.input.unused(), now);
        self.input.consume(used);
        if !self.session.is_unauthenticated() {
            self.place.has_logged_in();
        }
        next
    }

    async fn after_read(&mut self, mut next: Next) -> Option<CloseReason> {
        loop {
            self.finish_burst();
            // Captured messages wait for the end of the burst, so that they become one batch for each
            // partition.
            if !matches!(next, Next::Rest | Next::Again) && self.session.has_to_wait() {
                self.settle().await;
            }
            self.begin_api_calls();
            match next {
                Next::Read(wanted) => {
                    // The parser has used all of its input, and needs the next byte.
                    self.wanted = wanted;
                    self.bursts += 1;
                    if self.bursts.is_multiple_of(BURSTS_IN_A_ROW) || self.is_turn_over() {
                        self.rest().await;
                    }
                    return None;
                }
                Next::Close(reason) => return Some(reason),
                Next::Rest | Next::Again => {
                    self.rest().await;
                    next = self.process(Instant::now());
                }
                Next::Pong => {
                    self.session.send_pong(&self.server.front);
                    next = self.process(Instant::now());
                }
                Next::Authenticate(mut options) => {
                    self.cookies.fill(&mut options);
                    // A password may be slow to check, and many clients may wait for a check.
                    let deadline = self.opened + self.front().limits().auth_timeout;
                    let answer =
                        auth::admit(self.front(), &self.client, &options, &self.nonce, self.session.asker());
                    match time::timeout_at(deadline, answer).await {
                        Ok(Ok(permissions)) => {
                            let front = &self.server.front;
                            if let Err(reason) = self.session.authenticated(front, *options, permissions) {
                                return Some(reason);
                            }
                            if self.is_revoked() {
                                return Some(CloseReason::Revoked);
                            }
                            if let Some(at) = self.client.permissions().and_then(|user| user.ends_at()) {
                                self.sooner(at);
                            }
                            let (client, caller) = (self.client.id, self.client.caller());
                            tracing::debug!(client, %caller, "a NATS client was authenticated");
                            system::connected(&self.server.front, &self.client).await;
                        }
                        Ok(Err(refused)) => {
                            let (client, caller) = (self.client.id, self.client.caller());
                            // The audit log has it, within its bounds.
                            tracing::debug!(client, %caller, reason = %refused, "a NATS client failed to authenticate");
                            let delay = self.session.asker().failed(self.front().auth(), &refused);
                            if !delay.is_zero() {
                                time::sleep(delay).await;
                            }
                            system::refused(self.front(), &self.client, &options, CloseReason::Authorization)
                                .await;
                            self.session.denied();
                            return Some(CloseReason::Authorization);
                        }
                        Err(_) => {
                            self.session.asker().late(self.front().auth(), &options);
                            if self.front().auth().callouts().is_none() {
                                return Some(CloseReason::AuthenticationTimeout);
                            }
                            // As in nats-server: a service that does not answer has refused.
                            system::refused(self.front(), &self.client, &options, CloseReason::Authorization)
                                .await;
                            self.session.denied();
                            return Some(CloseReason::Authorization);
                        }
                    }
                    next = self.process(Instant::now());
                }
            }
        }
    }

    /// Reports whether the credential of the login was changed or removed while it was checked. Later changes
    /// are found by [`crate::follow_access`], to which the login is visible by now.
    fn is_revoked(&self) -> bool {
        let login = self.client.permissions().and_then(|permissions| permissions.login());
        login.is_some_and(|login| !self.server.node.login_holds(login))
    }

    /// Reports whether this turn, including what its bursts wrote, has lasted long enough.
    fn is_turn_over(&self) -> bool {
        self.turn.is_some_and(|began| began.elapsed() >= TURN)
    }

    /// Lets other tasks have a turn.
    async fn rest(&mut self) {
        task::yield_now().await;
        self.turn = None;
    }

    /// Sends what the burst put into buffers, including this client's own.
    fn finish_burst(&mut self) {
        let server = Arc::clone(&self.server);
        self.session.burst.finish(server.front.metrics());
        quotas::published(&server, &self.client, self.session.take_published_bytes());
        for question in self.session.questions() {
            task::spawn(system::answer(Arc::clone(&server), question));
        }
        self.client.active(self.last_input);
        self.flush();
    }

    /// Answers requests to JetStream's API, after what was published before them was captured.
    fn begin_api_calls(&mut self) {
        for call in self.session.api_calls() {
            task::spawn(jetstream::answer(Arc::clone(&self.server), call));
        }
    }

    /// Appends captured messages, and waits for consumers that are behind. This client's own output continues
    /// meanwhile.
    async fn settle(&mut self) {
        let server = Arc::clone(&self.server);
        if !self.session.capture.is_empty() {
            let mut capture = std::mem::take(&mut self.session.capture);
            let caller = self.client.caller();
            self.while_writing(capture.append(&server, &caller)).await;
            self.session.capture = capture;
        }
        if let Some(crowded) = self.session.burst.take_crowded() {
            self.while_writing(crowded.wait(server.front.metrics())).await;
        }
    }

    async fn while_writing<F: Future>(&mut self, work: F) -> F::Output {
        let mut work = pin!(work);
        std::future::poll_fn(|cx| {
            let view = self.client.out.poll_owner(cx);
            self.client.out.put_back_signals(view.signals);
            if let Poll::Ready(Err(_)) = self.poll_output(&view, cx) {
                self.client.out.close(CloseReason::WriteError);
            }
            let done = work.as_mut().poll(cx);
            if done.is_pending() {
                self.turn = None;
            }
            done
        })
        .await
    }

    // ---- output ----

    /// Writes to a plain socket. Returns true if something is left for `poll_output`, which the task calls
    /// next.
    fn flush(&mut self) -> bool {
        if matches!(self.stream, Stream::Plain(_)) {
            let metrics = self.server.front.metrics();
            return self.client.out.flush(Writer::Owner, |took| metrics.responded(took));
        }
        // A boxed stream is only written to in `poll_output`.
        false
    }

    /// Writes what no other task writes. `Ready(Ok)` if everything is written, or the rest is on its way to a
    /// plain socket.
    fn poll_output(&mut self, view: &OwnersView, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Stream::Boxed { stream, batch, unflushed } = &mut self.stream else {
            if view.has_work && self.flush() {
                self.next_turn.ask(cx);
            }
            return Poll::Ready(Ok(()));
        };
        let mut bytes = 0;
        loop {
            if bytes >= TURN_BYTES {
                self.next_turn.ask(cx);
                return Poll::Pending;
            }
            if batch.is_empty() {
                *batch = self.client.out.take();
            }
            if batch.is_empty() {
                break;
            }
            let mut vectors = [IoSlice::new(&[]); VECTORS];
            let count = batch.vectors(&mut vectors);
            let written = ready!(Pin::new(&mut **stream).poll_write_vectored(cx, &vectors[..count]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            batch.advance(written);
            bytes += written;
            *unflushed = true;
            if let Some(took) = self.client.out.written(written) {
                self.server.front.metrics().responded(took);
            }
        }
        if *unflushed {
            ready!(Pin::new(&mut **stream).poll_flush(cx))?;
            *unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what is left, for a short time.
    async fn say_goodbye(&mut self, reason: CloseReason) {
        if reason.is_slow_consumer() || matches!(reason, CloseReason::WriteError) {
            return;
        }
        if let Some(closing) = &self.closing {
            closing.set(reason);
        }
        self.client.out.begin_goodbye();
        self.flush();
        let rest = std::future::poll_fn(|cx| {
            let view = self.client.out.poll_owner(cx);
            let written = ready!(self.poll_output(&view, cx));
            if written.is_err() || view.closed.is_some() || self.client.out.pending() == 0 {
                return Poll::Ready(());
            }
            Poll::Pending
        });
        // A client that does not take it in time does not get it.
        let _ = time::timeout(FAREWELL_MAX, rest).await;
        if let Stream::Boxed { stream, .. } = &mut self.stream {
            let closing = std::future::poll_fn(|cx| Pin::new(&mut **stream).poll_shutdown(cx));
            let _ = time::timeout(FAREWELL_MAX, closing).await;
        }
    }

    // ---- deadlines ----

    fn tick(&mut self) -> Option<CloseReason> {
        let now = Instant::now();
        let limits = *self.front().limits();
        if self.client.out.deadline().is_some_and(|deadline| deadline <= now) {
            return Some(CloseReason::SlowConsumerDeadline);
        }
        if self.hold.is_on() {
            self.forgive_silence(now);
        }
        let mut next = now + limits.ping_interval;
        if self.session.is_unauthenticated() {
            let deadline = self.opened + limits.auth_timeout;
            if deadline <= now {
                return Some(CloseReason::AuthenticationTimeout);
            }
            next = next.min(deadline);
        }
        if let Some(ends_at) = self.client.permissions().and_then(|user| user.ends_at()) {
            if ends_at <= now {
                return Some(CloseReason::Expired);
            }
            next = next.min(ends_at);
        }
        if self.last_input + limits.ping_interval / 4 <= now {
            self.input.forget();
        }
        let due = self.ping_due(limits.ping_interval);
        if due <= now {
            if self.session.pings_unanswered >= limits.pings_max {
                return Some(CloseReason::Stale);
            }
            self.session.send_ping();
            self.flush();
        }
        next = next.min(self.ping_due(limits.ping_interval));
        self.sleep.reset(next.max(now + Duration::from_millis(1)));
        None
    }

    /// Returns when the next PING is due. An active client needs none.
    fn ping_due(&self, interval: Duration) -> Instant {
        self.last_input + interval * (self.session.pings_unanswered + 1)
    }

    fn sooner(&mut self, at: Instant) {
        if self.sleep.deadline() > at {
            self.sleep.reset(at);
        }
    }
}
