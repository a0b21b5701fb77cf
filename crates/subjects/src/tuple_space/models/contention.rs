//! Small models in which the exchanges of moving, removing, trimming and of snapshots meet at one word.
//! `cargo xtask prove subjects` counts which exchanges have succeeded, which have failed, and because of
//! which others.

use super::runs::{World, check, does, swap};
use crate::Dialect;

#[test]
fn a_leaf_is_moved_while_its_pattern_changes() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a", "a"], &["a"]);
        world.add(0);
        world.run(vec![does(|w| w.remove(0)), does(|w| w.add(1)), does(|w| w.carry(0))]);
    });
}

#[test]
fn a_removed_leaf_is_moved_while_it_is_buried() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a", "a"], &["a"]);
        world.add(0);
        let snapshot = world.space.snapshot();
        world.remove(0);
        world.run(vec![
            does(move |_| drop(snapshot)),
            does(|w| w.trim(0)),
            does(|w| w.carry(0)),
            does(|w| swap(w, 1)),
        ]);
    });
}

#[test]
fn a_leaf_is_moved_by_several() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a", "a"], &["a"]);
        world.add(0);
        world.run(vec![does(|w| w.carry(0)), does(|w| w.carry(0)), does(|w| w.remove(0))]);
    });
}

#[test]
fn a_writer_that_comes_late_meets_a_mover() {
    let move_later = |w: &World| {
        w.pause();
        w.move_run(0);
    };
    check(move || {
        let world = World::new(Dialect::Nats, &["a", "a"], &["a"]);
        world.add(0);
        world.grow();
        world.run(vec![does(|w| w.add_late(1)), does(move_later)]);
    });
    check(move || {
        let world = World::new(Dialect::Nats, &["a"], &["a"]);
        world.add(0);
        world.grow();
        world.run(vec![does(|w| w.remove_late(0)), does(move_later)]);
    });
}

#[test]
fn an_empty_slot_ends_while_it_is_taken() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a", "b"], &["a"]);
        world.add(1);
        world.grow();
        let mover = |w: &World| {
            w.pause();
            w.move_run(0);
        };
        world.run(vec![does(|w| w.add_late(0)), does(mover)]);
    });
}

/// Patterns of which nearly always two are as the model below needs them.
const TWELVE: &[&str] = &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

#[test]
fn a_leaf_is_moved_where_another_one_is_added() {
    // Two patterns whose runs are apart in a table of eight slots and meet in one of four.
    check(|| {
        let world = World::new(Dialect::Nats, TWELVE, &["a"]);
        let Some((moved, comes)) = world.pair(|a, b| a >> 61 & 1 == 0 && a >> 61 ^ 1 == b >> 61) else {
            return;
        };
        world.add(moved);
        world.grow();
        world.grow();
        (0..6).for_each(|_| world.trim(moved));
        world.grow();
        world.move_run(comes);
        let mover = move |w: &World| {
            w.pause();
            w.move_run(moved);
        };
        world.run(vec![does(move |w| w.add_next(comes)), does(mover)]);
    });
}

#[test]
fn a_leaf_is_moved_where_the_next_move_has_begun() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a"], &["a"]);
        world.add(0);
        world.grow();
        let mover = |w: &World| {
            w.pause();
            w.move_run(0);
        };
        world.run(vec![does(mover), does(|w| w.carry_on(0))]);
    });
}

#[test]
fn a_mark_is_moved_by_several() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a", "a"], &["a"]);
        swap(&world, 0);
        world.run(vec![does(|w| w.carry(0)), does(|w| w.carry(0)), does(|w| w.add(1))]);
    });
}

#[test]
fn histories_are_trimmed_by_several() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a", "a", "a"], &["a"]);
        world.add(0);
        let snapshot = world.space.snapshot();
        world.add(1);
        world.run(vec![
            does(move |_| drop(snapshot)),
            does(|w| w.trim(0)),
            does(|w| w.trim(0)),
            does(|w| w.snapshot(|| w.remove(0))),
        ]);
    });
}

#[test]
fn a_stamp_is_decided_while_snapshots_come() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a", "a"], &["a"]);
        world.add(0);
        world.run(vec![
            does(|w| w.add(1)),
            does(|w| w.snapshot(|| {})),
            does(|w| w.snapshot(|| {})),
            does(|w| w.look()),
        ]);
    });
}

#[test]
fn seats_are_taken_and_left() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a"], &["a"]);
        world.snapshot(|| {});
        world.run(vec![
            does(|w| w.snapshot(|| {})),
            does(|w| w.snapshot(|| {})),
            does(|w| w.snapshot(|| {})),
            does(|w| swap(w, 0)),
        ]);
    });
}

#[test]
fn a_shape_is_retired_while_its_pattern_comes_back() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a", "a", "a.*"], &["a"]);
        swap(&world, 0);
        world.run(vec![does(|w| w.retire()), does(|w| w.retire()), does(|w| w.add(1)), does(|w| w.look())]);
    });
}
