//! Rights for the setting `tailrace.subjects`. A topic that captures subjects gets what others publish there,
//! so the rights for the topic are not enough.

use tailrace_identity::acl::{Access, Operation};
use tailrace_metadata::{Command, ConfigChange, ConfigOp, TopicImage};

use super::Rights;

/// How the settings begin that bind subjects to a topic.
const SUBJECTS: &str = "tailrace.subjects";

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

/// Returns the topic that a command may make capture subjects, or acknowledge them.
pub(super) fn bound_by(command: &Command) -> Option<&str> {
    let binds = |op: &ConfigOp| op.key.starts_with(SUBJECTS);
    match command {
        Command::CreateTopic(create) if !create.configs.is_empty() => Some(&create.name),
        Command::AlterTopicConfigs { change: ConfigChange::Incremental(ops), .. }
            if !ops.iter().any(binds) =>
        {
            None
        }
        Command::AlterTopicConfigs { topic, .. } => Some(topic),
        _ => None,
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
