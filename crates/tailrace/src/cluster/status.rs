//! `tailrace cluster status`.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::StatusArguments;
use super::pages::{Pages, ask, cell, list};
use crate::args::Output;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::text::table::Table;

pub(super) async fn run(arguments: &StatusArguments) -> Result<ExitCode, Failure> {
    let site = arguments.pages.site(&arguments.common)?;
    let pages = ask(&site, arguments.common.connect.timeout).await?;
    match arguments.common.output {
        Output::Json => print_json(&as_json(&pages))?,
        Output::Text => print(&as_text(&pages))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The first node's page, with what each of the others says of itself.
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
    let _ = writeln!(
        out,
        "controller: leader {}, voters {}, learners {}",
        cell(&controller["leader"]),
        cell(&controller["voters"]),
        or_none(&controller["learners"])
    );
    let _ = writeln!(
        out,
        "partitions: {}, without a leader {}, with replicas missing {}",
        cell(&partitions["total"]),
        cell(&partitions["leaderless_total"]),
        cell(&partitions["under_replicated_total"])
    );
    out.push_str(&nodes(page));
    for (title, name) in [("WITHOUT A LEADER", "leaderless"), ("REPLICAS MISSING", "under_replicated")] {
        for partition in list(partitions, name) {
            let _ = writeln!(out, "{title}: {}", cell(partition));
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
    Some(cell(value)).filter(|text| !text.is_empty()).unwrap_or_else(|| "none".to_owned())
}

fn nodes(page: &Value) -> String {
    let head = ["NODE", "STATE", "KAFKA", "NODES", "HTTP", "RACK", "LEVELS", "LEADERS", "REPLICAS"];
    let mut table = Table::new(2, &head);
    for node in list(page, "nodes") {
        let state = if node["fenced"].as_bool().unwrap_or(false) { "gone" } else { "there" };
        let mut cells = vec![cell(&node["id"]), state.to_owned()];
        let fields = ["kafka", "cluster", "http", "rack"];
        cells.extend(fields.iter().map(|field| cell(&node[*field])));
        cells.push(cell(&node["levels"]).replace(',', "-"));
        cells.extend(["leaders", "replicas"].iter().map(|field| cell(&node[*field])));
        table.row(cells);
    }
    table.render()
}

fn report(node: i64, page: Result<&Value, &String>) -> String {
    let page = match page {
        Ok(page) => page,
        Err(error) => return format!("node {node} does not tell: {error}\n"),
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
            "node {node} is scrubbing: {} of {} partitions, {} of {} bytes",
            cell(&scrub["partitions_done"]),
            cell(&scrub["partitions"]),
            cell(&scrub["bytes_done"]),
            cell(&scrub["bytes"])
        );
    }
    out
}
