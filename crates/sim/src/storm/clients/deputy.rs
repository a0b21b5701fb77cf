//! A user who creates rules, through each node. The administrator gives and takes the right to do so. The
//! node that is asked may not know yet that the right is gone, so the controller has to ask again.

use tailrace_env::time::{self, Duration};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::CreateAclsRequest;

use super::client::{Client, below, code};
use super::steward::creation;
use crate::storm::access::deputys_rule;
use crate::storm::history::Phase;

const CREATE_ACLS: i16 = 3;

/// The longest pause between two attempts, unless the right is taken meanwhile.
const PAUSE_MS: u64 = 400;

/// The numbers of the rules that are created through one node.
const NUMBERS: u64 = 1_000_000;

/// Asks one node.
pub(super) async fn run(mut client: Client, node: u8) {
    let mut number = u64::from(node) * NUMBERS;
    let mut barred = client.history.lock().access.watch_deputy();
    while client.history.lock().phase() < Phase::Leaving {
        let pause = Duration::from_millis(below(PAUSE_MS));
        // The sender lives as long as the history.
        let _ = time::timeout(pause, barred.changed()).await;
        barred.mark_unchanged();
        number += 1;
        client.history.lock().access.deputy_asks(number);
        let request =
            CreateAclsRequest { creations: vec![creation(&deputys_rule(number))], ..Default::default() };
        let Some(answer) = client.ask(node, CREATE_ACLS, &request).await else { continue };
        let mut history = client.history.lock();
        match answer.results.first().map(|result| code(result.error_code)) {
            Some(ErrorCode::None) => {
                history.count("a deputy created a rule");
                history.access.deputy_was_told(number, true);
            }
            Some(ErrorCode::ClusterAuthorizationFailed) => {
                history.count("a deputy had no right to create a rule");
                history.access.deputy_was_told(number, false);
            }
            _ => {}
        }
    }
}
