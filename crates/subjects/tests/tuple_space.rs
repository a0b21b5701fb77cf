//! The default matcher by itself: growing, shrinking, shapes, snapshots, caches, batches, limits.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::HashMap;

use tailrace_subjects::{
    Batch, Cache, Dialect, Limits, Pattern, SubscribeError, Subscription, TupleSpace, tuple_space::SHAPES_MAX,
};

fn pattern(text: &str) -> Pattern {
    Pattern::parse(Dialect::Nats, text, &Limits::widest()).unwrap()
}

fn sorted(space: &TupleSpace<u64>, subject: &str) -> Vec<u64> {
    let mut found = Vec::new();
    space.matches(subject.as_bytes(), &mut found).unwrap();
    found.sort_unstable();
    found
}

/// A small generator, so that a failure names its step.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[test]
fn finds_what_is_subscribed_and_no_more() {
    let space = TupleSpace::new(Dialect::Nats);
    let texts = ["a.b", "a.*", "*.b", ">", "a.>", "a.b.>", "a.b", "*.*", "c"];
    let subscriptions: Vec<Subscription> =
        (0..).zip(texts).map(|(value, text)| space.subscribe(&pattern(text), value).unwrap()).collect();
    assert_eq!(sorted(&space, "a.b"), [0, 1, 2, 3, 4, 6, 7]);
    assert_eq!(sorted(&space, "a.b.c"), [3, 4, 5]);
    assert_eq!(sorted(&space, "c"), [3, 8]);
    assert_eq!(space.len(), 9);
    for subscription in subscriptions {
        assert!(space.unsubscribe(subscription));
    }
    assert_eq!((sorted(&space, "a.b"), space.len()), (vec![], 0));
}

#[test]
fn grows_and_shrinks_under_a_model() {
    let (steps, keys) = if cfg!(miri) { (400, 60) } else { (300_000, 20_000) };
    let space = TupleSpace::new(Dialect::Nats);
    let mut random = Random(1);
    let mut model: HashMap<String, Vec<(u64, Subscription)>> = HashMap::new();
    let mut live = 0;
    for step in 0..steps {
        let key = random.below(keys);
        let text = match key % 10 {
            0 => format!("k{key}.*"),
            1 => format!("*.k{key}.x"),
            2 => format!("k{key}.>"),
            _ => format!("k{key}.x"),
        };
        let entry = model.entry(text.clone()).or_default();
        // Grows, then shrinks, then grows again.
        if random.below(10) < [9, 2, 6][step * 3 / steps] {
            entry.push((step as u64, space.subscribe(&pattern(&text), step as u64).unwrap()));
            live += 1;
        } else if !entry.is_empty() {
            let index = random.below(entry.len() as u64) as usize;
            assert!(space.unsubscribe(entry.swap_remove(index).1), "step {step}");
            live -= 1;
        }
        let subject = format!("k{key}.x");
        let mut expected: Vec<u64> = [subject.clone(), format!("k{key}.*"), format!("k{key}.>")]
            .iter()
            .filter_map(|text| model.get(text))
            .flat_map(|entry| entry.iter().map(|(value, _)| *value))
            .collect();
        expected.sort_unstable();
        assert_eq!(sorted(&space, &subject), expected, "step {step}");
        assert_eq!(space.has_interest(subject.as_bytes()).unwrap(), !expected.is_empty(), "step {step}");
    }
    assert_eq!(space.len(), live);
    assert_eq!(space.snapshot().len(), live);
}

