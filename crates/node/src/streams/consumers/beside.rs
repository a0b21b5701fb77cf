//! The consumers of one stream, beside its table at the stream's leader.
//!
//! All of them have one lock, one set of deadlines and one task. Turns run on threads that may block, and
//! each is bounded: `Member` says by how many messages, [`MEMBERS_OF_TURN`] by how many consumers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tailrace_env::sync::{Notify, watch};
use tailrace_env::time::{Instant, WallTime, timeout_at};
use tailrace_jetstream::consumer::{Moment, Outbox};
use tailrace_types::LeaderEpoch;

use super::super::live::{LiveStream, Table};
use super::member::{Boxes, Left, Member, Turn};
use super::pulls::{Pulls, inbox};
use super::push::Pushes;
use super::unsaved::{Gathered, TooLarge, Unsaved};
use super::writer::Writer;
use crate::partitions::PartitionHandle;

/// Consumers that one turn looks at.
const MEMBERS_OF_TURN: usize = 16;

/// Time between two looks at all pulls.
const REAP_NS: i64 = 1_000_000_000;

/// Pause before a consumer is looked at whose deadline has passed already.
const SOON_NS: i64 = 1_000_000;

/// The consumers of a stream that this node leads.
pub(super) struct Beside {
    pub(super) topic: [u8; 16],
    pub(super) handle: Arc<PartitionHandle>,
    /// The epoch in which this node leads the stream.
    pub(super) epoch: LeaderEpoch,
    pub(super) pulls: Pulls,
    pub(super) pushes: Pushes,
    state: Mutex<State>,
    /// Consumers to look at, told without the lock of all.
    nudged: Mutex<BTreeSet<Arc<str>>>,
    /// For the task that keeps deadlines.
    pub(super) wake: Notify,
    due_ns: AtomicI64,
    has_appended: AtomicBool,
    /// How many consumers there are, for those who must not wait for the lock of all.
    count: AtomicUsize,
    /// Who writes them. `None` until they are loaded.
    writer: Mutex<Option<Writer>>,
    kept: watch::Sender<Kept>,
    /// For the task that saves.
    pub(super) save_wake: Notify,
    save_due_ns: AtomicI64,
    /// They have to be loaded again.
    is_given_up: AtomicBool,
}

/// What of the consumers is durable.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    is_loaded: bool,
    /// The last round that is saved.
    round: u64,
    /// They have ended here.
    is_over: bool,
}

/// What a look at what is due has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// More is due at once.
    More,
    /// Nothing is due now.
    Idle,
    /// There is nothing any more, and there will be nothing: it is closed.
    Closed,
}

/// What a turn may change.
#[derive(Default)]
pub(super) struct State {
    pub(super) members: BTreeMap<Arc<str>, Member>,
    deadlines: BTreeSet<(i64, Arc<str>)>,
    /// Those that have something to do.
    ready: BTreeSet<Arc<str>>,
    /// Those to look at when messages come.
    hungry: BTreeSet<Arc<str>>,
    table: Option<Arc<LiveStream>>,
    pub(super) unsaved: Unsaved,
    /// How many consumers were added.
    added: u64,
    /// When pulls were looked at that nobody asks for.
    reaped_ns: i64,
    pub(super) is_closed: bool,
}

/// The time and a random value.
pub(super) fn moment() -> Moment {
    let since = WallTime::now().after_epoch().as_nanos();
    Moment { now_ns: i64::try_from(since).unwrap_or(i64::MAX), random: tailrace_env::random::u64() }
}

impl Beside {
    pub(super) fn new(
        topic: [u8; 16],
        handle: &Arc<PartitionHandle>,
        epoch: LeaderEpoch,
        pulls: Pulls,
        pushes: Pushes,
    ) -> Self {
        Self {
            topic,
            handle: Arc::clone(handle),
            epoch,
            pulls,
            pushes,
            state: Mutex::default(),
            nudged: Mutex::default(),
            wake: Notify::new(),
            due_ns: AtomicI64::new(i64::MAX),
            has_appended: AtomicBool::new(false),
            count: AtomicUsize::new(0),
            writer: Mutex::default(),
            kept: watch::Sender::new(Kept::default()),
            save_wake: Notify::new(),
            save_due_ns: AtomicI64::new(i64::MAX),
            is_given_up: AtomicBool::new(false),
        }
    }

    /// Notes that the consumers are there, and who writes them.
    pub(super) fn loaded(&self, writer: Writer) {
        *self.writer.lock() = Some(writer);
        self.kept.send_modify(|kept| kept.is_loaded = true);
    }

    /// Who has written last. `None` if they are not loaded.
    pub(super) fn writer(&self) -> Option<Writer> {
        *self.writer.lock()
    }

    /// Who writes next.
    pub(super) fn next_write(&self) -> Option<Writer> {
        self.writer.lock().as_mut().map(Writer::next)
    }

