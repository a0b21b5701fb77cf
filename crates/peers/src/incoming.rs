//! One connection that another node has dialled: hands on what the node sends, and answers its requests.
//!
//! Bounds: requests served concurrently, their bytes, bytes of answers that wait. A peer that does not read
//! its answers is not read from. A NATS message that takes long delays nothing else: its turns alternate with
//! the link's other frames.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use tailrace_env::time::{Instant, MissedTicks};
use tailrace_env::{select, task, time};

use bytes::Bytes;
use tailrace_env::aside::TURN;
use tailrace_env::io::AsyncRead;
use tailrace_env::task::{JoinError, JoinSet};
use tailrace_replication::raft::PeerMessage;
use tailrace_types::{NodeId, RaftGroup, take_off};

use super::error::Ended;
use super::frame::{self, BODY_HEAD_BYTES, Frame, FrameKind};
use super::outgoing::Outgoing;
use super::presence::ConnectionPlace;
use super::reader::FrameReader;
use super::shared::Shared;
use super::stream::Halves;
use super::types::{NatsReceiver, PeerReceiver, RequestError, RequestKind};

/// Reading stops while more than this many bytes of answers wait for the peer.
const ANSWERS_BYTES_MAX: usize = 8 << 20;

/// Maximum frame of a node that is not a member. A request to join has a few hundred bytes.
const STRANGERS_FRAME_BYTES_MAX: usize = 64 * 1024;

/// What the other end may do.
pub(super) struct Standing {
    /// `None` if one of the two nodes belongs to no cluster.
    pub(super) from: Option<NodeId>,
    /// `Some` on links.
    pub(super) place: Option<ConnectionPlace>,
    pub(super) level: u16,
}

impl Standing {
    pub(super) fn is_link(&self) -> bool {
        self.place.is_some()
    }
}

struct Serving {
    /// Its number among the tasks.
    task: u64,
    bytes: usize,
}

/// Requests being served, and the receiver of what is sent for NATS clients.
#[derive(Default)]
struct Served {
    nats: Option<Box<dyn NatsReceiver>>,
    tasks: JoinSet<Result<Bytes, RequestError>>,
    by_id: HashMap<u64, Serving>,
    /// Request ids by the numbers of their tasks.
    ids: HashMap<u64, u64>,
    bytes: usize,
}

impl Served {
    fn remove(&mut self, task: u64) -> Option<u64> {
        let id = self.ids.remove(&task)?;
        if let Some(serving) = self.by_id.remove(&id) {
            take_off(&mut self.bytes, serving.bytes, "bytes of requests");
        }
        Some(id)
    }
}

pub(super) struct Incoming {
    shared: Arc<Shared>,
    receiver: Arc<dyn PeerReceiver>,
    standing: Standing,
    address: SocketAddr,
    outgoing: Outgoing,
    served: Served,
}

impl Incoming {
    pub(super) fn new(
        shared: Arc<Shared>,
        receiver: Arc<dyn PeerReceiver>,
        standing: Standing,
        address: SocketAddr,
    ) -> Self {
        let outgoing = Outgoing::new(shared.options.queue_bytes_max);
        Self { shared, receiver, standing, address, outgoing, served: Served::default() }
    }

    /// Serves the connection to its end.
    pub(super) async fn run(self, mut halves: Halves) {
        let Self { shared, receiver, standing, address, outgoing, mut served } = self;
        let _counted = Counted::new(&shared, &standing);
        let options = &shared.options;
        let max = match standing.from {
            Some(_) => options.frame_bytes_max,
            None => options.frame_bytes_max.min(STRANGERS_FRAME_BYTES_MAX),
        };
        let mut reader = FrameReader::new(halves.reader, max, options.silence_max);
        if let (Some(node), true) = (standing.from, standing.is_link()) {
            tracing::info!(%node, %address, level = standing.level, "another node has connected");
            receiver.heard(node);
            shared.nudge(node);
            served.nats = receiver.nats(node);
        }
        let replaced = async {
            match &standing.place {
                Some(place) => place.replaced().await,
                None => std::future::pending().await,
            }
        };
        let server =
            Server { shared: &shared, receiver: &receiver, standing: &standing, outgoing: &outgoing };
        let ended = select! {
            ended = outgoing.send_all(&mut halves.writer, &shared.metrics, options.silence_max) => ended,
            Err(ended) = server.read(&mut reader, &mut served) => ended,
            () = server.ping() => Ended::Replaced,
            () = replaced => Ended::Replaced,
        };
        match ended.reason() {
            None => tracing::debug!(%address, reason = %ended, "a connection of a node ended"),
            Some(reason) => {
                shared.metrics.cut(reason);
                if let Some(left_out) = shared.quiet.may_log(reason) {
                    tracing::warn!(%address, node = ?standing.from, reason = %ended, left_out, "closed a connection of a node");
                }
            }
        }
    }
}

