//! OffsetFetch.

use std::sync::Arc;

use tailrace_metadata::MetadataImage;
use tailrace_metadata::TopicRef;
use tailrace_types::TopicId;

use super::event::{CommittedOffset, FetchRequest, FetchTopic, FetchedPartition, FetchedTopic};
use crate::coordinator::Moment;
use crate::groups::limits::check_group_id;
use crate::groups::{GroupCoordinator, GroupError};

impl GroupCoordinator {
    /// Returns committed offsets. A group that does not exist has none, which is not an error: every group
    /// starts that way.
    pub(super) fn fetch(
        &self,
        group: &Arc<str>,
        request: &FetchRequest,
        moment: &Moment<'_>,
    ) -> Result<Vec<FetchedTopic>, GroupError> {
        check_group_id(group, true)?;
        if let Some(known) = self.groups.get(group) {
            known.check_fetch(group, request.member.as_deref(), request.member_epoch)?;
        }
        let fetch = Fetch { coordinator: self, group, image: moment.image, stable: request.require_stable };
        Ok(match &request.topics {
            Some(topics) => topics.iter().map(|topic| fetch.topic(topic)).collect(),
            None => fetch.all(),
        })
    }
}

struct Fetch<'a> {
    coordinator: &'a GroupCoordinator,
    group: &'a str,
    image: &'a MetadataImage,
    stable: bool,
}

impl Fetch<'_> {
    fn topic(&self, wanted: &FetchTopic) -> FetchedTopic {
        let (name, id) = match &wanted.topic {
            TopicRef::Name(name) => {
                let id = self.image.topic(name).map_or(TopicId::ZERO, |topic| topic.id);
                (Some(Arc::<str>::from(name.as_str())), id)
            }
            TopicRef::Id(id) => {
                let name = self.image.topic_by_id(*id).map(|topic| Arc::from(topic.name.as_str()));
                (name, *id)
            }
        };
        let partition = |index: &i32| FetchedPartition {
            index: *index,
            offset: match &name {
                Some(name) => self.partition(name, id, *index),
                None => Err(GroupError::UnknownTopicId),
            },
        };
        let partitions = wanted.partitions.iter().map(partition).collect();
        FetchedTopic { name: name.clone().unwrap_or_default(), id, partitions }
    }

    fn partition(&self, topic: &str, id: TopicId, index: i32) -> Result<Option<CommittedOffset>, GroupError> {
        let offsets = &self.coordinator.offsets;
        if self.stable && offsets.is_pending(self.group, topic, index) {
            return Err(GroupError::UnstableOffset);
        }
        let known = offsets.get(self.group, topic, index);
        Ok(known.filter(|offset| is_of(offset, id)).cloned())
    }

    fn all(&self) -> Vec<FetchedTopic> {
        let mut topics = Vec::new();
        for (name, partitions) in self.coordinator.offsets.of_group(self.group) {
            let id = self.image.topic(name).map_or(TopicId::ZERO, |topic| topic.id);
            let partition = |(index, offset): (i32, &CommittedOffset)| FetchedPartition {
                index,
                offset: if self.stable && self.coordinator.offsets.is_pending(self.group, name, index) {
                    Err(GroupError::UnstableOffset)
                } else {
                    Ok(Some(offset.clone()))
                },
            };
            let present = partitions.filter(|(_, offset)| is_of(offset, id));
            topics.push(FetchedTopic {
                name: Arc::clone(name),
                id,
                partitions: present.map(partition).collect(),
            });
        }
        topics
    }
}

/// Reports whether the offset belongs to this topic. False if it belongs to an earlier topic of the same
/// name.
fn is_of(offset: &CommittedOffset, id: TopicId) -> bool {
    offset.topic_id.is_zero() || id.is_zero() || offset.topic_id == id
}
