//! When everything is whole again, and whether what is there then is what was promised.

use std::collections::{BTreeMap, BTreeSet};

use tailrace_metadata::TopicImage;
use tailrace_replication::raft::ReplicaId;
use tailrace_replication::{Partition, PartitionReader};
use tailrace_types::{Offset, PartitionId, RaftGroup, TopicPartition};

use super::clients;
use super::faults::FaultKind;
use super::messages::Fetched;
use super::node::{Node, Slot};
use super::options::{CONTROLLER, DATA_TOPIC, OUT_TOPIC, topic_partition};
use super::world::World;
use crate::history::{History, Seen};
use crate::{SimDisk, tables};

impl World {
    /// All nodes are up, every partition has the replicas that it is to have, and all of them have everything.
    pub(super) fn is_whole(&self) -> bool {
        let quiet = |node: &Node| node.runs(self.now_ms) && !node.is_damaged && !node.is_dying;
        if !self.nodes.values().all(quiet) || !self.restarts.is_empty() {
            return false;
        }
        let Some(image) = self.controller().and_then(|number| super::metadata::image(self, number)) else {
            return false;
        };
        let nodes: Vec<ReplicaId> = image.nodes().map(|node| node.registration.replica).collect();
        let registered = image.nodes().all(|node| {
            let number = node.registration.node.0 as u64;
            !node.fenced
                && self.nodes.get(&number).is_some_and(|own| own.directory == node.registration.directory)
        });
        registered
            && nodes.len() == self.nodes.len()
            && image.topics().len() == 4
            && self.metadata_is_everywhere()
            && self.is_group_whole(CONTROLLER, &nodes)
            && image.topics().all(|topic| self.is_topic_whole(topic))
    }

    fn is_topic_whole(&self, topic: &TopicImage) -> bool {
        topic.assignment().all(|(partition, wanted)| {
            let group = RaftGroup { topic: topic.id, partition };
            !wanted.is_reassigned() && self.is_group_whole(group, &wanted.replicas)
        })
    }

    /// All nodes have taken over the same of it.
    fn metadata_is_everywhere(&self) -> bool {
        let mut applied =
            self.nodes.values().filter_map(|node| node.running.as_ref()).map(|running| running.applied);
        let first = applied.next();
        applied.all(|applied| Some(applied) == first)
    }

    /// All replicas are members, as far as each of them knows, and have all that the leader has.
    fn is_group_whole(&self, group: RaftGroup, wanted: &[ReplicaId]) -> bool {
        let slot = |id: &ReplicaId| -> Option<&Slot> {
            let running = self.nodes.get(&(id.node().0 as u64))?.running.as_ref()?;
            running.slots.get(&group).filter(|slot| slot.replica == *id)
        };
        let slots: Vec<&Slot> = wanted.iter().filter_map(slot).collect();
        let Some(leader) =
            slots.iter().find(|slot| slot.leads().is_some()).and_then(|slot| slot.core.as_ref())
        else {
            return false;
        };
        let end = leader.reader().log_end();
        let is_whole = |slot: &&Slot| {
            let Some(Partition::Replica(replica)) = &slot.core else { return false };
            let (reader, members) = (replica.reader(), replica.members());
            let all: BTreeSet<ReplicaId> = members.voters.iter().chain(&members.learners).copied().collect();
            let voters = if group == CONTROLLER { wanted.len().min(3) } else { wanted.len() };
            replica.halted().is_none()
                && reader.log_end() == end
                && reader.high_watermark().offset() == end.offset()
                && all == wanted.iter().copied().collect()
                && members.voters.len() == voters
        };
        slots.len() == wanted.len() && slots.iter().all(is_whole)
    }

    /// No transaction is undecided.
    pub(super) fn is_decided(&self) -> bool {
        let decided = |slot: &Slot| {
            slot.core.as_ref().is_some_and(|core| {
                let reader = core.reader();
                reader.last_stable_offset() == reader.high_watermark().offset()
            })
        };
        self.nodes
            .values()
            .filter_map(|node| node.running.as_ref())
            .all(|running| running.slots.values().all(decided))
    }

