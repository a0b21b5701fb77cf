//! Publishes that a stream judges, against a plain list: expectations, ids, roll-ups and limits, several in
//! flight, restarts, and requests that come again.

use std::collections::{BTreeMap, HashMap};

use tailrace_jetstream::stream::Discard;
use tailrace_types::Offset;

use super::*;
use crate::partitions::appending;
use crate::streams::publish::{NotPublished, PublishRequest, PublishedHere, Sender, publish_here};

/// A message: subject, headers, payload.
#[derive(Clone, Debug)]
pub(super) struct Post {
    pub(super) subject: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) payload: Vec<u8>,
}

pub(super) fn post(subject: &str, headers: &[(&'static str, &str)]) -> Post {
    let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    Post { subject: subject.to_owned(), headers, payload: b"x".to_vec() }
}

pub(super) fn built(posts: &[Post], sender: Option<&Sender>) -> BatchBuilder {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for post in posts {
        let headers: Vec<(&[u8], Option<&[u8]>)> =
            post.headers.iter().map(|(name, value)| (name.as_bytes(), Some(value.as_bytes()))).collect();
        let now = tailrace_env::time::wall_clock();
        builder.push(now, Some(post.subject.as_bytes()), Some(&post.payload), &headers).unwrap();
    }
    match sender {
        Some(sender) => builder.of_producer(sender.producer, ProducerEpoch(0), sender.sequence),
        None => builder,
    }
}

impl Rig {
    /// Has messages judged, and waits for nothing else.
    async fn begin(&self, posts: &[Post], sender: Option<Sender>) -> Result<PublishedHere, NotPublished> {
        let batches = vec![built(posts, sender.as_ref()).build()];
        self.begin_with(PublishRequest { batches, sender }).await
    }

    async fn begin_with(&self, request: PublishRequest) -> Result<PublishedHere, NotPublished> {
        let topic = self.topic();
        let deadline = tailrace_env::time::Instant::now() + tailrace_env::time::Duration::from_secs(30);
        publish_here(self.node(), &topic, topic.here(0).unwrap(), request, deadline).await
    }

    async fn post(&self, posts: &[Post]) -> Vec<Published> {
        let here = self.begin(posts, None).await.unwrap();
        self.settled(here).await
    }

    async fn settled(&self, here: PublishedHere) -> Vec<Published> {
        let topic = self.topic();
        if let Some(wait) = here.awaited.and_then(|awaited| topic.here(0).unwrap().wait_committed(awaited)) {
            wait.await.unwrap();
        }
        here.published
    }

    /// As if another node had led the stream meanwhile.
    fn forget(&self) {
        self.node().streams.judging.lock().clear();
    }
}

pub(super) fn codes(published: &[Published]) -> Vec<i64> {
    let code = |published: &Published| match published {
        Published::Stored(seq) => i64::try_from(*seq).unwrap(),
        Published::Duplicate(seq) => -i64::try_from(*seq).unwrap(),
        Published::Refused(error) => i64::from(error.kind().err_code()),
    };
    published.iter().map(code).collect()
}

const LAST: &str = "Nats-Expected-Last-Sequence";
const LAST_OF: &str = "Nats-Expected-Last-Subject-Sequence";
const SUBJECT_OF: &str = "Nats-Expected-Last-Subject-Sequence-Subject";
const ID: &str = "Nats-Msg-Id";
const LAST_ID: &str = "Nats-Expected-Last-Msg-Id";
const ROLLUP: &str = "Nats-Rollup";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_publishes_with_the_same_expectation_one_is_stored() {
    let rig = Rig::start(&[]).await;
    create(rig.node(), Some(&config())).await;
    let expect = |subject, seq| post(subject, &[(LAST_OF, seq)]);
    // In one batch, in two that nobody has committed yet, and after they are.
    let both = rig.begin(&[expect("a", "0"), expect("a", "0"), expect("b", "0")], None).await.unwrap();
    let third = rig.begin(&[expect("a", "0"), expect("a", "1")], None).await.unwrap();
    assert_eq!(codes(&both.published), [1, 10071, 2]);
    assert_eq!(codes(&third.published), [10071, 3]);
    rig.settled(both).await;
    rig.settled(third).await;
    assert_eq!(codes(&rig.post(&[expect("a", "1"), expect("a", "3")]).await), [10071, 4]);
    // What nobody judges counts, too.
    let topic = rig.topic();
    send(rig.node(), topic.here(0).unwrap(), None, &[("a", b"", None)]).await;
    assert_eq!(
        codes(&rig.post(&[expect("a", "4"), expect("a", "5"), post("c", &[(LAST, "6")])]).await),
        [10071, 6, 7]
    );
    assert_eq!(rig.state().await.messages, 7);
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_is_stored_once_in_its_window_also_after_a_restart() {
    let rig = Rig::start(&[]).await;
    let window = StreamConfig { duplicate_window: 60_000_000_000, ..config() };
    create(rig.node(), Some(&window)).await;
    let id = |id| post("a", &[(ID, id)]);
    assert_eq!(codes(&rig.post(&[id("one"), id("two"), id("one")]).await), [1, 2, -1]);
    let rig = rig.again().await;
    assert_eq!(codes(&rig.post(&[id("two"), id("three"), post("a", &[])]).await), [-2, 3, 4]);
    // The table has come to the end of the log when it answers.
    assert_eq!(rig.state().await.messages, 4);
    assert_eq!(rig.node().streams.ids(), 3);
    // The last id is that of the last message.
    let last = |id| post("a", &[(LAST_ID, id)]);
    assert_eq!(
        codes(&rig.post(&[last("three"), id("four"), last("three"), last("four")]).await),
        [10070, 5, 10070, 6]
    );
    let rig = rig.again().await;
    assert_eq!(codes(&rig.post(&[last("four"), id("five")]).await), [10070, 7]);
    let rig = rig.again().await;
    assert_eq!(codes(&rig.post(&[last("five"), id("five")]).await), [8, -7]);
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_is_forgotten_after_its_window_and_no_more_than_allowed_are_kept() {
    let rig = Rig::start(&[("tailrace.jetstream.stream.ids.max", "3")]).await;
    create(rig.node(), Some(&StreamConfig { duplicate_window: 60_000_000_000, ..config() })).await;
    let id = |id| post("a", &[(ID, id)]);
    let answers = rig.post(&[id("1"), id("2"), id("3"), id("4"), id("2"), post("a", &[])]).await;
    assert_eq!(codes(&answers), [1, 2, 3, 10167, -2, 4]);
    assert_eq!(codes(&rig.post(&[id("5"), id("3")]).await), [10167, -3]);
    rig.running.stop().await;
    let rig = Rig::start(&[]).await;
    create(rig.node(), Some(&StreamConfig { duplicate_window: 100_000_000, ..config() })).await;
    assert_eq!(codes(&rig.post(&[id("1"), id("1")]).await), [1, -1]);
    let again = async {
        loop {
            // For the window to pass.
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            match codes(&rig.post(&[id("1")]).await)[..] {
                [-1] => {}
                [stored] => return stored,
                _ => panic!("one answer"),
            }
        }
    };
    assert_eq!(again.await, 2);
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_comes_again_stores_nothing_twice() {
    let rig = Rig::start(&[]).await;
    create(rig.node(), Some(&config())).await;
    let sender = Sender { producer: ProducerId(70), sequence: 0, request: 1, epoch: None };
    let posts = [
        post("a", &[(LAST_OF, "0")]),
        post("a", &[(LAST_OF, "0")]),
        post("b", &[]),
        post("c", &[(LAST_OF, "9")]),
    ];
    let first = rig.begin(&posts, Some(sender)).await.unwrap();
    assert_eq!((codes(&first.published), first.stored), (vec![1, 10071, 2, 10071], 2));
    rig.settled(first).await;
    // The same leader has the answer, and knows older requests.
    assert_eq!(codes(&rig.post(&[post("c", &[])]).await), [3]);
    let again = rig.begin(&posts, Some(sender)).await.unwrap();
    assert_eq!((codes(&again.published), again.stored), (vec![1, 10071, 2, 10071], 2));
    let late = rig.begin(&posts, Some(Sender { request: 0, ..sender })).await;
    assert!(matches!(late, Err(NotPublished::Unknown(_))), "{late:?}");
    // Another one finds what is stored. What came behind it was told to nobody, and may pass now.
    rig.forget();
    let again = rig.begin(&posts, Some(sender)).await.unwrap();
    assert_eq!((codes(&again.published), again.stored), (vec![1, 10071, 2, 10071], 2));
    let next = Sender { sequence: 2, request: 2, ..sender };
    let posts = [post("d", &[(LAST_OF, "8")]), post("d", &[]), post("e", &[(LAST, "9")])];
    assert_eq!(codes(&rig.begin(&posts, Some(next)).await.unwrap().published), [10071, 4, 10071]);
    // By now the first one would pass.
    rig.post(&[post("d", &[]), post("d", &[]), post("d", &[]), post("d", &[])]).await;
    rig.forget();
    let again = rig.begin(&posts, Some(next)).await.unwrap();
    assert_eq!((codes(&again.published), again.stored), (vec![10077, 4, 10071], 1));
    let other = rig.begin(&[post("z", &[])], Some(Sender { request: 3, ..next })).await;
    assert!(matches!(other, Err(NotPublished::Unknown(_))), "{other:?}");
    let epoch = Some(tailrace_types::LeaderEpoch(77));
    let other = rig.begin(&[post("z", &[])], Some(Sender { sequence: 3, request: 4, epoch, ..sender })).await;
    assert!(matches!(other, Err(NotPublished::Again(_))), "{other:?}");
    assert_eq!(rig.state().await.messages, 8);
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_cannot_be_judged_says_why() {
    let rig = Rig::start(&[("tailrace.jetstream.stream.messages.max", "2")]).await;
    create(rig.node(), Some(&config())).await;
    assert_eq!(codes(&rig.post(&[post("a", &[]), post("a", &[]), post("a", &[])]).await), [1, 2, 3]);
    while !rig.post(&[post("a", &[])]).await.iter().all(|told| matches!(told, Published::Refused(_))) {
        // The table is behind, and ends when it has the third.
        tokio::task::yield_now().await;
    }
    assert_eq!(codes(&rig.post(&[post("a", &[(ID, "1")])]).await), [10047]);
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_judges_ends_a_tail_that_nobody_needs() {
    let rig = Rig::start(&[]).await;
    create(rig.node(), Some(&config())).await;
    assert_eq!(codes(&rig.post(&[post("a", &[(LAST, "0")])]).await), [1]);
    let topic = rig.topic();
    let handle = topic.here(0).unwrap();
    let judging = rig.node().streams.judging.lock().get(&handle.group).cloned().unwrap();
    assert!(judging.has_tail());
    let large = vec![b'x'; 100_000];
    send(rig.node(), handle, None, &[("a", &large, None)]).await;
    assert!(!judging.has_tail());
    assert_eq!(
        codes(&rig.post(&[post("a", &[(LAST_OF, "1")]), post("a", &[(LAST_OF, "2")])]).await),
        [10071, 3]
    );
    assert!(judging.has_tail());
    // The lock is free, and the end of the log is what it was.
    let end = appending(rig.node(), handle, true, |appending| appending.log_end()).await.unwrap();
    assert_eq!(end, Offset(3));
    rig.running.stop().await;
}

const SUBJECTS: [&str; 4] = ["a.1", "a.2", "b.1", "b.2.c"];

#[derive(Default)]
struct Model {
    config: StreamConfig,
    /// Subject and size.
    messages: BTreeMap<u64, (String, u64)>,
    ids: HashMap<String, u64>,
    last_id: String,
    end: u64,
}

impl Model {
    fn last_of(&self, pattern: &str) -> u64 {
        let matches = |subject: &str| match pattern {
            "a.*" => subject.starts_with("a."),
            ">" => true,
            other => subject == other,
        };
        self.messages.iter().rfind(|(_, (subject, _))| matches(subject)).map_or(0, |(seq, _)| *seq)
    }

    fn of(&self, subject: &str) -> Vec<u64> {
        self.messages.iter().filter(|(_, (other, _))| other == subject).map(|(seq, _)| *seq).collect()
    }

    fn bytes(&self) -> u64 {
        self.messages.values().map(|(_, size)| size).sum()
    }

    /// The checks, in the order of a cluster of nats-server.
    fn post(&mut self, post: &Post) -> i64 {
        let header = |name: &str| {
            post.headers.iter().find(|(other, _)| *other == name).map_or("", |(_, value)| value.as_str())
        };
        let block: usize = post.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        let block = if block == 0 { 0 } else { block + 12 };
        let around = if block == 0 { 30 } else { 34 };
        let size = (post.subject.len() + block + post.payload.len() + around) as u64;
        let most = |limit: i64| u64::try_from(limit).ok().filter(|limit| *limit > 0);
        if self.config.max_msg_size > 0 && block + post.payload.len() > self.config.max_msg_size as usize {
            return 10054;
        }
        if let Some(first) = self.ids.get(header(ID)).filter(|_| !header(ID).is_empty()) {
            return -(*first as i64);
        }
        if !header(LAST).is_empty() && header(LAST) != self.end.to_string() {
            return 10071;
        }
        let subject = if header(SUBJECT_OF).is_empty() { &post.subject } else { header(SUBJECT_OF) };
        if !header(LAST_OF).is_empty() && header(LAST_OF) != self.last_of(subject).to_string() {
            return 10071;
        }
        let rollup = header(ROLLUP);
        if !rollup.is_empty() && !self.config.allow_rollup_hdrs {
            return 10111;
        }
        let own = self.of(&post.subject);
        let per_subject = most(self.config.max_msgs_per_subject);
        if self.config.discard == Discard::New {
            let replaces = per_subject.is_some_and(|most| own.len() as u64 >= most);
            if replaces && self.config.discard_new_per_subject && rollup.is_empty() {
                return 10077;
            }
            if most(self.config.max_msgs).is_some_and(|most| self.messages.len() as u64 >= most) && !replaces
            {
                return 10077;
            }
            let over = most(self.config.max_bytes).is_some_and(|most| self.bytes() + size > most);
            let oldest = own.first().map_or(0, |seq| self.messages[seq].1);
            if over && (!replaces || oldest < size) {
                return 10077;
            }
        }
        if !header(LAST_ID).is_empty() && header(LAST_ID) != self.last_id {
            return 10070;
        }
        self.store(post, header(ID), rollup, size)
    }

    fn store(&mut self, post: &Post, id: &str, rollup: &str, size: u64) -> i64 {
        self.end += 1;
        if !id.is_empty() {
            self.ids.insert(id.to_owned(), self.end);
        }
        id.clone_into(&mut self.last_id);
        match rollup {
            "all" => self.messages.clear(),
            "sub" => self.messages.retain(|_, (subject, _)| *subject != post.subject),
            _ => {}
        }
        self.messages.insert(self.end, (post.subject.clone(), size));
        let limits = self.config.limits();
        let own = self.of(&post.subject);
        let most = limits.per_subject_max.unwrap_or(u64::MAX) as usize;
        for seq in &own[..own.len().saturating_sub(most)] {
            self.messages.remove(seq);
        }
        while limits.messages_max.is_some_and(|most| self.messages.len() as u64 > most)
            || limits.bytes_max.is_some_and(|most| self.bytes() > most)
        {
            self.messages.pop_first();
        }
        self.end as i64
    }

    fn random(&self, dice: &mut Dice) -> Post {
        let mut headers = Vec::new();
        let near =
            |dice: &mut Dice, seq: u64| (seq + dice.below(3)).saturating_sub(dice.below(2)).to_string();
        let subject = SUBJECTS[dice.below(4) as usize];
        if dice.below(3) == 0 {
            headers.push((ID, format!("id{}", dice.below(40))));
        }
        if dice.below(5) == 0 {
            headers.push((LAST, near(dice, self.end)));
        }
        if dice.below(3) == 0 {
            let other = [subject, subject, "a.*", ">", "b.1", "none"][dice.below(6) as usize];
            if other != subject {
                headers.push((SUBJECT_OF, other.to_owned()));
            }
            headers.push((LAST_OF, near(dice, self.last_of(other))));
        }
        if dice.below(8) == 0 {
            headers.push((LAST_ID, if dice.below(2) == 0 { self.last_id.clone() } else { "id1".to_owned() }));
        }
        if dice.below(8) == 0 {
            headers.push((ROLLUP, if dice.below(3) == 0 { "all" } else { "sub" }.to_owned()));
        }
        Post { subject: subject.to_owned(), headers, payload: vec![b'x'; dice.below(40) as usize] }
    }
}

async fn agree(rig: &Rig, model: &Model) {
    let state = rig.state().await;
    assert_eq!((state.messages, state.last_seq), (model.messages.len() as u64, model.end));
    assert_eq!(state.bytes, model.bytes());
    if !model.messages.is_empty() {
        let found = rig.read(next("", 0)).await.unwrap();
        let expected: Vec<u64> = model.messages.keys().copied().collect();
        assert_eq!(sequences(&found), expected);
    }
}

/// A request that comes again at another leader: what was stored is there, what was judged before the last of
/// that is not stored, and the rest is judged now.
async fn repeat(rig: &Rig, model: &mut Model, posts: &[Post], sender: Sender, told: &[i64]) -> i32 {
    rig.forget();
    let here = rig.begin(posts, Some(sender)).await.unwrap();
    let stored = here.stored;
    let again = codes(&rig.settled(here).await);
    let is_stored = |code: &i64| (1..10_000).contains(code);
    let judged = told.iter().rposition(is_stored).map_or(0, |at| at + 1);
    for (at, (before, now)) in told.iter().zip(&again).enumerate() {
        match at < judged {
            true if is_stored(before) => assert_eq!(before, now),
            true => assert!(!is_stored(now), "it was refused before: {now}"),
            false => assert_eq!(model.post(&posts[at]), *now, "judged now: {:?}", posts[at]),
        }
    }
    stored
}

async fn play(seed: u64, config: StreamConfig) {
    let mut dice = Dice(seed * 7_919 + 1);
    let mut rig = Rig::start(&[]).await;
    create(rig.node(), Some(&config)).await;
    let mut model = Model { config, ..Model::default() };
    let mut sender = Sender { producer: ProducerId(500), sequence: 0, request: 1, epoch: None };
    let mut waiting = Vec::new();
    for _ in 0..150 {
        let posts: Vec<_> = (0..=dice.below(5)).map(|_| model.random(&mut dice)).collect();
        match dice.below(12) {
            0 => rig = rig.again().await,
            1..=3 => {
                let here = rig.begin(&posts, Some(sender)).await.unwrap();
                let stored = here.stored;
                let expected: Vec<_> = posts.iter().map(|post| model.post(post)).collect();
                let told = codes(&rig.settled(here).await);
                assert_eq!(told, expected, "{posts:?}");
                let all = if dice.below(2) == 0 {
                    repeat(&rig, &mut model, &posts, sender, &told).await
                } else {
                    stored
                };
                sender = Sender { sequence: sender.sequence + all, request: sender.request + 1, ..sender };
            }
            4 => {
                // Nobody judges these.
                let plain: Vec<Sent<'_>> =
                    SUBJECTS[..2].iter().map(|subject| (*subject, &b"p"[..], None)).collect();
                let topic = rig.topic();
                if model.config.discard == Discard::Old && model.config.max_msg_size < 0 {
                    send(rig.node(), topic.here(0).unwrap(), None, &plain).await;
                    for (subject, ..) in plain {
                        model.store(&Post { payload: b"p".to_vec(), ..post(subject, &[]) }, "", "", 34);
                    }
                }
            }
            _ => {
                // Nothing waits until they are committed.
                let here = rig.begin(&posts, None).await.unwrap();
                let expected: Vec<_> = posts.iter().map(|post| model.post(post)).collect();
                assert_eq!(codes(&here.published), expected, "{posts:?}");
                waiting.push(here);
            }
        }
        if dice.below(6) == 0 {
            for here in waiting.drain(..) {
                rig.settled(here).await;
            }
            agree(&rig, &model).await;
        }
    }
    for here in waiting {
        rig.settled(here).await;
    }
    agree(&rig, &model).await;
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn judgements_agree_with_a_plain_list() {
    let base = StreamConfig {
        allow_rollup_hdrs: true,
        max_msg_size: -1,
        duplicate_window: 120_000_000_000,
        ..config()
    };
    let new = StreamConfig { discard: Discard::New, ..base.clone() };
    let configs = [
        base.clone(),
        StreamConfig { max_msgs: 9, ..base.clone() },
        StreamConfig { max_bytes: 700, max_msgs_per_subject: 3, ..base.clone() },
        StreamConfig { max_msgs_per_subject: 2, max_msg_size: 90, ..base.clone() },
        StreamConfig { max_msgs: 9, ..new.clone() },
        StreamConfig { max_msgs: 6, max_msgs_per_subject: 2, ..new.clone() },
        StreamConfig { max_bytes: 700, max_msgs_per_subject: 2, ..new.clone() },
        StreamConfig { max_msgs_per_subject: 2, discard_new_per_subject: true, ..new },
        StreamConfig { allow_rollup_hdrs: false, ..base },
    ];
    for (seed, config) in (1..).zip(configs) {
        println!("seed {seed}: {config:?}");
        play(seed, config).await;
    }
}
