//! Matches one pattern against one subject, without an index.
//!
//! The greedy method of shell globs: at a `#` try the fewest words, and on a mismatch let the latest `#`
//! consume one more word. Going back to an earlier `#` is never needed, because the latest one can consume
//! whatever the earlier one would have. Time is at most words times words, space constant.

use tailrace_subjects::{Dialect, Pattern, Subject};

use super::cursor::Words;

/// Reports whether the pattern matches the subject; both are of one dialect.
pub(super) fn direct_match(pattern: &Pattern, subject: &Subject<'_>) -> bool {
    let dialect = pattern.dialect();
    debug_assert_eq!(dialect, subject.dialect());
    if subject.is_hidden() && begins_with_wildcard(pattern) {
        return false;
    }
    words_match(dialect, Words::new(dialect, pattern.as_bytes()), Words::new(dialect, subject.as_bytes()))
}

/// Reports whether the first word of the pattern is a wildcard: such an MQTT filter excludes `$` topics.
pub(super) fn begins_with_wildcard(pattern: &Pattern) -> bool {
    let dialect = pattern.dialect();
    match pattern.as_bytes() {
        [first] => is_wildcard(dialect, *first),
        [first, second, ..] => is_wildcard(dialect, *first) && *second == dialect.separator(),
        [] => false,
    }
}

fn is_wildcard(dialect: Dialect, byte: u8) -> bool {
    byte == dialect.one() || byte == dialect.many()
}

/// Like [`direct_match`], for what is left of both, whatever comes before.
pub(super) fn words_match(dialect: Dialect, mut pattern: Words<'_>, mut subject: Words<'_>) -> bool {
    // What follows the latest `#`, and the subject's words that it has not consumed.
    let mut retry: Option<(Words<'_>, Words<'_>)> = None;
    loop {
        let mut ahead = pattern;
        match ahead.next() {
            Some([byte]) if *byte == dialect.many() => {
                for _ in 0..dialect.many_min() {
                    if subject.next().is_none() {
                        return false;
                    }
                }
                if ahead.is_done() {
                    return true;
                }
                pattern = ahead;
                retry = Some((pattern, subject));
                continue;
            }
            Some(word) => {
                let mut next = subject;
                match next.next() {
                    Some(found) if *word == [dialect.one()] || word == found => {
                        (pattern, subject) = (ahead, next);
                        continue;
                    }
                    Some(_) => {}
                    // The subject is too short, and a `#` that consumes more makes it shorter.
                    None => return false,
                }
            }
            None if subject.is_done() => return true,
            None => {}
        }
        let Some((after, mut left)) = retry else { return false };
        if left.next().is_none() {
            return false;
        }
        (pattern, subject) = (after, left);
        retry = Some((after, left));
    }
}
