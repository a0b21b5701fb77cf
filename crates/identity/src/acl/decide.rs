//! Decisions on resources of Kafka, as its StandardAuthorizer makes them. The first of these that applies:
//!
//! 1. The user is a super user: allowed, also against a DENY.
//! 2. Any matching DENY: refused.
//! 3. Any matching ALLOW: allowed. READ, WRITE, DELETE and ALTER also allow DESCRIBE, and ALTER_CONFIGS also
//!    DESCRIBE_CONFIGS. A DENY implies nothing.
//! 4. No rule at all matches the name of the resource: `allow.everyone.if.no.acl.found`.
//! 5. Refused.
//!
//! One difference: in Kafka 4.3.1, a rule for `*` is not applied to a name that starts with an asterisk, such
//! as that of the group `*a`. So a DENY for all groups does not hold for it. Here it does.
//!
//! With 100,000 rules, a decision takes a quarter of a microsecond, and 5 µs for a name of 249 bytes of which
//! every prefix has rules (`examples/decision_cost.rs`). It allocates nothing. Callers keep decisions
//! together with [`Authorizer::version`].

use std::fmt;
use std::net::IpAddr;

use super::super_users::SuperUsers;
use super::table::Acls;
use super::{Acl, CLUSTER_NAME, Operation, PatternKind, Permission, ResourceKind, WILDCARD};

/// Who asks, and from where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Requester<'a> {
    /// The name of the user. [`ANONYMOUS`](super::ANONYMOUS) for a client that did not log in.
    pub user: &'a str,
    /// The address of the client. A request without one meets every DENY, whatever its host is, but only the
    /// ALLOWs for all addresses.
    pub address: Option<IpAddr>,
}

impl Requester<'_> {
    /// Returns the address as rules see it: an IPv4 address never has the form of an IPv6 address.
    pub(super) fn canonical_address(&self) -> Option<IpAddr> {
        self.address.map(|address| address.to_canonical())
    }
}

/// The result of a decision, and the reason for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// Whether the operation is allowed.
    pub allowed: bool,
    /// What decided.
    pub reason: Reason<'a>,
}

/// What decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason<'a> {
    /// The user may do everything.
    SuperUser,
    /// This rule. It is one of them if several say the same.
    Rule(&'a Acl),
    /// No rule matches the request.
    Default {
        /// Whether any rule is about the resource, for other users or operations.
        has_rules: bool,
    },
    /// It is about the topic of the audit log, about which rules say nothing.
    AuditTopic,
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SuperUser => f.write_str("the user is a super user"),
            Self::Rule(acl) => write!(f, "the rule: {acl}"),
            Self::Default { has_rules: true } => f.write_str("the default: no rule for the resource matches"),
            Self::Default { has_rules: false } => f.write_str("the default: the resource has no rules"),
            Self::AuditTopic => f.write_str(
                "the topic of the audit log: with ALTER on the cluster it can be read, and nobody can write it",
            ),
        }
    }
}

impl<'a> Decision<'a> {
    pub(super) const SUPER_USER: Self = Self { allowed: true, reason: Reason::SuperUser };

    pub(super) const OF_ADMINISTRATORS: Self = Self { allowed: false, reason: Reason::AuditTopic };

    pub(super) fn allow(acl: &'a Acl) -> Self {
        Self { allowed: true, reason: Reason::Rule(acl) }
    }

    pub(super) fn deny(acl: &'a Acl) -> Self {
        Self { allowed: false, reason: Reason::Rule(acl) }
    }
}

/// Decides by rules. It does not change: the owner replaces it together with the rules.
#[derive(Clone, Debug)]
pub struct Authorizer {
    pub(super) acls: Acls,
    super_users: SuperUsers,
    allow_everyone: bool,
    version: u64,
}

/// The rules that match a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found<'a> {
    pub(super) deny: Option<&'a Acl>,
    pub(super) allow: Option<&'a Acl>,
}

impl Authorizer {
    /// Makes one. `allow_everyone` is `allow.everyone.if.no.acl.found`. The owner gives a new `version` with
    /// every change of the other arguments.
    pub fn new(acls: Acls, super_users: SuperUsers, allow_everyone: bool, version: u64) -> Self {
        Self { acls, super_users, allow_everyone, version }
    }

    /// Returns the same with other rules.
    pub fn with_acls(&self, acls: Acls, version: u64) -> Self {
        Self { acls, version, ..self.clone() }
    }

    /// Returns the version. Decisions of another version may no longer hold.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the rules.
    pub fn acls(&self) -> &Acls {
        &self.acls
    }

    /// Reports whether a user may do everything.
    pub(crate) fn is_super_user(&self, user: &str) -> bool {
        self.super_users.contains(user)
    }

