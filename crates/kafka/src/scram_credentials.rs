//! DescribeUserScramCredentials (50) and AlterUserScramCredentials (51): KIP-554.
//!
//! A salted password is as good as the password. It is never logged, and the verifier that is stored cannot
//! be turned back into it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tailrace_identity::UserName;
use tailrace_identity::acl::Operation;
use tailrace_identity::scram::{ScramMechanism, ScramVerifier};
use tailrace_kafka_wire::messages::alter_user_scram_credentials_request::ScramCredentialDeletion;
use tailrace_kafka_wire::messages::alter_user_scram_credentials_response::AlterUserScramCredentialsResult;
use tailrace_kafka_wire::messages::describe_user_scram_credentials_response::{
    CredentialInfo, DescribeUserScramCredentialsResult,
};
use tailrace_kafka_wire::messages::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
};
use tailrace_kafka_wire::own_fields::{self, CredentialState};
use tailrace_kafka_wire::{ErrorCode, TaggedFields};
use tailrace_metadata::{Command, MetadataImage, ScramChange, StoredCredential, StoredUser};
use tailrace_types::TimestampMs;

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
    let tells_state = request.unknown_tagged_fields.get(own_fields::USER_STATE).is_some();
    let names = request.users.unwrap_or_default().into_iter().map(|user| user.name);
    let wanted = counted(names);
    let mut results = Vec::new();
    let mut charges = context.charges();
    let all = image.access().users().filter(|user| tells_state || !user.credentials.is_empty());
    let all = all.map(|user| (user.name.clone(), 1)).filter(|_| wanted.is_empty());
    for (user, count) in all.chain(wanted.clone()) {
        if charges.is_full() {
            break;
        }
        charges.add(size_of::<DescribeUserScramCredentialsResult>() + user.len()).await;
        results.push(described(&image, user, count, tells_state.then(|| context.node().now())));
    }
    DescribeUserScramCredentialsResponse { error_message: Some(String::new()), results, ..Default::default() }
}

/// `now` is given if the client asks for the state of users ([`own_fields::USER_STATE`]).
fn described(
    image: &MetadataImage,
    user: String,
    count: usize,
    now: Option<TimestampMs>,
) -> DescribeUserScramCredentialsResult {
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
    let stored = image.access().user(&user).filter(|stored| now.is_some() || !stored.credentials.is_empty());
    let Some(stored) = stored else {
        let what = "Attempt to describe a user credential that does not exist";
        return refused(ErrorCode::ResourceNotFound, format!("{what}: {user}"));
    };
    let is_disabled = stored.disabled.is_some();
    let state = |_| TaggedFields::of(own_fields::USER_STATE, Bytes::from(vec![u8::from(is_disabled)]));
    DescribeUserScramCredentialsResult {
        credential_infos: infos(stored, now),
        user,
        unknown_tagged_fields: now.map(state).unwrap_or_default(),
        ..Default::default()
    }
}

fn infos(user: &StoredUser, now: Option<TimestampMs>) -> Vec<CredentialInfo> {
    let info = |credential: &StoredCredential| CredentialInfo {
        mechanism: credential.verifier.mechanism().code(),
        // At most 16,384.
        iterations: credential.verifier.iterations() as i32,
        unknown_tagged_fields: now.map(|now| state(credential, now)).unwrap_or_default(),
    };
    user.credentials.iter().map(info).collect()
}

fn state(credential: &StoredCredential, now: TimestampMs) -> TaggedFields {
    let previous = credential.previous.as_ref().filter(|previous| now < previous.valid_until);
    let state = CredentialState {
        previous_until_ms: previous.map(|previous| previous.valid_until.0),
        salt: Bytes::copy_from_slice(credential.verifier.salt()),
    };
    TaggedFields::of(own_fields::USER_STATE, state.encode())
}

/// One change of a request.
struct Wanted {
    user: String,
    change: Result<Change, Refusal>,
}

