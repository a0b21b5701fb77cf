//! Formats the effects of a coordinator, one per line.

use std::collections::BTreeMap;

use tailrace_coordination::coordinator::{Append, CoordinatorRecord, Effects, Token};
use tailrace_coordination::groups::{
    ClassicDescription, ClassicReply, ConsumerReply, FetchedTopic, GroupCoordinator, GroupError, GroupReply,
    HeartbeatAnswer, Joined, NamedPartitions, OffsetsReply, Partitions, ShareReply, Synced,
};
use tailrace_metadata::TopicRef;
use tailrace_records::internal::{
    ConsumerGroupKey, ConsumerGroupMember, ConsumerGroupMetadata, CurrentMemberAssignment, FieldReader,
    GroupKey, GroupValue, HeldPartitions, NamedTopicPartitions, OffsetKey, OffsetValue, RegularExpression,
    ShareCurrentMemberAssignment, ShareGroupKey, ShareGroupMember, ShareGroupMetadata,
    ShareGroupStatePartitions, TargetAssignmentMember, TargetAssignmentMetadata,
};
use tailrace_types::TimestampMs;

/// Formats records, then replies. `names` has the client of each token.
pub(crate) fn effects(effects: &Effects<GroupCoordinator>, names: &BTreeMap<Token, String>) -> Vec<String> {
    let mut lines: Vec<String> = effects.appends.iter().flat_map(append).collect();
    lines.extend(effects.work.iter().map(|work| format!("work: {work:?}")));
    for (token, answer) in &effects.replies {
        let name = names.get(token).map_or("?", String::as_str);
        lines.extend(reply(answer).into_iter().map(|line| format!("{name} < {line}")));
    }
    lines
}

fn append(append: &Append) -> Vec<String> {
    let transaction =
        append.producer.map(|p| format!(" in transaction of {}:{}", p.id, p.epoch)).unwrap_or_default();
    append.records.iter().map(|record| format!("log{transaction}: {}", self::record(record))).collect()
}

fn record(record: &CoordinatorRecord) -> String {
    let key = &record.key;
    if let Ok(key) = OffsetKey::decode(key) {
        let what = format!("offset of {} in {}-{}", key.group, key.topic, key.partition);
        let Some(value) = &record.value else { return format!("{what} is gone") };
        let value = OffsetValue::decode(value).expect("an offset");
        let mut line = format!("{what} is {}", value.offset);
        if value.leader_epoch != -1 {
            line += &format!(" epoch {}", value.leader_epoch);
        }
        if !value.metadata.is_empty() {
            line += &format!(" metadata {:?}", value.metadata);
        }
        if value.expire_timestamp != -1 {
            line += &format!(" until {}", value.expire_timestamp);
        }
        return line;
    }
    if let Ok(key) = ConsumerGroupKey::decode(key) {
        return consumer_record(&key, record.value.as_deref());
    }
    if let Ok(key) = ShareGroupKey::decode(key) {
        return share_record(&key, record.value.as_deref());
    }
    let key = GroupKey::decode(key).expect("a known key");
    let Some(value) = &record.value else { return format!("group {} is gone", key.group) };
    let value = GroupValue::decode(value).expect("a group");
    let mut line = format!("group {} generation {}", key.group, value.generation);
    if !value.protocol_type.is_empty() {
        line += &format!(" type {}", value.protocol_type);
    }
    line +=
        &format!(" protocol {} leader {}", value.protocol.unwrap_or("none"), value.leader.unwrap_or("none"));
    for member in &value.members {
        let instance = member.instance.map(|instance| format!("/{instance}")).unwrap_or_default();
        line += &format!(" {}{instance}[{}]", member.member, text(member.assignment));
    }
    if value.members.is_empty() {
        line += " without members";
    }
    line
}

fn by_id(topics: &[([u8; 16], Vec<i32>)]) -> String {
    let topics = topics.iter().map(|(topic, numbers)| {
        let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
        format!("#{}-{}", topic[0], numbers.join(","))
    });
    topics.collect::<Vec<_>>().join(" ")
}

fn held(topics: &[HeldPartitions]) -> String {
    let topics: Vec<_> = topics.iter().map(|topic| (topic.topic, topic.partitions.clone())).collect();
    by_id(&topics)
}

