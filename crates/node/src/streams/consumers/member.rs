//! One consumer beside its stream: its state machine, and what that sees.

use std::sync::Arc;

use tailrace_coordination::stream_consumers::{KeptConsumer, WholeConsumer};
use tailrace_jetstream::Time;
use tailrace_jetstream::consumer::{
    Bounds, Consumer, DurableState, FiltersChanged, IsSnapshot, Mode, Moment, Names, Outbox, Removal,
    SaveNeed, SaveVersion, Send, Served, Setup,
};
use tailrace_jetstream::consumer_config::ConsumerConfig;
use tailrace_jetstream::contents::{Contents, Filter};

use super::super::failure::StreamFailure;
use super::super::live::Table;
use super::super::select::filters;
use super::items::{Item, Unread};
use super::pulls::{Pull, Pulls};
use super::push::{Look, Push, Pushes};
use super::rules;
use super::types::{ConsumerFacts, Reached};
use super::view::{Sight, View};

/// Messages that one turn delivers.
const STEPS: usize = 512;

/// Bytes of changes that are saved again and again before a whole state is saved, if that is smaller.
const UPDATE_BYTES: usize = 4_096;

/// A consumer.
pub(super) struct Member {
    pub(super) config: ConsumerConfig,
    pub(super) created_ns: i64,
    pub(super) consumer: Consumer,
    /// Its own name, which is shared.
    pub(super) name: Arc<str>,
    filters: Vec<Filter>,
    sight: Sight,
    /// How many removals of the table it knows of. `None`: another table's.
    seen: Option<u64>,
    /// Messages in the boxes of its pulls, or in that of a push consumer.
    pub(super) unread: Unread,
    /// How a push consumer sends.
    push: Option<Arc<Push>>,
    look: Look,
    is_listened: bool,
    /// When it has to be looked at.
    pub(super) due_ns: Option<i64>,
    /// Tells it from another one of the same name.
    pub(super) serial: u64,
    configs: Configs,
    config_bytes: usize,
    /// Bytes of the last whole state, and of the last update of it.
    snapshot_bytes: usize,
    update_bytes: usize,
    /// It delivers no more before it is saved.
    waits_for_save: bool,
}

/// How many configurations it has had, and which of them were written and are durable.
#[derive(Default)]
struct Configs {
    now: u64,
    written: u64,
    kept: u64,
}

/// What of a consumer is saved, besides its state.
pub(super) struct Saving {
    pub(super) version: SaveVersion,
    /// What the consumer is, if the state is a whole one.
    pub(super) whole: Option<WholeConsumer>,
    /// The number of the configuration in it.
    pub(super) config: Option<u64>,
}

/// What a turn looks at.
#[derive(Clone, Copy)]
pub(super) struct Turn<'a> {
    pub(super) table: &'a Table,
    pub(super) boxes: Boxes<'a>,
    pub(super) at: Moment,
}

/// Where what is sent goes.
#[derive(Clone, Copy)]
pub(super) struct Boxes<'a> {
    pub(super) pulls: &'a Pulls,
    pub(super) pushes: &'a Pushes,
}

/// What a consumer comes from.
pub(super) struct Origin {
    pub(super) names: Names,
    pub(super) config: ConsumerConfig,
    pub(super) bounds: Bounds,
}

/// What a turn leaves to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// There is more to deliver at once.
    pub(super) more: bool,
    /// Nobody has used the consumer for too long.
    pub(super) inactive: bool,
}

impl Member {
    pub(super) fn create(origin: Origin, turn: Turn<'_>) -> Result<Self, StreamFailure> {
        let Origin { names, config, bounds } = origin;
        let contents = &turn.table.contents;
        let filters = filters_of(&config)?;
        let start = rules::start(&config, &filters, contents);
        let paused_until_ns = config.pause_until.map_or(0, |until| until.to_nanos().max(0));
        let setup = Setup { names, rules: rules::of(&config), bounds, paused_until_ns };
        let mut sight = Sight::default();
        let mut view = View { contents, filters: &filters, sight: &mut sight, pulls: turn.boxes.pulls };
        let consumer = Consumer::create(setup, start, &mut view, turn.at);
        Ok(Self { filters, sight, ..Self::of(consumer, config, turn.at.now_ns) }.beside(turn))
    }

