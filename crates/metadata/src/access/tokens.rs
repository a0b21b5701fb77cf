//! Delegation tokens (KIP-48), as the metadata store them: without any secret.

use tailrace_types::TimestampMs;

/// A delegation token. Its secret is computed from the id, with a key that is not stored here.
///
/// Owner, requester and renewers are names of users, who need not be users of the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredToken {
    /// The id, drawn at random.
    pub id: String,
    /// The user that the token stands for.
    pub owner: String,
    /// The user who asked for it.
    pub requester: String,
    /// The other users who may renew it, and let it expire.
    pub renewers: Vec<String>,
    /// When it was made.
    pub issued_at: TimestampMs,
    /// The time beyond which it cannot be renewed.
    pub max_at: TimestampMs,
    /// The time from which it is no longer valid, at most `max_at`.
    pub expires_at: TimestampMs,
}

impl StoredToken {
    /// Reports whether the token is no longer valid.
    pub fn is_expired(&self, now: TimestampMs) -> bool {
        now >= self.expires_at
    }

    /// Reports whether a user may renew the token.
    pub fn is_renewable_by(&self, user: &str) -> bool {
        self.is_of(user) || self.renewers.iter().any(|renewer| renewer == user)
    }

    /// Reports whether the token ends when this user is removed.
    pub(crate) fn is_of(&self, user: &str) -> bool {
        self.owner == user || self.requester == user
    }
}
