//! Nodes as they ship, under faults. Clients of all kinds use any of them, and what the clients were told and
//! saw is judged at the end.
//!
//! A run follows from its seed. Faults rage for a while. Then they end, every computer is switched on, and
//! the cluster must become whole.

mod access;
mod aim;
mod batch_name;
mod clients;
mod copies;
mod fault;
mod faults;
mod handover;
mod history;
mod judge;
mod operators;
mod site;
mod watcher;

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use tailrace_env::task;
use tailrace_metadata::{Command, CreateTopic, Requester};
use tailrace_node::{Caller, Node};
use tailrace_types::TopicId;

use self::access::{ADMIN, Census, DeputysRight, Entity};
use self::clients::{GROUPS, LISTENERS, WRITERS, Writer};
pub use self::copies::Copies;
use self::faults::Faults;
use self::history::{Phase, SharedHistory};
use self::site::{
    DATA_PARTITIONS, INTERNAL_PARTITIONS, INTERNAL_TOPICS, Site, TOPICS, replicas_of, topic_settings,
};
use crate::computer::Computer;
use crate::mask::{Failure, Mask};
use crate::rng::Rng;
use crate::world::seed_thread;

/// The possible numbers of nodes: three, five, or a single node.
const NODES: [u8; 6] = [3, 3, 3, 3, 5, 1];

/// Percentage of runs in which clients log in.
const USERS_PERCENT: u64 = 33;

/// The stack size of a main thread.
const STACK_BYTES: usize = 8 << 20;

/// Time between two looks of the storm itself.
const LOOK: Duration = Duration::from_millis(20);

/// Within this time all nodes know of a subscription that was added or removed.
const INTEREST_IS_KNOWN_WITHIN: Duration = Duration::from_secs(3);

/// Within this time after the first user exists no node that has just started makes it any more.
const FIRST_USER_IS_MADE_WITHIN: Duration = Duration::from_secs(2);

/// Within this time a published message is heard.
const HEARD_WITHIN: Duration = Duration::from_secs(1);

/// After the faults have ended, the cluster must become whole within this time.
const WHOLE_WITHIN: Duration = Duration::from_secs(90);

/// Events that are common over many runs, and must happen in some of them.
pub const RARE: [&str; 91] = [
    "a batch was acknowledged",
    "a batch was refused",
    "a classic group was rebalanced",
    "a clock was wrong",
    "a cluster with users and rules",
    "a computer lost power",
    "a computer was paused",
    "a connection was reset",
    "a coordinator moved while one of its links was slow",
    "a deputy asked a node that did not know yet that its right was gone",
    "a snapshot was offered",
    "a snapshot was installed",
    "a damaged segment was repaired",
    "a disk was lost",
    "a disk was nearly full",
    "a group with a member was not deleted",
    "a group with offsets was deleted",
    "a large request was sent",
    "a leader reported its commit",
    "a link was slow",
    "a leader was cut off right after its election",
    "a member left",
    "a member was fenced",
    "a message was delivered",
    "a message was delivered to a queue group",
    "a node heard late that a right was taken",
    "a node served a visitor at the end",
    "a node was stopped",
    "a process was killed",
    "a processor started",
    "a processor's transaction was committed",
    "a read would have waited for the disk",
    "a reader skipped an aborted batch",
    "a reassignment was started",
    "a relaxed topic",
    "a record was delivered to a subscriber",
    "a replica was elected",
    "a request had no answer",
    "a request was answered",
    "a share group was deleted",
    "a topic was deleted",
    "a topic was created",
    "a subscriber that did not read was disconnected",
    "a transaction was aborted",
    "a transaction was committed",
    "a transactional batch was refused",
    "a transactional producer was fenced",
    "a write was misdirected",
    "a cluster of five nodes",
    "a cluster of one node",
    "all computers lost power",
    "an acknowledgement was refused",
    "an assignment was applied",
    "an offset was committed",
    "bits rotted",
    "nodes with one thread of each kind and tight budgets",
    "the fate of a batch was unknown",
    "offsets of a share group were deleted",
    "old records were deleted",
    "disk operations failed",
    "preferred leaders were elected",
    "records were acquired",
    "a random replica answered a fetch",
    "tasks of a node were starved",
    "the end of a log was truncated",
    "a computer could not hear another one",
    "two computers were cut off from each other",
    "a connection of a user who may not log in any more ended",
    "a delegation token was refused",
    "a deputy created a rule",
    "a deputy had no right to create a rule",
    "a message was held up for a quota",
    "a message with an unwelcome user was offered",
    "a password was changed",
    "a password was refused",
    "a quiet connection of a user who may not log in any more ended",
    "a quota was removed",
    "a quota was set",
    "a right was taken from a deputy",
    "a rule was created",
    "a rule was deleted",
    "a subscription was taken away",
    "a token was ended",
    "a token was made",
    "a user logged in with a delegation token",
    "a user logged in with a password",
    "a user was disabled",
    "a user was enabled",
    "a user was removed",
    "the rules let a user do something",
    "the rules refused a user something",
];

