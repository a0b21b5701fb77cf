//! A whole cluster: the shipped controller, partitions and coordinators on simulated disks, a simulated network and simulated clocks,
//! with clients of all kinds, and faults; all from one seed, in one thread.
//!
//! [`run`] lets the faults rage, then ends them, waits until everything is whole again, and judges what clients were told and saw.

mod clients;
mod coordinators;
mod faults;
mod judge;
mod keeping;
mod markers;
mod members;
mod messages;
mod metadata;
mod node;
mod options;
mod replicas;
mod services;
mod shard;
mod sim;
mod striking;
mod tasks;
mod upkeep;
mod world;

use tailrace_metadata::{Command, CreateTopic, Requester};
use tailrace_types::{TimestampMs, TopicId};

pub use self::faults::{Fault, FaultKind};
pub use self::options::{Bug, ClusterOptions, ClusterReport};

use self::faults::QUIET_MS;
use self::messages::{Call, Request, Response};
use self::node::Membership;
use self::options::{DATA_TOPIC, OUT_TOPIC};
use self::sim::{Sim, Tasks};
use self::tasks::Owner;
use self::world::{Parcel, World};
use crate::network::Weather;
use crate::{CrashMode, Failure};

/// By then everything must be whole once the faults have ended.
const SETTLE_MS: u64 = 60_000;
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
        striking::strike(sim);
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
                    (node.place, node.is_joining) = (Some(Membership { replica, founders }), false);
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

impl World {
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
