//! Decisions on requests.

use std::sync::{Arc, OnceLock};

use tailrace_identity::Principal;
use tailrace_identity::acl::{
    ANONYMOUS, AUDIT_TOPIC, Access, Authorizer, CLUSTER_NAME, Decision, Operation, Requester, ResourceKind,
    TopicSubjects,
};
use tailrace_metadata::MetadataImage;

use super::recent::{self, Question};
use super::{Access as Room, audit};
use crate::caller::Caller;
use crate::node::Node;

/// The decisions for one caller, by the metadata of one moment.
///
/// Without rules (`authorizer.class.name`), everything is allowed, and making this costs one branch.
pub struct Rights<'a> {
    pub(super) node: &'a Node,
    pub(super) caller: &'a Caller,
    /// `None` if the caller may do everything.
    pub(super) rules: Option<Rules>,
}

/// The rules of one moment, and the metadata that they are part of.
#[derive(Clone)]
pub(super) struct Rules {
    /// Looked up when a decision is new.
    authorizer: OnceLock<Arc<Authorizer>>,
    pub(super) image: Arc<MetadataImage>,
}

/// The topics that a caller may DESCRIBE, by the metadata of one moment. Owned, so that it can go along with
/// a request.
#[derive(Clone)]
pub struct DescribableTopics {
    caller: Caller,
    rules: Rules,
    /// The same as the one in `rules`, which is looked up when it is needed.
    authorizer: Arc<Authorizer>,
}

impl DescribableTopics {
    /// Reports whether the caller may DESCRIBE the topic.
    pub fn has(&self, name: &str) -> bool {
        let (who, operation, kind) = (requester(&self.caller), Operation::Describe, ResourceKind::Topic);
        let question = Question { who, operation, kind, name };
        self.rules.allows(&question, || &self.authorizer) || self.rules.only_tries(kind, name)
    }
}

/// The bits of all operations on a topic, a group or the cluster, as Kafka's answers have them.
fn all_operations(kind: ResourceKind) -> i32 {
    kind.operations().iter().fold(0, |mask, operation| mask | 1 << operation.code())
}

fn is_audit_topic(kind: ResourceKind, name: &str) -> bool {
    kind == ResourceKind::Topic && name == AUDIT_TOPIC
}

pub(super) fn requester(caller: &Caller) -> Requester<'_> {
    let user = match caller.principal() {
        Principal::User(name) => name,
        Principal::Anonymous | Principal::Node(_) | Principal::Internal => ANONYMOUS,
    };
    Requester { user, address: caller.address().map(|address| address.ip()) }
}

impl Node {
    /// Reports whether rules decide who may do what.
    pub fn has_authorizer(&self) -> bool {
        self.access.has_rules
    }

    /// Returns the rights of a caller. Make it for each request, so that changed rules take effect.
    pub fn rights<'a>(&'a self, caller: &'a Caller) -> Rights<'a> {
        let is_asked = self.access.has_rules
            && match caller.principal() {
                Principal::Anonymous | Principal::User(_) => true,
                Principal::Node(_) | Principal::Internal => false,
            };
        let rules = is_asked.then(|| Rules::of(self.image()));
        Rights { node: self, caller, rules }
    }
}

impl Rules {
    /// The rules of these metadata.
    pub(super) fn of(image: Arc<MetadataImage>) -> Self {
        Self { authorizer: OnceLock::new(), image }
    }

    /// Returns the rules of these metadata, or of later ones.
    pub(super) fn authorizer(&self, room: &Room) -> &Arc<Authorizer> {
        self.authorizer.get_or_init(|| room.authorizer(&self.image))
    }

    /// Decides, unless this thread has decided the same before.
    #[inline]
    fn allows<'a>(&self, question: &Question<'_>, authorizer: impl FnOnce() -> &'a Arc<Authorizer>) -> bool {
        if let Some(allowed) = recent::find(&self.image, question) {
            return allowed;
        }
        let allowed = self.decide(question, authorizer()).allowed;
        recent::keep(&self.image, question, allowed);
        allowed
    }

    pub(super) fn decide<'a>(&self, question: &Question<'_>, authorizer: &'a Authorizer) -> Decision<'a> {
        let Question { who, operation, kind, name } = *question;
        match kind {
            ResourceKind::Topic => authorizer.topic_by_kafka(&who, operation, self.topic(name)),
            _ => authorizer.decide(&who, operation, kind, name),
        }
    }

    /// Reports whether the rules are only tried.
    pub(super) fn is_tried(&self) -> bool {
        self.image.broker().tailrace_authorizer_report_only
    }

    /// Reports whether the rules are only tried for this resource. The audit log is always closed.
    pub(super) fn only_tries(&self, kind: ResourceKind, name: &str) -> bool {
        self.is_tried() && !is_audit_topic(kind, name)
    }

    fn topic<'n>(&'n self, name: &'n str) -> TopicSubjects<'n, impl AsRef<[u8]> + use<'n>> {
        let bindings = self.image.topic(name).map(|topic| topic.config.tailrace_subjects.patterns());
        TopicSubjects { name, bindings: bindings.unwrap_or_default() }
    }
}

