//! Coordinators as the shell runs them. Each partition of an internal topic has a deterministic core that is
//! replayed from the partition's log and steps under a lock. Its answers wait for the log.
//!
//! - [`Runtime`] finds the core for a name, creates the internal topic at first use, and submits events.
//! - `cores` holds them. `shard` works on one core: loading, stepping, appending, releasing answers after the
//!   commit, and its timer.
//! - A core that failed, by a disk error or a panic, is evicted and replayed, and its waiting callers get an
//!   error. A core that cannot be replayed, because its log is damaged or replay panics, is retried from time
//!   to time, and `/healthz` names it.
//!
//! Bounds: waiting callers are bounded by the requests in flight of all connections. A core bounds its own
//! state.

mod batch;
mod clock;
mod cores;
mod failure;
mod kinds;
mod marker_writers;
mod perform;
mod replay;
mod runtime;
mod shard;
#[cfg(test)]
mod tests;
mod transactions;
mod work;

use tailrace_coordination::share::ShareCoordinator;
use tailrace_coordination::stream_consumers::ConsumersCoordinator;
use tailrace_env::sync::Semaphore;

pub(crate) use clock::SteadyClock;
pub use cores::Runtime;
pub use failure::CoordinatorFailure;
pub use kinds::Groups;
pub use kinds::Transactions;
use kinds::{CONSUMERS, GROUPS, SHARES, TRANSACTIONS};
pub(crate) use marker_writers::MarkerWriters;
pub use perform::{Perform, Performed};
pub use shard::{MarkerFailure, Pending};
pub use transactions::{append_any_marker, committed};

/// Cores of a node that are loaded at once.
const LOADS_MAX: usize = 4;

/// All coordinators of a server.
pub(crate) struct Coordinators {
    /// Groups and their offsets.
    pub(crate) groups: Groups,
    /// Transactions.
    pub(crate) transactions: Transactions,
    /// Writers of the markers of ending transactions.
    pub(crate) marker_writers: MarkerWriters,
    /// State of share groups.
    pub(crate) shares: Runtime<ShareCoordinator>,
    /// Durable consumers of streams.
    pub(crate) consumers: Runtime<ConsumersCoordinator>,
    /// One permit for each core that is being loaded.
    loads: Semaphore,
}

impl Coordinators {
    /// Starts with no core loaded.
    pub(crate) fn new() -> Self {
        let clock = SteadyClock::start();
        Self {
            groups: Runtime::new(&GROUPS, clock),
            shares: Runtime::new(&SHARES, clock),
            consumers: Runtime::new(&CONSUMERS, clock),
            transactions: Runtime::new(&TRANSACTIONS, clock),
            marker_writers: MarkerWriters::default(),
            loads: Semaphore::new(LOADS_MAX),
        }
    }

    /// Lists coordinators that a bug in the server keeps out of service, for `/healthz`. Problems of their
    /// partitions are listed with those.
    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        let problems = [self.groups.problems(), self.shares.problems(), self.transactions.problems()];
        problems.into_iter().flatten().chain(self.consumers.problems())
    }
}
