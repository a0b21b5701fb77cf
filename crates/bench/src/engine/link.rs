//! One lane's connection to the system: up, or broken and being reconnected.
//!
//! Times are on the generator's clock. A broken connection is retried after a wait that doubles with each
//! failure, with jitter from the run's seed, so that many connections do not come back at the same moment.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::mender::{Mended, Mender};
use super::options::Reconnect;
use crate::error::RequesterError;
use crate::requester::Requester;
use crate::schedule::Random;

/// How often to check whether another thread has reconnected.
const CHECK_INTERVAL_NS: u64 = 1_000_000;

/// A connection that broke. Times are nanoseconds since the first message was due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Break {
    /// When the break was noticed.
    pub at_ns: u64,
    /// The number of the connection.
    pub connection: u32,
    /// The cause.
    pub cause: String,
    /// When it was up again. `None` if it was not before the end.
    pub back_at_ns: Option<u64>,
}

/// Most breaks to list per run. With many connections, one break of each is listed. All are counted.
pub(super) const BREAKS_LISTED: usize = 1_000;

enum LinkState {
    Up(Box<dyn Requester>),
    /// To be reconnected at this time.
    Down(Box<dyn Requester>, u64),
    Mending(Receiver<Mended>),
    /// Stays broken until the end. `None` if a thread kept the requester.
    Lost(Option<Box<dyn Requester>>),
}

/// How broken connections are reconnected.
#[derive(Clone)]
pub(super) struct Repair {
    pub(super) policy: Reconnect,
    pub(super) mender: Arc<Mender>,
}

pub(super) struct Link {
    state: LinkState,
    repair: Option<Repair>,
    random: Random,
    connection: u32,
    begin_ns: u64,
    /// Failed attempts since it was last up.
    attempts: u32,
    last_error: Option<RequesterError>,
    breaks: Vec<Break>,
    listed_max: usize,
}

/// A link's state at its end.
pub(super) struct LinkEnd {
    pub(super) requester: Option<Box<dyn Requester>>,
    /// Why it is broken, if it is.
    pub(super) failure: Option<String>,
    pub(super) breaks: Vec<Break>,
}

impl Link {
    pub(super) fn new(
        requester: Box<dyn Requester>,
        repair: Option<Repair>,
        begin_ns: u64,
        connection: u32,
        connections: u32,
    ) -> Self {
        let seed = repair.as_ref().map_or(0, |repair| repair.policy.seed);
        Self {
            state: LinkState::Up(requester),
            repair,
            // Streams of schedules start at 0.
            random: Random::new(seed, u64::from(connection) | 1 << 40),
            connection,
            begin_ns,
            attempts: 0,
            last_error: None,
            breaks: Vec::new(),
            listed_max: (BREAKS_LISTED / connections.max(1) as usize).max(1),
        }
    }

    pub(super) fn up(&mut self) -> Option<&mut dyn Requester> {
        if let LinkState::Up(requester) = &mut self.state { Some(&mut **requester) } else { None }
    }

    pub(super) fn ready(&self) -> Option<&dyn Requester> {
        if let LinkState::Up(requester) = &self.state { Some(&**requester) } else { None }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, LinkState::Up(_))
    }

    /// Reports whether it is broken for good.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self.state, LinkState::Lost(_))
    }

    /// Handles a break.
    pub(super) fn broke(&mut self, error: RequesterError, now: u64) {
        if self.breaks.len() < self.listed_max {
            let at_ns = now.saturating_sub(self.begin_ns);
            let cause = error.to_string();
            self.breaks.push(Break { at_ns, connection: self.connection, cause, back_at_ns: None });
        }
        self.state = match std::mem::replace(&mut self.state, LinkState::Lost(None)) {
            LinkState::Up(requester) if self.repair.is_some() => {
                LinkState::Down(requester, self.next_try_ns(now))
            }
            LinkState::Up(requester) => LinkState::Lost(Some(requester)),
            other => other,
        };
        self.last_error = Some(error);
    }

    /// Continues to reconnect. Returns true if the connection has just come back.
    pub(super) fn mend(&mut self, now: u64) -> bool {
        match std::mem::replace(&mut self.state, LinkState::Lost(None)) {
            LinkState::Down(requester, at_ns) if now >= at_ns => {
                if let Some(repair) = &self.repair {
                    let coming = repair.mender.hand_over(requester);
                    return self.take_back(coming, now);
                }
                self.state = LinkState::Lost(Some(requester));
            }
            LinkState::Mending(coming) => return self.take_back(coming, now),
            other => self.state = other,
        }
        false
    }

    fn take_back(&mut self, coming: Receiver<Mended>, now: u64) -> bool {
        match coming.try_recv() {
            Ok((requester, Ok(()))) => {
                self.state = LinkState::Up(requester);
                self.attempts = 0;
                self.last_error = None;
                if let Some(last) = self.breaks.last_mut().filter(|last| last.back_at_ns.is_none()) {
                    last.back_at_ns = Some(now.saturating_sub(self.begin_ns));
                }
                true
            }
            Ok((requester, Err(error))) => {
                self.last_error = Some(error);
                self.state = LinkState::Down(requester, self.next_try_ns(now));
                false
            }
            Err(TryRecvError::Empty) => {
                self.state = LinkState::Mending(coming);
                false
            }
            Err(TryRecvError::Disconnected) => false,
        }
    }

    /// When to try next: after a random wait between half of the backoff and all of it.
    fn next_try_ns(&mut self, now: u64) -> u64 {
        let Some(Repair { policy, .. }) = &self.repair else { return u64::MAX };
        let doubled = policy.first_ns.saturating_mul(1 << self.attempts.min(32));
        let wait = doubled.min(policy.longest_ns);
        self.attempts = self.attempts.saturating_add(1);
        now.saturating_add(wait - self.random.below(wait / 2 + 1))
    }

    /// When to call [`Link::mend`] next.
    pub(super) fn next_event_ns(&self, now: u64) -> u64 {
        match &self.state {
            LinkState::Up(_) | LinkState::Lost(_) => u64::MAX,
            LinkState::Down(_, at_ns) => *at_ns,
            LinkState::Mending(_) => now + CHECK_INTERVAL_NS,
        }
    }

    /// Ends the link. Waits at most `patience` for a reconnect in progress.
    pub(super) fn end(self, patience: Duration) -> LinkEnd {
        let attempts = self.attempts;
        let (requester, broken) = match self.state {
            LinkState::Up(requester) => (Some(requester), false),
            LinkState::Down(requester, _) => (Some(requester), true),
            LinkState::Lost(requester) => (requester, true),
            LinkState::Mending(coming) => {
                (coming.recv_timeout(patience).ok().map(|(requester, _)| requester), true)
            }
        };
        let failure = broken.then(|| {
            let first = self.breaks.last().map_or_else(String::new, |last| last.cause.clone());
            match self.last_error.map(|error| error.to_string()) {
                Some(last) if last != first && attempts > 1 => {
                    format!("{first}; not back after {} attempts: {last}", attempts - 1)
                }
                _ => first,
            }
        });
        LinkEnd { requester, failure, breaks: self.breaks }
    }
}
