//! The CS-trie under real threads: the two anomalies of the reference implementation, and the guarantees of
//! snapshots.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use tailrace_subjects::{Dialect, Limits, Matcher, Pattern};
use tailrace_subjects_bench::classic::{CsTrie, Trie};

/// Few under Miri, which is a thousand times slower.
const ROUNDS: usize = if cfg!(miri) { 20 } else { 20_000 };

fn pattern(text: &str) -> Pattern {
    Pattern::parse(Dialect::Amqp, text, &Limits::default()).unwrap()
}

fn find<M: Matcher<usize>>(matcher: &M, subject: &str) -> Vec<usize> {
    let mut found = Vec::new();
    matcher.matches(subject.as_bytes(), &mut found).unwrap();
    found
}

/// Every thread subscribes to patterns of its own among shared words, looks up, unsubscribes, and looks up
/// again.
fn own_subscriptions<M: Matcher<usize>>(matcher: &M, threads: usize) -> usize {
    let missing = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..threads {
            let missing = &missing;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let text = ["a.b", "a.*", "#.b", "a.b.c", "a.#.c"][(round + thread) % 5];
                    let text = format!("{}.{text}", ["x", "*", "y", "#"][round % 4]);
                    let subject = format!(
                        "{}.a.b{}",
                        ["x", "y", "y", "x"][round % 4],
                        if text.ends_with('c') { ".c" } else { "" }
                    );
                    let value = thread * ROUNDS + round;
                    let subscription = matcher.subscribe(&pattern(&text), value).unwrap();
                    let before = find(matcher, &subject).contains(&value);
                    assert!(matcher.unsubscribe(subscription));
                    let after = find(matcher, &subject).contains(&value);
                    missing.fetch_add(usize::from(!before) + usize::from(after), Ordering::Relaxed);
                }
            });
        }
    });
    missing.load(Ordering::Relaxed)
}

#[test]
fn own_subscriptions_are_found_until_they_are_gone() {
    let matcher = CsTrie::new(Dialect::Amqp);
    assert_eq!(own_subscriptions(&matcher, 4), 0);
    assert_eq!((matcher.len(), matcher.snapshot().len()), (0, 0));
}

#[test]
fn own_subscriptions_are_found_while_snapshots_are_taken() {
    let matcher = CsTrie::new(Dialect::Amqp);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let snapshot = matcher.snapshot();
                assert_eq!(snapshot.len(), snapshot.len(), "a snapshot never changes");
            }
        });
        let missing = own_subscriptions(&matcher, 3);
        stop.store(true, Ordering::Relaxed);
        assert_eq!(missing, 0);
    });
    assert_eq!((matcher.len(), matcher.snapshot().len()), (0, 0));
}

/// A writer goes through: none, the first, both, the first, none. No lookup may see the second without the
/// first.
#[test]
fn no_later_subscription_without_an_earlier_one() {
    for (first, second) in [("a.*", "#.b"), ("#.b", "a.*"), ("*.b", "a.b"), ("a.b", "*.*")] {
        let matcher = CsTrie::new(Dialect::Amqp);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for reader in 0..2 {
                let (matcher, stop) = (&matcher, &stop);
                scope.spawn(move || {
                    let mut looks = 0_usize;
                    while !stop.load(Ordering::Relaxed) {
                        let mut found = Vec::new();
                        if reader == 0 || !looks.is_multiple_of(64) {
                            found = find(matcher, "a.b");
                        } else {
                            matcher.snapshot().matches(b"a.b", &mut found).unwrap();
                        }
                        assert!(found.contains(&1) || !found.contains(&2), "{first} {second}: {found:?}");
                        looks += 1;
                    }
                });
            }
            for _ in 0..ROUNDS {
                let one = matcher.subscribe(&pattern(first), 1).unwrap();
                let two = matcher.subscribe(&pattern(second), 2).unwrap();
                assert!(matcher.unsubscribe(two) && matcher.unsubscribe(one));
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

/// The same, with a lookup so long that both subscriptions fit into it: it passes the first one's place at
/// its start, and reaches the second one's at its end. A trie that does not read twice fails this at once.
#[test]
fn no_later_subscription_without_an_earlier_one_in_a_long_lookup() {
    let depth = if cfg!(miri) { 3 } else { 8 };
    let matcher = CsTrie::new(Dialect::Amqp);
    for number in 0..1_usize << depth {
        let words: Vec<_> = (0..depth).map(|word| if number >> word & 1 == 0 { "a" } else { "*" }).collect();
        matcher.subscribe(&pattern(&words.join(".")), 0).unwrap();
    }
    let (first, last) = (pattern("a.#"), pattern(&["*"].repeat(depth).join(".")));
    let subject = ["a"].repeat(depth).join(".");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                let one = matcher.subscribe(&first, 1).unwrap();
                let two = matcher.subscribe(&last, 2).unwrap();
                assert!(matcher.unsubscribe(two) && matcher.unsubscribe(one));
            }
            stop.store(true, Ordering::Relaxed);
        });
        while !stop.load(Ordering::Relaxed) {
            let found = find(&matcher, &subject);
            assert!(found.contains(&1) || !found.contains(&2), "the second without the first");
            assert_eq!(found.iter().filter(|value| **value == 0).count(), 1 << depth);
        }
    });
}

