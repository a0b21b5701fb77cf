//! The twenty wildcard rules that implementers get wrong, each by name, on every matcher and on the reference
//! itself.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up fails")]

use crate::any::AnyMatcher;
use crate::every::every;
use crate::reference;
use tailrace_subjects::Dialect::{self, Amqp, Mqtt, Nats};
use tailrace_subjects::{Limits, Pattern, SharedPattern, TextError};

fn pattern(dialect: Dialect, text: &str) -> Pattern {
    Pattern::parse(dialect, text, &Limits::default()).unwrap()
}

fn refused(dialect: Dialect, text: &str) -> TextError {
    Pattern::parse(dialect, text, &Limits::default()).unwrap_err()
}

fn fresh(dialect: Dialect, space: &[&str]) -> Vec<Box<dyn AnyMatcher>> {
    every(dialect, Limits::default(), space)
}

/// The pattern finds all of `yes` and none of `no`, on every matcher, among unrelated patterns.
fn expect(dialect: Dialect, text: &str, yes: &[&str], no: &[&str]) {
    let space = [yes, no].concat();
    for matcher in fresh(dialect, &space) {
        matcher.subscribe(&pattern(dialect, "unconcerned"), 9).unwrap();
        let handle = matcher.subscribe(&pattern(dialect, text), 1).unwrap();
        for subject in &space {
            let expected: &[usize] = if yes.contains(subject) { &[1] } else { &[] };
            let found = matcher.find(subject.as_bytes()).unwrap();
            assert_eq!(found, expected, "{}: {dialect} {text:?} on {subject:?}", matcher.name());
            let reference = reference::matches(dialect, text, subject);
            assert_eq!(reference, yes.contains(subject), "reference: {dialect} {text:?} on {subject:?}");
        }
        assert!(matcher.unsubscribe(handle));
        for subject in &space {
            assert!(matcher.find(subject.as_bytes()).unwrap().is_empty(), "{}", matcher.name());
        }
        assert_eq!(matcher.len(), 1, "{}", matcher.name());
    }
}

#[test]
fn rule_01_nats_tail_needs_a_word_and_the_others_do_not() {
    expect(Nats, "foo.>", &["foo.a", "foo.a.b"], &["foo", "bar", "bar.foo"]);
    expect(Nats, ">", &["foo", "foo.a"], &[]);
    expect(Nats, "*.>", &["foo.a", "foo.a.b"], &["foo"]);
    expect(Amqp, "foo.#", &["foo", "foo.a", "foo.a.b"], &["", "bar", "bar.foo"]);
    expect(Mqtt, "foo/#", &["foo", "foo/", "foo/a", "foo/a/b"], &["bar", "/foo"]);
}

#[test]
fn rule_02_a_nats_wildcard_is_a_whole_word() {
    expect(Nats, "foo*", &["foo*"], &["foo", "fooo", "foo.a"]);
    expect(Nats, "f>o", &["f>o"], &["foo", "f.o"]);
    expect(Nats, "**.a", &["**.a"], &["b.a", "*.a"]);
    expect(Amqp, "a*.#b", &["a*.#b"], &["ab.b", "a.b", "ax.b"]);
}

#[test]
fn rule_03_wildcards_in_a_subject_are_literal_words() {
    expect(Nats, "foo.*", &["foo.*", "foo.>", "foo.a"], &["foo", "*.foo"]);
    expect(Nats, "foo.>", &["foo.*", "foo.>", "foo.a"], &[">", "*.*"]);
    expect(Nats, "foo.bar", &["foo.bar"], &["foo.*", "foo.>", "*.bar", ">", "*.*"]);
    expect(Amqp, "foo.bar", &["foo.bar"], &["foo.*", "foo.#", "#.bar", "#", "*.*"]);
    expect(Amqp, "#.bar", &["#.bar", "*.bar", "bar"], &["#", "*.#"]);
}

