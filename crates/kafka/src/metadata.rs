//! Metadata (3): the nodes, and topics with their partitions. Creates missing topics where that is allowed.
//!
//! Topics come from the table of opened ones, so clients can produce to them at once. A topic that this
//! request creates is part of the same answer. Kafka would make the client ask again.

use std::collections::HashSet;
use std::sync::Arc;
use tailrace_env::task;

use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use tailrace_kafka_wire::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use tailrace_metadata::{Command, CreateTopic, Requester, is_internal_topic};
use tailrace_types::TopicId;

use crate::commands::Mode;
use crate::context::Context;
use crate::lookup::legal_name;
use crate::topology;
use tailrace_env::random;
use tailrace_node::partitions::Topic;

/// First version in which null asks for all topics. In version 0 an empty list does.
const NULL_IS_ALL_FROM: i16 = 1;

/// First version whose request and answer may omit the name.
const IDS_FROM: i16 = 12;

/// First version whose clients know LISTENER_NOT_FOUND.
const LISTENER_NOT_FOUND_FROM: i16 = 6;

/// Topics after which other tasks get a turn.
const TURN: usize = 256;

pub(crate) async fn handle(context: Arc<Context>, request: MetadataRequest) -> MetadataResponse {
    let all = match &request.topics {
        None => true,
        Some(topics) => topics.is_empty() && context.version() < NULL_IS_ALL_FROM,
    };
    let asks_operations = request.include_topic_authorized_operations;
    let wanted = request.topics.unwrap_or_default();
    let mut topics = if all {
        all_topics(&context).await
    } else {
        let may_create =
            request.allow_auto_topic_creation && context.node().config().auto_create_topics_enable;
        some_topics(&context, wanted, may_create).await
    };
    let rights = context.rights();
    for topic in &mut topics {
        let name = topic.name.as_deref().unwrap_or_default();
        // As in Kafka, a name that no topic has comes with its operations, and an id that none has without.
        let is_hidden = name.is_empty() || topic.error_code == ErrorCode::TopicAuthorizationFailed.code();
        topic.topic_authorized_operations = rights.topic_operations(asks_operations && !is_hidden, name);
    }
    let brokers = topology::live_nodes(&context).into_iter().map(|node| MetadataResponseBroker {
        node_id: node.id,
        host: node.host,
        port: node.port,
        rack: node.rack,
        ..Default::default()
    });
    MetadataResponse {
        brokers: brokers.collect(),
        cluster_id: Some(context.node().cluster_id().to_owned()),
        controller_id: topology::controller_for(&context),
        topics,
        cluster_authorized_operations: rights
            .cluster_operations(request.include_cluster_authorized_operations),
        ..Default::default()
    }
}

async fn all_topics(context: &Context) -> Vec<MetadataResponseTopic> {
    let table = Arc::clone(&context.node().topics());
    let mut topics = Vec::with_capacity(table.iter().len());
    let (mut charges, rights) = (context.charges(), context.rights());
    let seen = table.iter().filter(|topic| rights.sees_topic(Operation::Describe, topic.name.as_str()));
    for topic in seen {
        let topic = known(context, topic);
        charges.add(bytes_of(&topic)).await;
        topics.push(topic);
        if topics.len() % TURN == 0 {
            task::yield_now().await;
        }
    }
    topics
}

async fn some_topics(
    context: &Context,
    wanted: Vec<MetadataRequestTopic>,
    may_create: bool,
) -> Vec<MetadataResponseTopic> {
    let mut seen = HashSet::new();
    let mut topics = Vec::new();
    let mut charges = context.charges();
    for (number, topic) in wanted.into_iter().enumerate() {
        if number % TURN == TURN - 1 {
            task::yield_now().await;
        }
        // As in Kafka, a repeated topic is answered once.
        if seen.insert((topic.name.clone(), topic.topic_id)) {
            let topic = one_topic(context, topic, may_create).await;
            charges.add(bytes_of(&topic)).await;
            topics.push(topic);
        }
    }
    topics
}

/// Approximate size of a topic in the answer.
fn bytes_of(topic: &MetadataResponseTopic) -> usize {
    const PARTITION_BYTES: usize = 256;
    PARTITION_BYTES * (1 + topic.partitions.len())
}

