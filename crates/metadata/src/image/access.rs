//! Users, rules, client quotas, delegation tokens and the claims of NATS accounts at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tailrace_identity::acl::{Acl, AclError, Acls};
use tailrace_identity::quota::{QuotaEntity, QuotaKey};

use crate::access::bounds::ACLS_PER_COMMAND_MAX;
use crate::access::{QuotaLimit, StoredAccountClaims, StoredToken, StoredUser};
use crate::record::MetadataRecord;

/// Users, rules, client quotas, delegation tokens and the claims of NATS accounts. Clones share them. A
/// change copies the one that it changes, if an older image still uses it.
#[derive(Clone, Debug, Default)]
pub struct AccessImage {
    users: Arc<BTreeMap<String, Arc<StoredUser>>>,
    acls: Arc<BTreeSet<Acl>>,
    /// The same rules as `acls`, for decisions.
    rules: Acls,
    quotas: Arc<BTreeMap<QuotaEntity, BTreeMap<QuotaKey, QuotaLimit>>>,
    tokens: Arc<BTreeMap<String, Arc<StoredToken>>>,
    account_claims: Arc<BTreeMap<String, Arc<StoredAccountClaims>>>,
    version: u64,
}

impl PartialEq for AccessImage {
    fn eq(&self, other: &Self) -> bool {
        (&self.users, &self.acls, &self.quotas, &self.tokens, &self.account_claims, self.version)
            == (&other.users, &other.acls, &other.quotas, &other.tokens, &other.account_claims, other.version)
    }
}

impl Eq for AccessImage {}

/// Why a record about access cannot be applied. The image is unchanged then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessContradiction {
    /// The record stores a user about whom there is nothing to store.
    #[error("metadata record stores user '{}' without a credential, who is not disabled", name.escape_debug())]
    EmptyUser {
        /// The user.
        name: String,
    },
    /// The record has several credentials for one mechanism, or has them out of order.
    #[error("metadata record stores user '{}' with inconsistent credentials", name.escape_debug())]
    Credentials {
        /// The user.
        name: String,
    },
    /// The record removes a user who does not exist.
    #[error("metadata record removes user '{}', who does not exist", name.escape_debug())]
    UnknownUser {
        /// The user.
        name: String,
    },
    /// The record changes no rule.
    #[error("metadata record changes the rules, but names none")]
    NoAcls,
    /// The record adds a rule that exists.
    #[error("metadata record adds a rule that exists already: {acl:?}")]
    AclExists {
        /// The rule.
        acl: Acl,
    },
    /// The record adds a rule that nobody may add.
    #[error("metadata record adds a rule that is illegal: {error}")]
    IllegalAcl {
        /// What is wrong.
        error: AclError,
    },
    /// The record removes a rule that does not exist.
    #[error("metadata record removes a rule that does not exist: {acl:?}")]
    UnknownAcl {
        /// The rule.
        acl: Acl,
    },
    /// The record removes the limits of an entity that has none.
    #[error("metadata record removes limits that do not exist, those of {entity:?}")]
    UnknownEntity {
        /// The entity.
        entity: QuotaEntity,
    },
    /// The record removes a delegation token that does not exist.
    #[error("metadata record removes delegation token '{}', which does not exist", id.escape_debug())]
    UnknownToken {
        /// Its id.
        id: String,
    },
    /// The record replaces the claims of an account by older ones.
    #[error("metadata record replaces the claims of account {account} by older ones")]
    OlderAccountClaims {
        /// The public key of the account.
        account: String,
    },
    /// The record removes the claims of an account that has none.
    #[error("metadata record removes the claims of account {account}, which do not exist")]
    UnknownAccountClaims {
        /// The public key of the account.
        account: String,
    },
    /// The record sets the version back.
    #[error("metadata record sets the version of users, rules and quotas to {found}, but it is {current}")]
    Version {
        /// The record's version.
        found: u64,
        /// The current version.
        current: u64,
    },
}

impl AccessImage {
    /// Returns the version, which grows with each record about access. Decisions may be cached as long as it
    /// stays the same.
    ///
    /// It is the number of such records since the metadata began. All nodes count the same records, so a
    /// version means the same contents on all of them. A snapshot has fewer records than were counted, and
    /// therefore ends with a record of the version. No version comes back with other contents.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns all users, ordered by name.
    pub fn users(&self) -> impl ExactSizeIterator<Item = &Arc<StoredUser>> {
        self.users.values()
    }

    /// Returns the user of this name. A connection that keeps it can tell later whether the user was changed
    /// or removed.
    pub fn user(&self, name: &str) -> Option<&Arc<StoredUser>> {
        self.users.get(name)
    }

    /// Returns all rules, in order.
    pub fn acls(&self) -> &Arc<BTreeSet<Acl>> {
        &self.acls
    }

    /// Returns all rules, for decisions.
    pub fn rules(&self) -> &Acls {
        &self.rules
    }

    /// Returns the limits of all entities that have any.
    pub fn quotas(&self) -> &Arc<BTreeMap<QuotaEntity, BTreeMap<QuotaKey, QuotaLimit>>> {
        &self.quotas
    }

    /// Returns all delegation tokens, ordered by id. Some may have expired.
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = &Arc<StoredToken>> {
        self.tokens.values()
    }

    /// Returns the delegation token of this id. It may have expired.
    pub fn token(&self, id: &str) -> Option<&Arc<StoredToken>> {
        self.tokens.get(id)
    }

    /// Replaces a user.
    pub(crate) fn put_user(&mut self, user: &StoredUser) -> Result<(), AccessContradiction> {
        let name = user.name.clone();
        if user.is_empty() {
            return Err(AccessContradiction::EmptyUser { name });
        }
        if !user.is_ordered() {
            return Err(AccessContradiction::Credentials { name });
        }
        Arc::make_mut(&mut self.users).insert(name, Arc::new(user.clone()));
        self.count();
        Ok(())
    }

