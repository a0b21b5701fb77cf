//! All accounts, checked against each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::chains::Chains;
use super::definition::{AccountDefinition, Import, Response, ShareKind};
use super::name::AccountName;
use super::pattern::meet;
use super::permission::{Permitted, permitted};

/// Maximum number of accounts. One without imports and exports takes less than 1 KiB.
const ACCOUNTS_MAX: usize = 10_000;

/// Maximum number of imports of all accounts together. Each is checked against those it meets.
const IMPORTS_MAX: usize = 65_536;

/// Why a part of an account is not in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("account {account}: {reason}")]
pub struct AccountFault {
    /// The account.
    pub account: AccountName,
    /// What is wrong.
    pub reason: String,
}

/// An import of a stream that is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamImport {
    import: Import,
}

impl StreamImport {
    /// Returns the exporting account.
    pub fn account(&self) -> &AccountName {
        &self.import.account
    }

    /// Maps a subject of the exporting account to this account's. `None` if it is not imported.
    pub fn to_local(&self, subject: &[u8]) -> Option<Vec<u8>> {
        self.import.mapping.map(subject)
    }

    /// Returns the pattern to subscribe to in the exporting account, for a subscription in this account.
    /// `None` if they have nothing in common.
    pub fn to_exported(&self, subscription: &[u8]) -> Option<Vec<u8>> {
        self.import.mapping.unmap(&meet(self.import.local(), subscription)?)
    }
}

/// An import of a service that is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceImport {
    import: Import,
    response: Response,
    response_threshold_ms: Option<u64>,
}

impl ServiceImport {
    /// Returns the exporting account.
    pub fn account(&self) -> &AccountName {
        &self.import.account
    }

    /// Returns the pattern of requests in this account.
    pub fn local(&self) -> &[u8] {
        self.import.local()
    }

    /// Maps the subject of a request to the exporting account's. `None` if it is not imported.
    pub fn to_exported(&self, subject: &[u8]) -> Option<Vec<u8>> {
        self.import.mapping.map(subject)
    }

    /// Returns the subject in this account whose requests have this subject in the exporting account. `None`
    /// if none has.
    pub fn to_local(&self, exported: &[u8]) -> Option<Vec<u8>> {
        self.import.mapping.unmap(exported)
    }

    /// Returns how the service answers.
    pub fn response(&self) -> Response {
        self.response
    }

    /// Returns how long the service has for an answer, in milliseconds: the export's threshold, or
    /// nats-server's default of two minutes.
    pub fn response_threshold_ms(&self) -> u64 {
        self.response_threshold_ms.unwrap_or(120_000)
    }

    /// Reports whether the service hears who asks.
    pub fn shares(&self) -> bool {
        self.import.share
    }
}

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRoute {
    /// The import that leads there.
    pub import: Arc<ServiceImport>,
    /// The subject in `import.account()`. Services of that account may lead further: ask again there.
    pub subject: Vec<u8>,
}

/// Where a subscription hears messages of another account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRoute {
    /// The import that leads there.
    pub import: Arc<StreamImport>,
    /// The pattern in `import.account()`. Streams of that account may lead further: ask again there.
    pub pattern: Vec<u8>,
}

/// An account as it is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    definition: AccountDefinition,
    streams: Vec<Arc<StreamImport>>,
    services: Vec<Arc<ServiceImport>>,
}

impl Account {
    /// Returns the name.
    pub fn name(&self) -> &AccountName {
        &self.definition.name
    }

    /// Returns the definition, with imports that may not be in force.
    pub fn definition(&self) -> &AccountDefinition {
        &self.definition
    }

    /// Returns the imports of streams that are in force.
    pub fn streams(&self) -> &[Arc<StreamImport>] {
        &self.streams
    }

    /// Returns the imports of services that are in force.
    pub fn services(&self) -> &[Arc<ServiceImport>] {
        &self.services
    }

    /// Reports whether one of its imports is in force.
    pub fn has_in_force(&self, import: &Import) -> bool {
        match import.kind {
            ShareKind::Stream => self.streams.iter().any(|one| one.import == *import),
            ShareKind::Service => self.services.iter().any(|one| one.import == *import),
        }
    }

    /// Returns where a message on `subject` goes beside this account.
    pub fn service_routes(&self, subject: &[u8]) -> impl Iterator<Item = ServiceRoute> {
        self.services.iter().filter_map(|import| {
            let subject = import.to_exported(subject)?;
            Some(ServiceRoute { import: Arc::clone(import), subject })
        })
    }

