//! Whether an account may import what it wants from another.

use std::collections::BTreeMap;

use super::definition::{AccountDefinition, Export, ExportAccess, Import};
use super::jwt::{Activation, check_activation};
use super::name::AccountName;
use super::pattern::words;
use crate::rules;

/// An export that permits an import.
pub(super) struct Permitted<'a> {
    pub(super) export: &'a Export,
    /// When the activation token expires, in seconds since 1970.
    pub(super) expires_at_s: Option<i64>,
}

/// Finds the export of an import, and checks that the importer may have it.
///
/// # Errors
/// Says why not.
pub(super) fn permitted<'a>(
    accounts: &'a BTreeMap<AccountName, AccountDefinition>,
    importer: &AccountName,
    import: &Import,
    now_s: i64,
) -> Result<Permitted<'a>, String> {
    let exporter = accounts.get(&import.account).ok_or("there is no such account")?;
    if exporter.expires_at_s.is_some_and(|at| at <= now_s) {
        return Err("the account has expired".to_owned());
    }
    let export = find(exporter, import).ok_or("the account does not export it")?;
    let mut expires_at_s = None;
    match &export.access {
        ExportAccess::Public => {}
        ExportAccess::Accounts(accounts) if accounts.contains(importer) => {}
        ExportAccess::Accounts(_) => return Err("the account exports it to others only".to_owned()),
        ExportAccess::TokenPosition(position) => {
            // The importer cannot name another account there, so the exporter can believe the word.
            let word = position.checked_sub(1).and_then(|at| words(import.exported()).nth(at));
            if word != Some(importer.as_str().as_bytes()) {
                return Err(format!("word {position} of the subject must be the importing account"));
            }
        }
        ExportAccess::Token => {
            let signing_keys = &exporter.signing_keys;
            let activation = Activation { importer, import, signing_keys, export };
            expires_at_s = check_activation(&activation, now_s).map_err(|error| error.to_string())?;
        }
    }
    Ok(Permitted { export, expires_at_s })
}

/// Returns the export of exactly this pattern, or else the first one that covers it.
fn find<'a>(exporter: &'a AccountDefinition, import: &Import) -> Option<&'a Export> {
    let exports = || exporter.exports.iter().filter(|export| export.kind == import.kind);
    let exact = exports().find(|export| export.subject.as_bytes() == import.exported());
    exact.or_else(|| exports().find(|export| rules::covers(export.subject.as_bytes(), import.exported())))
}