    /// Continues a consumer from what was kept of it.
    pub(super) fn load(kept: &KeptConsumer, bounds: Bounds, turn: Turn<'_>) -> Result<Self, String> {
        let told = |error: &dyn std::fmt::Display| error.to_string();
        let WholeConsumer { stream, config, created_ns } = &kept.whole;
        let config = ConsumerConfig::from_stored(config).map_err(|error| told(&error))?;
        let state =
            DurableState::decode(&kept.snapshot, kept.update.as_deref()).map_err(|error| told(&error))?;
        let filters = filters_of(&config).map_err(|error| told(&error))?;
        let names = Names { stream: stream.as_str().into(), consumer: kept.name.as_str().into() };
        let paused_until_ns = config.pause_until.map_or(0, |until| until.to_nanos().max(0));
        let setup = Setup { names, rules: rules::of(&config), bounds, paused_until_ns };
        let (contents, mut sight) = (&turn.table.contents, Sight::default());
        let mut view = View { contents, filters: &filters, sight: &mut sight, pulls: turn.boxes.pulls };
        let consumer = Consumer::load(setup, &state, &mut view, turn.at);
        let mut loaded = Self { filters, sight, ..Self::of(consumer, config, *created_ns) };
        loaded.configs = Configs { now: 1, written: 1, kept: 1 };
        Ok(loaded.beside(turn))
    }

    fn of(consumer: Consumer, config: ConsumerConfig, created_ns: i64) -> Self {
        let unread = Unread::default();
        Self {
            created_ns,
            name: Arc::clone(&consumer.names().consumer),
            filters: Vec::new(),
            sight: Sight::default(),
            seen: None,
            push: push_of(&consumer, &unread),
            unread,
            look: Look::default(),
            is_listened: false,
            due_ns: None,
            serial: 0,
            configs: Configs { now: 1, ..Configs::default() },
            config_bytes: config.to_stored().len(),
            snapshot_bytes: 0,
            update_bytes: 0,
            waits_for_save: false,
            consumer,
            config,
        }
    }

    /// Has the table's present state count as seen.
    fn beside(mut self, turn: Turn<'_>) -> Self {
        self.seen = Some(turn.table.removals.count());
        self.listen(turn);
        self
    }

    /// Reports whether it survives the leader.
    pub(super) fn is_durable(&self) -> bool {
        self.consumer.rules().durable
    }

    /// Reports whether something of it is, or is about to be, in the log.
    pub(super) fn may_be_kept(&self) -> bool {
        self.configs.written > 0
    }

    /// Bytes of its configuration.
    pub(super) fn config_bytes(&self) -> usize {
        self.config_bytes
    }

    /// Reports whether its configuration has to be saved before a client is told of it.
    pub(super) fn is_unkept(&self) -> bool {
        self.is_durable() && self.configs.kept < self.configs.now
    }

    /// What has to be saved.
    pub(super) fn save_need(&self) -> SaveNeed {
        match self.is_durable() && self.configs.written < self.configs.now {
            true => SaveNeed::Urgent,
            false => self.consumer.save_need(),
        }
    }

    /// Appends the state to be saved.
    pub(super) fn encode(&mut self, bytes: &mut Vec<u8>) -> Saving {
        let has_grown = self.update_bytes > UPDATE_BYTES.max(self.snapshot_bytes);
        let is_due = self.configs.written < self.configs.now || has_grown;
        let (version, IsSnapshot(is_whole)) = match is_due {
            true => (self.consumer.encode_snapshot(bytes), IsSnapshot(true)),
            false => self.consumer.encode_update(bytes),
        };
        if !is_whole {
            self.update_bytes = bytes.len();
            return Saving { version, whole: None, config: None };
        }
        (self.snapshot_bytes, self.update_bytes) = (bytes.len(), 0);
        self.configs.written = self.configs.now;
        let stream = self.consumer.names().stream.to_string();
        let whole = WholeConsumer { stream, config: self.config.to_stored(), created_ns: self.created_ns };
        Saving { version, whole: Some(whole), config: Some(self.configs.now) }
    }

