//! CreateDelegationToken (38), RenewDelegationToken (39), ExpireDelegationToken (40) and
//! DescribeDelegationToken (41): KIP-48, KIP-373.
//!
//! The HMAC of a token is enough to log in as its owner. It is in the answers, as in Kafka, and nowhere else:
//! it is computed from the token's id, and neither stored nor logged.

use std::sync::Arc;

use bytes::Bytes;
use tailrace_identity::UserName;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::describe_delegation_token_response::{
    DescribedDelegationToken, DescribedDelegationTokenRenewer,
};
use tailrace_kafka_wire::messages::{
    CreateDelegationTokenRequest, CreateDelegationTokenResponse, DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse, ExpireDelegationTokenRequest, ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest, RenewDelegationTokenResponse,
};
use tailrace_metadata::{Command, StoredToken, TokenEnd};

use crate::commands::{ITEMS_MAX, Refusal};
use crate::context::Context;

/// The only type of principal that has tokens.
const USER: &str = "User";

/// The user that nobody logged in as.
const ANONYMOUS: &str = "ANONYMOUS";

/// First version whose answers tell who asked for a token (KIP-373).
const REQUESTER_FROM: i16 = 3;

/// The time in an answer that has none.
const NO_TIME: i64 = -1;

/// Returns the name of the client's user.
///
/// # Errors
/// The client did not log in, or it logged in with a token: from there nobody may get at another one.
fn requester(context: &Context) -> Result<String, Refusal> {
    let principal = context.caller().principal_name();
    let user = principal.strip_prefix("User:").filter(|user| *user != ANONYMOUS);
    match user.filter(|_| !context.session.login().is_delegated()) {
        Some(user) => Ok(user.to_owned()),
        None => Err(Refusal::new(
            ErrorCode::DelegationTokenRequestNotAllowed,
            "Delegation tokens need a login with a password, a certificate or a token of another kind.",
        )),
    }
}

fn check_enabled(context: &Context) -> Result<(), Refusal> {
    if context.node().has_delegation_tokens() {
        return Ok(());
    }
    let message = "There are no delegation tokens: delegation.token.secret.key is not set.";
    Err(Refusal::new(ErrorCode::DelegationTokenAuthDisabled, message))
}

pub(crate) async fn create(
    context: Arc<Context>,
    request: CreateDelegationTokenRequest,
) -> CreateDelegationTokenResponse {
    let requester = requester(&context);
    let name_of_requester = requester.clone().unwrap_or_default();
    let owner = match request.owner_principal_name.filter(|name| !name.is_empty()) {
        Some(name) => (request.owner_principal_type.unwrap_or_default(), name),
        None => (USER.to_owned(), name_of_requester.clone()),
    };
    let answer = CreateDelegationTokenResponse {
        principal_type: owner.0.clone(),
        principal_name: owner.1.clone(),
        token_requester_principal_type: if_told(&context, USER),
        token_requester_principal_name: if_told(&context, &name_of_requester),
        ..Default::default()
    };
    let renewers =
        request.renewers.into_iter().map(|renewer| (renewer.principal_type, renewer.principal_name));
    let created = match requester {
        Ok(requester) => {
            created(&context, &requester, owner, renewers.collect(), request.max_lifetime_ms).await
        }
        Err(refusal) => Err(refusal),
    };
    match created {
        Ok((token, hmac)) => CreateDelegationTokenResponse {
            issue_timestamp_ms: token.issued_at.0,
            expiry_timestamp_ms: token.expires_at.0,
            max_timestamp_ms: token.max_at.0,
            token_id: token.id.clone(),
            hmac,
            ..answer
        },
        Err(refusal) => CreateDelegationTokenResponse {
            error_code: refused(&refusal),
            issue_timestamp_ms: NO_TIME,
            expiry_timestamp_ms: NO_TIME,
            max_timestamp_ms: NO_TIME,
            ..answer
        },
    }
}

/// Returns a part of who asked for a token, in the versions that tell it.
fn if_told(context: &Context, part: &str) -> String {
    if context.version() >= REQUESTER_FROM { part.to_owned() } else { String::new() }
}

/// A type and a name.
type PrincipalParts = (String, String);

async fn created(
    context: &Context,
    requester: &str,
    owner: PrincipalParts,
    renewers: Vec<PrincipalParts>,
    max_lifetime_ms: i64,
) -> Result<(Arc<StoredToken>, Bytes), Refusal> {
    let (kind, name) = owner;
    if (kind.as_str(), name.as_str()) != (USER, requester) {
        let refused = |code| Refusal::new(code, "The user may not make tokens for this owner.");
        context.rights().create_tokens(&format!("{kind}:{name}")).map_err(refused)?;
    }
    check_enabled(context)?;
    let is_user = |(kind, _): &PrincipalParts| kind == USER;
    if kind != USER || !renewers.iter().all(is_user) {
        let message = "Only users have and renew delegation tokens.";
        return Err(Refusal::new(ErrorCode::InvalidPrincipalType, message));
    }
    // A token of a name that no user can have would let nobody in.
    UserName::new(&name).map_err(|error| Refusal::invalid_request(error.to_string()))?;
    let (node, id) = (context.node(), context.node().new_token_id());
    let command = Command::CreateToken {
        id: id.clone(),
        owner: name,
        renewers: renewers.into_iter().map(|(_, name)| name).collect(),
        max_lifetime_ms,
        by: format!("{USER}:{requester}"),
        now: node.now(),
    };
    let executed =
        context.carried_out(context.caller(), command).await.map_err(|refusal| match refusal.code {
            // The rules have changed since the right was asked for.
            ErrorCode::ClusterAuthorizationFailed => {
                Refusal { code: ErrorCode::DelegationTokenAuthorizationFailed, ..refusal }
            }
            _ => refusal,
        })?;
    let token = executed.image.access().token(&id).cloned();
    let hmac = node.token_hmac(&id).map(|hmac| Bytes::copy_from_slice(&hmac));
    token.zip(hmac).ok_or_else(|| Refusal::new(ErrorCode::DelegationTokenNotFound, "The token has ended."))
}

