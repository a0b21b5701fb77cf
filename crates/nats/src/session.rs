//! The verbs of one client: turns parsed operations into subscriptions, deliveries and replies.
//!
//! The connection's task owns the session, and nothing here waits. Work that has to wait (credentials that
//! are slow to check, capture, slow consumers) is passed to the connection.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use tailrace_env::time::{Duration, Instant};

use tailrace_nats_wire::{
    ClientOp, ClientParser, ConnectOptions, Limits, Message, NO_RESPONDERS, ParseError, ProtocolError, Step,
    write_error, write_info,
};
use tailrace_subjects::{Dialect, Pattern, SubscribeError};

use crate::auth::{Asker, Permissions, ReplyRight};
use crate::burst::Burst;
use crate::capture::CaptureBurst;
use crate::client::Client;
use crate::close::CloseReason;
use crate::fan_out::{FanOut, Turn};
use crate::front::NatsFront;
use crate::mapping;
use crate::reserved;
use crate::router::{Begun, Route, deliver_status};
use crate::shapes::{Held, Shapes};
use crate::subscription::{ClientSubscription, Sid};
use crate::target::Target;
use crate::trace::Trace;
use tailrace_env::aside::TURN;
use tailrace_env::metrics::ReasonLabel;
use tailrace_node::Node;

/// Time before which a client that has had no PONG gets no PING.
const FIRST_PING_AFTER: Duration = Duration::from_secs(2);

/// The state of one client.
pub(super) struct Session {
    client: Arc<Client>,
    parser: ClientParser,
    options: ConnectOptions,
    /// Whether the credentials of every CONNECT are checked.
    asks_who: bool,
    /// Whether the client has not authenticated yet.
    unauthenticated: bool,
    /// Whether the client has sent CONNECT.
    connected: bool,
    info_sent: bool,
    permissions: Option<Arc<Permissions>>,
    asker: Asker,
    /// Subscriptions that the rules may no longer allow.
    unchecked: Vec<Sid>,
    subscriptions: HashMap<Sid, Owned>,
    shapes: Shapes,
    next_number: u64,
    /// Sids by number, for subscriptions with a limit.
    limited: HashMap<u64, Sid>,
    pub(super) burst: Burst,
    pub(super) capture: CaptureBurst,
    /// The first message of the input, if it is being delivered to very many subscriptions.
    fan_out: Option<Wide>,
    messages_in: u64,
    bytes_in: u64,
    pub(super) pings_unanswered: u32,
    ping_sent: Option<Instant>,
}

struct Owned {
    /// Its pattern, if a rule may take its permission away.
    pattern: Option<Box<[u8]>>,
    target: Arc<Target>,
    route: Route,
    shape: Held,
}

struct Wide {
    fan_out: Box<FanOut>,
    /// Whether a topic acknowledges the message.
    acknowledged: bool,
    /// Whether topics may answer to its reply subject.
    may_acknowledge: bool,
}

/// What the connection has to do next.
#[derive(Debug)]
pub(super) enum Next {
    /// Read on. The operation that has started needs this many bytes in total.
    Read(usize),
    /// Append captured messages, answer PING, then continue with the rest of the input.
    Pong,
    /// Check these credentials, then continue with the rest of the input.
    Authenticate(Box<ConnectOptions>),
    /// Let other tasks have a turn, then continue with the rest of the input.
    Rest,
    /// The same, but the first operation is not done and is read again.
    Again,
    /// Send what is left, and close.
    Close(CloseReason),
}

/// Operations after which the clock is checked.
const OPERATIONS_AT_ONCE: usize = 8;

/// Bytes after which the clock is checked. A subject of 2,000 words takes much longer than one of three.
const BYTES_AT_ONCE: usize = 4096;

/// Deliveries after which the clock is checked.
const WORK_AT_ONCE: u64 = 64;

/// Most subscriptions that are removed before other tasks get a turn. Fewer if that takes long.
const REMOVED_AT_ONCE: usize = 128;

