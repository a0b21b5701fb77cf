//! `tailrace group lag`: the number of records that a group has yet to read, per partition.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::table::Table;

use super::arguments::LagArguments;
use super::describe;
use super::words::members;
use crate::client::{
    Cluster, Group, GroupKind, Member, OffsetQuery, Position, Topic, all_topics, committed_offsets,
    find_topic, list_offsets, records_between, share_offsets,
};
use crate::interrupt::{FINISH, Interrupt};

/// Moves the cursor home and clears everything below it.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Shortest pause between two samples.
const WATCH_MIN: Duration = Duration::from_millis(100);

/// One partition of a group.
struct Row {
    topic: String,
    partition: i32,
    /// The group's committed offset. `None` if it has committed none.
    committed: Option<i64>,
    /// The offset of a consumer that has read everything. `None` if the partition no longer exists.
    end: Option<i64>,
    lag: Option<i64>,
    reader: Option<Member>,
}

struct Report {
    group: Group,
    rows: Vec<Row>,
}

impl Report {
    /// The lag over all partitions where it is known.
    fn total(&self) -> i64 {
        self.rows.iter().filter_map(|row| row.lag).sum()
    }
}

pub(super) async fn run(cluster: &mut Cluster, arguments: &LagArguments) -> Result<ExitCode, Failure> {
    let mut reports = look(cluster, arguments).await?;
    let unknown = |topic: &&String| !reports.iter().flat_map(|r| &r.rows).any(|row| row.topic == **topic);
    // A deleted topic may still have offsets. A topic that no group reads has none.
    for topic in arguments.topic.iter().filter(unknown) {
        find_topic(cluster, topic).await?;
    }
    let Some(pause) = arguments.watch else {
        show(&reports, arguments)?;
        return Ok(ExitCode::SUCCESS);
    };
    // A signal is the only end.
    let mut interrupt = Interrupt::install(FINISH)?;
    let clears = arguments.common.output == Output::Text && std::io::stdout().is_terminal();
    loop {
        if clears {
            print(CLEAR)?;
        }
        show(&reports, arguments)?;
        tokio::select! {
            () = tokio::time::sleep(pause.max(WATCH_MIN)) => {}
            _ = interrupt.wait() => return Ok(ExitCode::SUCCESS),
        }
        reports = look(cluster, arguments).await?;
    }
}

fn show(reports: &[Report], arguments: &LagArguments) -> Result<(), Failure> {
    match arguments.common.output {
        // One line per sample, for programs that read along.
        Output::Json if arguments.watch.is_some() => {
            let line = Value::Array(reports.iter().map(json_of).collect());
            print(&format!("{line}\n"))
        }
        Output::Json => print_json(&reports.iter().map(json_of).collect::<Vec<_>>()),
        Output::Text => print(&reports.iter().map(text_of).collect::<Vec<_>>().join("\n")),
    }
}

async fn look(cluster: &mut Cluster, arguments: &LagArguments) -> Result<Vec<Report>, Failure> {
    let groups = describe::chosen(cluster, &arguments.names).await?;
    let topics: BTreeMap<String, Topic> =
        all_topics(cluster).await?.into_iter().map(|topic| (topic.name.clone(), topic)).collect();
    let mut reports = Vec::with_capacity(groups.len());
    for group in groups {
        let rows = rows(cluster, &group, &topics, &arguments.topic).await?;
        reports.push(Report { group, rows });
    }
    Ok(reports)
}

