//! Conversations with a group coordinator. Each file under `conversations/` is a script. A line is a request,
//! an advance of time or a restart. Below it, indented, are all of its effects: records and replies.
//!
//! With TAILRACE_UPDATE=1 the actual effects are written into the scripts. Review the difference before you
//! keep it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use tailrace_metadata::TopicRef;

use crate::rig::{Rig, assignment_of_data, shared, show, subscription_with_data};
use bytes::Bytes;
use tailrace_coordination::coordinator::{Token, TransactionalProducer};
use tailrace_coordination::groups::{
    ClassicEvent, ClientIdentity, CommitPartition, CommitRequest, CommitTopic, Committer, ConsumerEvent,
    ConsumerHeartbeat, FetchRequest, FetchTopic, GroupEvent, GroupFilter, JoinAbilities, JoinRequest,
    LeavingMember, MemberReference, OffsetsEvent, ShareEvent, ShareHeartbeat, SyncRequest, TopicPartitions,
};
use tailrace_types::{ProducerEpoch, ProducerId, TopicId};

const INDENT: &str = "    ";

struct Player {
    rig: Rig,
    names: BTreeMap<Token, String>,
    fresh: BTreeMap<String, u32>,
}

/// The words of a line: the verb, names, and `key=value` pairs.
struct Words<'a> {
    plain: Vec<&'a str>,
    keyed: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    fn of(line: &'a str) -> Self {
        let (keyed, plain): (Vec<&str>, Vec<&str>) =
            line.split_whitespace().partition(|word| word.contains('=') && !word.starts_with('='));
        let keyed = keyed.into_iter().filter_map(|word| word.split_once('=')).collect();
        Self { plain, keyed }
    }

    fn name(&self, position: usize) -> &'a str {
        self.plain.get(position).unwrap_or_else(|| panic!("a word is missing in {:?}", self.plain))
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.keyed.get(key).copied()
    }

    fn settings(&self) -> BTreeMap<String, String> {
        self.keyed.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn number(&self, key: &str, default: i64) -> i64 {
        self.get(key).map_or(default, |text| text.parse().expect("a number"))
    }

    fn small(&self, key: &str, default: i32) -> i32 {
        self.number(key, default.into()).try_into().expect("a small number")
    }

    fn has(&self, word: &str) -> bool {
        self.plain.contains(&word)
    }
}

impl Player {
    fn new() -> Self {
        Self { rig: Rig::new(BTreeMap::new()), names: BTreeMap::new(), fresh: BTreeMap::new() }
    }

    fn play(&mut self, line: &str) -> Vec<String> {
        let words = Words::of(line);
        match words.name(0) {
            "settings" => {
                self.rig = Rig::new(words.settings());
                Vec::new()
            }
            "topic" => {
                self.rig.create_topic(words.name(1), words.small("partitions", 2));
                Vec::new()
            }
            "delete-topic" => {
                let effects = self.rig.delete_topic(words.name(1));
                show::effects(&effects, &self.names)
            }
            "wait" => self.wait(words.name(1).parse().expect("milliseconds")),
            "restart" => {
                if !words.keyed.is_empty() {
                    self.rig.set(words.settings());
                }
                let effects = self.rig.restart();
                show::effects(&effects, &self.names)
            }
            "marker" => {
                self.rig.marker(producer(words.name(1)), words.has("commit"));
                Vec::new()
            }
            "census" => {
                let census = self.rig.core.census();
                census
                    .iter()
                    .map(|((kind, state), count)| format!("{count} {} {}", kind.name(), state.name()))
                    .collect()
            }
            _ => {
                let token = self.rig.token();
                self.names.insert(token, words.name(1).to_owned());
                let event = self.event(token, &words);
                let effects = self.rig.step(event);
                show::effects(&effects, &self.names)
            }
        }
    }

    fn wait(&mut self, ms: i64) -> Vec<String> {
        let mut lines = Vec::new();
        for (at, effects) in self.rig.advance(ms) {
            lines
                .extend(show::effects(&effects, &self.names).into_iter().map(|line| format!("@{at} {line}")));
        }
        lines
    }

