//! What is known of users, rules and credentials in a run, and what of it is wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use tailrace_env::sync::watch;
use tailrace_identity::acl::Acl;
use tailrace_identity::quota::{EntityName, QuotaEntity};
use tailrace_metadata::AccessImage;
use tailrace_node::cluster::leaders;

use super::deputy::{Deputy, DeputysRight};
use super::look::Look;
use super::model::{Right, Secret, accepts, may};
use super::names::MECHANISM;
use crate::computer::Running;
use crate::storm::batch_name::BatchName;
use crate::world::here;

/// A connection of a user who may no longer log in ends within this time, once its node knows. The documents
/// say "within about a second".
const CLOSED_WITHIN: Duration = Duration::from_secs(2);

/// A password after it was salted, by password and salt.
type Salted = BTreeMap<(String, Vec<u8>), Vec<u8>>;

/// What is known of users and rules in a run.
#[derive(Default)]
pub(in crate::storm) struct AccessHistory {
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
    pub(super) let_write: BTreeMap<&'static str, Duration>,
    /// The newest version of users and rules on any node.
    pub(super) newest: u64,
    deputy: Deputy,
    pub(in crate::storm) salted: Salted,
}

/// The credentials of a user.
#[derive(Default)]
struct Credentials {
    generation: u32,
    tokens: Vec<Secret>,
}

