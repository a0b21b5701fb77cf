//! Decisions about the claims of NATS accounts.
//!
//! Which operators are trusted is a setting of the nodes. Here a token must only be one: signed by the key
//! that it names, and well formed.

use tailrace_identity::nats_accounts::jwt::{AccountClaims, DeletedAccounts};

use super::access_error::AccessError;
use super::decision::Records;
use crate::access::StoredAccountClaims;
use crate::access::bounds::{ACCOUNT_CLAIMS_BYTES_MAX, ACCOUNT_CLAIMS_MAX};
use crate::image::MetadataImage;
use crate::record::MetadataRecord;

/// Stores claims. Of two claims of an account that were issued in the same second, the later stored one is
/// in force: times have no smaller unit.
pub(super) fn store(image: &MetadataImage, token: &str) -> Records {
    let claims = AccountClaims::read(token)
        .map_err(|error| AccessError::InvalidAccountClaims { reason: error.to_string() })?;
    let (account, issued_at_s) = (claims.id().to_string(), claims.issued_at_s());
    let stored = image.access.account_claims();
    let known = stored.get(&account);
    match known {
        Some(known) if *known.token == *token => return Ok(Vec::new()),
        Some(known) if known.issued_at_s > issued_at_s => {
            return Err(AccessError::OlderAccountClaims { account }.into());
        }
        None if stored.len() >= ACCOUNT_CLAIMS_MAX => {
            return Err(AccessError::TooManyAccountClaims { max: ACCOUNT_CLAIMS_MAX }.into());
        }
        Some(_) | None => {}
    }
    let all: usize = stored.values().map(|claims| claims.token.len()).sum();
    if all - known.map_or(0, |known| known.token.len()) + token.len() > ACCOUNT_CLAIMS_BYTES_MAX {
        return Err(AccessError::AccountClaimsTooLong { max: ACCOUNT_CLAIMS_BYTES_MAX }.into());
    }
    Ok(vec![MetadataRecord::AccountClaims(StoredAccountClaims { account, issued_at_s, token: token.into() })])
}

/// Deletes claims. Those that were issued after the request are kept: somebody may have recorded it, and
/// send it again.
pub(super) fn delete(image: &MetadataImage, token: &str) -> Records {
    let deletion = DeletedAccounts::read(token)
        .map_err(|error| AccessError::InvalidAccountClaims { reason: error.to_string() })?;
    let stored = image.access.account_claims();
    let is_meant =
        |account: &str| stored.get(account).is_some_and(|claims| claims.issued_at_s <= deletion.issued_at_s);
    let meant = deletion.accounts.iter().map(|account| account.as_str()).filter(|account| is_meant(account));
    Ok(meant.map(|account| MetadataRecord::AccountClaimsRemoved { account: account.to_owned() }).collect())
}