#[test]
fn values_are_found_without_cloning_them() {
    /// A value that counts its clones.
    struct Counted(u64, std::sync::Arc<std::sync::atomic::AtomicUsize>);
    impl Clone for Counted {
        fn clone(&self) -> Self {
            self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Self(self.0, self.1.clone())
        }
    }
    let clones = std::sync::Arc::default();
    let space = TupleSpace::new(Dialect::Nats);
    let texts: Vec<_> = (0..20)
        .map(|stars| (0..20).map(|word| if word < stars { "*" } else { "a" }).collect::<Vec<_>>().join("."))
        .collect();
    for (value, text) in (0..).zip(&texts) {
        space.subscribe(&pattern(text), Counted(value, std::sync::Arc::clone(&clones))).unwrap().forget();
    }
    clones.store(0, std::sync::atomic::Ordering::Relaxed);
    let mut found = Vec::new();
    space.for_each_match(texts[0].as_bytes(), |value| found.push(value.0)).unwrap();
    found.sort_unstable();
    assert_eq!(found, (0..20).collect::<Vec<_>>());
    assert_eq!(clones.load(std::sync::atomic::Ordering::Relaxed), 0);
    assert!(space.for_each_match(b"a..b", |_| panic!("called")).is_err());
}

#[test]
fn a_batch_finds_what_single_lookups_find() {
    let space = TupleSpace::new(Dialect::Nats);
    let count = if cfg!(miri) { 40 } else { 5_000 };
    for value in 0..count {
        let text = if value % 10 == 0 { format!("a.{value}.*") } else { format!("a.{value}.b") };
        space.subscribe(&pattern(&text), value).unwrap().forget();
    }
    space.subscribe(&pattern("a.7.>"), count).unwrap().forget();
    let subjects: Vec<String> = (0..count + 10)
        .map(|value| if value % 7 == 3 { "bad..one".to_owned() } else { format!("a.{value}.b") })
        .collect();
    let mut batch = Batch::new();
    space.matches_many(&subjects, &mut batch);
    assert_eq!(batch.len(), subjects.len());
    for (index, subject) in subjects.iter().enumerate() {
        let mut found = Vec::new();
        let single = space.matches(subject.as_bytes(), &mut found);
        match batch.get(index) {
            Ok(values) => {
                let mut values = values.to_vec();
                values.sort_unstable();
                found.sort_unstable();
                assert_eq!(values, found, "{subject}");
            }
            Err(error) => assert_eq!(Err(error.clone()), single),
        }
    }
}

#[test]
fn a_snapshot_stays_as_it_was() {
    let space = TupleSpace::new(Dialect::Amqp);
    let parse = |text: &str| Pattern::parse(Dialect::Amqp, text, &Limits::default()).unwrap();
    let count = if cfg!(miri) { 30 } else { 3_000 };
    let text = |value: u64| match value % 3 {
        0 => format!("a.{value}"),
        1 => format!("a.#.{value}.b"),
        _ => format!("*.{value}.#"),
    };
    let mut old: Vec<_> =
        (0..count).map(|value| Some(space.subscribe(&parse(&text(value)), value).unwrap())).collect();
    let snapshot = space.snapshot();
    let generation = space.generation();
    assert_eq!(snapshot.generation(), generation);
    for value in 0..count {
        if value % 2 == 0 {
            assert!(space.unsubscribe(old[value as usize].take().unwrap()));
        }
        space.subscribe(&parse(&text(value)), value + count).unwrap().forget();
        space.subscribe(&parse(&format!("new.{value}")), value).unwrap().forget();
    }
    assert_ne!(space.generation(), generation);
    let mut seen = snapshot.to_vec();
    seen.sort();
    let mut expected: Vec<_> =
        (0..count).map(|value| (text(value).into_bytes().into_boxed_slice(), value)).collect();
    expected.sort();
    assert!(seen == expected, "{} {}", seen.len(), expected.len());
    let mut found = Vec::new();
    snapshot.matches(b"a.0", &mut found).unwrap();
    assert_eq!(found, [0]);
    space.matches(b"a.0", &mut found).unwrap();
    assert_eq!(found, [count]);
    drop(snapshot);
    assert_eq!(space.snapshot().len() as u64, count / 2 + 2 * count);
}

