//! Accounts: each has its own space of subjects, so that what one publishes is never heard in another.
//!
//! Each account has a matcher of its own, chosen when a client logs in. With one matcher for all, a
//! subscription to `>` would match the messages of every account, and each delivery would need a check.
//! Without configuration there is only `$G`, and nothing costs more than without accounts.
//!
//! Topics live in one account: what Kafka clients produce is heard there, and what is published there is
//! captured.

mod crossing;
mod names;
mod registry;
mod replies;
mod request_info;

use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tailrace_identity::nats_accounts::{Account as Defined, AccountLimits};
use tailrace_subjects::{Dialect, Pattern, SubscribeError};
use tailrace_types::Tally;

pub(crate) use self::names::{GLOBAL, SYSTEM};
pub(crate) use self::registry::Accounts;
use self::replies::Replies;
pub(crate) use self::request_info::removed as without_request_info;
use crate::burst::Crossing;
use crate::router::{Route, Router};
use crate::routes::Routes;

/// One account.
pub(crate) struct Account {
    name: Arc<str>,
    /// The name of this server.
    server: Arc<str>,
    router: Router,
    /// Open connections of logged-in clients.
    connections: Tally,
    subscriptions: Tally,
    /// What the configuration says about it. `None` for an account that only has a name.
    defined: ArcSwapOption<Defined>,
    /// The requests of other accounts that wait for an answer, if there can be any.
    replies: OnceLock<Arc<Replies<Account>>>,
    /// The crossings of its imports. Those of streams begin in other accounts.
    links: Mutex<Vec<Link>>,
}

/// A crossing, and the account where it begins.
struct Link {
    from: Weak<Account>,
    route: Route,
}

/// A connection's membership in its account. It ends when this is dropped.
pub(crate) struct Membership {
    account: Arc<Account>,
    /// Whether it counts towards the account's limit.
    counts: bool,
}

impl Account {
    fn new(
        name: Arc<str>,
        server: Arc<str>,
        control_line_max: usize,
        routes: Arc<Routes>,
        is_main: bool,
    ) -> Self {
        let tag = (&*name != GLOBAL).then(|| Arc::clone(&name));
        Self {
            name,
            server,
            router: Router::new(control_line_max, routes, tag, is_main),
            connections: Tally::of("connections of an account"),
            subscriptions: Tally::of("subscriptions of an account"),
            defined: ArcSwapOption::empty(),
            replies: OnceLock::new(),
            links: Mutex::default(),
        }
    }

    /// The name: that of the users file, or the public key of an account with a JWT.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The account's space of subjects.
    #[inline]
    pub(crate) fn router(&self) -> &Router {
        &self.router
    }

    /// Adds a connection, however many there are.
    pub(crate) fn join(self: &Arc<Self>) -> Membership {
        self.connections.add(1);
        Membership { account: Arc::clone(self), counts: true }
    }

    /// Returns the membership of a client that has not logged in. It takes nobody's place.
    pub(crate) fn visit(self: &Arc<Self>) -> Membership {
        Membership { account: Arc::clone(self), counts: false }
    }

    /// Adds a connection, unless the account has as many as it may.
    pub(crate) fn try_join(self: &Arc<Self>) -> Option<Membership> {
        let max = self.limits().and_then(|limits| limits.connections).unwrap_or(u64::MAX);
        self.connections
            .add_if(1, |count| count < max)
            .then(|| Membership { account: Arc::clone(self), counts: true })
    }

    /// The limits of the account.
    pub(crate) fn limits(&self) -> Option<AccountLimits> {
        self.defined.load().as_ref().map(|defined| defined.definition().limits.clone())
    }

    /// What the configuration says about it.
    pub(crate) fn defined(&self) -> Option<Arc<Defined>> {
        self.defined.load_full()
    }

    fn replies(&self) -> Option<&Arc<Replies<Self>>> {
        self.replies.get()
    }

    /// Ends all imports.
    fn unlink(&self) {
        for Link { from, route } in std::mem::take(&mut *self.links.lock()) {
            if let Some(from) = from.upgrade() {
                from.router.remove(route);
            }
        }
    }

    /// Lets messages on `pattern` cross from an account to another. With `is_told`, those of other nodes,
    /// too. The link is this account's.
    fn link(&self, from: &Arc<Self>, pattern: &[u8], crossing: Arc<dyn Crossing>, is_told: bool) {
        let linked = Pattern::parse(Dialect::Nats, pattern, from.router.limits())
            .map_err(SubscribeError::from)
            .and_then(|pattern| from.router.link(&pattern, crossing, is_told));
        match linked {
            Ok(route) => self.links.lock().push(Link { from: Arc::downgrade(from), route }),
            Err(error) => {
                let (account, subject) = (&self.name, pattern.escape_ascii());
                tracing::error!(%account, %subject, %error, "an import of an account is not in force");
            }
        }
    }

    pub(crate) fn connections(&self) -> u64 {
        self.connections.get()
    }

    pub(crate) fn subscriptions(&self) -> u64 {
        self.subscriptions.get()
    }

    pub(crate) fn subscribed(&self) {
        self.subscriptions.add(1);
    }

    pub(crate) fn unsubscribed(&self) {
        self.subscriptions.take_off(1);
    }
}

impl Membership {
    #[inline]
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if self.counts {
            self.account.connections.take_off(1);
        }
    }
}
