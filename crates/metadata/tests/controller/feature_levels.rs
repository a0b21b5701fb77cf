//! Feature levels: those of a new data folder, the permitted changes, and refused updates, which change
//! nothing.

use std::collections::BTreeMap;

use tailrace_metadata::*;

use FeatureDirection::{SafeDowngrade, UnsafeDowngrade, Upgrade};

fn controller() -> Controller {
    let mut controller = Controller::new(BTreeMap::new()).expect("legal");
    run(&mut controller, &Command::FinalizeFeatures).expect("a new folder");
    controller
}

fn run(controller: &mut Controller, command: &Command) -> Result<usize, ControlError> {
    let records = controller.plan(command)?;
    for record in &records {
        controller.apply(record).expect("planned records apply");
    }
    Ok(records.len())
}

fn update(updates: &[(&str, i16, FeatureDirection)]) -> Command {
    let one = |&(name, level, direction): &(&str, i16, FeatureDirection)| FeatureUpdate {
        name: name.to_owned(),
        level,
        direction,
    };
    Command::UpdateFeatures(updates.iter().map(one).collect())
}

const NEWEST: [(&str, i16); 5] = [
    ("eligible.leader.replicas.version", 1),
    ("group.version", 1),
    ("metadata.version", 30),
    ("share.version", 1),
    ("transaction.version", 2),
];

#[test]
fn a_new_folder_has_the_newest_levels_and_an_old_one_those_of_its_time() {
    let new = controller().image();
    assert_eq!((new.features().iter().collect::<Vec<_>>(), new.features().epoch()), (NEWEST.to_vec(), 1));
    let old = Controller::new(BTreeMap::new()).expect("legal").image();
    assert_eq!((old.features().iter().collect::<Vec<_>>(), old.features().epoch()), (NEWEST.to_vec(), 0));
    assert_eq!(new.features().level(Feature::Kraft), 0);
}

#[test]
fn levels_go_down_and_up_again_and_each_change_has_an_epoch() {
    let mut controller = controller();
    let down = update(&[("transaction.version", 1, SafeDowngrade), ("share.version", 0, SafeDowngrade)]);
    assert_eq!(run(&mut controller, &down), Ok(1));
    let image = controller.image();
    assert_eq!(image.features().level(Feature::Transaction), 1);
    assert_eq!(image.features().level(Feature::Share), 0);
    assert!(image.features().iter().all(|(name, _)| name != "share.version"), "level 0 is not in force");
    assert_eq!(image.features().epoch(), 2);
    assert_eq!(run(&mut controller, &update(&[("share.version", 1, Upgrade)])), Ok(1));
    assert_eq!(run(&mut controller, &update(&[("share.version", 1, Upgrade)])), Ok(0), "no change");
    assert_eq!(controller.image().features().epoch(), 3);

    let mut replayed = Controller::new(BTreeMap::new()).expect("legal");
    for record in controller.snapshot_records() {
        replayed.apply(&record).expect("was applied before");
    }
    assert_eq!(replayed.image(), controller.image());
}

#[test]
fn what_is_refused_changes_nothing() {
    let mut controller = controller();
    run(&mut controller, &update(&[("transaction.version", 1, SafeDowngrade)])).unwrap();
    let before = controller.image();
    for (name, level, direction, words) in [
        (
            "nope",
            1,
            Upgrade,
            "Invalid update version 1 for feature nope. tailrace does not support this feature.",
        ),
        ("streams.version", 1, Upgrade, "does not support this feature"),
        (
            "group.version",
            2,
            Upgrade,
            "Invalid update version 2 for feature group.version. tailrace supports the versions 0 to 1.",
        ),
        ("group.version", -1, SafeDowngrade, "supports the versions 0 to 1"),
        (
            "group.version",
            0,
            Upgrade,
            "Can't downgrade the version of feature group.version without setting the upgrade type",
        ),
        ("transaction.version", 2, SafeDowngrade, "Can't downgrade to a newer version"),
        ("group.version", 0, UnsafeDowngrade, "Unsafe downgrades are not supported"),
        ("metadata.version", 29, SafeDowngrade, "In tailrace it is always at 30"),
        ("metadata.version", 31, Upgrade, "supports the versions 7 to 30"),
        ("kraft.version", 1, Upgrade, "there is no quorum of Kafka's controllers"),
    ] {
        // Other updates in a refused request are not carried out either.
        let both = update(&[("share.version", 0, SafeDowngrade), (name, level, direction)]);
        let error = run(&mut controller, &both).unwrap_err().to_string();
        assert!(error.contains(words), "{name} {level}: {error}");
    }
    let twice = update(&[("share.version", 0, SafeDowngrade), ("share.version", 0, SafeDowngrade)]);
    assert_eq!(
        run(&mut controller, &twice).unwrap_err().to_string(),
        "Feature share.version appears more than once."
    );
    assert_eq!(before, controller.image());
}
