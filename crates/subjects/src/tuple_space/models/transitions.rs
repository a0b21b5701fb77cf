//! The core transitions as models. Every history must be linearizable, and no thread may panic, block or loop
//! forever.

use super::super::clock::Clock;
use super::super::counts::Counts;
use super::super::directory::SHAPES_MAX;
use super::super::{Batch, Cache, TupleSpace};
use super::runs::{Thread, World, check, does, swap};
use crate::{Dialect, Limits, Pattern, SubscribeError};
use std::sync::Arc;

#[test]
fn inserts_of_one_pattern() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a", "a", "a"], &["a"]);
        world.run(vec![does(|w| w.add(0)), does(|w| w.add(1)), does(|w| w.add(2)), does(|w| w.look())]);
    });
}

#[test]
fn inserts_of_patterns_that_meet_in_a_slot() {
    // Four slots: the runs of three patterns overlap, and the third makes the table grow.
    check(|| {
        let world = World::new(Dialect::Nats, &["a", "b", "c"], &["a", "b", "c"]);
        world.run(vec![does(|w| w.add(0)), does(|w| w.add(1)), does(|w| w.add(2)), does(|w| w.look())]);
    });
}

#[test]
fn insert_and_remove_of_one_pattern() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a", "a", "a"], &["a"]);
        world.add(2);
        world.run(vec![
            does(|w| swap(w, 0)),
            does(|w| swap(w, 1)),
            does(|w| w.remove(2)),
            does(|w| w.look()),
        ]);
    });
}

#[test]
fn a_combination_that_never_was_is_not_seen() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a.b", "a.*", "*.b", ">"], &["a.b"]);
        let writer = |w: &World| {
            w.add(0);
            w.add(1);
            w.remove(0);
            w.add(2);
            w.remove(1);
        };
        world.run(vec![does(writer), does(|w| w.look()), does(|w| w.look()), does(|w| w.add(3))]);
    });
}

#[test]
fn batches_caches_and_interest() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a.b", "a.*", "a.c", ">"], &["a.b", "a.c"]);
        let writer = |w: &World| {
            w.add(0);
            w.add(1);
            w.remove(0);
            w.remove(1);
        };
        let cached = |w: &World| {
            let mut cache = Cache::new(4);
            w.look_in_cache(&mut cache);
            w.generation();
            w.look_in_cache(&mut cache);
        };
        world.run(vec![
            does(writer),
            does(|w| w.look_in_batch(&mut Batch::new())),
            does(cached),
            does(|w| w.interest()),
        ]);
    });
}

#[test]
fn lengths_and_generations() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a", "b.*", "c"], &["a"]);
        let counts = |w: &World| {
            w.len();
            w.generation();
            w.generation();
            w.len();
        };
        world.run(vec![does(|w| swap(w, 0)), does(|w| swap(w, 1)), does(counts)]);
    });
}

#[test]
fn growing_under_writes_and_lookups() {
    check(|| {
        let patterns = &["a", "b", "c", "d", "e", "f"];
        let world = World::new(Dialect::Nats, patterns, &["a", "b"]);
        world.add(0);
        world.add(1);
        let first = |w: &World| {
            w.add(2);
            w.remove(0);
            w.add(3);
        };
        let second = |w: &World| {
            w.add(4);
            w.remove(1);
            w.add(5);
        };
        world.run(vec![does(first), does(second), does(|w| w.look())]);
    });
}

#[test]
fn shrinking_and_cleaning_under_writes_and_lookups() {
    check(|| {
        let patterns = &["a", "b", "c", "d", "e", "f", "g", "a", "b"];
        let world = World::new(Dialect::Nats, patterns, &["a", "b"]);
        (0..7).for_each(|value| world.add(value));
        let first = |w: &World| {
            (2..7).for_each(|value| w.remove(value));
            w.remove(0);
        };
        let second = |w: &World| {
            w.add(7);
            w.remove(1);
            w.add(8);
        };
        world.run(vec![does(first), does(second), does(|w| w.look())]);
    });
}

