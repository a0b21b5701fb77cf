//! Finds the receivers of a subject: subscriptions of clients, other nodes with subscribers, and topics that
//! capture it.
//!
//! One lookup finds all of them. Every plain subscription gets the message. In each queue group, one member
//! picked at random gets it, a local one if there is one. Each thread caches what recent subjects matched,
//! and uses the cache until a subscription changes.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tailrace_nats_wire::{Delivery, Message, decimal_digits, write_delivery};
use tailrace_subjects::{
    Cache, Dialect, Limits, Pattern, PatternWord, SubscribeError, Subscription, TupleSpace,
};
use tailrace_types::{NodeId, Tally, TopicId, take_off};

use crate::burst::{Burst, Crossing};
use crate::capture::Binding;
use crate::client::Client;
use crate::letter::Letter;
use crate::outbuf::{Appended, DeliverySize, SHARED_BYTES_MIN};
use crate::queues::QueuePicker;
use crate::routes::{Key, Matches, NodePicker, Routes};
use crate::subscription::{ClientSubscription, Count};
use crate::target::{Here, Target};

/// Subjects that each thread caches for the account of the topics, which take about a megabyte.
const CACHED_SUBJECTS: usize = 4096;

/// The same for each other account, and the number of accounts for which a thread has a cache.
const CACHED_SUBJECTS_OF_OTHERS: usize = 256;
const CACHES_MAX: usize = 16;

/// Number of subscriptions above which a message is delivered in several turns.
const WIDE: usize = 1024;

/// Bytes of a delivery's control line besides its names.
const LINE_OVERHEAD: usize = 16;

/// Kinds of targets, besides plain subscriptions of clients and topics, that a lookup found.
pub(super) const QUEUES: u8 = 1;
pub(super) const NODES: u8 = 2;

/// A table from subjects to the clients, nodes and topics that get messages.
pub(crate) struct Router {
    id: u64,
    space: TupleSpace<Arc<Target>>,
    limits: Limits,
    interest: Interest,
    queues: QueueNames,
    routes: Arc<Routes>,
    /// The account whose subjects these are, as other nodes are told. `None` for the global one.
    account: Option<Arc<str>>,
    cached_subjects: usize,
}

/// An entry in the router. It has to be passed to [`Router::remove`].
#[derive(Debug)]
pub(crate) struct Route {
    subscription: Subscription,
    first_word: Option<Box<[u8]>>,
    /// The interest that other nodes were told about.
    told: Option<Arc<Key>>,
}

/// State that each thread keeps between lookups.
struct Local {
    router: u64,
    cache: Cache<Arc<Target>>,
    queues: QueuePicker,
    nodes: NodePicker,
}

thread_local! {
    /// The router that was used last comes first.
    static LOCAL: RefCell<Vec<Local>> = const { RefCell::new(Vec::new()) };
}

