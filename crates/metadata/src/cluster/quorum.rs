//! Membership of the metadata quorum.

use tailrace_types::ReplicaId;

use crate::image::MetadataImage;

/// The wanted members of group 0, the metadata log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerMembers {
    /// The voters, lowest node first.
    pub voters: Vec<ReplicaId>,
    /// The permanent learners, lowest node first.
    pub learners: Vec<ReplicaId>,
}

/// Chooses the members of group 0 from the registered nodes. `voters` are its current voters.
///
/// Up to `tailrace.controller.voters` nodes vote. Live voters stay, in order of their nodes. The remaining
/// places go to live nodes that do not vote yet, lowest first. A fenced voter stays only if there are not
/// enough of these: then there is no substitute, and it may come back.
pub fn controller_members(image: &MetadataImage, voters: &[ReplicaId]) -> ControllerMembers {
    let registered = || image.nodes().map(|node| (node.registration.replica, node.fenced));
    let of = |votes: bool, gone: bool| {
        registered()
            .filter(move |(replica, fenced)| voters.contains(replica) == votes && *fenced == gone)
            .map(|(replica, _)| replica)
    };
    let places = image.broker().tailrace_controller_voters as usize;
    let mut chosen: Vec<ReplicaId> =
        of(true, false).chain(of(false, false)).chain(of(true, true)).take(places).collect();
    chosen.sort_by_key(|replica| replica.node());
    let learners = registered().map(|(replica, _)| replica).filter(|replica| !chosen.contains(replica));
    ControllerMembers { learners: learners.collect(), voters: chosen }
}
