//! `tailrace cluster scrub`.

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tailrace_cli::failure::{Failure, Status, note};
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::units;
use tailrace_kafka_wire::messages::IncrementalAlterConfigsRequest;
use tailrace_kafka_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};

use super::arguments::ScrubArguments;
use super::pages::{Pages, ask, cell, list};
use super::scrub_report::{Outcome, Progress, Watch, damaged_files, found_in, number};
use super::wait::POLL_INTERVAL;
use crate::client::{ClientError, Cluster, RESOURCE_BROKER, check, find_topic, retrying};
use crate::interrupt::{FINISH, Interrupt, Stop, ended};

const REQUEST: &str = "tailrace.scrub.request";

/// Longest time for a node to learn of the request.
const BEGIN_MAX: Duration = Duration::from_secs(15);

pub(super) async fn run(cluster: &mut Cluster, arguments: &ScrubArguments) -> Result<ExitCode, Failure> {
    let site = arguments.pages.site(&arguments.common, cluster.login())?;
    if let Some(topic) = &arguments.topic {
        find_topic(cluster, topic).await?;
    }
    let timeout = arguments.common.connect.timeout;
    let reachable: Vec<_> =
        ask(&site, timeout).await?.all.into_iter().filter(|(_, page)| page.is_ok()).collect();
    let reachable: Vec<i64> = reachable.into_iter().map(|(node, _)| node).collect();
    let request = word(arguments);
    set_on_all(cluster, REQUEST, &request, "cannot start scrubbing").await?;
    let mut interrupt = Interrupt::install(FINISH)?;
    let began = Instant::now();
    let mut watch = Watch::new(arguments.rate.is_none());
    loop {
        let pages = tokio::select! {
            pages = ask(&site, timeout) => pages?,
            stop = interrupt.wait() => return Ok(leave(&mut watch, stop)),
        };
        let working: Vec<i64> =
            reachable.iter().copied().filter(|node| !is_done(&pages, *node, &request, began)).collect();
        let is_late = arguments.wait.is_some_and(|wait| began.elapsed() >= wait);
        if working.is_empty() || is_late {
            watch.clear();
            return tell(arguments, &pages, &request, working.is_empty());
        }
        watch.show(&Progress::of(&pages, &request, reachable.len(), working.len()));
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            stop = interrupt.wait() => return Ok(leave(&mut watch, stop)),
        }
    }
}

fn leave(watch: &mut Watch, stop: Stop) -> ExitCode {
    watch.clear();
    note("the nodes continue scrubbing; `tailrace cluster status` shows their progress");
    ended(Some(stop))
}

/// The value of the request: a number that was never used, the rate and the topic.
fn word(arguments: &ScrubArguments) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let rate = arguments.rate.map_or_else(String::new, |rate| format!("@{rate}"));
    let topic = arguments.topic.as_ref().map_or_else(String::new, |topic| format!(":{topic}"));
    format!("{now}{rate}{topic}")
}

/// Sets a setting on all nodes, which read it as a request. `failure` is the start of the error message.
pub(super) async fn set_on_all(
    cluster: &mut Cluster,
    name: &str,
    value: &str,
    failure: &str,
) -> Result<(), ClientError> {
    let config = AlterableConfig {
        name: name.to_owned(),
        config_operation: 0,
        value: Some(value.to_owned()),
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
            check(result.error_code, result.error_message.as_ref(), || failure.to_owned())
        })
    })
    .await
}

/// Reports whether a node has finished the request. A node counts as finished if it has died, or never learns
/// of the request.
fn is_done(pages: &Pages, node: i64, request: &str, began: Instant) -> bool {
    let page = pages.all.iter().find(|(id, _)| *id == node).and_then(|(_, page)| page.as_ref().ok());
    let Some(scrub) = page.map(|page| &page["scrub"]) else { return true };
    if is_its(scrub, request) {
        scrub["running"].as_bool() == Some(false)
    } else {
        began.elapsed() >= BEGIN_MAX
    }
}

fn is_its(scrub: &Value, request: &str) -> bool {
    scrub["request"].as_str() == Some(request)
}

fn tell(arguments: &ScrubArguments, pages: &Pages, request: &str, done: bool) -> Result<ExitCode, Failure> {
    let of_node = |node: i64, page: &Result<Value, String>| match page {
        Ok(page) if is_its(&page["scrub"], request) => json!({ "node": node, "scrub": page["scrub"] }),
        Ok(_) => {
            json!({ "node": node, "error": "it has not started, was restarted, or is serving a later request" })
        }
        Err(error) => json!({ "node": node, "error": error }),
    };
    let reports: Vec<Value> = pages.all.iter().map(|(node, page)| of_node(*node, page)).collect();
    let result = Outcome::of(&reports, pages);
    match arguments.common.output {
        Output::Json => print_json(&json!({
            "done": done,
            "complete": result.is_complete(),
            "found": result.found,
            "partitions": result.partitions,
            "bytes": result.bytes,
            "not_mended": result.not_mended,
            "nodes": reports,
        }))?,
        Output::Text => print(&(text(&reports) + &result.line()))?,
    }
    Ok(if done && result.is_complete() { ExitCode::SUCCESS } else { Status::Failed.into() })
}

fn text(reports: &[Value]) -> String {
    let mut out = String::new();
    for report in reports {
        let (node, scrub) = (cell(&report["node"]), &report["scrub"]);
        if let Some(error) = report["error"].as_str() {
            out += &format!("node {node}: {error}\n");
            continue;
        }
        let whole = number(&scrub["partitions_done"]);
        let bytes = units::bytes(number(&scrub["bytes_done"]) as f64);
        let time = units::duration(number(&scrub["elapsed_ms"]) as f64 / 1e3);
        let found = damaged_files(found_in(scrub));
        out += &format!("node {node}: {}, {bytes} in {time}, {found}\n", units::plural(whole, "partition"));
        for damage in list(scrub, "found") {
            let [file, position, reason] = ["file", "position", "reason"].map(|name| cell(&damage[name]));
            out += &format!("  {}: {file} at byte {position}: {reason}\n", cell(&damage["partition"]));
        }
        for partition in list(scrub, "not_read") {
            out += &format!(
                "  {} was NOT READ: {}\n",
                cell(&partition["partition"]),
                cell(&partition["reason"])
            );
        }
    }
    out
}