#[test]
fn late_helpers_bring_nothing_back() {
    // Removals follow a move at once, while helpers of the move are still at work.
    check(|| {
        let patterns = &["a", "b", "c", "d", "a", "b"];
        let world = World::new(Dialect::Nats, patterns, &["a", "b"]);
        world.add(0);
        world.add(1);
        let first = |w: &World| {
            w.add(2);
            w.remove(0);
            w.add(4);
            w.remove(4);
        };
        let second = |w: &World| {
            w.add(3);
            w.remove(1);
            w.add(5);
            w.remove(5);
        };
        world.run(vec![does(first), does(second), does(|w| swap_many(w)), does(|w| w.look())]);
    });
}

/// Moves more without a trace in the history: its patterns match no subject of the model that uses it.
fn swap_many(world: &World) {
    let text = |index: usize| Pattern::parse(Dialect::Nats, format!("m{index}"), &Limits::default());
    for index in 0..3 {
        let pattern = text(index).expect("a valid pattern");
        let added = world.space.subscribe(&pattern, 31).expect("below the limit");
        assert!(world.space.unsubscribe(added));
    }
}

#[test]
fn a_late_lookup_over_several_moves() {
    check(|| {
        let patterns = &["a.b", "a.*", "c.b", "d.b", "e.b", "f.b", "g.b", "h.b", "i.b", "j.b"];
        let world = World::new(Dialect::Nats, patterns, &["a.b"]);
        // A lookup probes the shape of the second first, and sleeps there while the table of the first moves
        // twice.
        world.add(1);
        world.add(0);
        let writer = |w: &World| {
            w.remove(1);
            w.remove(0);
            (2..10).for_each(|value| w.add(value));
        };
        world.run(vec![does(writer), does(|w| w.look()), does(|w| w.look())]);
    });
}

#[test]
fn snapshots_under_writes() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a", "b", "c", "a", "b"], &["a", "b"]);
        world.add(0);
        world.add(1);
        let writer = |w: &World| {
            w.remove(0);
            w.add(3);
            w.remove(3);
        };
        let other = |w: &World| {
            w.remove(1);
            w.add(2);
            w.add(4);
        };
        world.run(vec![
            does(writer),
            does(other),
            does(|w| w.snapshot(|| {})),
            does(|w| w.snapshot(|| w.snapshot(|| {}))),
        ]);
    });
}

#[test]
fn histories_are_kept_and_trimmed() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a", "a", "a", "b"], &["a"]);
        world.add(0);
        let writer = |w: &World| {
            w.add(1);
            w.remove(0);
            w.remove(1);
            w.add(2);
        };
        let watcher = |w: &World| {
            w.snapshot(|| w.snapshot(|| {}));
            w.snapshot(|| {});
        };
        world.run(vec![does(writer), does(watcher), does(|w| swap(w, 3))]);
    });
}

#[test]
fn the_root_of_the_overflow() {
    check(|| {
        let world = World::new(Dialect::Amqp, &["a.#.b", "a.b", "#.b", "a.#.c"], &["a.b"]);
        let writer = |w: &World| {
            w.add(0);
            w.add(1);
            w.remove(0);
        };
        world.run(vec![
            does(writer),
            does(|w| swap(w, 2)),
            does(|w| w.look()),
            does(|w| w.snapshot(|| w.add(3))),
        ]);
    });
}

#[test]
fn shapes_are_made_once() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a.*", "*.b", "a.*", ">"], &["a.b"]);
        world.run(vec![
            does(|w| swap(w, 0)),
            does(|w| w.add(1)),
            does(|w| swap(w, 2)),
            does(|w| w.add(3)),
            does(|w| w.look()),
        ]);
    });
}

/// A pattern whose shape is the number's bits, and which matches no subject of a model.
fn filler(index: usize) -> Pattern {
    let words: Vec<_> = (0..8).map(|bit| if index >> bit & 1 == 1 { "*" } else { "w" }).collect();
    Pattern::parse(Dialect::Nats, words.join("."), &Limits::default()).expect("a valid pattern")
}

/// Fills the directory except for `room` shapes.
fn fill(space: &TupleSpace<u32>, room: usize) {
    (0..SHAPES_MAX - room).for_each(|index| space.subscribe(&filler(index), 31).expect("room").forget());
}

/// Like [`World::run`], without the checks that would count the fillers.
fn run_full(world: &Arc<World>, threads: Vec<Thread>) {
    let started = threads.into_iter().map(|thread| {
        let world = world.clone();
        shuttle::thread::spawn(move || thread(&world))
    });
    let started: Vec<_> = started.collect();
    started.into_iter().for_each(|thread| thread.join().expect("a thread of the model"));
    world.look();
    world.judge();
}