    /// Has them loaded again, because they cannot be saved.
    pub(super) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire)
    }

    /// Waits until the consumers are loaded. The error says why they are not.
    pub(super) async fn wait_loaded(&self, deadline: Instant) -> Result<(), String> {
        self.wait(deadline, "its consumers are being loaded", |kept| kept.is_loaded).await
    }

    /// Waits until this round is saved. The error says why it is not.
    pub(super) async fn wait_saved(&self, round: u64, deadline: Instant) -> Result<(), String> {
        self.wait(deadline, "its consumers cannot be saved yet", |kept| kept.round >= round).await
    }

    async fn wait(
        &self,
        deadline: Instant,
        late: &str,
        is_done: impl Fn(&Kept) -> bool,
    ) -> Result<(), String> {
        let mut changes = self.kept.subscribe();
        let waited = timeout_at(deadline, changes.wait_for(|kept| kept.is_over || is_done(kept))).await;
        // The sender is a field of this.
        match waited.map(|kept| kept.map(|kept| is_done(&kept))) {
            Ok(Ok(true)) => Ok(()),
            Ok(_) => Err("its consumers have just ended".to_owned()),
            Err(_) => Err(late.to_owned()),
        }
    }

    /// Waits until they have ended.
    pub(super) async fn over(&self) {
        // The sender is a field of this.
        let _ = self.kept.subscribe().wait_for(|kept| kept.is_over).await;
    }

    /// When something has to be saved. `i64::MAX` if nothing has.
    pub(super) fn save_due_ns(&self) -> i64 {
        self.save_due_ns.load(Ordering::Relaxed)
    }

    fn set_save_due(&self, unsaved: &Unsaved) {
        let due_ns = unsaved.due_ns().unwrap_or(i64::MAX);
        if due_ns < self.save_due_ns.swap(due_ns, Ordering::Relaxed) {
            self.save_wake.notify_one();
        }
    }

    /// Has a round begin at once, if there is anything to be saved. Blocks.
    pub(super) fn save_now(&self) -> Option<u64> {
        let mut state = self.state.lock();
        let round = (!state.unsaved.is_empty()).then(|| state.unsaved.next_round());
        self.set_save_due(&state.unsaved);
        round
    }

    /// Returns what to write next. Blocks.
    pub(super) fn gather(&self) -> Result<Option<Gathered>, TooLarge> {
        let mut state = self.state.lock();
        let State { unsaved, members, .. } = &mut *state;
        let gathered = unsaved.gather(members, moment().now_ns);
        self.set_save_due(&state.unsaved);
        gathered
    }

    /// Takes in that a write is durable. Blocks.
    pub(super) fn saved(&self, gathered: Gathered) {
        let mut state = self.state.lock();
        let State { unsaved, members, ready, .. } = &mut *state;
        let round = unsaved.saved(gathered, members, ready);
        self.set_save_due(&state.unsaved);
        drop(state);
        if let Some(round) = round {
            self.kept.send_modify(|kept| kept.round = round);
        }
        self.wake.notify_one();
    }

    /// Reports whether this node leads the stream, and has done so without a break.
    pub(super) fn is_led(&self) -> bool {
        self.handle.leads() == Some(self.epoch) && !self.handle.is_over()
    }

    /// When something is due. `i64::MAX` if nothing is.
    pub(super) fn due_ns(&self) -> i64 {
        self.due_ns.load(Ordering::Relaxed)
    }

    fn boxes(&self) -> Boxes<'_> {
        Boxes { pulls: &self.pulls, pushes: &self.pushes }
    }

    /// Has a consumer looked at.
    pub(super) fn nudge(&self, name: &Arc<str>) {
        self.nudged.lock().insert(Arc::clone(name));
        self.wake.notify_one();
    }

    /// Notes that the stream has more messages, or fewer.
    pub(super) fn appended(&self) {
        self.has_appended.store(true, Ordering::Relaxed);
    }

    /// Looks at the consumers. Blocks.
    pub(super) fn look<T>(
        &self,
        table: &Table,
        live: &Arc<LiveStream>,
        work: impl FnOnce(&mut State, Turn<'_>) -> T,
    ) -> T {
        let mut state = self.state.lock();
        let state = &mut *state;
        if state.table.as_ref().is_none_or(|known| !Arc::ptr_eq(known, live)) {
            state.members.values_mut().for_each(Member::meet_table);
            state.table = Some(Arc::clone(live));
        }
        let turn = Turn { table, boxes: self.boxes(), at: moment() };
        let done = work(state, turn);
        self.count.store(state.members.len(), Ordering::Relaxed);
        let due_ns = state.deadlines.first().map_or(i64::MAX, |(due_ns, _)| *due_ns);
        let before_ns = self.due_ns.swap(due_ns, Ordering::Relaxed);
        if due_ns < before_ns || !state.ready.is_empty() || self.pushes.is_filled() {
            self.wake.notify_one();
        }
        self.set_save_due(&state.unsaved);
        done
    }

    /// Does some of what is due. Closes the state if there is nothing in it, so that its task may end.
    pub(super) fn due_turn(&self, state: &mut State, turn: Turn<'_>) -> Looked {
        state.ready.append(&mut self.nudged.lock());
        if self.has_appended.swap(false, Ordering::Relaxed) {
            state.ready.extend(state.hungry.iter().cloned());
        }
        if state.reaped_ns.saturating_add(REAP_NS) <= turn.at.now_ns {
            state.reaped_ns = turn.at.now_ns;
            for pull in self.pulls.lapsed() {
                state.give_back(turn, &pull.names.consumer, pull.id, &[]);
            }
        }
        let mut left = MEMBERS_OF_TURN;
        while left > 0
            && let Some((due_ns, name)) = state.deadlines.first().cloned()
            && due_ns <= turn.at.now_ns
        {
            state.with(turn, &name, |member, out| {
                let (consumer, mut view) = member.parts(turn);
                consumer.tick(&mut view, turn.at, out);
            });
            left -= 1;
        }
        while left > 0
            && let Some(name) = state.ready.pop_first()
        {
            state.with(turn, &name, |_, _| ());
            left -= 1;
        }
        let is_due = state.deadlines.first().is_some_and(|(due_ns, _)| *due_ns <= turn.at.now_ns);
        if is_due || !state.ready.is_empty() {
            return Looked::More;
        }
        let is_empty = state.members.is_empty() && self.pulls.is_empty() && state.unsaved.is_empty();
        state.is_closed |= is_empty;
        if state.is_closed { Looked::Closed } else { Looked::Idle }
    }

    /// Ends all consumers: `is_deleted` if the stream is, otherwise because another node leads it. Waits for
    /// the turn that runs, so it blocks.
    pub(super) fn end(&self, is_deleted: bool) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let contents = tailrace_jetstream::contents::Contents::new(Default::default(), 1);
        for (_, mut member) in std::mem::take(&mut state.members) {
            let mut out = Outbox::default();
            if is_deleted {
                member.consumer.delete(&mut out);
            } else {
                member.consumer.step_down(&mut out);
            }
            member.send(self.boxes(), &contents, &mut out);
            member.end();
        }
        self.kept.send_modify(|kept| kept.is_over = true);
    }

    /// How many consumers there are.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

