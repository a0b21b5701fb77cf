//! Sends what push consumers deliver: to clients of this node, and to other nodes with subscribers.
//!
//! A receiver that is behind slows its consumer only. After some time it is passed over, and cut as any slow
//! consumer is.

use tailrace_env::aside::TURN;
use tailrace_env::task;
use tailrace_env::time::{Duration, Instant, sleep, timeout_at};
use tailrace_nats_wire::Message;
use tailrace_node::streams::{Deliverer, PulledItem};
use tailrace_peers::BoxFuture;

use super::delivery;
use crate::burst::Burst;
use crate::fan_out::{FanOut, Turn};
use crate::front::NatsFront;
use crate::letter::Letter;
use crate::router::Begun;
use crate::speaker::Speaker;

/// Bytes after which receivers are waited for that are behind.
const UNDER_WAY_MAX: usize = 256 * 1024;

/// Bytes that may wait for another node. The link also carries what clients publish to each other.
const FOR_NODE_MAX: usize = 1024 * 1024;

/// Longest time for which a receiver is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Pause before a message is sent again that found no room.
const AGAIN: Duration = Duration::from_millis(10);

impl Deliverer for NatsFront {
    fn has_interest(&self, subject: &str, group: Option<&str>) -> bool {
        self.router().has_listener(subject.as_bytes(), group.map(str::as_bytes))
    }

    fn deliver<'a>(&'a self, subject: &'a str, items: &'a [PulledItem]) -> BoxFuture<'a, usize> {
        Box::pin(deliver(self, subject.as_bytes(), items))
    }

    fn tell<'a>(&'a self, subject: &'a str, body: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let (subject, payload) = (subject.as_bytes(), body.as_bytes());
            let message = Message { subject, reply: None, headers: None, payload };
            Speaker::new(self).say(self.router(), &message).await;
        })
    }
}

async fn deliver(front: &NatsFront, subject: &[u8], items: &[PulledItem]) -> usize {
    let mut sending = Sending { front, subject, burst: Burst::default(), bytes: 0 };
    for (number, item) in items.iter().enumerate() {
        let is_sent = match item {
            PulledItem::Message(pulled) => {
                let block = delivery::block(pulled);
                sending.send(&delivery::message(pulled, block.as_deref())).await
            }
            PulledItem::Status { block, reply } => {
                let (reply, headers) = (reply.as_ref().map(String::as_bytes), Some(block.as_bytes()));
                sending.send(&Message { subject, reply, headers, payload: b"" }).await
            }
        };
        if !is_sent {
            return number;
        }
    }
    sending.rest().await;
    items.len()
}

struct Sending<'a> {
    front: &'a NatsFront,
    subject: &'a [u8],
    burst: Burst,
    /// Bytes since receivers were waited for.
    bytes: usize,
}

impl Sending<'_> {
    /// Sends a message. Returns whether somebody listens.
    async fn send(&mut self, message: &Message<'_>) -> bool {
        let until = Instant::now() + PATIENCE;
        let router = self.front.router();
        while self.send_now(message).await == 0 {
            if !router.has_listener(self.subject, None) {
                return false;
            }
            // Somebody here who may not get it, or a node whose link has no room.
            if router.listening_nodes(self.subject).is_empty() || Instant::now() >= until {
                break;
            }
            self.rest().await;
            sleep(AGAIN).await;
        }
        self.bytes += message.payload.len() + message.headers.map_or(0, <[u8]>::len);
        if self.bytes >= UNDER_WAY_MAX || self.burst.is_due() {
            self.rest().await;
        }
        true
    }

    /// Returns the number of receivers. Any number may get it, so other tasks get turns meanwhile.
    async fn send_now(&mut self, message: &Message<'_>) -> usize {
        let letter = Letter { message, at: Some(self.subject) };
        let targets = match self.front.router().begin_letter(&mut self.burst, letter) {
            Begun::Done(receivers) => return receivers,
            Begun::Wide(targets) => targets,
        };
        let mut fan_out = FanOut::to(targets, Some(self.subject));
        loop {
            let until = self.burst.read_at + TURN;
            let turn = Turn { burst: &mut self.burst, origin: None, message, here: None, until };
            if let Some(receivers) = fan_out.go_on(self.front.router(), turn, |_| {}) {
                return receivers;
            }
            self.rest().await;
        }
    }

    /// Writes what was sent, and waits for receivers that are behind, for some time.
    async fn rest(&mut self) {
        let metrics = self.front.metrics();
        let until = Instant::now() + PATIENCE;
        self.burst.finish(metrics);
        while let Some(crowded) = self.burst.take_crowded() {
            let behind = crowded.wait_further(metrics).await;
            if let Some(client) = behind.filter(|_| Instant::now() < until) {
                self.burst.look_at(&client);
            }
        }
        self.rest_for_nodes(until).await;
        self.bytes = 0;
        task::yield_now().await;
        self.burst.begin(Instant::now());
    }

    async fn rest_for_nodes(&self, until: Instant) {
        let Some(peers) = self.front.accounts().routes().peers() else { return };
        for node in self.front.router().listening_nodes(self.subject) {
            // A node that is still behind then may miss something, as with every message to it.
            let _ = timeout_at(until, peers.nats_room(node, FOR_NODE_MAX)).await;
        }
    }
}
