//! Members of groups, liveness of nodes, leaderships handed over: what the server's cluster tasks do.

use tailrace_metadata::Command;
use tailrace_metadata::cluster::{
    Step, controller_members, next_controller_change, next_member_change, preferred_leader_moves,
};
use tailrace_replication::raft::{MemberChange, Replica, ReplicaId, Role};
use tailrace_types::{NodeId, PartitionId, RaftGroup};

use super::messages::{Letter, Request};
use super::options::CONTROLLER;
use super::sim::Sim;
use super::tasks::Owner;
use super::world::World;
use crate::SimDisk;

const PING_MS: u64 = 100;
const LOOK_MS: u64 = 200;
const ANNOUNCE_MS: u64 = 1_000;
const SESSION_MS: u64 = 1_000;
const FRESH_MS: u64 = 500;
const BALANCE_MS: u64 = 3_000;

/// What a node does from time to time.
pub(super) fn look_after(sim: &Sim, number: u64) {
    let mut world = sim.world();
    let now_ms = world.now_ms;
    if !world.nodes.get(&number).is_some_and(|node| node.runs(now_ms)) {
        return;
    }
    let beat = now_ms + number * 7;
    if beat.is_multiple_of(PING_MS) {
        for to in world.others(number) {
            world.links.send(now_ms, number, to, Letter::Ping);
        }
    }
    if beat.is_multiple_of(ANNOUNCE_MS) {
        world.announce_all(number);
    }
    if beat.is_multiple_of(LOOK_MS) {
        world.reopen(number);
        for command in world.step_members(number).into_iter().chain(world.changed_nodes(number)) {
            let owner = world.owner(number);
            let sim = sim.clone();
            let work = async move {
                sim.command(number, command).await;
            };
            world.spawned.push((owner, Box::pin(work)));
        }
    }
    if beat.is_multiple_of(BALANCE_MS) {
        world.balance(number);
    }
}

impl Sim {
    /// Has a command carried out here or by whoever leads the metadata log.
    pub(super) async fn command(&self, number: u64, command: Command) -> bool {
        let leader = {
            let mut world = self.world();
            let Some(node) = world.nodes.get_mut(&number) else { return false };
            let leads = node.slot(CONTROLLER).is_some_and(|slot| slot.leads().is_some());
            let known = node.running.as_ref().and_then(|running| running.leaders.get(CONTROLLER));
            if leads { Some(number) } else { known.map(|known| known.replica.node().0 as u64) }
        };
        match leader {
            Some(leader) if leader == number => {
                !matches!(self.execute_here(number, command).await, super::metadata::Executed::Unknown)
            }
            Some(leader) => {
                let answer = self.ask(number, leader, Request::Command(Box::new(command)), 3_000).await;
                matches!(
                    answer,
                    Some(super::messages::Response::Done | super::messages::Response::Refused(_))
                )
            }
            None => false,
        }
    }
}

impl World {
    pub(super) fn owner(&self, number: u64) -> Owner {
        Owner::Node { node: number, life: self.nodes.get(&number).map_or(0, |node| node.life) }
    }

    pub(super) fn announce_all(&mut self, number: u64) {
        let Some(running) = self.nodes.get(&number).and_then(|node| node.running.as_ref()) else { return };
        let led = running.slots.iter().filter_map(|(group, slot)| Some((*group, slot.leads()?)));
        let led: Vec<_> = led.collect();
        self.announce(number, led);
    }

    /// Brings the members of what this node leads one step nearer to what the metadata want. What has become so is reported.
    fn step_members(&mut self, number: u64) -> Vec<Command> {
        let now_ms = self.now_ms;
        let Some(node) = self.nodes.get_mut(&number) else { return Vec::new() };
        let now = node.wall(now_ms);
        let Some(running) = &mut node.running else { return Vec::new() };
        let image = std::sync::Arc::clone(&running.image);
        let (mut commands, mut steps) = (Vec::new(), Vec::new());
        for (group, slot) in &mut running.slots {
            let Some(replica) = slot.core.as_mut().and_then(|core| core.replica()) else { continue };
            if replica.leads().is_none() || (*group == CONTROLLER && image.founder().is_none()) {
                continue;
            }
            let (members, own) = (replica.members(), replica.id());
            let caught_up = |id| replica.keeps_up(id);
            let (step, reassigned) = if *group == CONTROLLER {
                let wanted = controller_members(&image, &members.voters);
                let step =
                    next_controller_change(&wanted, &members.voters, &members.learners, own, caught_up);
                (step, None)
            } else {
                let topic = image.topic_by_id(group.topic);
                let Some(wanted) = topic.and_then(|topic| topic.partition(group.partition)) else { continue };
                let step =
                    next_member_change(&wanted.replicas, &members.voters, &members.learners, own, caught_up);
                (step, wanted.is_reassigned().then(|| wanted.replicas.clone()))
            };
            match (step, reassigned) {
                (Some(Step::Finished), Some(replicas)) => commands.push(Command::FinishReassignment {
                    topic: group.topic,
                    partition: group.partition,
                    replicas,
                }),
                (Some(step), _) if step != Step::Finished => {
                    take_step(replica, step, now);
                    steps.push((*group, step));
                }
                _ => {}
            }
        }
        for (group, step) in steps {
            self.count(match step {
                Step::AddLearner(_) => "a learner was added",
                Step::Promote(_) => "a learner was promoted",
                Step::Remove(_) => "a member was removed",
                Step::TransferTo(_) => "a leader that leaves handed over",
                Step::Finished => "members are as wanted",
            });
            self.stepped(number, group);
        }
        commands
    }

