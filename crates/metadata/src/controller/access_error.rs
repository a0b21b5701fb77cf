//! Reasons for refusing a command about users, rules or client quotas. Each variant names its Kafka error.

use tailrace_identity::quota::QuotaKey;

use crate::access::QuotaLimitError;

/// Why a command about users, rules or client quotas is refused. No text shows a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// `UNSUPPORTED_VERSION`: a node of the cluster may not be able to read the records of the command.
    #[error(
        "Users, rules, quotas and streams need level {needed} of the protocol between nodes, and the cluster is at {level}; start the newer build on every node, then run kafka-features upgrade --feature tailrace.cluster.level={needed}."
    )]
    LevelTooLow {
        /// The level in force.
        level: u16,
        /// The lowest level that is enough.
        needed: u16,
    },
    /// `UNACCEPTABLE_CREDENTIAL`.
    #[error("Username must not be empty")]
    NoUserName,
    /// `UNACCEPTABLE_CREDENTIAL`: the name cannot be the name of a user.
    #[error("Username must not {reason}")]
    InvalidUserName {
        /// What a name must not do.
        reason: &'static str,
    },
    /// `UNACCEPTABLE_CREDENTIAL`: one name would be two users. Only a node knows its own users, so a node
    /// finds this.
    #[error(
        "A user of the NATS settings or of the users file has this name; take another name, or remove that user from the settings and restart."
    )]
    UserOfSettings,
    /// `RESOURCE_NOT_FOUND`: the user has no credential for this mechanism.
    #[error("Attempt to delete a user credential that does not exist")]
    UnknownCredential,
    /// `RESOURCE_NOT_FOUND`.
    #[error("There is no user of this name.")]
    UnknownUser,
    /// `DUPLICATE_RESOURCE`: a client's request alters one user twice. A command alters a user once, so it is
    /// the front that finds this, when it makes commands of a request.
    #[error("A user credential cannot be altered twice in the same request")]
    CredentialTwice,
    /// `INVALID_REQUEST`: the older credential would end before the change.
    #[error("The older credential must stay valid until a time after now.")]
    EndsBeforeNow,
    /// `INVALID_REQUEST`: clients that log in with SCRAM could not use both passwords.
    #[error("The older password can stay valid only if the new one has the same salt and iterations.")]
    OtherSalt,
    /// `DELEGATION_TOKEN_NOT_FOUND`.
    #[error("There is no such delegation token.")]
    UnknownToken,
    /// `DELEGATION_TOKEN_EXPIRED`.
    #[error("The delegation token has expired.")]
    TokenExpired,
    /// `DELEGATION_TOKEN_OWNER_MISMATCH`.
    #[error("The user is neither owner nor renewer of the delegation token.")]
    TokenOwnerMismatch,
    /// `INVALID_PRINCIPAL_TYPE`.
    #[error("Only users have and renew delegation tokens.")]
    TokenPrincipalType,
    /// `INVALID_REQUEST`: the id is not one that was drawn, or it is taken.
    #[error("The id of a delegation token is drawn by the server.")]
    TokenId,
    /// `INVALID_REQUEST`: a name cannot be that of a token's owner or renewer.
    #[error("The name of an owner or renewer must not {reason}.")]
    InvalidTokenUser {
        /// What a name must not do.
        reason: &'static str,
    },
    /// `POLICY_VIOLATION`.
    #[error("A delegation token has at most {max} renewers.")]
    TooManyRenewers {
        /// The maximum number.
        max: usize,
    },
    /// `POLICY_VIOLATION`.
    #[error("There are {max} delegation tokens already; let others expire first.")]
    TooManyTokens {
        /// The maximum number.
        max: usize,
    },
    /// `POLICY_VIOLATION`.
    #[error("The user has {max} delegation tokens already; let others expire first.")]
    TooManyTokensOfUser {
        /// The maximum number.
        max: usize,
    },
    /// `INVALID_REQUEST`: the principal that makes the change cannot be stored.
    #[error("The principal of a change has 1 to {max} bytes and no control characters.")]
    InvalidPrincipal {
        /// The maximum length.
        max: usize,
    },
    /// `POLICY_VIOLATION`.
    #[error("There are {max} users already; remove other users first.")]
    TooManyUsers {
        /// The maximum number.
        max: usize,
    },
    /// `INVALID_REQUEST`: the command changes too many rules at once.
    #[error(
        "A request may change at most {max} rules with {bytes_max} bytes of text; send several requests."
    )]
    TooManyAclsAtOnce {
        /// The maximum number of rules.
        max: usize,
        /// The maximum length of all their texts.
        bytes_max: usize,
    },
    /// `POLICY_VIOLATION`.
    #[error("There are {current} rules, and {added} more would exceed {max}; delete other rules first.")]
    TooManyAcls {
        /// The number of rules now.
        current: usize,
        /// The number of new rules in the command.
        added: usize,
        /// The maximum number.
        max: usize,
    },
    /// `INVALID_REQUEST`: a rule cannot be one.
    #[error("{reason}")]
    InvalidAcl {
        /// What is wrong.
        reason: String,
    },
    /// `INVALID_REQUEST`: nothing is named that could have a quota.
    #[error("Invalid empty client quota entity")]
    NoEntity,
    /// `INVALID_REQUEST`: the entity of a quota cannot be one.
    #[error("{reason}")]
    InvalidEntity {
        /// What is wrong.
        reason: String,
    },
    /// `INVALID_REQUEST`: this kind of entity has no such limit.
    #[error("Invalid configuration key {}", key.name())]
    InvalidQuotaKey {
        /// The key.
        key: QuotaKey,
    },
    /// `INVALID_REQUEST`: one limit is to be set and removed.
    #[error("Duplicate quota key {}", key.name())]
    QuotaKeyTwice {
        /// The key.
        key: QuotaKey,
    },
    /// `INVALID_REQUEST`: a number cannot be a limit.
    #[error(transparent)]
    InvalidLimit(#[from] QuotaLimitError),
    /// `INVALID_REQUEST`: the token of an account's claims cannot be read.
    #[error("{reason}")]
    InvalidAccountClaims {
        /// What is wrong.
        reason: String,
    },
    /// `INVALID_REQUEST`: newer claims are stored.
    #[error("The claims of account {account} are older than those that are stored.")]
    OlderAccountClaims {
        /// The public key of the account.
        account: String,
    },
    /// `POLICY_VIOLATION`.
    #[error("There are claims of {max} accounts already; delete those of other accounts first.")]
    TooManyAccountClaims {
        /// The maximum number.
        max: usize,
    },
    /// `POLICY_VIOLATION`.
    #[error(
        "The claims of all accounts would have more than {max} bytes; delete those of other accounts first."
    )]
    AccountClaimsTooLong {
        /// The maximum length, in bytes.
        max: usize,
    },
    /// `POLICY_VIOLATION`.
    #[error("{max} entities have quotas already; remove the quotas of others first.")]
    TooManyEntities {
        /// The maximum number.
        max: usize,
    },
}
