//! Conversion of groups (`group.consumer.migration.policy`). A classic group becomes a consumer group when a
//! member of the new protocol joins, and a classic group again when the last of those leaves. No member loses
//! a partition by the conversion itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_metadata::MetadataImage;
use tailrace_records::internal::{ClassicMemberMetadata, ConsumerGroupMember};
use tailrace_types::TopicId;

use super::embedded::{Subscription, decode_assignment, encode_assignment};
use super::group::ConsumerGroup;
use super::reconcile::{Held, MemberState, Standing};
use super::settings::Settings;
use super::step::not_found;
use crate::coordinator::{Effects, Moment};
use crate::groups::assignors::Partitions;
use crate::groups::classic::{CONSUMER_PROTOCOL, ClassicGroup, ClassicSeed};
use crate::groups::group::Group;
use crate::groups::journal::Journal;
use crate::groups::{ClientIdentity, GroupCoordinator, GroupError, GroupState};

/// A classic member, converted for a consumer group.
struct Upgraded {
    details: ConsumerGroupMember,
    held: Held,
}

impl GroupCoordinator {
    /// Converts a classic group to a consumer group.
    pub(super) fn upgrade(
        &mut self,
        id: &Arc<str>,
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) -> Result<(), GroupError> {
        let Some(Group::Classic(classic)) = self.groups.get(id) else { return Err(not_found(id)) };
        let settings = Settings::of(moment.image, id);
        let is_empty = classic.state() == GroupState::Empty && classic.members.is_empty();
        let members = if is_empty { Vec::new() } else { upgraded(id, classic, &settings, moment.image)? };
        let generation = if is_empty { 0 } else { classic.generation };
        self.close_classic(id, moment, effects);
        let mut group = ConsumerGroup::default();
        let mut journal = Journal::new(id);
        for tombstone in ClassicGroup::tombstones(id) {
            journal.push(tombstone);
        }
        if !is_empty {
            fill(&mut group, generation, members, moment.image, &mut journal);
        }
        let records = journal.into_records();
        effects.append_in_batches(None, records);
        self.groups.insert(Arc::clone(id), Group::Consumer(group));
        self.consumer_loaded(id, moment, effects);
        Ok(())
    }

    /// Reports whether the group may become a classic one after these members leave.
    pub(super) fn may_downgrade(&self, id: &Arc<str>, without: &[Arc<str>], moment: &Moment<'_>) -> bool {
        let Some(Group::Consumer(group)) = self.groups.get(id) else { return false };
        let settings = Settings::of(moment.image, id);
        let is_modern =
            |member: &&Arc<str>| group.members.get(*member).is_some_and(|member| !member.is_classic());
        let modern_gone = without.iter().filter(is_modern).count();
        let left = group.members.len().saturating_sub(without.len());
        let modern = group.members.len() - group.classic_members;
        modern > 0
            && modern == modern_gone
            && left > 0
            && settings.migration.downgrades()
            && left <= settings.classic_members_max
    }

    /// Converts a consumer group to a classic group, without some of its members.
    pub(super) fn downgrade(
        &mut self,
        id: &Arc<str>,
        without: &[Arc<str>],
        moment: &Moment<'_>,
        effects: &mut Effects<Self>,
    ) {
        self.clear_consumer_timers(id);
        let Some(Group::Consumer(group)) = self.groups.remove(id) else { return };
        effects.append_in_batches(None, group.tombstones(id));
        let members = group.members.iter().filter(|(member, _)| !without.contains(member));
        let seeds = members.map(|(member, known)| {
            let classic = known.details.classic.clone().unwrap_or_default();
            let none = Partitions::new();
            let target = group.targets.get(member).unwrap_or(&none);
            ClassicSeed {
                member: Arc::clone(member),
                instance: known.details.instance_id.as_deref().map(Arc::from),
                client: ClientIdentity {
                    client_id: known.details.client_id.clone(),
                    client_host: known.details.client_host.clone(),
                },
                rebalance_timeout_ms: known.details.rebalance_timeout_ms,
                session_timeout_ms: classic.session_timeout_ms,
                protocols: classic.protocols.into_iter().map(|(name, bytes)| (name.into(), bytes)).collect(),
                assignment: encode_assignment(known.embedded_version(), &by_name(target, moment.image)),
            }
        });
        let seeds = seeds.collect();
        self.open_classic(id, group.epoch, seeds, moment, effects);
    }
}

