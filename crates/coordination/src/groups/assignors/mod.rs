//! Who of a group reads what, computed on the server's side: `uniform` and `range` for consumer groups (KIP-848), `simple` for
//! share groups (KIP-932).
//!
//! An assignor is a function of the members, their subscriptions and what they have now. It costs about as much as its
//! input and output are long (times a logarithm): thousands of members are meant to be assigned in milliseconds.
//!
//! Deliberately not here: racks. Replicas of one node are all in one place.

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
