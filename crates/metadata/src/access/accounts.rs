//! The claims of NATS accounts, as the metadata store them: the resolver of an operator's accounts.
//!
//! The metadata do not know which operators are trusted. That is a setting of each node, and each node checks
//! the claims against it when it reads them from here. So what is stored gives nobody a right by itself.

use std::sync::Arc;

/// The claims of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAccountClaims {
    /// The public key of the account.
    pub account: String,
    /// When they were issued, in seconds since 1970.
    pub issued_at_s: i64,
    /// The token. It is signed, and no secret.
    pub token: Arc<str>,
}