fn consumer_record(key: &ConsumerGroupKey, value: Option<&[u8]>) -> String {
    let what = match key {
        ConsumerGroupKey::Group { group } => format!("consumer group {group}"),
        ConsumerGroupKey::PartitionMetadata { group } => format!("partition metadata of {group}"),
        ConsumerGroupKey::Member { member, .. } => format!("member {member}"),
        ConsumerGroupKey::TargetMetadata { .. } => "target".to_owned(),
        ConsumerGroupKey::TargetMember { member, .. } => format!("target of {member}"),
        ConsumerGroupKey::CurrentMember { member, .. } => format!("current of {member}"),
        ConsumerGroupKey::RegularExpression { expression, .. } => format!("expression {expression}"),
    };
    let Some(value) = value else { return format!("{what} is gone") };
    let known = "what was written can be read";
    let rest = match key {
        ConsumerGroupKey::Group { .. } => {
            format!("epoch {}", ConsumerGroupMetadata::decode(value).expect(known).epoch)
        }
        ConsumerGroupKey::PartitionMetadata { .. } => String::new(),
        ConsumerGroupKey::Member { .. } => {
            let member = ConsumerGroupMember::decode(value).expect(known);
            let mut line = format!("reads ({})", member.subscribed_topic_names.join("+"));
            for (what, text) in [
                ("matching", &member.subscribed_topic_regex),
                ("instance", &member.instance_id),
                ("assignor", &member.server_assignor),
            ] {
                if let Some(text) = text {
                    line += &format!(" {what} {text:?}");
                }
            }
            line + if member.classic.is_some() { " classic" } else { "" }
        }
        ConsumerGroupKey::TargetMetadata { .. } => {
            format!("epoch {}", TargetAssignmentMetadata::decode(value).expect(known).epoch)
        }
        ConsumerGroupKey::TargetMember { .. } => {
            format!("[{}]", by_id(&TargetAssignmentMember::decode(value).expect(known).partitions))
        }
        ConsumerGroupKey::CurrentMember { .. } => {
            let current = CurrentMemberAssignment::decode(value).expect(known);
            let state =
                ["?", "stable", "unrevoked", "unreleased"][usize::try_from(current.state).unwrap_or(0)];
            let mut line = format!(
                "epoch {} after {} {state} [{}]",
                current.epoch,
                current.previous_epoch,
                held(&current.assigned)
            );
            if !current.pending_revocation.is_empty() {
                line += &format!(" gives back [{}]", held(&current.pending_revocation));
            }
            line
        }
        ConsumerGroupKey::RegularExpression { .. } => {
            format!("matches ({})", RegularExpression::decode(value).expect(known).topics.join("+"))
        }
    };
    format!("{what} {rest}")
}

