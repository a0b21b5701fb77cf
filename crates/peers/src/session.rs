//! The dialler's side of one connection: what it sends, and the answers it waits for.

use std::collections::HashMap;
use std::sync::Arc;
use tailrace_env::time::{Duration, Instant};
use tailrace_env::{select, time, time::MissedTicks};

use bytes::Bytes;
use parking_lot::Mutex;
use tailrace_env::io::AsyncRead;
use tailrace_env::sync::oneshot;
use tailrace_types::take_off;

use super::error::{Ended, PeerError};
use super::frame::{self, BODY_HEAD_BYTES, Frame, FrameKind};
use super::metrics::PeerMetrics;
use super::outgoing::{Outgoing, Unsent};
use super::reader::FrameReader;
use super::stream::Halves;
use super::types::{PeerIdentity, PeerOptions, RequestError, RequestKind};

type Outcome = Result<Bytes, RequestError>;

#[derive(Default)]
struct Waiting {
    /// Why no more answers are awaited.
    ended: Option<String>,
    last_id: u64,
    answers: HashMap<u64, (oneshot::Sender<Outcome>, usize)>,
    /// Bytes of the bodies of requests without an answer.
    bytes: usize,
}

/// One connection that this node has dialled.
pub(super) struct Session {
    pub(super) peer: PeerIdentity,
    pub(super) outgoing: Outgoing,
    waiting: Mutex<Waiting>,
    in_flight_max: usize,
    bytes_max: usize,
    frame_bytes_max: usize,
    began: Instant,
}

impl Session {
    pub(super) fn new(peer: PeerIdentity, options: &PeerOptions) -> Arc<Self> {
        Arc::new(Self {
            peer,
            outgoing: Outgoing::new(options.queue_bytes_max),
            waiting: Mutex::default(),
            in_flight_max: options.requests_in_flight_max,
            bytes_max: options.queue_bytes_max,
            frame_bytes_max: options.frame_bytes_max,
            began: Instant::now(),
        })
    }

    /// Sends and reads until the connection ends. Calls `arrived` for signs of life.
    pub(super) async fn run(
        &self,
        mut halves: Halves,
        options: &PeerOptions,
        metrics: &PeerMetrics,
        arrived: impl Fn(),
    ) -> Ended {
        let mut reader = FrameReader::new(halves.reader, options.frame_bytes_max, options.silence_max);
        let ended = select! {
            ended = self.outgoing.send_all(&mut halves.writer, metrics, options.silence_max) => ended,
            Err(ended) = self.read(&mut reader, metrics, arrived) => ended,
            () = self.ping(options.ping_interval) => Ended::ByPeer,
        };
        self.close(&ended.to_string());
        ended
    }

    /// Fails all requests in flight.
    pub(super) fn close(&self, reason: &str) {
        self.outgoing.close();
        let mut waiting = self.waiting.lock();
        waiting.ended.get_or_insert_with(|| reason.to_owned());
        waiting.bytes = 0;
        waiting.answers.clear();
    }

    async fn read(
        &self,
        reader: &mut FrameReader<impl AsyncRead + Unpin>,
        metrics: &PeerMetrics,
        arrived: impl Fn(),
    ) -> Result<std::convert::Infallible, Ended> {
        loop {
            let (kind, payload) = reader
                .next(|bytes| {
                    metrics.received_bytes.inc_by(bytes as u64);
                    arrived();
                })
                .await?;
            let (kind, frame) = frame::decode(kind, payload)?;
            metrics.received(kind);
            match frame {
                Frame::Answer { id, outcome } => self.answered(id, outcome),
                Frame::Pong(sent) => {
                    let now = micros(self.began.elapsed());
                    metrics.round_trip(Duration::from_micros(now.saturating_sub(sent)));
                }
                // A sign of life.
                Frame::Ping(_) => {}
                _ => return Err(Ended::Misplaced(kind.name())),
            }
        }
    }

    /// Asks for signs of life, forever.
    async fn ping(&self, interval: Duration) {
        let mut ticks = time::interval(interval);
        ticks.set_missed(MissedTicks::Delay);
        loop {
            ticks.tick().await;
            self.outgoing.push_control(FrameKind::Ping, micros(self.began.elapsed()));
        }
    }

    /// Delivers an answer, or drops it if its request was canceled.
    fn answered(&self, id: u64, outcome: Outcome) {
        let mut waiting = self.waiting.lock();
        if let Some((answer, bytes)) = waiting.answers.remove(&id) {
            take_off(&mut waiting.bytes, bytes, "bytes of requests without an answer");
            drop(waiting);
            let _ = answer.send(outcome);
        }
    }

    /// Sends a request, and waits for the answer.
    pub(super) async fn request(
        self: &Arc<Self>,
        kind: RequestKind,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, PeerError> {
        let (bytes, max) = (BODY_HEAD_BYTES + body.len(), self.frame_bytes_max);
        if bytes > max {
            return Err(PeerError::TooLarge { bytes, max });
        }
        let (id, answer) = self.register(body.len())?;
        let _given_up = GivenUp { session: self, id };
        match self.outgoing.push_request(id, kind as u8, body) {
            Ok(()) => {}
            Err(Unsent::Full) => return Err(PeerError::QueueFull),
            Err(Unsent::Closed) => return Err(PeerError::NotConnected(self.peer.node)),
        }
        match time::timeout(timeout, answer).await {
            Err(_) => Err(PeerError::TimedOut(timeout)),
            Ok(Ok(outcome)) => Ok(outcome?),
            Ok(Err(_)) => Err(PeerError::Disconnected(self.waiting.lock().ended.clone().unwrap_or_default())),
        }
    }

    fn register(&self, bytes: usize) -> Result<(u64, oneshot::Receiver<Outcome>), PeerError> {
        let mut waiting = self.waiting.lock();
        if waiting.ended.is_some() {
            return Err(PeerError::NotConnected(self.peer.node));
        }
        let is_full = waiting.answers.len() >= self.in_flight_max;
        // A single large request may be larger than the bound.
        if is_full || (waiting.bytes > 0 && waiting.bytes + bytes > self.bytes_max) {
            return Err(PeerError::QueueFull);
        }
        waiting.last_id += 1;
        waiting.bytes += bytes;
        let id = waiting.last_id;
        let (sender, receiver) = oneshot::channel();
        waiting.answers.insert(id, (sender, bytes));
        Ok((id, receiver))
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Cancels a request that has no answer when this is dropped.
struct GivenUp<'a> {
    session: &'a Session,
    id: u64,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        let mut waiting = self.session.waiting.lock();
        if let Some((_, bytes)) = waiting.answers.remove(&self.id) {
            // Not during a panic: a second one would end the process.
            if !std::thread::panicking() {
                take_off(&mut waiting.bytes, bytes, "bytes of requests without an answer");
            }
            drop(waiting);
            self.session.outgoing.cancel(self.id);
        }
    }
}
