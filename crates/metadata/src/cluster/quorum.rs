//! Which nodes vote about metadata.

use tailrace_types::ReplicaId;

use crate::image::MetadataImage;

/// The members that group 0, the metadata log, is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerMembers {
    /// Those who vote, the lowest node first.
    pub voters: Vec<ReplicaId>,
    /// Those who only follow, the lowest node first.
    pub learners: Vec<ReplicaId>,
}

/// Chooses the members of group 0 from the registered nodes; `voters` are those it has.
///
/// Up to `tailrace.controller.voters` nodes vote. Voters that are live stay, in order of their nodes. The places left go to
/// live nodes that do not vote yet, the lowest first. Only where none of these is left does a voter that is fenced stay:
/// nobody could take its place, and it may come back.
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
