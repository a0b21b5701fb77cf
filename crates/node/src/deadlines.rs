//! How long a node waits for each kind of thing, and why that long.
//!
//! A node that waits for another must be more patient than that one is with a third. Otherwise the answer,
//! with the true reason for a failure, arrives too late. The compiler checks these relations at the end of
//! the file. Times that users may want to change are settings. Pauses between attempts are with the code that
//! retries (`retry`).

use tailrace_env::time::Duration;

/// A command, at the controller: its turn, the commit of what is already in the log, and its own commit.
///
/// A majority that has lost its leader elects another one within a few seconds. Kafka's clients wait for 30 s
/// (`request.timeout.ms`) and should get the answer before that.
pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);

/// A command, for the node that passed it on to the controller. Above [`COMMAND_TIMEOUT`], so that a failure
/// is reported by the controller.
pub(crate) const PASSED_COMMAND_TIMEOUT: Duration = Duration::from_secs(25);

/// Until all nodes know of a change of the metadata. A client waits for this after its command, so it is
/// short. The change stands even if the time runs out.
pub(crate) const CHANGE_KNOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Until other nodes have committed the markers of a transaction. It is long, because the alternative is to
/// write all of them again.
pub(crate) const MARKERS_TIMEOUT: Duration = Duration::from_secs(30);

/// A step of a coordinator, or a change of leadership, at another node. Above [`CATCH_UP_TIMEOUT`], which a
/// coordinator may need before its first step.
pub(crate) const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// A question that another node answers from what it knows, without asking others.
pub(crate) const LOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// A question to the leader of a stream, wherever that is. Clients of JetStream wait for 5 s.
pub(crate) const STREAM_TIMEOUT: Duration = Duration::from_secs(4);

/// Catching up with the metadata before a coordinator is loaded. Below [`STEP_TIMEOUT`], so that the asker
/// learns that there is no controller.
pub(crate) const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(5);

/// Catching up with the metadata when a node starts. Without a majority of the controllers there is nothing
/// newer to get, and the node starts with what it has.
pub(crate) const START_CATCH_UP_TIMEOUT: Duration = Duration::from_secs(5);

/// The move of a share coordinator to another node: attempts start within this time. Together with the last
/// attempt, which may take [`STEP_TIMEOUT`], it is below the 30 s of Kafka's clients.
pub(crate) const SHARE_COORDINATOR_TIMEOUT: Duration = Duration::from_secs(5);

/// Until other nodes have released share-partitions whose states were deleted or reset. It is short, because
/// a client waits for it, and a node that misses the message finds out within seconds.
pub(crate) const FORGET_TIMEOUT: Duration = Duration::from_secs(1);

/// A joining node asks another who it is, and whether it lets it in. It need not exceed [`COMMAND_TIMEOUT`]:
/// meanwhile the joining node asks the next one, and a node that was let in before is let in again.
pub(crate) const JOIN_TIMEOUT: Duration = Duration::from_secs(10);

/// A restarted node asks a seed who it is. The seed answers from memory.
pub(crate) const SEED_STATUS_TIMEOUT: Duration = LOOK_TIMEOUT;

/// Until another node has recorded the address of this one. Nothing waits for it.
pub(crate) const TELL_TIMEOUT: Duration = Duration::from_secs(10);

/// A node whose id is in use waits for a session plus this long, until the previous holder of the id is
/// fenced. The controllers may have to elect a leader first.
pub(crate) const NUMBER_IN_USE_MARGIN: Duration = Duration::from_secs(10);

/// A chunk of a snapshot. Above [`HELD_UP_MAX`], for which a throttle may delay it at the sender.
pub(crate) const CHUNK_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a throttle delays something. After a longer delay the waiting side would take it for lost.
pub(crate) const HELD_UP_MAX: Duration = Duration::from_secs(5);

/// Until others have taken over what a stopping node leads. It serves clients meanwhile. It is short, because
/// the operator waits for the stop.
pub(crate) const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(5);

/// Until a log that is being replaced by another replica's is in place again. Later records are no longer
/// live, and are skipped.
pub(crate) const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Until the other replicas have moved a partition's log start, too.
pub(crate) const LOG_START_TIMEOUT: Duration = Duration::from_secs(25);

/// Default `request.timeout.ms` of Kafka's clients.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);

const fn is_below(shorter: Duration, longer: Duration) -> bool {
    shorter.as_nanos() < longer.as_nanos()
}

const _: () = {
    assert!(is_below(COMMAND_TIMEOUT, PASSED_COMMAND_TIMEOUT));
    // A command, and waiting until all nodes know of it.
    assert!(is_below(PASSED_COMMAND_TIMEOUT.saturating_add(CHANGE_KNOWN_TIMEOUT), CLIENT_TIMEOUT));
    assert!(is_below(CATCH_UP_TIMEOUT, STEP_TIMEOUT));
    assert!(is_below(STREAM_TIMEOUT, LOOK_TIMEOUT));
    assert!(is_below(
        SHARE_COORDINATOR_TIMEOUT.saturating_add(STEP_TIMEOUT).saturating_add(FORGET_TIMEOUT),
        CLIENT_TIMEOUT
    ));
    assert!(is_below(HELD_UP_MAX, CHUNK_TIMEOUT));
    assert!(is_below(LOG_START_TIMEOUT, CLIENT_TIMEOUT));
};
