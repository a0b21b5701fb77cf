//! Overlap and cover of patterns, against a search through all subjects.
//!
//! The search walks both patterns as automata at once, over the words that they name and two that they do
//! not: no pattern can distinguish a third such word from these. It visits every pair of state sets, so its
//! answer holds for subjects of any length.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up fails")]

use crate::reference;
use std::collections::HashSet;

use proptest::prelude::*;
use tailrace_subjects::Dialect::{self, Amqp, Mqtt, Nats};
use tailrace_subjects::{Limits, Pattern};

fn pattern(dialect: Dialect, text: &str) -> Pattern {
    Pattern::parse(dialect, text, &Limits::default()).unwrap()
}

/// A pattern as an automaton. Bit `i` of a state set: the first `i` words are done.
struct Automaton {
    dialect: Dialect,
    words: Vec<String>,
}

impl Automaton {
    fn new(dialect: Dialect, text: &str) -> Self {
        Self { dialect, words: reference::words(dialect, text) }
    }

    fn is_many(&self, at: usize) -> bool {
        let many = if self.dialect == Nats { ">" } else { "#" };
        self.words.get(at).is_some_and(|word| word == many)
    }

    fn is_one(&self, at: usize) -> bool {
        let one = if self.dialect == Mqtt { "+" } else { "*" };
        self.words.get(at).is_some_and(|word| word == one)
    }

    /// Lets a `#` match zero words.
    fn closed(&self, mut states: u64) -> u64 {
        for at in (0..self.words.len()).filter(|at| self.is_many(*at) && self.dialect != Nats) {
            states |= (states >> at & 1) << (at + 1);
        }
        states
    }

    fn start(&self) -> u64 {
        self.closed(1)
    }

    fn accepts(&self, states: u64) -> bool {
        states >> self.words.len() & 1 == 1
    }

    fn read(&self, states: u64, word: &str, first: bool) -> u64 {
        let wild_first = self.is_many(0) || self.is_one(0);
        if first && self.dialect == Mqtt && word.starts_with('$') && wild_first {
            return 0;
        }
        let mut next = 0;
        for at in (0..self.words.len()).filter(|at| states >> at & 1 == 1) {
            if self.is_many(at) {
                next |= 1 << at | 1 << (at + 1);
            } else if self.is_one(at) || self.words[at] == word {
                next |= 1 << (at + 1);
            }
        }
        self.closed(next)
    }
}

/// The words so far: none, a single empty word (which no text can express), or anything else.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Before {
    Nothing,
    OneEmptyWord,
    Other,
}

/// Reports whether some subject matches both, and whether `a` matches every subject that `b` matches.
fn searched(dialect: Dialect, a: &str, b: &str) -> (bool, bool) {
    let (a, b) = (Automaton::new(dialect, a), Automaton::new(dialect, b));
    let mut alphabet = vec!["fresh".to_owned(), "$fresh".to_owned()];
    alphabet.extend(a.words.iter().chain(&b.words).cloned());
    if dialect != Nats {
        alphabet.push(String::new());
    }
    let is_wildcard = |word: &String| ["*", "#", ">", "+"].contains(&word.as_str());
    alphabet.retain(|word| !is_wildcard(word));
    let (mut overlap, mut cover) = (false, true);
    let mut seen = HashSet::new();
    let mut open = vec![(a.start(), b.start(), Before::Nothing)];
    while let Some((in_a, in_b, before)) = open.pop() {
        if !seen.insert((in_a, in_b, before)) {
            continue;
        }
        let is_subject = match before {
            Before::Nothing => dialect == Amqp,
            Before::OneEmptyWord => false,
            Before::Other => true,
        };
        if is_subject && b.accepts(in_b) {
            overlap |= a.accepts(in_a);
            cover &= a.accepts(in_a);
        }
        for word in &alphabet {
            let first = before == Before::Nothing;
            let after = if first && word.is_empty() { Before::OneEmptyWord } else { Before::Other };
            open.push((a.read(in_a, word, first), b.read(in_b, word, first), after));
        }
    }
    (overlap, cover)
}

fn check(dialect: Dialect, a: &str, b: &str) {
    let (overlap, cover) = searched(dialect, a, b);
    let (first, second) = (pattern(dialect, a), pattern(dialect, b));
    assert_eq!(first.overlaps(&second), overlap, "{dialect}: {a:?} overlaps {b:?}");
    assert_eq!(second.overlaps(&first), overlap, "{dialect}: {b:?} overlaps {a:?}");
    assert_eq!(first.covers(&second), cover, "{dialect}: {a:?} covers {b:?}");
}

/// Every valid pattern of up to `words` words over these.
fn all_patterns(dialect: Dialect, alphabet: &[&str], words: u32) -> Vec<String> {
    let separator = char::from(dialect.separator()).to_string();
    let mut texts = HashSet::new();
    for length in 0..=words {
        for mut number in 0..alphabet.len().pow(length) {
            let mut text = Vec::new();
            for _ in 0..length {
                text.push(alphabet[number % alphabet.len()]);
                number /= alphabet.len();
            }
            texts.insert(text.join(&separator));
        }
    }
    texts.retain(|text| Pattern::parse(dialect, text, &Limits::default()).is_ok());
    texts.into_iter().collect()
}