    /// Decides on the resource of exactly this name, as StandardAuthorizer. For topics with bindings see
    /// [`Authorizer::topic_by_kafka`], and for subjects with topics [`Authorizer::subject_by_nats`]. For a
    /// subject, the rules are those whose pattern matches it, without those for queue groups.
    pub fn decide(
        &self,
        who: &Requester<'_>,
        operation: Operation,
        kind: ResourceKind,
        name: &str,
    ) -> Decision<'_> {
        if self.is_super_user(who.user) {
            return Decision::SUPER_USER;
        }
        self.find(who, operation, kind, name).decision().unwrap_or_else(|| {
            let has_rules = match kind {
                ResourceKind::Subject => self.acls.has_subject_rules(name.as_bytes()),
                _ => self.acls.has_rules(kind, name),
            };
            self.by_default(has_rules)
        })
    }

    /// Reports whether the requester may do this with any resource of a kind: whether there is an ALLOW that
    /// no single DENY covers wholly. Kafka asks for WRITE on any topic before it gives out a producer id.
    /// Takes time for each rule of the user and of everybody.
    ///
    /// For topics, an ALLOW for subjects counts too.
    pub fn allows_any(&self, who: &Requester<'_>, operation: Operation, kind: ResourceKind) -> bool {
        if self.is_super_user(who.user) {
            return true;
        }
        if kind == ResourceKind::Subject {
            return self.allows_any_subject(who, operation);
        }
        let mut rules_for_all = self.rules_of(who, operation, kind).filter(|acl| is_for_all(acl));
        if rules_for_all.any(|acl| acl.permission == Permission::Deny) {
            return false;
        }
        let is_open =
            |acl: &Acl| acl.permission == Permission::Allow && !self.is_covered(who, operation, acl);
        (self.allow_everyone && !self.acls.has_rules_for_all(kind))
            || self.rules_of(who, operation, kind).any(is_open)
            || (kind == ResourceKind::Topic && self.allows_any_subject(who, operation))
    }

    /// Returns the operations that the requester may do, as the bits of Kafka's answers: `1 << code`.
    /// Everything is 3576 for a topic, 3400 for a group and 8096 for the cluster. The cluster's are 0 without
    /// DESCRIBE. For topics with bindings see [`Authorizer::topic_operations`].
    pub fn authorized_operations(&self, who: &Requester<'_>, kind: ResourceKind, name: &str) -> i32 {
        let is_allowed = |operation| self.decide(who, operation, kind, name).allowed;
        if kind == ResourceKind::Cluster && !is_allowed(Operation::Describe) {
            return 0;
        }
        mask(kind, is_allowed)
    }

    /// Like [`Authorizer::authorized_operations`], for the cluster.
    pub fn cluster_operations(&self, who: &Requester<'_>) -> i32 {
        self.authorized_operations(who, ResourceKind::Cluster, CLUSTER_NAME)
    }

    /// Finds a DENY, or else an ALLOW.
    pub(super) fn find(
        &self,
        who: &Requester<'_>,
        operation: Operation,
        kind: ResourceKind,
        name: &str,
    ) -> Found<'_> {
        if kind == ResourceKind::Subject {
            return self.find_subject(who, operation, name.as_bytes());
        }
        let address = who.canonical_address();
        let mut found = Found::default();
        for holder in self.acls.holders(who.user) {
            let rules = holder.rules_for(kind, name);
            for rule in
                rules.filter(|rule| rule.is_about_operation(operation) && rule.is_about_address(address))
            {
                match rule.acl.permission {
                    Permission::Deny => return Found { deny: Some(&rule.acl), allow: None },
                    Permission::Allow => found.allow = found.allow.or(Some(&rule.acl)),
                }
            }
        }
        found
    }

    /// The decision where no rule matches.
    pub(super) fn by_default(&self, has_rules: bool) -> Decision<'static> {
        Decision { allowed: self.allow_everyone && !has_rules, reason: Reason::Default { has_rules } }
    }

    /// Returns the rules for an operation on resources of a kind.
    fn rules_of(
        &self,
        who: &Requester<'_>,
        operation: Operation,
        kind: ResourceKind,
    ) -> impl Iterator<Item = &Acl> {
        let address = who.canonical_address();
        let rules = self.acls.holders(who.user).flat_map(move |holder| holder.rules_of(kind));
        let rules =
            rules.filter(move |rule| rule.is_about_operation(operation) && rule.is_about_address(address));
        rules.map(|rule| &rule.acl)
    }

    /// Reports whether a DENY covers all resources of an ALLOW. No DENY for all resources is expected.
    fn is_covered(&self, who: &Requester<'_>, operation: Operation, allow: &Acl) -> bool {
        if is_for_all(allow) {
            return false;
        }
        let address = who.canonical_address();
        self.acls.holders(who.user).any(|holder| {
            holder.rules_for(allow.kind, &allow.name).any(|rule| {
                rule.acl.permission == Permission::Deny
                    && rule.is_about_operation(operation)
                    && rule.is_about_address(address)
                    && (allow.pattern == PatternKind::Literal || rule.acl.pattern == PatternKind::Prefixed)
            })
        })
    }
}

/// Reports whether a rule is for all resources of its kind. Not for subjects.
fn is_for_all(acl: &Acl) -> bool {
    acl.pattern == PatternKind::Literal && acl.name == WILDCARD
}

impl<'a> Found<'a> {
    /// The decision. `None` if no rule matches.
    pub(super) fn decision(self) -> Option<Decision<'a>> {
        self.deny.map(Decision::deny).or_else(|| self.allow.map(Decision::allow))
    }
}

/// The operations of a kind that are allowed, as bits.
pub(super) fn mask(kind: ResourceKind, is_allowed: impl Fn(Operation) -> bool) -> i32 {
    let allowed = kind.operations().iter().filter(|operation| is_allowed(**operation));
    allowed.fold(0, |mask, operation| mask | 1 << operation.code())
}
