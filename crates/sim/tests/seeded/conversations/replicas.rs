//! A group of replicas whose messages arrive where and when a script says.
//!
//! | step | what it does |
//! |---|---|
//! | `group 1 2 3 [segment=BYTES]` | opens the voters of a group; must come first |
//! | `open 4` | opens another replica, which is not a member yet |
//! | `campaign 1`, `tick 1 5` | starts an election; ticks this many times |
//! | `append 1 TEXT` | a client appends one record |
//! | `fate 1 TEXT` | the fate of the record, as replica 1 knows it |
//! | `deliver`, `deliver 1>2` | messages in flight arrive, and their answers are in flight |
//! | `lose 1>2`, `twice 1>2`, `backwards` | messages in flight are dropped, duplicated, reversed |
//! | `sync 1`, `checkpoint 1` | syncs everything that is written; writes a checkpoint, too |
//! | `settle` | all replicas sync and exchange messages, without ticks, until none are left |
//! | `cut 1`, `join 1` | cuts replica 1 off; reconnects it |
//! | `power 1`, `kill 1`, `stop 1`, `start 1` | power failure, end of the process, clean stop; start |
//! | `barrier 1 NAME`, `passed 1 NAME` | begins a barrier; tells whether it has passed |
//! | `learner 1 4`, `promote 1 4`, `remove 1 3` | the leader changes members |
//! | `transfer 1 2` | the leader hands over |
//! | `trim 1 OFFSET`, `retain 1` | DeleteRecords; removes the files below the log start |
//! | `read 1` | the content of its log |
//! | `replicated 1 3` | up to where three voters have it, as the leader knows (`min.insync.replicas`) |
//! | `state 1` | the state of the replica |
#![expect(clippy::unit_arg, reason = "most of what is done has no outcome of its own")]

use std::collections::{BTreeMap, BTreeSet};

use tailrace_log::LogConfig;
use tailrace_records::{DecodedBatch, split_batches};
use tailrace_replication::Appended;
use tailrace_replication::raft::{
    Barrier, Fate, MemberChange, PeerMessage, ProposeError, Replica, ReplicaId, Role,
};
use tailrace_sim::{CrashMode, SimDisk};
use tailrace_types::Offset;

use super::wire::describe;
use super::{Partner, conversations};
use crate::common::trio::{NOW, append, disk, open_with, options};

conversations!(
    Group::default(),
    "replicas": appends, elections, votes, deposed, barriers, members, snapshots, restarts, handover, disorder
);

#[derive(Default)]
struct Group {
    config: LogConfig,
    voters: Vec<u64>,
    disks: BTreeMap<u64, SimDisk>,
    replicas: BTreeMap<u64, Replica<SimDisk>>,
    under_way: Vec<PeerMessage>,
    cut: BTreeSet<u64>,
    /// The last state shown of each replica.
    told: BTreeMap<u64, String>,
    appended: Vec<(u64, String, Appended)>,
    barriers: Vec<(String, Barrier)>,
}

impl Partner for Group {
    fn say(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split(' ').collect();
        let (verb, rest) = (words[0], &words[1..]);
        let mut out = match verb {
            "group" => self.found(rest),
            "deliver" => self.deliver(rest.first().copied()),
            "lose" => self.lose(rest[0]),
            "twice" => self.twice(rest[0]),
            "backwards" => {
                self.under_way.reverse();
                Vec::new()
            }
            "settle" => self.settle(),
            _ => self.one(verb, rest[0].parse().unwrap(), &rest[1..]),
        };
        out.extend(self.hear());
        out
    }
}

impl Group {
    fn found(&mut self, words: &[&str]) -> Vec<String> {
        for word in words {
            match word.strip_prefix("segment=") {
                Some(bytes) => {
                    let segment_bytes: u64 = bytes.parse().unwrap();
                    let retention_bytes = Some(segment_bytes);
                    self.config = LogConfig { segment_bytes, retention_bytes, ..LogConfig::default() };
                }
                None => self.voters.push(word.parse().unwrap()),
            }
        }
        self.voters.clone().into_iter().flat_map(|id| self.open(id)).collect()
    }

    fn open(&mut self, id: u64) -> Vec<String> {
        let disk = self.disks.entry(id).or_insert_with(disk).clone();
        match open_with(&disk, self.config.clone(), options(id, &self.voters)) {
            Ok(replica) => {
                self.replicas.insert(id, replica);
                Vec::new()
            }
            Err(error) => vec![format!("{id} does not open: {error}")],
        }
    }

    fn at(&mut self, id: u64) -> &mut Replica<SimDisk> {
        self.replicas.get_mut(&id).unwrap_or_else(|| panic!("replica {id} does not run"))
    }

