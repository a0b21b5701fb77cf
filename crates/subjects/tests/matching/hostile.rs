//! What an attacker or a careless caller does: values that panic or call back, sizes at the limits, things
//! used after their time.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::thread;

use tailrace_subjects::{
    Batch, Cache, Dialect, Limits, Pattern, SharedPattern, SubscribeError, TextError, TupleSpace,
};

fn pattern(dialect: Dialect, text: &str) -> Pattern {
    Pattern::parse(dialect, text, &Limits::widest()).unwrap()
}

fn sorted<V: Clone + Ord>(values: &[V]) -> Vec<V> {
    let mut values = values.to_vec();
    values.sort();
    values
}

/// Advances epochs.
fn reclaim() {
    for _ in 0..2_048 {
        crossbeam_epoch::pin().flush();
    }
}

/// A value whose clone panics while its switch is on.
struct Fragile(u32, Arc<AtomicBool>);

impl Clone for Fragile {
    fn clone(&self) -> Self {
        assert!(!self.1.load(SeqCst), "a clone that panics");
        Self(self.0, self.1.clone())
    }
}

#[test]
fn a_cache_tells_subjects_of_every_length_apart() {
    let space = TupleSpace::new(Dialect::Amqp);
    space.subscribe(&pattern(Dialect::Amqp, "#"), 1_000_000).unwrap().forget();
    // Subjects that differ in only one byte, at every position that a key of the first and last bytes may
    // miss.
    let mut subjects = Vec::new();
    for length in 0..300 {
        let text = vec![b'a'; length];
        let places =
            [0, 7, 8, 15, 16, 17, 31, 32, length / 2, length.wrapping_sub(17), length.wrapping_sub(1)];
        for place in places.into_iter().filter(|place| *place < length) {
            let mut other = text.clone();
            other[place] = b'b';
            subjects.push(other);
        }
        subjects.push(text);
    }
    subjects.sort();
    subjects.dedup();
    for (value, subject) in subjects.iter().enumerate().filter(|(index, _)| index % 2 == 0) {
        let pattern = Pattern::parse(Dialect::Amqp, subject, &Limits::widest()).unwrap();
        space.subscribe(&pattern, value).unwrap().forget();
    }
    for entries in [0, 1, 4_096] {
        let mut cache = Cache::new(entries);
        for (value, subject) in subjects.iter().enumerate() {
            let expected = if value % 2 == 0 { vec![value, 1_000_000] } else { vec![1_000_000] };
            for _ in 0..3 {
                assert_eq!(sorted(cache.matches(&space, subject).unwrap()), expected, "{}", subject.len());
            }
        }
    }
}

#[test]
fn a_cache_of_any_size_can_be_asked_for() {
    let space = TupleSpace::new(Dialect::Nats);
    space.subscribe(&pattern(Dialect::Nats, "a"), ()).unwrap().forget();
    for subjects in [0, 1, 2, 3, 5, usize::MAX] {
        let mut cache = Cache::new(subjects);
        for _ in 0..300 {
            assert_eq!(cache.matches(&space, b"a").unwrap().len(), 1);
            assert!(cache.matches(&space, b"a..b").is_err());
        }
    }
}

#[test]
fn a_cache_keeps_no_large_results() {
    let (space, value) = (TupleSpace::new(Dialect::Nats), Arc::new(()));
    for _ in 0..1000 {
        space.subscribe(&pattern(Dialect::Nats, "crowd.*"), Arc::clone(&value)).unwrap().forget();
    }
    let (mut cache, subscribed) = (Cache::new(512), Arc::strong_count(&value));
    for round in 0..3 {
        for number in 0..500 {
            let subject = format!("crowd.{number}");
            assert_eq!(cache.matches(&space, subject.as_bytes()).unwrap().len(), 1000, "round {round}");
        }
    }
    // The last result is held until the next one.
    assert!(Arc::strong_count(&value) <= subscribed + 1000, "{}", Arc::strong_count(&value) - subscribed);
}

