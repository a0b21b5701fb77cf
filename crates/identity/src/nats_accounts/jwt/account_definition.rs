//! The definition of an account from its claims.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::definition::{
    AccountDefinition, CalloutAccounts, CalloutSettings, Export, ExportAccess, Import, Response, ShareKind,
};
use super::super::limits::AccountLimits;
use super::super::name::AccountName;
use super::super::subject_mapping::SubjectMapping;
use super::account_form::{
    AccountBody, AuthorizationForm, ExportForm, ImportForm, LimitsForm, SigningKeyForm,
};
use super::errors::ClaimError;
use super::forms::{KindForm, UserBody};
use super::keys::{KeyKind, Nkey};
use super::permissions;

/// Maximum number of signing keys of an account.
const SIGNING_KEYS_MAX: usize = 256;

/// Maximum number of revocations of an account, and of an export.
const REVOCATIONS_MAX: usize = 16_384;

/// Maximum number of tags of an account.
const TAGS_MAX: usize = 1_024;

/// The signing keys, with the templates of those that have a scope.
pub(super) type Keys = BTreeMap<String, Option<Box<UserBody>>>;

/// Reads the signing keys.
pub(super) fn keys(body: &AccountBody) -> Result<Keys, ClaimError> {
    bound("signing_keys", body.signing_keys.len(), SIGNING_KEYS_MAX)?;
    let mut keys = Keys::new();
    for form in &body.signing_keys {
        let (key, scope) = match form {
            SigningKeyForm::Key(key) => (key, None),
            SigningKeyForm::Scope(scope) if scope.kind == "user_scope" => {
                (&scope.key, Some(Box::new(scope.template.clone())))
            }
            SigningKeyForm::Scope(_) => {
                return Err(ClaimError::field("signing_keys", "the only kind of scope is user_scope"));
            }
        };
        Nkey::parse_as(KeyKind::Account, key).map_err(|error| ClaimError::key("signing_keys", error))?;
        if keys.insert(key.clone(), scope).is_some() {
            return Err(ClaimError::field("signing_keys", "a key occurs twice"));
        }
    }
    Ok(keys)
}

/// Makes the definition, and checks each field for itself.
pub(super) fn definition(
    id: &AccountName,
    body: &AccountBody,
    keys: &Keys,
) -> Result<AccountDefinition, ClaimError> {
    bound("revocations", body.revocations.len(), REVOCATIONS_MAX)?;
    bound("tags", body.tags.len(), TAGS_MAX)?;
    if !body.mappings.is_empty() {
        let reason = "mappings of subjects within an account are not supported";
        return Err(ClaimError::field("mappings", reason));
    }
    let exports = body.exports.iter().map(export).collect::<Result<_, _>>()?;
    let imports = body.imports.iter().map(import).collect::<Result<_, _>>()?;
    let defaults = permissions::rules(&body.default_permissions);
    let plain_keys = keys.iter().filter(|(_, scope)| scope.is_none());
    let definition = AccountDefinition {
        name: id.clone(),
        exports,
        imports,
        limits: limits(&body.limits),
        default_permissions: defaults.map_err(|reason| ClaimError::field("default_permissions", reason))?,
        signing_keys: plain_keys.map(|(key, _)| key.as_str().into()).collect(),
        expires_at_s: None,
        callout: callout(id, &body.authorization)?,
    };
    match definition.faults().into_iter().next() {
        Some(reason) => Err(ClaimError::field("account", reason)),
        None => Ok(definition),
    }
}

fn bound(field: &str, found: usize, max: usize) -> Result<(), ClaimError> {
    if found > max {
        return Err(ClaimError::field(field, format!("at most {max} entries, not {found}")));
    }
    Ok(())
}

fn kind(form: KindForm) -> Result<ShareKind, ClaimError> {
    match form {
        KindForm::Unknown => Err(ClaimError::field("type", "expected stream or service")),
        KindForm::Stream => Ok(ShareKind::Stream),
        KindForm::Service => Ok(ShareKind::Service),
    }
}

fn export(form: &ExportForm) -> Result<Export, ClaimError> {
    let place = || format!("export of {:?}", form.subject);
    bound("revocations of an export", form.revocations.len(), REVOCATIONS_MAX)?;
    let kind = kind(form.kind)?;
    let response = match (kind, form.response_type.as_str()) {
        (_, "") | (ShareKind::Service, "Singleton") => Response::Singleton,
        (ShareKind::Service, "Stream") => Response::Stream,
        (ShareKind::Service, "Chunked") => Response::Chunked,
        _ => return Err(ClaimError::field(place(), "the response_type is unknown, or not for a stream")),
    };
    let access = match (form.account_token_position, form.token_req) {
        // As in nats-server, the position decides if there are both.
        (position @ 1.., _) => ExportAccess::TokenPosition(usize::try_from(position).unwrap_or(usize::MAX)),
        (0, true) => ExportAccess::Token,
        (0, false) => ExportAccess::Public,
    };
    let response_threshold_ms = match form.response_threshold {
        0 => None,
        nanos @ 1.. => Some((nanos.unsigned_abs() / 1_000_000).max(1)),
        _ => return Err(ClaimError::field(place(), "the response_threshold is negative")),
    };
    Ok(Export {
        kind,
        subject: form.subject.as_str().into(),
        access,
        response,
        response_threshold_ms,
        revocations: form.revocations.iter().map(|(key, at)| (key.as_str().into(), *at)).collect(),
    })
}