    fn event(&mut self, token: Token, words: &Words<'_>) -> GroupEvent {
        let group = shared(words.get("group").unwrap_or("g"));
        let classic = |event| GroupEvent::Classic { token, group: group.clone(), event };
        let offsets = |event| GroupEvent::Offsets { token, group: group.clone(), event };
        match words.name(0) {
            "beat" => {
                let event = ConsumerEvent::Heartbeat(Box::new(self.beat(words)));
                GroupEvent::Consumer { token, group, event }
            }
            "describe-consumer" => GroupEvent::Consumer { token, group, event: ConsumerEvent::Describe },
            "share" => {
                let beat = ShareHeartbeat {
                    member: shared(words.name(1)),
                    epoch: words.small("epoch", 0),
                    topics: words.get("topics").map(|topics| topics.split('+').map(str::to_owned).collect()),
                    ..ShareHeartbeat::default()
                };
                GroupEvent::Share { token, group, event: ShareEvent::Heartbeat(beat) }
            }
            "states" => {
                let made = self.owned(words.get("of").unwrap_or_default());
                let event = ShareEvent::StatesInitialized { generation: words.number("in", 1), topics: made };
                GroupEvent::Share { token, group, event }
            }
            "delete-states" => {
                let ids = |text| self.owned(text).into_iter().map(|(topic, _)| topic).collect();
                let topics = words.get("of").map(ids);
                GroupEvent::Share { token, group, event: ShareEvent::DeleteStates { topics } }
            }
            "states-deleted" => {
                let gone = self.owned(words.get("of").unwrap_or_default());
                let topics = gone.into_iter().map(|(topic, _)| topic).collect();
                let event = ShareEvent::StatesDeleted { upto: words.number("upto", 1), topics };
                GroupEvent::Share { token, group, event }
            }
            "open" => {
                let topics = self.owned(words.get("of").unwrap_or_default());
                GroupEvent::Share { token, group, event: ShareEvent::Open { make: true, topics } }
            }
            "join" => classic(ClassicEvent::Join(self.join(words))),
            "sync" => classic(ClassicEvent::Sync(sync(words))),
            "heartbeat" => classic(ClassicEvent::Heartbeat(member(words))),
            "leave" => classic(ClassicEvent::Leave(leave(words))),
            "commit" => offsets(OffsetsEvent::Commit(self.commit(words))),
            "fetch" => offsets(OffsetsEvent::Fetch(self.fetch(words))),
            "delete-offsets" => offsets(OffsetsEvent::Delete(
                by_topic(words.get("offsets").unwrap_or_default())
                    .into_iter()
                    .map(|(topic, rows)| TopicPartitions {
                        topic: topic.to_owned(),
                        partitions: rows.into_iter().map(|(partition, _)| partition).collect(),
                    })
                    .collect(),
            )),
            "list" => {
                let names = |key| words.get(key).map(|text| text.split(',').map(str::to_owned).collect());
                let filter = GroupFilter {
                    states: names("states").unwrap_or_default(),
                    kinds: names("kinds").unwrap_or_default(),
                };
                GroupEvent::List { token, filter }
            }
            "describe" => GroupEvent::Describe { token, groups: vec![group] },
            "delete-group" => GroupEvent::Delete { token, groups: vec![group] },
            verb => panic!("unknown verb {verb}"),
        }
    }

    /// `beat MEMBER [epoch=N] [instance=ID] [topics=T+T] [matching=REGEX] [assignor=NAME]
    /// [owned=T-0,T-1|none]`. A joining member (epoch 0) reports no partitions, and a rebalance timeout of a
    /// minute.
    fn beat(&self, words: &Words<'_>) -> ConsumerHeartbeat {
        let epoch = words.small("epoch", 0);
        let owned = words.get("owned").or((epoch == 0).then_some("none"));
        ConsumerHeartbeat {
            member: shared(words.name(1)),
            epoch,
            instance: words.get("instance").map(shared),
            rebalance_timeout_ms: (epoch == 0).then_some(60_000),
            topics: words.get("topics").map(|topics| topics.split('+').map(str::to_owned).collect()),
            expression: words.get("matching").map(str::to_owned),
            assignor: words.get("assignor").map(str::to_owned),
            owned: owned.map(|owned| self.owned(owned)),
            ..ConsumerHeartbeat::default()
        }
    }

