//! Rights for the setting `tailrace.subjects`. A topic that captures subjects gets what others publish there,
//! so the rights for the topic are not enough.

use std::sync::Arc;

use tailrace_identity::acl::{Access, Operation};
use tailrace_metadata::{Command, ControlError, TopicImage};

use super::Rights;
use crate::caller::Caller;
use crate::node::Node;

impl Rights<'_> {
    /// Reports whether the caller may change what a topic captures from `before` to `after`. It needs READ of
    /// each pattern that is new. If the server acknowledges what is captured, it answers on behalf of the
    /// topic, so the caller needs WRITE, too. With ALTER of the cluster, it may capture everything. A
    /// refusal is neither logged nor counted.
    pub fn sees_change_of_bindings(&self, before: Option<&TopicImage>, after: Option<&TopicImage>) -> bool {
        self.is_unlimited()
            || added(before, after).iter().all(|(access, pattern)| self.sees_binding(*access, pattern))
            || self.sees_cluster(Operation::Alter)
    }
}

impl Node {
    /// Returns the refusal of a command by which a topic would capture subjects that the client may not.
    /// Asked by the controller of a command that another node passed on.
    pub(crate) async fn refuses_bindings(&self, client: &Caller, command: &Command) -> Option<ControlError> {
        let topic = match command {
            Command::CreateTopic(create) if !create.configs.is_empty() => create.name.clone(),
            Command::AlterTopicConfigs { topic, .. } => topic.clone(),
            _ => return None,
        };
        if self.rights(client).is_unlimited() {
            return None;
        }
        let before = self.image();
        // A command that fails is refused with its own error.
        let after = self.rehearse(client, command.clone()).await.ok()?;
        let of = |image: &'_ tailrace_metadata::MetadataImage| image.topic(&topic).cloned();
        let (before, after): (Option<Arc<TopicImage>>, _) = (of(&before), of(&after));
        let is_allowed = self.rights(client).sees_change_of_bindings(before.as_deref(), after.as_deref());
        (!is_allowed).then_some(ControlError::NotAuthorized)
    }
}

/// Returns the patterns that a topic would capture or acknowledge, and did not before.
fn added(before: Option<&TopicImage>, after: Option<&TopicImage>) -> Vec<(Access, Vec<u8>)> {
    let bound = |topic: Option<&TopicImage>, access| -> Vec<Vec<u8>> {
        let Some(topic) = topic.filter(|topic| access == Access::Read || topic.config.tailrace_subjects_ack)
        else {
            return Vec::new();
        };
        topic.config.tailrace_subjects.patterns().iter().map(|pattern| pattern.as_ref().to_vec()).collect()
    };
    let mut added = Vec::new();
    for access in Access::ALL {
        let known = bound(before, access);
        let new = bound(after, access).into_iter().filter(|pattern| !known.contains(pattern));
        added.extend(new.map(|pattern| (access, pattern)));
    }
    added
}