impl Rights<'_> {
    /// Reports whether the caller may do everything, without a look at a rule.
    pub fn is_unlimited(&self) -> bool {
        self.rules.is_none()
    }

    /// Reports whether the caller may do this. Logs and counts a refusal.
    ///
    /// A name that no topic has is decided like a topic without bindings: authorization comes before
    /// existence.
    pub fn may(&self, operation: Operation, kind: ResourceKind, name: &str) -> bool {
        let Some(rules) = &self.rules else { return !self.is_closed(kind, name) };
        let question = Question { who: requester(self.caller), operation, kind, name };
        let authorizer = || rules.authorizer(&self.node.access);
        if rules.allows(&question, authorizer) {
            self.node.access.metrics.allowed.inc();
            return true;
        }
        // The log tells the reason, which is not remembered.
        let decision = rules.decide(&question, authorizer());
        self.tell(rules, decision, operation, kind, name);
        decision.allowed || rules.only_tries(kind, name)
    }

    /// Like [`Rights::may`], for what the caller did not ask for by name: a refusal leaves it out of a list,
    /// and is neither logged nor counted.
    pub fn sees(&self, operation: Operation, kind: ResourceKind, name: &str) -> bool {
        let Some(rules) = &self.rules else { return !self.is_closed(kind, name) };
        let question = Question { who: requester(self.caller), operation, kind, name };
        rules.allows(&question, || rules.authorizer(&self.node.access)) || rules.only_tries(kind, name)
    }

    /// Reports whether this is the audit log of an earlier time with rules. Without rules, nobody is an
    /// administrator, so it is closed to all clients.
    fn is_closed(&self, kind: ResourceKind, name: &str) -> bool {
        is_audit_topic(kind, name)
            && matches!(self.caller.principal(), Principal::Anonymous | Principal::User(_))
    }

    /// Reports whether the caller may do this to the cluster.
    pub fn may_to_cluster(&self, operation: Operation) -> bool {
        self.may(operation, ResourceKind::Cluster, CLUSTER_NAME)
    }

    /// Like [`Rights::may_to_cluster`], where another right would do, too: a refusal is neither logged nor
    /// counted.
    pub fn sees_cluster(&self, operation: Operation) -> bool {
        self.sees(operation, ResourceKind::Cluster, CLUSTER_NAME)
    }

    /// Reports whether the caller may write to any topic.
    pub fn may_write_any_topic(&self) -> bool {
        let Some(rules) = &self.rules else { return true };
        let who = requester(self.caller);
        rules.authorizer(&self.node.access).allows_any(&who, Operation::Write, ResourceKind::Topic)
            || rules.is_tried()
    }

    /// Reports whether the caller may bind a pattern of subjects to a topic that it may configure: whether it
    /// may do this with all subjects of the pattern. A refusal is neither logged nor counted.
    pub(super) fn sees_binding(&self, access: Access, pattern: &[u8]) -> bool {
        let Some(rules) = &self.rules else { return true };
        rules.authorizer(&self.node.access).binding(&requester(self.caller), access, pattern).allowed
            || rules.is_tried()
    }

    /// Returns the topics that the caller may DESCRIBE. `None` if these are all.
    pub fn describable_topics(&self) -> Option<DescribableTopics> {
        let rules = self.rules.as_ref()?;
        let authorizer = Arc::clone(rules.authorizer(&self.node.access));
        Some(DescribableTopics { caller: self.caller.clone(), rules: rules.clone(), authorizer })
    }

    /// Returns the operations that the caller may do, as the bits of Kafka's answers.
    pub fn operations(&self, kind: ResourceKind, name: &str) -> i32 {
        let Some(rules) = self.rules.as_ref().filter(|rules| !rules.only_tries(kind, name)) else {
            return if self.is_closed(kind, name) && self.rules.is_none() { 0 } else { all_operations(kind) };
        };
        let (who, authorizer) = (requester(self.caller), rules.authorizer(&self.node.access));
        match kind {
            ResourceKind::Topic => authorizer.topic_operations(&who, rules.topic(name)),
            _ => authorizer.authorized_operations(&who, kind, name),
        }
    }

    /// Returns the operations that the caller may do to the cluster, as the bits of Kafka's answers. 0 if it
    /// may not DESCRIBE the cluster.
    pub fn cluster_operations(&self) -> i32 {
        self.operations(ResourceKind::Cluster, CLUSTER_NAME)
    }

    pub(super) fn tell(
        &self,
        rules: &Rules,
        decision: Decision<'_>,
        operation: Operation,
        kind: ResourceKind,
        name: &str,
    ) {
        let access = &self.node.access;
        if decision.allowed {
            access.metrics.allowed.inc();
            return;
        }
        access.metrics.denied.inc();
        let by = match rules.only_tries(kind, name) {
            true => audit::RefusedBy::TriedRules,
            false => audit::RefusedBy::Rules,
        };
        let refusal = audit::Refusal { caller: self.caller, operation, kind, name, by };
        access.audit.refused(&refusal, &decision.reason, access.now());
    }
}
