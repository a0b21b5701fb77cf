//! A whole cluster: the shipped controller, partitions and coordinators on simulated disks, a simulated network and simulated clocks,
//! with clients of all kinds, and faults; all from one seed, in one thread.
//!
//! [`run`] lets the faults rage, then ends them, waits until everything is whole again, and judges what clients were told and saw.

mod clients;
mod coordinators;
mod faults;
mod history;
mod judge;
mod markers;
mod members;
mod messages;
mod metadata;
mod node;
mod services;
mod tasks;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use tailrace_log::Disk;
use tailrace_metadata::{Command, CreateTopic, RegisterNode, Requester};
use tailrace_replication::raft::{DeliberateBug, ReplicaId};
use tailrace_types::{
    GroupId, NodeId, PartitionId, ProducerId, TimestampMs, TopicId, TopicName, TopicPartition,
};

pub use faults::{Fault, FaultKind};

use crate::network::{Network, Weather};
use crate::{CrashMode, Failure, Mask, Rng, SimDisk};
use faults::End;
use history::History;
use messages::{Call, Letter, Request, Response};
use node::{Node, Place};
use tasks::{Owner, Sim, Tasks, Turn, Work};

/// The metadata log's group.
const CONTROLLER: GroupId =
    GroupId { topic: TopicId([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), partition: PartitionId(0) };
const DATA_TOPIC: &str = "data";
const OUT_TOPIC: &str = "out";
/// The first faults come after this time.
const QUIET_MS: u64 = 1_500;
/// By then everything must be whole once the faults have ended.
const SETTLE_MS: u64 = 60_000;
/// How long a transaction may stay open.
const TRANSACTION_MS: i32 = 2_000;
const LINKS: Weather = Weather {
    lost_percent: 3,
    doubled_percent: 2,
    delay_ms_min: 1,
    delay_ms_max: 15,
    late_percent: 0,
    late_ms_max: 0,
};
/// Requests are not doubled: they go over connections.
const CALLS: Weather = Weather {
    lost_percent: 1,
    doubled_percent: 0,
    delay_ms_min: 1,
    delay_ms_max: 10,
    late_percent: 2,
    late_ms_max: 2_500,
};

/// One run in so many throttles how new replicas are brought up to date: the seeds that leave this remainder, among which there is none that
/// found something before.
const THROTTLED_ONE_IN: (u64, u64) = (7, 4);

/// How a run is set up.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Everything follows from it.
    pub seed: u64,
    /// How long the faults rage, in milliseconds of simulated time.
    pub storm_ms: u64,
    /// What is done wrong on purpose.
    pub bug: Option<Bug>,
    /// Which faults are left out.
    pub mask: Mask,
}

/// A fault of the cluster's own that a run must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A node that lost its disk opens its replicas under their old ids.
    ReuseReplicaId,
    /// A leader answers reads before an entry of its own term is committed.
    StaleLeaderReads,
    /// The replicas' own.
    Replicas(DeliberateBug),
}

/// What a run has seen and done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterReport {
    /// How often each fault and each rare state happened.
    pub counts: BTreeMap<&'static str, u64>,
    /// The faults that were injected.
    pub faults: Vec<Fault>,
    /// Checksum of all that happened, in order: two runs of one seed have the same.
    pub trace: u32,
}

/// A process that has to be started anew.
struct Halt {
    at_ms: u64,
    mode: CrashMode,
}

struct World {
    rng: Rng,
    now_ms: u64,
    bug: Option<Bug>,
    mask: Mask,
    is_calm: bool,
    /// Leaders are cut off after their election.
    aims: bool,
    /// Markers are late and their coordinators move meanwhile, as this tells.
    late_markers: Option<Rng>,
    /// New replicas are brought up to date slowly, as this tells.
    throttle: Option<Rng>,
    aimed: usize,
    nodes: BTreeMap<u64, Node>,
    links: Network<Letter>,
    calls: Network<Call>,
    /// What came for nodes that are paused.
    backlog: BTreeMap<u64, Vec<(u64, Parcel)>>,
    /// Requests that wait for their answer.
    asked: BTreeMap<u64, Option<Response>>,
    calls_made: u64,
    spawned: Vec<(Owner, Work)>,
    faults: VecDeque<Fault>,
    injected: Vec<Fault>,
    /// Damages that wait until everything is whole.
    postponed: Vec<Fault>,
    ends: BTreeMap<(u64, u64), End>,
    ends_made: u64,
    restarts: BTreeMap<u64, Halt>,
    /// Coordinators to be loaded, by node.
    to_load: BTreeMap<u64, Vec<(String, i32)>>,
    to_tell: BTreeSet<u64>,
    history: History,
    producer_ids: BTreeSet<ProducerId>,
    /// Clients that have begun something.
    busy: usize,
    counts: BTreeMap<&'static str, u64>,
    trace: u32,
    failure: Option<String>,
}

