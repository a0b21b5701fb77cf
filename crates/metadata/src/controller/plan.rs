//! Decisions on commands. All refusals are made here. Nothing is changed.

use std::collections::BTreeMap;

use tailrace_config::{BrokerConfig, ConfigScope, DynamicConfigs, GroupConfig, TopicConfig};
use tailrace_identity::acl::AUDIT_TOPIC;
use tailrace_types::{NodeId, PartitionId, ProducerId, ReplicaId, TopicName};

use super::command::{
    BrokerScope, Command, ConfigChange, CreateTopic, GROUP_ID_BYTES_MAX, GROUPS_CONFIGURED_MAX,
    PRODUCER_IDS_PER_BLOCK, Requester, TopicRef,
};
use super::decision::{Records, existing};
use super::error::ControlError;
use super::{
    access, account_claims, bindings, change, client_quotas, features, nodes, replicas, streams, tokens,
};
use crate::access::Stamp;
use crate::image::{MetadataImage, is_internal_topic};
use crate::record::MetadataRecord;

pub(super) fn plan(image: &MetadataImage, fixed: &BTreeMap<String, String>, command: &Command) -> Records {
    command.check_level(image)?;
    match command {
        Command::CreateTopic(create) => create_topic(image, create),
        Command::DeleteTopic { topic, by } => delete_topic(image, topic, *by),
        Command::CreatePartitions { topic, count, assignment, by } => {
            create_partitions(image, topic, *count, assignment.as_deref(), *by)
        }
        Command::AlterTopicConfigs { topic, change } => alter_topic(image, topic, change),
        Command::AlterBrokerConfigs { scope, change } => alter_broker(image, fixed, *scope, change),
        Command::AlterGroupConfigs { group, change } => alter_group(image, group, change),
        Command::FinalizeFeatures => Ok(features::put(image, image.features.raised())),
        Command::UpdateFeatures(updates) => Ok(features::put(image, features::updated(image, updates)?)),
        Command::AllocateProducerIds => allocate_producer_ids(image),
        Command::Barrier => Ok(Vec::new()),
        Command::FoundCluster { cluster_id, node } => nodes::found(image, cluster_id, node),
        Command::RegisterNode(node) => nodes::register(image, node),
        Command::FenceNode { node, fenced } => nodes::fence(image, *node, *fenced),
        Command::RemoveNode { node } => nodes::remove(image, *node),
        Command::ReassignPartition { topic, partition, nodes } => {
            replicas::reassign(image, topic, *partition, nodes.as_deref())
        }
        Command::RenewReplica { topic, partition, replica } => {
            replicas::renew(image, *topic, *partition, *replica)
        }
        Command::FinishReassignment { topic, partition, replicas } => {
            replicas::finish(image, *topic, *partition, replicas)
        }
        Command::AlterScramCredential { user, change, by, now } => {
            access::alter_credential(image, user, change, &Stamp { at: *now, by: by.clone() })
        }
        Command::CreateFirstUser { user, verifiers, by, now } => {
            access::create_first_user(image, user, verifiers, &Stamp { at: *now, by: by.clone() })
        }
        Command::DisableUser { user, disabled, by, now } => {
            access::disable(image, user, *disabled, &Stamp { at: *now, by: by.clone() })
        }
        Command::RemoveUser { user } => access::remove_user(image, user),
        Command::CreateAcls(acls) => access::create_acls(image, acls),
        Command::DeleteAcls(acls) => access::delete_acls(image, acls),
        Command::CreateToken { id, owner, renewers, max_lifetime_ms, by, now } => {
            let (max_lifetime_ms, now) = (*max_lifetime_ms, *now);
            tokens::create(image, &tokens::Wanted { id, owner, renewers, max_lifetime_ms, by, now })
        }
        Command::ExtendToken { id, end, by, now } => tokens::extend(image, id, *end, by, *now),
        Command::RemoveExpired { now } => {
            let mut records = access::expired_passwords(image, *now);
            records.extend(tokens::expired(image, *now));
            Ok(records)
        }
        Command::AlterClientQuota { entity, set, remove } => client_quotas::alter(image, entity, set, remove),
        Command::StoreAccountClaims { token } => account_claims::store(image, token),
        Command::DeleteAccountClaims { token } => account_claims::delete(image, token),
    }
}

fn create_topic(image: &MetadataImage, create: &CreateTopic) -> Records {
    let name = TopicName::new(&create.name)?;
    check_reserved(&name, create.by)?;
    if let Some(existing) = image.folded.get(&name.folded()).cloned() {
        return Err(if existing == name {
            ControlError::TopicExists { name }
        } else {
            ControlError::TopicCollision { name, existing }
        });
    }
    if create.id.is_zero() || image.topic_by_id(create.id).is_some() {
        return Err(ControlError::TopicIdInUse { id: create.id });
    }
    if let Some((key, _)) = create.configs.iter().find(|(_, value)| value.is_none()) {
        return Err(ControlError::NullAtCreation { key: key.clone() });
    }
    let configs = change::given(ConfigScope::Topic, &create.configs)?;
    streams::check_creation(create, &configs)?;
    check_configs(image, &name, &configs)?;
    let (partitions, replication_factor, replicas) = match &create.assignment {
        Some(assignment) => assigned(image, assignment)?,
        None => placed(image, create)?,
    };
    let (id, created_at) = (create.id, create.now);
    Ok(vec![MetadataRecord::TopicCreated {
        name,
        id,
        partitions,
        replication_factor,
        created_at,
        configs,
        replicas,
    }])
}

