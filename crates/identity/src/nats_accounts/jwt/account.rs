//! The claims of an account, and the decision whether a user belongs to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::definition::AccountDefinition;
use super::super::limits::ConnectionLimits;
use super::super::name::AccountName;
use super::account_definition::{self, Keys};
use super::account_form::AccountBody;
use super::connection::Connection;
use super::errors::{ClaimError, UserDenied};
use super::forms::{PermissionsForm, UserBody};
use super::keys::{KeyKind, Nkey};
use super::permissions;
use super::template::{self, Values};
use super::token::{Expected, Times, Token, read};
use super::user::UserClaims;
use crate::user::User;

/// A user who was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountUser {
    /// The user, named `ACCOUNT/KEY`, with the rules that apply.
    pub user: Arc<User>,
    /// The account.
    pub account: AccountName,
    /// The stricter of the user's and the account's limits.
    pub limits: ConnectionLimits,
    /// When the connection must end, in seconds since 1970: the end of the token, or of the allowed part of
    /// the day. `None` for never.
    pub ends_at_s: Option<i64>,
    /// The name in the claims, for display. Nothing is decided by it.
    pub display_name: Arc<str>,
}

/// What a client presents beside its token.
#[derive(Clone, Copy)]
pub struct Presented<'a> {
    /// This connection's own challenge.
    pub nonce: &'a str,
    /// Its signature in base64.
    pub signature: Option<&'a str>,
}

/// The claims of an account, signed by their issuer. Whether the issuer is trusted is decided by
/// [`OperatorTrust`](super::OperatorTrust).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountClaims {
    id: AccountName,
    issuer: String,
    name: String,
    tags: Vec<String>,
    times: Times,
    keys: Keys,
    revocations: BTreeMap<String, i64>,
    definition: AccountDefinition,
}

impl AccountClaims {
    /// Reads a token, and checks its signature and each field for itself. Other accounts are not asked: that
    /// is for [`AccountTable`](super::super::AccountTable).
    ///
    /// # Errors
    /// It is not the token of an account, the signature is not that of the issuer, or a field is wrong.
    pub fn read(token: &str) -> Result<Arc<Self>, ClaimError> {
        let Token { issuer, subject, name, times, body, .. } = read::<AccountBody>(token, Expected::ACCOUNT)?;
        let id = AccountName::new(&subject).map_err(|error| ClaimError::field("sub", error))?;
        let keys = account_definition::keys(&body)?;
        let mut definition = account_definition::definition(&id, &body, &keys)?;
        definition.expires_at_s = times.expires();
        let AccountBody { tags, revocations, .. } = body;
        Ok(Arc::new(Self { id, issuer, name, tags, times, keys, revocations, definition }))
    }

    /// Returns the account's public key.
    pub fn id(&self) -> &AccountName {
        &self.id
    }

    /// Returns the public key of the issuer.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns the name, for display.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns when the claims were issued, in seconds since 1970. Of two claims of an account the newer one
    /// is in force.
    pub fn issued_at_s(&self) -> i64 {
        self.times.issued_at_s
    }

    /// Returns what the account shares and its limits, for the table of all accounts.
    pub fn definition(&self) -> &AccountDefinition {
        &self.definition
    }

    /// Reports whether a key is the account's own or one of its signing keys.
    pub(in crate::nats_accounts) fn is_signed_by(&self, key: &str) -> bool {
        key == self.id.as_str() || self.keys.contains_key(key)
    }

    pub(super) fn times(&self) -> Times {
        self.times
    }

    /// Decides whether a user who presents a token is let in.
    ///
    /// # Errors
    /// Says why not.
    pub fn admit(
        &self,
        claims: &UserClaims,
        presented: Presented<'_>,
        connection: Connection,
        now_s: i64,
    ) -> Result<AccountUser, UserDenied> {
        let body = self.effective(claims, now_s)?;
        if !body.bearer_token {
            let signature = presented.signature.ok_or(UserDenied::NoSignature)?;
            let key = Nkey::parse_as(KeyKind::User, claims.subject()).map_err(|_error| UserDenied::Issuer)?;
            if !key.verifies_nonce(presented.nonce, signature) {
                return Err(UserDenied::WrongSignature);
            }
        }
        self.user(claims, &body, connection, now_s)
    }

    /// Decides whether a user who was let in may stay, after a change of the account's claims or of the time.
    ///
    /// # Errors
    /// Says why not.
    pub fn recheck(
        &self,
        claims: &UserClaims,
        connection: Connection,
        now_s: i64,
    ) -> Result<AccountUser, UserDenied> {
        let body = self.effective(claims, now_s)?;
        self.user(claims, &body, connection, now_s)
    }

