//! Mappings of subjects, against a naive one.

use proptest::prelude::*;

use super::super::pattern::meet;
use super::super::*;
use crate::rules::{collide, covers};

fn map(source: &str, destination: &str, subject: &str) -> Option<String> {
    let mapping = SubjectMapping::new(source, destination).unwrap();
    let mapped = mapping.map(subject.as_bytes()).map(|mapped| String::from_utf8(mapped).unwrap());
    if let Some(mapped) = &mapped {
        assert_eq!(mapping.unmap(mapped.as_bytes()).unwrap(), subject.as_bytes(), "{mapped}");
        assert_eq!(mapping.inverse().map(mapped.as_bytes()).unwrap(), subject.as_bytes(), "{mapped}");
    }
    mapped
}

#[test]
fn wildcards_are_carried_over() {
    for (source, destination, subject, expected) in [
        ("a", "b", "a", Some("b")),
        ("a", "b", "c", None),
        ("a.*", "b.*", "a.x", Some("b.x")),
        ("a.*", "b.$1.c", "a.x", Some("b.x.c")),
        ("a.*", "b.{{wildcard(1)}}", "a.x", Some("b.x")),
        ("a.*.*", "b.$2.$1", "a.x.y", Some("b.y.x")),
        ("a.*.*", "b.$2.*", "a.x.y", Some("b.y.x")),
        ("*.*.*", "$3.$1.$2", "x.y.z", Some("z.x.y")),
        ("a.>", "b.c.>", "a.x.y", Some("b.c.x.y")),
        (">", "from.>", "x.y", Some("from.x.y")),
        ("a.*.>", "$1.b.>", "a.x.y.z", Some("x.b.y.z")),
        ("a.*", "b.*", "a.x.y", None),
        ("a.*", "b.*", "a", None),
        ("a.>", "b.>", "a", None),
        ("a.*", "b.*", "a.", None),
        ("a.>", "b.>", "a..x", None),
        // Patterns of subscriptions that are not wider.
        ("a.*", "b.*", "a.*", Some("b.*")),
        ("a.>", "b.>", "a.*.c", Some("b.*.c")),
        ("a.>", "b.>", "a.>", Some("b.>")),
        ("a.*", "b.*", "a.>", None),
        // Not a number: a word.
        ("a", "$x", "a", Some("$x")),
        ("a", "$SYS.b", "a", Some("$SYS.b")),
    ] {
        assert_eq!(
            map(source, destination, subject).as_deref(),
            expected,
            "{source} {destination} {subject}"
        );
    }
}

#[test]
fn mappings_that_cannot_be_undone_are_refused() {
    for (source, destination) in [
        ("a.*", "b"),
        ("a", "b.*"),
        ("a.*", "b.*.*"),
        ("a.*.*", "b.*"),
        ("a.*.*", "b.$1.$1"),
        ("a.*", "b.$0"),
        ("a.*", "b.$2"),
        ("a.*", "b.$99999999999999999999999"),
        ("a.>", "b"),
        ("a.>", "b.*"),
        ("a", "b.>"),
        ("a..b", "c"),
        ("a", ""),
        ("", "a"),
        ("a", "b c"),
        ("a.>.b", "c"),
        ("a.*", "{{partition(3,1)}}"),
        ("a.*", "{{wildcard(x)}}"),
    ] {
        assert!(SubjectMapping::new(source, destination).is_err(), "{source} {destination}");
    }
    let long = "a".repeat(1_025);
    assert!(SubjectMapping::new(&long, "b").is_err() && SubjectMapping::new("b", &long).is_err());
    assert!(SubjectMapping::new(&vec!["a"; 65].join("."), "b").is_err());
    assert!(SubjectMapping::new(&vec!["a"; 64].join("."), "b").is_ok());
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![Just("a".to_owned()), Just("b".to_owned()), Just("*".to_owned())]
}

fn pattern() -> impl Strategy<Value = String> {
    (prop::collection::vec(word(), 1..4), any::<bool>()).prop_map(|(mut words, open)| {
        if open {
            words.push(">".to_owned());
        }
        words.join(".")
    })
}

fn subject() -> impl Strategy<Value = String> {
    let word = prop_oneof![Just("a"), Just("b"), Just("c")];
    prop::collection::vec(word, 1..6).prop_map(|words| words.join("."))
}

/// Maps word by word, for a source with wildcards of one word only, named in the destination.
fn naive(source: &str, destination: &str, subject: &str) -> Option<String> {
    let (source, words): (Vec<_>, Vec<_>) = (source.split('.').collect(), subject.split('.').collect());
    if source.len() != words.len() || source.iter().zip(&words).any(|(a, b)| *a != "*" && a != b) {
        return None;
    }
    let values: Vec<_> = source.iter().zip(&words).filter(|(a, _)| **a == "*").map(|(_, b)| *b).collect();
    let mut mapped = destination.to_owned();
    for (at, value) in values.iter().enumerate() {
        mapped = mapped.replace(&format!("${}", at + 1), value);
    }
    Some(mapped)
}

proptest! {
    #[test]
    fn a_mapping_does_what_a_naive_one_does(
        source in prop::collection::vec(word(), 1..5),
        seed in any::<u64>(),
        subject in subject(),
    ) {
        let stars = source.iter().filter(|word| *word == "*").count();
        let mut places: Vec<_> = (1..=stars).map(|at| format!("${at}")).collect();
        if stars > 1 {
            places.rotate_left(usize::try_from(seed).unwrap_or(1) % stars);
        }
        places.push("z".to_owned());
        let (source, destination) = (source.join("."), places.join("."));
        prop_assert_eq!(map(&source, &destination, &subject), naive(&source, &destination, &subject));
    }

    #[test]
    fn the_meet_of_two_patterns_matches_what_both_match(
        left in pattern(), right in pattern(), subject in subject(),
    ) {
        let met = meet(left.as_bytes(), right.as_bytes());
        prop_assert_eq!(met.is_some(), collide(left.as_bytes(), right.as_bytes()));
        let both = covers(left.as_bytes(), subject.as_bytes()) && covers(right.as_bytes(), subject.as_bytes());
        prop_assert_eq!(met.is_some_and(|met| covers(&met, subject.as_bytes())), both);
    }
}