#[test]
fn a_cache_is_never_stale() {
    let space = TupleSpace::new(Dialect::Nats);
    let mut cache = Cache::new(64);
    let mut random = Random(2);
    let mut held: Vec<(u64, Subscription)> = Vec::new();
    for step in 0..if cfg!(miri) { 300 } else { 50_000 } {
        if random.below(20) == 0 {
            if random.below(2) == 0 || held.is_empty() {
                let text = format!("s.{}", random.below(8));
                held.push((step, space.subscribe(&pattern(&text), step).unwrap()));
            } else {
                let index = random.below(held.len() as u64) as usize;
                assert!(space.unsubscribe(held.swap_remove(index).1));
            }
        }
        let subject = format!("s.{}", random.below(8));
        let mut cached = cache.matches(&space, subject.as_bytes()).unwrap().to_vec();
        cached.sort_unstable();
        assert_eq!(cached, sorted(&space, &subject), "step {step}");
    }
}

#[test]
fn a_cache_tells_subjects_of_every_length_apart() {
    let space = TupleSpace::new(Dialect::Amqp);
    let parse = |text: &str| Pattern::parse(Dialect::Amqp, text, &Limits::default()).unwrap();
    let mut cache = Cache::new(4_096);
    // Texts that differ in only one byte, at any position; those of one length have the same start and end.
    let mut texts = vec![String::new()];
    for length in [1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 64, 255, 256, 257] {
        for at in [0, length / 2, length - 1] {
            texts.extend(
                ["x", "y"].map(|odd| format!("{}{odd}{}", "a".repeat(at), "a".repeat(length - at - 1))),
            );
        }
    }
    for (value, text) in (0..).zip(&texts) {
        space.subscribe(&parse(text), value).unwrap().forget();
    }
    for _ in 0..3 {
        for text in &texts {
            let mut cached: Vec<u64> = cache.matches(&space, text.as_bytes()).unwrap().to_vec();
            cached.sort_unstable();
            assert_eq!(cached, sorted(&space, text), "{text}");
            assert!(!cached.is_empty());
        }
    }
}

#[test]
fn shapes_without_patterns_make_room_for_others() {
    let space = TupleSpace::new(Dialect::Nats);
    let shape = |index: usize| {
        let words: Vec<_> = (0..9).map(|bit| if index >> bit & 1 == 1 { "*" } else { "w" }).collect();
        pattern(&words.join("."))
    };
    let first: Vec<_> = (0..400).map(|index| space.subscribe(&shape(index), index as u64).unwrap()).collect();
    assert_eq!(space.shapes(), SHAPES_MAX);
    assert_eq!(sorted(&space, "w.w.w.w.w.w.w.w.w").len(), 400);
    for subscription in first {
        assert!(space.unsubscribe(subscription));
    }
    assert!(sorted(&space, "w.w.w.w.w.w.w.w.w").is_empty());
    let second: Vec<_> =
        (100..130).map(|index| space.subscribe(&shape(index), index as u64).unwrap()).collect();
    assert_eq!(sorted(&space, "w.w.w.w.w.w.w.w.w"), (100..130).collect::<Vec<u64>>());
    assert!(space.shapes() <= SHAPES_MAX);
    second.into_iter().for_each(|subscription| assert!(space.unsubscribe(subscription)));
}

#[test]
fn one_shape_more_than_there_is_room_for_is_refused() {
    let limits = Limits { overflow_words_max: 20, ..Limits::default() };
    let space = TupleSpace::with_limits(Dialect::Nats, limits);
    let shape = |index: usize| {
        let words: Vec<_> = (0..9).map(|bit| if index >> bit & 1 == 1 { "*" } else { "w" }).collect();
        pattern(&words.join("."))
    };
    // Two of nine words have room in the overflow.
    let mut held: Vec<_> =
        (0..SHAPES_MAX + 2).map(|index| space.subscribe(&shape(index), index as u64).unwrap()).collect();
    for _ in 0..2 {
        let refused = space.subscribe(&shape(SHAPES_MAX + 2), 0);
        assert_eq!(refused.unwrap_err(), SubscribeError::TooManyShapes { words_max: 20 });
        assert_eq!((space.len(), space.snapshot().len()), (SHAPES_MAX + 2, SHAPES_MAX + 2));
    }
    // Further patterns of an existing shape are accepted.
    let same = (0..9)
        .map(|bit| if (SHAPES_MAX + 1) >> bit & 1 == 1 { "*" } else { "x" })
        .collect::<Vec<_>>()
        .join(".");
    space.subscribe(&pattern(&same), 1).unwrap().forget();
    assert!(space.unsubscribe(held.swap_remove(SHAPES_MAX)));
    space.subscribe(&shape(SHAPES_MAX + 2), 2).unwrap().forget();
}

