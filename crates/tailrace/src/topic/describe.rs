//! `tailrace topic describe`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::{Value, json};
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::table::Table;
use tailrace_cli::text::units::{plural, runs};
use tailrace_kafka_wire::messages::describe_configs_response::DescribeConfigsResourceResult;

use super::arguments::DescribeArguments;
use super::id::id_text;
use crate::client::{
    ClientError, Cluster, OffsetQuery, Partition, SOURCE_TOPIC, Topic, all_topics, find_topics, list_offsets,
    topic_configs,
};

/// A topic, with everything that is shown about it.
struct Description {
    topic: Topic,
    earliest: BTreeMap<i32, i64>,
    latest: BTreeMap<i32, i64>,
    configs: Vec<DescribeConfigsResourceResult>,
}

pub(super) async fn run(cluster: &mut Cluster, arguments: &DescribeArguments) -> Result<ExitCode, Failure> {
    let topics = match &arguments.names[..] {
        [] => all_topics(cluster).await?.into_iter().filter(|topic| !topic.internal).collect(),
        names => find_topics(cluster, names).await?,
    };
    let descriptions = describe(cluster, topics, arguments.all_configs).await?;
    match arguments.common.output {
        Output::Json => print_json(&descriptions.iter().map(json_of).collect::<Vec<_>>())?,
        Output::Text => print(&descriptions.iter().map(text_of).collect::<Vec<_>>().join("\n"))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn describe(
    cluster: &mut Cluster,
    topics: Vec<Topic>,
    all_configs: bool,
) -> Result<Vec<Description>, ClientError> {
    if topics.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
    let mut configs = topic_configs(cluster, &names, None).await?;
    let mut descriptions = Vec::with_capacity(topics.len());
    for topic in topics {
        // A partition without a leader has no offsets, but the rest of the topic can be shown.
        let led: Vec<i32> = topic.partitions.iter().filter(|p| p.leader >= 0).map(|p| p.index).collect();
        let earliest = list_offsets(cluster, &topic, &led, OffsetQuery::Earliest, false).await?;
        let latest = list_offsets(cluster, &topic, &led, OffsetQuery::Latest, false).await?;
        let mut configs = configs.remove(&topic.name).unwrap_or_default();
        configs.retain(|config| all_configs || config.config_source == SOURCE_TOPIC);
        configs.sort_by(|a, b| a.name.cmp(&b.name));
        descriptions.push(Description { topic, earliest, latest, configs });
    }
    Ok(descriptions)
}

fn json_of(description: &Description) -> Value {
    let Description { topic, earliest, latest, configs } = description;
    let partition = |partition: &Partition| {
        json!({
            "partition": partition.index,
            "leader": (partition.leader >= 0).then_some(partition.leader),
            "leader_epoch": partition.leader_epoch,
            "replicas": partition.replicas,
            "in_sync_replicas": partition.in_sync,
            "earliest_offset": earliest.get(&partition.index),
            "latest_offset": latest.get(&partition.index),
        })
    };
    let configs: serde_json::Map<_, _> =
        configs.iter().map(|config| (config.name.clone(), config.value.clone().into())).collect();
    json!({
        "name": topic.name,
        "id": id_text(&topic.id),
        "internal": topic.internal,
        "partitions": topic.partitions.iter().map(partition).collect::<Vec<_>>(),
        "configs": configs,
    })
}

fn text_of(description: &Description) -> String {
    let Description { topic, earliest, latest, configs } = description;
    let partitions = plural(topic.partitions.len() as u64, "partition");
    let mut text = format!("{}  (id {}, {partitions})\n", topic.name, id_text(&topic.id));
    for config in configs {
        let value =
            config.value.as_deref().unwrap_or(if config.is_sensitive { "(hidden)" } else { "(not set)" });
        text.push_str(&format!("  {} = {value}\n", config.name));
    }
    let head = ["PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "EARLIEST", "LATEST", "OFFSETS"];
    // Internal topics have many partitions that are alike, and empty. They share a row.
    let mut rows: Vec<(Vec<i32>, Vec<String>)> = Vec::new();
    for partition in &topic.partitions {
        let (from, to) = (earliest.get(&partition.index), latest.get(&partition.index));
        let number = |number: Option<&i64>| number.map_or_else(|| "-".to_owned(), i64::to_string);
        let cells = vec![
            if partition.leader >= 0 { partition.leader.to_string() } else { "none".to_owned() },
            partition.leader_epoch.to_string(),
            ids(&partition.replicas),
            ids(&partition.in_sync),
            number(from),
            number(to),
            number(from.zip(to).map(|(from, to)| to - from).as_ref()),
        ];
        let is_empty = topic.internal && from.is_some() && from == to;
        match rows.iter_mut().find(|(_, other)| is_empty && *other == cells) {
            Some((partitions, _)) => partitions.push(partition.index),
            None => rows.push((vec![partition.index], cells)),
        }
    }
    let mut table = Table::new(2, &head);
    rows.into_iter().for_each(|(partitions, cells)| table.row([vec![runs(&partitions)], cells].concat()));
    text + &table.render()
}

fn ids(ids: &[i32]) -> String {
    ids.iter().map(i32::to_string).collect::<Vec<_>>().join(",")
}
