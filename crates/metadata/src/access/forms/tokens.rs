//! The form of a delegation token.

use serde::{Deserialize, Serialize};
use tailrace_types::TimestampMs;

use super::texts::{FormError, check_length};
use crate::access::StoredToken;
use crate::access::bounds::{NAME_BYTES_MAX, RENEWERS_MAX, TOKEN_ID_BYTES_MAX};

/// A [`StoredToken`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenForm {
    id: String,
    owner: String,
    requester: String,
    renewers: Vec<String>,
    issued_at: i64,
    max_at: i64,
    expires_at: i64,
}

impl From<&StoredToken> for TokenForm {
    fn from(token: &StoredToken) -> Self {
        let StoredToken { id, owner, requester, renewers, issued_at, max_at, expires_at } = token.clone();
        let (issued_at, max_at, expires_at) = (issued_at.0, max_at.0, expires_at.0);
        Self { id, owner, requester, renewers, issued_at, max_at, expires_at }
    }
}

impl TryFrom<TokenForm> for StoredToken {
    type Error = FormError;

    fn try_from(form: TokenForm) -> Result<Self, FormError> {
        let TokenForm { id, owner, requester, renewers, issued_at, max_at, expires_at } = form;
        let id = token_id(id)?;
        for name in [&owner, &requester].into_iter().chain(&renewers) {
            check_length(name, "user", NAME_BYTES_MAX)?;
        }
        if renewers.len() > RENEWERS_MAX {
            return Err(FormError::Renewers { found: renewers.len() });
        }
        let (issued_at, max_at, expires_at) =
            (TimestampMs(issued_at), TimestampMs(max_at), TimestampMs(expires_at));
        Ok(Self { id, owner, requester, renewers, issued_at, max_at, expires_at })
    }
}

/// Checks the id of a token in a record.
pub(crate) fn token_id(id: String) -> Result<String, FormError> {
    check_length(&id, "id", TOKEN_ID_BYTES_MAX)?;
    Ok(id)
}