impl Session {
    pub(super) fn new(front: &NatsFront, client: &Arc<Client>, node: Weak<Node>) -> Self {
        let limits = front.limits();
        let parser = ClientParser::new(Limits {
            control_line_max: limits.control_line_max,
            payload_max: limits.payload_max,
        });
        Self {
            client: Arc::clone(client),
            parser,
            options: ConnectOptions::default(),
            asks_who: front.auth().checks(),
            unauthenticated: front.auth().checks(),
            connected: false,
            info_sent: false,
            permissions: None,
            asker: Asker { node, client: client.caller() },
            unchecked: Vec::new(),
            subscriptions: HashMap::new(),
            shapes: Shapes::default(),
            next_number: 0,
            limited: HashMap::new(),
            burst: Burst::of_client(client.id),
            capture: CaptureBurst::default(),
            fan_out: None,
            messages_in: 0,
            bytes_in: 0,
            pings_unanswered: 0,
            ping_sent: None,
        }
    }

    /// Reports whether the last burst left work that has to wait.
    pub(super) fn has_to_wait(&self) -> bool {
        !self.capture.is_empty() || self.burst.is_crowded()
    }

    pub(super) fn asker(&self) -> &Asker {
        &self.asker
    }

    pub(super) fn is_unauthenticated(&self) -> bool {
        self.unauthenticated
    }

    /// Executes the complete operations of `input`, until the turn that started at `began` is over. Returns
    /// the number of bytes used.
    pub(super) fn process(&mut self, front: &NatsFront, input: &[u8], began: Instant) -> (usize, Next) {
        let mut used = 0;
        let (mut operations, mut used_before, mut work_before) = (0, 0, self.burst.work());
        let next = loop {
            if self.unauthenticated && begins_without_connect(&input[used..]) && !front.auth().has_guest() {
                // The rest of the operation is not waited for.
                break self.fail(&ProtocolError::AuthorizationViolation, CloseReason::Authorization);
            }
            match self.parser.next(&input[used..]) {
                Ok(Step::More(bytes)) => break Next::Read(bytes),
                Ok(Step::Done(op, bytes)) => {
                    if let Some(next) = self.carry_out(front, op, began) {
                        used += if matches!(next, Next::Again) { 0 } else { bytes };
                        break next;
                    }
                    used += bytes;
                    operations += 1;
                    let work = self.burst.work();
                    if operations >= OPERATIONS_AT_ONCE
                        || used - used_before >= BYTES_AT_ONCE
                        || work - work_before >= WORK_AT_ONCE
                    {
                        if began.elapsed() >= TURN && used < input.len() {
                            break Next::Rest;
                        }
                        (operations, used_before, work_before) = (0, used, work);
                    }
                }
                Err(error) => break self.refuse(&error),
            }
        };
        self.count(front);
        (used, next)
    }