    /// Returns where a subscription to `pattern` hears messages beside this account.
    pub fn stream_routes(&self, pattern: &[u8]) -> impl Iterator<Item = StreamRoute> {
        self.streams.iter().filter_map(|import| {
            let pattern = import.to_exported(pattern)?;
            Some(StreamRoute { import: Arc::clone(import), pattern })
        })
    }
}

/// All accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountTable {
    accounts: BTreeMap<AccountName, Arc<Account>>,
    next_change_at_s: Option<i64>,
}

impl AccountTable {
    /// Checks accounts against each other. What is wrong is left out, and described: the caller decides
    /// whether that is an error (of a file), or to be logged (of claims, which are changed one by one).
    ///
    /// `now_s` is the time in seconds since 1970, for activation tokens.
    pub fn build(definitions: Vec<AccountDefinition>, now_s: i64) -> (Self, Vec<AccountFault>) {
        let mut building = Building::default();
        for definition in definitions {
            building.add(definition);
        }
        building.finish(now_s)
    }

    /// Returns the account of this name.
    pub fn account(&self, name: &str) -> Option<&Arc<Account>> {
        self.accounts.get(name)
    }

    /// Returns all accounts, ordered by name.
    pub fn accounts(&self) -> impl ExactSizeIterator<Item = &Arc<Account>> {
        self.accounts.values()
    }

    /// Returns when an account or an activation token expires next, in seconds since 1970. The table must be
    /// built again then.
    pub fn next_change_at_s(&self) -> Option<i64> {
        self.next_change_at_s
    }
}

/// A table that is being built.
#[derive(Default)]
struct Building {
    definitions: BTreeMap<AccountName, AccountDefinition>,
    faults: Vec<AccountFault>,
    imports: usize,
    next_change_at_s: Option<i64>,
}

impl Building {
    /// Adds an account. If anything is wrong with the account itself, it shares nothing.
    fn add(&mut self, mut definition: AccountDefinition) {
        let account = definition.name.clone();
        if self.definitions.contains_key(&account) {
            return self.fault(account, "it is defined twice".to_owned());
        }
        if self.definitions.len() >= ACCOUNTS_MAX {
            return self.fault(account, format!("there are at most {ACCOUNTS_MAX} accounts"));
        }
        self.imports += definition.imports.len();
        let mut faults = definition.faults();
        if self.imports > IMPORTS_MAX {
            faults.push(format!("all accounts together have at most {IMPORTS_MAX} imports"));
        }
        if !faults.is_empty() {
            self.imports -= definition.imports.len();
            definition.imports = Vec::new();
            definition.exports = Vec::new();
        }
        for reason in faults {
            self.fault(account.clone(), reason);
        }
        self.definitions.insert(account, definition);
    }

    fn fault(&mut self, account: AccountName, reason: String) {
        self.faults.push(AccountFault { account, reason });
    }

    /// Checks all imports, in the order of the accounts' names.
    fn finish(mut self, now_s: i64) -> (AccountTable, Vec<AccountFault>) {
        let mut accounts = BTreeMap::new();
        let mut chains = Chains::default();
        let definitions = std::mem::take(&mut self.definitions);
        for (name, definition) in &definitions {
            self.changes_at(definition.expires_at_s.filter(|at| *at > now_s));
            let mut account =
                Account { definition: definition.clone(), streams: Vec::new(), services: Vec::new() };
            for import in &definition.imports {
                let result = permitted(&definitions, name, import, now_s)
                    .and_then(|permitted| chains.add(name, import).map(|()| permitted));
                match result {
                    Ok(permitted) => {
                        self.changes_at(permitted.expires_at_s);
                        account.add(import.clone(), &permitted);
                    }
                    Err(reason) => self.fault(name.clone(), format!("{}: {reason}", import.described())),
                }
            }
            accounts.insert(name.clone(), Arc::new(account));
        }
        (AccountTable { accounts, next_change_at_s: self.next_change_at_s }, self.faults)
    }

    fn changes_at(&mut self, at_s: Option<i64>) {
        self.next_change_at_s = [self.next_change_at_s, at_s].into_iter().flatten().min();
    }
}

impl Account {
    fn add(&mut self, import: Import, permitted: &Permitted<'_>) {
        match import.kind {
            ShareKind::Stream => self.streams.push(Arc::new(StreamImport { import })),
            ShareKind::Service => self.services.push(Arc::new(ServiceImport {
                import,
                response: permitted.export.response,
                response_threshold_ms: permitted.export.response_threshold_ms,
            })),
        }
    }
}
