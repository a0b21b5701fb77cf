//! What a node answers to clients and to other nodes: the same steps as the server's handlers.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use tailrace_coordination::coordinator::{TransactionalProducer, partition_of_name};
use tailrace_coordination::groups::{
    CommitPartition, CommitRequest, CommitTopic, Committer, FetchRequest, FetchTopic, GroupCoordinator,
    GroupEvent, GroupReply, OffsetsEvent, OffsetsReply, TopicReference,
};
use tailrace_coordination::transactions::{
    AddPartitions, EndTransaction, InitProducer, TransactionCoordinator, TransactionEvent,
    TransactionProtocol, TransactionReply, VerifyPartitions,
};
use tailrace_metadata::{CONSUMER_OFFSETS_TOPIC, Command, MetadataRecord, TRANSACTION_STATE_TOPIC};
use tailrace_records::BatchHeader;
use tailrace_replication::raft::ProposeError;
use tailrace_replication::{AppendError, Appended, ProducerError, VerificationGuard};
use tailrace_types::{LeaderEpoch, Offset, PartitionId, ProducerId, RaftGroup, TopicName, TopicPartition};

use super::messages::{Fetched, Map, Request, Response};
use super::metadata::{Executed, group_of};
use super::node::leads;
use super::options::{Bug, CONTROLLER};
use super::sim::Sim;
use super::world::World;

/// Time after which a request is answered without a result, in milliseconds.
const PATIENCE_MS: u64 = 1_000;
/// How long a transaction may stay open.
const TRANSACTION_MS: i32 = 2_000;
/// Verifications of one batch.
const VERIFICATIONS_MAX: usize = 5;
const FETCH_BYTES: u64 = 4_096;

type Transaction = Option<(String, TransactionProtocol)>;

/// Answers one request.
pub(super) async fn serve(sim: &Sim, number: u64, request: Request) -> Response {
    match request {
        Request::Join(node) => join(sim, number, node).await,
        Request::Command(command) => match sim.execute_here(number, *command).await {
            Executed::Done(_) => Response::Done,
            Executed::Refused(reason) => Response::Refused(reason),
            Executed::Unknown => Response::Unknown,
        },
        Request::Markers(marker, partitions) => {
            Response::NotMarked(super::markers::write_here(sim, number, marker, partitions).await)
        }
        Request::Put { id, producer, partitions, adds } => {
            put(sim, number, id, producer, partitions, adds).await
        }
        Request::Metadata => metadata(sim, number),
        Request::ProducerId => producer_id(sim, number).await.map_or(Response::Unknown, Response::ProducerId),
        Request::Produce { partition, batch, transaction } => {
            produce(sim, number, &partition, batch, transaction).await
        }
        Request::Fetch { partition, from, epoch, committed } => {
            fetch(sim, number, &partition, from, epoch, committed)
        }
        Request::InitProducer { id } => init_producer(sim, number, id).await,
        Request::AddPartitions { id, producer, partitions } => {
            let protocol = TransactionProtocol::Classic;
            let event = |token, transactional_id| {
                TransactionEvent::Add(AddPartitions {
                    token,
                    transactional_id,
                    producer,
                    partitions,
                    protocol,
                })
            };
            transaction_event(sim, number, id, event).await
        }
        Request::End { id, producer, committed, protocol } => {
            let event = |token, transactional_id| {
                TransactionEvent::End(EndTransaction {
                    token,
                    transactional_id,
                    producer,
                    committed,
                    protocol,
                    fresh: None,
                })
            };
            transaction_event(sim, number, id, event).await
        }
        Request::Commit { group, partition, offset, transaction } => {
            commit(sim, number, group, partition, offset, transaction).await
        }
        Request::Committed { group, partition } => committed(sim, number, group, partition).await,
    }
}

