//! Decisions on requests.

use std::sync::Arc;

use tailrace_identity::Principal;
use tailrace_identity::acl::{
    ANONYMOUS, Access, Authorizer, CLUSTER_NAME, Decision, Operation, Requester, ResourceKind, TopicSubjects,
};
use tailrace_metadata::MetadataImage;

use super::audit;
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
    pub(super) authorizer: Arc<Authorizer>,
    pub(super) image: Arc<MetadataImage>,
}

/// The topics that a caller may DESCRIBE, by the metadata of one moment. Owned, so that it can go along with
/// a request.
#[derive(Clone)]
pub struct DescribableTopics {
    caller: Caller,
    rules: Rules,
}

impl DescribableTopics {
    /// Reports whether the caller may DESCRIBE the topic.
    pub fn has(&self, name: &str) -> bool {
        let decision =
            self.rules.decide(&requester(&self.caller), Operation::Describe, ResourceKind::Topic, name);
        decision.allowed || self.rules.is_tried()
    }
}

/// The bits of all operations on a topic, a group or the cluster, as Kafka's answers have them.
fn all_operations(kind: ResourceKind) -> i32 {
    kind.operations().iter().fold(0, |mask, operation| mask | 1 << operation.code())
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
        let rules = is_asked.then(|| {
            let image = self.image();
            Rules { authorizer: self.access.authorizer(&image), image }
        });
        Rights { node: self, caller, rules }
    }
}

impl Rules {
    fn decide(
        &self,
        who: &Requester<'_>,
        operation: Operation,
        kind: ResourceKind,
        name: &str,
    ) -> Decision<'_> {
        match kind {
            ResourceKind::Topic => self.authorizer.topic_by_kafka(who, operation, self.topic(name)),
            _ => self.authorizer.decide(who, operation, kind, name),
        }
    }

    /// Reports whether the rules are only tried.
    pub(super) fn is_tried(&self) -> bool {
        self.image.broker().tailrace_authorizer_report_only
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
        let Some(rules) = &self.rules else { return true };
        let decision = rules.decide(&requester(self.caller), operation, kind, name);
        self.tell(rules, decision, operation, kind, name);
        decision.allowed || rules.is_tried()
    }

    /// Like [`Rights::may`], for what the caller did not ask for by name: a refusal leaves it out of a list,
    /// and is neither logged nor counted.
    pub fn sees(&self, operation: Operation, kind: ResourceKind, name: &str) -> bool {
        let Some(rules) = &self.rules else { return true };
        rules.decide(&requester(self.caller), operation, kind, name).allowed || rules.is_tried()
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
        rules.authorizer.allows_any(&who, Operation::Write, ResourceKind::Topic) || rules.is_tried()
    }

    /// Reports whether the caller may bind a pattern of subjects to a topic that it may configure: whether it
    /// may do this with all subjects of the pattern. A refusal is neither logged nor counted.
    pub(super) fn sees_binding(&self, access: Access, pattern: &[u8]) -> bool {
        let Some(rules) = &self.rules else { return true };
        rules.authorizer.binding(&requester(self.caller), access, pattern).allowed || rules.is_tried()
    }

    /// Returns the topics that the caller may DESCRIBE. `None` if these are all.
    pub fn describable_topics(&self) -> Option<DescribableTopics> {
        let rules = self.rules.as_ref()?;
        Some(DescribableTopics { caller: self.caller.clone(), rules: rules.clone() })
    }

    /// Returns the operations that the caller may do, as the bits of Kafka's answers.
    pub fn operations(&self, kind: ResourceKind, name: &str) -> i32 {
        let Some(rules) = self.rules.as_ref().filter(|rules| !rules.is_tried()) else {
            return all_operations(kind);
        };
        let who = requester(self.caller);
        match kind {
            ResourceKind::Topic => rules.authorizer.topic_operations(&who, rules.topic(name)),
            _ => rules.authorizer.authorized_operations(&who, kind, name),
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
        let is_tried = rules.is_tried();
        let refusal = audit::Refusal { caller: self.caller, operation, kind, name, is_tried };
        access.audit.refused(&refusal, decision.reason, access.now());
    }
}