/// The options of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StormOptions {
    /// The seed that everything follows from.
    pub seed: u64,
    /// How long faults rage, in milliseconds of simulated time.
    pub storm_ms: u64,
    /// The faults that are left out.
    pub mask: Mask,
}

/// The report of a run without an anomaly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StormReport {
    /// How often each event happened.
    pub counts: BTreeMap<&'static str, u64>,
    /// The duration of the run, in simulated time.
    pub took: Duration,
    /// What the processor did with its position.
    pub copies: Copies,
    /// Digest of the run. Two runs of one seed have the same.
    pub trace: u64,
}

/// A run in progress.
struct Storm {
    site: Site,
    history: SharedHistory,
    /// The start of each node for which writers run.
    writes: Vec<u32>,
    census: Census,
}

/// Plays one run, in its own thread.
///
/// # Errors
/// The anomaly that was found.
///
/// # Panics
/// If anything in the run panics.
pub fn run(options: &StormOptions) -> Result<StormReport, Failure> {
    std::thread::scope(|scope| {
        let run = std::thread::Builder::new().name("storm".to_owned()).stack_size(STACK_BYTES);
        let run = run.spawn_scoped(scope, || {
            seed_thread(options.seed);
            play(options)
        });
        run.expect("the system can start a thread").join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn play(options: &StormOptions) -> Result<StormReport, Failure> {
    let mut rng = Rng::new(options.seed);
    let nodes = NODES[usize::try_from(rng.below(NODES.len() as u64)).expect("a small number")];
    // Drawn apart from the rest, so that the runs without users are what they were before there were any.
    let has_users = Rng::new(!options.seed).percent(USERS_PERCENT);
    let site = Site::new(nodes, has_users, &mut rng);
    let history = SharedHistory::new(site.habits);
    let mut storm = Storm { site, history, writes: vec![0; nodes.into()], census: Census::default() };
    let mut faults = None;
    let played = storm.play(options, rng, &mut faults);
    let told = faults.as_ref().map(Faults::told).unwrap_or_default();
    match played.and_then(|()| storm.end()) {
        Ok(told) => {
            let mut counts = faults.as_ref().map(Faults::counts).unwrap_or_default();
            counts.extend(told);
            counts.extend(storm.site.kind());
            counts.insert("a read would have waited for the disk", storm.site.would_wait());
            counts.insert("a node had the newest users and rules in time", storm.census.judged);
            counts.insert("turns of all that ran", storm.site.universe.turns());
            let (copies, universe) = (storm.history.lock().copies.clone(), &storm.site.universe);
            Ok(StormReport { counts, took: universe.now(), copies, trace: universe.digest() })
        }
        Err(anomaly) => Err(Failure { anomaly, faults: told }),
    }
}

impl Storm {
    fn play(
        &mut self,
        options: &StormOptions,
        mut rng: Rng,
        struck: &mut Option<Faults>,
    ) -> Result<(), String> {
        self.begin(rng.next_u64())?;
        let begin = self.site.universe.now();
        let end = begin + Duration::from_millis(options.storm_ms);
        let faults = Faults::new(rng.fork(), &self.site, begin, end, &options.mask);
        let faults = struck.insert(faults);
        while self.site.universe.now() < end {
            self.site.universe.run_for(LOOK);
            self.look_after();
            faults.strike(&mut self.site);
        }
        faults.end(&mut self.site);
        self.harm(faults)?;
        self.settle()
    }

    /// Lets the nodes form a cluster, and starts the clients. `protocol` decides which clients use which
    /// protocol.
    fn begin(&mut self, protocol: u64) -> Result<(), String> {
        (0..self.site.computers.len()).for_each(|index| self.site.boot(index));
        self.wait("the nodes start", WHOLE_WITHIN, |storm| {
            storm.site.computers.iter().all(|computer| computer.node().is_some())
        })?;
        if self.site.habits.has_users {
            self.found_users()?;
        }
        let internal = INTERNAL_TOPICS.map(|topic| (topic, INTERNAL_PARTITIONS));
        for (topic, partitions) in TOPICS.into_iter().chain(internal) {
            self.create(topic, partitions)?;
        }
        self.site.client.enter(|| clients::spawn_all(&self.site, &self.history, protocol));
        Ok(())
    }

    /// Makes the users of all clients, and their rules.
    fn found_users(&mut self) -> Result<(), String> {
        self.wait("the first user exists", WHOLE_WITHIN, |storm| {
            let node = storm.site.computers[0].node();
            node.is_some_and(|node| node.image().access().user(ADMIN).is_some())
        })?;
        let node = self.site.computers[0].node().ok_or("the first node is gone")?;
        let founding = found(Arc::clone(&node));
        let founded = self.site.universe.run(self.site.computers[0].machine(), founding);
        founded.map_err(|stalled| stalled.to_string())??;
        // All nodes may try to create the first user. One that starts again and knows nothing yet must not
        // set the password again.
        self.site.universe.run_for(FIRST_USER_IS_MADE_WITHIN);
        let first = Entity::Password(ADMIN);
        let state = first.state(node.image().access());
        self.history.lock().access.expect(first, state);
        self.wait("all nodes know the users", WHOLE_WITHIN, |storm| {
            judge::is_access_known(&storm.site.computers)
        })
    }

    /// Compares what the nodes know of users and rules, in runs that have them.
    fn count_nodes(&mut self) {
        if self.site.habits.has_users {
            let nodes: Vec<_> = self.site.computers.iter().map(Computer::node).collect();
            let running = self.site.computers.iter().map(Computer::running).collect();
            let mut history = self.history.lock();
            history.access.run_on(running);
            let (disturbed, now) = (&self.site.disturbed, self.site.universe.now());
            let looked = self.census.look(&nodes, &mut history.access, disturbed, now);
            history.check(looked);
            self.site.takes_right = history.access.deputys_right() == DeputysRight::Ending;
        }
    }

    /// Harms copies, one after the other, and waits each time until they are whole again.
    fn harm(&mut self, faults: &mut Faults) -> Result<(), String> {
        loop {
            self.wait("the nodes report that all copies are whole", WHOLE_WITHIN, |storm| {
                storm.look_after();
                faults.are_mended(&mut storm.site)
            })?;
            if !faults.harm(&mut self.site) {
                return Ok(());
            }
        }
    }

    /// After the faults have ended, waits until everything is whole and every client was served.
    fn settle(&mut self) -> Result<(), String> {
        self.history.lock().set_phase(Phase::Settling);
        self.wait(
            "all nodes run, all subscribers are back, and each group has all partitions",
            WHOLE_WITHIN,
            |storm| {
                storm.look_after();
                let run = storm.site.computers.iter().all(|computer| computer.node().is_some());
                let history = storm.history.lock();
                run && history.listening() == LISTENERS
                    && history.owned_partitions() == GROUPS * DATA_PARTITIONS
            },
        )?;
        self.site.universe.run_for(INTEREST_IS_KNOWN_WITHIN);
        self.history.lock().set_phase(Phase::Leaving);
        self.site.universe.run_for(INTEREST_IS_KNOWN_WITHIN);
        self.history.lock().set_phase(Phase::Ending);
        self.wait("all clients are served", WHOLE_WITHIN, |storm| {
            storm.look_after();
            let history = storm.history.lock();
            let all_have_written = (0..storm.site.computers.len()).all(|index| history.has_ended(index));
            all_have_written && history.all_have_finished()
        })?;
        self.site.universe.run_for(HEARD_WITHIN);
        self.wait("the share groups have accepted all records", WHOLE_WITHIN, |storm| {
            judge::is_all_shared(&storm.site.computers, &storm.history.lock())
        })?;
        self.wait("all nodes know the same users and rules", WHOLE_WITHIN, |storm| {
            judge::is_access_known(&storm.site.computers)
        })?;
        self.wait("the replicas are equal, and no transaction is open", WHOLE_WITHIN, |storm| {
            judge::is_whole(&storm.site.computers)
        })
    }

    /// Restarts nodes that did not start, and starts writers for each node that has started.
    fn look_after(&mut self) {
        self.count_nodes();
        for index in 0..self.site.computers.len() {
            if let Some(reason) = self.site.computers[index].failed() {
                tracing::warn!(node = index + 1, %reason, "a node did not start and is restarted");
                self.site.computers[index].exit();
                self.site.boot(index);
            }
            let (computer, start) = (&self.site.computers[index], self.site.starts[index]);
            if self.writes[index] != start
                && let Some(node) = computer.node()
            {
                self.writes[index] = start;
                let watched = watcher::watch(Arc::clone(&node), self.history.clone());
                computer.machine().enter(|| task::spawn(watched));
                for writer in 0..WRITERS {
                    let writer = Writer::new(index, start, writer, self.history.clone());
                    computer.machine().enter(|| task::spawn(writer.run(Arc::clone(&node))));
                }
            }
        }
    }

    /// Compares what clients were told with the logs, and stops the nodes.
    fn end(&self) -> Result<BTreeMap<&'static str, u64>, String> {
        judge::judge(&self.site.computers, &self.history.lock())?;
        judge::judge_tables(&self.site)?;
        for computer in &self.site.computers {
            match computer.stop() {
                0 => {}
                failed => return Err(format!("{failed} partitions were not closed cleanly")),
            }
        }
        Ok(self.history.lock().all_counts())
    }

    fn create(&self, topic: &'static str, partitions: i32) -> Result<(), String> {
        let computer = &self.site.computers[0];
        let Some(node) = computer.node() else { return Err("the first node is gone".to_owned()) };
        let replicas = i16::try_from(replicas_of(topic, self.site.computers.len())).expect("a small number");
        let settings = topic_settings(topic, self.site.habits);
        let creating = create(node, topic, partitions, replicas, settings);
        let created = self.site.universe.run(computer.machine(), creating);
        created.map_err(|stalled| stalled.to_string())?
    }

    /// Describes what the run is waiting for.
    fn state(&self) -> String {
        let nodes = self.site.computers.iter().enumerate().map(|(index, computer)| {
            let node = index + 1;
            match (computer.node(), computer.failed()) {
                (Some(_), _) => format!("node {node} runs, {}", judge::marks(computer)),
                (None, Some(error)) => format!("node {node}: {error}"),
                (None, None) => format!("node {node} starts"),
            }
        });
        format!("{}; {}", self.history.lock().state(), nodes.collect::<Vec<_>>().join("; "))
    }

    fn wait(
        &mut self,
        what: &str,
        within: Duration,
        mut is_done: impl FnMut(&mut Self) -> bool,
    ) -> Result<(), String> {
        let end = self.site.universe.now() + within;
        while !is_done(self) {
            // Clients that saw something wrong may never be served.
            if let Some(anomaly) = self.history.lock().anomaly() {
                return Err(anomaly.to_owned());
            }
            if self.site.universe.now() >= end {
                return Err(format!("not within {within:?}: {what}; {}", self.state()));
            }
            self.site.universe.run_for(LOOK);
        }
        Ok(())
    }
}

/// Makes the users of all clients, and their rules. Hashing and the clock need the world of the node.
async fn found(node: Arc<Node>) -> Result<(), String> {
    for command in access::founding(node.now()) {
        node.execute(Caller::internal(), command).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn create(
    node: Arc<Node>,
    topic: &str,
    partitions: i32,
    replicas: i16,
    configs: Vec<(String, Option<String>)>,
) -> Result<(), String> {
    let id = TopicId::from_random(tailrace_env::random::bytes16());
    let by = if INTERNAL_TOPICS.contains(&topic) { Requester::Broker } else { Requester::Client };
    let topic = CreateTopic {
        partitions,
        replication_factor: replicas,
        configs,
        ..CreateTopic::with_defaults(topic, id, node.now(), by)
    };
    let created = node.execute(Caller::internal(), Command::CreateTopic(topic)).await;
    created.map(drop).map_err(|error| format!("the topic cannot be created: {error}"))
}

/// See [`crate::checks`].
pub(crate) mod checks {
    use super::site::SESSION_TIMEOUT;
    use super::*;

    pub use super::copies::checks::*;
    pub use super::site::checks::*;

    /// A member may wait for an answer longer than its session lasts. By then, another member owns its
    /// partitions.
    pub fn a_member_that_waits_for_an_answer_owns_nothing_when_its_session_ends() {
        let site = Site::new(1, false, &mut Rng::new(1));
        let history = SharedHistory::new(site.habits);
        let mut storm = Storm { site, history, writes: vec![0], census: Census::default() };
        storm.begin(0).expect("there are no faults");
        storm.history.lock().set_phase(Phase::Settling);
        let is_owned =
            |storm: &mut Storm| storm.history.lock().owned_partitions() == GROUPS * DATA_PARTITIONS;
        storm.wait("each group has all partitions", WHOLE_WITHIN, is_owned).expect("there are no faults");
        let (node, clients) = (storm.site.number(0), storm.site.number(1));
        storm.site.network.cut(node, clients, true);
        storm.site.network.cut(clients, node, true);
        storm.site.universe.run_for(SESSION_TIMEOUT / 2);
        let owned = storm.history.lock().owned_partitions();
        assert_eq!(owned, 0, "{}", storm.state());
        storm.site.network.cut(node, clients, false);
        storm.site.network.cut(clients, node, false);
        storm.wait("each group has them again", WHOLE_WITHIN, is_owned).expect("the cut is over");
        assert_eq!(storm.history.lock().anomaly(), None);
    }
}