/// Counts a member's link while it exists.
struct Counted<'a>(Option<&'a Shared>);

impl<'a> Counted<'a> {
    fn new(shared: &'a Shared, standing: &Standing) -> Self {
        let shared = standing.is_link().then_some(shared);
        if let Some(shared) = shared {
            shared.metrics.connections.inc();
        }
        Self(shared)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.0 {
            shared.metrics.connections.dec();
        }
    }
}

/// Yields when no whole frame is left, and as soon as NATS messages have taken a turn, because a link may
/// always be busy, or bring messages for very many subscribers. An unfinished message gets a turn when no
/// whole frame is left, and once frames have had a turn since `frames_since`.
pub(super) async fn give_way(nats: &mut dyn NatsReceiver, frames_since: &mut Instant, has_frame: bool) {
    if !nats.is_under_way() {
        if (nats.is_due() || !has_frame) && nats.settle() {
            task::yield_now().await;
        }
        return;
    }
    if has_frame && frames_since.elapsed() < TURN {
        return;
    }
    nats.settle();
    task::yield_now().await;
    nats.go_on();
    *frames_since = Instant::now();
}

struct Server<'a> {
    shared: &'a Shared,
    receiver: &'a Arc<dyn PeerReceiver>,
    standing: &'a Standing,
    outgoing: &'a Outgoing,
}