    /// Carries out a step for one replica.
    fn one(&mut self, verb: &str, id: u64, words: &[&str]) -> Vec<String> {
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        match verb {
            "open" | "start" => self.open(id),
            "campaign" => done(self.at(id).campaign(NOW)),
            "tick" => done((0..number(0)).for_each(|_| self.at(id).tick(NOW))),
            "append" => self.append(id, &words.join(" ")),
            "fate" => self.fate(id, &words.join(" ")),
            "sync" => done(self.sync(id, false)),
            "checkpoint" => done(self.sync(id, true)),
            "cut" => done(self.cut.insert(id)),
            "join" => done(self.cut.remove(&id)),
            "power" => self.end(id, CrashMode::LoseAll),
            "kill" => self.end(id, CrashMode::KeepAll),
            "stop" => {
                self.told.remove(&id);
                let closed = self.replicas.remove(&id).unwrap().close();
                closed.err().map(|error| error.to_string()).into_iter().collect()
            }
            "barrier" => self.barrier(id, words[0]),
            "passed" => {
                let barrier = &self.barriers.iter().find(|(name, _)| name == words[0]).unwrap().1;
                vec![match self.replicas[&id].has_passed(barrier) {
                    Some(true) => "yes".to_owned(),
                    Some(false) => "not yet".to_owned(),
                    None => "it will not".to_owned(),
                }]
            }
            "learner" => self.change(id, MemberChange::AddLearner(ReplicaId(number(0)))),
            "promote" => self.change(id, MemberChange::Promote(ReplicaId(number(0)))),
            "remove" => self.change(id, MemberChange::Remove(ReplicaId(number(0)))),
            "transfer" => done(self.at(id).transfer_leadership(ReplicaId(number(0)), NOW)),
            "trim" => {
                let to = Offset(words[0].parse().unwrap());
                refusal(self.at(id).advance_log_start(to, NOW))
            }
            "retain" => self.retain(id),
            "read" => self.read(id),
            "replicated" => {
                let count = words[0].parse().unwrap();
                vec![format!("below {}", self.at(id).replicated_to(count).unwrap())]
            }
            "state" => self.state(id),
            other => panic!("unknown verb {other}"),
        }
    }

    fn append(&mut self, id: u64, text: &str) -> Vec<String> {
        match append(self.at(id), text) {
            Ok(appended) => {
                self.appended.push((id, text.to_owned(), appended));
                vec![format!("at {} of epoch {}", appended.base_offset, appended.epoch)]
            }
            Err(error) => refusal(Err(error)),
        }
    }

    fn fate(&mut self, id: u64, text: &str) -> Vec<String> {
        let found = self.appended.iter().rfind(|(by, name, _)| *by == id && name == text);
        let appended = found.unwrap_or_else(|| panic!("{id} did not append {text}")).2;
        vec![match self.at(id).fate(&appended) {
            Fate::Open => "open".to_owned(),
            Fate::Committed => "committed".to_owned(),
            Fate::Lost => "lost".to_owned(),
        }]
    }

    fn sync(&mut self, id: u64, checkpoint: bool) {
        while let Some(ticket) = self.at(id).begin_sync(checkpoint) {
            let result = ticket.run();
            self.at(id).finish_sync(&ticket, &result, NOW);
            if checkpoint {
                return;
            }
        }
    }

    fn end(&mut self, id: u64, mode: CrashMode) -> Vec<String> {
        self.replicas.remove(&id).unwrap();
        let left = self.disks[&id].crash(mode);
        self.disks.insert(id, left);
        self.told.remove(&id);
        Vec::new()
    }

    fn barrier(&mut self, id: u64, name: &str) -> Vec<String> {
        match self.at(id).begin_barrier(NOW) {
            Ok(barrier) => done(self.barriers.push((name.to_owned(), barrier))),
            Err(error) => refusal(Err(error)),
        }
    }

    fn change(&mut self, id: u64, change: MemberChange) -> Vec<String> {
        refusal(self.at(id).change_members(change, NOW))
    }

    fn retain(&mut self, id: u64) -> Vec<String> {
        let Some(trim) = self.at(id).retain(NOW).unwrap() else { return vec!["nothing to do".to_owned()] };
        let result = trim.run();
        self.at(id).finish_trim(&trim, &result);
        vec![format!("log start {}", self.at(id).reader().log_start())]
    }

    fn read(&mut self, id: u64) -> Vec<String> {
        let reader = self.at(id).reader();
        let mut out = vec![format!(
            "offsets {}-{}, committed below {}",
            reader.log_start(),
            reader.log_end(),
            reader.high_watermark()
        )];
        let mut at = reader.log_start();
        while let Some(slice) = reader.log().read(at, reader.log_end().offset(), 1 << 20, true).unwrap() {
            for item in split_batches(&slice.read().unwrap()) {
                let (header, bytes) = item.unwrap();
                for record in DecodedBatch::new(bytes, 1 << 20).unwrap().records() {
                    let record = record.unwrap();
                    let text = String::from_utf8_lossy(record.value.unwrap_or_default());
                    out.push(format!("{} of epoch {}: {text}", record.offset, header.leader_epoch));
                }
            }
            at = slice.next_offset;
        }
        out
    }