    fn owned(&self, text: &str) -> Vec<(TopicId, Vec<i32>)> {
        if text == "none" {
            return Vec::new();
        }
        let topics = by_topic(text).into_iter().map(|(topic, rows)| {
            let id = self.rig.topic_id(topic).unwrap_or(TopicId([0xee; 16]));
            (id, rows.into_iter().map(|(partition, _)| partition).collect())
        });
        topics.collect()
    }

    /// `join NAME [member=ID] [instance=ID] [session=MS] [rebalance=MS] [protocols=NAME:TOPIC+TOPIC;NAME:..]
    /// [data=TEXT] [v3|v4|v9]`
    fn join(&mut self, words: &Words<'_>) -> JoinRequest {
        let name = words.name(1);
        let count = self.fresh.entry(name.to_owned()).or_default();
        *count += 1;
        let protocol = |text: &str| {
            let (name, topics) = text.split_once(':').unwrap_or((text, "t"));
            let topics: Vec<_> = topics.split('+').collect();
            (name.to_owned(), subscription_with_data(&topics, words.get("data")))
        };
        JoinRequest {
            client: ClientIdentity { client_id: name.to_owned(), client_host: "/10.0.0.1".to_owned() },
            member: shared(words.get("member").unwrap_or_default()),
            fresh_member: format!("{name}-{count}").into(),
            instance: words.get("instance").map(shared),
            session_timeout_ms: words.small("session", 10_000),
            rebalance_timeout_ms: words.small("rebalance", 60_000),
            protocol_type: words.get("type").unwrap_or("consumer").to_owned(),
            protocols: match words.get("protocols").unwrap_or("range:t") {
                "none" => Vec::new(),
                protocols => protocols.split(';').map(protocol).collect(),
            },
            abilities: JoinAbilities {
                comes_back_with_id: words.has("v4") || words.has("v9"),
                skips_assignment: words.has("v9"),
            },
        }
    }

    /// `commit NAME offsets=T-0:5,T-1:7@3 [member=ID] [generation=N] [transaction=ID:EPOCH]`
    fn commit(&mut self, words: &Words<'_>) -> CommitRequest {
        let by = Committer {
            member: shared(words.get("member").unwrap_or_default()),
            instance: words.get("instance").map(shared),
            generation_or_epoch: words.small("generation", -1),
            knows_epochs: words.has("v9"),
            transaction: words.get("transaction").map(producer),
        };
        let metadata = words.get("metadata").unwrap_or_default().to_owned();
        let partition = |(index, offset): (i32, &str)| {
            let (offset, epoch) = offset.split_once('@').unwrap_or((offset, "-1"));
            CommitPartition {
                index,
                offset: offset.parse().expect("an offset"),
                leader_epoch: epoch.parse().expect("an epoch"),
                metadata: metadata.clone(),
            }
        };
        let topics =
            by_topic(words.get("offsets").expect("offsets")).into_iter().map(|(topic, rows)| CommitTopic {
                topic: self.reference(topic, words),
                partitions: rows.into_iter().map(partition).collect(),
            });
        let topics = topics.collect();
        CommitRequest { by, retention_ms: words.get("retention").map(|ms| ms.parse().expect("ms")), topics }
    }

    fn fetch(&mut self, words: &Words<'_>) -> FetchRequest {
        let topics = words.get("offsets").map(|offsets| {
            let wanted = |(topic, rows): (&str, Vec<(i32, &str)>)| FetchTopic {
                topic: self.reference(topic, words),
                partitions: rows.into_iter().map(|(index, _)| index).collect(),
            };
            by_topic(offsets).into_iter().map(wanted).collect()
        });
        FetchRequest { member: None, member_epoch: -1, topics, require_stable: words.has("stable") }
    }