/// What must have happened somewhere in a campaign of some length, or the simulator does not do what it is there for.
pub const RARE: [&str; 58] = [
    "a batch was sent again",
    "a coordinator was loaded",
    "a disk was replaced",
    "a follower answered a fetch",
    "a leader counts",
    "a leader that leaves handed over",
    "a learner was added",
    "a learner was promoted",
    "a marker of an earlier coordinator was refused",
    "a marker was written",
    "a marker was written again",
    "a member was removed",
    "a message for an earlier replica",
    "a node joined",
    "a node was fenced",
    "a node was shut down in order",
    "a node was unfenced",
    "a processor's transaction was committed",
    "a reader passed over an aborted batch",
    "a repeated batch was recognised",
    "a replica halted",
    "a replica waits for room",
    "a replica was opened anew",
    "a replica was removed",
    "a throttled message was held up",
    "a throttled message was not sent",
    "a transaction was aborted",
    "a transaction was committed",
    "a transactional batch was refused",
    "a transactional producer was fenced off",
    "an offset was committed",
    "batches acknowledged",
    "batches read",
    "compaction",
    "fault: bit rot",
    "fault: clock jump",
    "fault: controlled restart",
    "fault: coordinator moved while its markers are late",
    "fault: crash",
    "fault: crash of all",
    "fault: cut off",
    "fault: cut right after an election",
    "fault: cut, one way",
    "fault: disk errors",
    "fault: disk full",
    "fault: disk lost",
    "fault: misdirected write",
    "fault: pause",
    "fault: power failed within a step",
    "fault: reassignment",
    "message doubled",
    "message lost",
    "message reordered",
    "records processed exactly once",
    "request late",
    "snapshot installed",
    "truncation",
    "verification found damage",
];

enum Parcel {
    Letter(Letter),
    Call(Call),
}

/// Runs one seed.
///
/// # Errors
/// What should not have happened, and the faults until then.
pub fn run(options: ClusterOptions) -> Result<ClusterReport, Failure> {
    let storm_ms = options.storm_ms.max(QUIET_MS);
    let sim = Sim::new(World::new(options));
    let mut tasks = Tasks::default();
    let outcome = live(&sim, &mut tasks, storm_ms);
    drop(tasks);
    let mut world = sim.world();
    let faults = std::mem::take(&mut world.injected);
    match outcome.and_then(|()| world.judge()) {
        Ok(()) => {
            world.add_up();
            Ok(ClusterReport { counts: std::mem::take(&mut world.counts), faults, trace: world.trace })
        }
        Err(anomaly) => {
            let faults = faults.iter().map(|fault| (fault.number, fault.to_string())).collect();
            Err(Failure { anomaly, faults })
        }
    }
}

fn live(sim: &Sim, tasks: &mut Tasks, storm_ms: u64) -> Result<(), String> {
    prepare(sim);
    clients::start_all(sim);
    while sim.world().now_ms < storm_ms {
        faults::strike(sim);
        step(sim, tasks)?;
    }
    sim.world().calm();
    let settled = sim.world().now_ms + SETTLE_MS;
    loop {
        step(sim, tasks)?;
        let world = sim.world();
        if world.now_ms.is_multiple_of(10) && world.busy == 0 && world.is_whole() && world.is_decided() {
            return Ok(());
        }
        if world.now_ms >= settled {
            return Err(format!("not whole after {SETTLE_MS} ms without faults: {}", world.state()));
        }
    }
}

/// One millisecond.
fn step(sim: &Sim, tasks: &mut Tasks) -> Result<(), String> {
    let numbers: Vec<u64> = {
        let mut world = sim.world();
        world.now_ms += 1;
        world.nodes.keys().copied().collect()
    };
    deliver(sim);
    for number in numbers {
        step_node(sim, number)?;
    }
    tasks.poll(sim);
    let failure = sim.world().failure.take();
    failure.map_or(Ok(()), Err)
}

fn step_node(sim: &Sim, number: u64) -> Result<(), String> {
    wake(sim, number)?;
    sim.world().run_replicas(number);
    sim.world().follow_metadata(number);
    members::look_after(sim, number);
    sim.nudge_coordinators(number);
    if sim.world().is_tick_of_coordinators(number) {
        sim.tick_coordinators(number);
    }
    Ok(())
}