    /// Checks everything but the connection and the signature. Returns the user's permissions and limits,
    /// those of the scope if there is one.
    fn effective(&self, claims: &UserClaims, now_s: i64) -> Result<UserBody, UserDenied> {
        if self.times.is_expired(now_s) || self.times.is_early(now_s) {
            return Err(UserDenied::AccountExpired);
        }
        let token = claims.token();
        let scope = self.scope(claims)?;
        if token.times.is_expired(now_s) {
            return Err(UserDenied::Expired);
        }
        if token.times.is_early(now_s) {
            return Err(UserDenied::Early);
        }
        if is_revoked(&self.revocations, claims.subject(), token.times.issued_at_s) {
            return Err(UserDenied::Revoked);
        }
        let body = match scope {
            None => token.body.clone(),
            Some(_) if !token.body.has_no_permissions() => return Err(UserDenied::ScopeWithPermissions),
            Some(template) => {
                let filled = template::filled(template, self.values(claims));
                filled.map_err(|reason| UserDenied::Template { reason })?
            }
        };
        if body.bearer_token && self.definition.limits.disallow_bearer {
            return Err(UserDenied::Bearer);
        }
        Ok(body)
    }

    /// Returns the template of the key that has signed, if it has one.
    fn scope(&self, claims: &UserClaims) -> Result<Option<&UserBody>, UserDenied> {
        if *claims.account() != self.id {
            return Err(UserDenied::Issuer);
        }
        let issuer = &claims.token().issuer;
        if issuer == self.id.as_str() {
            return Ok(None);
        }
        match self.keys.get(issuer) {
            Some(scope) => Ok(scope.as_deref()),
            None => Err(UserDenied::Issuer),
        }
    }

    fn values<'a>(&'a self, claims: &'a UserClaims) -> Values<'a> {
        Values {
            name: claims.name(),
            subject: claims.subject(),
            account_name: &self.name,
            account_subject: self.id.as_str(),
            tags: &claims.token().body.tags,
            account_tags: &self.tags,
        }
    }

    fn user(
        &self,
        claims: &UserClaims,
        body: &UserBody,
        connection: Connection,
        now_s: i64,
    ) -> Result<AccountUser, UserDenied> {
        let defaults = &self.definition.default_permissions;
        let scoped = claims.token().issuer != self.id.as_str()
            && self.keys.get(&claims.token().issuer).is_some_and(Option::is_some);
        // What is absent from a claim is 0, and from a template no limit.
        let absent = if scoped { -1 } else { 0 };
        let limits = connection_limits(body, absent).and(self.definition.limits.connection());
        let name = format!("{}/{}", self.id, claims.subject());
        Ok(AccountUser {
            user: Arc::new(User::in_account(
                name.into(),
                rules(body)?.or_else(|| defaults.clone()),
                &self.id,
            )),
            account: self.id.clone(),
            limits,
            ends_at_s: earlier(body.check(connection, now_s)?, claims.token().times.expires()),
            display_name: claims.name().into(),
        })
    }
}

impl AccountUser {
    /// Admits a user whom an external service has placed in a configured account. The caller has checked who
    /// issued the claims. What is absent from them is no limit, unlike in operator mode.
    pub(in crate::nats_accounts) fn configured(
        claims: &UserClaims,
        account: &AccountDefinition,
        connection: Connection,
        now_s: i64,
    ) -> Result<Self, UserDenied> {
        let token = claims.token();
        if token.times.is_expired(now_s) {
            return Err(UserDenied::Expired);
        }
        if token.times.is_early(now_s) {
            return Err(UserDenied::Early);
        }
        let rules = rules(&token.body)?.or_else(|| account.default_permissions.clone());
        let name = format!("{}/{}", account.name, claims.subject());
        Ok(Self {
            user: Arc::new(User::in_account(name.into(), rules, &account.name)),
            account: account.name.clone(),
            limits: connection_limits(&token.body, -1).and(account.limits.connection()),
            ends_at_s: earlier(token.body.check(connection, now_s)?, token.times.expires()),
            display_name: claims.name().into(),
        })
    }
}

/// Makes the rules of a user. `None` if there are no permissions.
fn rules(body: &UserBody) -> Result<Option<crate::rules::Rules>, UserDenied> {
    let form = PermissionsForm {
        publish: body.publish.clone(),
        subscribe: body.subscribe.clone(),
        responses: body.responses,
    };
    permissions::rules(&form).map_err(|reason| UserDenied::Permissions { reason })
}

/// Returns the limits of a user, with a number for what is absent.
fn connection_limits(body: &UserBody, absent: i64) -> ConnectionLimits {
    let limit = |number: Option<i64>| u64::try_from(number.unwrap_or(absent)).ok();
    ConnectionLimits { subscriptions: limit(body.subs), payload_bytes: limit(body.payload) }
}

/// Returns the earlier of two times, if there is any.
fn earlier(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    [a, b].into_iter().flatten().min()
}

/// Reports whether something that was issued at a time was revoked: it was issued at or before the time that
/// stands for the key, or for all (`*`). Expiry has nothing to do with it.
pub(super) fn is_revoked(revocations: &BTreeMap<String, i64>, key: &str, issued_at_s: i64) -> bool {
    [key, "*"].iter().any(|key| revocations.get(*key).is_some_and(|revoked_at| issued_at_s <= *revoked_at))
}