    fn reference(&self, topic: &str, words: &Words<'_>) -> TopicRef {
        if words.has("by-id") {
            TopicRef::Id(self.rig.topic_id(topic).unwrap_or(TopicId([0xee; 16])))
        } else {
            TopicRef::Name(topic.to_owned())
        }
    }
}

/// Parses `T-0:5,T-1` to topics, partitions and the texts after the colons.
fn by_topic(text: &str) -> Vec<(&str, Vec<(i32, &str)>)> {
    let mut topics: Vec<(&str, Vec<(i32, &str)>)> = Vec::new();
    for row in text.split(',') {
        let (place, value) = row.split_once(':').unwrap_or((row, ""));
        let (topic, partition) = place.split_once('-').expect("TOPIC-PARTITION");
        let row = (partition.parse().expect("a partition"), value);
        match topics.last_mut() {
            Some((last, rows)) if *last == topic => rows.push(row),
            _ => topics.push((topic, vec![row])),
        }
    }
    topics
}

fn producer(text: &str) -> TransactionalProducer {
    let (id, epoch) = text.split_once(':').expect("ID:EPOCH");
    TransactionalProducer {
        id: ProducerId(id.parse().expect("an id")),
        epoch: ProducerEpoch(epoch.parse().expect("an epoch")),
    }
}

fn member(words: &Words<'_>) -> MemberReference {
    MemberReference {
        member: shared(words.get("member").unwrap_or_default()),
        instance: words.get("instance").map(shared),
        generation: words.small("generation", 1),
    }
}

/// `sync NAME member=ID generation=N [assign=ID:TEXT,ID:TEXT]`. `!TEXT` is a well-formed assignment with that
/// user data.
fn sync(words: &Words<'_>) -> SyncRequest {
    let assignment = |text: &str| {
        let (member, bytes) = text.split_once(':').expect("MEMBER:TEXT");
        let text = || Bytes::copy_from_slice(bytes.as_bytes());
        (shared(member), bytes.strip_prefix('!').map_or_else(text, assignment_of_data))
    };
    SyncRequest {
        by: member(words),
        protocol_type: words.get("type").map(str::to_owned),
        protocol: words.get("protocol").map(str::to_owned),
        assignments: words
            .get("assign")
            .map(|all| all.split(',').map(assignment).collect())
            .unwrap_or_default(),
    }
}

/// `leave NAME members=ID,/INSTANCE,ID/INSTANCE`
fn leave(words: &Words<'_>) -> Vec<LeavingMember> {
    let leaving = |text: &str| {
        let (member, instance) = text.split_once('/').map_or((text, None), |(m, i)| (m, Some(i)));
        LeavingMember { member: shared(member), instance: instance.map(shared) }
    };
    words.get("members").expect("members").split(',').map(leaving).collect()
}

/// Plays a script. Returns the script with its actual effects.
fn play(script: &str) -> String {
    let mut player = Player::new();
    let mut played = String::new();
    for line in script.lines().filter(|line| !line.starts_with(INDENT)) {
        played.push_str(line);
        played.push('\n');
        if line.starts_with("==") {
            player = Player::new();
        }
        if line.is_empty() || line.starts_with(['#', '=']) {
            continue;
        }
        for effect in player.play(line) {
            writeln!(played, "{INDENT}{effect}").expect("strings take everything");
        }
    }
    played
}

#[test]
fn conversations_go_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/groups/conversations");
    let update = std::env::var_os("TAILRACE_UPDATE").is_some();
    let mut scripts: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.sort();
    assert!(!scripts.is_empty());
    let mut failed = Vec::new();
    for path in scripts {
        let script = std::fs::read_to_string(&path).unwrap();
        let played = play(&script);
        if played == script {
            continue;
        }
        if update {
            std::fs::write(&path, played).unwrap();
            continue;
        }
        let both = script.lines().zip(played.lines()).enumerate();
        let first = both.into_iter().find(|(_, (expected, found))| expected != found);
        failed.push(format!("{}: {first:?}", path.display()));
    }
    assert!(failed.is_empty(), "first differences (line from 0, expected, found): {failed:#?}");
}
