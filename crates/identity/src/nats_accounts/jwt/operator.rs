//! The operators, who are trusted because they are configured.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::name::AccountName;
use super::account::AccountClaims;
use super::errors::ClaimError;
use super::forms::{DeletionBody, OperatorBody};
use super::keys::{KeyKind, Nkey};
use super::token::{Expected, Times, Token, read};

/// Maximum number of operators.
const OPERATORS_MAX: usize = 16;

/// Maximum number of signing keys of an operator.
const SIGNING_KEYS_MAX: usize = 256;

/// Maximum number of accounts in a request to delete some.
const DELETED_MAX: usize = 10_000;

/// An operator.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Operator {
    key: String,
    signing_keys: BTreeSet<String>,
    is_strict: bool,
    times: Times,
}

/// The trusted operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorTrust {
    operators: Vec<Operator>,
    system_account: Option<AccountName>,
}

/// A request to delete accounts, signed by an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedAccounts {
    /// The accounts.
    pub accounts: BTreeSet<AccountName>,
    /// When it was issued, in seconds since 1970. Claims that were issued later are not meant: a request
    /// that somebody has recorded and sends again deletes nothing new.
    pub issued_at_s: i64,
    issuer: String,
    times: Times,
}

impl DeletedAccounts {
    /// Reads a request, and checks its signature. Whether the issuer is trusted is another question.
    ///
    /// # Errors
    /// It cannot be read, or the issuer has not signed for itself.
    pub fn read(token: &str) -> Result<Self, ClaimError> {
        let Token { issuer, subject, times, body, .. } = read::<DeletionBody>(token, Expected::GENERIC)?;
        if issuer != subject {
            return Err(ClaimError::field("sub", "the issuer must sign for itself"));
        }
        if body.accounts.is_empty() || body.accounts.len() > DELETED_MAX {
            return Err(ClaimError::field("accounts", format!("from 1 to {DELETED_MAX}")));
        }
        let accounts = body.accounts.iter().map(|name| {
            Nkey::parse_as(KeyKind::Account, name).map_err(|error| ClaimError::key("accounts", error))?;
            AccountName::new(name).map_err(|error| ClaimError::field("accounts", error))
        });
        let accounts = accounts.collect::<Result<_, _>>()?;
        Ok(Self { accounts, issued_at_s: times.issued_at_s, issuer, times })
    }
}

impl OperatorTrust {
    /// Reads the claims of the operators, as they are configured. The first system account that one of them
    /// names is the system account.
    ///
    /// # Errors
    /// There are none or too many, one cannot be read, or has not signed itself.
    pub fn read<'a>(tokens: impl IntoIterator<Item = &'a str>) -> Result<Self, ClaimError> {
        let mut trust = Self { operators: Vec::new(), system_account: None };
        for token in tokens {
            if trust.operators.len() >= OPERATORS_MAX {
                return Err(ClaimError::field("operators", format!("at most {OPERATORS_MAX}")));
            }
            trust.add(token)?;
        }
        if trust.operators.is_empty() {
            return Err(ClaimError::field("operators", "there are none"));
        }
        Ok(trust)
    }

    fn add(&mut self, token: &str) -> Result<(), ClaimError> {
        let Token { issuer, subject, times, body, .. } = read::<OperatorBody>(token, Expected::OPERATOR)?;
        let signing_keys: BTreeSet<String> = body.signing_keys.into_iter().collect();
        if signing_keys.len() > SIGNING_KEYS_MAX {
            return Err(ClaimError::field("signing_keys", format!("at most {SIGNING_KEYS_MAX}")));
        }
        for key in &signing_keys {
            Nkey::parse_as(KeyKind::Operator, key).map_err(|error| ClaimError::key("signing_keys", error))?;
        }
        // Another operator's signature would say nothing about this one.
        if issuer != subject && !signing_keys.contains(&issuer) {
            return Err(ClaimError::field("iss", "an operator signs its own claims"));
        }
        if !body.system_account.is_empty() {
            Nkey::parse_as(KeyKind::Account, &body.system_account)
                .map_err(|error| ClaimError::key("system_account", error))?;
            let account = AccountName::new(&body.system_account)
                .map_err(|error| ClaimError::field("system_account", error))?;
            self.system_account.get_or_insert(account);
        }
        let is_strict = body.strict_signing_key_usage;
        self.operators.push(Operator { key: subject, signing_keys, is_strict, times });
        Ok(())
    }

    /// Returns the system account.
    pub fn system_account(&self) -> Option<&AccountName> {
        self.system_account.as_ref()
    }

    /// Returns the public keys of the operators.
    pub fn operators(&self) -> impl Iterator<Item = &str> {
        self.operators.iter().map(|operator| operator.key.as_str())
    }

    /// Reads the claims of an account, and checks that a trusted operator has issued them.
    ///
    /// # Errors
    /// They cannot be read, are not valid now, or the issuer is not trusted.
    pub fn account(&self, token: &str, now_s: i64) -> Result<Arc<AccountClaims>, ClaimError> {
        let claims = AccountClaims::read(token)?;
        self.check(&claims, now_s)?;
        Ok(claims)
    }

    /// Checks claims of an account that were read before.
    ///
    /// # Errors
    /// They are not valid now, or the issuer is not trusted.
    pub fn check(&self, claims: &AccountClaims, now_s: i64) -> Result<(), ClaimError> {
        self.check_issuer(claims.issuer(), now_s)?;
        check_times(claims.times(), now_s)
    }

    /// Reads a request to delete accounts: claims that a trusted operator has issued for itself.
    ///
    /// # Errors
    /// It cannot be read, is not valid now, the issuer is not trusted, or it names the system account.
    pub fn deletion(&self, token: &str, now_s: i64) -> Result<DeletedAccounts, ClaimError> {
        let deletion = DeletedAccounts::read(token)?;
        self.check_issuer(&deletion.issuer, now_s)?;
        check_times(deletion.times, now_s)?;
        match self.system_account.as_ref().filter(|account| deletion.accounts.contains(*account)) {
            Some(account) => Err(ClaimError::SystemAccount { account: account.clone() }),
            None => Ok(deletion),
        }
    }

    fn check_issuer(&self, issuer: &str, now_s: i64) -> Result<(), ClaimError> {
        let mut is_own = false;
        for operator in &self.operators {
            if operator.times.is_expired(now_s) || operator.times.is_early(now_s) {
                continue;
            }
            is_own |= operator.key == issuer;
            let is_identity = operator.key == issuer && !operator.is_strict;
            if is_identity || operator.signing_keys.contains(issuer) {
                return Ok(());
            }
        }
        Err(if is_own { ClaimError::NotASigningKey } else { ClaimError::Untrusted })
    }
}

fn check_times(times: Times, now_s: i64) -> Result<(), ClaimError> {
    if times.is_expired(now_s) {
        return Err(ClaimError::Expired);
    }
    if times.is_early(now_s) {
        return Err(ClaimError::Early);
    }
    Ok(())
}