async fn join(sim: &Sim, number: u64, node: tailrace_metadata::RegisterNode) -> Response {
    let id = node.node;
    if !sim.command(number, Command::RegisterNode(node.clone())).await {
        return Response::Unknown;
    }
    // The command's effect has to be known here.
    let known = |world: &mut World| {
        let image = super::metadata::image(world, number)?;
        let registration = &image.node(id)?.registration;
        let founder = image.founder()?;
        (registration.directory == node.directory).then(|| Response::Admitted {
            replica: registration.replica,
            founders: vec![tailrace_replication::raft::ReplicaId::new(founder, 1)],
        })
    };
    sim.wait(PATIENCE_MS, known).await.unwrap_or(Response::Unknown)
}

fn metadata(sim: &Sim, number: u64) -> Response {
    let world = sim.world();
    let Some(image) = super::metadata::image(&world, number) else { return Response::Unknown };
    let mut map = Map::default();
    for topic in image.topics() {
        for id in topic.topic_partitions() {
            let group = RaftGroup { topic: topic.id, partition: id.partition };
            let replicas =
                topic.partition(id.partition).into_iter().flat_map(|partition| &partition.replicas);
            map.replicas.insert(id.clone(), replicas.map(|replica| replica.node().0 as u64).collect());
            if let Some(leader) = world.leader_of(number, group) {
                map.leaders.insert(id, leader);
            }
        }
    }
    Response::Metadata(map)
}

/// A producer id that no other producer has, now or later.
async fn producer_id(sim: &Sim, number: u64) -> Option<ProducerId> {
    let (next, end) = sim.world().nodes.get(&number)?.running.as_ref()?.producer_ids;
    if next == end {
        // Reserved where the controller is: a block for each node that asks.
        let leads =
            sim.world().nodes.get_mut(&number)?.slot(CONTROLLER).is_some_and(|slot| slot.leads().is_some());
        if !leads {
            let to = {
                let world = sim.world();
                let known = world.nodes.get(&number)?.running.as_ref()?.leaders.get(CONTROLLER)?;
                known.replica.node().0 as u64
            };
            return match sim.ask(number, to, Request::ProducerId, 2_000).await {
                Some(Response::ProducerId(id)) if to != number => Some(id),
                _ => None,
            };
        }
        let Executed::Done(records) = sim.execute_here(number, Command::AllocateProducerIds).await else {
            return None;
        };
        let reserved = records.iter().find_map(|record| match record {
            MetadataRecord::ProducerIds { first, next } => Some((first.get(), next.get())),
            _ => None,
        });
        sim.world().nodes.get_mut(&number)?.running.as_mut()?.producer_ids = reserved?;
    }
    let mut world = sim.world();
    let block = &mut world.nodes.get_mut(&number)?.running.as_mut()?.producer_ids;
    let id = block.0;
    block.0 += 1;
    Some(ProducerId(id))
}

enum Guarded {
    Unasked,
    Guard(VerificationGuard),
}

/// One append of a client's batch. `None` if this node does not lead.
fn append(
    world: &mut World,
    number: u64,
    group: RaftGroup,
    batch: &Bytes,
    guard: &Guarded,
) -> Option<Result<Appended, ProposeError>> {
    let now_ms = world.now_ms;
    let header = BatchHeader::parse(batch).ok()?;
    let node = world.nodes.get_mut(&number)?;
    let now = node.wall(now_ms);
    let core = node.slot(group)?.core.as_mut()?;
    core.leads()?;
    let guard = match guard {
        Guarded::Unasked => None,
        Guarded::Guard(guard) => Some(*guard),
    };
    let appended = core.append(&header, batch, guard, now);
    world.stepped(number, group);
    Some(appended)
}