impl Router {
    /// Makes the router of one account. `is_main` if most traffic is expected there.
    pub(super) fn new(
        control_line_max: usize,
        routes: Arc<Routes>,
        account: Option<Arc<str>>,
        is_main: bool,
    ) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let bytes_max = control_line_max.clamp(1, Limits::BYTES_MAX);
        // A word takes two bytes, including its dot.
        let words_max = (bytes_max / 2 + 1).min(Limits::WORDS_MAX);
        // nats-server checks no byte except the dot.
        let limits = Limits { bytes_max, words_max, any_bytes: true, ..Limits::default() };
        Self {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            space: TupleSpace::with_limits(Dialect::Nats, limits),
            limits,
            interest: Interest::default(),
            queues: QueueNames::default(),
            routes,
            account,
            cached_subjects: if is_main { CACHED_SUBJECTS } else { CACHED_SUBJECTS_OF_OTHERS },
        }
    }

    /// The limits of a subject.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Adds a client's subscription.
    pub(super) fn subscribe(
        &self,
        pattern: &Pattern,
        subscription: ClientSubscription,
    ) -> Result<(Arc<Target>, Route), SubscribeError> {
        let queue = subscription.queue.clone();
        let target = Arc::new(Target::Client(subscription));
        let subscription = self.space.subscribe(pattern, Arc::clone(&target))?;
        let first_word = self.interest.add(pattern);
        let told = self.routes.subscribed(self.account.as_ref(), pattern.as_bytes(), queue.as_ref());
        Ok((target, Route { subscription, first_word, told }))
    }

    /// Adds another node's interest in a pattern.
    pub(super) fn follow_node(
        &self,
        pattern: &Pattern,
        target: &Arc<Target>,
    ) -> Result<Route, SubscribeError> {
        let subscription = self.space.subscribe(pattern, Arc::clone(target))?;
        Ok(Route { subscription, first_word: self.interest.add(pattern), told: None })
    }

    /// Lets messages cross to another account. With `is_told`, other nodes learn that they are wanted here.
    pub(crate) fn link(
        &self,
        pattern: &Pattern,
        crossing: Arc<dyn Crossing>,
        is_told: bool,
    ) -> Result<Route, SubscribeError> {
        let target = Arc::new(Target::Account(crossing));
        let subscription = self.space.subscribe(pattern, target)?;
        let told = is_told.then(|| self.routes.subscribed(self.account.as_ref(), pattern.as_bytes(), None));
        Ok(Route { subscription, first_word: self.interest.add(pattern), told: told.flatten() })
    }

    /// Lets a topic capture the subjects that match `pattern`.
    pub(crate) fn bind(
        &self,
        pattern: &Pattern,
        binding: Arc<Binding>,
    ) -> Result<Subscription, SubscribeError> {
        self.space.subscribe(pattern, Arc::new(Target::Topic(binding)))
    }

    /// Ends a topic's capture of a pattern.
    pub(crate) fn unbind(&self, subscription: Subscription) -> bool {
        self.space.unsubscribe(subscription)
    }

    /// Removes a subscription of a client, or another node's interest.
    pub(super) fn remove(&self, route: Route) {
        self.space.unsubscribe(route.subscription);
        self.interest.remove(route.first_word.as_deref());
        self.routes.unsubscribed(route.told.as_ref());
    }

    /// Returns the interned name of a queue group.
    pub(super) fn queue_name(&self, name: &[u8]) -> Arc<[u8]> {
        self.queues.get(name)
    }

    /// Reports whether there may be a subscription to a subject with this first word.
    pub(crate) fn has_interest_in(&self, first_word: &[u8]) -> bool {
        self.interest.has(first_word)
    }

    /// The current subscriptions, with their patterns.
    pub(crate) fn space(&self) -> &TupleSpace<Arc<Target>> {
        &self.space
    }

    /// Delivers a message of a client, sends it to other nodes, and passes every topic that captures it to
    /// `captured`. A malformed subject has no receivers. A message for very many subscriptions is left to the
    /// caller, which delivers it in several turns.
    pub(super) fn begin_publish(
        &self,
        burst: &mut Burst,
        origin: &Client,
        message: &Message<'_>,
        captured: impl FnMut(&Arc<Binding>),
    ) -> Begun {
        self.begin(burst, Some(origin), Letter::of(message), captured)
    }

    /// The same for a message that has crossed from another account.
    pub(super) fn begin_crossed(
        &self,
        burst: &mut Burst,
        origin: Option<&Client>,
        message: &Message<'_>,
        captured: impl FnMut(&Arc<Binding>),
    ) -> Begun {
        self.begin(burst, origin, Letter::of(message), captured)
    }

    /// The same for a message of the server itself, which topics do not capture.
    pub(super) fn begin_own(&self, burst: &mut Burst, message: &Message<'_>) -> Begun {
        self.begin(burst, None, Letter::of(message), |_| {})
    }

    /// The same for one that goes to another subject than its own. It does not cross to other accounts.
    pub(super) fn begin_letter(&self, burst: &mut Burst, letter: Letter<'_>) -> Begun {
        self.begin(burst, None, letter, |_| {})
    }

    #[inline]
    fn begin(
        &self,
        burst: &mut Burst,
        origin: Option<&Client>,
        letter: Letter<'_>,
        mut captured: impl FnMut(&Arc<Binding>),
    ) -> Begun {
        self.with_local(|local| {
            let hits = local.cache.hits();
            let Ok(targets) = local.cache.matches(&self.space, letter.to()) else {
                return Begun::Done(0);
            };
            if targets.len() > WIDE {
                let targets = local.cache.take();
                burst.looked_up(0);
                return Begun::Wide(targets);
            }
            let mut outgoing = Outgoing { burst, origin, letter, shared: None };
            let (mut deliveries, mut others) = (0, 0);
            for target in targets {
                match &**target {
                    Target::Topic(binding) => captured(binding),
                    Target::Client(subscription) if subscription.queue.is_some() => others |= QUEUES,
                    Target::Client(subscription) => {
                        deliveries += usize::from(outgoing.deliver(subscription));
                    }
                    Target::Node(_) => others |= NODES,
                    Target::Account(crossing) if letter.at.is_none() => {
                        outgoing.burst.crossings.push(Arc::clone(crossing));
                    }
                    Target::Account(_) => {}
                }
            }
            if others != 0 {
                let queues = &mut local.queues;
                deliveries +=
                    queues.deliver(targets, |_| true, |subscription| outgoing.deliver(subscription));
                if others & NODES != 0 {
                    let matches = Matches { targets, is_served: |queue| queues.has_served(queue) };
                    deliveries += local.nodes.send(&self.routes, &matches, self.account.as_deref(), letter);
                }
            }
            burst.looked_up(local.cache.hits() - hits);
            Begun::Done(deliveries)
        })
    }

    /// Reports whether a topic other than this one captures messages on `subject`.
    pub(super) fn is_bound_elsewhere(&self, subject: &[u8], topic: TopicId) -> bool {
        self.with_local(|local| {
            let targets = local.cache.matches(&self.space, subject).unwrap_or_default();
            targets
                .iter()
                .any(|target| matches!(&**target, Target::Topic(other) if other.topic_id() != topic))
        })
    }

    /// Delivers a message from another node to clients of this one. The result is the number of queue groups
    /// that were served. A message for very many subscriptions is left to the caller, as in
    /// [`Router::begin_publish`].
    pub(super) fn begin_here(&self, burst: &mut Burst, letter: Letter<'_>, here: Here<'_>) -> Begun {
        self.with_local(|local| {
            let hits = local.cache.hits();
            let Ok(targets) = local.cache.matches(&self.space, letter.to()) else {
                return Begun::Done(0);
            };
            if targets.len() > WIDE {
                let targets = local.cache.take();
                burst.looked_up(0);
                return Begun::Wide(targets);
            }
            let mut outgoing = Outgoing { burst, origin: None, letter, shared: None };
            for target in targets.iter().filter(|_| here.plain) {
                match &**target {
                    Target::Client(subscription) if subscription.queue.is_none() => {
                        outgoing.deliver(subscription);
                    }
                    Target::Account(crossing) if letter.at.is_none() && crossing.is_for_other_nodes() => {
                        outgoing.burst.crossings.push(Arc::clone(crossing));
                    }
                    Target::Client(_) | Target::Account(_) | Target::Topic(_) | Target::Node(_) => {}
                }
            }
            let mut served = 0;
            if !here.queues.is_empty() {
                let wanted = |name: &[u8]| here.wants(name);
                served = local.queues.deliver(targets, wanted, |subscription| outgoing.deliver(subscription));
            }
            burst.looked_up(local.cache.hits() - hits);
            Begun::Done(served)
        })
    }

    /// Delivers a message to those clients of this node that subscribe to `inbox`. They see its own subject.
    /// Returns how many get it. An inbox with very many subscriptions is none.
    pub(crate) fn deliver_to_inbox(&self, burst: &mut Burst, inbox: &[u8], message: &Message<'_>) -> usize {
        self.with_local(|local| {
            let hits = local.cache.hits();
            let Ok(targets) = local.cache.matches(&self.space, inbox) else { return 0 };
            if targets.len() > WIDE {
                return 0;
            }
            let letter = Letter { message, at: Some(inbox) };
            let mut outgoing = Outgoing { burst, origin: None, letter, shared: None };
            let mut deliver = |subscription: &ClientSubscription| outgoing.deliver(subscription);
            let (mut deliveries, mut has_queues) = (0, false);
            for target in targets {
                match &**target {
                    Target::Client(subscription) if subscription.queue.is_some() => has_queues = true,
                    Target::Client(subscription) => deliveries += usize::from(deliver(subscription)),
                    Target::Topic(_) | Target::Node(_) | Target::Account(_) => {}
                }
            }
            if has_queues {
                deliveries += local.queues.deliver(targets, |_| true, deliver);
            }
            burst.looked_up(local.cache.hits() - hits);
            deliveries
        })
    }

    /// Reports whether a client of this node subscribes to `subject`.
    pub(crate) fn reaches_client(&self, subject: &[u8]) -> bool {
        let mut found = Vec::new();
        let is_there = |target: &Arc<Target>| match &**target {
            Target::Client(subscription) => !subscription.has_ended(),
            Target::Topic(_) | Target::Node(_) | Target::Account(_) => false,
        };
        self.space.matches(subject, &mut found).is_ok() && found.iter().any(is_there)
    }

    /// Reports whether a client here or another node would get a letter to `subject`; with a queue group, one
    /// of its members.
    pub(crate) fn has_listener(&self, subject: &[u8], group: Option<&[u8]>) -> bool {
        let mut found = Vec::new();
        let is_of = |queue: Option<&[u8]>| group.is_none() || queue == group;
        let listens = |target: &Arc<Target>| match &**target {
            Target::Client(subscription) => {
                is_of(subscription.queue.as_deref())
                    && !subscription.has_ended()
                    && !subscription.client.out.is_closed()
            }
            Target::Node(interest) => {
                is_of(interest.queue.as_deref()) && !interest.is_over() && self.routes.knows_letters()
            }
            Target::Topic(_) | Target::Account(_) => false,
        };
        self.space.matches(subject, &mut found).is_ok() && found.iter().any(listens)
    }

    /// The other nodes that have subscribers to `subject`.
    pub(crate) fn listening_nodes(&self, subject: &[u8]) -> Vec<NodeId> {
        let mut found = Vec::new();
        let _ = self.space.matches(subject, &mut found);
        let node = |target: &Arc<Target>| match &**target {
            Target::Node(interest) if !interest.is_over() => Some(interest.node.id),
            _ => None,
        };
        let mut nodes: Vec<NodeId> = found.iter().filter_map(node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Reports whether a client, a node or a topic would get a message on `subject`.
    pub(super) fn reaches_anybody(&self, subject: &[u8]) -> bool {
        let mut found = Vec::new();
        self.space.matches(subject, &mut found).is_ok() && !found.is_empty()
    }

    /// Sends a message to the nodes among these targets. Returns the number of nodes that get it.
    pub(super) fn send_to_nodes(
        &self,
        targets: &[Arc<Target>],
        queues: &QueuePicker,
        letter: Letter<'_>,
    ) -> usize {
        let matches = Matches { targets, is_served: |queue| queues.has_served(queue) };
        let account = self.account.as_deref();
        self.with_local(|local| local.nodes.send(&self.routes, &matches, account, letter))
    }

    /// Returns the plain subscription of `client` that would get a message on `subject`, for the
    /// no-responders reply.
    pub(super) fn own_subscription(&self, client: &Client, subject: &[u8]) -> Option<Arc<Target>> {
        let mut found = Vec::new();
        self.space.matches(subject, &mut found).ok()?;
        let own = found.into_iter().filter_map(|target| match &*target {
            Target::Client(subscription)
                if subscription.client.id == client.id
                    && subscription.queue.is_none()
                    && !subscription.has_ended() =>
            {
                Some((subscription.number, target.clone()))
            }
            _ => None,
        });
        // The oldest subscription, as in nats-server.
        own.min_by_key(|(number, _)| *number).map(|(_, target)| target)
    }

    #[inline]
    fn with_local<T>(&self, work: impl FnOnce(&mut Local) -> T) -> T {
        LOCAL.with_borrow_mut(|known| {
            if known.first().is_none_or(|local| local.router != self.id) {
                self.bring_to_front(known);
            }
            work(&mut known[0])
        })
    }

    /// Makes this router's entry the first one.
    #[cold]
    fn bring_to_front(&self, known: &mut Vec<Local>) {
        let at = known.iter().position(|local| local.router == self.id).unwrap_or_else(|| {
            known.truncate(CACHES_MAX - 1);
            known.push(Local::new(self));
            known.len() - 1
        });
        known[..=at].rotate_right(1);
    }
}

impl Local {
    fn new(router: &Router) -> Self {
        Self {
            router: router.id,
            cache: Cache::new(router.cached_subjects),
            queues: QueuePicker::new(tailrace_env::random::u64()),
            nodes: NodePicker::new(tailrace_env::random::u64()),
        }
    }
}

/// The outcome of a publish.
pub(super) enum Begun {
    /// The number of receivers.
    Done(usize),
    /// The message has not been delivered yet. It is for these very many targets.
    Wide(Vec<Arc<Target>>),
}

/// A message that is delivered to several clients.
pub(super) struct Outgoing<'a> {
    pub(super) burst: &'a mut Burst,
    pub(super) origin: Option<&'a Client>,
    pub(super) letter: Letter<'a>,
    /// The payload, once it has been copied for all receivers.
    pub(super) shared: Option<Bytes>,
}