async fn one_topic(
    context: &Context,
    wanted: MetadataRequestTopic,
    may_create: bool,
) -> MetadataResponseTopic {
    let id = TopicId(wanted.topic_id);
    let ids_allowed = context.version() >= IDS_FROM;
    match wanted.name {
        _ if !id.is_zero() && ids_allowed => {
            let Some(topic) = context.node().topics().by_id(id.0) else {
                return refused_id(id, ErrorCode::UnknownTopicId);
            };
            // Ids are no secrets, but the names behind them are.
            match context.rights().topic(Operation::Describe, topic.name.as_str()) {
                Ok(()) => known(context, &topic),
                Err(code) => refused_id(id, code),
            }
        }
        Some(name) if id.is_zero() => by_name(context, name, may_create).await,
        // Versions 10 and 11 have the field, but brokers never read it. Or the entry has neither a name nor
        // an id.
        name => {
            let name = if ids_allowed { name } else { Some(name.unwrap_or_default()) };
            MetadataResponseTopic {
                error_code: ErrorCode::InvalidRequest.code(),
                name,
                topic_id: id.0,
                ..Default::default()
            }
        }
    }
}

async fn by_name(context: &Context, name: String, may_create: bool) -> MetadataResponseTopic {
    if let Err(code) = context.rights().topic(Operation::Describe, &name) {
        return refused_name(name, code);
    }
    if let Some(topic) = context.node().topics().by_name(&name) {
        return known(context, &topic);
    }
    if let Err(refusal) = legal_name(&name) {
        return unknown(name, refusal.code);
    }
    if !may_create || is_internal_topic(&name) {
        return unknown(name, ErrorCode::UnknownTopicOrPartition);
    }
    if let Err(code) = check_creation(context, &name) {
        return refused_name(name, code);
    }
    let id = TopicId::from_random(random::bytes16());
    let create = CreateTopic::with_defaults(&name, id, context.node().now(), Requester::Client);
    match context.command(context.caller(), Command::CreateTopic(create), Mode::CarryOut).await {
        Ok(_) => {
            tracing::info!(caller = %context.caller(), topic = %name, "created a topic for a client that asked for it")
        }
        // Another client created it first.
        Err(refusal) if refusal.code == ErrorCode::TopicAlreadyExists => {}
        Err(refusal) => {
            let (caller, reason) = (context.caller(), &refusal.message);
            tracing::info!(%caller, topic = %name, reason, "did not create a topic for a client that asked for it");
            // Clients retry, as they do for a topic that was just created.
            let code = match refusal.code {
                ErrorCode::RequestTimedOut | ErrorCode::NotController => ErrorCode::LeaderNotAvailable,
                code => code,
            };
            return unknown(name, code);
        }
    }
    match context.node().topics().by_name(&name) {
        Some(topic) => known(context, &topic),
        None => unknown(name, ErrorCode::UnknownTopicOrPartition),
    }
}

fn unknown(name: String, code: ErrorCode) -> MetadataResponseTopic {
    let is_internal = is_internal_topic(&name);
    MetadataResponseTopic { error_code: code.code(), name: Some(name), is_internal, ..Default::default() }
}

fn check_creation(context: &Context, name: &str) -> Result<(), ErrorCode> {
    let rights = context.rights();
    if rights.sees_cluster(Operation::Create) { Ok(()) } else { rights.topic(Operation::Create, name) }
}

/// The answer for a topic that the client may not see or create. It does not tell whether there is one.
fn refused_name(name: String, code: ErrorCode) -> MetadataResponseTopic {
    MetadataResponseTopic { error_code: code.code(), name: Some(name), ..Default::default() }
}

fn refused_id(id: TopicId, code: ErrorCode) -> MetadataResponseTopic {
    MetadataResponseTopic { error_code: code.code(), name: None, topic_id: id.0, ..Default::default() }
}

fn known(context: &Context, topic: &Topic) -> MetadataResponseTopic {
    let image = context.node().image();
    let error = |code| match code {
        ErrorCode::ListenerNotFound if context.version() < LISTENER_NOT_FOUND_FROM => {
            ErrorCode::LeaderNotAvailable
        }
        code => code,
    };
    let partition = |index| {
        let place = topology::partition_state(context, &image, topic, index);
        MetadataResponsePartition {
            error_code: error(place.error()).code(),
            partition_index: index,
            leader_id: place.leader_id(),
            leader_epoch: place.leader_epoch(),
            replica_nodes: place.replicas,
            isr_nodes: place.in_sync,
            offline_replicas: place.offline,
            ..Default::default()
        }
    };
    MetadataResponseTopic {
        name: Some(topic.name.to_string()),
        topic_id: topic.id.0,
        is_internal: topic.internal,
        partitions: (0..topic.partition_count()).map(partition).collect(),
        ..Default::default()
    }
}