impl State {
    /// Adds a consumer.
    pub(super) fn add(&mut self, turn: Turn<'_>, mut member: Member) {
        let name = Arc::clone(&member.name);
        self.added += 1;
        member.serial = self.added;
        self.members.insert(Arc::clone(&name), member);
        self.with(turn, &name, |_, _| ());
    }

    /// Lets something happen to a consumer, and then lets it deliver. `None` if there is none of this name.
    pub(super) fn with<T>(
        &mut self,
        turn: Turn<'_>,
        name: &str,
        work: impl FnOnce(&mut Member, &mut Outbox) -> T,
    ) -> Option<T> {
        let mut out = Outbox::default();
        let member = self.members.get_mut(name)?;
        member.sync(turn, &mut out);
        let done = work(member, &mut out);
        let left = member.go_on(turn, &mut out);
        self.schedule(turn, name, left);
        Some(done)
    }

    fn schedule(&mut self, turn: Turn<'_>, name: &str, left: Left) {
        if left.inactive {
            self.remove(turn, name);
            return;
        }
        let Some(member) = self.members.get_mut(name) else { return };
        let due_ns = member.deadline_ns().map(|due_ns| due_ns.max(turn.at.now_ns + SOON_NS));
        let name = &member.name;
        self.unsaved.changed(name, member.save_need(), turn.at.now_ns);
        if due_ns != member.due_ns {
            if let Some(before_ns) = std::mem::replace(&mut member.due_ns, due_ns) {
                self.deadlines.remove(&(before_ns, Arc::clone(name)));
            }
            self.deadlines.extend(due_ns.map(|due_ns| (due_ns, Arc::clone(name))));
        }
        match left.more {
            true => self.ready.insert(Arc::clone(name)),
            false => self.ready.remove(name),
        };
        match member.is_hungry() {
            true => self.hungry.insert(Arc::clone(name)),
            false => self.hungry.remove(name),
        };
    }

    /// Deletes a consumer. Returns whether it was there.
    pub(super) fn remove(&mut self, turn: Turn<'_>, name: &str) -> bool {
        let Some(mut member) = self.members.remove(name) else { return false };
        if let Some(due_ns) = member.due_ns {
            self.deadlines.remove(&(due_ns, Arc::clone(&member.name)));
        }
        self.ready.remove(name);
        self.hungry.remove(name);
        if member.may_be_kept() {
            self.unsaved.deleted(&member.name);
        }
        let mut out = Outbox::default();
        member.consumer.delete(&mut out);
        member.send(turn.boxes, &turn.table.contents, &mut out);
        member.end();
        true
    }

    /// Gives up a pull whose client is gone. What has not reached it goes to others.
    pub(super) fn give_back(&mut self, turn: Turn<'_>, consumer: &str, pull: u64, undelivered: &[u64]) {
        let in_box = turn.boxes.pulls.remove(pull).map(|pull| pull.empty()).unwrap_or_default();
        self.with(turn, consumer, |member, _| {
            member.consumer.lost_interest(&inbox(pull));
            for seq in undelivered.iter().chain(&in_box) {
                member.consumer.not_delivered(*seq);
            }
        });
    }
}
