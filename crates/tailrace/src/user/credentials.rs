//! The credentials of users, as the server tells and takes them.

use std::num::NonZeroU32;
use std::time::Duration;

use bytes::Bytes;
use ring::rand::{SecureRandom as _, SystemRandom};
use tailrace_cli::failure::Failure;
use tailrace_kafka_wire::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use tailrace_kafka_wire::messages::describe_user_scram_credentials_request::UserName;
use tailrace_kafka_wire::messages::describe_user_scram_credentials_response::{
    CredentialInfo, DescribeUserScramCredentialsResult,
};
use tailrace_kafka_wire::messages::{AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest};
use tailrace_kafka_wire::own_fields::{self, CredentialState};
use tailrace_kafka_wire::{ErrorCode, TaggedFields};

use crate::client::{ClientError, Cluster, Password, SALT_BYTES, ScramMechanism, check, retrying};

/// A user, and how it may log in.
pub(super) struct User {
    pub(super) name: String,
    /// Sorted by mechanism.
    pub(super) credentials: Vec<Credential>,
    /// Whether the user cannot log in. `None` if the server does not tell.
    pub(super) is_disabled: Option<bool>,
}

/// What the server tells of a credential.
pub(super) struct Credential {
    /// Kafka's number of the mechanism, which may be newer than this client.
    pub(super) mechanism: i8,
    pub(super) iterations: i32,
    /// What else a tailrace tells.
    pub(super) state: Option<CredentialState>,
}

impl Credential {
    fn from_info(info: CredentialInfo) -> Self {
        let state = info.unknown_tagged_fields.get(own_fields::USER_STATE);
        let state = state.and_then(CredentialState::decode);
        Self { mechanism: info.mechanism, iterations: info.iterations, state }
    }

    /// The mechanism's name.
    pub(super) fn mechanism_name(&self) -> String {
        let known = ScramMechanism::from_code(self.mechanism);
        known.map_or_else(|| format!("mechanism {}", self.mechanism), |known| known.name().to_owned())
    }
}

impl User {
    fn from_answer(answer: DescribeUserScramCredentialsResult) -> Self {
        let infos = answer.credential_infos.into_iter();
        let mut credentials: Vec<_> = infos.map(Credential::from_info).collect();
        credentials.sort_unstable_by_key(|credential| credential.mechanism);
        let state = answer.unknown_tagged_fields.get(own_fields::USER_STATE);
        Self { name: answer.user, credentials, is_disabled: state.map(|state| state[..] == [1]) }
    }
}

/// Returns all users, or those of these names in the order of their names. Of a name that does not exist, the
/// error is in its place. Names may not repeat.
pub(super) async fn users(
    cluster: &mut Cluster,
    names: Option<&[String]>,
) -> Result<Vec<Result<User, ClientError>>, ClientError> {
    let named = |name: &String| UserName { name: name.clone(), ..Default::default() };
    let request = DescribeUserScramCredentialsRequest {
        users: names.map(|names| names.iter().map(named).collect()),
        unknown_tagged_fields: TaggedFields::of(own_fields::USER_STATE, Bytes::new()),
    };
    retrying(cluster, async |cluster| {
        let answer = cluster.any().await?.call(&request).await?;
        check(answer.error_code, answer.error_message.as_ref(), || "cannot read users".to_owned())?;
        let mut results = answer.results;
        results.sort_unstable_by(|a, b| a.user.cmp(&b.user));
        Ok(results.into_iter().map(user_or_error).collect())
    })
    .await
}

fn user_or_error(result: DescribeUserScramCredentialsResult) -> Result<User, ClientError> {
    if ErrorCode::from_code(result.error_code) == Some(ErrorCode::ResourceNotFound) {
        return Err(ClientError::NoUser(result.user));
    }
    let what = || format!("cannot read user '{}'", result.user);
    check(result.error_code, result.error_message.as_ref(), what)?;
    Ok(User::from_answer(result))
}

/// Returns a user, or an error if it does not exist.
pub(super) async fn find_user(cluster: &mut Cluster, name: &str) -> Result<User, ClientError> {
    let found = users(cluster, Some(&[name.to_owned()])).await?;
    let of_name = |result: &Result<User, _>| match result {
        Ok(user) => user.name == name,
        Err(_) => true,
    };
    let missing = || Err(ClientError::NoUser(name.to_owned()));
    found.into_iter().find(of_name).unwrap_or_else(missing)
}

