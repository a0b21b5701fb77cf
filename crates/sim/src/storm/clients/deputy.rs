//! A user who creates rules, through each node. The administrator gives and takes the right to do so. The
//! node that is asked may not know yet that the right is gone, so the controller has to ask again.

use tailrace_env::time::{self, Duration};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::CreateAclsRequest;

use super::client::{Client, below, code};
use super::steward::{CREATE_ACLS, creation};
use crate::storm::access::{DeputysRight, deputys_right, deputys_rule};
use crate::storm::history::Phase;

/// The longest pause between two attempts, unless the right is taken meanwhile.
const PAUSE_MS: u64 = 1_200;

/// The numbers of the rules that are created through one node.
const NUMBERS: u64 = 1_000_000;

/// Asks one node.
pub(super) async fn run(mut client: Client, node: u8) {
    let mut number = u64::from(node) * NUMBERS;
    let mut right = client.history.lock().access.watch_deputy();
    while client.history.lock().phase() < Phase::Leaving {
        let pause = Duration::from_millis(below(PAUSE_MS));
        // An answer that takes long must not keep it from asking when the right is taken.
        let is_taken = right.wait_for(|right| *right == DeputysRight::Taken);
        let was_taken = time::timeout(pause, is_taken).await.is_ok();
        if !was_taken && *right.borrow() != DeputysRight::Open {
            continue;
        }
        number += 1;
        ask(&mut client, node, number).await;
        if was_taken {
            // Once is enough. The sender lives as long as the history.
            let _ = right.wait_for(|right| *right != DeputysRight::Taken).await;
        }
    }
}

async fn ask(client: &mut Client, node: u8, number: u64) {
    {
        let mut history = client.history.lock();
        let look = history.access.look(node);
        let lets_pass = look.is_some_and(|look| look.access.acls().contains(&deputys_right()));
        if history.access.deputy_asks(number) && lets_pass {
            history.count("a deputy asked a node that did not know yet that its right was gone");
        }
    }
    let request =
        CreateAclsRequest { creations: vec![creation(&deputys_rule(number))], ..Default::default() };
    let Some(answer) = client.ask(node, CREATE_ACLS, &request).await else { return };
    let mut history = client.history.lock();
    let is_created = match answer.results.first().map(|result| code(result.error_code)) {
        Some(ErrorCode::None) => true,
        Some(ErrorCode::ClusterAuthorizationFailed) => false,
        _ => return,
    };
    history.count(if is_created {
        "a deputy created a rule"
    } else {
        "a deputy had no right to create a rule"
    });
    let judged = history.access.deputy_was_told(number, is_created);
    history.check(judged);
}