/// Something that the administrator changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::storm) enum Entity {
    Rule(Acl),
    /// The state is the salt.
    Password(&'static str),
    Disabled(&'static str),
    Quota(&'static str),
    Token(String),
}

impl Entity {
    /// Describes the state.
    pub(in crate::storm) fn state(&self, access: &AccessImage) -> String {
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

pub(super) fn quota_of(user: &str) -> QuotaEntity {
    QuotaEntity { user: Some(EntityName::Named(user.to_owned())), ..QuotaEntity::default() }
}

/// Since when a connection should have ended.
#[derive(Default)]
pub(in crate::storm) struct Overdue(Option<Duration>);

impl Overdue {
    /// Reports whether the connection should have ended already.
    pub(in crate::storm) fn has_begun(&self) -> bool {
        self.0.is_some()
    }
}

/// Returns the simulated time.
pub(in crate::storm) fn now() -> Duration {
    here().map(|(now, _)| now).unwrap_or_default()
}

impl AccessHistory {
    /// Returns what a node knows now. `None` if it does not run.
    pub(in crate::storm) fn look(&self, node: u8) -> Option<Look> {
        let node = self.nodes.get(usize::from(node) - 1)?.node()?;
        Some(Look::of(&node))
    }

    /// Returns what the node with the newest users and rules knows.
    pub(in crate::storm) fn newest(&self) -> Option<AccessImage> {
        let images = self.nodes.iter().filter_map(|node| Some(node.node()?.image().access().clone()));
        images.max_by_key(AccessImage::version)
    }

    /// Records which nodes run.
    pub(in crate::storm) fn run_on(&mut self, nodes: Vec<Running>) {
        self.nodes = nodes;
    }

    /// Records until when faults affect each computer.
    pub(in crate::storm) fn disturb(&mut self, disturbed: &[Duration]) {
        self.disturbed.clear();
        self.disturbed.extend_from_slice(disturbed);
    }

    /// Reports whether no fault has affected a node or the clients since then.
    fn is_calm(&self, node: u8, since: Duration) -> bool {
        let until = |index: usize| self.disturbed.get(index).copied().unwrap_or_default();
        until(usize::from(node) - 1) < since && until(self.disturbed.len().saturating_sub(1)) < since
    }

    /// Returns the credential that a user has, one that it had, or a token. Some tokens have ended.
    pub(in crate::storm) fn secret(&self, user: &str, choice: u64) -> Secret {
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
    pub(in crate::storm) fn password_of(&self, user: &str, choice: u64) -> Secret {
        let generation = self.credentials.get(user).map_or(0, |known| known.generation);
        let is_old = choice.is_multiple_of(5) && generation > 0;
        Secret::Password(generation - u32::from(is_old))
    }

    /// Returns a new generation of passwords of a user.
    pub(in crate::storm) fn next_password(&mut self, user: &'static str) -> u32 {
        let known = self.credentials.entry(user).or_default();
        known.generation += 1;
        known.generation
    }

    /// Records a token of a user.
    pub(in crate::storm) fn has_token(&mut self, user: &'static str, token: Secret) {
        self.credentials.entry(user).or_default().tokens.push(token);
    }

    /// Records a change that the administrator was told of.
    pub(in crate::storm) fn expect(&mut self, entity: Entity, state: String) {
        self.expected.insert(entity, state);
    }

    /// Records that a change has begun. It may also be carried out later, if there is no answer.
    pub(in crate::storm) fn doubt(&mut self, entity: &Entity) {
        self.expected.remove(entity);
    }

    /// Returns the node that leads the metadata, as far as some node knows.
    pub(in crate::storm) fn controller(&self) -> Option<u8> {
        let known = self.nodes.iter().find_map(|node| leaders::controller(&*node.node()?))?;
        u8::try_from(known.get()).ok()
    }

    /// Returns what is known of the deputy's right.
    pub(in crate::storm) fn deputys_right(&self) -> DeputysRight {
        self.deputy.right()
    }

    /// Records what is known of the deputy's right.
    pub(in crate::storm) fn deputys_right_is(&mut self, right: DeputysRight) {
        self.deputy.right_is(right);
    }

    /// Records that somebody is about to ask for the deputy's right.
    ///
    /// # Errors
    /// The deputy has created a rule without it.
    pub(in crate::storm) fn deputys_right_returns(&mut self) -> Result<(), String> {
        let images: Vec<_> = self.nodes.iter().filter_map(|node| Some(node.node()?.image())).collect();
        self.deputy.right_returns(images.iter().map(|image| image.access()))
    }

    /// Returns what tells when the deputy's right changes.
    pub(in crate::storm) fn watch_deputy(&self) -> watch::Receiver<DeputysRight> {
        self.deputy.watch()
    }

    /// Records that the deputy asks for a rule. Returns true if it certainly has no right to create it.
    pub(in crate::storm) fn deputy_asks(&mut self, number: u64) -> bool {
        self.deputy.asks(number)
    }

    /// Records that the deputy was told that a rule exists, or that it may not create it.
    ///
    /// # Errors
    /// It had no right to create it.
    pub(in crate::storm) fn deputy_was_told(&mut self, number: u64, is_created: bool) -> Result<(), String> {
        self.deputy.was_told(number, is_created)
    }

    /// Records a batch that is offered.
    pub(in crate::storm) fn offers(&mut self, name: BatchName) {
        self.offered.insert(name, now());
    }

    /// Records it if a node, which knows the newest rules, must refuse a batch.
    pub(in crate::storm) fn is_unwelcome(
        &mut self,
        name: BatchName,
        user: &'static str,
        look: Option<&Look>,
    ) -> bool {
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
    pub(in crate::storm) fn is_forbidden(&self, name: &BatchName) -> bool {
        self.unwelcome
            .get(name)
            .is_some_and(|(user, offered)| self.let_write.get(user).is_none_or(|last| last < offered))
    }

    /// Reports whether a batch was offered after a moment.
    pub(in crate::storm) fn was_offered_after(&self, name: &BatchName, then: Duration) -> bool {
        self.offered.get(name).is_some_and(|offered| *offered > then)
    }

    /// Reports whether a node knows that a credential of a connection is void.
    pub(in crate::storm) fn is_void(&self, at: &Look, node: u8, user: &str, secret: &Secret) -> bool {
        let look = self.look(node).filter(|look| look.is_of(at));
        look.is_some_and(|look| !accepts(&look, user, secret))
    }

    /// Checks a connection that is open. Returns what is wrong if it should have ended.
    pub(in crate::storm) fn check_open(
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
    pub(in crate::storm) fn judge(&self, access: &AccessImage) -> Result<(), String> {
        for (entity, state) in &self.expected {
            let found = entity.state(access);
            if found != *state {
                return Err(format!("{entity:?} was acknowledged as {state:?}, and is {found:?}"));
            }
        }
        self.deputy.judge(access)
    }
}
