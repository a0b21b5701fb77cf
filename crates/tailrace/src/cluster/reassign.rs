//! `tailrace cluster reassign`.

use std::process::ExitCode;

use serde_json::json;
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};
use tailrace_kafka_wire::messages::IncrementalAlterConfigsRequest;
use tailrace_kafka_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};

use super::arguments::ReassignArguments;
use super::moves::{self, Moves, Which};
use crate::client::{
    ClientError, Cluster, RESOURCE_BROKER, RESOURCE_TOPIC, Topic, check, find_topics, retrying,
};

const SET: i8 = 0;
const DELETE: i8 = 1;

/// The settings of Kafka's throttle: those of nodes, then those of topics.
const RATES: [&str; 2] = ["leader.replication.throttled.rate", "follower.replication.throttled.rate"];
const REPLICAS: [&str; 2] =
    ["leader.replication.throttled.replicas", "follower.replication.throttled.replicas"];

pub(super) async fn run(cluster: &mut Cluster, arguments: &ReassignArguments) -> Result<ExitCode, Failure> {
    let moves = plan(cluster, arguments).await?;
    let which: Vec<Which> = moves.keys().cloned().collect();
    if !moves.is_empty() {
        if let Some(rate) = arguments.throttle {
            throttle(cluster, &arguments.topic, Some(rate)).await?;
        }
        moves::begin(cluster, &moves).await?;
    }
    let done = match arguments.wait {
        Some(patience) => Some(moves::finished(cluster, &which, patience).await?),
        None => None,
    };
    if arguments.throttle.is_some() && done == Some(true) {
        throttle(cluster, &arguments.topic, None).await?;
    }
    tell(arguments, &moves, done)?;
    Ok(if done == Some(false) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn plan(cluster: &mut Cluster, arguments: &ReassignArguments) -> Result<Moves, Failure> {
    let wanted = find_topics(cluster, &arguments.topic).await?;
    let (all, nodes) = moves::look(cluster).await?;
    let under_way = moves::under_way(cluster).await?;
    let mut places = moves::places(&all, nodes, None);
    let mut moves = Moves::new();
    for topic in &wanted {
        for partition in chosen(topic, &arguments.partition)? {
            let which = Which::new(&topic.name, partition.index);
            if arguments.cancel {
                if under_way.contains_key(&which) {
                    moves.insert(which, None);
                }
                continue;
            }
            let replicas = match arguments.replication_factor.map(usize::from) {
                None => arguments.replicas.clone(),
                Some(count) => places.fit(&partition.replicas, count).ok_or_else(|| {
                    format!("{count} replicas need as many nodes, and there are {}", places.len())
                })?,
            };
            if replicas != partition.replicas || under_way.contains_key(&which) {
                moves.insert(which, Some(replicas));
            }
        }
    }
    Ok(moves)
}

fn chosen<'a>(topic: &'a Topic, numbers: &[i32]) -> Result<Vec<&'a crate::client::Partition>, Failure> {
    if numbers.is_empty() {
        return Ok(topic.partitions.iter().collect());
    }
    let find = |number: &i32| {
        let found = topic.partitions.iter().find(|partition| partition.index == *number);
        found.ok_or_else(|| topic.no_partition(*number).into())
    };
    numbers.iter().map(find).collect()
}

fn tell(arguments: &ReassignArguments, moves: &Moves, done: Option<bool>) -> Result<(), Failure> {
    let state = match (moves.is_empty(), done) {
        (true, _) => "nothing to move",
        (_, None) => "begun",
        (_, Some(true)) => "done",
        (_, Some(false)) => "still under way",
    };
    match arguments.common.output {
        Output::Json => {
            let moved = moves.iter().map(|(which, replicas)| {
                json!({ "topic": which.topic, "partition": which.partition, "replicas": replicas })
            });
            print_json(&json!({ "state": state, "moves": moved.collect::<Vec<_>>() }))
        }
        Output::Text => {
            let mut out = String::new();
            for (which, replicas) in moves {
                let nodes = replicas
                    .as_ref()
                    .map(|nodes| nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
                let to =
                    nodes.map_or_else(|| "back to where it was".to_owned(), |nodes| format!("to {nodes}"));
                out += &format!("{which} {to}\n");
            }
            print(&format!("{out}{state}\n"))
        }
    }
}

/// Sets Kafka's throttle on all nodes and for all replicas of the topics, or lifts it.
async fn throttle(cluster: &mut Cluster, topics: &[String], rate: Option<u64>) -> Result<(), ClientError> {
    cluster.metadata(Some(&[]), false).await?;
    let config = |name: &str, value: Option<String>| AlterableConfig {
        name: name.to_owned(),
        config_operation: if value.is_some() { SET } else { DELETE },
        value,
        ..Default::default()
    };
    let rates = || RATES.map(|name| config(name, rate.map(|rate| rate.to_string()))).to_vec();
    let replicas = || REPLICAS.map(|name| config(name, rate.map(|_| "*".to_owned()))).to_vec();
    let resource = |resource_type, resource_name, configs| AlterConfigsResource {
        resource_type,
        resource_name,
        configs,
        ..Default::default()
    };
    let nodes = cluster.node_ids().into_iter();
    let mut resources: Vec<_> =
        nodes.map(|node| resource(RESOURCE_BROKER, node.to_string(), rates())).collect();
    resources.extend(topics.iter().map(|topic| resource(RESOURCE_TOPIC, topic.clone(), replicas())));
    let request = IncrementalAlterConfigsRequest { resources, ..Default::default() };
    retrying(cluster, async |cluster| {
        let answer = cluster.controller().await?.call(&request).await?;
        answer.responses.iter().try_for_each(|result| {
            let what = || format!("cannot set the throttle of '{}'", result.resource_name);
            check(result.error_code, result.error_message.as_ref(), what)
        })
    })
    .await
}