impl Outgoing<'_> {
    /// Delivers the message. Reports whether the client gets it.
    pub(super) fn deliver(&mut self, subscription: &ClientSubscription) -> bool {
        let client = &subscription.client;
        if let Some(origin) = self.origin
            && origin.id == client.id
            && !self.burst.echo
        {
            return false;
        }
        let permissions = client.permissions();
        if subscription.filtered
            && let Some(permissions) = permissions
            && !permissions.may_deliver(self.letter.to(), subscription.queue.as_deref())
        {
            return false;
        }
        let mut message = *self.letter.message;
        if !client.headers.load(Ordering::Relaxed) {
            message.headers = None;
        }
        // This comes before the client can read the message and reply.
        if let (Some(permissions), Some(reply)) = (permissions, message.reply)
            && permissions.tracks_replies()
        {
            permissions.delivered(reply);
        }
        deliver_to(subscription, &message, &mut self.shared, self.burst)
    }
}

/// Appends a message to a client's buffer. Reports whether it is in the buffer.
fn deliver_to(
    subscription: &ClientSubscription,
    message: &Message<'_>,
    shared: &mut Option<Bytes>,
    burst: &mut Burst,
) -> bool {
    let client = &subscription.client;
    if burst.is_passed_over(client) {
        return false;
    }
    let delivery = Delivery { message: *message, sid: subscription.sid() };
    let size = size_of(&delivery);
    let mut count = Count::Refused;
    let admit = || {
        count = subscription.count();
        count != Count::Refused
    };
    let appended = if message.payload.len() >= SHARED_BYTES_MIN {
        let payload = shared.get_or_insert_with(|| Bytes::copy_from_slice(message.payload));
        let write = |out: &mut Vec<u8>| {
            delivery.write_line(out);
            out.extend_from_slice(message.headers.unwrap_or_default());
        };
        client.out.append(size, burst.read_at, admit, write, Some(payload))
    } else {
        client.out.append(size, burst.read_at, admit, |out| write_delivery(out, &delivery), None)
    };
    if !is_sent(appended, client, burst) {
        return false;
    }
    if count == Count::Last {
        client.expire(subscription.number);
    }
    burst.delivered(size.body_bytes);
    true
}