#[test]
fn a_cache_survives_clones_that_panic_and_shows_no_half_result() {
    let off = Arc::new(AtomicBool::new(false));
    let space = TupleSpace::new(Dialect::Nats);
    for value in 0..3 {
        space.subscribe(&pattern(Dialect::Nats, "a.*"), Fragile(value, off.clone())).unwrap().forget();
    }
    let mut cache = Cache::new(8);
    assert_eq!(cache.matches(&space, b"a.b").unwrap().len(), 3);
    space.subscribe(&pattern(Dialect::Nats, "a.b"), Fragile(3, off.clone())).unwrap().forget();
    off.store(true, SeqCst);
    for _ in 0..3 {
        assert!(catch_unwind(AssertUnwindSafe(|| cache.matches(&space, b"a.b").map(<[_]>::len))).is_err());
    }
    off.store(false, SeqCst);
    assert_eq!(cache.matches(&space, b"a.b").unwrap().len(), 4);
}

#[test]
fn a_batch_is_right_after_errors_and_for_any_number_of_subjects() {
    for dialect in Dialect::ALL {
        let (space, mut batch) = (TupleSpace::new(dialect), Batch::new());
        let (mut held, mut one) = (Vec::new(), Vec::new());
        let separator = if dialect == Dialect::Mqtt { "/" } else { "." };
        let text = |words: &[&str]| words.join(separator);
        let star = if dialect == Dialect::Mqtt { "+" } else { "*" };
        // More shapes than there is room for: the rest is in the overflow.
        for stars in 0..100_u32 {
            let words: Vec<_> = (0..7).map(|bit| if stars >> bit & 1 == 1 { star } else { "w" }).collect();
            held.push(space.subscribe(&pattern(dialect, &text(&words)), stars).unwrap());
        }
        let bad: [&[u8]; 4] = [b"\xff\xfe", b"", b"\0", b"a\0b"];
        let good = text(&["w"; 7]);
        for round in 0..2 {
            for count in [0, 1, 15, 16, 17, 255, 256, 257, 700] {
                let subjects: Vec<&[u8]> = (0..count)
                    .map(|index| if index % 3 == 1 { bad[index % 4] } else { good.as_bytes() })
                    .collect();
                space.matches_many(&subjects, &mut batch);
                assert_eq!((batch.len(), batch.is_empty()), (count, count == 0));
                for (index, subject) in subjects.iter().enumerate() {
                    let expected = space.matches(subject, &mut one);
                    match batch.get(index) {
                        Ok(values) => assert_eq!(sorted(values), sorted(&one), "{dialect} {round}"),
                        Err(error) => assert_eq!(expected.as_ref(), Err(error)),
                    }
                }
            }
            held.drain(..).for_each(|held| assert!(space.unsubscribe(held)));
        }
    }
}

#[test]
fn closures_may_change_what_they_are_called_for() {
    for (dialect, text) in [(Dialect::Nats, "a.b"), (Dialect::Amqp, "#.b")] {
        let space = TupleSpace::new(dialect);
        let held = RefCell::new(Vec::new());
        for value in 0..100 {
            held.borrow_mut().push(space.subscribe(&pattern(dialect, text), value).unwrap());
        }
        let mut calls = 0;
        space
            .for_each_match(b"a.b", |_| {
                calls += 1;
                if let Some(held) = held.borrow_mut().pop() {
                    assert!(space.unsubscribe(held));
                }
                space.subscribe(&pattern(dialect, "a.b"), 1_000).unwrap().forget();
                space.for_each_match(b"a.b", |_| {}).unwrap();
            })
            .unwrap();
        assert_eq!((calls, space.len()), (100, 100));
        let stop = catch_unwind(AssertUnwindSafe(|| space.for_each_match(b"a.b", |_| panic!("enough"))));
        assert!(stop.is_err());
        assert!(space.has_interest(b"a.b").unwrap());
    }
}

/// A value that makes a lookup in its matcher when it is cloned and when it is dropped.
struct Nosy(Weak<TupleSpace<Self>>, Arc<AtomicUsize>);

