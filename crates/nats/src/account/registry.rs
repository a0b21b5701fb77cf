//! All accounts of a server, by name.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use tailrace_identity::nats_accounts::{Account as Defined, AccountTable};

use super::crossing::Passage;
use super::{Account, GLOBAL};
use crate::routes::Routes;

/// Most accounts that exist because another node has subscribers in them. Each takes about a kilobyte.
const ACCOUNTS_MAX: usize = 65_536;

/// The accounts. They are created when they are needed first, and stay.
pub(crate) struct Accounts {
    global: Arc<Account>,
    topics: Arc<Account>,
    others: RwLock<HashMap<Arc<str>, Arc<Account>>>,
    /// The name of this server.
    server: Arc<str>,
    control_line_max: usize,
    routes: Arc<Routes>,
    are_linked: AtomicBool,
    system: Arc<str>,
    /// Held while accounts are defined.
    defining: Mutex<()>,
}

impl Accounts {
    /// Makes the global account, and the one in which topics live.
    pub(crate) fn new(
        server: &str,
        control_line_max: usize,
        routes: Arc<Routes>,
        topics: &str,
        system: &str,
    ) -> Self {
        let server: Arc<str> = server.into();
        let make = |name: &str| {
            let (server, routes) = (Arc::clone(&server), Arc::clone(&routes));
            Arc::new(Account::new(name.into(), server, control_line_max, routes, name == topics))
        };
        let global = make(GLOBAL);
        let topics = if topics == GLOBAL { Arc::clone(&global) } else { make(topics) };
        let others = [&global, &topics].map(|account| (Arc::clone(account.name()), Arc::clone(account)));
        Self {
            global,
            topics,
            others: RwLock::new(others.into()),
            server,
            control_line_max,
            routes,
            are_linked: AtomicBool::new(false),
            system: system.into(),
            defining: Mutex::default(),
        }
    }

    /// Sets what the users file, or the claims of the accounts, say now.
    pub(crate) fn define(&self, table: &AccountTable) {
        let _defining = self.defining.lock();
        for account in self.all() {
            let now = table.account(account.name()).cloned();
            let before = account.defined.load_full();
            let shares = |defined: &Option<Arc<Defined>>| {
                defined.as_ref().map(|defined| (defined.streams().to_vec(), defined.services().to_vec()))
            };
            if before.is_some() {
                account.defined.store(now.clone());
                if shares(&before) != shares(&now) {
                    account.unlink();
                    self.link(&account, now.as_deref());
                }
            }
        }
        for defined in table.accounts() {
            let account = self.get(defined.name().as_str());
            if account.defined.load().is_none() {
                account.defined.store(Some(Arc::clone(defined)));
                self.link(&account, Some(defined));
            }
        }
    }

    fn link(&self, importer: &Arc<Account>, defined: Option<&Defined>) {
        let Some(defined) = defined else { return };
        for import in defined.services() {
            let exporter = self.get(import.account().as_str());
            exporter.answer_others();
            let passage = Passage::of_service(import, importer, &exporter);
            importer.link(importer, import.local(), Arc::new(passage), false);
        }
        for import in defined.streams() {
            let exporter = self.get(import.account().as_str());
            if let Some(pattern) = import.to_exported(b">") {
                let passage = Passage::of_stream(import, importer);
                importer.link(&exporter, &pattern, Arc::new(passage), false);
            }
        }
        self.are_linked.fetch_or(!defined.services().is_empty(), Ordering::Relaxed);
    }

    /// The account that hears of events, and may ask about everything. `None` if nobody can be in it.
    pub(crate) fn system(&self) -> Option<Arc<Account>> {
        self.find(&self.system)
    }

    /// Reports whether any account imports a service, so that what clients say of themselves counts.
    #[inline]
    pub(crate) fn are_linked(&self) -> bool {
        self.are_linked.load(Ordering::Relaxed)
    }

    /// The account of clients whose user names none.
    pub(crate) fn global(&self) -> &Arc<Account> {
        &self.global
    }

    /// The account in which topics live.
    pub(crate) fn topics(&self) -> &Arc<Account> {
        &self.topics
    }

    pub(crate) fn routes(&self) -> &Arc<Routes> {
        &self.routes
    }

    /// Returns the account of this name, if it is known.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Account>> {
        self.others.read().get(name).cloned()
    }

    /// Returns the account of this name, and creates it if needed.
    pub(crate) fn get(&self, name: &str) -> Arc<Account> {
        if let Some(known) = self.find(name) {
            return known;
        }
        let mut accounts = self.others.write();
        let new = || {
            let (server, routes) = (Arc::clone(&self.server), Arc::clone(&self.routes));
            Arc::new(Account::new(name.into(), server, self.control_line_max, routes, false))
        };
        Arc::clone(accounts.entry(name.into()).or_insert_with(new))
    }

    /// The same for an account that another node names. `None` if there are too many.
    pub(crate) fn get_for_node(&self, name: Option<&str>) -> Option<Arc<Account>> {
        let Some(name) = name else { return Some(Arc::clone(&self.global)) };
        let is_full = || self.others.read().len() >= ACCOUNTS_MAX;
        self.find(name).or_else(|| (!is_full()).then(|| self.get(name)))
    }

    /// Returns all accounts by name.
    pub(crate) fn all(&self) -> Vec<Arc<Account>> {
        let mut all: Vec<_> = self.others.read().values().cloned().collect();
        all.sort_by(|one, other| one.name().cmp(other.name()));
        all
    }
}
