//! Decisions about a cluster that need neither a record nor I/O: where replicas go, how the members of a group become
//! those that are wanted, who leads what.

mod balance;
mod leaders;
mod members;
mod placement;
mod quorum;

pub use balance::{LeaderMove, preferred_leader_moves};
pub use leaders::{Leader, Leaders};
pub use members::{Step, next_controller_change, next_member_change};
pub(crate) use placement::{PlacementNode, place};
pub use quorum::{ControllerMembers, controller_members};