#[test]
fn rule_04_nats_refuses_empty_words_and_leaves_nothing_behind() {
    for (text, position) in [("a..b", 2), (".a", 0), ("a.", 2), (".", 0)] {
        assert_eq!(refused(Nats, text), TextError::EmptyWord { position }, "{text:?}");
    }
    for matcher in fresh(Nats, &["a"]) {
        assert!(matcher.find(b"a..b").is_err(), "{}", matcher.name());
        assert_eq!(matcher.len(), 0, "{}", matcher.name());
        assert!(matcher.subscribe(&pattern(Amqp, "a..b"), 1).is_err(), "{}", matcher.name());
        assert!(matcher.find(b"a").unwrap().is_empty(), "{}", matcher.name());
        assert_eq!(matcher.len(), 0, "{}", matcher.name());
    }
}

#[test]
fn rule_05_amqp_many_stands_anywhere_and_often() {
    expect(Amqp, "a.#.b", &["a.b", "a.x.b", "a.b.b", "a.x.y.b", "a..b"], &["a", "b", "a.b.x", "ab", ""]);
    expect(Amqp, "#.b", &["b", "a.b", "b.b"], &["a", "b.a", ""]);
    expect(Amqp, "#.b.#.c.#", &["b.c", "a.b.c", "b.a.c.a", "c.b.c"], &["c.b", "b", "c", "b.b"]);
    expect(Amqp, "a.#.b.*.#.c", &["a.b.x.c", "a.b.b.c", "a.x.b.y.z.c"], &["a.b.c", "a.c.b.c", "b.x.c"]);
}

#[test]
fn rule_06_amqp_many_twice_is_many_once() {
    expect(Amqp, "#.#", &["", "a", "a.b", "a..b"], &[]);
    expect(Amqp, "#.*.#.*", &["a.b", "a.b.c"], &["", "a"]);
    assert_eq!(pattern(Amqp, "#.#"), pattern(Amqp, "#"));
    // Backtracking over each `#` would take longer than the age of the universe.
    let many = "#.a.".repeat(40) + "b";
    let subject = "a.".repeat(200) + "c";
    let hit = "a.".repeat(200) + "b";
    expect(Amqp, &many, &[&hit], &[&subject]);
}

#[test]
fn rule_07_amqp_one_and_many_needs_a_word() {
    expect(Amqp, "*.#", &["a", "a.b", "a..b"], &[""]);
    expect(Amqp, "#.*", &["a", "a.b"], &[""]);
    expect(Amqp, "#", &["", "a", "a.b"], &[]);
    expect(Amqp, "*", &["a", "*"], &["", "a.b"]);
}

#[test]
fn rule_08_the_empty_amqp_key_and_pattern_are_legal() {
    expect(Amqp, "", &[""], &["a", "."]);
    assert_eq!(refused(Nats, ""), TextError::Empty(Nats));
    assert_eq!(refused(Mqtt, ""), TextError::Empty(Mqtt));
}

#[test]
fn rule_09_amqp_one_matches_an_empty_word() {
    expect(Amqp, "a.*.b", &["a..b", "a.x.b"], &["a.b"]);
    expect(Amqp, "a..b", &["a..b"], &["a.b", "a.x.b", "a...b"]);
    expect(Amqp, "*.*", &[".", "a.", ".a", "a.b"], &["", "a", ".."]);
}

#[test]
fn rule_10_mqtt_leading_separator_is_an_empty_level() {
    expect(Mqtt, "+/a", &["/a", "b/a"], &["a", "//a"]);
    expect(Mqtt, "/+", &["/a", "/"], &["a", "a/b"]);
    expect(Mqtt, "+", &["a"], &["/a", "/"]);
    expect(Mqtt, "/a", &["/a"], &["a", "/a/"]);
    expect(Mqtt, "/#", &["/", "/a", "//"], &["a", "a/"]);
}

#[test]
fn rule_11_mqtt_one_matches_an_empty_last_level() {
    expect(Mqtt, "a/+", &["a/", "a/b"], &["a", "a//"]);
    expect(Mqtt, "a/+/#", &["a/", "a/b", "a//"], &["a"]);
}

