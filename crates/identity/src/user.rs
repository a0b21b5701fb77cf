//! A user's name and permissions.

use std::sync::Arc;

use crate::names::UserName;
use crate::nats_accounts::AccountName;
use crate::rules::Rules;

/// A user. The default is the anonymous user, who may do everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    name: Option<Arc<str>>,
    rules: Option<Rules>,
    /// `None` for the global account.
    account: Option<AccountName>,
}

impl User {
    pub(crate) fn new(name: Arc<str>, rules: Option<Rules>) -> Self {
        Self { name: Some(name), rules, account: None }
    }

    /// Makes a user of a NATS account.
    pub(crate) fn in_account(name: Arc<str>, rules: Option<Rules>, account: &AccountName) -> Self {
        Self { name: Some(name), rules, account: Some(account.clone()) }
    }

    /// Makes a user of the metadata, who has no lists.
    pub fn without_lists(name: &UserName) -> Self {
        Self { name: Some(name.as_str().into()), rules: None, account: None }
    }

    /// Returns the name, or the public key of a user without a name. `None` for the anonymous user.
    pub fn name(&self) -> Option<&Arc<str>> {
        self.name.as_ref()
    }

    /// Returns the user's NATS account. `None` for the global account, `$G`.
    pub fn account(&self) -> Option<&AccountName> {
        self.account.as_ref()
    }

    /// Returns the user's rules. `None` if everything is allowed.
    pub fn rules(&self) -> Option<&Rules> {
        self.rules.as_ref()
    }
}
