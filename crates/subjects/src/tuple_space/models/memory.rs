//! The freeing of memory while tables are moved: nothing is freed twice or too early, and nothing is kept.
//! Every model checks that. The models here are made for it, with chains of tables that are longer than
//! usual.

use super::super::TupleSpace;
use super::super::epoch;
use super::super::table::{Buried, Seek};
use super::super::words::ShapeKey;
use super::runs::{World, check, does, play};
use crate::{Dialect, Limits, Pattern};

const KEY: ShapeKey = ShapeKey { prefix: 1, stars: 0, tail: false };

#[test]
fn a_removed_leaf_that_lies_in_two_tables() {
    play(|| {
        let space = TupleSpace::<u32>::new(Dialect::Nats);
        let (inner, core) = (&space.inner, &space.inner.core);
        let pattern = Pattern::parse(Dialect::Nats, "a", &Limits::default()).expect("a valid pattern");
        let hash = core.hasher.hash(Dialect::Nats, b"a");
        let held = space.subscribe(&pattern, 1).expect("below the limit");
        let mut snapshot = Some(space.snapshot());
        assert!(space.unsubscribe(held));
        core.tidy(|_| {
            let guard = epoch::pin();
            let first = inner.directory(&guard).get(KEY).expect("its shape").head(&guard);
            // A trim has found the removed leaf in its table.
            let Seek::Found(index, word, leaf) = first.seek(core, hash, |_| true, &guard) else {
                panic!("a removed leaf with history");
            };
            // That table is being moved, and the thread that moves the leaf stops before the slot says so.
            first.begin_migration();
            assert!(first.begin_to_move(core, hash, &guard));
            let second = first.successor(&guard).expect("the table that it is moved into");
            // The trim goes on, without effect on the slot.
            drop(snapshot.take());
            assert!(core.trim(leaf, &guard));
            assert!(first.bury(index, word, leaf, &guard) == Buried::Elsewhere);
            // The second table is moved, too, while the first is not empty yet.
            second.begin_migration();
            second.migrate_run(core, hash, &guard);
            drop(guard);
            // The next thread helps to move the first.
            let guard = epoch::pin();
            inner.directory(&guard).get(KEY).expect("its shape").trim(core, hash, &guard)
        });
        let mut found = Vec::new();
        space.matches(b"a", &mut found).expect("a valid subject");
        assert_eq!((found.len(), space.len()), (0, 0));
        let again = space.subscribe(&pattern, 2).expect("below the limit");
        assert!(space.unsubscribe(again));
    });
}

#[test]
fn a_mover_that_stops_in_the_first_of_three_tables() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a", "a"], &["a"]);
        world.add(0);
        let snapshot = world.space.snapshot();
        world.remove(0);
        world.grow();
        world.run(vec![
            does(|w| w.move_slowly(0)),
            does(|w| w.carry_on(0)),
            does(move |w| w.drop_late(snapshot, 0)),
            does(|w| w.carry_on(0)),
        ]);
    });
}

#[test]
fn chains_of_three_tables_with_histories() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a", "b", "a", "c"], &["a", "b"]);
        world.add(0);
        let snapshot = world.space.snapshot();
        world.remove(0);
        let second = |w: &World| {
            w.grow();
            w.add(1);
        };
        let third = |w: &World| {
            w.grow();
            w.add(3);
            w.grow();
        };
        world.run(vec![does(move |_| drop(snapshot)), does(second), does(third), does(|w| w.look())]);
    });
}

#[test]
fn chains_of_three_tables_with_removals() {
    check(|| {
        let world = World::new(Dialect::Nats, &["a", "b", "a", "b"], &["a", "b"]);
        world.add(0);
        world.add(1);
        let first = |w: &World| {
            w.grow();
            w.remove(0);
            w.add(2);
        };
        let second = |w: &World| {
            w.grow();
            w.remove(1);
            w.snapshot(|| w.add(3));
        };
        let third = |w: &World| {
            w.grow();
            w.look();
            w.grow();
        };
        world.run(vec![does(first), does(second), does(third)]);
    });
}
