//! Group members: one that commits how far it has read, and one that processes: what it reads, what it writes, and how far it has
//! read are one unit.

use std::collections::BTreeSet;

use tailrace_coordination::transactions::TransactionProtocol;
use tailrace_metadata::CONSUMER_OFFSETS_TOPIC;
use tailrace_types::{Offset, PartitionId};

use super::client::Client;
use super::reader;
use super::transactional::{Transaction, add, end, init, send};
use crate::cluster::messages::{Request, Response};
use crate::cluster::options::{DATA_TOPIC, OUT_TOPIC, topic_partition};
use crate::history::History;

/// Commits ever higher offsets, and asks for them in between.
pub(super) async fn run(mut client: Client, number: u64) {
    let group = format!("g{number}");
    let partition = topic_partition(DATA_TOPIC, PartitionId(number as i32));
    let mut offset = 0_i64;
    // What was given up may be carried out later.
    let mut given_up = BTreeSet::new();
    loop {
        let pause = client.rng.between(10, 80);
        client.sim.sleep(pause).await;
        let Some(node) = client.coordinator(CONSUMER_OFFSETS_TOPIC, &group).await else { continue };
        if client.rng.percent(50) && !client.stops() {
            offset += 1;
            let (group, transaction) = (group.clone(), None);
            let request =
                Request::Commit { group: group.clone(), partition: partition.clone(), offset, transaction };
            match client.ask(node, request).await {
                Some(Response::Committed { epoch, .. }) => {
                    client.sim.world().history.offset_was_committed(&group, &partition, offset, epoch);
                    client.sim.world().count("an offset was committed");
                }
                Some(Response::Refused(reason)) => {
                    return client.check(Err(format!("refused: {group}: {reason}")));
                }
                _ => {
                    given_up.insert(offset);
                    client.refresh().await;
                }
            }
            continue;
        }
        let before = client.sim.world().history.committed_offset(&group, &partition);
        match client
            .ask(node, Request::Committed { group: group.clone(), partition: partition.clone() })
            .await
        {
            Some(Response::Committed { offset: found, epoch }) => {
                let found = found.unwrap_or(-1);
                let (acknowledged, acknowledged_in) = before.unwrap_or((-1, epoch));
                if epoch < acknowledged_in {
                    client.sim.world().count("a coordinator of an earlier epoch answered");
                } else if (found < acknowledged && !given_up.contains(&found)) || found > offset {
                    let fact = format!(
                        "lost-offset: {group}: {found} is committed, expected {acknowledged} to {offset} (epochs {epoch}, \
                         {acknowledged_in})"
                    );
                    return client.check(Err(fact));
                }
                client.sim.world().count("an offset was asked for");
            }
            _ => client.refresh().await,
        }
    }
}

/// Copies partition 0 of the data to the output, exactly once.
pub(in crate::cluster) async fn processor(mut client: Client) {
    let protocols = [TransactionProtocol::Classic, TransactionProtocol::EpochPerTransaction];
    let protocol = protocols[client.rng.below(2) as usize];
    let mut attempt = 0_u64;
    client.sim.world().busy += 1;
    while !client.stops() {
        round(&mut client, protocol, &mut attempt).await;
    }
    while init(&mut client, "copy").await.is_none() {}
    client.sim.world().busy -= 1;
}

/// Until something goes wrong: then everything is asked for anew, as after a restart.
async fn round(client: &mut Client, protocol: TransactionProtocol, attempt: &mut u64) -> Option<()> {
    let (input, output) =
        (topic_partition(DATA_TOPIC, PartitionId(0)), topic_partition(OUT_TOPIC, PartitionId(0)));
    let mut producer = init(client, "copy").await?;
    client.sim.world().count("a processor began anew");
    let mut position = position(client).await?;
    let mut sequence = 0;
    while !client.stops() {
        let pause = client.rng.between(5, 80);
        client.sim.sleep(pause).await;
        let (values, next) = read(client, &input, position).await?;
        if next == position {
            continue;
        }
        let name = format!("tc.{attempt}");
        *attempt += 1;
        let transaction = Transaction { id: "copy", name: &name, producer, protocol };
        if protocol == TransactionProtocol::Classic {
            add(client, &transaction, &output).await?;
        }
        for (number, value) in values.iter().enumerate() {
            let text = format!("{name}:{number}@{value}");
            let batch = client.batch(&text, transaction.batch_options(sequence));
            send(client, &transaction, &output, &text, batch).await?;
            sequence += 1;
        }
        commit(client, &transaction, next).await?;
        producer = end(client, &transaction, true).await?;
        if producer != transaction.producer {
            sequence = 0;
        }
        position = next;
        client.sim.world().count("a processor's transaction was committed");
    }
    Some(())
}

async fn position(client: &mut Client) -> Option<Offset> {
    let partition = topic_partition(DATA_TOPIC, PartitionId(0));
    for _ in 0..20 {
        let Some(node) = client.coordinator(CONSUMER_OFFSETS_TOPIC, "copy").await else { continue };
        let (group, partition) = ("copy".to_owned(), partition.clone());
        match client.ask(node, Request::Committed { group, partition }).await {
            Some(Response::Committed { offset, .. }) => return Some(Offset(offset.unwrap_or(0))),
            _ => client.refresh().await,
        }
    }
    None
}

/// Some committed values, and where to go on.
async fn read(
    client: &mut Client,
    input: &tailrace_types::TopicPartition,
    from: Offset,
) -> Option<(Vec<String>, Offset)> {
    let (node, epoch) = client.leader(input).await?;
    let (partition, epoch) = (input.clone(), Some(epoch));
    let Some(Response::Fetched(fetched)) =
        client.ask(node, Request::Fetch { partition, from, epoch, committed: true }).await
    else {
        client.refresh().await;
        return Some((Vec::new(), from));
    };
    let Ok(batches) = History::parse(&fetched.bytes, from) else { return Some((Vec::new(), from)) };
    let (mut values, mut next) = (Vec::new(), from);
    for (base, seen) in batches.into_iter().take(8) {
        next = seen.next;
        if reader::is_visible(&seen, base, &fetched) {
            values.push(seen.value);
        }
    }
    Some((values, next))
}

async fn commit(client: &mut Client, transaction: &Transaction<'_>, next: Offset) -> Option<()> {
    let Transaction { producer, protocol, .. } = *transaction;
    let partition = topic_partition(DATA_TOPIC, PartitionId(0));
    if protocol == TransactionProtocol::Classic {
        let count = client.partitions(CONSUMER_OFFSETS_TOPIC).len() as i32;
        let number = tailrace_coordination::coordinator::partition_of_name("copy", count);
        add(client, transaction, &topic_partition(CONSUMER_OFFSETS_TOPIC, PartitionId(number))).await?;
    }
    for _ in 0..20 {
        let Some(node) = client.coordinator(CONSUMER_OFFSETS_TOPIC, "copy").await else { continue };
        let transaction = Some(("copy".to_owned(), producer, protocol));
        let (group, partition) = ("copy".to_owned(), partition.clone());
        match client.ask(node, Request::Commit { group, partition, offset: next.get(), transaction }).await {
            Some(Response::Committed { .. }) => return Some(()),
            Some(Response::Refused(_) | Response::Transaction(_)) => return None,
            _ => client.refresh().await,
        }
    }
    None
}
