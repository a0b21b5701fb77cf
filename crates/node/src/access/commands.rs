//! The rights that commands need. A front has asked for them before it passes a command on. The controller
//! asks again: rules may have changed on the way, and the node that passed the command on may know older
//! ones.

use tailrace_identity::acl::{CLUSTER_NAME, Operation, ResourceKind};
use tailrace_metadata::{Command, ControlError, Requester, TopicImage, TopicRef};

use super::bindings::bound_by;
use crate::caller::Caller;
use crate::controller::Checks;
use crate::node::Node;

/// The rights of a client, as a node knows them.
pub(crate) struct ClientCheck<'a> {
    pub(crate) node: &'a Node,
    pub(crate) client: &'a Caller,
}

impl Checks for ClientCheck<'_> {
    fn refusal(&self, command: &Command) -> Option<ControlError> {
        self.node.refuses(self.client, command)
    }

    fn topic<'c>(&self, command: &'c Command) -> Option<&'c str> {
        bound_by(command).filter(|_| !self.node.rights(self.client).is_unlimited())
    }

    fn refusal_of_change(
        &self,
        before: Option<&TopicImage>,
        after: Option<&TopicImage>,
    ) -> Option<ControlError> {
        let is_allowed = self.node.rights(self.client).sees_change_of_bindings(before, after);
        (!is_allowed).then_some(ControlError::NotAuthorized)
    }
}

impl Node {
    /// Returns the refusal of a command that the client has no right to, whatever it changes.
    fn refuses(&self, client: &Caller, command: &Command) -> Option<ControlError> {
        if let Some(refusal) = self.refuses_user(command) {
            return Some(refusal);
        }
        let rights = self.rights(client);
        if rights.is_unlimited() {
            return None;
        }
        let of_cluster = |operation| rights.sees(operation, ResourceKind::Cluster, CLUSTER_NAME);
        let of = |operation, kind, name: &str| rights.sees(operation, kind, name);
        let topic = |operation, name: &str| of(operation, ResourceKind::Topic, name);
        let is_allowed = match command {
            // An internal topic, which any client may need.
            Command::CreateTopic(create) if create.by == Requester::Broker => true,
            Command::CreateTopic(create) => {
                of_cluster(Operation::Create) || topic(Operation::Create, &create.name)
            }
            Command::DeleteTopic { .. } if of_cluster(Operation::Delete) => true,
            Command::DeleteTopic { topic: TopicRef::Name(name), .. } => topic(Operation::Delete, name),
            Command::DeleteTopic { topic: TopicRef::Id(id), .. } => {
                let image = self.image();
                // An id that no topic has is refused by the controller.
                image.topic_by_id(*id).is_none_or(|found| topic(Operation::Delete, found.name.as_str()))
            }
            Command::CreatePartitions { topic: name, .. } => topic(Operation::Alter, name),
            Command::AlterTopicConfigs { topic: name, .. } => topic(Operation::AlterConfigs, name),
            Command::AlterGroupConfigs { group, .. } => {
                of(Operation::AlterConfigs, ResourceKind::Group, group)
            }
            Command::AlterBrokerConfigs { .. } | Command::AlterClientQuota { .. } => {
                of_cluster(Operation::AlterConfigs)
            }
            Command::UpdateFeatures(_)
            | Command::RemoveNode { .. }
            | Command::ReassignPartition { .. }
            | Command::AlterScramCredential { .. }
            | Command::DisableUser { .. }
            | Command::RemoveUser { .. }
            | Command::CreateAcls(_)
            | Command::DeleteAcls(_) => of_cluster(Operation::Alter),
            // Everybody for itself. For another owner it takes a right.
            Command::CreateToken { owner, by, .. } => {
                let principal = format!("User:{owner}");
                *by == client.principal_name()
                    && (*by == principal || of(Operation::CreateTokens, ResourceKind::User, &principal))
            }
            // The controller knows who may extend which token.
            Command::ExtendToken { by, .. } => *by == client.principal_name(),
            // Signed by an operator, which the front has asked. Each node asks again before it uses the
            // claims.
            Command::StoreAccountClaims { .. } | Command::DeleteAccountClaims { .. } => true,
            // Given out to every client that may write, which the front has asked.
            Command::AllocateProducerIds | Command::Barrier => true,
            // Only nodes send these.
            Command::FinalizeFeatures
            | Command::CreateFirstUser { .. }
            | Command::RemoveExpired { .. }
            | Command::FoundCluster { .. }
            | Command::RegisterNode(_)
            | Command::FenceNode { .. }
            | Command::RenewReplica { .. }
            | Command::FinishReassignment { .. } => false,
        };
        (!is_allowed).then_some(ControlError::NotAuthorized)
    }
}
