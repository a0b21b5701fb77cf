//! What goes wrong, and when. All of it is drawn before the run begins, and each fault has a number, so that a run can be repeated
//! without some of them.

use std::fmt;

use crate::Rng;

/// The first faults come after this time.
pub(super) const QUIET_MS: u64 = 1_500;
/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its number in the run.
    pub number: usize,
    /// When, in milliseconds of simulated time.
    pub at_ms: u64,
    /// To which node.
    pub node: u64,
    /// How long, in milliseconds, where it has an end.
    pub for_ms: u64,
    /// What.
    pub kind: FaultKind,
    /// What it needs to be drawn for.
    pub(super) draw: u64,
}

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The process or the machine ends.
    Crash,
    /// All machines lose power at once.
    CrashOfAll,
    /// The process stands still.
    Pause,
    /// Nothing gets from the node to another one.
    CutOneWay,
    /// Nothing gets to the other nodes or from them.
    CutOff,
    /// The disk is full.
    DiskFull,
    /// An operation of the disk fails.
    Eio,
    /// Power fails in the middle of a step.
    PowerFailsWithinAStep,
    /// The wall clock jumps, by hours.
    ClockJump,
    /// The disk is lost, and replaced by an empty one.
    DiskLost,
    /// Bytes on the disk change.
    BitRot,
    /// A write lands elsewhere in its file.
    MisdirectedWrite,
    /// A partition is to have its replicas elsewhere.
    Reassignment,
    /// The node hands over what it leads, and is started anew.
    ControlledRestart,
    /// What a leader says right after its election gets nowhere.
    CutAfterElection,
    /// Another node comes to coordinate transactions while markers of this one are late.
    CoordinatorMoves,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_ms, node, for_ms, kind, .. } = self;
        write!(f, "at {at_ms} ms, node {node}: {kind:?} ({for_ms} ms)")
    }
}

/// Draws the faults of a run.
pub(super) fn schedule(rng: &mut Rng, nodes: u64, storm_ms: u64) -> Vec<Fault> {
    use FaultKind as K;
    let kinds = [
        K::Crash,
        K::Crash,
        K::Crash,
        K::Pause,
        K::Pause,
        K::CutOneWay,
        K::CutOneWay,
        K::CutOff,
        K::CutOff,
        K::DiskFull,
        K::Eio,
        K::PowerFailsWithinAStep,
        K::ClockJump,
        K::Reassignment,
        K::Reassignment,
        K::ControlledRestart,
        K::DiskLost,
        K::BitRot,
        K::MisdirectedWrite,
        K::CrashOfAll,
    ];
    let gap_ms = rng.between(200, 1500);
    let (mut faults, mut at_ms) = (Vec::new(), QUIET_MS);
    loop {
        at_ms += rng.between(1, gap_ms);
        if at_ms >= storm_ms {
            return faults;
        }
        let kind = kinds[rng.below(kinds.len() as u64) as usize];
        let (node, for_ms, draw) = (rng.between(1, nodes), rng.between(50, 1200), rng.next_u64());
        faults.push(Fault { number: faults.len(), at_ms, node, for_ms, kind, draw });
    }
}

/// How a fault ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Mend(u64, u64),
    Room(u64),
    Power(u64),
    Verification(u64),
}