/// A group's positions, each with the server's own count of the remaining records if it has one.
async fn positions(
    cluster: &mut Cluster,
    group: &Group,
) -> Result<BTreeMap<Position, (Option<i64>, Option<i64>)>, Failure> {
    let mut positions: BTreeMap<Position, (Option<i64>, Option<i64>)> = BTreeMap::new();
    for member in &group.members {
        for (topic, partitions) in &member.assignment {
            positions.extend(partitions.iter().map(|&partition| ((topic.clone(), partition), (None, None))));
        }
    }
    if group.kind == GroupKind::Share {
        let offsets = share_offsets(cluster, &group.id).await?.into_iter();
        positions.extend(offsets.map(|(position, offset)| (position, (Some(offset.start), offset.lag))));
    } else {
        let offsets = committed_offsets(cluster, &group.id).await?.into_iter();
        positions.extend(offsets.map(|(position, offset)| (position, (Some(offset), None))));
    }
    Ok(positions)
}

async fn rows(
    cluster: &mut Cluster,
    group: &Group,
    topics: &BTreeMap<String, Topic>,
    wanted: &[String],
) -> Result<Vec<Row>, Failure> {
    let mut positions = positions(cluster, group).await?;
    positions.retain(|(topic, _), _| wanted.is_empty() || wanted.contains(topic));
    let ends = ends(cluster, topics, positions.keys().cloned().collect()).await?;
    let mut rows = Vec::with_capacity(positions.len());
    for ((topic, partition), (committed, counted)) in positions {
        let end = ends.get(&(topic.clone(), partition)).copied();
        let lag = match (counted, committed.zip(end), topics.get(&topic)) {
            (Some(counted), ..) => Some(counted),
            (None, Some((from, until)), Some(topic)) => {
                Some(records_between(cluster, topic, partition, from..until).await)
            }
            _ => None,
        };
        let reader = group.reader(&topic, partition).cloned();
        rows.push(Row { topic, partition, committed, end, lag, reader });
    }
    Ok(rows)
}

/// The last stable offset of each existing partition.
async fn ends(
    cluster: &mut Cluster,
    topics: &BTreeMap<String, Topic>,
    positions: BTreeSet<Position>,
) -> Result<BTreeMap<Position, i64>, Failure> {
    let mut wanted: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in &positions {
        let has = topics.get(topic).is_some_and(|found| found.leader(*partition).is_some());
        if has {
            wanted.entry(topic).or_default().push(*partition);
        }
    }
    let mut ends = BTreeMap::new();
    for (name, partitions) in wanted {
        let Some(topic) = topics.get(name) else { continue };
        let latest = list_offsets(cluster, topic, &partitions, OffsetQuery::Latest, true).await?;
        ends.extend(latest.into_iter().map(|(partition, end)| ((name.to_owned(), partition), end)));
    }
    Ok(ends)
}

fn json_of(report: &Report) -> Value {
    let row = |row: &Row| {
        json!({
            "topic": row.topic,
            "partition": row.partition,
            "committed_offset": row.committed,
            "end_offset": row.end,
            "lag": row.lag,
            "member_id": row.reader.as_ref().map(|member| &member.id),
            "client_id": row.reader.as_ref().map(|member| &member.client_id),
            "host": row.reader.as_ref().map(|member| &member.host),
        })
    };
    json!({
        "group": report.group.id,
        "type": report.group.kind.to_string(),
        "state": report.group.state,
        "total_lag": report.total(),
        "partitions": report.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn text_of(report: &Report) -> String {
    let group = &report.group;
    let facts = format!("{}, {}, {}", group.kind, group.state, members(group.members.len()));
    let head = format!("{}  ({facts}): lag {}\n", group.id, report.total());
    if report.rows.is_empty() {
        return head;
    }
    let number = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let mut table =
        Table::new(2, &["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "CLIENT", "HOST"]);
    for row in &report.rows {
        let of = |field: fn(&Member) -> &String| {
            row.reader.as_ref().map_or_else(|| "-".to_owned(), |member| field(member).clone())
        };
        table.row(vec![
            row.topic.clone(),
            row.partition.to_string(),
            number(row.committed),
            number(row.end),
            number(row.lag),
            of(|member| &member.id),
            of(|member| &member.client_id),
            of(|member| &member.host),
        ]);
    }
    head + &table.render()
}