#[test]
fn many_subscribers_of_one_pattern() {
    let space = TupleSpace::new(Dialect::Nats);
    let count = if cfg!(miri) { 100 } else { 100_000 };
    let mut held: Vec<_> = (0..count).map(|value| space.subscribe(&pattern("a.*"), value).unwrap()).collect();
    assert_eq!(sorted(&space, "a.b").len() as u64, count);
    for subscription in held.drain(..).rev() {
        assert!(space.unsubscribe(subscription));
    }
    assert!(!space.has_interest(b"a.b").unwrap());
}

#[test]
fn limits_refuse_and_leave_nothing() {
    let limits = Limits { bytes_max: 10, words_max: 3, subscriptions_max: 2, ..Limits::default() };
    let space = TupleSpace::with_limits(Dialect::Nats, limits);
    assert!(matches!(space.subscribe(&pattern("a.b.c.d"), 0), Err(SubscribeError::Text(_))));
    assert!(matches!(space.subscribe(&pattern("abcdefghijk"), 0), Err(SubscribeError::Text(_))));
    let foreign = Pattern::parse(Dialect::Mqtt, "a/b", &limits).unwrap();
    assert!(matches!(space.subscribe(&foreign, 0), Err(SubscribeError::WrongDialect { .. })));
    let first = space.subscribe(&pattern("a"), 0).unwrap();
    let _second = space.subscribe(&pattern("b"), 0).unwrap();
    assert_eq!(
        space.subscribe(&pattern("c"), 0).unwrap_err(),
        SubscribeError::TooManySubscriptions { subscriptions_max: 2 }
    );
    assert_eq!((space.len(), space.shapes()), (2, 1));
    assert!(space.unsubscribe(first));
    space.subscribe(&pattern("c"), 0).unwrap().forget();
    assert!(space.has_interest(b"a.b.c.d").is_err());
}

#[test]
fn a_subscription_of_another_matcher_removes_nothing() {
    let (own, other) = (TupleSpace::new(Dialect::Amqp), TupleSpace::new(Dialect::Amqp));
    for text in ["a.b", "a.#.b"] {
        let pattern = Pattern::parse(Dialect::Amqp, text, &Limits::default()).unwrap();
        let _kept = own.subscribe(&pattern, 1).unwrap();
        assert!(!own.unsubscribe(other.subscribe(&pattern, 2).unwrap()), "{text}");
    }
    assert_eq!((own.len(), other.len()), (2, 2));
}

#[test]
fn a_panicking_clone_leaves_nothing_behind() {
    struct Fragile(std::sync::Arc<std::sync::atomic::AtomicBool>);
    impl Clone for Fragile {
        fn clone(&self) -> Self {
            assert!(!self.0.load(std::sync::atomic::Ordering::Relaxed), "told to panic");
            Self(self.0.clone())
        }
    }
    let broken = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let space = TupleSpace::with_limits(Dialect::Nats, Limits { subscriptions_max: 2, ..Limits::default() });
    space.subscribe(&pattern("a"), Fragile(broken.clone())).unwrap().forget();
    broken.store(true, std::sync::atomic::Ordering::Relaxed);
    for text in ["a", "b", "c"] {
        let attempt = || space.subscribe(&pattern(text), Fragile(broken.clone()));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(attempt)).is_err());
    }
    broken.store(false, std::sync::atomic::Ordering::Relaxed);
    assert_eq!((space.len(), space.len_about()), (1, 1));
    space.subscribe(&pattern("b"), Fragile(broken.clone())).unwrap().forget();
    assert!(space.subscribe(&pattern("c"), Fragile(broken)).is_err());
}