impl Nosy {
    fn look(&self) {
        let Some(space) = self.0.upgrade() else { return };
        assert!(space.has_interest(b"other.x").unwrap());
        let held =
            space.subscribe(&pattern(Dialect::Amqp, "nosy"), Self(Weak::new(), self.1.clone())).unwrap();
        assert!(space.unsubscribe(held));
    }
}

impl Clone for Nosy {
    fn clone(&self) -> Self {
        self.look();
        Self(self.0.clone(), self.1.clone())
    }
}

impl Drop for Nosy {
    fn drop(&mut self) {
        self.1.fetch_add(1, SeqCst);
        self.look();
    }
}

#[test]
fn values_may_call_the_matcher_when_cloned_and_dropped() {
    let (space, drops) = (Arc::new(TupleSpace::new(Dialect::Amqp)), Arc::new(AtomicUsize::new(0)));
    let quiet = Nosy(Weak::new(), drops.clone());
    space.subscribe(&pattern(Dialect::Amqp, "#.x"), quiet).unwrap().forget();
    let mut held = Vec::new();
    for index in 0..200 {
        let value = Nosy(Arc::downgrade(&space), drops.clone());
        let text = if index % 2 == 0 { format!("a.{}", index % 7) } else { format!("#.{}", index % 7) };
        held.push(space.subscribe(&pattern(Dialect::Amqp, &text), value).unwrap());
        let (mut cache, mut batch) = (Cache::new(4), Batch::new());
        assert!(!cache.matches(&space, b"a.0").unwrap().is_empty());
        space.matches_many(&[b"a.0"; 3], &mut batch);
        assert!(!batch.get(2).unwrap().is_empty());
    }
    let snapshot = space.snapshot();
    held.drain(..).for_each(|held| assert!(space.unsubscribe(held)));
    assert_eq!((snapshot.len(), space.len()), (201, 1));
    drop(snapshot);
    drop(space);
    reclaim();
    assert!(drops.load(SeqCst) > 400);
}

#[test]
fn a_lookup_may_come_while_its_thread_ends() {
    struct AtExit(Arc<TupleSpace<u32>>, Arc<AtomicUsize>);
    impl Drop for AtExit {
        fn drop(&mut self) {
            let mut found = Vec::new();
            self.0.matches(b"a.b", &mut found).unwrap();
            self.1.fetch_add(found.len(), SeqCst);
        }
    }
    thread_local! {
        static AT_EXIT: RefCell<Option<AtExit>> = const { RefCell::new(None) };
    }
    let (space, found) = (Arc::new(TupleSpace::new(Dialect::Amqp)), Arc::new(AtomicUsize::new(0)));
    space.subscribe(&pattern(Dialect::Amqp, "#.b"), 1).unwrap().forget();
    let (own, seen) = (space.clone(), found.clone());
    let work = move || {
        AT_EXIT.with_borrow_mut(|slot| *slot = Some(AtExit(own.clone(), seen)));
        // Only now comes the lookup's own memory, which is dropped first.
        assert!(own.has_interest(b"a.b").unwrap());
    };
    thread::spawn(work).join().unwrap();
    assert_eq!(found.load(SeqCst), 1);
}

#[test]
fn a_clone_that_panics_in_subscribe_changes_nothing() {
    for text in ["a.b", "#.b"] {
        let off = Arc::new(AtomicBool::new(false));
        let limits = Limits { subscriptions_max: 3, ..Limits::default() };
        let space = TupleSpace::with_limits(Dialect::Amqp, limits);
        let binding = pattern(Dialect::Amqp, text);
        let subscribe = |value| space.subscribe(&binding, Fragile(value, off.clone()));
        let held = [subscribe(0).unwrap(), subscribe(1).unwrap()];
        off.store(true, SeqCst);
        for _ in 0..5 {
            assert!(catch_unwind(AssertUnwindSafe(|| subscribe(2).map(|held| held.forget()))).is_err());
        }
        off.store(false, SeqCst);
        assert_eq!((space.len(), space.len_about()), (2, 2));
        let third = subscribe(3).expect("a subscription that failed takes no place");
        assert!(subscribe(4).is_err());
        held.into_iter().for_each(|held| assert!(space.unsubscribe(held)));
        assert!(space.unsubscribe(third));
        assert!(space.is_empty());
    }
}

