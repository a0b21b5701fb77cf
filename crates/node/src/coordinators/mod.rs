//! Coordinators as the shell runs them: each partition of an internal topic has a deterministic core that is replayed
//! from the partition's log, steps under a lock, and whose answers wait for the log.
//!
//! - [`Runtime`] finds the core for a name, creates the internal topic at first use, and submits events.
//! - `shard` holds one core: loading, stepping, appending, releasing what waited for the commit, and its timer.
//! - A core that failed, be it in the disk or by a panic, is thrown away and replayed; everybody who waited is told.
//!
//! Bounds: those who wait are as many as the connections' requests in flight; a core bounds its own state.

mod batch;
mod clock;
mod failure;
mod groups;
mod replay;
mod runtime;
mod shard;
#[cfg(test)]
mod tests;
mod transactions;
mod work;

use std::sync::Arc;

use tailrace_coordination::share::ShareCoordinator;

use crate::node::Node;
use crate::share::state::SHARES;

pub(crate) use clock::SteadyClock;
pub use failure::CoordinatorFailure;
pub(crate) use groups::Groups;
pub(crate) use runtime::{Kind, Runtime};
pub use shard::{MarkerFailure, Pending};
pub use transactions::{MarkerWriters, Transactions, append_any_marker, committed};

/// All coordinators of a server.
pub struct Coordinators {
    /// Groups and their offsets.
    pub groups: Groups,
    /// Of transactions.
    pub transactions: Transactions,
    /// Who completes transactions.
    pub(crate) marker_writers: MarkerWriters,
    /// What is kept of share groups.
    pub shares: Runtime<ShareCoordinator>,
}

impl Coordinators {
    /// None is loaded yet.
    pub(crate) fn new() -> Self {
        let clock = SteadyClock::start();
        Self {
            groups: Runtime::new(&groups::GROUPS, clock),
            shares: Runtime::new(&SHARES, clock),
            transactions: Runtime::new(&transactions::TRANSACTIONS, clock),
            marker_writers: MarkerWriters::default(),
        }
    }

    /// Loads all of them and keeps them going until the server stops.
    pub(crate) async fn run(&self, node: &Arc<Node>) {
        tokio::join!(self.groups.run(node), self.shares.run(node), self.transactions.run(node));
    }
}
