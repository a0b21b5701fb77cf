//! Users, rules, delegation tokens and quotas in a run: who may do what, what the administrator did, and
//! whether nodes acted accordingly.
//!
//! A request is judged by the rules that its node had. They are looked at before it is sent and after it was
//! answered, and if they are the same, it must have been decided by them (`model`). How soon a node has the
//! rules of others is judged apart from that (`census`). Together this is what clients are promised.

mod census;
mod deputy;
mod model;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tailrace_env::sync::watch;
use tailrace_identity::acl::Acl;
use tailrace_identity::quota::{EntityName, QuotaEntity, QuotaKey};
use tailrace_identity::scram::{ScramMechanism, ScramVerifier};
use tailrace_metadata::{AccessImage, Command, QuotaLimit, ScramChange};
use tailrace_node::Node;
use tailrace_types::TimestampMs;

pub(super) use self::census::Census;
use self::deputy::Deputy;
pub(super) use self::model::{
    GUARDED_GROUP, RULES, Right, Secret, accepts, deputys_right, deputys_rule, is_usual, may, password, rule,
    salt,
};
use super::history::BatchName;
use crate::computer::Running;
use crate::world::here;

/// The administrator, who may do everything.
pub(super) const ADMIN: &str = "admin";

/// The user of all clients that nothing happens to.
pub(super) const STORM: &str = "storm";

/// A user who may create rules, as long as the administrator lets it.
pub(super) const DEPUTY: &str = "deputy";

/// A user with a small quota.
pub(super) const SLOW: &str = "slow";

/// The users whose rules and passwords change.
pub(super) const WATCHED: [&str; 3] = ["watched0", "watched1", "watched2"];

/// What the user with a small quota may write, in bytes per second.
pub(super) const SLOW_BYTES_PER_SECOND: f64 = 60.0;

/// A connection of a user who may no longer log in ends within this time, once its node knows. The documents
/// say "within about a second".
const CLOSED_WITHIN: Duration = Duration::from_secs(2);

/// The iterations of passwords: the fewest that are accepted.
pub(super) const ITERATIONS: u32 = 4_096;

/// The mechanism of all passwords.
pub(super) const MECHANISM: ScramMechanism = ScramMechanism::Sha256;

/// A password after it was salted, by password and salt.
type Salted = BTreeMap<(String, Vec<u8>), Vec<u8>>;