fn share_record(key: &ShareGroupKey, value: Option<&[u8]>) -> String {
    let what = match key {
        ShareGroupKey::Group { group } => format!("share group {group}"),
        ShareGroupKey::Member { member, .. } => format!("share member {member}"),
        ShareGroupKey::TargetMetadata { .. } => "share target".to_owned(),
        ShareGroupKey::TargetMember { member, .. } => format!("share target of {member}"),
        ShareGroupKey::CurrentMember { member, .. } => format!("share current of {member}"),
        ShareGroupKey::StatePartitions { group } => format!("states of {group}"),
    };
    let Some(value) = value else { return format!("{what} is gone") };
    let known = "what was written can be read";
    let rest = match key {
        ShareGroupKey::Group { .. } => {
            format!("epoch {}", ShareGroupMetadata::decode(value).expect(known).epoch)
        }
        ShareGroupKey::Member { .. } => {
            let member = ShareGroupMember::decode(value).expect(known);
            format!("reads ({})", member.subscribed_topic_names.join("+"))
        }
        ShareGroupKey::TargetMetadata { .. } => {
            format!("epoch {}", TargetAssignmentMetadata::decode(value).expect(known).epoch)
        }
        ShareGroupKey::TargetMember { .. } => {
            format!("[{}]", by_id(&TargetAssignmentMember::decode(value).expect(known).partitions))
        }
        ShareGroupKey::CurrentMember { .. } => {
            let current = ShareCurrentMemberAssignment::decode(value).expect(known);
            format!("epoch {} after {} [{}]", current.epoch, current.previous_epoch, by_id(&current.assigned))
        }
        ShareGroupKey::StatePartitions { .. } => {
            let states = ShareGroupStatePartitions::decode(value).expect(known);
            let named = |topics: &[NamedTopicPartitions]| {
                let topics: Vec<_> =
                    topics.iter().map(|topic| (topic.topic, topic.partitions.clone())).collect();
                by_id(&topics)
            };
            let (asked, there) = (named(&states.initializing), named(&states.initialized));
            let deleting: Vec<_> = states.deleting.iter().map(|(topic, _)| (*topic, Vec::new())).collect();
            let goes =
                if deleting.is_empty() { String::new() } else { format!(" deleting [{}]", by_id(&deleting)) };
            format!("asked for [{asked}] there [{there}]{goes} in generation {}", states.generation)
        }
    };
    format!("{what} {rest}")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the topics of a consumer, or the bytes as text.
fn subscribed(bytes: &[u8]) -> String {
    let mut reader = FieldReader::new(bytes);
    let topics = reader.version().and_then(|_| reader.array("topics", |reader| reader.string("topic")));
    topics.map_or_else(|_| text(bytes), |topics| topics.join("+"))
}

fn result<T>(result: &Result<T, GroupError>, show: impl FnOnce(&T) -> String) -> String {
    match result {
        Ok(value) => show(value),
        Err(error) => format!("refused: {error}"),
    }
}

pub(crate) fn reply(reply: &GroupReply) -> Vec<String> {
    match reply {
        GroupReply::Classic(reply) => classic(reply),
        GroupReply::Offsets(reply) => offsets(reply),
        GroupReply::List(groups) => {
            let line = |group: &tailrace_coordination::groups::GroupSummary| {
                let (kind, state) = (group.kind.name(), group.state.name());
                format!("{} {kind} {state} type {:?}", group.group, group.protocol_type)
            };
            none_or(groups.iter().map(line).collect(), "no groups")
        }
        GroupReply::Describe(groups) => groups
            .iter()
            .flat_map(|group| match group {
                Ok(group) => describe(group),
                Err(error) => vec![format!("refused: {error}")],
            })
            .collect(),
        GroupReply::Delete(groups) => {
            groups.iter().map(|group| result(group, |()| "deleted".to_owned())).collect()
        }
        GroupReply::Consumer(ConsumerReply::Heartbeat(answer)) => vec![result(answer, heartbeat)],
        GroupReply::Consumer(ConsumerReply::Describe(Ok(group))) => {
            let (state, assignor) = (group.state.name(), &group.assignor);
            let mut lines = vec![format!(
                "{state} epoch {} assigned {} by {assignor}",
                group.epoch, group.assignment_epoch
            )];
            lines.extend(group.members.iter().map(|member| {
                let kind = if member.is_classic { " (classic)" } else { "" };
                let (has, wants) = (named(&member.assignment), named(&member.target));
                format!("  {}{kind} epoch {} has [{has}] of [{wants}]", member.member, member.epoch)
            }));
            lines
        }
        GroupReply::Consumer(ConsumerReply::Describe(Err(error))) => vec![format!("refused: {error}")],
        GroupReply::Share(ShareReply::Heartbeat(answer)) => vec![result(answer, |answer| {
            let assignment = answer.assignment.as_ref().map(partitions);
            beat_line(answer.epoch, assignment)
        })],
        other => vec![format!("{other:?}")],
    }
}

fn heartbeat(answer: &HeartbeatAnswer) -> String {
    beat_line(answer.epoch, answer.assignment.as_ref().map(partitions))
}

fn beat_line(epoch: i32, assignment: Option<String>) -> String {
    match assignment {
        Some(assignment) => format!("epoch {epoch} has [{assignment}]"),
        None => format!("epoch {epoch}"),
    }
}

/// Formats topics, by the first byte of their id, which counts them, and their partitions.
fn partitions(partitions: &Partitions) -> String {
    let topics = partitions.iter().map(|(topic, numbers)| {
        let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
        format!("#{}-{}", topic.0[0], numbers.join(","))
    });
    topics.collect::<Vec<_>>().join(" ")
}

fn named(topics: &[NamedPartitions]) -> String {
    let topics = topics.iter().map(|topic| {
        let numbers: Vec<_> = topic.partitions.iter().map(ToString::to_string).collect();
        format!("{}-{}", topic.name.as_str(), numbers.join(","))
    });
    topics.collect::<Vec<_>>().join(" ")
}

fn none_or(lines: Vec<String>, none: &str) -> Vec<String> {
    if lines.is_empty() { vec![none.to_owned()] } else { lines }
}

fn classic(reply: &ClassicReply) -> Vec<String> {
    match reply {
        ClassicReply::Join(joined) => vec![result(joined, self::joined)],
        ClassicReply::Sync(synced) => vec![result(synced, self::synced)],
        ClassicReply::Heartbeat(alive) => vec![result(alive, |()| "alive".to_owned())],
        ClassicReply::Leave(Ok(members)) => {
            members.iter().map(|member| result(member, |()| "left".to_owned())).collect()
        }
        ClassicReply::Leave(Err(error)) => vec![format!("refused: {error}")],
    }
}

fn joined(joined: &Joined) -> String {
    let protocol = joined.protocol.as_deref().unwrap_or("none");
    let mut line = format!(
        "joined as {} generation {} protocol {protocol} leader {}",
        joined.member, joined.generation, joined.leader
    );
    if joined.skip_assignment {
        line += " skip assignment";
    }
    for member in &joined.members {
        let instance = member.instance.as_ref().map(|instance| format!("/{instance}")).unwrap_or_default();
        line += &format!(" {}{instance}({})", member.member, subscribed(&member.subscription));
    }
    line
}

fn synced(synced: &Synced) -> String {
    format!("assigned [{}] by {}", text(&synced.assignment), synced.protocol.as_deref().unwrap_or("none"))
}

fn describe(group: &ClassicDescription) -> Vec<String> {
    let mut lines =
        vec![format!("{} type {:?} protocol {:?}", group.state.name(), group.protocol_type, group.protocol)];
    for member in &group.members {
        let instance = member.instance.as_ref().map(|instance| format!("/{instance}")).unwrap_or_default();
        let (client, host) = (&member.client.client_id, &member.client.client_host);
        lines.push(format!(
            "  {}{instance} of {client} at {host} reads ({}) has [{}]",
            member.member,
            subscribed(&member.subscription),
            text(&member.assignment)
        ));
    }
    lines
}

fn topic(topic: &TopicRef) -> String {
    match topic {
        TopicRef::Name(name) => name.clone(),
        TopicRef::Id(id) => id.to_string(),
    }
}

fn offsets(reply: &OffsetsReply) -> Vec<String> {
    match reply {
        OffsetsReply::Commit(Err(error))
        | OffsetsReply::Fetch(Err(error))
        | OffsetsReply::Delete(Err(error)) => {
            vec![format!("refused: {error}")]
        }
        OffsetsReply::Commit(Ok(topics)) => {
            let partitions = topics.iter().flat_map(|committed| {
                let name = topic(&committed.topic);
                let line = move |(index, fate): &(i32, Result<(), GroupError>)| {
                    format!("{name}-{index} {}", result(fate, |()| "committed".to_owned()))
                };
                committed.partitions.iter().map(line)
            });
            none_or(partitions.collect(), "nothing committed")
        }
        OffsetsReply::Fetch(Ok(topics)) => none_or(topics.iter().flat_map(fetched).collect(), "no offsets"),
        OffsetsReply::Delete(Ok(topics)) => {
            let partitions = topics.iter().flatten();
            partitions.map(|partition| result(partition, |()| "deleted".to_owned())).collect()
        }
    }
}

fn fetched(topic: &FetchedTopic) -> Vec<String> {
    let line = |partition: &tailrace_coordination::groups::FetchedPartition| {
        let offset = result(&partition.offset, |offset| match offset {
            None => "none".to_owned(),
            Some(offset) => {
                let mut line = offset.offset.to_string();
                if offset.leader_epoch != -1 {
                    line += &format!(" epoch {}", offset.leader_epoch);
                }
                if !offset.metadata.is_empty() {
                    line += &format!(" metadata {:?}", offset.metadata);
                }
                if offset.expires_at != TimestampMs::NONE {
                    line += &format!(" until {}", offset.expires_at);
                }
                line
            }
        });
        format!("{}-{}: {offset}", topic.name, partition.index)
    };
    topic.partitions.iter().map(line).collect()
}