    /// The nodes whose state is not what the metadata say, on the controller.
    fn changed_nodes(&mut self, number: u64) -> Vec<Command> {
        let now_ms = self.now_ms;
        let Some(node) = self.nodes.get_mut(&number) else { return Vec::new() };
        let own = node.id();
        let leads = node.slot(CONTROLLER).is_some_and(|slot| slot.leads().is_some());
        let Some(running) = &mut node.running else { return Vec::new() };
        if !leads {
            running.leads_controller_since = None;
            return Vec::new();
        }
        let since = *running.leads_controller_since.get_or_insert(now_ms);
        let mut commands = Vec::new();
        for node in running.image.nodes() {
            let id = node.registration.node;
            let silence =
                if id == own { Some(0) } else { running.heard.get(&(id.0 as u64)).map(|at| now_ms - at) };
            let is_silent = silence.unwrap_or(u64::MAX).min(now_ms - since) > SESSION_MS;
            let is_fresh = silence.is_some_and(|silence| silence < FRESH_MS);
            if node.fenced && is_fresh {
                commands.push(Command::FenceNode { node: id, fenced: false });
            } else if !node.fenced && is_silent {
                commands.push(Command::FenceNode { node: id, fenced: true });
            }
        }
        for command in &commands {
            let is_fenced = matches!(command, Command::FenceNode { fenced: true, .. });
            self.count(if is_fenced { "a node was fenced" } else { "a node was unfenced" });
        }
        commands
    }

    /// Leadership goes back to the preferred leaders.
    fn balance(&mut self, number: u64) {
        let now_ms = self.now_ms;
        let Some(running) = self.nodes.get(&number).and_then(|node| node.running.as_ref()) else { return };
        for wanted in preferred_leader_moves(&running.image, &running.leaders) {
            if self.hand_to(number, wanted.group, wanted.to, now_ms) {
                self.count("leadership went back to the preferred leader");
            }
        }
    }

    fn hand_to(&mut self, number: u64, group: RaftGroup, to: ReplicaId, now_ms: u64) -> bool {
        let Some(node) = self.nodes.get_mut(&number) else { return false };
        let now = node.wall(now_ms);
        let Some(replica) = node.slot(group).and_then(super::node::Slot::replica) else { return false };
        if replica.leads().is_none() || replica.id() == to || !replica.has_caught_up(to) {
            return false;
        }
        replica.transfer_leadership(to, now);
        self.stepped(number, group);
        true
    }

    /// The coordinator of transactions on this node hands over.
    pub(super) fn move_coordinator(&mut self, number: u64) {
        let now_ms = self.now_ms;
        let Some(node) = self.nodes.get_mut(&number) else { return };
        let Some(running) = &mut node.running else { return };
        let topic = running.image.topic(tailrace_metadata::TRANSACTION_STATE_TOPIC);
        let Some(group) = topic.map(|topic| RaftGroup { topic: topic.id, partition: PartitionId(0) }) else {
            return;
        };
        let replica = running.slots.get_mut(&group).and_then(super::node::Slot::replica);
        let Some(replica) = replica else { return };
        let own = replica.id();
        let to = replica.members().voters.into_iter().find(|id| *id != own && replica.has_caught_up(*id));
        if let Some(to) = to {
            self.hand_to(number, group, to, now_ms);
        }
    }

    /// Hands over what this node leads. How much is left.
    pub(super) fn hand_over(&mut self, number: u64) -> usize {
        let now_ms = self.now_ms;
        let Some(node) = self.nodes.get_mut(&number) else { return 0 };
        let now = node.wall(now_ms);
        let Some(running) = &mut node.running else { return 0 };
        let image = std::sync::Arc::clone(&running.image);
        let (mut left, mut handed) = (0, Vec::new());
        for (group, slot) in &mut running.slots {
            let Some(replica) = slot.core.as_mut().and_then(|core| core.replica()) else { continue };
            if replica.role() != Role::Leader {
                continue;
            }
            let (own, members) = (replica.id(), replica.members());
            let fits =
                |id: &&ReplicaId| **id != own && image.is_live(id.node()) && replica.has_caught_up(**id);
            let others = members.voters.iter().any(|id| *id != own && image.is_live(id.node()));
            left += usize::from(others);
            if let Some(to) = members.voters.iter().find(fits).copied() {
                replica.transfer_leadership(to, now);
                handed.push(*group);
            }
        }
        handed.into_iter().for_each(|group| self.stepped(number, group));
        left
    }

    /// Who leads a partition, as this node tells clients.
    pub(super) fn leader_of(
        &self,
        number: u64,
        group: RaftGroup,
    ) -> Option<(u64, tailrace_types::LeaderEpoch)> {
        let running = self.nodes.get(&number)?.running.as_ref()?;
        if let Some(epoch) = running.slots.get(&group).and_then(super::node::Slot::leads) {
            return Some((number, epoch));
        }
        let known = running.leaders.get(group)?;
        let node: NodeId = known.replica.node();
        let partition = running.image.topic_by_id(group.topic)?.partition(group.partition)?;
        let is_there = partition.present().any(|replica| replica == known.replica);
        let other = node.0 as u64 != number;
        (other && is_there && running.image.is_live(node)).then_some((node.0 as u64, known.epoch))
    }
}

fn take_step(replica: &mut Replica<SimDisk>, step: Step, now: tailrace_types::TimestampMs) {
    let change = match step {
        Step::Finished => return,
        Step::TransferTo(to) => return replica.transfer_leadership(to, now),
        Step::AddLearner(id) => MemberChange::AddLearner(id),
        Step::Promote(id) => MemberChange::Promote(id),
        Step::Remove(id) => MemberChange::Remove(id),
    };
    // Refused: again in a moment.
    let _ = replica.change_members(change, now);
}
