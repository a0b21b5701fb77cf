//! The callout as a table of a file.
//!
//! ```toml
//! [auth_callout]
//! issuer = "A..."
//! account = "SYS"                  # the global account if it is not given
//! auth_users = ["auth"]            # the service itself, and others about whom it is not asked
//! xkey = "X..."                    # if questions are to be sealed
//! allowed_accounts = ["SHOP"]      # where it may place users: everywhere if it is not given
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;

use super::super::definition::{CalloutAccounts, CalloutSettings};
use super::super::jwt::{KeyKind, Nkey};
use super::super::name::AccountName;

/// `[auth_callout]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CalloutTable {
    issuer: String,
    account: Option<String>,
    #[serde(default)]
    auth_users: Vec<String>,
    xkey: Option<String>,
    allowed_accounts: Option<Vec<String>>,
}

impl CalloutTable {
    /// Checks the table. `is_user` and `is_account` say whether a name exists.
    ///
    /// # Errors
    /// Says which key is wrong, and how.
    pub(crate) fn settings(
        &self,
        is_user: impl Fn(&str) -> bool,
        is_account: impl Fn(&AccountName) -> bool,
    ) -> Result<CalloutSettings, String> {
        let known = |key: &str, name: &str| {
            let account = AccountName::new(name).map_err(|error| format!("{key}: {error}"))?;
            if is_account(&account) {
                Ok(account)
            } else {
                Err(format!("{key}: there is no account {account}"))
            }
        };
        let key = |kind, key: &str, text: &str| {
            Nkey::parse_as(kind, text).map(|_key| ()).map_err(|error| format!("{key}: {error}"))
        };
        key(KeyKind::Account, "issuer", &self.issuer)?;
        if let Some(xkey) = &self.xkey {
            key(KeyKind::Curve, "xkey", xkey)?;
        }
        self.check_users(is_user)?;
        let account = match &self.account {
            None => AccountName::global(),
            Some(name) => known("account", name)?,
        };
        let allowed_accounts = match &self.allowed_accounts {
            None => CalloutAccounts::Any,
            Some(names) => {
                let names = names.iter().map(|name| known("allowed_accounts", name));
                CalloutAccounts::Listed(names.collect::<Result<BTreeSet<_>, _>>()?)
            }
        };
        let auth_users = self.auth_users.iter().map(|user| Arc::from(user.as_str())).collect();
        let (issuer, xkey) = (self.issuer.as_str().into(), self.xkey.as_deref().map(Into::into));
        Ok(CalloutSettings { account, issuer, auth_users, xkey, allowed_accounts })
    }

    fn check_users(&self, is_user: impl Fn(&str) -> bool) -> Result<(), String> {
        if self.auth_users.is_empty() {
            return Err("auth_users: the service itself must be one of them".to_owned());
        }
        if self.auth_users.len() > CalloutSettings::LIST_MAX {
            return Err(format!("auth_users: at most {}", CalloutSettings::LIST_MAX));
        }
        match self.auth_users.iter().find(|user| !is_user(user)) {
            Some(unknown) => Err(format!("auth_users: there is no user {unknown}")),
            None => Ok(()),
        }
    }
}
