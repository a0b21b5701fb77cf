//! How long each kind of thing may take that one node waits for, and why so long.
//!
//! Who waits for another one has to have more patience than that one has with a third: or what it is told comes too
//! late, and the true reason with it. The compiler checks these relations, at the end of the file. Times that users may
//! want to be others are settings; pauses between attempts stand with what is tried (`retry`).

use tailrace_env::time::Duration;

/// A command, at the controller: its turn, the commit of what is in the log already, and its own commit.
///
/// A majority that has lost its leader elects another one within a few seconds. Kafka's clients wait for 30 s
/// (`request.timeout.ms`), and are to hear of it before.
pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);

/// A command, for the node that has passed it on to the controller: above [`COMMAND_TIMEOUT`], so that the controller
/// is who says that it failed.
pub(crate) const PASSED_COMMAND_TIMEOUT: Duration = Duration::from_secs(25);

/// Until a change of the metadata is known to all nodes. A client waits for it, after its command: so it is short, and
/// the change is made all the same.
pub(crate) const CHANGE_KNOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Until other nodes have committed markers of a transaction. It is long, since the alternative is to write them all
/// again.
pub(crate) const MARKERS_TIMEOUT: Duration = Duration::from_secs(30);

/// A step of a coordinator, or a change of leadership, at another node. Above [`CATCH_UP_TIMEOUT`], which a coordinator
/// may need before its first step.
pub(crate) const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// What another node knows without asking anybody.
pub(crate) const LOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// The newest metadata, for a coordinator that is being loaded. Below [`STEP_TIMEOUT`], so that who asked hears that
/// there is no controller.
pub(crate) const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(5);

/// The newest metadata, for a node that starts. Without a majority of the controllers there is nothing newer to be had,
/// and it begins with what it has.
pub(crate) const START_CATCH_UP_TIMEOUT: Duration = Duration::from_secs(5);

/// The move of a share coordinator to another node: new attempts begin within this time. With the last one, which may
/// take [`STEP_TIMEOUT`], it is below the 30 s of Kafka's clients.
pub(crate) const SHARE_COORDINATOR_TIMEOUT: Duration = Duration::from_secs(5);

/// Until other nodes have let go of share-partitions whose states were deleted or reset. A client waits for it, and one that does not
/// hear of it finds out within seconds: so it is short.
pub(crate) const FORGET_TIMEOUT: Duration = Duration::from_secs(1);

/// A node that a joining one asks: who it is, and whether it lets it in. It need not be above [`COMMAND_TIMEOUT`]: the
/// next node is asked meanwhile, and who was let in already is let in again.
pub(crate) const JOIN_TIMEOUT: Duration = Duration::from_secs(10);

/// A seed that is asked who it is, after a restart. It only looks.
pub(crate) const SEED_STATUS_TIMEOUT: Duration = LOOK_TIMEOUT;

/// Until another node has noted where this one is. Nobody waits for that.
pub(crate) const TELL_TIMEOUT: Duration = Duration::from_secs(10);

/// A node whose number is in use waits so much longer than a session until the one that had it is fenced: the
/// controllers may have to elect a leader first.
pub(crate) const NUMBER_IN_USE_MARGIN: Duration = Duration::from_secs(10);

/// A chunk of a snapshot. Above [`HELD_UP_MAX`], for which its sender may hold it up.
pub(crate) const CHUNK_TIMEOUT: Duration = Duration::from_secs(10);

/// What a throttle holds up. Beyond it who waits would take it for lost.
pub(crate) const HELD_UP_MAX: Duration = Duration::from_secs(5);

/// Until others have taken over what a node leads that stops. Clients are served meanwhile; who stops it does not wait
/// for long.
pub(crate) const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(5);

/// Until a log is in place that is exchanged for another replica's. What comes later is not live any more, and is
/// skipped.
pub(crate) const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Until the other replicas have moved a partition's log start, too.
pub(crate) const LOG_START_TIMEOUT: Duration = Duration::from_secs(25);

/// `request.timeout.ms` of Kafka's clients, if they do not say otherwise.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);

const fn is_below(shorter: Duration, longer: Duration) -> bool {
    shorter.as_nanos() < longer.as_nanos()
}

const _: () = {
    assert!(is_below(COMMAND_TIMEOUT, PASSED_COMMAND_TIMEOUT));
    // A command, and that all know of it.
    assert!(is_below(PASSED_COMMAND_TIMEOUT.saturating_add(CHANGE_KNOWN_TIMEOUT), CLIENT_TIMEOUT));
    assert!(is_below(CATCH_UP_TIMEOUT, STEP_TIMEOUT));
    assert!(is_below(
        SHARE_COORDINATOR_TIMEOUT.saturating_add(STEP_TIMEOUT).saturating_add(FORGET_TIMEOUT),
        CLIENT_TIMEOUT
    ));
    assert!(is_below(HELD_UP_MAX, CHUNK_TIMEOUT));
    assert!(is_below(LOG_START_TIMEOUT, CLIENT_TIMEOUT));
};
