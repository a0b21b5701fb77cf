//! An administrator who gives and takes the deputy's right to create rules, several times a second, and
//! changes nothing else. It asks the controller to take the right, while some other node hears late of it. As
//! soon as the controller has taken it, the deputy asks that node. The node still lets the command pass, so
//! the controller has to ask for the right again.
//!
//! The answer would be too late for that: it comes once all nodes know of the change.

use std::pin::pin;

use tailrace_env::time::{self, Duration, Instant};
use tailrace_identity::acl::Acl;
use tailrace_kafka_wire::messages::{CreateAclsRequest, DeleteAclsRequest};

use super::client::{Client, below, pause};
use super::steward::{CREATE_ACLS, DELETE_ACLS, creation, filter};
use crate::storm::access::{DeputysRight, Look, deputys_right};
use crate::storm::history::{Phase, SharedHistory};

/// How long the right is given.
const GIVEN: Duration = Duration::from_millis(100);
const GIVEN_MS: u64 = 200;

/// The right is taken so long after it was foretold. By then another node hears late of it.
const FORETOLD: Duration = Duration::from_millis(50);

/// How long the right is gone. A command that a node passes on late arrives within this time.
const TAKEN: Duration = Duration::from_millis(350);
const TAKEN_MS: u64 = 250;

/// Pause between two looks at what the nodes have.
const LOOK: Duration = Duration::from_millis(2);

/// Pause before another attempt.
const AGAIN: Duration = Duration::from_millis(50);

/// A request without an answer may be carried out until then: a node gives up a command after 25 s.
const LATE: Duration = Duration::from_secs(26);

/// What the warden knows of the right. Nobody else changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// It was given by this version of users and rules, and nobody asks to give it.
    Given { by: Option<u64> },
    /// It was certainly gone in this version, and nobody asks to give it.
    Taken { version: Option<u64> },
    /// The warden asked to take the right, and does not know what has become of that.
    Open,
    /// It asked to give the right, and that may happen until then. If the right was certainly gone in some
    /// version, a later one with the right shows that it has happened.
    Doubtful { until: Instant, gone: Option<u64> },
}

pub(super) async fn run(mut client: Client) {
    let (right, history) = (deputys_right(), client.history.clone());
    let mut known = Known::Given { by: newest(&history, &right, true) };
    while history.lock().phase() < Phase::Leaving {
        known = match known {
            Known::Given { by } => {
                time::sleep(GIVEN).await;
                pause(GIVEN_MS).await;
                history.lock().access.deputys_right_is(DeputysRight::Ending);
                time::sleep(FORETOLD).await;
                take(&mut client, &right, by).await
            }
            Known::Taken { version } => give(&mut client, &right, version).await,
            Known::Open => {
                history.lock().access.deputys_right_is(DeputysRight::Open);
                time::sleep(AGAIN).await;
                give(&mut client, &right, None).await
            }
            Known::Doubtful { until, .. } if Instant::now() >= until => Known::Open,
            Known::Doubtful { gone: Some(gone), .. } if given_after(&history, gone, &right).is_some() => {
                Known::Given { by: given_after(&history, gone, &right) }
            }
            Known::Doubtful { .. } => {
                time::sleep(AGAIN).await;
                known
            }
        };
    }
}

/// Returns the newest version that some node has, if it is one with the right, or without it.
fn newest(history: &SharedHistory, right: &Acl, has_right: bool) -> Option<u64> {
    let newest = history.lock().access.newest()?;
    (newest.acls().contains(right) == has_right).then(|| newest.version())
}

/// Returns a version with the right, after one without it.
fn given_after(history: &SharedHistory, gone: u64, right: &Acl) -> Option<u64> {
    newest(history, right, true).filter(|version| *version > gone)
}

/// Returns a version without the right, after one with it.
fn gone_after(history: &SharedHistory, given: u64, right: &Acl) -> Option<u64> {
    newest(history, right, false).filter(|version| *version > given)
}

/// Returns the version of the node that has answered, if it is one with the right, or without it. It has what
/// it has answered, unless it was started again.
fn answered(before: Option<&Look>, after: Option<Look>, right: &Acl, has_right: bool) -> Option<u64> {
    let after = after.filter(|after| before.is_some_and(|before| after.is_of(before)))?;
    (after.access.acls().contains(right) == has_right).then(|| after.access.version())
}

/// Takes the right. As soon as some node knows that it is gone, the deputy is told, and asks all nodes.
async fn take(client: &mut Client, right: &Acl, by: Option<u64>) -> Known {
    let history = client.history.clone();
    let node = history.lock().access.controller().unwrap_or_else(|| client.any_node());
    let before = history.lock().access.look(node);
    let request = DeleteAclsRequest { filters: vec![filter(right)], ..Default::default() };
    let mut asked = pin!(client.ask(node, DELETE_ACLS, &request));
    let (mut taken, mut answer) = (None, None);
    while taken.is_none() && answer.is_none() {
        answer = time::timeout(LOOK, &mut asked).await.ok();
        taken = by.and_then(|by| gone_after(&history, by, right));
    }
    let result = answer.as_ref().and_then(|answer| answer.as_ref()?.filter_results.first());
    // A node that does not know of the right yet finds nothing to delete.
    let is_done = result.is_some_and(|result| result.error_code == 0 && !result.matching_acls.is_empty());
    if taken.is_none() && !is_done {
        return Known::Open;
    }
    {
        let mut history = history.lock();
        taken = taken.or_else(|| answered(before.as_ref(), history.access.look(node), right, false));
        history.count("a right was taken from a deputy");
        history.access.deputys_right_is(DeputysRight::Taken);
    }
    time::sleep(TAKEN).await;
    pause(TAKEN_MS).await;
    if answer.is_none() {
        asked.await;
    }
    Known::Taken { version: taken }
}

/// Gives the right, through any node.
async fn give(client: &mut Client, right: &Acl, gone: Option<u64>) -> Known {
    let history = client.history.clone();
    let judged = history.lock().access.deputys_right_returns();
    history.lock().check(judged);
    let node = if below(2) == 0 { history.lock().access.controller() } else { None };
    let node = node.unwrap_or_else(|| client.any_node());
    let (before, unanswered) = (history.lock().access.look(node), client.unanswered());
    client.hang_up();
    let request = CreateAclsRequest { creations: vec![creation(right)], ..Default::default() };
    let answer = client.ask(node, CREATE_ACLS, &request).await;
    match answer.and_then(|answer| Some(answer.results.first()?.error_code)) {
        Some(0) => {
            let after = history.lock().access.look(node);
            Known::Given { by: answered(before.as_ref(), after, right, true) }
        }
        None if client.unanswered() == unanswered => {
            // It could not connect, so it has asked for nothing.
            time::sleep(AGAIN).await;
            gone.map_or(Known::Open, |gone| Known::Taken { version: Some(gone) })
        }
        Some(_) | None => Known::Doubtful { until: Instant::now() + LATE, gone },
    }
}
