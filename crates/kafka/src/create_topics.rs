//! CreateTopics (19). Once the response reports a topic as created, clients can produce to it.

use std::collections::HashMap;
use std::sync::Arc;

use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::create_topics_request::{CreatableTopic, CreateTopicsRequest};
use tailrace_kafka_wire::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse,
};
use tailrace_metadata::{Command, CreateTopic, MetadataImage, Requester};
use tailrace_types::{NodeId, TopicId};

use crate::bindings;
use crate::commands::{ITEMS_MAX, Mode, Refusal, in_time};
use crate::context::Context;
use crate::replicas::check_assignment;
use tailrace_env::random;
use tailrace_node::Caller;

/// First version whose clients know THROTTLING_QUOTA_EXCEEDED.
const QUOTA_EXCEEDED_FROM: i16 = 6;

pub(crate) async fn handle(context: Arc<Context>, request: CreateTopicsRequest) -> CreateTopicsResponse {
    let mode = Mode::validate_only(request.validate_only);
    let caller = context.caller_within_ms(request.timeout_ms);
    let mut asked: HashMap<String, usize> = HashMap::new();
    for topic in &request.topics {
        *asked.entry(topic.name.clone()).or_default() += 1;
    }
    let too_many = asked.len() > ITEMS_MAX;
    let mut topics = Vec::with_capacity(asked.len());
    for topic in request.topics {
        let name = topic.name.clone();
        let outcome = match asked.remove(&name) {
            // A repeated name gets one answer, and the topic is not created.
            None => continue,
            Some(2..) => Err(Refusal::invalid_request("Duplicate topic name.")),
            Some(_) if too_many => Err(Refusal::too_many("topics")),
            Some(_) => create(&context, topic, mode, &caller).await,
        };
        topics.push(match outcome {
            Ok(image) if !context.rights().sees_topic(Operation::DescribeConfigs, &name) => {
                without_settings(created(&image, name, mode))
            }
            Ok(image) => created(&image, name, mode),
            Err(refusal) => refused(name, refusal),
        });
    }
    CreateTopicsResponse { topics, throttle_time_ms: context.throttle_time_ms(), ..Default::default() }
}

async fn create(
    context: &Context,
    topic: CreatableTopic,
    mode: Mode,
    caller: &Caller,
) -> Result<Arc<MetadataImage>, Refusal> {
    check_rights(context, &topic.name).map_err(Refusal::unauthorized)?;
    in_time(caller)?;
    let alone = context.node().is_alone().then(|| context.node().id().get());
    let (partitions, replication_factor, assignment) = counts(&topic, alone)?;
    let binds = bindings::concerns(topic.configs.iter().map(|config| config.name.as_str()), false);
    let name = topic.name.clone();
    let command = Command::CreateTopic(CreateTopic {
        name: topic.name,
        id: TopicId::from_random(random::bytes16()),
        partitions,
        replication_factor,
        assignment,
        configs: topic.configs.into_iter().map(|config| (config.name, config.value)).collect(),
        now: context.node().now(),
        by: Requester::Client,
    });
    if binds {
        bindings::check(context, caller, &name, &command).await?;
    }
    if mode == Mode::CarryOut && context.limits_mutations() {
        let image = context.command(caller, command.clone(), Mode::ValidateOnly).await?;
        let partitions = image.topic(&name).map_or(0, |topic| topic.partitions);
        context.mutate(partitions, QUOTA_EXCEEDED_FROM)?;
    }
    let outcome = context.command(caller, command, mode).await;
    outcome.map_err(|refusal| bindings::without_hidden_topic(&context.rights(), refusal))
}

fn check_rights(context: &Context, name: &str) -> Result<(), ErrorCode> {
    let rights = context.rights();
    if rights.sees_cluster(Operation::Create) { Ok(()) } else { rights.topic(Operation::Create, name) }
}

/// Returns the number of partitions and replicas, given as numbers or by a manual assignment. `alone` is set
/// in a standalone server.
fn counts(topic: &CreatableTopic, alone: Option<i32>) -> Result<(i32, i16, Assignment), Refusal> {
    if topic.assignments.is_empty() {
        return Ok((topic.num_partitions, topic.replication_factor, None));
    }
    let refuse = |what| {
        let message = format!("A manual partition assignment was specified, but {what} was not set to -1.");
        Err(Refusal::invalid_request(message))
    };
    if topic.replication_factor != -1 {
        return refuse("replication factor");
    }
    if topic.num_partitions != -1 {
        return refuse("numPartitions");
    }
    let assignment = topic.assignments.iter().map(|a| (a.partition_index, a.broker_ids.as_slice()));
    let count = check_assignment(assignment, alone)?;
    if alone.is_some() {
        return Ok((count, 1, None));
    }
    let mut by_number: Vec<_> = topic.assignments.iter().collect();
    by_number.sort_by_key(|assignment| assignment.partition_index);
    let nodes = by_number.into_iter().map(|a| a.broker_ids.iter().copied().map(NodeId).collect());
    Ok((-1, -1, Some(nodes.collect())))
}

/// The nodes of each partition's replicas, if the client assigns them.
type Assignment = Option<Vec<Vec<NodeId>>>;

fn created(image: &MetadataImage, name: String, mode: Mode) -> CreatableTopicResult {
    let Some(topic) = image.topic(&name) else {
        return refused(name, Refusal::new(ErrorCode::UnknownServerError, "The topic was not created."));
    };
    // A topic that was only validated has no id.
    let id = if mode == Mode::CarryOut { topic.id } else { TopicId::ZERO };
    let configs =
        image.describe_topic(&name).unwrap_or_default().into_iter().map(|config| CreatableTopicConfigs {
            name: config.name.to_owned(),
            value: config.value,
            read_only: config.read_only,
            config_source: config.source as i8,
            is_sensitive: config.sensitive,
            ..Default::default()
        });
    CreatableTopicResult {
        topic_id: id.0,
        error_message: None,
        num_partitions: topic.partitions,
        replication_factor: topic.replication_factor,
        configs: Some(configs.collect()),
        name,
        ..Default::default()
    }
}

/// The answer for a client that may not see the topic's settings, among which Kafka counts these numbers.
fn without_settings(created: CreatableTopicResult) -> CreatableTopicResult {
    if created.error_code != ErrorCode::None.code() {
        return created;
    }
    CreatableTopicResult {
        num_partitions: -1,
        replication_factor: -1,
        configs: Some(Vec::new()),
        topic_config_error_code: ErrorCode::TopicAuthorizationFailed.code(),
        ..created
    }
}

fn refused(name: String, refusal: Refusal) -> CreatableTopicResult {
    CreatableTopicResult {
        name,
        error_code: refusal.code.code(),
        error_message: Some(refusal.message),
        ..Default::default()
    }
}
