//! `tailrace cluster status`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::{Value, json};
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::table::Table;
use tailrace_cli::text::units::{self, runs};

use super::arguments::StatusArguments;
use super::pages::{Pages, ask, cell, list};

pub(super) async fn run(arguments: &StatusArguments) -> Result<ExitCode, Failure> {
    let login = arguments.common.connect.sasl.load()?;
    let site = arguments.pages.site(&arguments.common, login.as_ref())?;
    let pages = ask(&site, arguments.common.connect.timeout).await?;
    match arguments.common.output {
        Output::Json => print_json(&as_json(&pages))?,
        Output::Text => print(&as_text(&pages))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The first node's page, with each other node's own parts merged in.
fn as_json(pages: &Pages) -> Value {
    let mut whole = pages.first.clone();
    for own in ["node", "damaged", "scrub"] {
        whole.as_object_mut().map(|page| page.remove(own));
    }
    let reports = pages.all.iter().map(|(node, page)| match page {
        Ok(page) => json!({ "node": node, "damaged": page["damaged"], "scrub": page["scrub"] }),
        Err(error) => json!({ "node": node, "error": error }),
    });
    whole["reports"] = reports.collect();
    whole
}

fn as_text(pages: &Pages) -> String {
    let page = &pages.first;
    let (controller, partitions) = (&page["controller"], &page["partitions"]);
    let mut out = String::new();
    // Writing to memory does not fail.
    let _ = writeln!(out, "cluster {}, level {}", cell(&page["cluster_id"]), cell(&page["level"]));
    let is_alone = controller["leader"].is_null() && list(page, "nodes").count() == 1;
    let _ = match is_alone {
        true => writeln!(out, "one node, which is its own controller"),
        false => writeln!(
            out,
            "controller: leader {}, voters {}, learners {}",
            or_none(&controller["leader"]),
            cell(&controller["voters"]),
            or_none(&controller["learners"])
        ),
    };
    let _ = writeln!(
        out,
        "partitions: {}, without a leader {}, with replicas missing {}",
        cell(&partitions["total"]),
        cell(&partitions["leaderless_total"]),
        cell(&partitions["under_replicated_total"])
    );
    out.push_str(&nodes(page));
    for (title, name) in [("WITHOUT A LEADER", "leaderless"), ("REPLICAS MISSING", "under_replicated")] {
        for partitions in by_topic(list(partitions, name)) {
            let _ = writeln!(out, "{title}: {partitions}");
        }
    }
    for moving in list(page, "reassignments") {
        let _ = writeln!(
            out,
            "MOVING: {} to {}, adding {}, removing {}",
            cell(&moving["partition"]),
            cell(&moving["replicas"]),
            or_none(&moving["adding"]),
            or_none(&moving["removing"])
        );
    }
    for (node, page) in &pages.all {
        out.push_str(&report(*node, page.as_ref()));
    }
    out
}

fn or_none(value: &Value) -> String {
    let text = Some(cell(value)).filter(|text| !text.is_empty() && !value.is_null());
    text.unwrap_or_else(|| "none".to_owned())
}

/// `orders-0`, or `orders 0-2,5` for several partitions of a topic: internal topics have fifty.
fn by_topic<'a>(names: impl Iterator<Item = &'a Value>) -> Vec<String> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    let mut others = Vec::new();
    for name in names {
        let parts = name.as_str().and_then(|name| name.rsplit_once('-'));
        match parts.and_then(|(topic, number)| Some((topic, number.parse().ok()?))) {
            Some((topic, number)) => topics.entry(topic).or_default().push(number),
            None => others.push(cell(name)),
        }
    }
    let line = |(topic, mut numbers): (&str, Vec<i32>)| {
        numbers.sort_unstable();
        match numbers[..] {
            [number] => format!("{topic}-{number}"),
            _ => format!("{topic} {}", runs(&numbers)),
        }
    };
    topics.into_iter().map(line).chain(others).collect()
}