#[test]
fn snapshots_and_guards_outlive_their_matcher() {
    let space = TupleSpace::new(Dialect::Nats);
    for value in 0..1_000 {
        space.subscribe(&pattern(Dialect::Nats, &format!("a.{value}")), Box::new(value)).unwrap().forget();
    }
    let (snapshot, mut cache) = (space.snapshot(), Cache::new(8));
    cache.matches(&space, b"a.1").unwrap();
    let guard = crossbeam_epoch::pin();
    drop(space);
    let work = move || {
        let mut found = Vec::new();
        snapshot.matches(b"a.7", &mut found).unwrap();
        assert_eq!((*found[0], snapshot.len()), (7, 1_000));
    };
    thread::spawn(work).join().unwrap();
    drop(guard);
    drop(cache);
    reclaim();
}

#[test]
fn another_matchers_subscription_is_not_known() {
    for text in ["a.b", "#.b", "", "#"] {
        let (one, other) = (TupleSpace::new(Dialect::Amqp), TupleSpace::new(Dialect::Amqp));
        let held = one.subscribe(&pattern(Dialect::Amqp, text), 1).unwrap();
        other.subscribe(&pattern(Dialect::Amqp, text), 1).unwrap().forget();
        assert!(!other.unsubscribe(held), "{text}");
        assert_eq!((one.len(), other.len()), (1, 1));
    }
}

#[test]
fn limits_at_the_edges_hold() {
    for max in [0, 1, 2, 65] {
        let limits = Limits {
            bytes_max: usize::MAX,
            words_max: usize::MAX,
            subscriptions_max: max,
            ..Limits::default()
        };
        let space = TupleSpace::with_limits(Dialect::Nats, limits);
        assert_eq!((space.limits().bytes_max, space.limits().words_max), (65_535, 10_000));
        for _ in 0..3 {
            let held: Vec<_> =
                (0..max).map(|_| space.subscribe(&pattern(Dialect::Nats, "a"), ()).unwrap()).collect();
            let refused = space.subscribe(&pattern(Dialect::Nats, "a"), ()).map(|held| held.forget());
            assert_eq!(refused, Err(SubscribeError::TooManySubscriptions { subscriptions_max: max }));
            held.into_iter().for_each(|held| assert!(space.unsubscribe(held)));
        }
    }
    let none = Limits { bytes_max: 0, words_max: 0, subscriptions_max: usize::MAX, ..Limits::default() };
    let space = TupleSpace::with_limits(Dialect::Amqp, none);
    space.subscribe(&pattern(Dialect::Amqp, ""), 1).unwrap().forget();
    assert!(space.subscribe(&pattern(Dialect::Amqp, "#"), 1).is_err());
    assert!(space.has_interest(b"").unwrap());
    assert_eq!(space.has_interest(b"a"), Err(TextError::TooLong { bytes: 1, bytes_max: 0 }));
    let wordless = Limits { words_max: 0, ..Limits::default() };
    let space = TupleSpace::<()>::with_limits(Dialect::Nats, wordless);
    assert_eq!(space.has_interest(b"a"), Err(TextError::TooManyWords { position: 0, words_max: 0 }));
}

fn with_a_small_stack(work: impl FnOnce() + Send + 'static) {
    thread::Builder::new().stack_size(128 << 10).spawn(work).unwrap().join().unwrap();
}

