//! Explains a decision, for administrators: the same code decides as for requests, and nothing is logged or
//! counted.

use std::net::IpAddr;
use std::sync::Arc;

use tailrace_identity::acl::{
    Access, Acl, Decision, Operation, Reason, Requester, ResourceKind, SubjectAccess, SubjectUse,
};

use super::decide::Rules;
use super::{recent, subjects};
use crate::node::Node;

/// A request that somebody might make.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The name of the user.
    pub user: &'a str,
    /// The address of the client. `None`: one that only rules for all addresses allow something, and that
    /// every denial is about.
    pub address: Option<IpAddr>,
    /// The operation.
    pub operation: Operation,
    /// The kind of resource.
    pub kind: ResourceKind,
    /// The name of the resource. For subscriptions a pattern of subjects, and optionally a blank and a queue
    /// group.
    pub name: &'a str,
}

/// What decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Explained {
    /// The user is a super user.
    SuperUser,
    /// This rule.
    Rule(Acl),
    /// No rule matches.
    Default {
        /// Whether any rule is about the resource.
        has_rules: bool,
    },
    /// It is about the topic of the audit log, about which rules say nothing.
    AuditTopic,
}

/// A decision and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Whether the rules allow it.
    pub is_allowed: bool,
    /// Whether they allow only some of the subjects.
    pub is_partial: bool,
    /// Whether the rules are only tried, so that what they refuse is carried out.
    pub is_tried: bool,
    /// What decides.
    pub reason: Explained,
}

impl Node {
    /// Decides on a request that somebody might make, by the rules and topics that this node knows now.
    /// `None` if the name is not a subject.
    pub fn explain(&self, question: Question<'_>) -> Option<Explanation> {
        let image = self.image();
        let (rules, authorizer) = (Rules::of(Arc::clone(&image)), self.access.authorizer(&image));
        let Question { user, address, operation, kind, name } = question;
        let who = Requester { user, address };
        let access = Access::ALL.into_iter().find(|access| access.operation() == operation);
        let (decision, access) = match (kind, access) {
            (ResourceKind::Subject, Some(access)) => {
                let (subject, queue) = match name.split_once(' ') {
                    Some((subject, queue)) => (subject, Some(queue.as_bytes())),
                    None => (name, None),
                };
                let wanted = SubjectUse { access, subject: subject.as_bytes(), queue };
                let topics = self.access.topics(&image);
                let found = subjects::decide(&authorizer, &topics, &who, wanted)?;
                let allowed = found.access != SubjectAccess::Refused;
                (Decision { allowed, reason: found.reason }, found.access)
            }
            _ => {
                let question = recent::Question { who, operation, kind, name };
                (rules.decide(&question, &authorizer), SubjectAccess::Allowed)
            }
        };
        let reason = match decision.reason {
            Reason::SuperUser => Explained::SuperUser,
            Reason::Rule(acl) => Explained::Rule(acl.clone()),
            Reason::Default { has_rules } => Explained::Default { has_rules },
            Reason::AuditTopic => Explained::AuditTopic,
        };
        let is_partial = access == SubjectAccess::Filtered;
        Some(Explanation {
            is_allowed: decision.allowed,
            is_partial,
            is_tried: rules.only_tries(kind, name),
            reason,
        })
    }
}
