//! Bad texts and full tables: typed errors with positions, and no state left behind.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up fails")]

use crate::every::every;
use tailrace_subjects::Dialect::{self, Amqp, Mqtt, Nats};
use tailrace_subjects::{Limits, Pattern, SubscribeError, TextError};

/// Rejected as a pattern and as a subject by every matcher, with the same error.
fn refused(dialect: Dialect, text: &[u8], limits: Limits, expected: &TextError) {
    assert_eq!(&Pattern::parse(dialect, text, &limits).unwrap_err(), expected, "{dialect} {text:?}");
    for matcher in every(dialect, limits, &["a"]) {
        let kept = matcher.subscribe(&Pattern::parse(dialect, "a", &limits).unwrap(), 1).unwrap();
        assert_eq!(&matcher.find(text).unwrap_err(), expected, "{} {dialect} {text:?}", matcher.name());
        assert_eq!(matcher.find(b"a").unwrap(), [1], "{}", matcher.name());
        assert!(matcher.unsubscribe(kept));
        assert_eq!(matcher.len(), 0);
    }
}

#[test]
fn empty_subjects() {
    for dialect in [Nats, Mqtt] {
        refused(dialect, b"", Limits::default(), &TextError::Empty(dialect));
    }
}

#[test]
fn empty_words() {
    refused(Nats, b"a..b", Limits::default(), &TextError::EmptyWord { position: 2 });
    refused(Nats, b".b", Limits::default(), &TextError::EmptyWord { position: 0 });
    refused(Nats, b"a.b.", Limits::default(), &TextError::EmptyWord { position: 4 });
}

#[test]
fn control_characters_and_spaces() {
    for byte in [b'\0', b'\t', b'\n', 0x1f, 0x7f] {
        for dialect in [Nats, Mqtt] {
            refused(dialect, &[b'a', byte], Limits::default(), &TextError::Forbidden { byte, position: 1 });
        }
    }
    refused(Nats, b"a b", Limits::default(), &TextError::Forbidden { byte: b' ', position: 1 });
    refused(Amqp, b"ab\0", Limits::default(), &TextError::Forbidden { byte: 0, position: 2 });
}

#[test]
fn texts_that_are_not_utf8() {
    for dialect in Dialect::ALL {
        refused(dialect, b"ab\xff", Limits::default(), &TextError::NotUtf8 { position: 2 });
        refused(dialect, b"\xc3", Limits::default(), &TextError::NotUtf8 { position: 0 });
        // An overlong encoding of a slash is not a slash.
        refused(dialect, b"a\xc0\xaf", Limits::default(), &TextError::NotUtf8 { position: 1 });
    }
}

#[test]
fn length_and_depth() {
    let limits = Limits { bytes_max: 8, words_max: 3, ..Limits::default() };
    for dialect in Dialect::ALL {
        refused(dialect, b"123456789", limits, &TextError::TooLong { bytes: 9, bytes_max: 8 });
        let deep = ["a", "b", "c", "d"].join(&char::from(dialect.separator()).to_string());
        refused(dialect, deep.as_bytes(), limits, &TextError::TooManyWords { position: 6, words_max: 3 });
    }
}

#[test]
fn a_full_table_refuses_and_takes_again_after_an_unsubscribe() {
    let limits = Limits { subscriptions_max: 2, ..Limits::default() };
    for dialect in Dialect::ALL {
        let parse = |text: &str| Pattern::parse(dialect, text, &limits).unwrap();
        for matcher in every(dialect, limits, &["a", "b", "c"]) {
            let first = matcher.subscribe(&parse("a"), 1).unwrap();
            matcher.subscribe(&parse("b"), 2).unwrap();
            let error = matcher.subscribe(&parse("c"), 3).unwrap_err();
            assert_eq!(error, SubscribeError::TooManySubscriptions { subscriptions_max: 2 });
            assert_eq!((matcher.len(), matcher.find(b"c").unwrap()), (2, vec![]), "{}", matcher.name());
            assert!(matcher.unsubscribe(first));
            matcher.subscribe(&parse("c"), 3).unwrap();
            assert_eq!((matcher.len(), matcher.find(b"c").unwrap()), (2, vec![3]), "{}", matcher.name());
        }
    }
}

#[test]
fn patterns_of_another_dialect() {
    let limits = Limits::default();
    for matcher in every(Nats, limits, &["a"]) {
        let error = matcher.subscribe(&Pattern::parse(Mqtt, "a", &limits).unwrap(), 1).unwrap_err();
        assert_eq!(error, SubscribeError::WrongDialect { pattern: Mqtt, matcher: matcher.dialect() });
        assert_eq!((matcher.len(), matcher.find(b"a").unwrap()), (0, vec![]), "{}", matcher.name());
    }
}

#[test]
fn any_bytes_are_words_where_that_is_asked_for() {
    let limits = Limits { any_bytes: true, ..Limits::default() };
    let space = tailrace_subjects::TupleSpace::with_limits(Dialect::Nats, limits);
    let odd: [&[u8]; 4] = [b"a.\xff\xfe.c", b"a.\0", b"a.\x0b\x0c.\r.d", b"\x7f"];
    for (value, text) in odd.into_iter().enumerate() {
        assert!(Pattern::parse(Dialect::Nats, text, &Limits::default()).is_err());
        let pattern = Pattern::parse(Dialect::Nats, text, &limits).unwrap();
        space.subscribe(&pattern, value).unwrap().forget();
    }
    let mut found = Vec::new();
    for (value, text) in odd.into_iter().enumerate() {
        space.matches(text, &mut found).unwrap();
        assert_eq!(found, [value]);
    }
    space.matches(b"a", &mut found).unwrap();
    assert!(found.is_empty(), "a zero byte is a letter");
    assert!(Pattern::parse(Dialect::Nats, b"a..\xff", &limits).is_err());
    assert!(space.matches(b"\xff..a", &mut found).is_err());
}