fn nodes(page: &Value) -> String {
    let head = ["NODE", "STATE", "KAFKA", "NODES", "HTTP", "RACK", "LEVELS", "LEADERS", "REPLICAS"];
    let mut rows = Vec::new();
    for node in list(page, "nodes") {
        let state = if node["fenced"].as_bool().unwrap_or(false) { "gone" } else { "there" };
        let mut cells = vec![cell(&node["id"]), state.to_owned()];
        let fields = ["kafka", "cluster", "http", "rack"];
        cells.extend(fields.iter().map(|field| cell(&node[*field])));
        cells.push(cell(&node["levels"]).replace(',', "-"));
        cells.extend(["leaders", "replicas"].iter().map(|field| cell(&node[*field])));
        rows.push(cells);
    }
    // A column that is empty for every node is left out, for example racks, or the addresses of a standalone
    // node.
    let shown: Vec<usize> =
        (0..head.len()).filter(|&column| rows.iter().any(|row: &Vec<String>| row[column] != "-")).collect();
    let mut table = Table::new(2, &shown.iter().map(|&column| head[column]).collect::<Vec<_>>());
    for row in rows {
        table.row(shown.iter().map(|&column| row[column].clone()).collect());
    }
    table.render()
}

fn report(node: i64, page: Result<&Value, &String>) -> String {
    let page = match page {
        Ok(page) => page,
        Err(error) => return format!("node {node} does not answer: {error}\n"),
    };
    let mut out = String::new();
    for damaged in list(page, "damaged") {
        let (partition, state) = (cell(&damaged["partition"]), cell(&damaged["state"]));
        let _ = writeln!(out, "DAMAGED on node {node}: {partition}, {state}: {}", cell(&damaged["reason"]));
    }
    let scrub = &page["scrub"];
    if scrub["running"].as_bool().unwrap_or(false) {
        let _ = writeln!(
            out,
            "node {node} is scrubbing: {} of {} partitions, {} of {}",
            cell(&scrub["partitions_done"]),
            cell(&scrub["partitions"]),
            units::bytes(scrub["bytes_done"].as_f64().unwrap_or(0.0)),
            units::bytes(scrub["bytes"].as_f64().unwrap_or(0.0))
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(page: Value) -> Pages {
        Pages { first: page.clone(), all: vec![(1, Ok(page))] }
    }

    #[test]
    fn a_standalone_node_shows_no_dashes() {
        let page = json!({
            "node": 1, "cluster_id": "c", "level": 0,
            "nodes": [{ "id": 1, "fenced": false, "leaders": 101, "replicas": 101 }],
            "controller": { "leader": null, "voters": [1], "learners": [] },
            "partitions": { "total": 101, "leaderless_total": 0, "under_replicated_total": 0 },
        });
        let text = as_text(&pages(page));
        assert!(!text.contains(" -"), "{text}");
        assert!(text.contains("\none node, which is its own controller\n"), "{text}");
        assert!(text.contains("NODE  STATE  LEADERS  REPLICAS\n"), "{text}");
    }

    #[test]
    fn a_cluster_shows_what_any_node_has_and_a_line_per_topic() {
        let node = |id: i32, rack: Option<&str>| {
            json!({
                "id": id, "fenced": false, "kafka": "h:1", "cluster": "h:2", "http": null, "rack": rack, "levels": [0, 1],
                "leaders": 1, "replicas": 2,
            })
        };
        let mut missing: Vec<Value> = (0..50).map(|n| format!("__consumer_offsets-{n}").into()).collect();
        missing.push("my-topic-3".into());
        let page = json!({
            "node": 1, "cluster_id": "c", "level": 1, "nodes": [node(1, None), node(2, Some("b"))],
            "controller": { "leader": null, "voters": [1, 2], "learners": [] },
            "partitions": {
                "total": 51, "leaderless_total": 0, "under_replicated_total": 51, "under_replicated": missing,
            },
        });
        let text = as_text(&pages(page));
        let missing: Vec<_> = text.lines().filter(|line| line.starts_with("REPLICAS MISSING")).collect();
        assert_eq!(missing, ["REPLICAS MISSING: __consumer_offsets 0-49", "REPLICAS MISSING: my-topic-3"]);
        assert!(text.contains("controller: leader none, voters 1,2, learners none"), "{text}");
        assert!(text.contains("NODE  STATE  KAFKA  NODES  RACK  LEVELS  LEADERS  REPLICAS"), "{text}");
    }
}