    fn count(&mut self, front: &NatsFront) {
        let (messages, bytes) = (std::mem::take(&mut self.messages_in), std::mem::take(&mut self.bytes_in));
        if messages > 0 {
            front.metrics().messages_in.inc_by(messages);
            front.metrics().bytes_in.inc_by(bytes);
            self.client.counts.messages_in.fetch_add(messages, Ordering::Relaxed);
            self.client.counts.bytes_in.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    #[inline]
    fn carry_out(&mut self, front: &NatsFront, op: ClientOp<'_>, began: Instant) -> Option<Next> {
        if self.unauthenticated && !matches!(op, ClientOp::Connect(_) | ClientOp::Ignored) {
            match front.auth().guest(&self.asker) {
                Some(permissions) => self.become_user(permissions),
                None => {
                    return Some(
                        self.fail(&ProtocolError::AuthorizationViolation, CloseReason::Authorization),
                    );
                }
            }
        }
        match op {
            ClientOp::Publish(message) => return self.publish(front, &message, began + TURN),
            ClientOp::Connect(json) => return self.connect(front, json),
            ClientOp::Subscribe { subject, queue, sid } => self.subscribe(front, subject, queue, sid),
            ClientOp::Unsubscribe { sid, max } => self.unsubscribe(front, sid, max),
            // A client that gets PONG assumes that everything before it was processed, including captured
            // messages.
            ClientOp::Ping if !self.capture.is_empty() => return Some(Next::Pong),
            ClientOp::Ping => self.send_pong(front),
            ClientOp::Pong => self.pong(),
            ClientOp::Ignored => {}
            ClientOp::Complaint(text) => {
                tracing::debug!(client = self.client.id, text = %text.escape_ascii(), "the client reported an error");
                return Some(Next::Close(CloseReason::Complaint));
            }
        }
        None
    }

    // ---- answers ----

    #[inline]
    fn ok(&self) {
        if self.options.verbose {
            self.client.out.append_control(|out| out.extend_from_slice(b"+OK\r\n"));
        }
    }

    fn error(&self, error: &ProtocolError) {
        self.client.out.append_control(|out| write_error(out, error));
    }

    fn fail(&self, error: &ProtocolError, reason: CloseReason) -> Next {
        self.error(error);
        Next::Close(reason)
    }

    fn refuse(&self, error: &ParseError) -> Next {
        tracing::debug!(client = self.client.id, %error, "protocol violation");
        match error {
            ParseError::UnknownOperation(_) | ParseError::PayloadEnd => {
                self.fail(&ProtocolError::UnknownOperation, CloseReason::Protocol)
            }
            ParseError::ControlLine { .. } => {
                self.fail(&ProtocolError::MaximumControlLine, CloseReason::MaximumControlLine)
            }
            ParseError::Payload { .. } => {
                self.fail(&ProtocolError::MaximumPayload, CloseReason::MaximumPayload)
            }
            // nats-server sends no error either.
            ParseError::Arguments { .. } | ParseError::HeadersNotAllowed => {
                Next::Close(CloseReason::Protocol)
            }
        }
    }

    // ---- CONNECT, PING, PONG ----

    fn connect(&mut self, front: &NatsFront, json: &[u8]) -> Option<Next> {
        let options = match self.options.clone().merged(json) {
            Ok(options) => options,
            Err(error) => {
                tracing::debug!(client = self.client.id, %error, "bad CONNECT");
                return Some(Next::Close(CloseReason::Protocol));
            }
        };
        // The user may change with this CONNECT. nats-server drops the subscriptions, too.
        if self.connected && self.leave(front) {
            return Some(Next::Again);
        }
        self.connected = true;
        if self.asks_who {
            return Some(Next::Authenticate(Box::new(options)));
        }
        self.take_over(options).err().map(Next::Close)
    }

    /// Completes the CONNECT of an authenticated client. Fails, after sending the error, if the client asks
    /// for something unsupported.
    pub(super) fn authenticated(
        &mut self,
        options: ConnectOptions,
        permissions: Arc<Permissions>,
    ) -> Result<(), CloseReason> {
        self.become_user(permissions);
        self.take_over(options)
    }

    fn become_user(&mut self, permissions: Arc<Permissions>) {
        self.unauthenticated = false;
        // A client that authenticates again keeps its user.
        if self.permissions.is_none() {
            self.client.set_permissions(Arc::clone(&permissions));
            self.permissions = Some(permissions);
        }
    }

    /// Refuses a client with wrong credentials.
    pub(super) fn denied(&self) -> Next {
        self.fail(&ProtocolError::AuthorizationViolation, CloseReason::Authorization)
    }

    fn take_over(&mut self, options: ConnectOptions) -> Result<(), CloseReason> {
        if let Some((error, reason)) = refused(&options) {
            self.error(&error);
            return Err(reason);
        }
        self.burst.echo = options.echo;
        self.parser.allow_headers(options.headers);
        self.client.set_said(options.clone());
        self.options = options;
        self.ok();
        Ok(())
    }

    pub(super) fn send_pong(&mut self, front: &NatsFront) {
        self.client.out.append_control(|out| out.extend_from_slice(b"PONG\r\n"));
        // INFO after the first PING that follows CONNECT. Later PINGs get none.
        if self.connected && !std::mem::replace(&mut self.info_sent, true) {
            self.send_info(front, false);
        }
    }

    /// Sends INFO again, if the client understands that.
    pub(super) fn send_info(&self, front: &NatsFront, lame_duck: bool) {
        self.send_info_again(front, lame_duck, !lame_duck);
    }

    /// Sends INFO because nodes have joined or left. A client that has not had its first INFO after CONNECT
    /// learns of it there.
    pub(super) fn send_news(&self, front: &NatsFront) {
        if self.info_sent {
            self.send_info_again(front, false, false);
        }
    }

    fn send_info_again(&self, front: &NatsFront, lame_duck: bool, answers_connect: bool) {
        if self.options.protocol < 1 {
            return;
        }
        let mut info = front.info(&self.client);
        info.ldm |= lame_duck;
        info.connect_info = answers_connect;
        self.client.out.append_control(|out| write_info(out, &info));
    }

    fn pong(&mut self) {
        self.pings_unanswered = 0;
        if let Some(sent) = self.ping_sent.take() {
            // 0 means that the round trip was never measured.
            let us = u64::try_from(sent.elapsed().as_micros()).unwrap_or(u64::MAX).max(1);
            self.client.counts.round_trip_us.store(us, Ordering::Relaxed);
        }
    }

    /// Sends a PING if none is in flight, and if the client should understand it: it has had its first PONG,
    /// or has been connected for a while. Reports whether one was sent.
    pub(super) fn measure_round_trip(&mut self, opened: Instant) -> bool {
        let ready = self.info_sent || opened.elapsed() > FIRST_PING_AFTER;
        let send = ready && self.ping_sent.is_none() && !self.unauthenticated;
        if send {
            self.send_ping();
        }
        send
    }

    pub(super) fn send_ping(&mut self) {
        self.pings_unanswered += 1;
        self.ping_sent = Some(Instant::now());
        self.client.out.append_control(|out| out.extend_from_slice(b"PING\r\n"));
    }

    /// Sends the error for a connection that is closed by the server.
    pub(super) fn farewell(&self, reason: CloseReason) {
        match reason {
            CloseReason::Stale => self.error(&ProtocolError::StaleConnection),
            CloseReason::Revoked => self.error(&ProtocolError::AuthenticationRevoked),
            CloseReason::AuthenticationTimeout => self.error(&ProtocolError::AuthenticationTimeout),
            _ => {}
        }
    }

    // ---- PUB ----

    #[inline]
    fn publish(&mut self, front: &NatsFront, message: &Message<'_>, until: Instant) -> Option<Next> {
        if let Some(wide) = self.fan_out.take() {
            return self.fan_out(front, message, wide, until);
        }
        if self.options.pedantic && !is_literal(message.subject) {
            self.error(&ProtocolError::InvalidPublishSubject);
        }
        let trace = message.headers.map_or(Trace::None, Trace::of);
        match trace {
            Trace::To { destination, .. } if !self.may_publish(destination) => {
                self.refuse_publish(destination);
                return None;
            }
            Trace::Nowhere => return None,
            Trace::To { .. } | Trace::None => {}
        }
        self.messages_in += 1;
        self.bytes_in += (message.payload.len() + message.headers.map_or(0, <[u8]>::len)) as u64;
        if !self.may_publish(message.subject) {
            self.refuse_publish(message.subject);
            return None;
        }
        if let Some(reply) = message.reply.filter(|reply| reserved::is_reply(reply)) {
            self.error(&ProtocolError::reply_permission(reply));
            return None;
        }
        let may_acknowledge = self.may_reply_and_use_key(message)?;
        self.ok();
        if matches!(trace, Trace::To { only: true, .. }) {
            self.dry_run(front, message);
            return None;
        }
        let (router, capture, mut acknowledged) = (front.router(), &mut self.capture, false);
        let begun = router.begin_publish(&mut self.burst, &self.client, message, |binding| {
            acknowledged |= binding.acknowledges();
            capture.push(binding, &captured(message, may_acknowledge));
        });
        match begun {
            Begun::Done(deliveries) => self.published(front, message, deliveries, acknowledged),
            Begun::Wide(targets) => {
                let fan_out = Box::new(FanOut::new(targets));
                return self.fan_out(front, message, Wide { fan_out, acknowledged, may_acknowledge }, until);
            }
        }
        None
    }

    /// Delivers to some of very many subscriptions. The others follow in later turns.
    fn fan_out(
        &mut self,
        front: &NatsFront,
        message: &Message<'_>,
        mut wide: Wide,
        until: Instant,
    ) -> Option<Next> {
        let turn = Turn { burst: &mut self.burst, origin: Some(&self.client), message, here: None, until };
        let (capture, acknowledged) = (&mut self.capture, &mut wide.acknowledged);
        let captured = captured(message, wide.may_acknowledge);
        let done = wide.fan_out.go_on(front.router(), turn, |binding| {
            *acknowledged |= binding.acknowledges();
            capture.push(binding, &captured);
        });
        let Some(deliveries) = done else {
            self.fan_out = Some(wide);
            return Some(Next::Again);
        };
        self.published(front, message, deliveries, wide.acknowledged);
        None
    }

    #[inline]
    fn published(&mut self, front: &NatsFront, message: &Message<'_>, deliveries: usize, acknowledged: bool) {
        if deliveries == 0 && !acknowledged {
            self.nobody_listens(front, message);
        }
    }

    #[inline]
    fn may_publish(&self, subject: &[u8]) -> bool {
        self.permissions.as_ref().is_none_or(|user| user.may_publish(subject))
            && !reserved::is_subject(subject)
    }

    /// Checks the reply subject and the key of a message by the rules of the cluster. Returns whether topics
    /// may acknowledge it. `None`, after an error was sent, if the client may not publish it.
    #[inline]
    fn may_reply_and_use_key(&self, message: &Message<'_>) -> Option<bool> {
        match self.permissions.as_ref().filter(|permissions| permissions.has_rights()) {
            None => Some(true),
            Some(permissions) => self.check_reply_and_key(permissions, message),
        }
    }

    fn check_reply_and_key(&self, permissions: &Permissions, message: &Message<'_>) -> Option<bool> {
        let reply = message.reply.map(|reply| (reply, permissions.reply(reply)));
        if let Some((reply, ReplyRight::Refused)) = reply {
            let error = ProtocolError::reply_permission(reply);
            tracing::info!(client = self.client.id, %error, "publish refused");
            self.error(&error);
            return None;
        }
        let refused_key = mapping::with_own_key(message, |key| {
            Some(key).filter(|key| !permissions.may_use_key(message.subject, key)).map(<[u8]>::to_vec)
        });
        if let Some(key) = refused_key {
            self.refuse_publish(&key);
            return None;
        }
        Some(reply.is_none_or(|(_, right)| right == ReplyRight::Acknowledged))
    }

    fn refuse_publish(&self, subject: &[u8]) {
        let error = ProtocolError::publish_permission(subject);
        tracing::info!(client = self.client.id, %error, "publish refused");
        self.error(&error);
    }

    /// Handles a message that `nats trace` sends only to be traced. It is not delivered and not captured.
    fn dry_run(&mut self, front: &NatsFront, message: &Message<'_>) {
        front.metrics().dry_runs.inc();
        self.burst.searched();
        if !front.router().reaches_anybody(message.subject) {
            self.nobody_listens(front, message);
        }
    }

    fn nobody_listens(&mut self, front: &NatsFront, message: &Message<'_>) {
        if let Some(reply) = message.reply.filter(|_| self.options.no_responders) {
            self.answer_no_responders(front, message.subject, reply);
        }
    }

    /// Sends HMSG with status 503 to the client's own plain subscription for the reply.
    fn answer_no_responders(&mut self, front: &NatsFront, subject: &[u8], reply: &[u8]) {
        self.burst.searched();
        let Some(target) = front.router().own_subscription(&self.client, reply) else { return };
        let Target::Client(subscription) = &*target else { return };
        front.metrics().no_responders.inc();
        let headers = [NO_RESPONDERS, b"Nats-Subject: ", subject, b"\r\n\r\n"].concat();
        let answer = Message { subject: reply, reply: None, headers: Some(&headers), payload: b"" };
        deliver_status(subscription, &answer, &mut self.burst);
    }

    // ---- SUB, UNSUB ----

    fn subscribe(&mut self, front: &NatsFront, subject: &[u8], queue: Option<&[u8]>, sid: &[u8]) {
        match self.try_subscribe(front, subject, queue, sid) {
            Ok(()) => self.ok(),
            Err(error) => self.error(&error),
        }
    }

    fn try_subscribe(
        &mut self,
        front: &NatsFront,
        subject: &[u8],
        queue: Option<&[u8]>,
        sid: &[u8],
    ) -> Result<(), ProtocolError> {
        let denied = self.permissions.as_ref().is_some_and(|user| !user.may_subscribe(subject, queue));
        if denied || queue.is_some_and(reserved::is_queue) {
            let error = ProtocolError::subscribe_permission(subject, queue);
            tracing::info!(client = self.client.id, %error, "subscription refused");
            return Err(error);
        }
        let sid = Sid::new(sid);
        // Subscriptions that have had their last message may still exist.
        if self.subscriptions.get(&sid).is_some_and(Owned::has_ended) {
            self.remove(front, &sid);
        }
        if self.subscriptions.len() >= front.limits().subscriptions_max {
            self.remove_expired(front);
        }
        if self.subscriptions.len() >= front.limits().subscriptions_max {
            return Err(too_many(front, "subscriptions"));
        }
        // As in nats-server, the subject is not checked if the sid is in use.
        let Entry::Vacant(place) = self.subscriptions.entry(sid.clone()) else { return Ok(()) };
        let pattern = Pattern::parse(Dialect::Nats, subject, front.router().limits())
            .map_err(|_| ProtocolError::InvalidSubject)?;
        let shape = self.shapes.take(&pattern, front.limits().shapes_max);
        let Ok(shape) = shape else { return Err(too_many(front, "shapes")) };
        self.next_number += 1;
        let filtered =
            self.permissions.as_ref().is_some_and(|permissions| permissions.filters(subject, queue));
        let queue = queue.map(|name| front.router().queue_name(name));
        let subscription = ClientSubscription::new(&self.client, sid, self.next_number, queue, filtered);
        let (target, route) = match front.router().subscribe(&pattern, subscription) {
            Ok(subscribed) => subscribed,
            Err(error) => {
                self.shapes.release(shape);
                return Err(match error {
                    SubscribeError::Text(_) => ProtocolError::InvalidSubject,
                    _ => too_many(front, "server"),
                });
            }
        };
        let has_rights = self.permissions.as_ref().is_some_and(|permissions| permissions.has_rights());
        place.insert(Owned { pattern: has_rights.then(|| subject.into()), target, route, shape });
        self.client.counts.subscriptions.fetch_add(1, Ordering::Relaxed);
        front.metrics().subscriptions.inc();
        front.metrics().subscriptions_made.inc();
        Ok(())
    }

    fn unsubscribe(&mut self, front: &NatsFront, sid: &[u8], max: Option<u64>) {
        let sid = Sid::new(sid);
        if let Some(owned) = self.subscriptions.get(&sid)
            && let Target::Client(subscription) = &*owned.target
        {
            // The lock under which deliveries are counted, so that none comes between setting the limit and
            // reading the count.
            let ended = max.is_none_or(|max| self.client.out.locked(|| subscription.limit(max)));
            if ended {
                self.remove(front, &sid);
            } else {
                self.limited.insert(subscription.number, sid);
            }
        }
        self.ok();
    }

    fn remove(&mut self, front: &NatsFront, sid: &Sid) {
        let Some(owned) = self.subscriptions.remove(sid) else { return };
        if let Target::Client(subscription) = &*owned.target {
            self.limited.remove(&subscription.number);
            // A lookup that has found it earlier may be about to deliver.
            self.client.out.locked(|| subscription.end());
        }
        front.router().remove(owned.route);
        self.shapes.release(owned.shape);
        self.client.counts.subscriptions.fetch_sub(1, Ordering::Relaxed);
        front.metrics().subscriptions.dec();
    }

    /// Removes some of the subscriptions that have reached their limit. Reports whether there may be more.
    pub(super) fn remove_expired(&mut self, front: &NatsFront) -> bool {
        let began = Instant::now();
        for _ in 0..REMOVED_AT_ONCE / OPERATIONS_AT_ONCE {
            let expired = self.client.take_expired(OPERATIONS_AT_ONCE);
            for number in &expired {
                if let Some(sid) = self.limited.remove(number) {
                    self.remove(front, &sid);
                }
            }
            if expired.len() < OPERATIONS_AT_ONCE {
                return false;
            }
            if began.elapsed() >= TURN {
                break;
            }
        }
        true
    }

    /// Begins to check all subscriptions by the current rules.
    pub(super) fn begin_check(&mut self) {
        self.unchecked = self.subscriptions.keys().cloned().collect();
    }

    /// Checks some of the subscriptions, and removes those that the rules no longer allow. Reports whether
    /// there are more.
    pub(super) fn check_some(&mut self, front: &NatsFront) -> bool {
        let (began, permissions) = (Instant::now(), self.permissions.clone());
        while let Some(sid) = self.unchecked.pop() {
            self.check_one(front, permissions.as_deref(), &sid);
            if began.elapsed() >= TURN {
                break;
            }
        }
        !self.unchecked.is_empty()
    }

    fn check_one(&mut self, front: &NatsFront, permissions: Option<&Permissions>, sid: &Sid) {
        let Some(owned) = self.subscriptions.get(sid).filter(|owned| !owned.has_ended()) else { return };
        let Some(pattern) = &owned.pattern else { return };
        let queue = match &*owned.target {
            Target::Client(subscription) => subscription.queue.as_deref(),
            Target::Topic(_) | Target::Node(_) => None,
        };
        if permissions.is_none_or(|permissions| permissions.keeps(pattern, queue)) {
            return;
        }
        let error = ProtocolError::subscription_removed(pattern, sid.as_bytes());
        tracing::info!(client = self.client.id, %error, "subscription removed");
        self.remove(front, sid);
        self.error(&error);
    }

    pub(super) fn subscription_count(&self) -> usize {
        self.subscriptions.len()
    }

    /// Removes some of the subscriptions. Reports whether there are more.
    pub(super) fn leave(&mut self, front: &NatsFront) -> bool {
        let began = Instant::now();
        let sids: Vec<_> = self.subscriptions.keys().take(REMOVED_AT_ONCE).cloned().collect();
        for some in sids.chunks(OPERATIONS_AT_ONCE) {
            some.iter().for_each(|sid| self.remove(front, sid));
            if began.elapsed() >= TURN {
                break;
            }
        }
        !self.subscriptions.is_empty()
    }
}

impl Owned {
    fn has_ended(&self) -> bool {
        matches!(&*self.target, Target::Client(subscription) if subscription.has_ended())
    }
}

/// Returns the message that topics get.
fn captured<'m>(message: &Message<'m>, may_acknowledge: bool) -> Message<'m> {
    Message { reply: message.reply.filter(|_| may_acknowledge), ..*message }
}