#[test]
fn rule_12_mqtt_many_stands_last_and_alone() {
    assert_eq!(refused(Mqtt, "a#"), TextError::WildcardInWord { wildcard: b'#', position: 1 });
    assert_eq!(refused(Mqtt, "a/#/b"), TextError::TailNotLast { wildcard: b'#', position: 2 });
    assert_eq!(refused(Mqtt, "a/##"), TextError::WildcardInWord { wildcard: b'#', position: 2 });
    assert_eq!(refused(Mqtt, "#/"), TextError::TailNotLast { wildcard: b'#', position: 0 });
    assert_eq!(refused(Nats, "a.>.b"), TextError::TailNotLast { wildcard: b'>', position: 2 });
}

#[test]
fn rule_13_mqtt_one_stands_alone() {
    assert_eq!(refused(Mqtt, "a+"), TextError::WildcardInWord { wildcard: b'+', position: 1 });
    assert_eq!(refused(Mqtt, "b/+a/c"), TextError::WildcardInWord { wildcard: b'+', position: 2 });
    assert_eq!(refused(Mqtt, "++"), TextError::WildcardInWord { wildcard: b'+', position: 0 });
    for matcher in fresh(Mqtt, &[]) {
        let error = matcher.find(b"a/+").unwrap_err();
        assert_eq!(error, TextError::WildcardInSubject { wildcard: b'+', position: 2 }, "{}", matcher.name());
        assert!(matcher.find(b"a#").is_err(), "{}", matcher.name());
    }
}

#[test]
fn rule_14_mqtt_first_level_wildcards_pass_over_dollar_topics() {
    expect(Mqtt, "#", &["a", "a/b", "/$a"], &["$SYS", "$SYS/a", "$"]);
    expect(Mqtt, "+", &["a"], &["$SYS", "$"]);
    expect(Mqtt, "+/a", &["b/a", "/a"], &["$SYS/a"]);
    expect(Mqtt, "+/#", &["b/a", "b"], &["$SYS/a", "$SYS"]);
    expect(Mqtt, "$SYS/#", &["$SYS", "$SYS/a", "$SYS/a/b"], &["a", "$sys/a"]);
    expect(Mqtt, "$SYS/+", &["$SYS/a", "$SYS/"], &["$SYS", "a/a"]);
    expect(Nats, ">", &["$SYS", "$SYS.a"], &[]);
    expect(Amqp, "#", &["$SYS", "$SYS.a"], &[]);
}

#[test]
fn rule_15_dollar_in_later_levels_is_ordinary() {
    expect(Mqtt, "a/+", &["a/$b", "a/b"], &["a"]);
    expect(Mqtt, "#", &["a/$SYS", "/$SYS"], &["$SYS"]);
    expect(Mqtt, "+/$b", &["a/$b"], &["$a/$b"]);
    expect(Mqtt, "a$", &["a$"], &["a"]);
}

/// The filter of a shared subscription; the matcher itself knows only filters.
fn filter(text: &str) -> String {
    SharedPattern::parse(text, &Limits::default()).unwrap().pattern.to_string()
}

#[test]
fn rule_16_mqtt_shared_subscriptions_match_on_the_filter() {
    let shared = SharedPattern::parse("$share/g/a/+", &Limits::default()).unwrap();
    assert_eq!(shared.group.as_deref(), Some(&b"g"[..]));
    expect(Mqtt, &filter("$share/g/a/+"), &["a/b"], &["$share/g/a/b", "g/a/b"]);
    expect(Mqtt, &filter("$share/g/#"), &["a", "a/b"], &["$SYS", "$share/g/a"]);
    expect(Mqtt, &filter("$share/g/$SYS/#"), &["$SYS", "$SYS/a"], &["a"]);
}

#[test]
fn rule_17_a_shared_and_a_plain_subscription_both_deliver() {
    for matcher in fresh(Mqtt, &["a/b"]) {
        matcher.subscribe(&pattern(Mqtt, "a/b"), 1).unwrap();
        matcher.subscribe(&pattern(Mqtt, &filter("$share/g/a/b")), 2).unwrap();
        assert_eq!(matcher.find(b"a/b").unwrap(), [1, 2], "{}", matcher.name());
    }
}

