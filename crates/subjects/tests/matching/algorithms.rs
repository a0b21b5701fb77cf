//! Every algorithm and dialect against the reference, on short texts over tiny alphabets, where the twenty
//! rules show up.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up fails")]

use crate::any::AnyMatcher;
use crate::every::every;
use crate::reference;
use proptest::prelude::*;
use tailrace_subjects::{Dialect, Limits, Pattern, Subject};

/// One call, with all its arguments.
#[derive(Clone, Debug)]
enum Step {
    Subscribe(String),
    /// Removes the live subscription at this index, modulo their number.
    Unsubscribe(usize),
    Find(String),
}

fn word(dialect: Dialect) -> impl Strategy<Value = String> {
    let one = char::from(dialect.one()).to_string();
    let many = char::from(dialect.many()).to_string();
    let odd = vec![String::new(), "$a".into(), format!("a{one}"), format!("{many}{many}"), "é".into()];
    prop_oneof![
        5 => Just("a".to_owned()),
        3 => Just("b".to_owned()),
        3 => Just(one),
        3 => Just(many),
        2 => prop::sample::select(odd),
    ]
}

fn text(dialect: Dialect) -> impl Strategy<Value = String> {
    let separator = char::from(dialect.separator()).to_string();
    prop::collection::vec(word(dialect), 0..7).prop_map(move |words| words.join(&separator))
}

fn step(dialect: Dialect) -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => text(dialect).prop_map(Step::Subscribe),
        2 => any::<usize>().prop_map(Step::Unsubscribe),
        4 => text(dialect).prop_map(Step::Find),
    ]
}

fn history() -> impl Strategy<Value = (Dialect, Vec<Step>)> {
    prop::sample::select(Dialect::ALL.to_vec())
        .prop_flat_map(|dialect| (Just(dialect), prop::collection::vec(step(dialect), 1..60)))
}

/// The reference: live subscriptions in a list.
#[derive(Default)]
struct Expected {
    live: Vec<(usize, String)>,
}

impl Expected {
    fn find(&self, dialect: Dialect, subject: &str) -> Vec<usize> {
        let hits = self.live.iter().filter(|(_, pattern)| reference::matches(dialect, pattern, subject));
        let mut found: Vec<usize> = hits.map(|(value, _)| *value).collect();
        found.sort_unstable();
        found
    }
}

/// Plays a history on one matcher and on the reference.
fn play(matcher: &dyn AnyMatcher, dialect: Dialect, steps: &[Step]) {
    let limits = Limits::default();
    let name = matcher.name();
    let mut expected = Expected::default();
    let mut handles = Vec::new();
    for (value, step) in steps.iter().enumerate() {
        match step {
            Step::Subscribe(text) => {
                let Ok(pattern) = Pattern::parse(dialect, text, &limits) else { continue };
                handles.push(matcher.subscribe(&pattern, value).unwrap());
                expected.live.push((value, text.clone()));
            }
            Step::Unsubscribe(_) if handles.is_empty() => {}
            Step::Unsubscribe(place) => {
                let place = place % handles.len();
                let handle = handles.swap_remove(place);
                expected.live.swap_remove(place);
                assert!(matcher.unsubscribe(handle) && !matcher.unsubscribe(handle), "{name}");
            }
            Step::Find(subject) if Subject::parse(dialect, subject.as_bytes(), &limits).is_err() => {
                assert!(matcher.find(subject.as_bytes()).is_err(), "{name}: {subject:?}");
            }
            Step::Find(subject) => {
                let found = matcher.find(subject.as_bytes()).unwrap();
                assert_eq!(found, expected.find(dialect, subject), "{name}: {subject:?}");
            }
        }
        assert_eq!(matcher.len(), expected.live.len(), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_algorithm_agrees_with_the_reference((dialect, steps) in history()) {
        let limits = Limits::default();
        let space: Vec<&str> = steps
            .iter()
            .filter_map(|step| match step {
                Step::Find(subject) => Some(subject.as_str()),
                _ => None,
            })
            .filter(|subject| Subject::parse(dialect, subject.as_bytes(), &limits).is_ok())
            .collect();
        for matcher in every(dialect, limits, &space) {
            play(&*matcher, dialect, &steps);
        }
    }
}

/// A small generator, so that a failure can be reproduced.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn text(&mut self, dialect: Dialect, with_wildcards: bool) -> String {
        let one = char::from(dialect.one()).to_string();
        let many = char::from(dialect.many()).to_string();
        let length = 1 + self.below(5);
        let words = (0..length).map(|at| match self.below(10) {
            0 | 1 if with_wildcards => one.clone(),
            2 if with_wildcards && (at + 1 == length || dialect.many_anywhere()) => many.clone(),
            _ => format!("w{}", self.below(40)),
        });
        words.collect::<Vec<_>>().join(&char::from(dialect.separator()).to_string())
    }
}

/// Enough subscriptions for many blocks of bitmaps and splits of nodes.
#[test]
fn every_algorithm_agrees_in_a_large_table() {
    let limits = Limits::default();
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for dialect in Dialect::ALL {
        let patterns: Vec<_> = (0..1_000).map(|_| numbers.text(dialect, true)).collect();
        let subjects: Vec<_> = (0..50).map(|_| numbers.text(dialect, false)).collect();
        let space: Vec<_> = subjects.iter().map(String::as_str).collect();
        for matcher in every(dialect, limits, &space) {
            let mut expected = Expected::default();
            let mut handles = Vec::new();
            for (value, text) in patterns.iter().enumerate() {
                handles.push(
                    matcher.subscribe(&Pattern::parse(dialect, text, &limits).unwrap(), value).unwrap(),
                );
                expected.live.push((value, text.clone()));
            }
            for left in [1_000, 400, 10] {
                while handles.len() > left {
                    let place = handles.len() * 7 / 11;
                    assert!(matcher.unsubscribe(handles.swap_remove(place)), "{}", matcher.name());
                    expected.live.swap_remove(place);
                }
                for subject in &subjects {
                    let found = matcher.find(subject.as_bytes()).unwrap();
                    assert_eq!(found, expected.find(dialect, subject), "{}: {subject:?}", matcher.name());
                }
            }
        }
    }
}
