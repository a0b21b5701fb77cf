//! The accounts of a users file: `[[accounts]]` with their exports, imports and limits.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::permissions::{PermissionsTable, Wrong, duration_ms, rules, wrong};
use crate::nats_accounts::{
    AccountDefinition, AccountName, AccountTable, Export, ExportAccess, Import, Response, ShareKind,
    SubjectMapping,
};

/// Most accounts in a file, and most exports or imports of one account.
const ACCOUNTS_MAX: usize = 10_000;
const SHARES_MAX: usize = 1_024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AccountFields {
    name: Spanned<String>,
    max_connections: Option<u64>,
    max_subscriptions: Option<u64>,
    max_payload: Option<u64>,
    default_permissions: Option<PermissionsTable>,
    #[serde(default)]
    exports: Vec<Spanned<ExportFields>>,
    #[serde(default)]
    imports: Vec<Spanned<ImportFields>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExportFields {
    stream: Option<Spanned<String>>,
    service: Option<Spanned<String>>,
    accounts: Option<Vec<Spanned<String>>>,
    account_token_position: Option<Spanned<usize>>,
    response: Option<Spanned<String>>,
    response_threshold: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ImportFields {
    stream: Option<Spanned<String>>,
    service: Option<Spanned<String>>,
    from: Spanned<String>,
    to: Option<Spanned<String>>,
    prefix: Option<Spanned<String>>,
    #[serde(default)]
    share: bool,
}

/// Checks the accounts against each other.
pub(super) fn table(accounts: &[Spanned<AccountFields>], now_s: i64) -> Result<AccountTable, Wrong> {
    if let Some(further) = accounts.get(ACCOUNTS_MAX) {
        return Err(wrong(further, "accounts", format!("a file has at most {ACCOUNTS_MAX}")));
    }
    let mut places = BTreeMap::new();
    let mut definitions = Vec::new();
    for account in accounts {
        let definition = definition(account.get_ref())?;
        if places.insert(definition.name.clone(), account).is_some() {
            let reason = format!("the account {} is defined twice", definition.name);
            return Err(wrong(&account.get_ref().name, "accounts.name", reason));
        }
        definitions.push(definition);
    }
    let (table, faults) = AccountTable::build(definitions, now_s);
    match faults.into_iter().next() {
        None => Ok(table),
        Some(fault) => {
            let at = places.get(&fault.account).map_or(0, |place| place.span().start);
            Err(Wrong { at, reason: fault.to_string() })
        }
    }
}

fn definition(fields: &AccountFields) -> Result<AccountDefinition, Wrong> {
    let mut definition = AccountDefinition::new(name(&fields.name, "accounts.name")?);
    definition.limits.connections = fields.max_connections;
    definition.limits.subscriptions = fields.max_subscriptions;
    definition.limits.payload_bytes = fields.max_payload;
    if let Some(table) = &fields.default_permissions {
        definition.default_permissions = rules(
            "accounts.default_permissions",
            table.publish.as_ref(),
            table.subscribe.as_ref(),
            table.allow_responses.as_ref(),
        )?;
    }
    if let Some(further) = fields.exports.get(SHARES_MAX) {
        return Err(wrong(further, "accounts.exports", format!("an account has at most {SHARES_MAX}")));
    }
    if let Some(further) = fields.imports.get(SHARES_MAX) {
        return Err(wrong(further, "accounts.imports", format!("an account has at most {SHARES_MAX}")));
    }
    definition.exports = fields.exports.iter().map(export).collect::<Result<_, _>>()?;
    definition.imports = fields.imports.iter().map(import).collect::<Result<_, _>>()?;
    Ok(definition)
}

pub(super) fn name(text: &Spanned<String>, key: &str) -> Result<AccountName, Wrong> {
    AccountName::new(text.get_ref()).map_err(|reason| wrong(text, key, reason))
}

fn kind<'a>(
    place: &Spanned<impl Sized>,
    key: &str,
    stream: Option<&'a Spanned<String>>,
    service: Option<&'a Spanned<String>>,
) -> Result<(ShareKind, &'a Spanned<String>), Wrong> {
    match (stream, service) {
        (Some(subject), None) => Ok((ShareKind::Stream, subject)),
        (None, Some(subject)) => Ok((ShareKind::Service, subject)),
        _ => Err(wrong(place, key, "it needs either stream or service, with a subject")),
    }
}

fn export(spanned: &Spanned<ExportFields>) -> Result<Export, Wrong> {
    const KEY: &str = "accounts.exports";
    let fields = spanned.get_ref();
    let (kind, subject) = kind(spanned, KEY, fields.stream.as_ref(), fields.service.as_ref())?;
    SubjectMapping::new(subject.get_ref(), subject.get_ref())
        .map_err(|reason| wrong(subject, KEY, reason))?;
    let access = match (&fields.accounts, &fields.account_token_position) {
        (None, None) => ExportAccess::Public,
        (Some(list), None) => {
            let names = list.iter().map(|text| name(text, "accounts.exports.accounts"));
            ExportAccess::Accounts(names.collect::<Result<_, _>>()?)
        }
        (None, Some(position)) => {
            let word = position.get_ref().checked_sub(1).and_then(|at| subject.get_ref().split('.').nth(at));
            if word != Some("*") {
                let reason = format!("word {} of {:?} is not *", position.get_ref(), subject.get_ref());
                return Err(wrong(position, "accounts.exports.account_token_position", reason));
            }
            ExportAccess::TokenPosition(*position.get_ref())
        }
        (Some(_), Some(position)) => {
            return Err(wrong(position, KEY, "give either accounts or account_token_position"));
        }
    };
    if kind == ShareKind::Stream {
        let of_services = [&fields.response, &fields.response_threshold];
        if let Some(field) = of_services.into_iter().flatten().next() {
            return Err(wrong(field, KEY, "only a service has responses"));
        }
    }
    let response = match fields.response.as_ref().map(|text| (text, text.get_ref().as_str())) {
        None | Some((_, "singleton")) => Response::Singleton,
        Some((_, "stream")) => Response::Stream,
        Some((_, "chunked")) => Response::Chunked,
        Some((text, other)) => {
            let reason = format!("{other:?} is none of singleton, stream and chunked");
            return Err(wrong(text, "accounts.exports.response", reason));
        }
    };
    let threshold = fields.response_threshold.as_ref().map(|text| {
        duration_ms(text.get_ref()).ok_or_else(|| {
            let reason = format!("{:?} is not a duration such as 500ms, 30s or 2m", text.get_ref());
            wrong(text, "accounts.exports.response_threshold", reason)
        })
    });
    Ok(Export {
        kind,
        subject: subject.get_ref().as_str().into(),
        access,
        response,
        response_threshold_ms: threshold.transpose()?,
        revocations: BTreeMap::new(),
    })
}

fn import(spanned: &Spanned<ImportFields>) -> Result<Import, Wrong> {
    const KEY: &str = "accounts.imports";
    let fields = spanned.get_ref();
    let (kind, subject) = kind(spanned, KEY, fields.stream.as_ref(), fields.service.as_ref())?;
    let account = name(&fields.from, "accounts.imports.from")?;
    let exported = subject.get_ref().as_str();
    let to_local = match (&fields.to, &fields.prefix) {
        (None, None) => SubjectMapping::new(exported, exported).map_err(|error| error.to_string()),
        (Some(to), None) => SubjectMapping::new(exported, to.get_ref()).map_err(|error| error.to_string()),
        (None, Some(prefix)) => Import::prefixed(exported, prefix.get_ref()),
        (Some(_), Some(prefix)) => return Err(wrong(prefix, KEY, "give either to or prefix")),
    };
    let to_local = to_local.map_err(|reason| wrong(spanned, KEY, reason))?;
    if fields.share && kind == ShareKind::Stream {
        return Err(wrong(spanned, KEY, "only an import of a service may share who asks"));
    }
    let mapping = match kind {
        ShareKind::Stream => to_local,
        ShareKind::Service => to_local.inverse(),
    };
    Ok(Import { kind, account, mapping, share: fields.share, token: None })
}