/// Hands over what has arrived.
fn deliver(sim: &Sim) {
    loop {
        let mut world = sim.world();
        let now_ms = world.now_ms;
        let Some((from, to, letter)) = world.links.arrived(now_ms) else { break };
        if world.is_paused(to) {
            world.backlog.entry(to).or_default().push((from, Parcel::Letter(letter)));
        } else {
            world.receive(from, to, letter);
        }
    }
    loop {
        let mut world = sim.world();
        let now_ms = world.now_ms;
        let Some((from, to, call)) = world.calls.arrived(now_ms) else { break };
        if world.is_paused(to) {
            world.backlog.entry(to).or_default().push((from, Parcel::Call(call)));
        } else {
            drop(world);
            take(sim, from, to, call);
        }
    }
}

fn take(sim: &Sim, from: u64, to: u64, call: Call) {
    let mut world = sim.world();
    match call {
        Call::Answer(number, response) => {
            if let Some(waiting) = world.asked.get_mut(&number) {
                *waiting = Some(response);
            }
        }
        Call::Ask(number, request) => {
            let now_ms = world.now_ms;
            if request.ends_with_its_connection() && !world.asked.contains_key(&number) {
                return world.count("a request whose client had gone");
            }
            if world.nodes.get(&to).is_none_or(|node| node.running.is_none()) {
                // Nobody listens there.
                return world.calls.send(now_ms, to, from, Call::Answer(number, Response::NotHere));
            }
            let owner = world.owner(to);
            drop(world);
            let serving = sim.clone();
            sim.spawn(owner, async move {
                let response = services::serve(&serving, to, request).await;
                let mut world = serving.world();
                let now_ms = world.now_ms;
                world.calls.send(now_ms, to, from, Call::Answer(number, response));
            });
        }
    }
}

/// Ends pauses and starts processes whose time has come.
fn wake(sim: &Sim, number: u64) -> Result<(), String> {
    if !sim.world().is_paused(number) {
        let backlog = sim.world().backlog.remove(&number).unwrap_or_default();
        for (from, parcel) in backlog {
            match parcel {
                Parcel::Letter(letter) => sim.world().receive(from, number, letter),
                Parcel::Call(call) => take(sim, from, number, call),
            }
        }
    }
    let mut world = sim.world();
    let now_ms = world.now_ms;
    if let Some(halt) = world.restarts.get(&number)
        && halt.at_ms <= now_ms
    {
        let mode = halt.mode;
        let down_ms = world.nodes.get(&number).map_or(0, |node| node.up_again_ms.saturating_sub(now_ms));
        world.crash(number, mode, down_ms.max(20));
    }
    let Some(node) = world.nodes.get_mut(&number) else { return Ok(()) };
    if node.running.is_some() || node.is_joining || node.up_again_ms > now_ms {
        return Ok(());
    }
    let owner = Owner::Node { node: number, life: node.life };
    if node.place.is_none() {
        node.is_joining = true;
        drop(world);
        sim.spawn(owner, join(sim.clone(), number));
        return Ok(());
    }
    world.start(number)?;
    if world.runs(number) {
        drop(world);
        sim.spawn(owner, register(sim.clone(), number));
    }
    Ok(())
}

/// Asks the other nodes to be let in.
async fn join(sim: Sim, number: u64) {
    loop {
        let seeds = sim.world().others(number);
        for seed in seeds {
            let registration = sim.world().registration(number);
            let answer = sim.ask(number, seed, Request::Join(registration), 2_000).await;
            if let Some(Response::Admitted { replica, founders }) = answer {
                let mut world = sim.world();
                world.count("a node joined");
                if let Some(node) = world.nodes.get_mut(&number) {
                    (node.place, node.is_joining) = (Some(Place { replica, founders }), false);
                }
                return;
            }
            sim.sleep(100).await;
        }
    }
}

/// Presents a node to the controller, at each start.
async fn register(sim: Sim, number: u64) {
    loop {
        let (founds, node) = {
            let world = sim.world();
            let founded = metadata::image(&world, number).is_none_or(|image| image.founder().is_some());
            let is_founder = world.nodes.get(&number).and_then(|node| node.place.as_ref());
            let is_founder = is_founder.is_some_and(|place| place.founders.contains(&place.replica));
            (!founded && is_founder, world.registration(number))
        };
        let done = if founds {
            let command = Command::FoundCluster { cluster_id: "simulated".to_owned(), node };
            matches!(sim.execute_here(number, command).await, metadata::Executed::Done(_))
        } else {
            sim.command(number, Command::RegisterNode(node)).await
        };
        if done {
            return;
        }
        sim.sleep(100).await;
    }
}