    fn state(&mut self, id: u64) -> Vec<String> {
        let replica = self.at(id);
        let members = replica.members();
        let ids = |list: &[ReplicaId]| {
            let sorted: BTreeSet<_> = list.iter().map(|id| id.0).collect();
            sorted.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
        };
        let mut out = vec![format!("voters {}", ids(&members.voters))];
        if !members.learners.is_empty() {
            out.push(format!("learners {}", ids(&members.learners)));
        }
        out.extend(replica.halted().map(|reason| format!("halted: {reason}")));
        out
    }

    // ---- messages ----

    fn passes(&self, message: &PeerMessage) -> bool {
        let (from, to) = (message.from().0, message.to().0);
        !self.cut.contains(&from) && !self.cut.contains(&to) && self.replicas.contains_key(&to)
    }

    /// Takes the messages in flight, on one link or on all.
    fn take(&mut self, link: Option<&str>) -> Vec<PeerMessage> {
        let is_on = |message: &PeerMessage| {
            link.is_none_or(|link| link == format!("{}>{}", message.from().0, message.to().0))
        };
        let (taken, left) = std::mem::take(&mut self.under_way).into_iter().partition(is_on);
        self.under_way = left;
        taken
    }

    fn deliver(&mut self, link: Option<&str>) -> Vec<String> {
        for message in self.take(link) {
            if self.passes(&message) {
                self.at(message.to().0).receive(message, NOW);
            }
        }
        self.chunks();
        Vec::new()
    }

    fn lose(&mut self, link: &str) -> Vec<String> {
        let lost = self.take(Some(link));
        assert!(!lost.is_empty(), "nothing is in flight on {link}");
        Vec::new()
    }

    fn twice(&mut self, link: &str) -> Vec<String> {
        let again = self.take(Some(link));
        self.under_way.extend(again.iter().cloned());
        self.under_way.extend(again);
        Vec::new()
    }

    /// Carries chunks of snapshots. Returns true if there were any.
    fn chunks(&mut self) -> bool {
        let mut any = false;
        for id in self.replicas.keys().copied().collect::<Vec<_>>() {
            let Some(request) = self.at(id).wanted_chunk() else { continue };
            let from = request.to().0;
            if self.cut.contains(&id) || self.cut.contains(&from) || !self.replicas.contains_key(&from) {
                continue;
            }
            let chunk = self.at(from).chunk_reader(&request).and_then(|reader| reader.read().ok());
            self.at(id).take_chunk(&request, chunk, NOW);
            any = true;
        }
        any
    }

    fn settle(&mut self) -> Vec<String> {
        for _ in 0..1000 {
            for id in self.replicas.keys().copied().collect::<Vec<_>>() {
                self.sync(id, false);
                let said = self.at(id).take_messages();
                self.under_way.extend(said);
            }
            let all = self.take(None);
            if all.is_empty() && !self.chunks() {
                return Vec::new();
            }
            for message in all {
                if self.passes(&message) {
                    self.at(message.to().0).receive(message, NOW);
                }
            }
        }
        panic!("the replicas do not settle");
    }

    /// Returns the new messages, and the replicas whose role has changed.
    fn hear(&mut self) -> Vec<String> {
        let mut out = Vec::new();
        for (id, replica) in &mut self.replicas {
            let mut said = replica.take_messages();
            // The engine iterates over members in its own order.
            said.sort_by_key(|message| message.to());
            out.extend(said.iter().map(describe));
            self.under_way.extend(said);
            let role = match replica.role() {
                Role::Leader => "leads".to_owned(),
                Role::Follower(Some(leader)) => format!("follows {}", leader.0),
                Role::Follower(None) => "follows nobody".to_owned(),
                Role::Candidate => "asks for votes".to_owned(),
            };
            let halted = if replica.halted().is_some() { ", halted" } else { "" };
            let now = format!("{id} {role} (epoch {}{halted})", replica.epoch());
            if self.told.get(id) != Some(&now) {
                out.push(now.clone());
                self.told.insert(*id, now);
            }
        }
        out
    }
}

/// The step has no immediate results.
fn done<T>(_: T) -> Vec<String> {
    Vec::new()
}

fn refusal(result: Result<(), ProposeError>) -> Vec<String> {
    match result {
        Ok(()) => Vec::new(),
        Err(ProposeError::NotLeader { leader: Some(leader) }) => vec![format!("refused: {} leads", leader.0)],
        Err(error) => vec![format!("refused: {error}")],
    }
}