/// The same for a status of the server itself, which does not count towards the limit of a subscription.
pub(super) fn deliver_status(subscription: &ClientSubscription, status: &Message<'_>, burst: &mut Burst) {
    let client = &subscription.client;
    let delivery = Delivery { message: *status, sid: subscription.sid() };
    let size = size_of(&delivery);
    let admit = || !subscription.has_ended();
    let appended = client.out.append(size, burst.read_at, admit, |out| write_delivery(out, &delivery), None);
    if is_sent(appended, client, burst) {
        burst.delivered(size.body_bytes);
    }
}

/// Reports whether the message is in the client's buffer. If it is, this burst or another one sends it.
#[inline]
fn is_sent(appended: Appended, client: &Arc<Client>, burst: &mut Burst) -> bool {
    match appended {
        Appended::No => return false,
        // Another burst sends it, but this publisher is slowed all the same.
        Appended::Yes => burst.look_at(client),
        Appended::First => burst.touched.push(Arc::clone(client)),
    }
    true
}

fn size_of(delivery: &Delivery<'_>) -> DeliverySize {
    let message = &delivery.message;
    let body_bytes = message.payload.len() + message.headers.map_or(0, <[u8]>::len);
    let names = message.subject.len() + delivery.sid.len() + message.reply.map_or(0, <[u8]>::len);
    let bytes_max = body_bytes + names + LINE_OVERHEAD + 2 * decimal_digits(body_bytes as u64);
    DeliverySize { bytes_max, body_bytes }
}

