//! DescribeUserScramCredentials (50) and AlterUserScramCredentials (51). There are no users for Kafka clients
//! yet: the list is empty, and adding one is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::alter_user_scram_credentials_response::AlterUserScramCredentialsResult;
use tailrace_kafka_wire::messages::describe_user_scram_credentials_response::DescribeUserScramCredentialsResult;
use tailrace_kafka_wire::messages::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
};

use crate::commands::{ITEMS_MAX, Refusal};
use crate::context::Context;

pub(crate) async fn describe(
    _context: Arc<Context>,
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse {
    let names = request.users.unwrap_or_default().into_iter().map(|user| user.name);
    let results = counted(names).into_iter().map(|(user, count)| {
        let refusal = if count > 1 {
            Refusal::new(ErrorCode::DuplicateResource, format!("User {user} appears more than once."))
        } else {
            unknown(&user)
        };
        DescribeUserScramCredentialsResult {
            user,
            error_code: refusal.code.code(),
            error_message: Some(refusal.message),
            ..Default::default()
        }
    });
    DescribeUserScramCredentialsResponse {
        error_message: Some(String::new()),
        results: results.collect(),
        ..Default::default()
    }
}

pub(crate) async fn alter(
    _context: Arc<Context>,
    request: AlterUserScramCredentialsRequest,
) -> AlterUserScramCredentialsResponse {
    let added = request.upsertions.into_iter().map(|upsertion| (upsertion.name, true));
    let deleted = request.deletions.into_iter().map(|deletion| (deletion.name, false));
    let mut wanted: BTreeMap<String, bool> = BTreeMap::new();
    for (name, is_added) in deleted.chain(added).take(ITEMS_MAX) {
        *wanted.entry(name).or_default() |= is_added;
    }
    let results = wanted.into_iter().map(|(user, is_added)| {
        let refusal = if is_added {
            Refusal::new(ErrorCode::SecurityDisabled, "tailrace has no users for Kafka clients yet.")
        } else {
            unknown(&user)
        };
        AlterUserScramCredentialsResult {
            user,
            error_code: refusal.code.code(),
            error_message: Some(refusal.message),
            ..Default::default()
        }
    });
    AlterUserScramCredentialsResponse { results: results.collect(), ..Default::default() }
}

/// Returns each name once, in order, with the number of times it appeared.
fn counted(names: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for name in names.take(ITEMS_MAX) {
        *counted.entry(name).or_default() += 1;
    }
    counted
}

fn unknown(user: &str) -> Refusal {
    Refusal::new(ErrorCode::ResourceNotFound, format!("There is no user '{user}' with SCRAM credentials."))
}