async fn produce(
    sim: &Sim,
    number: u64,
    id: &TopicPartition,
    batch: Bytes,
    transaction: Transaction,
) -> Response {
    let group = {
        let world = sim.world();
        super::metadata::image(&world, number).and_then(|image| group_of(&image, id))
    };
    let Some(group) = group else { return Response::NotHere };
    let Ok(header) = BatchHeader::parse(&batch) else { return Response::NotHere };
    let mut result = append(&mut sim.world(), number, group, &batch, &Guarded::Unasked);
    if let Some((transactional_id, protocol)) = transaction {
        let bumps = protocol == TransactionProtocol::EpochPerTransaction;
        for _ in 0..VERIFICATIONS_MAX {
            if !is_unverified(&result) {
                break;
            }
            let guard = {
                let mut world = sim.world();
                let now_ms = world.now_ms;
                let Some(node) = world.nodes.get_mut(&number) else { return Response::NotHere };
                let now = node.wall(now_ms);
                let core = node.slot(group).and_then(|slot| slot.core.as_mut());
                let Some(core) = core else { return Response::NotHere };
                core.begin_verification(&header, bumps, now)
            };
            let producer = TransactionalProducer { id: header.producer_id, epoch: header.producer_epoch };
            let partitions = BTreeSet::from([id.clone()]);
            match put(sim, number, transactional_id.clone(), producer, partitions, bumps).await {
                Response::Done => {}
                refusal => return refusal,
            }
            result = append(&mut sim.world(), number, group, &batch, &Guarded::Guard(guard));
        }
    }
    let appended = match result {
        None | Some(Err(ProposeError::NotLeader { .. })) => return Response::NotHere,
        Some(Err(ProposeError::Append(AppendError::Producer(error)))) => {
            return Response::OutOfOrder(error.to_string());
        }
        Some(Err(_)) => return Response::NotHere,
        Some(Ok(appended)) => appended,
    };
    if appended.duplicate.is_some() {
        sim.world().count("a repeated batch was recognised");
    }
    if sim.committed(number, group, (&appended).into(), PATIENCE_MS).await {
        Response::Produced { base: appended.base_offset, epoch: appended.epoch }
    } else {
        Response::Unknown
    }
}

fn is_unverified(result: &Option<Result<Appended, ProposeError>>) -> bool {
    matches!(result, Some(Err(ProposeError::Append(AppendError::Producer(ProducerError::Unverified { .. })))))
}

fn fetch(
    sim: &Sim,
    number: u64,
    id: &TopicPartition,
    from: Offset,
    epoch: Option<LeaderEpoch>,
    committed: bool,
) -> Response {
    let mut world = sim.world();
    let unchecked = world.bug == Some(Bug::StaleLeaderReads);
    let group = super::metadata::image(&world, number).and_then(|image| group_of(&image, id));
    let slot = group.and_then(|group| world.nodes.get_mut(&number)?.slot(group));
    let Some(slot) = slot else { return Response::NotHere };
    let as_leader = leads(slot, unchecked);
    if let Some(known) = epoch
        && as_leader.is_none_or(|epoch| epoch < known)
    {
        // Not the leader, or not any more: the client has heard of a later one.
        return Response::NotHere;
    }
    let Some(core) = &slot.core else { return Response::NotHere };
    let reader = core.reader();
    let last_stable = reader.last_stable_offset();
    let high_watermark = reader.high_watermark().offset();
    let upto = if committed { last_stable } else { high_watermark };
    if from > high_watermark {
        // A follower that is behind, or a leader that does not know better yet.
        return Response::NotHere;
    }
    let read = if committed {
        reader.read_committed(from, upto, FETCH_BYTES, true)
    } else {
        reader.log().read(from, upto, FETCH_BYTES, true).map(|slice| slice.map(|slice| (slice, Vec::new())))
    };
    let (bytes, aborted) = match read {
        Ok(Some((slice, aborted))) => (slice.read().ok(), aborted),
        Ok(None) => (Some(Bytes::new()), Vec::new()),
        Err(_) => (None, Vec::new()),
    };
    let Some(bytes) = bytes else { return Response::NotHere };
    let aborted = aborted.iter().map(|t| (t.producer_id.get(), t.first_offset, t.last_offset)).collect();
    Response::Fetched(Fetched { bytes, epoch: as_leader, high_watermark, last_stable, aborted })
}

