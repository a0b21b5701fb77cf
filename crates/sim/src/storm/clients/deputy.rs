//! A user who creates rules. The administrator gives and takes the right to do so. The node that the deputy
//! asks may not know yet that the right is gone, so the controller has to ask again.

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::CreateAclsRequest;

use super::client::{Client, code, pause};
use super::steward::creation;
use crate::storm::access::deputys_rule;
use crate::storm::history::Phase;

const CREATE_ACLS: i16 = 3;

/// The longest pause between two attempts.
const PAUSE_MS: u64 = 120;

pub(super) async fn run(mut client: Client) {
    let mut number = 0;
    while client.history.lock().phase() < Phase::Leaving {
        pause(PAUSE_MS).await;
        number += 1;
        let is_barred = client.history.lock().access.is_deputy_barred();
        if is_barred {
            client.history.lock().access.forbid(number);
        }
        let request =
            CreateAclsRequest { creations: vec![creation(&deputys_rule(number))], ..Default::default() };
        let Some(answer) = client.ask(client.any_node(), CREATE_ACLS, &request).await else { continue };
        match answer.results.first().map(|result| code(result.error_code)) {
            Some(ErrorCode::None) => {
                client.count("a deputy created a rule");
                client.history.lock().access.was_created(number);
            }
            Some(ErrorCode::ClusterAuthorizationFailed) => {
                client.count("a deputy had no right to create a rule");
                client.history.lock().access.forbid(number);
            }
            _ => {}
        }
    }
}