#[test]
fn the_longest_texts_need_no_deep_stack() {
    let work = || {
        let word = "w".repeat(65_535);
        // Distinct words. With equal ones, the path through such a pattern is searched from each of them, as
        // in the next test.
        let numbers = (1..10_000).map(|number| number.to_string()).collect::<Vec<_>>().join(".");
        let (words, hashes) = (format!("w.{numbers}"), format!("#.{numbers}"));
        let space = TupleSpace::with_limits(Dialect::Amqp, Limits::widest());
        let (mut found, mut batch) = (Vec::new(), Batch::new());
        let held: Vec<_> = [&word, &words, &hashes]
            .map(|text| space.subscribe(&pattern(Dialect::Amqp, text), text.len()).unwrap())
            .into();
        space.matches(word.as_bytes(), &mut found).unwrap();
        assert_eq!(found, [65_535]);
        space.matches_many(&[&word, &words], &mut batch);
        assert_eq!((batch.get(0).unwrap().len(), batch.get(1).unwrap().len()), (1, 2));
        let snapshot = space.snapshot();
        held.into_iter().for_each(|held| assert!(space.unsubscribe(held)));
        assert_eq!(snapshot.to_vec().len(), 3);
        assert!(space.has_interest(&[b'w'; 65_536]).is_err());
        assert!(space.has_interest(vec!["w"; 10_001].join(".").as_bytes()).is_err());
        drop((snapshot, space));
        reclaim();
    };
    with_a_small_stack(work);
}

#[test]
fn a_pattern_that_may_begin_at_every_word_is_found() {
    with_a_small_stack(|| {
        let space = TupleSpace::with_limits(Dialect::Amqp, Limits::widest());
        let count = if cfg!(debug_assertions) { 2_000 } else { 10_000 };
        let hashes = format!("#.{}", vec!["w"; count - 1].join("."));
        space.subscribe(&pattern(Dialect::Amqp, &hashes), 1).unwrap().forget();
        for (words, expected) in [(count, vec![1]), (count - 1, vec![1]), (count - 2, vec![])] {
            let mut found = Vec::new();
            space.matches(vec!["w"; words].join(".").as_bytes(), &mut found).unwrap();
            assert_eq!(found, expected, "{words} words");
        }
    });
}

#[test]
fn one_pattern_without_a_table_takes_very_many_values() {
    let space = TupleSpace::new(Dialect::Amqp);
    let binding = pattern(Dialect::Amqp, "#.x.#");
    let held: Vec<_> = (0..20_000).map(|value| space.subscribe(&binding, value).unwrap()).collect();
    let mut found = Vec::new();
    space.matches(b"a.x.b", &mut found).unwrap();
    assert_eq!(sorted(&found), (0..20_000).collect::<Vec<_>>());
    held.into_iter().for_each(|held| assert!(space.unsubscribe(held)));
    assert!(space.is_empty());
}

/// A value larger, and with a larger alignment, than any in the matcher itself.
#[derive(Clone, PartialEq, Debug)]
#[repr(align(128))]
struct Wide([u8; 1_024]);

#[test]
fn wide_and_empty_values_lie_where_they_should() {
    let (wide, empty) = (TupleSpace::new(Dialect::Nats), TupleSpace::new(Dialect::Nats));
    for index in 0..60 {
        let text = "x".repeat(index + 1);
        wide.subscribe(&pattern(Dialect::Nats, &text), Wide([index as u8; 1_024])).unwrap().forget();
        empty.subscribe(&pattern(Dialect::Nats, &text), ()).unwrap().forget();
    }
    let (mut cache, mut no_cache) = (Cache::new(2), Cache::new(2));
    for index in 0..60 {
        let text = "x".repeat(index + 1);
        let aligned = |value: &Wide| {
            assert_eq!(std::ptr::from_ref(value).addr() % 128, 0);
            assert!(value == &Wide([index as u8; 1_024]));
        };
        wide.for_each_match(text.as_bytes(), aligned).unwrap();
        cache.matches(&wide, text.as_bytes()).unwrap().iter().for_each(aligned);
        assert_eq!(no_cache.matches(&empty, text.as_bytes()).unwrap(), [()]);
    }
}