/// Number of subscriptions per first word. It tells cheaply that a topic can have no subscribers.
#[derive(Debug)]
struct Interest {
    wildcard: Tally,
    /// Number of entries in `words`. If there are no subscriptions, producers see that without a lock.
    distinct: AtomicUsize,
    words: Mutex<HashMap<Box<[u8]>, usize>>,
}

impl Default for Interest {
    fn default() -> Self {
        let wildcard = Tally::of("subscriptions that start with a wildcard");
        Self { wildcard, distinct: AtomicUsize::default(), words: Mutex::default() }
    }
}

impl Interest {
    /// Counts a pattern. Returns what [`Interest::remove`] needs.
    fn add(&self, pattern: &Pattern) -> Option<Box<[u8]>> {
        let Some(PatternWord::Literal(word)) = pattern.words().next() else {
            self.wildcard.add(1);
            return None;
        };
        let mut words = self.words.lock();
        match words.get_mut(word) {
            Some(count) => *count += 1,
            None => {
                words.insert(word.into(), 1);
                self.distinct.store(words.len(), Ordering::Release);
            }
        }
        Some(word.into())
    }

    fn remove(&self, word: Option<&[u8]>) {
        let Some(word) = word else {
            self.wildcard.take_off(1);
            return;
        };
        let mut words = self.words.lock();
        let count = words.get_mut(word).expect("the first words of all subscriptions are counted");
        take_off(count, 1, "subscriptions that start with a word");
        if *count == 0 {
            words.remove(word);
            self.distinct.store(words.len(), Ordering::Release);
        }
    }

    fn has(&self, word: &[u8]) -> bool {
        let some = self.distinct.load(Ordering::Acquire) > 0;
        self.wildcard.get() > 0 || some && self.words.lock().contains_key(word)
    }
}

/// Interned names of queue groups.
#[derive(Debug, Default)]
struct QueueNames(Mutex<NamesInUse>);

#[derive(Debug, Default)]
struct NamesInUse {
    names: HashSet<Arc<[u8]>>,
    /// Number of names at which unused ones are removed next.
    tidy_at: usize,
}

impl QueueNames {
    /// Smallest number of names at which unused ones are removed. After that, this happens when their number
    /// has doubled.
    const TIDY_AT: usize = 1024;

    fn get(&self, name: &[u8]) -> Arc<[u8]> {
        let mut in_use = self.0.lock();
        if let Some(known) = in_use.names.get(name) {
            return Arc::clone(known);
        }
        if in_use.names.len() >= in_use.tidy_at.max(Self::TIDY_AT) {
            in_use.names.retain(|name| Arc::strong_count(name) > 1);
            in_use.tidy_at = 2 * in_use.names.len();
        }
        let name: Arc<[u8]> = name.into();
        in_use.names.insert(Arc::clone(&name));
        name
    }
}