/// A change of a user.
enum Change {
    Credential(ScramChange),
    /// A field of our own ([`own_fields::SWITCH_USER`]).
    Disable(bool),
}

pub(crate) async fn alter(
    context: Arc<Context>,
    request: AlterUserScramCredentialsRequest,
) -> AlterUserScramCredentialsResponse {
    let allowed = check(&context, Operation::Alter);
    let deletions = request
        .deletions
        .into_iter()
        .map(|deletion| Wanted { change: deleted(&deletion), user: deletion.name });
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
            let keep_previous_until = keep_until(&upsertion.unknown_tagged_fields, context.node().now())?;
            Ok(Change::Credential(ScramChange::Set { verifier, keep_previous_until }))
        }),
        user: upsertion.name,
    });
    let mut wanted: BTreeMap<String, Vec<Result<Change, Refusal>>> = BTreeMap::new();
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
    changes: Vec<Result<Change, Refusal>>,
) -> Result<(), Refusal> {
    let unacceptable = |message: String| Refusal::new(ErrorCode::UnacceptableCredential, message);
    if user.is_empty() {
        return Err(unacceptable("Username must not be empty".to_owned()));
    }
    // As in Kafka, an error of the first change comes before that of naming a user twice.
    let (count, first) = (changes.len(), changes.into_iter().next());
    let change = first.unwrap_or_else(|| Err(Refusal::invalid_request("There is no change.")))?;
    match change {
        Change::Credential(ScramChange::Set { .. }) => {
            UserName::new(user).map_err(|error| unacceptable(error.to_string()))?;
        }
        Change::Credential(ScramChange::Delete { mechanism }) if count > 1 => {
            check_credential(context, user, mechanism)?;
        }
        Change::Credential(ScramChange::Delete { .. }) | Change::Disable(_) => {}
    }
    if count > 1 {
        let message = "A user credential cannot be altered twice in the same request";
        return Err(Refusal::new(ErrorCode::DuplicateResource, message));
    }
    let (caller, now) = (context.caller(), context.node().now());
    let by = caller.principal_name();
    let user = user.to_owned();
    let command = match change {
        Change::Credential(change) => Command::AlterScramCredential { user, change, by, now },
        Change::Disable(disabled) => Command::DisableUser { user, disabled, by, now },
    };
    context.carried_out(caller, command).await.map(drop)
}

/// Refuses the deletion of a credential that the user does not have, without asking the controller.
fn check_credential(context: &Context, user: &str, mechanism: ScramMechanism) -> Result<(), Refusal> {
    let image = context.node().image();
    let mut credentials = image.access().user(user).into_iter().flat_map(|stored| &stored.credentials);
    if credentials.any(|credential| credential.verifier.mechanism() == mechanism) {
        return Ok(());
    }
    let message = "Attempt to delete a user credential that does not exist";
    Err(Refusal::new(ErrorCode::ResourceNotFound, message))
}

fn deleted(deletion: &ScramCredentialDeletion) -> Result<Change, Refusal> {
    let switch = deletion.unknown_tagged_fields.get(own_fields::SWITCH_USER);
    match (switch.map(|data| &data[..]), deletion.mechanism) {
        (Some([switch @ 0..=1]), own_fields::NO_MECHANISM) => Ok(Change::Disable(*switch == 1)),
        (_, code) => mechanism(code).map(|mechanism| Change::Credential(ScramChange::Delete { mechanism })),
    }
}

/// Returns until when the credential before a new one stays valid ([`own_fields::KEEP_OLD_MS`]).
fn keep_until(fields: &TaggedFields, now: TimestampMs) -> Result<Option<TimestampMs>, Refusal> {
    let Some(data) = fields.get(own_fields::KEEP_OLD_MS) else { return Ok(None) };
    match own_fields::i64_of(data).filter(|period_ms| *period_ms > 0) {
        Some(period_ms) => Ok(Some(TimestampMs(now.0.saturating_add(period_ms)))),
        None => Err(Refusal::invalid_request("An older password is kept for a time above 0.")),
    }
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
