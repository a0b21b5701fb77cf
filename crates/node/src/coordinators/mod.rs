//! Coordinators as the shell runs them: each partition of an internal topic has a deterministic core that is replayed
//! from the partition's log, steps under a lock, and whose answers wait for the log.
//!
//! - [`Runtime`] finds the core for a name, creates the internal topic at first use, and submits events.
//! - `cores` holds them. `shard` works on one core: loading, stepping, appending, releasing what waited for the commit, and its timer.
//! - A core that failed, be it in the disk or by a panic, is thrown away and replayed; everybody who waited is told. One that cannot
//!   be replayed, because its log is damaged or that panics, is tried again from time to time, and `/healthz` names it.
//!
//! Bounds: those who wait are as many as the connections' requests in flight; a core bounds its own state.

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
use tailrace_env::sync::Semaphore;

pub(crate) use clock::SteadyClock;
pub use cores::Runtime;
pub use failure::CoordinatorFailure;
pub use kinds::Groups;
pub use kinds::Transactions;
use kinds::{GROUPS, SHARES, TRANSACTIONS};
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
    /// Of transactions.
    pub(crate) transactions: Transactions,
    /// Who completes transactions.
    pub(crate) marker_writers: MarkerWriters,
    /// What is kept of share groups.
    pub(crate) shares: Runtime<ShareCoordinator>,
    /// One for each core that is loaded at the moment.
    loads: Semaphore,
}

impl Coordinators {
    /// None is loaded yet.
    pub(crate) fn new() -> Self {
        let clock = SteadyClock::start();
        Self {
            groups: Runtime::new(&GROUPS, clock),
            shares: Runtime::new(&SHARES, clock),
            transactions: Runtime::new(&TRANSACTIONS, clock),
            marker_writers: MarkerWriters::default(),
            loads: Semaphore::new(LOADS_MAX),
        }
    }

    /// Those that a bug of the server keeps out of service, for `/healthz`. What keeps their partitions out of service is said of those.
    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        let problems = [self.groups.problems(), self.shares.problems(), self.transactions.problems()];
        problems.into_iter().flatten()
    }
}