impl Server<'_> {
    async fn read(
        &self,
        reader: &mut FrameReader<impl AsyncRead + Unpin>,
        served: &mut Served,
    ) -> Result<std::convert::Infallible, Ended> {
        let mut frames_since = Instant::now();
        loop {
            let mut is_under_way = false;
            if let Some(nats) = &mut served.nats {
                give_way(&mut **nats, &mut frames_since, reader.has_frame()).await;
                is_under_way = nats.is_under_way();
            }
            let is_above = self.outgoing.is_above(ANSWERS_BYTES_MAX);
            select! {
                Some((task, done)) = served.tasks.join_next_with_id(), if !is_above => {
                    self.answer(served, task, done);
                }
                frame = self.next(reader) => {
                    let (kind, payload) = frame?;
                    self.take(kind, payload, served)?;
                }
                // No frame is there: continue with the unfinished message.
                () = std::future::ready(()), if is_under_way => {}
            }
        }
    }

    /// Returns the next frame, once the peer has read its answers.
    async fn next(&self, reader: &mut FrameReader<impl AsyncRead + Unpin>) -> Result<(u8, Bytes), Ended> {
        if self.outgoing.is_above(ANSWERS_BYTES_MAX) {
            // Also here, in case this is dropped and there is room the next time.
            reader.forgive();
            self.outgoing.room_below(ANSWERS_BYTES_MAX).await;
            reader.forgive();
        }
        reader.next(|bytes| self.arrived(bytes)).await
    }

    /// Sends signs of life forever. Answers to pings would not do, because they wait behind whatever the peer
    /// is sending.
    async fn ping(&self) {
        let interval = self.shared.options.ping_interval;
        let mut ticks = time::interval_at(Instant::now() + interval, interval);
        ticks.set_missed(MissedTicks::Delay);
        loop {
            ticks.tick().await;
            self.outgoing.push_control(FrameKind::Ping, 0);
        }
    }

    fn arrived(&self, bytes: usize) {
        self.shared.metrics.received_bytes.inc_by(bytes as u64);
        if let (Some(place), Some(node)) = (&self.standing.place, self.standing.from)
            && place.heard()
        {
            self.receiver.heard(node);
        }
    }

    fn take(&self, kind: u8, payload: Bytes, served: &mut Served) -> Result<(), Ended> {
        let (kind, frame) = frame::decode(kind, payload)?;
        self.shared.metrics.received(kind);
        match (frame, self.standing.from.filter(|_| self.standing.is_link())) {
            (Frame::Raft(messages), Some(from)) => self.hand_on(from, messages),
            (Frame::Leading { complete, groups }, Some(from)) => {
                self.receiver.leading(from, complete, groups)
            }
            (Frame::Nats(frame, payload), Some(_)) => {
                if let Some(nats) = &mut served.nats {
                    nats.take(frame, payload).map_err(Ended::Misplaced)?;
                }
            }
            (Frame::Request { id, kind, body }, _) => self.begin(id, kind, body, served)?,
            (Frame::Cancel(id), _) => {
                if let Some(serving) = served.by_id.get(&id) {
                    served.tasks.abort(serving.task);
                }
            }
            (Frame::Beat(lease), Some(from)) => self.receiver.beat(from, lease),
            (Frame::Ping(number), _) => self.outgoing.push_control(FrameKind::Pong, number),
            (_, _) => return Err(Ended::Misplaced(kind.name())),
        }
        Ok(())
    }

    /// Drops messages that claim another sender's node, or are for another node than this one.
    fn hand_on(&self, from: NodeId, mut messages: Vec<(RaftGroup, PeerMessage)>) {
        let (own, count) = (self.shared.identity.load().node, messages.len());
        self.shared.metrics.received_messages.inc_by(count as u64);
        messages.retain(|(_, message)| message.from().node() == from && message.to().node() == own);
        if messages.len() < count {
            self.shared.metrics.dropped("misaddressed", (count - messages.len()) as u64);
        }
        if !messages.is_empty() {
            self.receiver.raft(from, messages);
        }
    }

    fn begin(&self, id: u64, kind: u8, body: Bytes, served: &mut Served) -> Result<(), Ended> {
        if served.by_id.contains_key(&id) {
            return Err(Ended::Misplaced("a request with the number of another one"));
        }
        let options = &self.shared.options;
        let bytes = body.len();
        let is_full = served.tasks.len() >= options.requests_in_flight_max;
        if is_full || (served.bytes > 0 && served.bytes + bytes > options.queue_bytes_max) {
            self.send(id, Err(RequestError::Busy));
            return Ok(());
        }
        let kind = RequestKind::from_wire(kind);
        let Some(kind) = kind.filter(|kind| self.standing.from.is_some() || kind.is_for_strangers()) else {
            self.send(id, Err(RequestError::NotServed));
            return Ok(());
        };
        let task = served.tasks.spawn(self.receiver.request(self.standing.from, kind, body));
        served.ids.insert(task, id);
        served.by_id.insert(id, Serving { task, bytes });
        served.bytes += bytes;
        Ok(())
    }

    fn answer(&self, served: &mut Served, task: u64, done: Result<Result<Bytes, RequestError>, JoinError>) {
        let outcome = match done {
            Ok(outcome) => Some(outcome),
            Err(error) if error.is_panic() => {
                tracing::error!(%error, "a request from another node panicked");
                Some(Err(RequestError::Failed("the node failed to answer".to_owned())))
            }
            // The asker canceled it.
            Err(_) => None,
        };
        if let (Some(id), Some(outcome)) = (served.remove(task), outcome) {
            self.send(id, outcome);
        }
    }

    fn send(&self, id: u64, outcome: Result<Bytes, RequestError>) {
        let max = self.shared.options.frame_bytes_max - BODY_HEAD_BYTES;
        let outcome = match outcome {
            Ok(body) if body.len() > max => {
                Err(RequestError::Failed(format!("an answer of {} bytes is larger than {max}", body.len())))
            }
            other => other,
        };
        let (detail, body) = frame::outcome_to_wire(outcome);
        self.shared.metrics.served_requests.inc();
        self.outgoing.push_answer(id, detail, body);
    }
}
