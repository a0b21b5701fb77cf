//! Subscribers: one that hears all messages, one that hears the records of transactions, and the members of a
//! queue group.

use std::collections::BTreeSet;
use std::io;

use tailrace_env::time::{self, Duration};

use super::client::below;
use super::nats::{DIAL_PAUSE, Said, Talk};
use crate::history::{Outcome, transaction_of};
use crate::storm::history::{Phase, SharedHistory};

/// A subscriber moves to another node after this time at the latest.
const STAYS_MS: u64 = 4_000;

/// What a client subscribes to, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::storm) enum Interest {
    /// Messages that NATS clients publish.
    Messages,
    /// The same, as a member of a queue group.
    Queue,
    /// The same, but the member leaves before the end.
    QueueForAWhile,
    /// Records of transactions.
    Records,
}

impl Interest {
    pub(in crate::storm) const ALL: [Self; 5] =
        [Self::Messages, Self::Queue, Self::Queue, Self::QueueForAWhile, Self::Records];

    fn wants(self) -> &'static str {
        match self {
            Self::Messages => "SUB storm.> 1\r\n",
            Self::Queue | Self::QueueForAWhile => "SUB storm.> workers 1\r\n",
            Self::Records => "SUB data.> 1\r\n",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Messages => "a message was delivered",
            Self::Queue | Self::QueueForAWhile => "a message was delivered to a queue group",
            Self::Records => "a record was delivered to a subscriber",
        }
    }

    /// Returns the name under which the history keeps what the client hears.
    pub(in crate::storm) fn name(self) -> &'static str {
        match self {
            Self::Messages => "a subscriber",
            Self::Queue | Self::QueueForAWhile => "a queue group",
            Self::Records => "a subscriber to records",
        }
    }
}

pub(super) struct Subscriber {
    number: usize,
    interest: Interest,
    nodes: u8,
    history: SharedHistory,
}

impl Subscriber {
    pub(super) fn new(number: usize, interest: Interest, nodes: u8, history: SharedHistory) -> Self {
        Self { number, interest, nodes, history }
    }

    pub(super) async fn run(self) {
        while !self.has_left() {
            // A lost connection is not a fault of the node.
            let _ = self.listen().await;
            self.history.lock().listens(self.number, false);
            time::sleep(DIAL_PAUSE).await;
        }
    }

    fn has_left(&self) -> bool {
        self.interest == Interest::QueueForAWhile && self.history.lock().phase() >= Phase::Leaving
    }

    /// Uses one connection until it is lost, or it is time to move.
    async fn listen(&self) -> io::Result<()> {
        let mut talk = Talk::open(self.nodes, self.interest.wants(), &self.history).await?;
        let until = time::Instant::now() + Duration::from_millis(below(STAYS_MS));
        let mut heard = BTreeSet::new();
        loop {
            if let Some(said) = talk.next_soon().await? {
                self.take(said, &mut heard);
            }
            // A subscriber that moves misses messages meanwhile.
            let moves = time::Instant::now() >= until && self.history.lock().phase() == Phase::Storm;
            if moves || self.has_left() {
                return Ok(());
            }
        }
    }

    fn take(&self, said: Said, heard: &mut BTreeSet<String>) {
        let mut history = self.history.lock();
        let message = match said {
            Said::Message(message) => message,
            Said::Pong => return history.listens(self.number, true),
            Said::Refused(_) => return,
        };
        let Some(payload) = message.payload else { return };
        let value = String::from_utf8_lossy(&payload).into_owned();
        history.count(self.interest.label());
        history.heard(self.interest.name(), &value);
        if self.interest == Interest::Records {
            let outcome = transaction_of(&value).map(|name| history.partitions.outcome(name));
            if let Some(outcome @ (Outcome::Open | Outcome::Aborted)) = outcome {
                history.found(format!("a subscriber heard {value} of a transaction that is {outcome:?}"));
            }
        }
        if !heard.insert(value.clone()) {
            history.found(format!("{} heard {value} twice on one connection", self.interest.name()));
        }
    }
}