/// The first node founds the cluster; a client creates the topics.
fn prepare(sim: &Sim) {
    let work = sim.clone();
    sim.spawn(Owner::Client, async move {
        let topics = [
            (DATA_TOPIC, 2, "2048"),
            (OUT_TOPIC, 1, "2048"),
            (tailrace_metadata::CONSUMER_OFFSETS_TOPIC, 1, "1024"),
            (tailrace_metadata::TRANSACTION_STATE_TOPIC, 1, "1024"),
        ];
        for (number, (topic, partitions, segment_bytes)) in (1_u8..).zip(topics) {
            loop {
                if work.world().knows_topic(topic) {
                    break;
                }
                if work.world().has_live_nodes() {
                    let create = create_topic(topic, number, partitions, segment_bytes);
                    let leader = work.world().controller().unwrap_or(1);
                    let command = Box::new(Command::CreateTopic(create));
                    work.ask(901, leader, Request::Command(command), 1_000).await;
                }
                work.sleep(50).await;
            }
        }
    });
}

fn create_topic(name: &str, number: u8, partitions: i32, segment_bytes: &str) -> CreateTopic {
    let mut configs = vec![("internal.segment.bytes".to_owned(), Some(segment_bytes.to_owned()))];
    if name.starts_with("__") {
        configs.push(("cleanup.policy".to_owned(), Some("compact".to_owned())));
    }
    CreateTopic {
        name: name.to_owned(),
        id: TopicId([number + 1; 16]),
        partitions,
        replication_factor: 3,
        configs,
        assignment: None,
        now: TimestampMs(1),
        by: Requester::Broker,
    }
}

fn topic_partition(topic: &str, partition: PartitionId) -> TopicPartition {
    TopicPartition::new(TopicName::new(topic).expect("the simulator's topics have legal names"), partition)
}

fn make_data_folder(disk: &SimDisk) {
    let made = disk.create_dir(Path::new(node::DATA)).and_then(|()| disk.sync_dir(Path::new("/")));
    made.expect("a fresh disk takes a folder");
}

impl Sim {
    /// Asks somebody. `None` without an answer in time.
    async fn ask(&self, from: u64, to: u64, request: Request, ms: u64) -> Option<Response> {
        self.ask_late(from, to, request, ms, 0).await
    }

    /// As `ask`; the request takes `late_ms` or longer.
    async fn ask_late(
        &self,
        from: u64,
        to: u64,
        request: Request,
        ms: u64,
        late_ms: u64,
    ) -> Option<Response> {
        let number = {
            let mut world = self.world();
            world.calls_made += 1;
            let (now_ms, number) = (world.now_ms, world.calls_made);
            world.asked.insert(number, None);
            world.calls.send_late(now_ms, from, to, Call::Ask(number, request), late_ms);
            number
        };
        let answer = self.wait(ms, |world| world.asked.get_mut(&number)?.take()).await;
        self.world().asked.remove(&number);
        answer
    }
}

