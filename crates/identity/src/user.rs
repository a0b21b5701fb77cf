//! A user's name and permissions.

use std::sync::Arc;

use crate::names::UserName;
use crate::nats_accounts::AccountName;
use crate::nats_accounts::jwt::ConnectionKind;
use crate::rules::Rules;

/// A user. The default is the anonymous user, who may do everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    name: Option<Arc<str>>,
    rules: Option<Rules>,
    /// `None` for the global account.
    account: Option<AccountName>,
    /// The kinds of connection that the user may have. `None` for any.
    connection_kinds: Option<Arc<[ConnectionKind]>>,
}

impl User {
    pub(crate) fn new(name: Arc<str>, rules: Option<Rules>) -> Self {
        Self { name: Some(name), rules, ..Self::default() }
    }

    /// Makes a user of a NATS account.
    pub(crate) fn in_account(name: Arc<str>, rules: Option<Rules>, account: &AccountName) -> Self {
        Self { name: Some(name), rules, account: Some(account.clone()), ..Self::default() }
    }

    /// Makes a user of the metadata, who has no lists.
    pub fn without_lists(name: &UserName) -> Self {
        Self { name: Some(name.as_str().into()), ..Self::default() }
    }

    /// Returns the same user, with only these kinds of connection.
    pub(crate) fn only_by(self, kinds: Arc<[ConnectionKind]>) -> Self {
        Self { connection_kinds: Some(kinds), ..self }
    }

    /// Reports whether the user may have a connection of this kind.
    pub fn may_connect_by(&self, kind: ConnectionKind) -> bool {
        self.connection_kinds.as_ref().is_none_or(|kinds| kinds.contains(&kind))
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