#[test]
fn a_snapshot_stays_as_it_was() {
    let matcher = CsTrie::new(Dialect::Amqp);
    let texts = ["", "a", "a.b", "a.b.c", "*.b", "#.c", "b.#.c", "b.#.c.d"];
    let subjects = ["", "a", "a.b", "a.b.c", "b.c", "b.x.c.d"];
    let mut handles: Vec<_> = texts
        .iter()
        .enumerate()
        .map(|(value, text)| matcher.subscribe(&pattern(text), value).unwrap())
        .collect();
    let look = |matcher: &Trie<usize>| subjects.map(|subject| sorted(find(matcher, subject)));
    let oracle = Trie::new(Dialect::Amqp);
    for (value, text) in texts.iter().enumerate() {
        oracle.subscribe(&pattern(text), value).unwrap();
    }
    let expected = look(&oracle);
    let snapshot = matcher.snapshot();
    let again = matcher.snapshot();
    for round in 0..10 {
        assert!(matcher.unsubscribe(handles.remove(0)));
        matcher.subscribe(&pattern(["a.b.c.d", "#", "a", "x.y"][round % 4]), 100).unwrap();
        handles.push(matcher.subscribe(&pattern("q"), 101).unwrap());
        for snapshot in [&snapshot, &again] {
            let mut values = Vec::new();
            snapshot.for_each(|value| values.push(*value));
            assert_eq!(sorted(values), (0..texts.len()).collect::<Vec<_>>());
            let found = subjects.map(|subject| {
                let mut found = Vec::new();
                snapshot.matches(subject.as_bytes(), &mut found).unwrap();
                sorted(found)
            });
            assert_eq!(found, expected);
        }
    }
    // It outlives the trie.
    drop(matcher);
    assert_eq!((snapshot.len(), again.is_empty()), (texts.len(), false));
}

fn sorted(mut values: Vec<usize>) -> Vec<usize> {
    values.sort_unstable();
    values
}

#[test]
fn splits_of_many_words_grow_and_shrink() {
    let words = if cfg!(miri) { 60 } else { 5_000 };
    let matcher = CsTrie::new(Dialect::Amqp);
    let subscribe = |word: usize| matcher.subscribe(&pattern(&format!("w{word}.x")), word).unwrap();
    let handles: Vec<_> = (0..words).map(subscribe).collect();
    for word in 0..words {
        assert_eq!(find(&matcher, &format!("w{word}.x")), [word]);
    }
    for (word, handle) in handles.into_iter().enumerate() {
        assert!(matcher.unsubscribe(handle));
        assert!(find(&matcher, &format!("w{word}.x")).is_empty());
        if word % 97 == 0 {
            assert_eq!(matcher.snapshot().len(), words - word - 1);
        }
    }
    assert!(matcher.snapshot().is_empty());
}

/// All values are dropped, each once, whatever snapshots and races there were.
#[test]
fn every_value_is_dropped_once() {
    let value = Arc::new(());
    {
        let matcher = CsTrie::new(Dialect::Amqp);
        thread::scope(|scope| {
            for thread in 0..3 {
                let (matcher, value) = (&matcher, &value);
                scope.spawn(move || {
                    for round in 0..ROUNDS / 10 {
                        let text = format!("a.{}.{}", round % 7, ["*", "b", "#"][round % 3]);
                        let handle = matcher.subscribe(&pattern(&text), Arc::clone(value)).unwrap();
                        if round % 16 == thread {
                            drop(matcher.snapshot());
                        }
                        if round % 3 > 0 {
                            assert!(matcher.unsubscribe(handle));
                        }
                    }
                });
            }
        });
    }
    // The rest is garbage of past epochs, which guards of other tests may delay for a while.
    for _ in 0..1_000_000 {
        crossbeam_epoch::pin().flush();
        if Arc::strong_count(&value) == 1 {
            return;
        }
        thread::yield_now();
    }
    panic!("{} values are left", Arc::strong_count(&value) - 1);
}
