//! An idempotent producer: one batch at a time, sent until it is acknowledged.

use tailrace_records::BatchOptions;
use tailrace_types::{PartitionId, ProducerEpoch, TopicPartition};

use super::client::Client;
use crate::cluster::messages::{Request, Response};
use crate::cluster::options::{DATA_TOPIC, topic_partition};

pub(super) async fn run(mut client: Client, number: u64) {
    let id = loop {
        let node = client.any_node();
        match client.ask(node, Request::ProducerId).await {
            Some(Response::ProducerId(id)) => break id,
            _ => client.sim.sleep(50).await,
        }
    };
    if !client.sim.world().producer_ids.insert(id) {
        return client.check(Err(format!("duplicate-producer-id: {id} was given out twice")));
    }
    client.sim.world().busy += 1;
    let mut sequences = [0_i32; 2];
    while !client.stops() {
        let pause = client.rng.between(1, 60);
        client.sim.sleep(pause).await;
        let at = client.rng.below(2) as usize;
        let partition = topic_partition(DATA_TOPIC, PartitionId(at as i32));
        let value = format!("p{number}:{}", sequences[at]);
        let options = BatchOptions {
            producer_id: id,
            producer_epoch: ProducerEpoch(0),
            base_sequence: sequences[at],
            ..BatchOptions::default()
        };
        let batch = client.batch(&value, options);
        send(&mut client, &partition, &value, batch).await;
        sequences[at] += 1;
    }
    client.sim.world().busy -= 1;
}

async fn send(client: &mut Client, partition: &TopicPartition, value: &str, batch: bytes::Bytes) {
    let mut again = false;
    loop {
        let Some((node, _)) = client.leader(partition).await else { continue };
        if again {
            client.sim.world().count("a batch was sent again");
        }
        let (partition, batch) = (partition.clone(), batch.clone());
        let request = Request::Produce { partition: partition.clone(), batch, transaction: None };
        match client.ask(node, request).await {
            Some(Response::Produced { base, epoch }) => {
                let mut world = client.sim.world();
                world.note(
                    b'a',
                    &[base.get() as u64, epoch.get() as u64, u64::from(crc32c::crc32c(value.as_bytes()))],
                );
                let fits = world.history.acknowledged(&partition, value, base);
                drop(world);
                return client.check(fits);
            }
            Some(Response::OutOfOrder(reason)) => {
                return client.check(Err(format!("refused: {partition}: {value}: {reason}")));
            }
            _ => client.refresh().await,
        }
        again = true;
    }
}
