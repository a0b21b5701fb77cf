//! The rights of a client, as the handlers ask for them. `table` says what each API asks for. The rights are
//! those of Kafka 4.3.1 with StandardAuthorizer.
//!
//! A handler asks before it looks whether a topic or a group exists, and before it changes anything. A
//! question that the table does not have is a bug, which builds with debug assertions find.

mod table;

use tailrace_identity::acl::Operation::{Alter, CreateTokens, Describe, DescribeTokens, IdempotentWrite};
use tailrace_identity::acl::ResourceKind::{
    Cluster, DelegationToken, Group, Subject, Topic, TransactionalId, User,
};
use tailrace_identity::acl::{Access, Operation, ResourceKind};
use tailrace_kafka_wire::{ApiKey, ErrorCode};
use tailrace_metadata::TopicImage;
use tailrace_node::access::{DescribableTopics, Rights};
use tailrace_node::{Caller, Node};

use self::table::asks_for;
use crate::context::Context;
use crate::lookup::OPERATIONS_NOT_ASKED;

/// The rights of a client, as one request needs them.
pub(crate) struct ApiRights<'a> {
    key: ApiKey,
    rights: Rights<'a>,
}

impl Context {
    /// Returns the rights of the client. For one request, or for one look of a long one, so that changed
    /// rules take effect.
    pub(crate) fn rights(&self) -> ApiRights<'_> {
        ApiRights::of(self.node(), self.caller(), self.header.api_key)
    }
}

impl<'a> ApiRights<'a> {
    /// Returns the rights of a client for an API.
    pub(crate) fn of(node: &'a Node, caller: &'a Caller, key: ApiKey) -> Self {
        Self { key, rights: node.rights(caller) }
    }

    /// Reports whether the client may do everything, so that nothing needs to be asked.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.rights.is_unlimited()
    }

    fn check(&self, operation: Operation, kind: ResourceKind) {
        debug_assert!(asks_for(self.key, operation, kind), "{} has no {operation} {kind}", self.key.name());
    }

    fn may(&self, operation: Operation, kind: ResourceKind, name: &str) -> bool {
        self.check(operation, kind);
        self.rights.may(operation, kind, name)
    }

    fn sees(&self, operation: Operation, kind: ResourceKind, name: &str) -> bool {
        self.check(operation, kind);
        self.rights.sees(operation, kind, name)
    }

    /// Refuses what the client may not do with a topic.
    pub(crate) fn topic(&self, operation: Operation, name: &str) -> Result<(), ErrorCode> {
        if self.may(operation, Topic, name) { Ok(()) } else { Err(ErrorCode::TopicAuthorizationFailed) }
    }

    /// Refuses what the client may not do with a group.
    pub(crate) fn group(&self, operation: Operation, name: &str) -> Result<(), ErrorCode> {
        if self.may(operation, Group, name) { Ok(()) } else { Err(ErrorCode::GroupAuthorizationFailed) }
    }

    /// Refuses what the client may not do with a transactional id.
    pub(crate) fn transactional_id(&self, operation: Operation, id: &str) -> Result<(), ErrorCode> {
        if self.may(operation, TransactionalId, id) {
            Ok(())
        } else {
            Err(ErrorCode::TransactionalIdAuthorizationFailed)
        }
    }

    /// Refuses what the client may not do with the cluster.
    pub(crate) fn cluster(&self, operation: Operation) -> Result<(), ErrorCode> {
        self.check(operation, Cluster);
        if self.rights.may_to_cluster(operation) {
            Ok(())
        } else {
            Err(ErrorCode::ClusterAuthorizationFailed)
        }
    }

    /// Refuses delegation tokens for another owner, `User:NAME`.
    pub(crate) fn create_tokens(&self, owner: &str) -> Result<(), ErrorCode> {
        if self.may(CreateTokens, User, owner) {
            Ok(())
        } else {
            Err(ErrorCode::DelegationTokenAuthorizationFailed)
        }
    }

    /// Reports whether the client may see a delegation token, by its id.
    pub(crate) fn sees_token(&self, id: &str) -> bool {
        self.sees(Describe, DelegationToken, id)
    }

    /// Reports whether the client may see the delegation tokens of an owner, `User:NAME`.
    pub(crate) fn sees_tokens_of(&self, owner: &str) -> bool {
        self.sees(DescribeTokens, User, owner)
    }

    /// Like [`ApiRights::topic`], for a topic that the client did not name. See [`Rights::sees`].
    pub(crate) fn sees_topic(&self, operation: Operation, name: &str) -> bool {
        self.sees(operation, Topic, name)
    }

    /// Like [`ApiRights::group`], for a group that the client did not name.
    pub(crate) fn sees_group(&self, operation: Operation, name: &str) -> bool {
        self.sees(operation, Group, name)
    }

    /// Like [`ApiRights::transactional_id`], for an id that the client did not name.
    pub(crate) fn sees_transactional_id(&self, operation: Operation, id: &str) -> bool {
        self.sees(operation, TransactionalId, id)
    }

    /// Like [`ApiRights::cluster`], where another right would do, too.
    pub(crate) fn sees_cluster(&self, operation: Operation) -> bool {
        self.check(operation, Cluster);
        self.rights.sees_cluster(operation)
    }

    /// Refuses producer ids to clients that may not write anything.
    pub(crate) fn idempotent_write(&self) -> Result<(), ErrorCode> {
        if self.rights.may_write_any_topic() { Ok(()) } else { self.cluster(IdempotentWrite) }
    }

    /// Reports whether the client may change what a topic captures.
    pub(crate) fn sees_change_of_bindings(
        &self,
        before: Option<&TopicImage>,
        after: Option<&TopicImage>,
    ) -> bool {
        Access::ALL.into_iter().for_each(|access| self.check(access.operation(), Subject));
        self.check(Alter, Cluster);
        self.rights.sees_change_of_bindings(before, after)
    }

    /// Reports whether a topic may be named in an error text. Every API may ask this.
    pub(crate) fn may_name(&self, topic: &str) -> bool {
        self.rights.sees(Describe, Topic, topic)
    }

    /// Returns the topics that the client may DESCRIBE. `None` if these are all.
    pub(crate) fn describable_topics(&self) -> Option<DescribableTopics> {
        self.check(Describe, Topic);
        self.rights.describable_topics()
    }

    /// Returns the field of the operations on a topic.
    pub(crate) fn topic_operations(&self, is_asked: bool, name: &str) -> i32 {
        if is_asked { self.rights.operations(Topic, name) } else { OPERATIONS_NOT_ASKED }
    }

    /// Returns the field of the operations on a group.
    pub(crate) fn group_operations(&self, is_asked: bool, name: &str) -> i32 {
        if is_asked { self.rights.operations(Group, name) } else { OPERATIONS_NOT_ASKED }
    }

    /// Returns the field of the operations on the cluster.
    pub(crate) fn cluster_operations(&self, is_asked: bool) -> i32 {
        if is_asked { self.rights.cluster_operations() } else { OPERATIONS_NOT_ASKED }
    }
}