/// What is known of users and rules in a run.
#[derive(Default)]
pub(super) struct AccessHistory {
    /// The node that runs on each computer.
    nodes: Vec<Running>,
    /// Until when faults affect each computer, and the one of the clients after them.
    disturbed: Vec<Duration>,
    /// The credentials of each watched user, with those that have ended.
    credentials: BTreeMap<&'static str, Credentials>,
    /// What the administrator was told has been done, and nothing has changed since.
    expected: BTreeMap<Entity, String>,
    /// When each batch of a watched user was offered.
    offered: BTreeMap<BatchName, Duration>,
    /// Batches that nobody may store, unless the rules change later: who offered them, and when.
    unwelcome: BTreeMap<BatchName, (&'static str, Duration)>,
    /// The last time that some node let each user write.
    let_write: BTreeMap<&'static str, Duration>,
    /// The newest version of users and rules on any node.
    newest: u64,
    deputy: Deputy,
    pub(super) salted: Salted,
}

/// The credentials of a user.
#[derive(Default)]
struct Credentials {
    generation: u32,
    tokens: Vec<Secret>,
}

/// Something that the administrator changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Entity {
    Rule(Acl),
    /// The state is the salt.
    Password(&'static str),
    Disabled(&'static str),
    Quota(&'static str),
    Token(String),
}

impl Entity {
    /// Describes the state.
    pub(super) fn state(&self, access: &AccessImage) -> String {
        match self {
            Self::Rule(acl) => access.acls().contains(acl).to_string(),
            Self::Password(user) => {
                let credential = access.user(user).and_then(|user| user.credential(MECHANISM));
                let salt = credential.map(|credential| String::from_utf8_lossy(credential.verifier.salt()));
                salt.unwrap_or_default().into_owned()
            }
            Self::Disabled(user) => access.user(user).is_some_and(|user| user.disabled.is_some()).to_string(),
            Self::Quota(user) => access.quotas().contains_key(&quota_of(user)).to_string(),
            Self::Token(id) => access.token(id).is_some().to_string(),
        }
    }
}

fn quota_of(user: &str) -> QuotaEntity {
    QuotaEntity { user: Some(EntityName::Named(user.to_owned())), ..QuotaEntity::default() }
}

/// The users and rules of a node at some moment.
pub(super) struct Look {
    node: Weak<Node>,
    pub(super) access: AccessImage,
    /// The time by the clients' clock. Tokens live for a day, and clocks are wrong by less.
    pub(super) now: TimestampMs,
}

impl Look {
    /// Returns the users and rules if a node had the same ones twice, and did not start in between.
    pub(super) fn settled(before: Option<&Self>, after: Option<Self>) -> Option<Self> {
        before.zip(after).and_then(|(before, after)| after.is_as(before).then_some(after))
    }

    /// Reports whether it is the same node as before, and was not started again.
    pub(super) fn is_of(&self, before: &Self) -> bool {
        Weak::ptr_eq(&self.node, &before.node)
    }

    fn is_as(&self, before: &Self) -> bool {
        self.is_of(before) && self.access.version() == before.access.version()
    }
}

/// Since when a connection should have ended.
#[derive(Default)]
pub(super) struct Overdue(Option<Duration>);

impl Overdue {
    /// Reports whether the connection should have ended already.
    pub(super) fn has_begun(&self) -> bool {
        self.0.is_some()
    }
}

/// Returns the simulated time.
pub(super) fn now() -> Duration {
    here().map(|(now, _)| now).unwrap_or_default()
}

impl AccessHistory {
    /// Returns what a node knows now. `None` if it does not run.
    pub(super) fn look(&self, node: u8) -> Option<Look> {
        let node = self.nodes.get(usize::from(node) - 1)?.node()?;
        let (access, now) = (node.image().access().clone(), node.now());
        Some(Look { node: Arc::downgrade(&node), access, now })
    }

    /// Returns what the node with the newest users and rules knows.
    pub(super) fn newest(&self) -> Option<AccessImage> {
        let images = self.nodes.iter().filter_map(|node| Some(node.node()?.image().access().clone()));
        images.max_by_key(AccessImage::version)
    }

    /// Records which nodes run.
    pub(super) fn run_on(&mut self, nodes: Vec<Running>) {
        self.nodes = nodes;
    }

    /// Records until when faults affect each computer.
    pub(super) fn disturb(&mut self, disturbed: &[Duration]) {
        self.disturbed.clear();
        self.disturbed.extend_from_slice(disturbed);
    }

    /// Reports whether no fault has affected a node or the clients since then.
    fn is_calm(&self, node: u8, since: Duration) -> bool {
        let until = |index: usize| self.disturbed.get(index).copied().unwrap_or_default();
        until(usize::from(node) - 1) < since && until(self.disturbed.len().saturating_sub(1)) < since
    }

    /// Returns the credential that a user has, one that it had, or a token. Some tokens have ended.
    pub(super) fn secret(&self, user: &str, choice: u64) -> Secret {
        let Some(known) = self.credentials.get(user) else { return Secret::Password(0) };
        match choice % 10 {
            0 | 1 if known.generation > 0 => Secret::Password(known.generation - 1),
            2..=4 if !known.tokens.is_empty() => {
                let last = known.tokens.len() - 1;
                // Mostly one of the last two.
                let back = usize::try_from((choice / 10) % 3).unwrap_or(0).min(last);
                known.tokens[last - back].clone()
            }
            _ => Secret::Password(known.generation),
        }
    }

    /// Returns the password that a user may have, for a door that takes no tokens.
    pub(super) fn password_of(&self, user: &str, choice: u64) -> Secret {
        let generation = self.credentials.get(user).map_or(0, |known| known.generation);
        let is_old = choice.is_multiple_of(5) && generation > 0;
        Secret::Password(generation - u32::from(is_old))
    }

    /// Returns a new generation of passwords of a user.
    pub(super) fn next_password(&mut self, user: &'static str) -> u32 {
        let known = self.credentials.entry(user).or_default();
        known.generation += 1;
        known.generation
    }

    /// Records a token of a user.
    pub(super) fn has_token(&mut self, user: &'static str, token: Secret) {
        self.credentials.entry(user).or_default().tokens.push(token);
    }

    /// Records a change that the administrator was told of.
    pub(super) fn expect(&mut self, entity: Entity, state: String) {
        self.expected.insert(entity, state);
    }

    /// Records that a change has begun. It may also be carried out later, if there is no answer.
    pub(super) fn doubt(&mut self, entity: &Entity) {
        self.expected.remove(entity);
    }

    /// Records whether the deputy may certainly create no rules.
    pub(super) fn bar_deputy(&mut self, is_barred: bool) {
        self.deputy.bar(is_barred);
    }

    /// Returns what tells when the deputy's right changes.
    pub(super) fn watch_deputy(&self) -> watch::Receiver<bool> {
        self.deputy.watch()
    }

    /// Records that the deputy asks for a rule.
    pub(super) fn deputy_asks(&mut self, number: u64) {
        self.deputy.asks(number);
    }

    /// Records that the deputy was told that a rule exists, or that it may not create it.
    pub(super) fn deputy_was_told(&mut self, number: u64, is_created: bool) {
        self.deputy.was_told(number, is_created);
    }

    /// Records a batch that is offered.
    pub(super) fn offers(&mut self, name: BatchName) {
        self.offered.insert(name, now());
    }

    /// Records it if a node, which knows the newest rules, must refuse a batch.
    pub(super) fn is_unwelcome(&mut self, name: BatchName, user: &'static str, look: Option<&Look>) -> bool {
        if let Some(look) = look
            && look.access.version() >= self.newest
            && !may(&look.access, user, Right::Produce)
            && !may(&look.access, user, Right::Publish)
        {
            self.unwelcome.insert(name, (user, now()));
            return true;
        }
        false
    }

    /// Reports whether a batch must not be stored: no node has let its user write since it was offered.
    pub(super) fn is_forbidden(&self, name: &BatchName) -> bool {
        self.unwelcome
            .get(name)
            .is_some_and(|(user, offered)| self.let_write.get(user).is_none_or(|last| last < offered))
    }

    /// Reports whether a batch was offered after a moment.
    pub(super) fn was_offered_after(&self, name: &BatchName, then: Duration) -> bool {
        self.offered.get(name).is_some_and(|offered| *offered > then)
    }

    /// Reports whether a node knows that a credential of a connection is void.
    pub(super) fn is_void(&self, at: &Look, node: u8, user: &str, secret: &Secret) -> bool {
        let look = self.look(node).filter(|look| look.is_of(at));
        look.is_some_and(|look| !accepts(&look, user, secret))
    }

    /// Checks a connection that is open. Returns what is wrong if it should have ended.
    pub(super) fn check_open(
        &self,
        at: &Look,
        node: u8,
        user: &str,
        secret: &Secret,
        overdue: &mut Overdue,
    ) -> Result<(), String> {
        let look = self.look(node).filter(|look| look.is_of(at));
        let Some(look) = look.filter(|look| !accepts(look, user, secret)) else {
            overdue.0 = None;
            return Ok(());
        };
        let now = now();
        let since = *overdue.0.get_or_insert(now);
        if now < since + CLOSED_WITHIN || !self.is_calm(node, since) {
            return Ok(());
        }
        let version = look.access.version();
        Err(format!(
            "a connection of {user} with {secret:?} is open on node {node} at {now:.3?}, which knows since {since:.3?} \
             that it must end (version {version})"
        ))
    }

    /// Judges what the nodes have in the end, which is the same everywhere.
    pub(super) fn judge(&self, access: &AccessImage) -> Result<(), String> {
        for (entity, state) in &self.expected {
            let found = entity.state(access);
            if found != *state {
                return Err(format!("{entity:?} was acknowledged as {state:?}, and is {found:?}"));
            }
        }
        self.deputy.judge(access)
    }
}

/// The commands that make the users and their rules, before the faults.
pub(super) fn founding(now: TimestampMs) -> Vec<Command> {
    let by = || "User:founder".to_owned();
    let users = [STORM, DEPUTY, SLOW].into_iter().chain(WATCHED);
    let mut commands: Vec<_> = users
        .map(|user| {
            let text = password(user, 0);
            let verifier =
                ScramVerifier::from_password(MECHANISM, &text, salt(user, 0).as_bytes(), ITERATIONS);
            let verifier = verifier.expect("a legal password");
            let change = ScramChange::Set { verifier, keep_previous_until: None };
            Command::AlterScramCredential { user: user.to_owned(), change, by: by(), now }
        })
        .collect();
    let mut rules: Vec<Acl> = model::everything(STORM).into_iter().chain(model::everything(SLOW)).collect();
    rules.push(model::deputys_right());
    for user in WATCHED {
        let allowed = (0..RULES.len()).filter(|number| model::is_usual(*number));
        rules.extend(allowed.map(|number| rule(user, number)));
        rules.push(model::inboxes(user));
    }
    commands.push(Command::CreateAcls(rules));
    let key = QuotaKey::ProducerByteRate;
    let limit = QuotaLimit::new(key, SLOW_BYTES_PER_SECOND).expect("a legal limit");
    let set = [(key, limit)].into();
    commands.push(Command::AlterClientQuota { entity: quota_of(SLOW), set, remove: Vec::new() });
    commands
}
