//! Interleavings that were wrong once, or nearly, taken step by step.

use super::super::clock::Time;
use super::super::epoch::{self, Guard};
use super::super::words::ShapeKey;
use super::super::{Inner, Subscription, TupleSpace};
use crate::{Dialect, Limits, Pattern};

const KEY: ShapeKey = ShapeKey { prefix: 1, stars: 0, tail: false };

fn pattern(text: &str) -> Pattern {
    Pattern::parse(Dialect::Nats, text, &Limits::default()).expect("a valid pattern")
}

fn add(space: &TupleSpace<u32>, text: &str) -> Subscription {
    space.subscribe(&pattern(text), 0).expect("below the limit")
}

/// What a lookup that started at `time` and goes on now finds. `None` if it notices that it is late.
fn lookup_of(inner: &Inner<u32>, subject: &str, time: Time, guard: &Guard) -> Option<usize> {
    let mut words = inner.no_words();
    inner.read(&mut words, subject.as_bytes()).expect("a valid subject");
    let mut found = Vec::new();
    inner.append(&words, time, &mut found, guard).ok().map(|()| found.len())
}

/// Moves the table of `KEY` once; `filler` makes words that are not used otherwise.
fn move_table(space: &TupleSpace<u32>, filler: &mut impl Iterator<Item = String>, guard: &Guard) {
    let shape = space.inner.directory(guard).get(KEY).expect("the shape is there");
    let before = shape.head(guard);
    before.begin_migration();
    while std::ptr::eq(before, shape.head(guard)) {
        // Nothing is removed, so that no other removal masks the one that is tested.
        add(space, &filler.next().expect("endless")).forget();
    }
}

#[test]
fn a_late_lookup_notices_a_removal_however_often_the_table_has_moved() {
    for moves in 0..4 {
        let space = TupleSpace::new(Dialect::Nats);
        let guard = &epoch::pin();
        let kept = add(&space, "a");
        let time = space.generation();
        assert_eq!(lookup_of(&space.inner, "a", time, guard), Some(1));
        assert!(space.unsubscribe(kept));
        let mut filler = (0..).map(|index| format!("filler{index}"));
        for _ in 0..moves {
            move_table(&space, &mut filler, guard);
        }
        assert_eq!(lookup_of(&space.inner, "a", time, guard), None, "after {moves} moves");
    }
}

#[test]
fn a_late_lookup_notices_a_removal_when_its_shape_is_gone() {
    for moves in 0..3 {
        let space = TupleSpace::new(Dialect::Nats);
        let guard = &epoch::pin();
        let mut held = vec![add(&space, "a")];
        let time = space.generation();
        assert!(space.unsubscribe(held.remove(0)));
        let removed = space.generation();
        let mut filler = (0..).map(|index| format!("filler{index}"));
        let shape = space.inner.directory(guard).get(KEY).expect("the shape is there");
        for _ in 0..moves {
            let before = shape.head(guard);
            before.begin_migration();
            while std::ptr::eq(before, shape.head(guard)) {
                held.push(add(&space, &filler.next().expect("endless")));
            }
        }
        let told = shape.dropped(guard);
        assert!(moves == 0 || told >= removed, "after {moves} moves: {told}, removed at {removed}");
        held.drain(..).for_each(|subscription| assert!(space.unsubscribe(subscription)));
        assert!(shape.try_retire(&space.inner.core, guard));
        space.inner.purge(guard);
        assert_eq!(space.shapes(), 0);
        assert_eq!(lookup_of(&space.inner, "a", time, guard), None, "after {moves} moves");
    }
}

#[test]
fn a_pattern_that_comes_and_goes_under_a_snapshot_is_listed_once() {
    let space = TupleSpace::new(Dialect::Nats);
    add(&space, "a").forget();
    let snapshot = space.snapshot();
    for _ in 0..100 {
        assert!(space.unsubscribe(add(&space, "a")));
    }
    assert_eq!(space.inner.core.listed().len(), 1);
    assert_eq!(snapshot.len(), 1);
    drop(snapshot);
    assert!(space.inner.core.listed().is_empty());
}

#[test]
fn a_snapshot_that_is_dropped_before_an_older_one_visits_nothing() {
    let space = TupleSpace::new(Dialect::Nats);
    let held: Vec<_> = (0..50).map(|index| add(&space, &format!("w{index}"))).collect();
    let old = space.snapshot();
    held.into_iter().for_each(|held| assert!(space.unsubscribe(held)));
    let listed = space.inner.core.listed();
    assert_eq!(listed.len(), 50);
    drop(space.snapshot());
    // A visit would have created new entries.
    assert!(listed == space.inner.core.listed());
    assert_eq!(old.len(), 50);
    drop(old);
    assert!(space.inner.core.listed().is_empty());
    assert_eq!(space.len(), 0);
}