#[test]
fn shapes_are_retired_and_come_back() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a.*", "*.b", "a.*", ">"], &["a.b"]);
        fill(&world.space, 1);
        world.add(0);
        let first = |w: &World| {
            w.remove(0);
            w.add(1);
            w.remove(1);
        };
        let second = |w: &World| {
            w.add(2);
            w.remove(2);
            w.add(3);
        };
        run_full(&world, vec![does(first), does(second), does(|w| w.look())]);
    });
}

#[test]
fn the_overflow_has_room_for_one_of_two_shapes() {
    check(|| {
        let limits = Limits { overflow_words_max: 3, ..Limits::default() };
        let space = Arc::new(TupleSpace::<u32>::with_limits(Dialect::Amqp, limits));
        let threads = ["a.#.b", "#.a.b", "c.#.d"].map(|text| {
            let space = space.clone();
            shuttle::thread::spawn(move || {
                let pattern = Pattern::parse(Dialect::Amqp, text, &Limits::default()).expect("valid");
                match space.subscribe(&pattern, 0) {
                    Ok(subscription) => {
                        assert!(
                            space
                                .has_interest(&text.replace(".#", "").replace("#.", "").into_bytes())
                                .expect("valid")
                        );
                        assert!(space.unsubscribe(subscription));
                        true
                    }
                    Err(SubscribeError::TooManyShapes { words_max: 3 }) => false,
                    Err(error) => panic!("{error}"),
                }
            })
        });
        let taken = threads.map(|thread| thread.join().expect("a thread"));
        assert!(taken[1] || (taken[0] && taken[2]), "{taken:?}");
        assert!(space.is_empty());
        let pattern = Pattern::parse(Dialect::Amqp, "#.z", &Limits::default()).expect("valid");
        space.subscribe(&pattern, 0).expect("what has gone leaves room").forget();
    });
}

#[test]
fn a_clock_parts_writes_from_looks() {
    check(|| {
        let clock = Arc::new(Clock::new());
        let looker = {
            let clock = clock.clone();
            shuttle::thread::spawn(move || {
                let seen = clock.look();
                assert!(clock.stamp() > seen, "a stamp after a look is newer");
                let certain = clock.certain();
                assert!(certain >= seen && clock.look() >= certain);
                seen
            })
        };
        let stamper = {
            let clock = clock.clone();
            shuttle::thread::spawn(move || {
                let stamp = clock.stamp();
                assert!(clock.look() >= stamp, "a look after a stamp covers it");
                assert!(clock.stamp() > stamp);
            })
        };
        let seen = looker.join().expect("a looker");
        stamper.join().expect("a stamper");
        assert!(clock.certain() >= seen);
    });
}

#[test]
fn nobody_is_refused_while_there_is_room() {
    // Three threads need at most three places: whatever moves between counters, they never reach a limit of
    // 64.
    check(|| {
        let counts = Arc::new(Counts::new(64));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let counts = counts.clone();
                shuttle::thread::spawn(move || {
                    for _ in 0..3 {
                        assert!(counts.reserve(), "there are 61 places at least");
                        counts.release();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
    });
}

#[test]
fn the_limit_holds_under_a_race() {
    check(|| {
        let limits = Limits { subscriptions_max: 2, ..Limits::default() };
        let space = Arc::new(TupleSpace::<u32>::with_limits(Dialect::Nats, limits));
        let threads: Vec<_> = (0..3)
            .map(|value| {
                let space = space.clone();
                shuttle::thread::spawn(move || {
                    let pattern = Pattern::parse(Dialect::Nats, "a", &Limits::default()).expect("valid");
                    match space.subscribe(&pattern, value) {
                        Ok(subscription) => {
                            assert!(space.len() <= 2);
                            subscription.forget();
                            1
                        }
                        Err(SubscribeError::TooManySubscriptions { .. }) => 0,
                        Err(error) => panic!("{error}"),
                    }
                })
            })
            .collect();
        let added: usize = threads.into_iter().map(|thread| thread.join().expect("a thread")).sum();
        assert_eq!((added, space.len()), (2, 2));
    });
}
