//! Access control lists: which principal may do what to which resource. The rules are Kafka's, with NATS
//! subjects as one more kind of resource.
//!
//! [`Acl`] is one rule, [`Acls`] the table of all rules, and [`AclFilter`] selects some of them. An
//! [`Authorizer`] decides: with [`Authorizer::decide`] exactly as Kafka's StandardAuthorizer, and for topics
//! and subjects with the rules that hold for Kafka and NATS together.
//!
//! Deliberately not here: the roles of users, which API needs which operation (the fronts), and the log of
//! decisions.

mod audit_topic;
mod check;
mod codes;
mod decide;
mod filter;
mod holder;
mod host;
mod lists;
mod patterns;
mod radix;
mod subjects;
mod super_users;
mod table;
#[cfg(test)]
mod tests;
mod uses;

use std::fmt;

pub use check::{AclError, NAME_BYTES_MAX, PRINCIPAL_BYTES_MAX};
pub use codes::{Operation, PatternKind, Permission, ResourceKind};
pub use decide::{Authorizer, Decision, Reason, Requester};
pub use filter::{AclFilter, KindFilter, PatternFilter};
pub use subjects::{SubjectAccess, SubjectDecision};
pub use super_users::{SuperUsers, SuperUsersError};
pub use table::Acls;
pub use uses::{AUDIT_TOPIC, Access, SubjectUse, TopicSubjects, is_silent, subject_of_topic};

/// The name of the only resource of kind [`ResourceKind::Cluster`].
pub const CLUSTER_NAME: &str = "kafka-cluster";

/// The name of a rule for all resources of a kind, if the rule is [`PatternKind::Literal`]. And the name of
/// the user in a rule for everybody, and the host in a rule for all addresses.
pub(crate) const WILDCARD: &str = "*";

/// The name of a user who did not log in. Rules for `User:*` are about this user too.
pub const ANONYMOUS: &str = "ANONYMOUS";

/// What the principals of users start with. No request has a principal of another type.
const USER_TYPE: &str = "User:";

/// One rule: an access control entry and the resources it is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Acl {
    /// The kind of resource.
    pub kind: ResourceKind,
    /// The name of the resource, or a pattern of names. For subjects a pattern of NATS, and for subscriptions
    /// optionally a blank and a pattern of queue groups.
    pub name: String,
    /// How `name` is compared.
    pub pattern: PatternKind,
    /// `User:NAME`, or `User:*` for everybody.
    pub principal: String,
    /// An address, a network (`10.0.0.0/8`), or `*` for all.
    pub host: String,
    /// The operation.
    pub operation: Operation,
    /// Whether it is allowed or denied.
    pub permission: Permission,
}

impl fmt::Display for Acl {
    /// For logs. Names are escaped, so that they cannot forge lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, pattern, principal, host, operation, permission } = self;
        write!(f, "{permission} {principal:?} from {host:?} to {operation} {kind} {pattern} {name:?}")
    }
}