/// The partition of an internal topic that a name belongs to, if its coordinator is here.
fn shard_of(sim: &Sim, number: u64, topic: &str, name: &str) -> Option<i32> {
    let world = sim.world();
    let image = super::metadata::image(&world, number)?;
    Some(partition_of_name(name, image.topic(topic)?.partitions))
}

async fn transaction_event(
    sim: &Sim,
    number: u64,
    id: String,
    event: impl FnOnce(tailrace_coordination::coordinator::Token, String) -> TransactionEvent,
) -> Response {
    let Some(shard) = shard_of(sim, number, TRANSACTION_STATE_TOPIC, &id) else { return Response::NotHere };
    let submitted = sim.submit::<TransactionCoordinator>(number, shard, |token| event(token, id));
    let Ok((pending, _)) = submitted else { return Response::NotHere };
    match pending.get().await {
        Some(TransactionReply::Initialized(producer) | TransactionReply::Ended(producer)) => {
            Response::Producer(producer)
        }
        Some(TransactionReply::Added) => Response::Done,
        Some(TransactionReply::Verified { missing }) if missing.is_empty() => Response::Done,
        Some(TransactionReply::Refused(error)) => Response::Transaction(error),
        Some(_) => Response::Refused("the coordinator answers something else".to_owned()),
        None => Response::Unknown,
    }
}

async fn init_producer(sim: &Sim, number: u64, id: String) -> Response {
    let Some(fresh) = producer_id(sim, number).await else { return Response::NotHere };
    let (expected, fresh, timeout_ms) = (None, Some(fresh), TRANSACTION_MS);
    let event = |token, transactional_id| {
        TransactionEvent::Init(InitProducer { token, transactional_id, timeout_ms, expected, fresh })
    };
    transaction_event(sim, number, id, event).await
}

/// Asks the transaction's coordinator, be it here or elsewhere, whether partitions are in the transaction; adds them if wanted.
async fn put(
    sim: &Sim,
    number: u64,
    id: String,
    producer: TransactionalProducer,
    partitions: BTreeSet<TopicPartition>,
    adds: bool,
) -> Response {
    let coordinator = {
        let world = sim.world();
        super::metadata::image(&world, number).and_then(|image| {
            let topic = image.topic(TRANSACTION_STATE_TOPIC)?;
            let partition = PartitionId(partition_of_name(&id, topic.partitions));
            world.leader_of(number, RaftGroup { topic: topic.id, partition })
        })
    };
    let Some((coordinator, _)) = coordinator else { return Response::NotHere };
    if coordinator != number {
        let question = Request::Put { id, producer, partitions, adds };
        return sim.ask(number, coordinator, question, PATIENCE_MS).await.unwrap_or(Response::NotHere);
    }
    let event = |token, transactional_id| {
        if adds {
            let protocol = TransactionProtocol::EpochPerTransaction;
            TransactionEvent::Add(AddPartitions { token, transactional_id, producer, partitions, protocol })
        } else {
            TransactionEvent::Verify(VerifyPartitions { token, transactional_id, producer, partitions })
        }
    };
    transaction_event(sim, number, id, event).await
}

type Committing = Option<(String, TransactionalProducer, TransactionProtocol)>;

