//! DescribeUserScramCredentials (50) and AlterUserScramCredentials (51): KIP-554.
//!
//! A salted password is as good as the password. It is never logged, and the verifier that is stored cannot
//! be turned back into it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_identity::UserName;
use tailrace_identity::acl::Operation;
use tailrace_identity::scram::{ScramMechanism, ScramVerifier};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::alter_user_scram_credentials_response::AlterUserScramCredentialsResult;
use tailrace_kafka_wire::messages::describe_user_scram_credentials_response::{
    CredentialInfo, DescribeUserScramCredentialsResult,
};
use tailrace_kafka_wire::messages::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
};
use tailrace_metadata::{Command, MetadataImage, ScramChange, StoredUser};

use crate::commands::{ITEMS_MAX, Refusal};
use crate::context::Context;

fn check(context: &Context, operation: Operation) -> Result<(), Refusal> {
    if context.rights().cluster(operation).is_ok() {
        return Ok(());
    }
    Err(Refusal::unauthorized(ErrorCode::ClusterAuthorizationFailed))
}

pub(crate) async fn describe(
    context: Arc<Context>,
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse {
    if let Err(refusal) = check(&context, Operation::Describe) {
        return DescribeUserScramCredentialsResponse {
            error_code: refusal.code.code(),
            error_message: Some(refusal.message),
            ..Default::default()
        };
    }
    let image = context.node().image();
    let names = request.users.unwrap_or_default().into_iter().map(|user| user.name);
    let wanted = counted(names);
    let mut results = Vec::new();
    let mut charges = context.charges();
    let all = image.access().users().filter(|user| !user.credentials.is_empty());
    let all = all.map(|user| (user.name.clone(), 1)).filter(|_| wanted.is_empty());
    for (user, count) in all.chain(wanted.clone()) {
        if charges.is_full() {
            break;
        }
        charges.add(size_of::<DescribeUserScramCredentialsResult>() + user.len()).await;
        results.push(described(&image, user, count));
    }
    DescribeUserScramCredentialsResponse { error_message: Some(String::new()), results, ..Default::default() }
}

fn described(image: &MetadataImage, user: String, count: usize) -> DescribeUserScramCredentialsResult {
    let refused = |code: ErrorCode, message: String| DescribeUserScramCredentialsResult {
        user: user.clone(),
        error_code: code.code(),
        error_message: Some(message),
        ..Default::default()
    };
    if count > 1 {
        let what = "Cannot describe SCRAM credentials for the same user twice in a single request";
        return refused(ErrorCode::DuplicateResource, format!("{what}: {user}"));
    }
    let stored = image.access().user(&user).filter(|stored| !stored.credentials.is_empty());
    let Some(stored) = stored else {
        let what = "Attempt to describe a user credential that does not exist";
        return refused(ErrorCode::ResourceNotFound, format!("{what}: {user}"));
    };
    DescribeUserScramCredentialsResult { credential_infos: infos(stored), user, ..Default::default() }
}

fn infos(user: &StoredUser) -> Vec<CredentialInfo> {
    let info = |verifier: &ScramVerifier| CredentialInfo {
        mechanism: verifier.mechanism().code(),
        // At most 16,384.
        iterations: verifier.iterations() as i32,
        ..Default::default()
    };
    user.credentials.iter().map(|credential| info(&credential.verifier)).collect()
}

/// One change of a request.
struct Wanted {
    user: String,
    change: Result<ScramChange, Refusal>,
}

pub(crate) async fn alter(
    context: Arc<Context>,
    request: AlterUserScramCredentialsRequest,
) -> AlterUserScramCredentialsResponse {
    let allowed = check(&context, Operation::Alter);
    let deletions = request.deletions.into_iter().map(|deletion| Wanted {
        user: deletion.name,
        change: mechanism(deletion.mechanism).map(|mechanism| ScramChange::Delete { mechanism }),
    });
    let upsertions = request.upsertions.into_iter().map(|upsertion| Wanted {
        change: mechanism(upsertion.mechanism).and_then(|mechanism| {
            let iterations = u32::try_from(upsertion.iterations).unwrap_or(0);
            let verifier = ScramVerifier::from_salted_password(
                mechanism,
                &upsertion.salted_password,
                &upsertion.salt,
                iterations,
            );
            let verifier = verifier
                .map_err(|error| Refusal::new(ErrorCode::UnacceptableCredential, error.to_string()))?;
            Ok(ScramChange::Set { verifier, keep_previous_until: None })
        }),
        user: upsertion.name,
    });
    let mut wanted: BTreeMap<String, Vec<Result<ScramChange, Refusal>>> = BTreeMap::new();
    for Wanted { user, change } in deletions.chain(upsertions).take(ITEMS_MAX) {
        wanted.entry(user).or_default().push(change);
    }
    let mut results = Vec::new();
    for (user, changes) in wanted {
        let outcome = match &allowed {
            Ok(()) => altered(&context, &user, changes).await,
            Err(refusal) => Err(refusal.clone()),
        };
        let mut result = AlterUserScramCredentialsResult { user, ..Default::default() };
        if let Err(refusal) = outcome {
            (result.error_code, result.error_message) = (refusal.code.code(), Some(refusal.message));
        }
        results.push(result);
    }
    AlterUserScramCredentialsResponse { results, ..Default::default() }
}

/// Changes one user.
async fn altered(
    context: &Context,
    user: &str,
    changes: Vec<Result<ScramChange, Refusal>>,
) -> Result<(), Refusal> {
    let unacceptable = |message: String| Refusal::new(ErrorCode::UnacceptableCredential, message);
    if user.is_empty() {
        return Err(unacceptable("Username must not be empty".to_owned()));
    }
    let [change]: [_; 1] = changes.try_into().map_err(|_: Vec<_>| {
        let message = "A user credential cannot be altered twice in the same request";
        Refusal::new(ErrorCode::DuplicateResource, message)
    })?;
    let change = change?;
    if matches!(change, ScramChange::Set { .. }) {
        UserName::new(user).map_err(|error| unacceptable(error.to_string()))?;
    }
    let (caller, now) = (context.caller(), context.node().now());
    let by = caller.principal_name();
    let command = Command::AlterScramCredential { user: user.to_owned(), change, by, now };
    context.carried_out(caller, command).await.map(drop)
}

fn mechanism(code: i8) -> Result<ScramMechanism, Refusal> {
    let unknown = || Refusal::new(ErrorCode::UnsupportedSaslMechanism, "Unknown SCRAM mechanism");
    ScramMechanism::from_code(code).ok_or_else(unknown)
}

/// Returns each name once, in order, with the number of times it appeared.
fn counted(names: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for name in names.take(ITEMS_MAX) {
        *counted.entry(name).or_default() += 1;
    }
    counted
}