    pub(crate) fn remove_user(&mut self, name: &str) -> Result<(), AccessContradiction> {
        if !self.users.contains_key(name) {
            return Err(AccessContradiction::UnknownUser { name: name.to_owned() });
        }
        Arc::make_mut(&mut self.users).remove(name);
        self.count();
        Ok(())
    }

    pub(crate) fn change_acls(
        &mut self,
        added: &BTreeSet<Acl>,
        removed: &BTreeSet<Acl>,
    ) -> Result<(), AccessContradiction> {
        if added.is_empty() && removed.is_empty() {
            return Err(AccessContradiction::NoAcls);
        }
        // A rule in both sets fails one of these two checks.
        if let Some(acl) = added.iter().find(|acl| self.acls.contains(acl)) {
            return Err(AccessContradiction::AclExists { acl: acl.clone() });
        }
        if let Some(acl) = removed.iter().find(|acl| !self.acls.contains(acl)) {
            return Err(AccessContradiction::UnknownAcl { acl: acl.clone() });
        }
        let mut rules = self.rules.clone();
        for acl in added {
            rules.insert(acl.clone()).map_err(|error| AccessContradiction::IllegalAcl { error })?;
        }
        let acls = Arc::make_mut(&mut self.acls);
        acls.extend(added.iter().cloned());
        for acl in removed {
            acls.remove(acl);
            rules.remove(acl);
        }
        self.rules = rules;
        self.count();
        Ok(())
    }

    /// Replaces the limits of an entity.
    pub(crate) fn put_limits(
        &mut self,
        entity: &QuotaEntity,
        limits: &BTreeMap<QuotaKey, QuotaLimit>,
    ) -> Result<(), AccessContradiction> {
        if limits.is_empty() && !self.quotas.contains_key(entity) {
            return Err(AccessContradiction::UnknownEntity { entity: entity.clone() });
        }
        let quotas = Arc::make_mut(&mut self.quotas);
        if limits.is_empty() {
            quotas.remove(entity);
        } else {
            quotas.insert(entity.clone(), limits.clone());
        }
        self.count();
        Ok(())
    }

    /// Replaces a delegation token.
    pub(crate) fn put_token(&mut self, token: &StoredToken) {
        Arc::make_mut(&mut self.tokens).insert(token.id.clone(), Arc::new(token.clone()));
        self.count();
    }

    pub(crate) fn remove_token(&mut self, id: &str) -> Result<(), AccessContradiction> {
        if !self.tokens.contains_key(id) {
            return Err(AccessContradiction::UnknownToken { id: id.to_owned() });
        }
        Arc::make_mut(&mut self.tokens).remove(id);
        self.count();
        Ok(())
    }

    /// Returns the claims of all NATS accounts, ordered by their public keys. They are the same `Arc` as long
    /// as none of them changes. Nobody has checked here that a trusted operator issued them.
    pub fn account_claims(&self) -> &Arc<BTreeMap<String, Arc<StoredAccountClaims>>> {
        &self.account_claims
    }

    /// Replaces the claims of an account.
    pub(crate) fn put_account_claims(
        &mut self,
        claims: &StoredAccountClaims,
    ) -> Result<(), AccessContradiction> {
        let account = claims.account.clone();
        let is_newer = |known: &Arc<StoredAccountClaims>| known.issued_at_s > claims.issued_at_s;
        if self.account_claims.get(&account).is_some_and(is_newer) {
            return Err(AccessContradiction::OlderAccountClaims { account });
        }
        Arc::make_mut(&mut self.account_claims).insert(account, Arc::new(claims.clone()));
        self.count();
        Ok(())
    }

    pub(crate) fn remove_account_claims(&mut self, account: &str) -> Result<(), AccessContradiction> {
        if !self.account_claims.contains_key(account) {
            return Err(AccessContradiction::UnknownAccountClaims { account: account.to_owned() });
        }
        Arc::make_mut(&mut self.account_claims).remove(account);
        self.count();
        Ok(())
    }

    /// Takes over the version of a snapshot.
    pub(crate) fn continue_from(&mut self, version: u64) -> Result<(), AccessContradiction> {
        let current = self.version;
        if version < current {
            return Err(AccessContradiction::Version { found: version, current });
        }
        self.version = version;
        Ok(())
    }

    fn count(&mut self) {
        // 2^64 changes do not happen.
        self.version = self.version.saturating_add(1);
    }

    /// Returns records that produce this image from an empty one.
    pub(super) fn snapshot_records(&self) -> Vec<MetadataRecord> {
        let users = self.users.values().map(|user| MetadataRecord::User(StoredUser::clone(user)));
        let mut records: Vec<_> = users.collect();
        let acls: Vec<&Acl> = self.acls.iter().collect();
        records.extend(acls.chunks(ACLS_PER_COMMAND_MAX).map(|acls| MetadataRecord::AclsChanged {
            added: acls.iter().copied().cloned().collect(),
            removed: BTreeSet::new(),
        }));
        let quotas = self.quotas.iter().map(|(entity, limits)| (entity.clone(), limits.clone()));
        records.extend(quotas.map(|(entity, limits)| MetadataRecord::ClientQuota { entity, limits }));
        records.extend(self.tokens.values().map(|token| MetadataRecord::Token(StoredToken::clone(token))));
        let claims = self.account_claims.values();
        records
            .extend(claims.map(|claims| MetadataRecord::AccountClaims(StoredAccountClaims::clone(claims))));
        if self.version > 0 {
            records.push(MetadataRecord::AccessVersion { version: self.version });
        }
        records
    }
}
