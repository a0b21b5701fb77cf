//! Activation tokens: an exporting account allows one other account to import a subject.

use std::sync::Arc;

use super::super::definition::{Export, Import, ShareKind};
use super::super::name::AccountName;
use super::forms::{ActivationBody, KindForm};
use super::token::{Expected, Token, TokenError, read};
use crate::rules;

/// Why an activation token does not activate an import.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::nats_accounts) enum ActivationError {
    #[error("the export requires an activation token, and the import has none")]
    Missing,
    #[error("the activation token: {0}")]
    Token(#[from] TokenError),
    #[error("the activation token was not issued by the exporting account or one of its signing keys")]
    Issuer,
    #[error("the activation token is for another account")]
    Importer,
    #[error("the activation token is for another kind of import")]
    Kind,
    #[error("the activation token is for another subject")]
    Subject,
    #[error("the activation token has expired or is not valid yet")]
    Time,
    #[error("the activation token was revoked")]
    Revoked,
}

/// What an activation token is about.
pub(in crate::nats_accounts) struct Activation<'a> {
    pub(in crate::nats_accounts) importer: &'a AccountName,
    pub(in crate::nats_accounts) import: &'a Import,
    /// The signing keys of the exporting account that have no scope.
    pub(in crate::nats_accounts) signing_keys: &'a std::collections::BTreeSet<Arc<str>>,
    pub(in crate::nats_accounts) export: &'a Export,
}

/// Checks the activation token of an import. Returns when it expires, in seconds since 1970.
pub(in crate::nats_accounts) fn check(
    activation: &Activation<'_>,
    now_s: i64,
) -> Result<Option<i64>, ActivationError> {
    let Activation { importer, import, signing_keys, export } = activation;
    let text = import.token.as_deref().ok_or(ActivationError::Missing)?;
    let token: Token<ActivationBody> = read(text, Expected::ACTIVATION)?;
    let exporter = import.account.as_str();
    let issuer_account = token.body.issuer_account.as_str();
    let is_own = token.issuer == exporter && (issuer_account.is_empty() || issuer_account == exporter);
    let is_delegated = issuer_account == exporter && signing_keys.contains(token.issuer.as_str());
    if !is_own && !is_delegated {
        return Err(ActivationError::Issuer);
    }
    if token.subject != importer.as_str() {
        return Err(ActivationError::Importer);
    }
    let kind = match token.body.kind {
        KindForm::Stream => Some(ShareKind::Stream),
        KindForm::Service => Some(ShareKind::Service),
        KindForm::Unknown => None,
    };
    if kind != Some(import.kind) {
        return Err(ActivationError::Kind);
    }
    if !rules::covers(token.body.subject.as_bytes(), import.exported()) {
        return Err(ActivationError::Subject);
    }
    if token.times.is_expired(now_s) || token.times.is_early(now_s) {
        return Err(ActivationError::Time);
    }
    let is_revoked = [importer.as_str(), "*"]
        .iter()
        .any(|key| export.revocations.get(*key).is_some_and(|at| token.times.issued_at_s <= *at));
    if is_revoked { Err(ActivationError::Revoked) } else { Ok(token.times.expires()) }
}