    pub(super) fn state(&self) -> String {
        let image = self.controller().and_then(|number| super::metadata::image(self, number));
        let moving = image.iter().flat_map(|image| image.topics()).flat_map(|topic| {
            let wanted = topic.assignment().filter(|(_, wanted)| wanted.is_reassigned());
            wanted.map(move |(number, wanted)| format!("{}-{number}: {wanted:?}", topic.name))
        });
        let moving: Vec<String> = moving.collect();
        let nodes: Vec<String> = self.nodes.values().map(|node| self.describe(node)).collect();
        format!(
            "busy {}, controller {:?}, moving {moving:?}; {}",
            self.busy,
            self.controller(),
            nodes.join("; ")
        )
    }

    fn describe(&self, node: &Node) -> String {
        let Some(running) = &node.running else { return format!("node {} is down", node.number) };
        let slots = running.slots.values().map(|slot| {
            let Some(core) = &slot.core else { return format!("{}: offline", slot.id) };
            let reader = core.reader();
            let members = match core {
                Partition::Replica(replica) => {
                    Some((replica.role(), replica.members()))
                }
                Partition::Solo(_) => None,
            };
            let (end, high, stable) =
                (reader.log_end(), reader.high_watermark(), reader.last_stable_offset());
            let open = core.producers().iter().filter(|(_, state)| state.current_transaction.is_some());
            let open: Vec<_> = open.map(|(id, state)| (id, state.epoch, state.coordinator_epoch)).collect();
            format!(
                "{} as {}: open {open:?}, end {end}, committed {high}, stable {stable}, {:?}, {members:?}, halted {:?}",
                slot.id,
                slot.replica,
                core.leads(),
                core.halted()
            )
        });
        format!("node {}: {}", node.number, slots.collect::<Vec<_>>().join(", "))
    }

    /// The replicas of a partition at the end, by node.
    fn cores(&self, id: &TopicPartition) -> Vec<(u64, &Partition<SimDisk>)> {
        let mut found = Vec::new();
        for node in self.nodes.values() {
            let slots = node.running.iter().flat_map(|running| running.slots.values());
            let cores = slots.filter(|slot| slot.id == *id).filter_map(|slot| slot.core.as_ref());
            found.extend(cores.map(|core| (node.number, core)));
        }
        found
    }

    fn judge_tables(&self, id: &TopicPartition) -> Result<(), String> {
        let cores = self.cores(id);
        let from = cores.iter().map(|(_, core)| core.reader().log_start()).max().unwrap_or_default();
        tables::judge(cores.into_iter().map(|(node, core)| (node, core.producers())), from)
            .map_err(|error| format!("{error}, in {id}"))
    }

    /// The end of a run.
    pub(super) fn judge(&mut self) -> Result<(), String> {
        let (mut visible, mut in_order) = (BTreeSet::new(), BTreeMap::<TopicPartition, Vec<String>>::new());
        for id in [(DATA_TOPIC, 0), (DATA_TOPIC, 1), (OUT_TOPIC, 0)] {
            let id = topic_partition(id.0, PartitionId(id.1));
            let mut first: Option<BTreeMap<i64, Seen>> = None;
            let readers: Vec<_> =
                self.cores(&id).into_iter().map(|(node, core)| (node, core.reader())).collect();
            for (node, reader) in readers {
                let all = read_all(&reader).map_err(|error| format!("{id} on node {node}: {error}"))?;
                let held: BTreeMap<i64, Seen> =
                    all.iter().map(|(base, seen, _)| (base.get(), seen.clone())).collect();
                self.history.judge(&id, &held, node)?;
                if let Some(first) = &first
                    && *first != held
                {
                    return Err(format!(
                        "different-replicas: {id}: node {node} holds something else than another one"
                    ));
                }
                if first.is_none() {
                    let shown = all
                        .into_iter()
                        .filter(|(_, _, is_visible)| *is_visible)
                        .map(|(_, seen, _)| seen.value);
                    let shown: Vec<String> = shown.collect();
                    visible.extend(shown.iter().map(|value| (id.clone(), value.clone())));
                    in_order.insert(id.clone(), shown);
                }
                first = Some(held);
            }
            self.judge_tables(&id)?;
        }
        self.history.judge_transactions(&visible)?;
        self.judge_copy(&in_order)
    }