/// Counts a refused subscription, and returns the error.
fn too_many(front: &NatsFront, reason: &'static str) -> ProtocolError {
    front.metrics().subscriptions_refused.get_or_create(&ReasonLabel { reason }).inc();
    ProtocolError::MaximumSubscriptions
}

/// Returns the error for an unsupported option of CONNECT, checked in nats-server's order.
fn refused(options: &ConnectOptions) -> Option<(ProtocolError, CloseReason)> {
    if options.new_account || options.account.as_ref().is_some_and(|account| !account.is_empty()) {
        return Some((ProtocolError::AuthorizationViolation, CloseReason::Authorization));
    }
    if !(0..=1).contains(&options.protocol) {
        return Some((ProtocolError::InvalidProtocol, CloseReason::ProtocolVersion));
    }
    let without = options.no_responders && !options.headers;
    without.then_some((ProtocolError::NoRespondersNeedHeaders, CloseReason::NoRespondersNeedHeaders))
}

/// Reports whether a subject has no empty words and no wildcards. Long ones are allowed here.
fn is_literal(subject: &[u8]) -> bool {
    subject.split(|&byte| byte == b'.').all(|word| !matches!(word, b"" | b"*" | b">"))
}

/// Reports whether the input does not start with CONNECT. Like nats-server, checks only the first byte.
fn begins_without_connect(input: &[u8]) -> bool {
    input.first().is_some_and(|byte| !matches!(byte, b'C' | b'c'))
}
