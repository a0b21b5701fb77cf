//! `tailrace cluster decommission`.

use std::process::ExitCode;
use std::time::Instant;

use serde_json::json;
use tailrace_cli::failure::{Failure, note};
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::units::plural;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::UnregisterBrokerRequest;

use super::arguments::DecommissionArguments;
use super::moves::{self, Moves, Which};
use super::placement::Placement;
use super::wait::POLL_INTERVAL;
use crate::client::{ClientError, Cluster, check, retrying};

pub(super) async fn run(
    cluster: &mut Cluster,
    arguments: &DecommissionArguments,
) -> Result<ExitCode, Failure> {
    if arguments.cancel {
        return cancel(cluster, arguments).await;
    }
    if !is_known(cluster, arguments.node).await? {
        match unregister(cluster, arguments.node).await? {
            Unregistered::Done => return tell(arguments, 0, "unregistered", ExitCode::SUCCESS),
            Unregistered::Unknown => return Err(no_node(arguments.node)),
            Unregistered::There => {}
        }
    }
    let began = Instant::now();
    let left = || arguments.wait.saturating_sub(began.elapsed());
    let mut moved = 0;
    // A topic may be created meanwhile.
    loop {
        let (moves, waiting) = plan(cluster, arguments).await?;
        if waiting.is_empty() {
            break;
        }
        if !moves.is_empty() {
            moves::begin(cluster, &moves).await?;
        }
        if !moves::finished(cluster, &waiting, left()).await? {
            return tell(arguments, moved, "still moving", ExitCode::FAILURE);
        }
        moved += waiting.len();
    }
    note(&format!(
        "node {} no longer holds replicas: stop it now, and it will be unregistered",
        arguments.node
    ));
    loop {
        // The node was known before. If the controller does not know it, an earlier request unregistered it,
        // and its response was lost.
        if unregister(cluster, arguments.node).await? != Unregistered::There {
            return tell(arguments, moved, "unregistered", ExitCode::SUCCESS);
        }
        if left().is_zero() {
            return tell(arguments, moved, "empty, but still registered", ExitCode::FAILURE);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn tell(
    arguments: &DecommissionArguments,
    moved: usize,
    state: &str,
    code: ExitCode,
) -> Result<ExitCode, Failure> {
    let node = arguments.node;
    match arguments.common.output {
        Output::Text => {
            let moved = plural(moved as u64, "partition");
            print(&format!("node {node}: {moved} moved, {state}\n"))?;
        }
        Output::Json => print_json(&json!({ "node": node, "partitions_moved": moved, "state": state }))?,
    }
    Ok(code)
}

/// Plans moves for all replicas that are on the node or about to be. Also returns the partitions that are
/// then moving off it.
async fn plan(
    cluster: &mut Cluster,
    arguments: &DecommissionArguments,
) -> Result<(Moves, Vec<Which>), Failure> {
    let (topics, nodes) = moves::look(cluster).await?;
    let mut places = moves::places(&topics, nodes, Some(arguments.node));
    let under_way = moves::under_way(cluster).await?;
    let (mut moves, mut waiting) = (Moves::new(), Vec::new());
    for topic in &topics {
        for partition in &topic.partitions {
            let which = Which::new(&topic.name, partition.index);
            let removing = under_way.get(&which).cloned().unwrap_or_default();
            let target: Vec<i32> =
                partition.replicas.iter().copied().filter(|node| !removing.contains(node)).collect();
            if target.contains(&arguments.node) {
                let nodes = elsewhere(&mut places, &target, arguments)
                    .ok_or_else(|| no_room(&which, target.len(), &places, arguments.node))?;
                moves.insert(which.clone(), Some(nodes));
            } else if !removing.contains(&arguments.node) {
                continue;
            }
            waiting.push(which);
        }
    }
    Ok((moves, waiting))
}

fn elsewhere(places: &mut Placement, target: &[i32], arguments: &DecommissionArguments) -> Option<Vec<i32>> {
    let count = if arguments.fewer { target.len().min(places.len()) } else { target.len() };
    places.fit(target, count).filter(|nodes| !nodes.is_empty())
}

fn no_room(which: &Which, count: usize, places: &Placement, node: i32) -> String {
    format!(
        "{which} has {count} replicas, and without node {node} there are {} nodes: add a node, or use --fewer",
        places.len()
    )
}

/// Reports whether the node is registered, has replicas, or is about to lose some. Only the controller knows
/// a node that is stopped and empty.
async fn is_known(cluster: &mut Cluster, node: i32) -> Result<bool, Failure> {
    let (topics, nodes) = moves::look(cluster).await?;
    let mut partitions = topics.iter().flat_map(|topic| &topic.partitions);
    Ok(nodes.iter().any(|(id, _)| *id == node)
        || partitions.any(|partition| partition.replicas.contains(&node))
        || moves::under_way(cluster).await?.values().any(|removing| removing.contains(&node)))
}

fn no_node(node: i32) -> Failure {
    format!("there is no node {node}; `tailrace cluster status` shows all nodes").into()
}

/// The outcome of an attempt to unregister a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unregistered {
    Done,
    /// The node still runs.
    There,
    /// The controller knows no node with this id.
    Unknown,
}

async fn unregister(cluster: &mut Cluster, node: i32) -> Result<Unregistered, ClientError> {
    let request = UnregisterBrokerRequest { broker_id: node, ..Default::default() };
    retrying(cluster, async |cluster| {
        let answer = cluster.controller().await?.call(&request).await?;
        if answer.error_code == ErrorCode::InvalidRequest.code() {
            return Ok(Unregistered::There);
        }
        if answer.error_code == ErrorCode::BrokerIdNotRegistered.code() {
            return Ok(Unregistered::Unknown);
        }
        check(answer.error_code, answer.error_message.as_ref(), || format!("cannot unregister node {node}"))?;
        Ok(Unregistered::Done)
    })
    .await
}

async fn cancel(cluster: &mut Cluster, arguments: &DecommissionArguments) -> Result<ExitCode, Failure> {
    if !is_known(cluster, arguments.node).await? {
        return Err(no_node(arguments.node));
    }
    let moves: Moves = moves::under_way(cluster)
        .await?
        .into_iter()
        .filter(|(_, removing)| removing.contains(&arguments.node))
        .map(|(which, _)| (which, None))
        .collect();
    if moves.is_empty() {
        return tell(arguments, 0, "nothing to cancel", ExitCode::SUCCESS);
    }
    moves::begin(cluster, &moves).await?;
    tell(arguments, moves.len(), "cancelled", ExitCode::SUCCESS)
}
