//! How many users, rules and quotas the metadata may hold, and how long their names may be.
//!
//! The controller refuses what is beyond these bounds. Every node holds all of it in memory, and once more in
//! a snapshot of the metadata log while that is written.

/// Lowest level of the protocol between nodes at which users, rules and quotas can be changed. Builds that
/// support only lower levels cannot read version 4 of the metadata records.
pub const ACCESS_LEVEL: u16 = 2;

/// Maximum number of users. One with both mechanisms takes about 950 bytes, and 1,300 during a rotation
/// (measured): 130 MB in all.
pub(crate) const USERS_MAX: usize = 100_000;

/// Maximum number of rules. A usual one takes about 260 bytes (measured), 26 MB in all. With texts of the
/// maximum length it is 3 KiB, 300 MB in all.
pub(crate) const ACLS_MAX: usize = 100_000;

/// Maximum number of entities with quotas. One takes at most 1 KiB, 10 MB in all.
pub(crate) const QUOTA_ENTITIES_MAX: usize = 10_000;

/// Maximum number of rules in one command, as in Kafka. It also bounds a record.
pub(crate) const ACLS_PER_COMMAND_MAX: usize = 10_000;

/// Maximum length of the texts of all rules in one command, in bytes. Escaped as JSON they take at most six
/// times as much, in the command, in its record and in the answer. All of these must fit a frame between
/// nodes, which has 100 MiB by default.
pub(crate) const ACL_BYTES_PER_COMMAND_MAX: usize = 4 << 20;

/// Maximum length of the name of a user, and of a user or client id in a quota, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// Maximum length of the name, the principal and the host of a rule, in bytes each. A group's id has up to
/// 1,024 bytes, too.
pub(crate) const ACL_TEXT_BYTES_MAX: usize = 1_024;

/// Maximum length of the principal that made a change, in bytes.
pub(crate) const PRINCIPAL_BYTES_MAX: usize = 1_024;

/// Maximum number of delegation tokens. A usual one takes about 400 bytes. With a hundred renewers whose
/// names have their maximum length it is 28 KB, 280 MB in all.
pub(crate) const TOKENS_MAX: usize = 10_000;

/// Maximum number of delegation tokens that one user may own or have asked for, so that nobody can take all.
pub(crate) const TOKENS_PER_USER_MAX: usize = 1_000;

/// Maximum number of renewers of a delegation token.
pub(crate) const RENEWERS_MAX: usize = 100;

/// Maximum length of the id of a delegation token, in bytes. The controller accepts only ids of 22
/// characters.
pub(crate) const TOKEN_ID_BYTES_MAX: usize = 64;

/// Maximum number of accounts whose claims are stored.
pub(crate) const ACCOUNT_CLAIMS_MAX: usize = 10_000;

/// Maximum length of the claims of all accounts together, in bytes. Usual claims have one to four KiB. One
/// account has at most 1 MiB, the maximum of a token.
pub(crate) const ACCOUNT_CLAIMS_BYTES_MAX: usize = 64 << 20;
