//! `tailrace cluster scrub`.

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tailrace_kafka_wire::messages::IncrementalAlterConfigsRequest;
use tailrace_kafka_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};

use super::pages::{Pages, ask, cell, list};
use super::{LOOK, ScrubArguments};
use crate::args::Output;
use crate::client::{ClientError, Cluster, RESOURCE_BROKER, check, find_topic, retrying};
use crate::failure::{Failure, note};
use crate::output::{print, print_json};

const REQUEST: &str = "tailrace.scrub.request";

/// How long a node may take to hear of the request.
const BEGIN_MAX: Duration = Duration::from_secs(15);

pub(super) async fn run(cluster: &mut Cluster, arguments: &ScrubArguments) -> Result<ExitCode, Failure> {
    let site = arguments.pages.site(&arguments.common)?;
    if let Some(topic) = &arguments.topic {
        find_topic(cluster, topic).await?;
    }
    let timeout = arguments.common.connect.timeout;
    let reachable: Vec<_> =
        ask(&site, timeout).await?.all.into_iter().filter(|(_, page)| page.is_ok()).collect();
    let reachable: Vec<i64> = reachable.into_iter().map(|(node, _)| node).collect();
    let request = word(arguments.topic.as_deref());
    begin(cluster, &request).await?;
    let began = Instant::now();
    let mut before = String::new();
    loop {
        let pages = ask(&site, timeout).await?;
        let working: Vec<i64> =
            reachable.iter().copied().filter(|node| !is_done(&pages, *node, &request, began)).collect();
        if working.is_empty() || began.elapsed() >= arguments.wait {
            return tell(arguments, &pages, &request, working.is_empty());
        }
        let progress = format!("{} of {} nodes are done", reachable.len() - working.len(), reachable.len());
        if progress != before {
            note(&progress);
            before = progress;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// One that was never used.
fn word(topic: Option<&str>) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    topic.map_or_else(|| now.to_string(), |topic| format!("{now}:{topic}"))
}

async fn begin(cluster: &mut Cluster, request: &str) -> Result<(), ClientError> {
    let config = AlterableConfig {
        name: REQUEST.to_owned(),
        config_operation: 0,
        value: Some(request.to_owned()),
        ..Default::default()
    };
    let resource = AlterConfigsResource {
        resource_type: RESOURCE_BROKER,
        resource_name: String::new(),
        configs: vec![config],
        ..Default::default()
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    retrying(cluster, async |cluster| {
        let answer = cluster.controller().await?.call(&request).await?;
        answer.responses.iter().try_for_each(|result| {
            check(result.error_code, result.error_message.as_ref(), || "cannot begin to scrub".to_owned())
        })
    })
    .await
}

/// A node that has died meanwhile, or never hears of it, holds nobody up.
fn is_done(pages: &Pages, node: i64, request: &str, began: Instant) -> bool {
    let page = pages.all.iter().find(|(id, _)| *id == node).and_then(|(_, page)| page.as_ref().ok());
    let Some(scrub) = page.map(|page| &page["scrub"]) else { return true };
    let is_its = scrub["request"].as_str() == Some(request);
    if is_its { scrub["running"].as_bool() == Some(false) } else { began.elapsed() >= BEGIN_MAX }
}

fn tell(arguments: &ScrubArguments, pages: &Pages, request: &str, done: bool) -> Result<ExitCode, Failure> {
    let of_node = |node: i64, page: &Result<Value, String>| match page {
        Ok(page) if page["scrub"]["request"].as_str() == Some(request) => {
            json!({ "node": node, "scrub": page["scrub"] })
        }
        Ok(_) => json!({ "node": node, "error": "it has not begun" }),
        Err(error) => json!({ "node": node, "error": error }),
    };
    let reports: Vec<Value> = pages.all.iter().map(|(node, page)| of_node(*node, page)).collect();
    let found: usize = reports.iter().map(|report| list(&report["scrub"], "found").count()).sum();
    match arguments.common.output {
        Output::Json => print_json(&json!({ "done": done, "found": found, "nodes": reports }))?,
        Output::Text => print(&text(&reports))?,
    }
    Ok(if done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn text(reports: &[Value]) -> String {
    let mut out = String::new();
    for report in reports {
        let (node, scrub) = (cell(&report["node"]), &report["scrub"]);
        if let Some(error) = report["error"].as_str() {
            out += &format!("node {node}: {error}\n");
            continue;
        }
        let (partitions, bytes) = (cell(&scrub["partitions_done"]), cell(&scrub["bytes_done"]));
        let found = list(scrub, "found").count();
        out += &format!("node {node}: {partitions} partitions, {bytes} bytes, {found} damaged files\n");
        for damage in list(scrub, "found") {
            let [file, position, reason] = ["file", "position", "reason"].map(|name| cell(&damage[name]));
            out += &format!("  {}: {file} at byte {position}: {reason}\n", cell(&damage["partition"]));
        }
    }
    out
}