/// How a new password is hashed.
pub(super) struct Hashing {
    pub(super) mechanism: ScramMechanism,
    iterations: u32,
    salt: Bytes,
    /// How long the password before it works as well.
    keep_old: Option<Duration>,
}

impl Hashing {
    /// With a new salt.
    pub(super) fn new(mechanism: ScramMechanism, iterations: u32) -> Result<Self, Failure> {
        let mut salt = [0; SALT_BYTES];
        SystemRandom::new().fill(&mut salt).map_err(|_| "the system gives no random numbers".to_owned())?;
        Ok(Self { mechanism, iterations, salt: Bytes::copy_from_slice(&salt), keep_old: None })
    }

    /// With the salt of the password before it, which works for a while as well: the server tells a client
    /// only one salt.
    pub(super) fn beside(
        mechanism: ScramMechanism,
        iterations: u32,
        salt: Bytes,
        keep_old: Duration,
    ) -> Self {
        Self { mechanism, iterations, salt, keep_old: Some(keep_old) }
    }
}

fn kept(keep_old: Duration) -> TaggedFields {
    let period_ms = i64::try_from(keep_old.as_millis()).unwrap_or(i64::MAX);
    TaggedFields::of(own_fields::KEEP_OLD_MS, own_fields::number(period_ms))
}

/// A change of one credential. The server refuses several of one user in a request.
pub(super) struct Change<'a> {
    pub(super) user: &'a str,
    /// The operation, for errors.
    pub(super) what: String,
    request: AlterUserScramCredentialsRequest,
    /// It carries a secret, and may only take a connection that nobody can read.
    needs_privacy: bool,
}

impl<'a> Change<'a> {
    /// A new password. Computes its hash.
    pub(super) fn set(
        user: &'a str,
        hashing: &Hashing,
        password: &Password,
        without_tls: bool,
    ) -> Result<Self, Failure> {
        let Hashing { mechanism, iterations, salt, keep_old } = hashing;
        let rounds = NonZeroU32::new(*iterations).ok_or("a hash needs iterations")?;
        // Erased when the request is dropped; the frame that is sent is not.
        let salted = Bytes::from_owner(mechanism.salted_password(password.bytes(), salt, rounds));
        let upsertion = ScramCredentialUpsertion {
            name: user.to_owned(),
            mechanism: mechanism.code(),
            iterations: i32::try_from(*iterations).map_err(|_| "too many iterations")?,
            salt: salt.clone(),
            salted_password: salted,
            unknown_tagged_fields: keep_old.map(kept).unwrap_or_default(),
        };
        let what = format!("cannot set the {} password of '{user}'", mechanism.name());
        let request = AlterUserScramCredentialsRequest { upsertions: vec![upsertion], ..Default::default() };
        Ok(Self { user, what, request, needs_privacy: !without_tls })
    }

    /// A user to disable, or to enable again.
    pub(super) fn switch(user: &'a str, is_disabled: bool) -> Self {
        let switch = Bytes::from(vec![u8::from(is_disabled)]);
        let deletion = ScramCredentialDeletion {
            name: user.to_owned(),
            mechanism: own_fields::NO_MECHANISM,
            unknown_tagged_fields: TaggedFields::of(own_fields::SWITCH_USER, switch),
        };
        let what = format!("cannot {} user '{user}'", if is_disabled { "disable" } else { "enable" });
        let request = AlterUserScramCredentialsRequest { deletions: vec![deletion], ..Default::default() };
        Self { user, what, request, needs_privacy: false }
    }

    /// A credential to remove.
    pub(super) fn remove(user: &'a str, credential: &Credential) -> Self {
        let deletion = ScramCredentialDeletion {
            name: user.to_owned(),
            mechanism: credential.mechanism,
            ..Default::default()
        };
        let what = format!("cannot remove the {} password of '{user}'", credential.mechanism_name());
        let request = AlterUserScramCredentialsRequest { deletions: vec![deletion], ..Default::default() };
        Self { user, what, request, needs_privacy: false }
    }

    /// Has the server make the change.
    pub(super) async fn apply(&self, cluster: &mut Cluster) -> Result<(), ClientError> {
        retrying(cluster, async |cluster| {
            let controller = cluster.controller().await?;
            if self.needs_privacy {
                controller.check_private()?;
            }
            let answer = controller.call(&self.request).await?;
            let result = answer.results.iter().find(|result| result.user == self.user);
            let result = result.ok_or_else(|| ClientError::NoResult { what: self.what.clone() })?;
            check(result.error_code, result.error_message.as_ref(), || self.what.clone())
        })
        .await
    }
}
