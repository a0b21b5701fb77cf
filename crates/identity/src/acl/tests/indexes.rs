//! The two indexes by themselves, against plain lists.

use std::collections::BTreeMap;

use super::super::patterns::Patterns;
use super::super::radix::Radix;
use super::*;
use crate::rules::{Wild, collide, matches};

fn any_text(random: &mut Random, letters: &[&str], length_max: usize, between: &str) -> String {
    let length = 1 + random.below(length_max);
    let words: Vec<_> = (0..length).map(|_| *random.pick(letters)).collect();
    words.join(between)
}

#[test]
fn a_radix_tree_is_a_sorted_map_that_finds_prefixes() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let (mut tree, mut map) = (Radix::default(), BTreeMap::new());
        for step in 0..200 {
            let key =
                if random.below(20) == 0 { String::new() } else { any_text(&mut random, &["a", "b"], 6, "") };
            let value = (random.below(2) == 0).then_some(step);
            let (copy, before) = (tree.clone(), map.clone());
            let old = tree.change(key.as_bytes(), |place| std::mem::replace(place, value));
            let expected = match value {
                Some(value) => map.insert(key.clone(), value),
                None => map.remove(&key),
            };
            assert_eq!(old, expected, "seed {seed}, step {step}");
            assert!(tree.values().eq(map.values()) && copy.values().eq(before.values()));
            assert_eq!(tree.is_empty(), map.is_empty());
            let text = any_text(&mut random, &["a", "b"], 8, "");
            let found: Vec<_> =
                tree.prefixes(text.as_bytes()).map(|(bytes, value)| (bytes, *value)).collect();
            let prefixes = map.iter().filter(|(key, _)| text.starts_with(key.as_str()));
            let expected: Vec<_> = prefixes.map(|(key, value)| (key.len(), *value)).collect();
            assert_eq!(found, expected, "seed {seed}, step {step}: {text} {map:?}");
            assert_eq!(tree.get(text.as_bytes()), map.get(&text));
        }
        let mut fresh = Radix::default();
        for (key, value) in &map {
            fresh.change(key.as_bytes(), |place| *place = Some(*value));
        }
        assert_eq!(format!("{tree:?}"), format!("{fresh:?}"), "seed {seed}: nodes were left over");
    }
}

#[test]
fn a_tree_of_patterns_finds_what_a_list_finds() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let (mut tree, mut map) = (Patterns::default(), BTreeMap::new());
        for step in 0..150 {
            let mut pattern = any_text(&mut random, &["a", "b", "*"], 3, ".");
            if random.below(3) == 0 {
                pattern = if random.below(3) == 0 { ">".to_owned() } else { format!("{pattern}.>") };
            }
            let value = (random.below(5) > 1).then_some(step);
            tree.change(pattern.as_bytes(), |place| *place = value);
            match value {
                Some(value) => map.insert(pattern, value),
                None => map.remove(&pattern),
            };
            assert_eq!(tree.is_empty(), map.is_empty());
            let text = any_text(&mut random, &["a", "b", "*", ">", "a", ""], 4, ".");
            let expected = |is_met: &dyn Fn(&[u8]) -> bool| {
                let found = map.iter().filter(|(key, _)| is_met(key.as_bytes()));
                sorted(found.map(|(_, value)| *value).collect())
            };
            for wild in [Wild::Literal, Wild::Everything] {
                let mut found = Vec::new();
                tree.find_matching(text.as_bytes(), wild, |value| push(&mut found, *value));
                let expected = expected(&|key| matches(key, text.as_bytes(), wild));
                assert_eq!(sorted(found), expected, "{text} {wild:?} {map:?}");
            }
            let mut found = Vec::new();
            tree.find(|value| push(&mut found, *value));
            assert_eq!(sorted(found), expected(&|_| true));
            // Only the last word of a pattern may be the wildcard for everything.
            let pattern = text.replace(">.", "b.");
            let mut found = Vec::new();
            tree.find_colliding(pattern.as_bytes(), |value| push(&mut found, *value));
            let expected = expected(&|key| collide(key, pattern.as_bytes()));
            assert_eq!(sorted(found), expected, "{pattern} {map:?}");
        }
    }
}

/// Collects a value, and has the search go on.
fn push(found: &mut Vec<usize>, value: usize) -> Option<()> {
    found.push(value);
    None
}

fn sorted(mut values: Vec<usize>) -> Vec<usize> {
    values.sort_unstable();
    values
}

/// As deep as trees get, on half of the stack that threads and the simulator's fibers have.
#[test]
fn the_longest_names_fit_on_a_small_stack() {
    let work = || {
        let mut acls = Acls::default();
        for bytes in 1..=1024 {
            let name = "n".repeat(bytes);
            acls.insert(acl(&format!("topic:{name}* User:a allow read"))).unwrap();
            acls.insert(acl(&format!("topic:t User:{} allow read", &name[..bytes.min(1019)]))).unwrap();
        }
        for words in 1..=256 {
            let subject = vec!["*"; words].join(".");
            acls.insert(acl(&format!("subject:{subject} User:a deny read"))).unwrap();
            acls.insert(acl(&format!("subject:{} User:a allow read", subject.replace('*', "x")))).unwrap();
        }
        let copy = acls.clone();
        let authorizer = Authorizer::new(acls, SuperUsers::default(), false, 1);
        let name = "n".repeat(32_767);
        assert!(authorizer.decide(&who("a"), Operation::Read, ResourceKind::Topic, &name).allowed);
        assert!(!authorizer.decide(&who("b"), Operation::Read, ResourceKind::Topic, &name).allowed);
        let subject = vec!["x"; 256].join(".");
        let bindings = [&*subject, ">"];
        let topic = TopicSubjects { name: "t", bindings: &bindings };
        assert!(!authorizer.topic_by_kafka(&who("a"), Operation::Read, topic).allowed);
        let long = vec!["x"; 16_000].join(".");
        let wanted = SubjectUse { access: Access::Read, subject: long.as_bytes(), queue: None };
        assert_eq!(authorizer.subject_by_nats(&who("a"), wanted, [topic]).access, SubjectAccess::Refused);
        drop(authorizer);
        let rules: Vec<_> = copy.iter().cloned().collect();
        let mut acls = copy;
        assert!(rules.iter().all(|rule| acls.remove(rule)) && acls.is_empty());
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(work).unwrap().join().unwrap();
}