#[test]
fn rule_18_overlapping_filters_are_found_once_each() {
    for (dialect, texts, subject) in [
        (Nats, ["a.b", "a.*", "a.>", ">", "*.b"], "a.b"),
        (Amqp, ["a.b", "a.*", "a.#", "#.b", "#.a.#.b.#"], "a.b"),
        (Mqtt, ["a/b", "a/+", "a/#", "#", "+/b"], "a/b"),
    ] {
        for matcher in fresh(dialect, &[subject]) {
            for (value, text) in texts.iter().enumerate() {
                matcher.subscribe(&pattern(dialect, text), value).unwrap();
            }
            assert_eq!(matcher.find(subject.as_bytes()).unwrap(), [0, 1, 2, 3, 4], "{}", matcher.name());
        }
    }
}

#[test]
fn rule_19_the_same_pattern_twice_is_two_subscriptions() {
    for dialect in Dialect::ALL {
        for matcher in fresh(dialect, &["a"]) {
            let first = matcher.subscribe(&pattern(dialect, "a"), 7).unwrap();
            let second = matcher.subscribe(&pattern(dialect, "a"), 7).unwrap();
            assert_eq!((matcher.find(b"a").unwrap(), matcher.len()), (vec![7, 7], 2), "{}", matcher.name());
            assert!(matcher.unsubscribe(first) && !matcher.unsubscribe(first), "{}", matcher.name());
            assert_eq!((matcher.find(b"a").unwrap(), matcher.len()), (vec![7], 1), "{}", matcher.name());
            assert!(matcher.unsubscribe(second));
            assert_eq!((matcher.find(b"a").unwrap(), matcher.len()), (vec![], 0), "{}", matcher.name());
        }
    }
}

#[test]
fn rule_20_comparison_is_byte_for_byte() {
    for dialect in Dialect::ALL {
        expect(dialect, "Foo", &["Foo"], &["foo", "FOO", "Foo "].map(|text| text.trim_end()));
        // One is a precomposed letter, the other a letter and a combining accent.
        expect(dialect, "caf\u{e9}", &["caf\u{e9}"], &["cafe\u{301}", "cafe"]);
    }
}

#[test]
fn rule_20_ten_thousand_words_need_no_deep_stack() {
    for dialect in Dialect::ALL {
        std::thread::Builder::new()
            .stack_size(96 << 10)
            .spawn(move || deep(dialect))
            .unwrap()
            .join()
            .unwrap();
    }
}

fn deep(dialect: Dialect) {
    let limits = Limits::widest();
    let (separator, one, many) =
        (char::from(dialect.separator()), char::from(dialect.one()), char::from(dialect.many()));
    let long = |word: char, count: usize| format!("{word}{separator}").repeat(count);
    let subject = long('a', 9_999) + "a";
    let texts = [
        subject.clone(),
        long(one, 9_999) + "a",
        long('a', 9_999) + &many.to_string(),
        long('a', 9_999) + "b",
        many.to_string(),
    ];
    for matcher in every(dialect, limits, &[&subject]) {
        let mut handles = Vec::new();
        for (value, text) in texts.iter().enumerate() {
            let pattern = Pattern::parse(dialect, text, &limits).unwrap();
            handles.push(matcher.subscribe(&pattern, value).unwrap());
        }
        assert_eq!(matcher.find(subject.as_bytes()).unwrap(), [0, 1, 2, 4], "{}", matcher.name());
        let kept = handles.pop().unwrap();
        assert!(handles.into_iter().all(|handle| matcher.unsubscribe(handle)), "{}", matcher.name());
        assert_eq!(matcher.find(subject.as_bytes()).unwrap(), [4], "{}", matcher.name());
        assert!(matcher.unsubscribe(kept));
        // Dropping a matcher with a deep tree in it must not recurse, either.
        matcher.subscribe(&Pattern::parse(dialect, &subject, &limits).unwrap(), 1).unwrap();
    }
}
