//! Server-side assignors: `uniform` and `range` for consumer groups (KIP-848), `simple` for share groups
//! (KIP-932).
//!
//! An assignor is a function of the members, their subscriptions and their current assignments. Its cost is
//! roughly proportional to the size of its input and output (times a logarithm): it should assign thousands
//! of members within milliseconds.
//!
//! Deliberately not here: racks. Assignments do not depend on where replicas are.

mod assignor;
mod board;
mod range;
mod simple;
mod task;
mod uniform;

#[cfg(test)]
mod tests;

pub(crate) use assignor::{ConsumerAssignor, assign_shares};
pub use task::Partitions;
pub(crate) use task::{AssignmentMember, AssignmentTask};
