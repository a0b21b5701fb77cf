//! What an assignor is given.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_types::TopicId;

/// Partitions by topic; ascending, none twice, no topic without any.
pub type Partitions = BTreeMap<TopicId, Vec<i32>>;

/// What shall be assigned to whom.
#[derive(Debug)]
pub(crate) struct AssignmentTask<'a> {
    /// The partitions that can be assigned, of topics that at least one member reads, ascending.
    pub(crate) topics: &'a Partitions,
    /// The members, ascending by id.
    pub(crate) members: Vec<AssignmentMember<'a>>,
}

/// A member as an assignor sees it.
#[derive(Debug)]
pub(crate) struct AssignmentMember<'a> {
    /// Its id.
    pub(crate) id: &'a str,
    /// Its static identity, which outlives its id.
    pub(crate) instance: Option<&'a str>,
    /// The topics that it reads, ascending. Members with the same subscription share it.
    pub(crate) topics: Arc<[TopicId]>,
    /// What it shall have so far.
    pub(crate) current: Option<&'a Partitions>,
}

impl AssignmentTask<'_> {
    /// True if all members read the same topics.
    pub(super) fn is_homogeneous(&self) -> bool {
        self.members
            .windows(2)
            .all(|pair| Arc::ptr_eq(&pair[0].topics, &pair[1].topics) || pair[0].topics == pair[1].topics)
    }
}
