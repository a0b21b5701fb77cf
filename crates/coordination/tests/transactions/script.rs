//! Conversations with the coordinator, as text. A line that starts with `>` is a request, and the lines below
//! it are its effects. `records N` after a reply is the number of records written to the log.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use tailrace_coordination::coordinator::{CoordinatorRecord, Token, TransactionalProducer};
use tailrace_coordination::transactions::*;
use tailrace_records::internal::{TransactionLogKey, TransactionLogValue};
use tailrace_types::{ProducerEpoch, ProducerId, TimestampMs, TopicPartition};

use crate::world::{World, partition};

/// Plays every line of `script` and compares the effects.
pub(crate) fn play(name: &str, script: &str) {
    let mut player = Player::new();
    let mut heard = String::new();
    for line in script.lines() {
        match line.strip_prefix("> ") {
            Some(said) => {
                writeln!(heard, "{line}").unwrap();
                heard.push_str(&player.say(said));
            }
            None if line.is_empty() || line.starts_with('#') => writeln!(heard, "{line}").unwrap(),
            None => {}
        }
    }
    assert!(heard == script, "{name} goes otherwise:\n{heard}");
}

struct Player {
    world: World,
    names: Vec<(Token, String)>,
    /// All work that was ever requested.
    given: Vec<WriteMarkers>,
}

impl Player {
    fn new() -> Self {
        Self {
            world: World::new(&[("tailrace.transactional.ids.max", "3")]),
            names: Vec::new(),
            given: Vec::new(),
        }
    }

    fn say(&mut self, line: &str) -> String {
        let mut words = line.split(' ');
        let verb = words.next().unwrap();
        let words: Vec<&str> = words.collect();
        let before = (self.world.log.len(), self.world.work.len());
        self.given.extend(self.world.work.iter().cloned());
        match verb {
            "restart" => {
                self.world.restart();
                return self.outcome((before.0, 0), line);
            }
            "pass" => self.world.pass(words[0].parse().unwrap()),
            "markers" => {
                self.markers();
                return self.outcome((before.0, 0), line);
            }
            "bump" => {
                self.bump(words[0], words[1].parse().unwrap());
                return String::new();
            }
            _ => {
                let token = self.world.token();
                self.names.push((token, line.to_owned()));
                let event = match verb {
                    "written" => TransactionEvent::MarkersWritten { token, markers: self.written(&words) },
                    _ => event(token, verb, &words),
                };
                self.world.step(event);
            }
        }
        self.outcome(before, line)
    }

    /// Returns the work to report: the newest for the id and producer, or the oldest, or work that was never
    /// requested.
    fn written(&self, words: &[&str]) -> WriteMarkers {
        let id = words[0];
        let producer = producer(words.iter().find_map(|word| word.strip_prefix("as=")).expect("as=ID/EPOCH"));
        let mut fitting =
            self.given.iter().filter(|work| work.transactional_id == id && work.producer == producer);
        let found = if words.contains(&"oldest") { fitting.next() } else { fitting.next_back() };
        found.cloned().unwrap_or_else(|| WriteMarkers {
            transactional_id: id.to_owned(),
            producer,
            committed: true,
            protocol: TransactionProtocol::Classic,
            partitions: BTreeSet::new(),
            prepared_at: TimestampMs(0),
        })
    }

    /// Brings an id to a high epoch by means of a record, because requests would take too long.
    fn bump(&mut self, transactional_id: &str, epoch: i16) {
        let token = self.world.token();
        self.world.step(TransactionEvent::Describe { token, transactional_id: transactional_id.to_owned() });
        let Some((_, TransactionReply::Described(one))) = self.world.replies.pop() else {
            panic!("unknown id")
        };
        let value = TransactionLogValue {
            producer_id: one.producer.id.get(),
            previous_producer_id: one.producer.id.get(),
            next_producer_id: -1,
            producer_epoch: epoch,
            next_producer_epoch: -1,
            timeout_ms: one.timeout_ms,
            status: TransactionState::Empty.number(),
            partitions: None,
            last_update_ms: self.world.now,
            start_ms: -1,
            client_transaction_version: 2,
        };
        let key = TransactionLogKey { transactional_id: transactional_id.to_owned() }.encode();
        self.world.log.push(CoordinatorRecord { key, value: Some(value.encode(1)) });
        self.world.restart();
    }

    /// Reports all requested work as done.
    fn markers(&mut self) {
        for work in std::mem::take(&mut self.world.work) {
            let token = self.world.token();
            self.names.push((token, "markers".to_owned()));
            self.world.step(TransactionEvent::MarkersWritten { token, markers: work });
        }
    }