impl World {
    fn new(options: ClusterOptions) -> Self {
        let ClusterOptions { seed, storm_ms, bug, mask } = options;
        let mut rng = Rng::new(seed ^ 0x5eed_c105);
        let count = rng.between(3, 5);
        let faults = faults::schedule(&mut rng.fork(), count, storm_ms);
        let aims = rng.percent(25);
        let mut late_markers = Rng::new(seed ^ 0x1a7e_3a23);
        let (one_in, remainder) = THROTTLED_ONE_IN;
        let throttle = (seed % one_in == remainder).then(|| Rng::new(seed ^ 0x7407_71e5));
        let mut nodes = BTreeMap::new();
        for number in 1..=count {
            let disk = SimDisk::new(rng.next_u64());
            make_data_folder(&disk);
            let mut directory = [number as u8; 16];
            directory[..8].copy_from_slice(&rng.next_u64().to_le_bytes());
            let own = ReplicaId::new(NodeId(number as i32), 1);
            let place = (number == 1).then(|| Place { replica: own, founders: vec![own] });
            let node = Node {
                number,
                disk,
                directory,
                begun: BTreeMap::new(),
                place,
                life: 0,
                running: None,
                is_joining: false,
                up_again_ms: 0,
                paused_until_ms: 0,
                clock_ms: 0,
                is_dying: false,
                is_failing: false,
                is_damaged: false,
            };
            nodes.insert(number, node);
        }
        Self {
            now_ms: 0,
            bug,
            mask,
            is_calm: false,
            aims,
            late_markers: late_markers.percent(25).then_some(late_markers),
            throttle,
            aimed: 0,
            nodes,
            links: Network::new(rng.next_u64(), LINKS),
            calls: Network::new(rng.next_u64(), CALLS),
            backlog: BTreeMap::new(),
            asked: BTreeMap::new(),
            calls_made: 0,
            spawned: Vec::new(),
            faults: faults.into(),
            injected: Vec::new(),
            postponed: Vec::new(),
            ends: BTreeMap::new(),
            ends_made: 0,
            restarts: BTreeMap::new(),
            to_load: BTreeMap::new(),
            to_tell: BTreeSet::new(),
            history: History::default(),
            producer_ids: BTreeSet::new(),
            busy: 0,
            counts: BTreeMap::new(),
            trace: 0,
            failure: None,
            rng,
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Adds to the trace.
    fn note(&mut self, what: u8, numbers: &[u64]) {
        let mut line = vec![what];
        line.extend(self.now_ms.to_le_bytes());
        numbers.iter().for_each(|number| line.extend(number.to_le_bytes()));
        self.trace = crc32c::crc32c_append(self.trace, &line);
    }

    fn others(&self, number: u64) -> Vec<u64> {
        self.nodes.keys().copied().filter(|other| *other != number).collect()
    }

    fn is_paused(&self, number: u64) -> bool {
        self.nodes.get(&number).is_some_and(|node| node.paused_until_ms > self.now_ms)
    }

    fn runs(&self, number: u64) -> bool {
        self.nodes.get(&number).is_some_and(|node| node.runs(self.now_ms))
    }

    fn is_tick_of_coordinators(&self, number: u64) -> bool {
        self.now_ms.is_multiple_of(5) && self.runs(number)
    }

    fn turn(&self, owner: Owner) -> Turn {
        match owner {
            Owner::Client => Turn::Runs,
            Owner::Node { node, life } => match self.nodes.get(&node) {
                Some(node) if node.life == life && node.paused_until_ms > self.now_ms => Turn::Waits,
                Some(node) if node.life == life => Turn::Runs,
                _ => Turn::IsGone,
            },
        }
    }

    fn registration(&self, number: u64) -> RegisterNode {
        let address = |port: u64| format!("node{number}.test:{port}");
        let node = self.nodes.get(&number);
        RegisterNode {
            node: NodeId(number as i32),
            directory: node.map_or([0; 16], |node| node.directory),
            cluster: address(7000),
            kafka: address(9092),
            nats: None,
            http: None,
            rack: None,
            levels: (1, 1),
            replica: node.and_then(|node| node.place.as_ref()).map(|place| place.replica),
            renews: false,
        }
    }

    /// The node that leads the metadata log, if there is one.
    fn controller(&self) -> Option<u64> {
        let leads = |node: &&Node| {
            let running = node.running.as_ref();
            running.and_then(|running| running.slots.get(&CONTROLLER)?.leads()).is_some()
        };
        self.nodes.values().find(leads).map(|node| node.number)
    }

    /// True if some node knows the topic.
    fn knows_topic(&self, topic: &str) -> bool {
        let image = |number| metadata::image(self, number);
        self.nodes.keys().any(|number| image(*number).is_some_and(|image| image.topic(topic).is_some()))
    }

    /// True if topics can be placed.
    fn has_live_nodes(&self) -> bool {
        let image = self.controller().and_then(|number| metadata::image(self, number));
        image
            .is_some_and(|image| image.nodes().filter(|node| !node.fenced).count() >= self.nodes.len().min(3))
    }

    /// Ends all faults.
    fn calm(&mut self) {
        self.is_calm = true;
        self.ends.clear();
        self.faults.clear();
        self.postponed.clear();
        self.links.mend();
        self.calls.mend();
        self.links.set_weather(Weather::FINE);
        self.calls.set_weather(Weather::FINE);
        for number in self.nodes.keys().copied().collect::<Vec<_>>() {
            let Some(node) = self.nodes.get_mut(&number) else { continue };
            node.paused_until_ms = 0;
            node.disk.set_space(None);
            node.clock_ms = 0;
            if node.is_damaged {
                self.replace_disk(number);
            } else if node.is_failing {
                self.crash(number, CrashMode::Random, 20);
            }
        }
    }
}
