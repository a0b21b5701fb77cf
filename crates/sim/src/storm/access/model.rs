//! What rules and credentials mean, in the plainest words: for the few that the administrator of a run makes.

use tailrace_identity::acl::{Acl, CLUSTER_NAME, Operation, PatternKind, Permission, ResourceKind};
use tailrace_metadata::AccessImage;

use super::look::Look;
use super::names::{DEPUTY, MECHANISM, salt};
use crate::storm::site::TOPIC;

/// The subjects that the topic captures.
const SUBJECTS: &str = "storm.>";

/// The group that watched users ask for.
pub(in crate::storm) const GUARDED_GROUP: &str = "guarded";

/// A right that a client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::storm) enum Right {
    /// Writing to the topic by Kafka.
    Produce,
    /// Reading the topic by Kafka.
    Fetch,
    /// Publishing on a subject of the topic.
    Publish,
    /// Hearing all subjects that the topic captures.
    Subscribe,
    /// Asking for the coordinator of the group.
    SeeGroup,
}

/// What the administrator allows and denies watched users.
pub(in crate::storm) const RULES: [(ResourceKind, &str, Operation, Permission); 10] = [
    (ResourceKind::Topic, TOPIC, Operation::Write, Permission::Allow),
    (ResourceKind::Topic, TOPIC, Operation::Read, Permission::Allow),
    (ResourceKind::Group, GUARDED_GROUP, Operation::Describe, Permission::Allow),
    (ResourceKind::Topic, TOPIC, Operation::Write, Permission::Deny),
    (ResourceKind::Topic, TOPIC, Operation::Read, Permission::Deny),
    (ResourceKind::Group, GUARDED_GROUP, Operation::Describe, Permission::Deny),
    (ResourceKind::Subject, SUBJECTS, Operation::Write, Permission::Deny),
    (ResourceKind::Subject, SUBJECTS, Operation::Read, Permission::Deny),
    (ResourceKind::Subject, SUBJECTS, Operation::Write, Permission::Allow),
    (ResourceKind::Subject, SUBJECTS, Operation::Read, Permission::Allow),
];

/// Reports whether a rule is there most of the time: the first ones are.
pub(in crate::storm) fn is_usual(number: usize) -> bool {
    number < 3
}

fn acl(user: &str, kind: ResourceKind, name: &str, operation: Operation, permission: Permission) -> Acl {
    Acl {
        kind,
        name: name.to_owned(),
        pattern: PatternKind::Literal,
        principal: format!("User:{user}"),
        host: "*".to_owned(),
        operation,
        permission,
    }
}

/// Returns one of [`RULES`] for a user.
pub(in crate::storm) fn rule(user: &str, number: usize) -> Acl {
    let (kind, name, operation, permission) = RULES[number];
    acl(user, kind, name, operation, permission)
}

/// The rule that lets a user hear acknowledgements.
pub(in crate::storm) fn inboxes(user: &str) -> Acl {
    acl(user, ResourceKind::Subject, "ack.>", Operation::Read, Permission::Allow)
}

/// Returns rules that allow a user everything.
pub(in crate::storm) fn everything(user: &str) -> Vec<Acl> {
    let kinds = [
        (ResourceKind::Topic, "*"),
        (ResourceKind::Group, "*"),
        (ResourceKind::TransactionalId, "*"),
        (ResourceKind::Cluster, CLUSTER_NAME),
        (ResourceKind::Subject, ">"),
    ];
    let allow = |(kind, name)| acl(user, kind, name, Operation::All, Permission::Allow);
    kinds.map(allow).into()
}

/// The rule that lets the deputy create rules.
pub(in crate::storm) fn deputys_right() -> Acl {
    acl(DEPUTY, ResourceKind::Cluster, CLUSTER_NAME, Operation::Alter, Permission::Allow)
}

/// A rule that the deputy creates. It is about nobody.
pub(in crate::storm) fn deputys_rule(number: u64) -> Acl {
    let name = format!("by the deputy {number}");
    acl("nobody", ResourceKind::Group, &name, Operation::Read, Permission::Allow)
}

/// Decides what a watched user may do. The topic and the subjects that it captures are one thing: a denial
/// for either closes both. A rule that allows the subjects opens them for NATS only, because Kafka's clients
/// would also get records under the topic's own name.
pub(in crate::storm) fn may(access: &AccessImage, user: &str, right: Right) -> bool {
    let has = |kind, name, operation, permission| {
        access.acls().contains(&acl(user, kind, name, operation, permission))
    };
    let group = |permission| has(ResourceKind::Group, GUARDED_GROUP, Operation::Describe, permission);
    let topic = |operation, permission| has(ResourceKind::Topic, TOPIC, operation, permission);
    let subjects = |operation, permission| has(ResourceKind::Subject, SUBJECTS, operation, permission);
    let (operation, is_nats) = match right {
        Right::SeeGroup => return group(Permission::Allow) && !group(Permission::Deny),
        Right::Produce => (Operation::Write, false),
        Right::Publish => (Operation::Write, true),
        Right::Fetch => (Operation::Read, false),
        Right::Subscribe => (Operation::Read, true),
    };
    let is_denied = topic(operation, Permission::Deny) || subjects(operation, Permission::Deny);
    let is_allowed = topic(operation, Permission::Allow) || is_nats && subjects(operation, Permission::Allow);
    is_allowed && !is_denied
}

/// What a client logs in with.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::storm) enum Secret {
    /// The password of this generation.
    Password(u32),
    /// A delegation token.
    Token {
        id: String,
        /// In base64.
        hmac: String,
    },
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Password(generation) => write!(f, "password {generation}"),
            Self::Token { id, .. } => write!(f, "token {id}"),
        }
    }
}

/// Decides whether a user may log in with a credential.
pub(in crate::storm) fn accepts(look: &Look, user: &str, secret: &Secret) -> bool {
    let access = &look.access;
    let stored = access.user(user);
    if stored.is_some_and(|stored| stored.disabled.is_some()) {
        return false;
    }
    match secret {
        Secret::Password(generation) => {
            let credential = stored.and_then(|stored| stored.credential(MECHANISM));
            let salt = salt(user, *generation);
            credential.is_some_and(|credential| credential.verifier.salt() == salt.as_bytes())
        }
        Secret::Token { id, .. } => {
            access.token(id).is_some_and(|token| token.owner == user && !token.is_expired(look.now))
        }
    }
}
