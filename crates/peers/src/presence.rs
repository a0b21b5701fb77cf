//! Tracks which nodes are connected, and whether two of them claim the same id.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tailrace_env::time::{Duration, Instant};

use parking_lot::Mutex;
use tailrace_env::sync::Notify;
use tailrace_types::NodeId;

use super::handshake::Refusal;

/// Which end dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Outgoing,
    Incoming,
}

/// One connection to or from a node.
struct Seat {
    number: u64,
    direction: Direction,
    replaced: Arc<Notify>,
}

struct Present {
    instance: [u8; 16],
    /// Milliseconds since `began`.
    heard: Arc<AtomicU64>,
    seats: Vec<Seat>,
}

/// All nodes that have a connection.
pub(super) struct Presence {
    began: Instant,
    /// A node that was not heard from for this long does not block another one with its id.
    alive: Duration,
    incoming_max: usize,
    state: Mutex<(u64, HashMap<NodeId, Present>)>,
}

impl Presence {
    pub(super) fn new(alive: Duration, incoming_max: usize) -> Self {
        Self { began: Instant::now(), alive, incoming_max, state: Mutex::default() }
    }

    /// Admits a node. Ends its earlier connection in this direction, and all connections of an earlier
    /// instance.
    ///
    /// # Errors
    /// [`Refusal::DuplicateNode`] while another instance with this id is alive, or [`Refusal::TooMany`].
    pub(super) fn admit(
        self: &Arc<Self>,
        node: NodeId,
        instance: [u8; 16],
        direction: Direction,
    ) -> Result<ConnectionPlace, Refusal> {
        let now = self.now();
        let mut state = self.state.lock();
        let (number, nodes) = &mut *state;
        let has_incoming =
            |present: &Present| present.seats.iter().any(|seat| seat.direction == Direction::Incoming);
        let is_new = direction == Direction::Incoming && !nodes.get(&node).is_some_and(has_incoming);
        if is_new && nodes.values().filter(|present| has_incoming(present)).count() >= self.incoming_max {
            return Err(Refusal::TooMany);
        }
        let fresh = || Present { instance, heard: Arc::default(), seats: Vec::new() };
        let present = nodes.entry(node).or_insert_with(fresh);
        if present.instance != instance {
            let silent = now.saturating_sub(present.heard.load(Ordering::Relaxed));
            if silent < millis(self.alive) {
                return Err(Refusal::DuplicateNode(node));
            }
            present.seats.drain(..).for_each(|seat| seat.replaced.notify_one());
            *present = fresh();
        }
        present.seats.retain(|seat| {
            let stays = seat.direction != direction;
            if !stays {
                seat.replaced.notify_one();
            }
            stays
        });
        *number += 1;
        let replaced = Arc::new(Notify::new());
        present.seats.push(Seat { number: *number, direction, replaced: Arc::clone(&replaced) });
        present.heard.fetch_max(now, Ordering::Relaxed);
        let heard = Arc::clone(&present.heard);
        Ok(ConnectionPlace { presence: Arc::clone(self), node, number: *number, heard, replaced })
    }

    fn now(&self) -> u64 {
        millis(self.began.elapsed())
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A connection's place. Dropping it frees the place.
pub(super) struct ConnectionPlace {
    presence: Arc<Presence>,
    node: NodeId,
    number: u64,
    heard: Arc<AtomicU64>,
    replaced: Arc<Notify>,
}

/// How often a sign of life is passed on.
const HEARD_INTERVAL_MS: u64 = 100;

impl ConnectionPlace {
    /// Records a sign of life. True if some time has passed since the last one on any connection of the node.
    pub(super) fn heard(&self) -> bool {
        let now = self.presence.now();
        let before = self.heard.load(Ordering::Relaxed);
        let is_news = now >= before + HEARD_INTERVAL_MS;
        if is_news {
            self.heard.fetch_max(now, Ordering::Relaxed);
        }
        is_news
    }

    /// Resolves when another connection has taken this place.
    pub(super) async fn replaced(&self) {
        self.replaced.notified().await;
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut state = self.presence.state.lock();
        if let Some(present) = state.1.get_mut(&self.node) {
            present.seats.retain(|seat| seat.number != self.number);
            if present.seats.is_empty() {
                state.1.remove(&self.node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: NodeId = NodeId(1);
    const ALIVE: Duration = Duration::from_secs(3600);

    fn presence(alive: Duration) -> Arc<Presence> {
        Arc::new(Presence::new(alive, 2))
    }

    async fn is_replaced(place: &ConnectionPlace) -> bool {
        tailrace_env::time::timeout(Duration::ZERO, place.replaced()).await.is_ok()
    }

    #[tokio::test]
    async fn a_newer_connection_takes_the_place_of_the_older_one_in_its_direction() {
        tailrace_runtime::install();
        let presence = presence(ALIVE);
        let admit = |direction| presence.admit(ONE, [1; 16], direction).unwrap();
        let (incoming, outgoing) = (admit(Direction::Incoming), admit(Direction::Outgoing));
        let newer = admit(Direction::Incoming);
        assert!(is_replaced(&incoming).await);
        assert!(!is_replaced(&outgoing).await && !is_replaced(&newer).await);
        // The end of a replaced connection frees nothing.
        drop(incoming);
        assert!(presence.admit(ONE, [2; 16], Direction::Outgoing).is_err());
    }

    #[tokio::test]
    async fn another_instance_is_refused_while_the_first_one_is_alive() {
        tailrace_runtime::install();
        let presence = presence(ALIVE);
        let first = presence.admit(ONE, [1; 16], Direction::Outgoing).unwrap();
        for direction in [Direction::Incoming, Direction::Outgoing] {
            let refused = presence.admit(ONE, [2; 16], direction).err();
            assert_eq!(refused, Some(Refusal::DuplicateNode(ONE)));
        }
        assert!(!is_replaced(&first).await);
        drop(first);
        assert!(presence.admit(ONE, [2; 16], Direction::Incoming).is_ok());
    }

    #[tokio::test]
    async fn an_instance_that_is_silent_gives_way() {
        tailrace_runtime::install();
        let presence = presence(Duration::ZERO);
        let first = presence.admit(ONE, [1; 16], Direction::Outgoing).unwrap();
        let second = presence.admit(ONE, [2; 16], Direction::Incoming).unwrap();
        assert!(is_replaced(&first).await);
        assert!(!is_replaced(&second).await);
    }

    #[test]
    fn members_are_counted() {
        tailrace_runtime::install();
        let presence = presence(ALIVE);
        let admit = |node, direction| presence.admit(NodeId(node), [9; 16], direction);
        let first = admit(1, Direction::Incoming).unwrap();
        let _second = admit(2, Direction::Incoming).unwrap();
        assert_eq!(admit(3, Direction::Incoming).err(), Some(Refusal::TooMany));
        let _outgoing = admit(3, Direction::Outgoing).unwrap();
        // A node that reconnects does not count as new.
        let _again = admit(2, Direction::Incoming).unwrap();
        drop(first);
        assert!(admit(4, Direction::Incoming).is_ok());
    }
}
