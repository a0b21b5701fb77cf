//! Decisions about a cluster that need neither a record nor I/O: replica placement, membership changes, and
//! leadership.

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