    /// Takes in that a state is durable. Returns whether it goes on delivering.
    pub(super) fn saved(&mut self, version: SaveVersion, config: Option<u64>) -> bool {
        self.consumer.saved(version);
        self.configs.kept = self.configs.kept.max(config.unwrap_or(0));
        std::mem::take(&mut self.waits_for_save)
    }

    /// Looks whether somebody listens to a push consumer, and takes back what has reached nobody.
    fn listen(&mut self, turn: Turn<'_>) {
        let Some(push) = &self.push else { return };
        for seq in push.returned() {
            self.consumer.not_delivered(seq);
        }
        self.is_listened = turn.boxes.pushes.is_listened(push);
        self.consumer.set_bound(self.is_listened, turn.at);
        self.look.found(self.is_listened, turn.at.now_ns);
    }

    /// When it has something to do, in ns.
    pub(super) fn deadline_ns(&mut self) -> Option<i64> {
        let look_ns = self.push.is_some().then_some(self.look.at_ns);
        self.consumer.next_deadline_ns().into_iter().chain(look_ns).min()
    }

    /// Reports whether it sends what comes, without being asked.
    pub(super) fn is_hungry(&self) -> bool {
        self.consumer.num_waiting() > 0 || self.is_listened
    }

    /// Takes over another configuration.
    pub(super) fn update(&mut self, config: ConsumerConfig, turn: Turn<'_>) -> Result<(), StreamFailure> {
        if config == self.config {
            return Ok(());
        }
        let filters = filters_of(&config)?;
        let is_changed = !config.filters().eq(self.config.filters());
        if is_changed {
            (self.filters, self.sight) = (filters, Sight::default());
        }
        let (consumer, mut view) = self.parts(turn);
        consumer.update(rules::of(&config), FiltersChanged(is_changed), &mut view, turn.at);
        self.config_bytes = config.to_stored().len();
        self.config = config;
        self.configs.now += 1;
        self.redirect();
        Ok(())
    }

    /// Pauses it until then. A time that is past, or zero, resumes it.
    pub(super) fn pause(&mut self, until: Time, turn: Turn<'_>, out: &mut Outbox) {
        self.config = self.config.paused(until);
        self.configs.now += 1;
        self.consumer.pause(if until.is_zero() { 0 } else { until.to_nanos() }, turn.at, out);
    }

    /// Sends to another subject from now on, if that has changed.
    fn redirect(&mut self) {
        let Mode::Push(rules) = &self.consumer.rules().mode else { return };
        if self.push.as_ref().is_some_and(|push| push.is_of(rules)) {
            return;
        }
        for seq in self.push.take().map(|push| push.end()).unwrap_or_default() {
            self.consumer.not_delivered(seq);
        }
        self.push = push_of(&self.consumer, &self.unread);
        self.look = Look::default();
    }

    /// Forgets what it has not sent.
    pub(super) fn end(&mut self) {
        if let Some(push) = self.push.take() {
            push.end();
        }
    }