/// Logs why a request was refused: the answers have no text.
fn refused(refusal: &Refusal) -> i16 {
    tracing::debug!(code = refusal.code.name(), reason = %refusal.message, "refused a delegation token");
    refusal.code.code()
}

pub(crate) async fn renew(
    context: Arc<Context>,
    request: RenewDelegationTokenRequest,
) -> RenewDelegationTokenResponse {
    let end = TokenEnd::Renewed { period_ms: request.renew_period_ms };
    let (error_code, expiry_timestamp_ms) = extended(&context, &request.hmac, end).await;
    RenewDelegationTokenResponse { error_code, expiry_timestamp_ms, ..Default::default() }
}

pub(crate) async fn expire(
    context: Arc<Context>,
    request: ExpireDelegationTokenRequest,
) -> ExpireDelegationTokenResponse {
    let end = TokenEnd::Expires { period_ms: request.expiry_time_period_ms };
    let (error_code, expiry_timestamp_ms) = extended(&context, &request.hmac, end).await;
    ExpireDelegationTokenResponse { error_code, expiry_timestamp_ms, ..Default::default() }
}

/// Returns the error code and the new end.
async fn extended(context: &Context, hmac: &[u8], end: TokenEnd) -> (i16, i64) {
    match extend(context, hmac, end).await {
        Ok(expires_at) => (ErrorCode::None.code(), expires_at),
        Err(refusal) => (refused(&refusal), NO_TIME),
    }
}

async fn extend(context: &Context, hmac: &[u8], end: TokenEnd) -> Result<i64, Refusal> {
    let requester = requester(context)?;
    check_enabled(context)?;
    let missing = || Refusal::new(ErrorCode::DelegationTokenNotFound, "There is no such delegation token.");
    let token = context.node().token_of_hmac(hmac).ok_or_else(missing)?;
    let (id, by, now) = (token.id.clone(), format!("{USER}:{requester}"), context.node().now());
    let command = Command::ExtendToken { id: id.clone(), end, by, now };
    let executed = context.carried_out(context.caller(), command).await?;
    // Without the token it was to end now.
    Ok(executed.image.access().token(&id).map_or(now, |token| token.expires_at).0)
}

pub(crate) async fn describe(
    context: Arc<Context>,
    request: DescribeDelegationTokenRequest,
) -> DescribeDelegationTokenResponse {
    let user = match requester(&context).and_then(|user| check_enabled(&context).map(|()| user)) {
        Ok(user) => user,
        Err(refusal) => {
            return DescribeDelegationTokenResponse { error_code: refused(&refusal), ..Default::default() };
        }
    };
    let owners = request.owners.map(|owners| {
        let owners = owners.into_iter().take(ITEMS_MAX).filter(|owner| owner.principal_type == USER);
        owners.map(|owner| owner.principal_name).collect::<std::collections::BTreeSet<_>>()
    });
    let is_wanted = |token: &StoredToken| {
        owners.as_ref().is_none_or(|owners| {
            let named = [&token.owner, &token.requester].into_iter().chain(&token.renewers);
            named.into_iter().any(|name| owners.contains(name))
        })
    };
    let image = context.node().image();
    let (mut tokens, mut charges) = (Vec::new(), context.charges());
    for token in image.access().tokens().filter(|token| is_wanted(token)) {
        // Made for each token: what takes time in between may change the rules.
        if !(token.is_renewable_by(&user) || sees(&context, token)) {
            continue;
        }
        if charges.is_full() {
            let refusal = Refusal::too_long();
            return DescribeDelegationTokenResponse { error_code: refused(&refusal), ..Default::default() };
        }
        let names: usize = token.renewers.iter().map(String::len).sum();
        charges.add(size_of::<DescribedDelegationToken>() + token.owner.len() + 128 + 2 * names).await;
        tokens.extend(described(&context, token));
    }
    DescribeDelegationTokenResponse { tokens, ..Default::default() }
}

fn sees(context: &Context, token: &StoredToken) -> bool {
    let rights = context.rights();
    rights.sees_token(&token.id) || rights.sees_tokens_of(&format!("{USER}:{}", token.owner))
}

fn described(context: &Context, token: &StoredToken) -> Option<DescribedDelegationToken> {
    let hmac = context.node().token_hmac(&token.id)?;
    let renewer = |name: &String| DescribedDelegationTokenRenewer {
        principal_type: USER.to_owned(),
        principal_name: name.clone(),
        ..Default::default()
    };
    Some(DescribedDelegationToken {
        principal_type: USER.to_owned(),
        principal_name: token.owner.clone(),
        token_requester_principal_type: if_told(context, USER),
        token_requester_principal_name: if_told(context, &token.requester),
        issue_timestamp: token.issued_at.0,
        expiry_timestamp: token.expires_at.0,
        max_timestamp: token.max_at.0,
        token_id: token.id.clone(),
        hmac: Bytes::copy_from_slice(&hmac),
        renewers: token.renewers.iter().map(renewer).collect(),
        ..Default::default()
    })
}