    /// Returns the replies, the requested work except for the first `work` pieces, and the number of records
    /// except for the first `records`.
    fn outcome(&mut self, (records, work): (usize, usize), line: &str) -> String {
        let mut out = String::new();
        for (token, reply) in std::mem::take(&mut self.world.replies) {
            let (_, asked) = self.names.iter().find(|(name, _)| *name == token).unwrap();
            if reply == TransactionReply::MarkersNoted {
                continue;
            }
            let to = if asked == line { String::new() } else { format!("[{asked}] ") };
            writeln!(out, "  {to}{}", text(reply)).unwrap();
        }
        for work in &self.world.work[work..] {
            let end = if work.committed { "commit" } else { "abort" };
            let partitions = names(&work.partitions);
            writeln!(out, "  write {end} {} to {partitions}", who(work.producer)).unwrap();
        }
        match self.world.log.len() - records {
            0 => {}
            count => writeln!(out, "  records {count}").unwrap(),
        }
        out
    }
}

fn event(token: Token, verb: &str, words: &[&str]) -> TransactionEvent {
    let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let transactional_id = words.first().copied().unwrap_or_default().to_owned();
    let fresh = option("fresh").map(|id| ProducerId(id.parse().unwrap()));
    let producer = || producer(option("as").expect("as=ID/EPOCH"));
    let protocol = match option("v") {
        Some("1") => TransactionProtocol::Classic,
        _ => TransactionProtocol::EpochPerTransaction,
    };
    let partitions = || words.iter().filter(|word| word.contains(':')).map(|word| place(word)).collect();
    match verb {
        "init" => TransactionEvent::Init(InitProducer {
            token,
            transactional_id,
            timeout_ms: option("timeout").map_or(60_000, |ms| ms.parse().unwrap()),
            expected: option("as").map(self::producer),
            fresh,
        }),
        "add" => TransactionEvent::Add(AddPartitions {
            token,
            transactional_id,
            producer: producer(),
            partitions: partitions(),
            protocol,
        }),
        "verify" => TransactionEvent::Verify(VerifyPartitions {
            token,
            transactional_id,
            producer: producer(),
            partitions: partitions(),
        }),
        "commit" | "abort" => TransactionEvent::End(EndTransaction {
            token,
            transactional_id,
            producer: producer(),
            committed: verb == "commit",
            protocol,
            fresh,
        }),
        "ask" => TransactionEvent::AskMarkers { token, transactional_id },
        "describe" => TransactionEvent::Describe { token, transactional_id },
        "list" => TransactionEvent::List { token, filter: filter(&option) },
        other => panic!("unknown verb {other}"),
    }
}

fn filter<'a>(option: &dyn Fn(&str) -> Option<&'a str>) -> TransactionFilter {
    TransactionFilter {
        states: option("state").map(|names| names.split(',').filter_map(TransactionState::named).collect()),
        producers: option("producer").map(|id| BTreeSet::from([ProducerId(id.parse().unwrap())])),
        longer_than_ms: option("longer").map(|ms| ms.parse().unwrap()),
    }
}

fn producer(text: &str) -> TransactionalProducer {
    let (id, epoch) = text.split_once('/').unwrap();
    TransactionalProducer {
        id: ProducerId(id.parse().unwrap()),
        epoch: ProducerEpoch(epoch.parse().unwrap()),
    }
}

fn place(text: &str) -> TopicPartition {
    let (topic, number) = text.split_once(':').unwrap();
    partition(topic, number.parse().unwrap())
}

fn who(producer: TransactionalProducer) -> String {
    format!("{}/{}", producer.id, producer.epoch)
}

fn names(partitions: &BTreeSet<TopicPartition>) -> String {
    let all: Vec<_> = partitions.iter().map(|p| format!("{}:{}", p.topic, p.partition)).collect();
    if all.is_empty() { "nothing".to_owned() } else { all.join(" ") }
}

fn text(reply: TransactionReply) -> String {
    match reply {
        TransactionReply::Initialized(producer) => format!("initialized {}", who(producer)),
        TransactionReply::Added => "added".to_owned(),
        TransactionReply::Verified { missing } => format!("missing {}", names(&missing)),
        TransactionReply::Ended(producer) => format!("ended, next {}", who(producer)),
        TransactionReply::MarkersNoted => "noted".to_owned(),
        TransactionReply::Markers(None) => "nothing to write".to_owned(),
        TransactionReply::Markers(Some(markers)) => {
            let end = if markers.committed { "commit" } else { "abort" };
            format!("to write: {end} {} to {}", who(markers.producer), names(&markers.partitions))
        }
        TransactionReply::Listed(all) => {
            let one = |one: &TransactionListing| {
                format!("{} {} {}", one.transactional_id, one.producer_id, one.state.name())
            };
            format!("listed [{}]", all.iter().map(one).collect::<Vec<_>>().join(", "))
        }
        TransactionReply::Described(one) => format!(
            "{} {} timeout {} since {:?} in {}",
            one.state.name(),
            who(one.producer),
            one.timeout_ms,
            one.started.map(|started| started.0),
            names(&one.partitions)
        ),
        TransactionReply::FreshIdNeeded => "a fresh id is needed".to_owned(),
        TransactionReply::Refused(error) => format!("refused: {error}"),
    }
}