#[test]
fn all_pairs_of_short_patterns() {
    for (dialect, alphabet, words) in [
        (Amqp, &["a", "b", "*", "#"][..], 3),
        (Amqp, &["a", "*", "#"], 4),
        (Amqp, &["", "*", "#"], 3),
        (Nats, &["a", "b", "*", ">"], 3),
        (Mqtt, &["a", "", "$x", "+", "#"], 3),
    ] {
        let texts = all_patterns(dialect, alphabet, words);
        for a in &texts {
            for b in &texts {
                check(dialect, a, b);
            }
        }
    }
}

#[test]
#[ignore = "ten seconds with --release, minutes without: worth it after a change of the relations"]
fn all_pairs_of_five_words() {
    let mut texts = all_patterns(Amqp, &["a", "b", "*", "#"], 5);
    texts.retain(|text| pattern(Amqp, text).as_bytes() == text.as_bytes());
    for a in &texts {
        for b in &texts {
            check(Amqp, a, b);
        }
    }
}

fn pair() -> impl Strategy<Value = (Dialect, String, String)> {
    prop::sample::select(Dialect::ALL.to_vec()).prop_flat_map(|dialect| {
        let separator = char::from(dialect.separator()).to_string();
        let one = char::from(dialect.one()).to_string();
        let many = char::from(dialect.many()).to_string();
        let word = prop::sample::select(vec!["a".into(), "a".into(), "b".into(), String::new(), "$".into()]);
        let word = prop_oneof![4 => word, 2 => Just(one), 2 => Just(many)];
        let text = prop::collection::vec(word, 0..9)
            .prop_map(move |words: Vec<String>| words.join(&separator))
            .prop_filter("valid", move |text| Pattern::parse(dialect, text, &Limits::default()).is_ok());
        (Just(dialect), text.clone(), text)
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4_000,
        max_local_rejects: 1_000_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn pairs_of_longer_patterns((dialect, a, b) in pair()) {
        check(dialect, &a, &b);
        check(dialect, &b, &a);
        check(dialect, &a, &a);
    }
}

#[test]
fn the_dollar_rule_counts() {
    for (cover, covered) in [("#", "$SYS/#"), ("+/a", "$SYS/a"), ("#", "$SYS")] {
        assert!(!pattern(Mqtt, cover).covers(&pattern(Mqtt, covered)), "{cover} {covered}");
        assert!(!pattern(Mqtt, cover).overlaps(&pattern(Mqtt, covered)), "{cover} {covered}");
    }
    assert!(pattern(Mqtt, "$SYS/#").covers(&pattern(Mqtt, "$SYS/+/a")));
    assert!(pattern(Mqtt, "#").covers(&pattern(Mqtt, "+/$SYS/#")));
    assert!(pattern(Nats, ">").covers(&pattern(Nats, "$SYS.>")));
}

#[test]
fn examples_by_hand() {
    assert!(pattern(Nats, "a.>").covers(&pattern(Nats, "a.*.c")));
    assert!(!pattern(Nats, "a.>").covers(&pattern(Nats, "a")));
    assert!(pattern(Nats, "a.*").overlaps(&pattern(Nats, "*.b")));
    assert!(!pattern(Nats, "a.*").overlaps(&pattern(Nats, "a.b.>")));
    assert!(pattern(Amqp, "#.a.#").covers(&pattern(Amqp, "*.a")));
    assert!(!pattern(Amqp, "*.a.#").covers(&pattern(Amqp, "#.a.#")));
    assert!(pattern(Amqp, "*.#").covers(&pattern(Amqp, "#.a.#")));
    // No topic has zero levels, and none has one empty level.
    assert!(pattern(Mqtt, "+/#").covers(&pattern(Mqtt, "#")));
    assert!(pattern(Mqtt, "+/+/#").covers(&pattern(Mqtt, "/#")));
    // Patterns of two dialects are unrelated.
    assert!(!pattern(Nats, "a").covers(&pattern(Mqtt, "a")));
    assert!(!pattern(Nats, "a").overlaps(&pattern(Amqp, "a")));
}

#[test]
fn long_patterns_need_no_deep_stack() {
    let limits = Limits::widest();
    let parse = move |text: &str| Pattern::parse(Amqp, text, &limits).unwrap();
    let run = move || {
        let long = parse(&("#.a.".repeat(2_000) + "b"));
        let literal = parse(&("a.".repeat(2_000) + "b"));
        assert!(long.covers(&literal) && long.overlaps(&literal) && long.covers(&long));
        assert!(!literal.covers(&long));
    };
    std::thread::Builder::new().stack_size(96 << 10).spawn(run).unwrap().join().unwrap();
}