/// Number of partitions, number of replicas, and the replicas of each partition.
type Placement = (i32, i16, Vec<Vec<ReplicaId>>);

/// Places the partitions of a new topic on nodes that the controller chooses.
fn placed(image: &MetadataImage, create: &CreateTopic) -> Result<Placement, ControlError> {
    let replication_factor = match create.replication_factor {
        -1 => image.broker.default_replication_factor,
        1.. => create.replication_factor,
        found => return Err(ControlError::InvalidReplicationFactor { found }),
    };
    // Too many replicas are refused before too many partitions.
    replicas::chosen(image, create.id, 0..0, replication_factor)?;
    let partitions = match create.partitions {
        -1 => image.broker.num_partitions,
        1.. => create.partitions,
        found => return Err(ControlError::InvalidPartitions { found }),
    };
    check_limits(image, partitions, partitions)?;
    let replicas = replicas::chosen(image, create.id, 0..partitions, replication_factor)?;
    Ok((partitions, replication_factor, replicas))
}

/// Places the partitions of a new topic on nodes that the client chose.
fn assigned(image: &MetadataImage, assignment: &[Vec<NodeId>]) -> Result<Placement, ControlError> {
    // A client may ask for any number. The limits refuse it if it is too large.
    let partitions = i32::try_from(assignment.len()).unwrap_or(i32::MAX);
    if partitions == 0 {
        return Err(ControlError::InvalidPartitions { found: 0 });
    }
    check_limits(image, partitions, partitions)?;
    let replicas = replicas::given(image, assignment, None)?;
    // Each replica is on a registered node. No cluster has more than `i16::MAX` of them.
    let replication_factor = i16::try_from(assignment[0].len()).unwrap_or(i16::MAX);
    Ok((partitions, replication_factor, replicas))
}

/// Checks that a topic's settings are legal, by themselves and together with those of other topics.
fn check_configs(
    image: &MetadataImage,
    name: &TopicName,
    configs: &BTreeMap<String, String>,
) -> Result<(), ControlError> {
    let config = TopicConfig::resolve(configs, &image.broker)?;
    config.check_captured_size(configs, &image.broker)?;
    bindings::check(image, name, &config)
}

/// Checks the limits for a topic of `total` partitions, of which `added` are new.
fn check_limits(image: &MetadataImage, total: i32, added: i32) -> Result<(), ControlError> {
    let check = |key, found, max| {
        if found > max { Err(ControlError::TooManyPartitions { key, found, max }) } else { Ok(()) }
    };
    let per_topic = u64::from(image.broker.tailrace_topic_partitions_max);
    check("tailrace.topic.partitions.max", u64::from(total.unsigned_abs()), per_topic)?;
    let all = image.partitions + u64::from(added.unsigned_abs());
    check("tailrace.partitions.max", all, image.broker.tailrace_partitions_max.into())
}

fn check_reserved(name: &TopicName, by: Requester) -> Result<(), ControlError> {
    if by != Requester::Broker && is_internal_topic(name.as_str()) {
        return Err(ControlError::ReservedTopic { name: name.clone() });
    }
    Ok(())
}

fn delete_topic(image: &MetadataImage, topic: &TopicRef, by: Requester) -> Records {
    if !image.broker.delete_topic_enable && by != Requester::Broker {
        return Err(ControlError::DeletionDisabled);
    }
    let topic = match topic {
        TopicRef::Name(name) => existing(image, name)?,
        TopicRef::Id(id) => image.topic_by_id(*id).ok_or(ControlError::UnknownTopicId { id: *id })?,
    };
    check_reserved(&topic.name, by)?;
    Ok(vec![MetadataRecord::TopicDeleted { id: topic.id }])
}

fn create_partitions(
    image: &MetadataImage,
    name: &str,
    count: i32,
    assignment: Option<&[Vec<NodeId>]>,
    by: Requester,
) -> Records {
    let topic = existing(image, name)?;
    check_reserved(&topic.name, by)?;
    if streams::is_stream(topic) {
        return Err(ControlError::StreamPartitions { name: topic.name.clone() });
    }
    if count == topic.partitions {
        return Err(ControlError::AlreadyHasPartitions { current: count });
    }
    if count < topic.partitions {
        let (name, current) = (topic.name.clone(), topic.partitions);
        return Err(ControlError::NotAnIncrease { name, current, found: count });
    }
    let added = count - topic.partitions;
    check_limits(image, count, added)?;
    // As in Kafka, the first partition determines the number of replicas.
    let as_first = topic.partition(PartitionId(0)).map_or(1, |partition| partition.replicas.len());
    let replicas = match assignment {
        Some(assignment) if i32::try_from(assignment.len()) != Ok(added) => {
            let reason = format!(
                "Attempted to add {added} additional partition(s), but only {} assignment(s) were specified.",
                assignment.len()
            );
            return Err(ControlError::InvalidAssignment { reason });
        }
        Some(assignment) => replicas::given(image, assignment, Some(as_first))?,
        None => {
            let replication_factor = i16::try_from(as_first).unwrap_or(i16::MAX);
            replicas::chosen(image, topic.id, topic.partitions..count, replication_factor)?
        }
    };
    Ok(vec![MetadataRecord::PartitionsAdded { id: topic.id, partitions: count, replicas }])
}