    /// What was processed is in the output exactly once, in order.
    fn judge_copy(&mut self, visible: &BTreeMap<TopicPartition, Vec<String>>) -> Result<(), String> {
        let values =
            |topic: &str| visible.get(&topic_partition(topic, PartitionId(0))).cloned().unwrap_or_default();
        let (input, output) = (values(DATA_TOPIC), values(OUT_TOPIC));
        let copied: Vec<&str> = output.iter().filter_map(|value| Some(value.split_once('@')?.1)).collect();
        for (at, value) in copied.iter().enumerate() {
            if input.get(at).map(String::as_str) != Some(*value) {
                return Err(format!(
                    "processed-otherwise: output {at} is {value}, the input there is {:?}",
                    input.get(at)
                ));
            }
        }
        *self.counts.entry("records processed exactly once").or_default() += copied.len() as u64;
        Ok(())
    }

    /// What is counted at the end only.
    pub(super) fn add_up(&mut self) {
        for number in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.crash(number, crate::CrashMode::KeepAll, 0);
        }
        let (links, calls) = (self.links.traffic(), self.calls.traffic());
        let more = [
            ("batches acknowledged", self.history.acknowledged),
            ("batches read", self.history.read),
            ("message lost", links.lost + calls.lost),
            ("message doubled", links.doubled),
            ("message reordered", links.reordered + calls.reordered),
            ("message into a cut", links.cut + calls.cut),
            ("request late", calls.late),
        ];
        self.counts.extend(more);
    }

    pub(super) fn count_fault(&mut self, kind: FaultKind) {
        self.count(match kind {
            FaultKind::Crash => "fault: crash",
            FaultKind::CrashOfAll => "fault: crash of all",
            FaultKind::Pause => "fault: pause",
            FaultKind::CutOneWay => "fault: cut, one way",
            FaultKind::CutOff => "fault: cut off",
            FaultKind::DiskFull => "fault: disk full",
            FaultKind::Eio => "fault: disk errors",
            FaultKind::PowerFailsWithinAStep => "fault: power failed within a step",
            FaultKind::ClockJump => "fault: clock jump",
            FaultKind::DiskLost => "fault: disk lost",
            FaultKind::BitRot => "fault: bit rot",
            FaultKind::MisdirectedWrite => "fault: misdirected write",
            FaultKind::Reassignment => "fault: reassignment",
            FaultKind::ControlledRestart => "fault: controlled restart",
            FaultKind::CoordinatorMoves => "fault: coordinator moved while its markers are late",
            FaultKind::CutAfterElection => "fault: cut right after an election",
        });
    }
}

type Held = (Offset, Seen, bool);

/// All committed batches of a replica, and whether a reader of committed records sees each.
fn read_all(reader: &PartitionReader<SimDisk>) -> Result<Vec<Held>, String> {
    let (mut all, mut at) = (Vec::new(), reader.log_start());
    let end = reader.high_watermark().offset();
    while let Some(slice) = reader.log().read(at, end, 1 << 20, true).map_err(|error| error.to_string())? {
        let bytes = slice.read().map_err(|error| error.to_string())?;
        let aborted = reader.aborted_transactions(at, slice.next_offset);
        let fetched = Fetched {
            bytes: bytes.clone(),
            epoch: None,
            high_watermark: end,
            last_stable: reader.last_stable_offset(),
            aborted: aborted.iter().map(|t| (t.producer_id.get(), t.first_offset, t.last_offset)).collect(),
        };
        for (base, seen) in History::parse(&bytes, at)? {
            let is_visible = clients::is_visible(&seen, base, &fetched);
            all.push((base, seen, is_visible));
        }
        at = slice.next_offset;
    }
    Ok(all)
}