fn import(form: &ImportForm) -> Result<Import, ClaimError> {
    let error = |reason: String| ClaimError::field(format!("import of {:?}", form.subject), reason);
    let kind = kind(form.kind)?;
    Nkey::parse_as(KeyKind::Account, &form.account).map_err(|wrong| error(format!("account: {wrong}")))?;
    if !form.to.is_empty() && !form.local_subject.is_empty() {
        return Err(error("local_subject replaces to; give one of them".to_owned()));
    }
    if form.share && kind == ShareKind::Stream {
        return Err(error("share is for services only".to_owned()));
    }
    let mapping = mapping(kind, form).map_err(error)?;
    Ok(Import {
        kind,
        account: AccountName::new(&form.account).map_err(|wrong| error(wrong.to_string()))?,
        mapping,
        share: form.share,
        token: Some(form.token.as_str()).filter(|token| !token.is_empty()).map(Into::into),
    })
}

fn mapping(kind: ShareKind, form: &ImportForm) -> Result<SubjectMapping, String> {
    let ImportForm { subject, to, local_subject, .. } = form;
    let result = match (kind, to.as_str(), local_subject.as_str()) {
        (ShareKind::Stream, "", "") => SubjectMapping::new(subject, subject),
        (ShareKind::Stream, "", local) => SubjectMapping::new(subject, local),
        (ShareKind::Stream, prefix, _) => return Import::prefixed(subject, prefix),
        (ShareKind::Service, "", "") => SubjectMapping::new(subject, subject),
        (ShareKind::Service, "", local) => SubjectMapping::new(subject, local).map(SubjectMapping::inverse),
        (ShareKind::Service, exported, _) => {
            SubjectMapping::new(exported, subject).map(SubjectMapping::inverse)
        }
    };
    result.map_err(|error| error.to_string())
}

fn limits(form: &LimitsForm) -> AccountLimits {
    // Negative is no limit.
    let limit = |number: i64| u64::try_from(number).ok();
    AccountLimits {
        connections: limit(form.conn),
        subscriptions: limit(form.subs),
        payload_bytes: limit(form.payload),
        imports: limit(form.imports),
        exports: limit(form.exports),
        wildcard_exports: form.wildcards,
        disallow_bearer: form.disallow_bearer,
    }
}

fn callout(id: &AccountName, form: &AuthorizationForm) -> Result<Option<CalloutSettings>, ClaimError> {
    let error = |reason: &dyn std::fmt::Display| ClaimError::field("authorization", reason);
    bound("authorization.auth_users", form.auth_users.len(), CalloutSettings::LIST_MAX)?;
    bound("authorization.allowed_accounts", form.allowed_accounts.len(), CalloutSettings::LIST_MAX)?;
    if form.auth_users.is_empty() {
        let is_empty = form.allowed_accounts.is_empty() && form.xkey.is_empty();
        let reason = "allowed_accounts and xkey need auth_users: the service itself is one";
        return if is_empty { Ok(None) } else { Err(error(&reason)) };
    }
    for user in &form.auth_users {
        Nkey::parse_as(KeyKind::User, user).map_err(|wrong| error(&wrong))?;
    }
    let allowed_accounts = match form.allowed_accounts.as_slice() {
        [any] if any == "*" => CalloutAccounts::Any,
        list => {
            let names = list.iter().map(|name| {
                Nkey::parse_as(KeyKind::Account, name).map_err(|wrong| error(&wrong))?;
                AccountName::new(name).map_err(|wrong| error(&wrong))
            });
            CalloutAccounts::Listed(names.collect::<Result<BTreeSet<_>, _>>()?)
        }
    };
    let xkey: Option<Arc<str>> = match form.xkey.as_str() {
        "" => None,
        xkey => {
            Nkey::parse_as(KeyKind::Curve, xkey).map_err(|wrong| error(&wrong))?;
            Some(xkey.into())
        }
    };
    Ok(Some(CalloutSettings {
        account: id.clone(),
        issuer: id.as_str().into(),
        auth_users: form.auth_users.iter().map(|user| user.as_str().into()).collect(),
        xkey,
        allowed_accounts,
    }))
}