/// Converts partitions by topic id to partitions by topic name.
pub(super) fn by_name(partitions: &Partitions, image: &MetadataImage) -> Vec<(String, Vec<i32>)> {
    let named = |(id, partitions): (&TopicId, &Vec<i32>)| {
        Some((image.topic_by_id(*id)?.name.as_str().to_owned(), partitions.clone()))
    };
    partitions.iter().filter_map(named).collect()
}

/// Converts partitions by topic name to partitions by topic id.
pub(super) fn by_id(partitions: &[(String, Vec<i32>)], image: &MetadataImage) -> BTreeMap<TopicId, Vec<i32>> {
    let mut topics: BTreeMap<TopicId, Vec<i32>> = BTreeMap::new();
    for (name, partitions) in partitions {
        if let Some(topic) = image.topic(name) {
            topics.entry(topic.id).or_default().extend(partitions);
        }
    }
    topics
}

/// Converts the members of a classic group, or returns why the group cannot become a consumer group.
fn upgraded(
    id: &Arc<str>,
    classic: &ClassicGroup,
    settings: &Settings<'_>,
    image: &MetadataImage,
) -> Result<Vec<(Arc<str>, Upgraded)>, GroupError> {
    let refuse = |reason| GroupError::NotUpgradable { group: Arc::clone(id), reason };
    if !settings.migration.upgrades() {
        return Err(refuse("group.consumer.migration.policy does not allow it"));
    }
    if classic.protocol_type() != Some(CONSUMER_PROTOCOL) {
        return Err(refuse("its members are not consumers"));
    }
    if classic.members.len() >= settings.members_max {
        return Err(refuse("it has more members than group.consumer.max.size allows"));
    }
    let malformed = |_| refuse("a member's subscription or assignment is malformed");
    let mut members = Vec::with_capacity(classic.members.len());
    for (member, known) in &classic.members {
        let protocol = classic.protocol.as_deref().or_else(|| Some(&*known.protocols.first()?.0));
        let subscription = known.subscription(protocol.unwrap_or_default());
        let subscription = Subscription::decode(&subscription).map_err(malformed)?;
        let assignment = decode_assignment(&known.assignment).map_err(malformed)?;
        // As in Kafka. User data in subscriptions does not matter: the cooperative assignor puts generations
        // there.
        if assignment.has_user_data {
            return Err(refuse("its assignor sends members its own data, so only that assignor can assign"));
        }
        let mut held = Held::new();
        for (topic, partitions) in by_id(&assignment.topics, image) {
            held.insert(topic, partitions.into_iter().map(|number| (number, classic.generation)).collect());
        }
        let mut names = subscription.topics;
        names.sort_unstable();
        names.dedup();
        let protocols =
            known.protocols.iter().map(|(name, bytes)| ((**name).to_owned(), bytes.clone())).collect();
        let details = ConsumerGroupMember {
            instance_id: known.instance.as_deref().map(str::to_owned),
            rack_id: subscription.rack,
            client_id: known.client.client_id.clone(),
            client_host: known.client.client_host.clone(),
            subscribed_topic_names: names,
            subscribed_topic_regex: None,
            rebalance_timeout_ms: known.rebalance_timeout_ms,
            server_assignor: None,
            classic: Some(ClassicMemberMetadata { session_timeout_ms: known.session_timeout_ms, protocols }),
        };
        members.push((Arc::clone(member), Upgraded { details, held }));
    }
    Ok(members)
}

/// Fills a group: each member has the partitions that the classic group's leader assigned, in the epoch of
/// its last generation.
fn fill(
    group: &mut ConsumerGroup,
    generation: i32,
    members: Vec<(Arc<str>, Upgraded)>,
    image: &MetadataImage,
    journal: &mut Journal<'_>,
) {
    let epoch = generation.max(1);
    let mut standings = Vec::with_capacity(members.len());
    for (member, Upgraded { details, held }) in members {
        group.set_details(&member, details, journal);
        standings.push((member, held));
    }
    let hash = group.hash_of_topics(image);
    group.set_epoch(epoch, hash, journal);
    for (member, held) in &standings {
        group.set_target(member, super::member::partitions_of(held), journal);
    }
    // The assignment has no time, so that the joining member is assigned at once.
    group.set_target_epoch(epoch, 0, journal);
    for (member, assigned) in standings {
        let standing = Standing {
            epoch,
            previous_epoch: epoch,
            state: MemberState::Stable,
            assigned,
            revoking: Held::new(),
        };
        group.set_standing(&member, standing, journal);
    }
}