    /// The state machine, and what it sees.
    pub(super) fn parts<'a>(&'a mut self, turn: Turn<'a>) -> (&'a mut Consumer, View<'a>) {
        let Self { consumer, filters, sight, .. } = self;
        (consumer, View { contents: &turn.table.contents, filters, sight, pulls: turn.boxes.pulls })
    }

    /// Forgets what it knows of the table, as there is another one.
    pub(super) fn meet_table(&mut self) {
        (self.seen, self.sight) = (None, Sight::default());
    }

    /// Takes in what the stream has lost since it looked last.
    pub(super) fn sync(&mut self, turn: Turn<'_>, out: &mut Outbox) {
        self.listen(turn);
        let removals = &turn.table.removals;
        let highest = removals.highest_since(self.seen);
        self.seen = Some(removals.count());
        if highest.is_none_or(|highest| highest <= self.consumer.settled_through()) {
            return;
        }
        let first = turn.table.contents.summary().first_seq;
        let (consumer, mut view) = self.parts(turn);
        consumer.removed_below(first, Removal::Limits, &mut view, out);
        consumer.recheck(&mut view);
    }

    /// Delivers what can be delivered, and puts what is to be sent into the boxes.
    pub(super) fn go_on(&mut self, turn: Turn<'_>, out: &mut Outbox) -> Left {
        let mut more = false;
        if !self.unread.is_crowded() {
            let (consumer, mut view) = self.parts(turn);
            more = match consumer.serve(STEPS, &mut view, turn.at, out) {
                Served::More | Served::Later => true,
                Served::Idle => false,
                Served::Save => {
                    self.waits_for_save = true;
                    false
                }
            };
        }
        let inactive = self.send(turn.boxes, &turn.table.contents, out);
        Left { more, inactive }
    }

    /// Puts what is to be sent into the boxes. Returns whether the consumer is to be deleted.
    pub(super) fn send(&mut self, boxes: Boxes<'_>, contents: &Contents, out: &mut Outbox) -> bool {
        let mut inactive = false;
        let mut filled: Vec<Arc<Pull>> = Vec::new();
        let push = self.push.clone();
        let mut fill = |to: &str, item: Item| {
            if let Some(push) = push.as_ref().filter(|push| push.is_to(to)) {
                boxes.pushes.put(push, item);
                return true;
            }
            let Some(pull) = boxes.pulls.of(to) else { return false };
            pull.put(item);
            if filled.last().is_none_or(|last| last.id != pull.id) {
                filled.push(pull);
            }
            true
        };
        for send in out.now.drain(..).chain(out.after_save.drain(..)) {
            match send {
                Send::Message(delivery) => {
                    let seq = delivery.stream_seq;
                    let size = contents.get(seq).map_or(0, |found| u64::from(found.bytes));
                    let to = Arc::clone(&delivery.to);
                    if !fill(&to, Item::Message(delivery, size)) {
                        self.consumer.not_delivered(seq);
                    }
                }
                Send::Status(status) => {
                    let to = Arc::clone(&status.to);
                    fill(&to, Item::Status(status));
                }
                Send::Inactive => inactive = true,
                Send::Advisory(advisory) => boxes.pushes.advise(self.consumer.names(), &advisory),
                // Streams keep what is acknowledged.
                Send::Done { .. } | Send::Empty { .. } => {}
            }
        }
        filled.iter().for_each(|pull| pull.wake());
        inactive
    }

    /// What there is to tell of it.
    pub(super) fn facts(&mut self, turn: Turn<'_>) -> ConsumerFacts {
        let now_ns = turn.at.now_ns;
        let (consumer, mut view) = self.parts(turn);
        let info = consumer.info(&mut view, now_ns);
        let reached = |sequences: tailrace_jetstream::consumer::Sequences, at_ns| Reached {
            stream: sequences.stream,
            consumer: sequences.consumer,
            at_ns,
        };
        ConsumerFacts {
            name: self.name.to_string(),
            created_ns: self.created_ns,
            config: self.config.to_stored(),
            delivered: reached(info.delivered, info.delivered_ns),
            ack_floor: reached(info.ack_floor, info.acked_ns),
            num_ack_pending: info.num_ack_pending,
            num_redelivered: info.num_redelivered,
            num_waiting: info.num_waiting,
            push_bound: info.push_bound,
            num_pending: info.num_pending,
            paused_until_ns: info.paused_until_ns.unwrap_or(0),
            pin: info.pin.map(|(group, id, since_ns)| (group.to_string(), id.to_string(), since_ns)),
        }
    }
}

/// The way of a push consumer to its clients.
fn push_of(consumer: &Consumer, unread: &Unread) -> Option<Arc<Push>> {
    match &consumer.rules().mode {
        Mode::Push(rules) => Some(Arc::new(Push::new(consumer.names(), rules, unread))),
        Mode::Pull(_) => None,
    }
}

fn filters_of(config: &ConsumerConfig) -> Result<Vec<Filter>, StreamFailure> {
    let texts: Vec<String> = config.filters().map(ToString::to_string).collect();
    filters(&texts)
}
