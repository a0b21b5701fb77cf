//! A plain list of messages that must agree with the table.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use tailrace_subjects::{Dialect, Limits as TextLimits, Pattern};

use super::*;

const SUBJECTS: [&str; 7] = ["a", "a.b", "a.c", "a.b.c", "b.b", "b.c", "long.subject.with.words"];
const FILTERS: [&str; 7] = [">", "a.>", "a.*", "*.b", "a.b", "nobody", "*.*.*"];

fn filter(text: &str) -> Filter {
    Filter::new(&Pattern::parse(Dialect::Nats, text, &TextLimits::default()).unwrap())
}

#[derive(Clone, Debug)]
enum Step {
    Append { subject: usize, bytes: u32, gap: u64, rollup: Option<Rollup> },
    Delete { nth: usize },
    Purge { filter: Option<usize>, below: Option<u64>, keep: u64 },
    Expire { age: i64 },
    Limit(Limits),
    Reach { more: u64 },
}

fn limits() -> impl Strategy<Value = Limits> {
    let some = |max: u64| prop_oneof![2 => Just(None), 1 => (1..max).prop_map(Some)];
    (some(40), some(4000), some(5)).prop_map(|(messages_max, bytes_max, per_subject_max)| Limits {
        messages_max,
        bytes_max,
        per_subject_max,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let rollup = prop_oneof![8 => Just(None), 1 => Just(Some(Rollup::Subject)), 1 => Just(Some(Rollup::All))];
    let gap = prop_oneof![20 => Just(0), 2 => 1_u64..4, 1 => Just(40_000_u64)];
    prop_oneof![
        20 => (0..SUBJECTS.len(), 1_u32..300, gap, rollup)
            .prop_map(|(subject, bytes, gap, rollup)| Step::Append { subject, bytes, gap, rollup }),
        8 => any::<prop::sample::Index>().prop_map(|nth| Step::Delete { nth: nth.index(64) }),
        2 => (prop::option::of(0..FILTERS.len()), prop::option::of(1_u64..200), 0_u64..4)
            .prop_map(|(filter, below, keep)| Step::Purge { filter, below, keep }),
        1 => (0_i64..60).prop_map(|age| Step::Expire { age }),
        1 => limits().prop_map(Step::Limit),
        2 => (0_u64..5).prop_map(|more| Step::Reach { more }),
    ]
}

#[derive(Clone, Debug, PartialEq)]
struct Plain {
    subject: &'static str,
    bytes: u32,
    time_ms: i64,
}

/// The plain list.
struct Model {
    messages: BTreeMap<u64, Plain>,
    limits: Limits,
    first_seq: u64,
    last_seq: u64,
}

impl Model {
    fn drop_where(&mut self, goes: impl Fn(&u64, &Plain) -> bool) {
        self.messages.retain(|seq, plain| !goes(seq, plain));
    }

    fn apply_limits(&mut self) {
        for subject in SUBJECTS {
            let of: Vec<u64> = self
                .messages
                .iter()
                .filter(|(_, plain)| plain.subject == subject)
                .map(|(seq, _)| *seq)
                .collect();
            if let Some(max) = self.limits.per_subject_max {
                for seq in of.iter().take(of.len().saturating_sub(max as usize)) {
                    self.messages.remove(seq);
                }
            }
        }
        while self.limits.messages_max.is_some_and(|max| self.messages.len() as u64 > max)
            || self.limits.bytes_max.is_some_and(|max| self.bytes() > max)
        {
            self.messages.pop_first();
        }
    }

    fn bytes(&self) -> u64 {
        self.messages.values().map(|plain| u64::from(plain.bytes)).sum()
    }

    fn append(&mut self, seq: u64, plain: Plain, rollup: Option<Rollup>) {
        match rollup {
            Some(Rollup::All) => self.messages.clear(),
            Some(Rollup::Subject) => self.drop_where(|_, old| old.subject == plain.subject),
            None => {}
        }
        self.last_seq = seq;
        self.messages.insert(seq, plain);
        self.apply_limits();
    }

    fn purge(&mut self, filter: Option<&Filter>, below: Option<u64>, keep: u64) -> u64 {
        let matches = |plain: &Plain| filter.is_none_or(|filter| filter.matches(plain.subject.as_bytes()));
        let all: Vec<u64> =
            self.messages.iter().filter(|(_, plain)| matches(plain)).map(|(seq, _)| *seq).collect();
        let goes = all.len().saturating_sub(keep as usize);
        let goes: Vec<u64> =
            all.into_iter().take(goes).filter(|seq| *seq < below.unwrap_or(u64::MAX)).collect();
        for seq in &goes {
            self.messages.remove(seq);
        }
        let is_all = filter.is_none_or(Filter::is_everything);
        if let Some(below) = below.filter(|below| is_all && keep == 0 && *below > self.last_seq + 1) {
            self.last_seq = below - 1;
        }
        goes.len() as u64
    }

    fn matching(&self, filters: &[Filter], from: u64) -> Vec<u64> {
        let matches = |plain: &Plain| {
            filters.is_empty() || filters.iter().any(|filter| filter.matches(plain.subject.as_bytes()))
        };
        self.messages.range(from..).filter(|(_, plain)| matches(plain)).map(|(seq, _)| *seq).collect()
    }

    fn last_per_subject(&self, filters: &[Filter], from: u64, up_to: u64) -> Vec<u64> {
        let mut last = BTreeMap::new();
        for (seq, plain) in self.messages.range(..=up_to) {
            last.insert(plain.subject, *seq);
        }
        let chosen = self.matching(filters, 0);
        let mut last: Vec<u64> =
            last.into_values().filter(|seq| *seq >= from && chosen.contains(seq)).collect();
        last.sort_unstable();
        last
    }
}

fn agree(contents: &Contents, model: &Model) {
    let summary = contents.summary();
    assert_eq!(summary.messages, model.messages.len() as u64);
    assert_eq!((summary.bytes, summary.last_seq), (model.bytes(), model.last_seq));
    let first = model.messages.first_key_value();
    assert_eq!(summary.first_seq, first.map_or(model.last_seq + 1, |(seq, _)| *seq));
    assert_eq!(summary.first_time_ms, first.map(|(_, plain)| plain.time_ms));
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for plain in model.messages.values() {
        *counts.entry(plain.subject).or_default() += 1;
    }
    assert_eq!(summary.subjects, counts.len() as u64);
    for subject in SUBJECTS {
        let of = |plain: &&Plain| plain.subject == subject;
        let last = model.messages.iter().rev().find(|(_, plain)| of(plain)).map(|(seq, _)| *seq);
        assert_eq!(contents.last_of_subject(subject.as_bytes()), last, "{subject}");
        let count = counts.get(subject).copied().unwrap_or(0);
        assert_eq!(contents.count_of_subject(subject.as_bytes()), count);
    }
    let holes: Vec<u64> =
        (summary.first_seq..=summary.last_seq).filter(|seq| !model.messages.contains_key(seq)).collect();
    assert_eq!(summary.deleted, holes.len() as u64);
    for limit in [0, 2, usize::MAX] {
        assert_eq!(contents.holes(limit), holes[..limit.min(holes.len())], "{limit} holes");
    }
    for seq in model.messages.keys() {
        let plain = &model.messages[seq];
        assert_eq!(contents.subject_of(*seq), Some(plain.subject.as_bytes()));
        let found = Found { seq: *seq, bytes: plain.bytes, time_ms: plain.time_ms };
        assert_eq!(contents.get(*seq), Some(found));
    }
    let from = (summary.first_seq + summary.last_seq) / 2;
    let pair = [filter("a.*"), filter("*.b")];
    let sets = FILTERS.map(|text| vec![filter(text)]);
    for filters in sets.iter().map(Vec::as_slice).chain([&pair[..], &[]]) {
        for from in [0, from] {
            let matching = model.matching(filters, from);
            assert_eq!(contents.count_matching(filters, from), matching.len() as u64);
            let next = contents.next_matching(filters, from).map(|found| found.seq);
            assert_eq!(next, matching.first().copied());
            let (mut at, mut within) = (from, contents.next_matching_within(filters, from, 2));
            while let Err(through) = within {
                assert!(through >= at, "each search comes further");
                at = through + 1;
                within = contents.next_matching_within(filters, at, 2);
            }
            assert_eq!(within.unwrap().map(|found| found.seq), next);
            for up_to in [u64::MAX - 1, from] {
                let (mut seqs, mut at) = (Vec::new(), 0);
                while let Some(found) = contents.next_last(filters, at, up_to) {
                    seqs.push(found.seq);
                    at = found.seq + 1;
                }
                assert_eq!(seqs, model.last_per_subject(filters, 0, up_to), "up to {up_to}");
            }
        }
        let all = model.matching(filters, 0);
        let mut subjects: Vec<_> = all.iter().map(|seq| model.messages[seq].subject).collect();
        subjects.sort_unstable();
        subjects.dedup();
        assert_eq!(contents.count_subjects(filters), subjects.len() as u64);
        if let [one] = filters {
            assert_eq!(contents.last_matching(one), all.last().copied());
            let mut seen = BTreeMap::new();
            contents.each_subject(one, |name, count| {
                assert_eq!(seen.insert(name.to_vec(), count), None);
            });
            assert_eq!(seen.len(), subjects.len());
            let listed: Vec<_> = seen.into_iter().collect();
            for (offset, limit) in [(0, 3), (0, 100), (1, 2), (2, 0), (4, 9), (90, 5)] {
                let page = &listed[listed.len().min(offset)..];
                let expected = (page[..limit.min(page.len())].to_vec(), listed.len() as u64);
                assert_eq!(contents.page_of_subjects(one, offset as u64, limit), expected);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn the_table_agrees_with_a_plain_list(
        limits in limits(),
        first_seq in prop_oneof![Just(1), Just(7_u64), Just(16_380)],
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut contents = Contents::new(limits, first_seq);
        let mut model =
            Model { messages: BTreeMap::new(), limits, first_seq, last_seq: first_seq - 1 };
        assert_eq!(contents.summary().first_seq, model.first_seq);
        let mut time_ms = 1_000;
        for step in steps {
            let before: Vec<u64> = model.messages.keys().copied().collect();
            let mut removed = Vec::new();
            let mut note = |seq| removed.push(seq);
            let mut added = None;
            match step {
                Step::Append { subject, bytes, gap, rollup } => {
                    time_ms += 1;
                    let (seq, subject) = (model.last_seq + 1 + gap, SUBJECTS[subject]);
                    let name = subject.as_bytes();
                    contents.append(&Message { seq, subject: name, bytes, time_ms, rollup }, &mut note);
                    model.append(seq, Plain { subject, bytes, time_ms }, rollup);
                    added = Some(seq);
                }
                Step::Delete { nth } => {
                    let seq = before.get(nth).copied().unwrap_or(model.last_seq + 5);
                    let was_there = model.messages.remove(&seq).is_some();
                    assert_eq!(contents.delete(seq, &mut note), was_there);
                }
                Step::Purge { filter: of, below, keep } => {
                    let of = of.map(|at| filter(FILTERS[at]));
                    let purged = contents.purge(Purge { filter: of.as_ref(), below, keep }, &mut note);
                    assert_eq!(purged, model.purge(of.as_ref(), below, keep));
                }
                Step::Expire { age } => {
                    contents.expire(time_ms - age, &mut note);
                    model.drop_where(|_, plain| plain.time_ms < time_ms - age);
                }
                Step::Reach { more } => {
                    // A sequence that is behind changes nothing.
                    contents.reach(model.last_seq.saturating_sub(1));
                    model.last_seq += more;
                    contents.reach(model.last_seq);
                }
                Step::Limit(limits) => {
                    model.limits = limits;
                    contents.set_limits(limits, &mut note);
                    model.apply_limits();
                }
            }
            agree(&contents, &model);
            // Exactly what is gone was reported, once.
            let gone = before.iter().chain(&added).filter(|seq| !model.messages.contains_key(seq));
            let gone: Vec<u64> = gone.copied().collect();
            removed.sort_unstable();
            prop_assert_eq!(removed, gone);
        }
    }
}

#[test]
fn subjects_that_come_and_go_leave_no_memory_behind() {
    let mut contents = Contents::new(Limits { messages_max: Some(100), ..Limits::default() }, 1);
    let mut most = 0;
    for seq in 1..=200_000_u64 {
        let subject = format!("a.subject.of.its.own.{seq}");
        let message = Message { seq, subject: subject.as_bytes(), bytes: 10, time_ms: 0, rollup: None };
        contents.append(&message, &mut |_| ());
        if seq == 20_000 {
            most = contents.memory_bytes();
        }
    }
    assert!(contents.memory_bytes() <= most * 2, "{} after {most}", contents.memory_bytes());
    assert_eq!(contents.summary().subjects, 100);
}