#[test]
fn every_error_says_where() {
    let limits = Limits { bytes_max: 20, words_max: 4, subscriptions_max: 1, ..Limits::default() };
    let parse = |dialect, text: &[u8]| Pattern::parse(dialect, text, &limits).unwrap_err();
    let (nats, amqp, mqtt) = (Dialect::Nats, Dialect::Amqp, Dialect::Mqtt);
    assert_eq!(parse(nats, b""), TextError::Empty(nats));
    for (text, position) in [("a..b", 2), (".a", 0), ("a.", 2), (".", 0)] {
        assert_eq!(parse(nats, text.as_bytes()), TextError::EmptyWord { position });
    }
    assert_eq!(parse(mqtt, b"a/b+"), TextError::WildcardInWord { wildcard: b'+', position: 3 });
    assert_eq!(parse(mqtt, b"a/#/b"), TextError::TailNotLast { wildcard: b'#', position: 2 });
    assert_eq!(parse(nats, b"a.>.b"), TextError::TailNotLast { wildcard: b'>', position: 2 });
    assert_eq!(parse(nats, b"a.b c"), TextError::Forbidden { byte: b' ', position: 3 });
    assert_eq!(parse(amqp, b"a.\xc3\xa4\xff"), TextError::NotUtf8 { position: 4 });
    assert_eq!(parse(amqp, b"a.b.c.d.e"), TextError::TooManyWords { position: 8, words_max: 4 });
    assert_eq!(parse(amqp, b"...."), TextError::TooManyWords { position: 4, words_max: 4 });
    assert_eq!(parse(amqp, &[b'a'; 21]), TextError::TooLong { bytes: 21, bytes_max: 20 });
    let shared = |text: &str| SharedPattern::parse(text, &limits).unwrap_err();
    assert_eq!(shared("$share/g/b+"), TextError::WildcardInWord { wildcard: b'+', position: 10 });
    assert_eq!(shared("$share/g/b/c/d"), TextError::TooManyWords { position: 13, words_max: 4 });
    let space = TupleSpace::<()>::new(mqtt);
    let wildcard = TextError::WildcardInSubject { wildcard: b'+', position: 2 };
    assert_eq!(space.has_interest(b"a/+"), Err(wildcard));
}

#[test]
fn snapshots_show_their_moment_over_growth_and_shrinking() {
    let space = TupleSpace::new(Dialect::Nats);
    let (mut snapshots, mut held) = (Vec::new(), Vec::new());
    for index in 0..600 {
        let text = format!("a.{index}");
        held.push(space.subscribe(&pattern(Dialect::Nats, &text), index).unwrap());
        snapshots.push((held.len(), space.snapshot()));
    }
    while let Some(last) = held.pop() {
        assert!(space.unsubscribe(last));
        if held.len() % 100 == 0 {
            snapshots.push((held.len(), space.snapshot()));
        }
    }
    let mut found = Vec::new();
    for (count, snapshot) in snapshots.iter().filter(|(count, _)| count % 97 == 0) {
        assert_eq!(snapshot.len(), *count);
        snapshot.matches(b"a.500", &mut found).unwrap();
        assert_eq!(found.len(), usize::from(*count > 500));
    }
    // In an unusual order.
    while !snapshots.is_empty() {
        snapshots.swap_remove(snapshots.len() / 2);
    }
    assert!(space.is_empty());
}

#[test]
fn a_clone_that_panics_for_a_snapshot_leaves_the_count_right() {
    for text in ["a.b", "#.b"] {
        let off = Arc::new(AtomicBool::new(false));
        let space = TupleSpace::new(Dialect::Amqp);
        let subscribe = |value| space.subscribe(&pattern(Dialect::Amqp, text), Fragile(value, off.clone()));
        let held = [subscribe(0).unwrap(), subscribe(1).unwrap()];
        let snapshot = space.snapshot();
        off.store(true, SeqCst);
        let removed = held.map(|held| catch_unwind(AssertUnwindSafe(|| space.unsubscribe(held))).is_ok());
        off.store(false, SeqCst);
        let mut found = Vec::new();
        space.matches(b"a.b", &mut found).unwrap();
        assert_eq!((found.len(), snapshot.len()), (space.len(), 2), "{text} {removed:?}");
        drop(snapshot);
        space.matches(b"a.b", &mut found).unwrap();
        assert_eq!(found.len(), space.len());
    }
}