async fn commit(
    sim: &Sim,
    number: u64,
    group: String,
    partition: TopicPartition,
    offset: i64,
    transaction: Committing,
) -> Response {
    let Some(shard) = shard_of(sim, number, CONSUMER_OFFSETS_TOPIC, &group) else { return Response::NotHere };
    let producer = transaction.as_ref().map(|(_, producer, _)| *producer);
    let request = CommitRequest {
        by: Committer { generation_or_epoch: -1, transaction: producer, ..Committer::default() },
        retention_ms: None,
        topics: vec![CommitTopic {
            topic: TopicReference::Name(partition.topic.to_string()),
            partitions: vec![CommitPartition {
                index: partition.partition.0,
                offset,
                leader_epoch: -1,
                metadata: String::new(),
            }],
        }],
    };
    if let Some((id, producer, protocol)) = transaction {
        let Ok(topic) = TopicName::new(CONSUMER_OFFSETS_TOPIC) else { return Response::NotHere };
        let offsets = BTreeSet::from([TopicPartition::new(topic, PartitionId(shard))]);
        let ended = transactions_ended(sim, number, shard, producer.id);
        let bumps = protocol == TransactionProtocol::EpochPerTransaction;
        match put(sim, number, id, producer, offsets, bumps).await {
            Response::Done => {}
            refusal => return refusal,
        }
        // Without an epoch per transaction: a commit after its transaction's end would open one that nobody ends.
        if !bumps && (ended.is_none() || ended != transactions_ended(sim, number, shard, producer.id)) {
            return Response::NotHere;
        }
    }
    let name: Arc<str> = group.into();
    let event = |token| GroupEvent::Offsets { token, group: name, event: OffsetsEvent::Commit(request) };
    let Ok((pending, epoch)) = sim.submit::<GroupCoordinator>(number, shard, event) else {
        return Response::NotHere;
    };
    match pending.get().await {
        Some(GroupReply::Offsets(OffsetsReply::Commit(Ok(topics)))) => {
            let error = topics
                .iter()
                .flat_map(|topic| &topic.partitions)
                .find_map(|(_, result)| result.as_ref().err());
            match error {
                None => Response::Committed { offset: Some(offset), epoch },
                Some(error) => Response::Refused(error.to_string()),
            }
        }
        Some(GroupReply::Offsets(OffsetsReply::Commit(Err(error)))) => Response::Refused(error.to_string()),
        _ => Response::Unknown,
    }
}

/// How many transactions of a producer have ended here, as the coordinator of which epoch counts; `None` if it is not here.
fn transactions_ended(
    sim: &Sim,
    number: u64,
    shard: i32,
    producer: ProducerId,
) -> Option<(LeaderEpoch, Option<u64>)> {
    let epoch = sim.act::<GroupCoordinator>(number, shard, |_, _| Default::default()).ok()?;
    let world = sim.world();
    let running = world.nodes.get(&number)?.running.as_ref()?;
    Some((epoch, running.groups.get(&shard)?.core.transactions_ended(producer)))
}

async fn committed(sim: &Sim, number: u64, group: String, partition: TopicPartition) -> Response {
    let Some(shard) = shard_of(sim, number, CONSUMER_OFFSETS_TOPIC, &group) else { return Response::NotHere };
    let request = FetchRequest {
        member: None,
        member_epoch: -1,
        topics: Some(vec![FetchTopic {
            topic: TopicReference::Name(partition.topic.to_string()),
            partitions: vec![partition.partition.0],
        }]),
        require_stable: true,
    };
    let name: Arc<str> = group.into();
    let event = |token| GroupEvent::Offsets { token, group: name, event: OffsetsEvent::Fetch(request) };
    let Ok((pending, epoch)) = sim.submit::<GroupCoordinator>(number, shard, event) else {
        return Response::NotHere;
    };
    match pending.get().await {
        Some(GroupReply::Offsets(OffsetsReply::Fetch(Ok(topics)))) => {
            let found = topics.into_iter().flat_map(|topic| topic.partitions).next();
            match found.map(|partition| partition.offset) {
                Some(Ok(offset)) => Response::Committed { offset: offset.map(|offset| offset.offset), epoch },
                // An open transaction is about to change it.
                Some(Err(_)) => Response::Unknown,
                None => Response::Committed { offset: None, epoch },
            }
        }
        _ => Response::Unknown,
    }
}
