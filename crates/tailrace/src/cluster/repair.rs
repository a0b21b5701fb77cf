//! `tailrace cluster repair`: shows damage on running nodes, and gives up records that no replica has any
//! more.

use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tailrace_cli::failure::{Failure, Status, note};
use tailrace_cli::output::{Output, print, print_json};

use super::arguments::RepairArguments;
use super::pages::{Pages, ask, cell, list};
use super::scrub::set_on_all;
use super::wait::POLL_INTERVAL;
use crate::client::{Cluster, find_topic};

const REQUEST: &str = "tailrace.repair.request";

/// Damage on one node.
struct Damaged {
    node: i64,
    partition: String,
    state: String,
    reason: String,
}

impl Damaged {
    /// Reports whether the records can be given up. Other damage needs no decision: another replica may have
    /// the records, or it is of another kind.
    fn can_be_given_up(&self) -> bool {
        self.state.starts_with("not repaired")
    }
}

pub(super) async fn run(cluster: &mut Cluster, arguments: &RepairArguments) -> Result<ExitCode, Failure> {
    let site = arguments.pages.site(&arguments.common, cluster.login())?;
    let topic = find_topic(cluster, &arguments.topic).await?;
    if let Some(partition) =
        arguments.partition.filter(|number| !topic.partitions.iter().any(|p| p.index == *number))
    {
        return Err(format!("topic '{}' has no partition {partition}", arguments.topic).into());
    }
    let timeout = arguments.common.connect.timeout;
    let before = damaged(&ask(&site, timeout).await?, arguments);
    let to_go = before.iter().filter(|damaged| damaged.can_be_given_up()).count();
    if !(arguments.give_up && arguments.execute) || to_go == 0 {
        return tell(arguments, &before, 0);
    }
    set_on_all(cluster, REQUEST, &word(arguments), "cannot ask for the repair").await?;
    let began = Instant::now();
    loop {
        let left = damaged(&ask(&site, timeout).await?, arguments);
        let waits = left.iter().any(Damaged::can_be_given_up);
        if !waits || began.elapsed() >= arguments.wait {
            if waits {
                note("some of it is still damaged: see the logs of those nodes");
            }
            return tell(arguments, &left, before.len().saturating_sub(left.len()));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The value of the request: a number that was never used, the topic and the partition.
fn word(arguments: &RepairArguments) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let partition = arguments.partition.map_or_else(String::new, |partition| format!(":{partition}"));
    format!("{now}:{}{partition}", arguments.topic)
}

fn damaged(pages: &Pages, arguments: &RepairArguments) -> Vec<Damaged> {
    let is_meant = |name: &str| match (name.rsplit_once('-'), arguments.partition) {
        (Some((topic, number)), Some(partition)) => {
            topic == arguments.topic && number == partition.to_string()
        }
        (Some((topic, _)), None) => topic == arguments.topic,
        (None, _) => false,
    };
    let of_page = |node: i64, page: &Value| {
        let all = list(page, "damaged").map(move |found| Damaged {
            node,
            partition: cell(&found["partition"]),
            state: cell(&found["state"]),
            reason: cell(&found["reason"]),
        });
        all.filter(|damaged| is_meant(&damaged.partition)).collect::<Vec<_>>()
    };
    let pages = pages.all.iter().filter_map(|(node, page)| Some((*node, page.as_ref().ok()?)));
    pages.flat_map(|(node, page)| of_page(node, page)).collect()
}

fn tell(arguments: &RepairArguments, left: &[Damaged], given_up: usize) -> Result<ExitCode, Failure> {
    match arguments.common.output {
        Output::Json => print_json(&json!({
            "whole": left.is_empty(),
            "given_up": given_up,
            "damaged": left.iter().map(|damaged| json!({
                "node": damaged.node,
                "partition": damaged.partition,
                "state": damaged.state,
                "reason": damaged.reason,
                "can_be_given_up": damaged.can_be_given_up(),
            })).collect::<Vec<_>>(),
        }))?,
        Output::Text => {
            for damaged in left {
                print(&format!(
                    "node {}: {} is {}: {}\n",
                    damaged.node, damaged.partition, damaged.state, damaged.reason
                ))?;
            }
            print(&summary(arguments, left, given_up))?;
        }
    }
    Ok(if left.is_empty() { ExitCode::SUCCESS } else { Status::Failed.into() })
}

fn summary(arguments: &RepairArguments, left: &[Damaged], given_up: usize) -> String {
    let topic = &arguments.topic;
    match (left.len(), given_up) {
        (0, 0) => format!(
            "the nodes know of no damage in {topic}; `tailrace cluster scrub` makes them read all of it\n"
        ),
        (0, given_up) => format!("given up: {given_up} damaged places of {topic}\n"),
        (count, 0) if left.iter().any(Damaged::can_be_given_up) => format!(
            "{count} damaged places; nothing was changed. Put the right bytes back, restore from a copy with `tailrace log repair`, or \
             give them up with --give-up --execute\n"
        ),
        (count, 0) => format!(
            "{count} damaged places; there is nothing to give up: other replicas have the records, or a node must be repaired\n"
        ),
        (count, given_up) => format!("given up: {given_up} damaged places of {topic}; {count} are left\n"),
    }
}