fn alter_topic(image: &MetadataImage, name: &str, change: &ConfigChange) -> Records {
    let topic = existing(image, name).or_else(|unknown| {
        // As in Kafka, settings that are illegal in any topic are refused first.
        change::changed(ConfigScope::Topic, &BTreeMap::new(), change, &image.broker)?;
        Err(unknown)
    })?;
    let configs = change::changed(ConfigScope::Topic, &topic.overrides, change, &image.broker)?;
    let configs = streams::checked_change(&topic.overrides, configs, change)?;
    if configs == topic.overrides {
        return Ok(Vec::new());
    }
    check_audit_topic(&topic.name, &topic.overrides, &configs)?;
    check_configs(image, &topic.name, &configs)?;
    Ok(vec![MetadataRecord::TopicConfigs { id: topic.id, configs }])
}

/// Settings of the topic of the audit log that may be changed. Others could stop it.
const AUDIT_TOPIC_SETTINGS: [&str; 2] = ["retention.bytes", "retention.ms"];

fn check_audit_topic(
    name: &TopicName,
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Result<(), ControlError> {
    let is_changed = |key: &&String| before.get(*key) != after.get(*key);
    let mut changed = before.keys().chain(after.keys()).filter(is_changed);
    match changed.find(|key| !AUDIT_TOPIC_SETTINGS.contains(&key.as_str())) {
        Some(key) if name.as_str() == AUDIT_TOPIC => Err(ControlError::AuditTopicConfig { key: key.clone() }),
        _ => Ok(()),
    }
}

fn alter_broker(
    image: &MetadataImage,
    fixed: &BTreeMap<String, String>,
    scope: BrokerScope,
    change: &ConfigChange,
) -> Records {
    let existing = image.broker.node();
    let (mut cluster, mut nodes) = (image.cluster_configs.clone(), image.node_configs.clone());
    let current = match scope {
        BrokerScope::Cluster => &mut cluster,
        BrokerScope::Node(node) if node == existing || image.node(node).is_some() => {
            nodes.entry(node).or_default()
        }
        BrokerScope::Node(node) => return Err(ControlError::UnknownNode { node, existing }),
    };
    let configs = change::changed(ConfigScope::Broker, current, change, &image.broker)?;
    if configs == *current {
        return Ok(Vec::new());
    }
    *current = configs;
    nodes.retain(|_, configs| !configs.is_empty());
    // The start configurations of other nodes are not known here. Only the settings changed at run time can
    // be checked for them.
    let others = image.nodes().map(|node| node.registration.node).filter(|node| *node != existing);
    for node in std::iter::once(existing).chain(others.filter(|node| nodes.contains_key(node))) {
        let node = nodes.get(&node).cloned().unwrap_or_default();
        let broker = BrokerConfig::resolve(fixed, &DynamicConfigs { node, cluster: cluster.clone() })?;
        image
            .resolve_topics(&broker)
            .map_err(|(topic, error)| ControlError::TopicWouldBreak { topic, error })?;
    }
    Ok(vec![MetadataRecord::BrokerConfigs { cluster, nodes }])
}

fn alter_group(image: &MetadataImage, group: &str, change: &ConfigChange) -> Records {
    if group.is_empty() {
        return Err(ControlError::NoGroupId);
    }
    if group.len() > GROUP_ID_BYTES_MAX {
        return Err(ControlError::GroupIdTooLong { found: group.len(), max: GROUP_ID_BYTES_MAX });
    }
    let none = BTreeMap::new();
    let known = image.groups.get(group);
    let current = known.map_or(&none, |known| &known.overrides);
    let configs = change::changed(ConfigScope::Group, current, change, &image.broker)?;
    GroupConfig::check(&configs, &image.broker)?;
    if configs == *current {
        return Ok(Vec::new());
    }
    if known.is_none() && image.groups.len() >= GROUPS_CONFIGURED_MAX {
        return Err(ControlError::TooManyGroups { max: GROUPS_CONFIGURED_MAX });
    }
    Ok(vec![MetadataRecord::GroupConfigs { group: group.to_owned(), configs }])
}

fn allocate_producer_ids(image: &MetadataImage) -> Records {
    let first = image.next_producer_id;
    let next = first.0.checked_add(PRODUCER_IDS_PER_BLOCK).ok_or(ControlError::ProducerIdsExhausted)?;
    Ok(vec![MetadataRecord::ProducerIds { first, next: ProducerId(next) }])
}
