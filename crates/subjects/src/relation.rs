//! Relations between two patterns, whatever is published: whether they overlap, and whether one covers the
//! other.
//!
//! Both questions are about all subjects that can be written, of any length: limits do not matter. Both
//! algorithms go through both patterns at once, in time words times words, without recursion.
//!
//! There are two special cases. A subject of one empty word cannot be written (its text is the empty one,
//! which has no words or is rejected), so MQTT's `/#` means at least two levels. And MQTT's `#` never matches
//! zero words in total.

use crate::{Dialect, Pattern, PatternWord};

use PatternWord::{Literal, Many, One};

/// Words in which `Many` stands for zero or more words, in normal form.
type Words<'a> = Vec<PatternWord<'a>>;

impl Pattern {
    /// Reports whether some subject matches both patterns. Patterns of two dialects never overlap.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        if self.dialect() != other.dialect() || passes_over(self, other) || passes_over(other, self) {
            return false;
        }
        let others = readings(other);
        readings(self).iter().any(|words| others.iter().any(|other| words_overlap(words, other)))
    }

    /// Reports whether this pattern matches every subject that the other one matches. No pattern covers one
    /// of another dialect.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        if self.dialect() != other.dialect() || passes_over(self, other) {
            return false;
        }
        let words = expanded(self);
        readings(other).iter().all(|other| words_cover(&words, other))
    }
}

/// Reports whether the first pattern's leading wildcard excludes all subjects that the second matches: MQTT's
/// rule of `$` topics.
fn passes_over(wild: &Pattern, hidden: &Pattern) -> bool {
    let is_hidden = |word| matches!(word, Literal(word) if word.starts_with(b"$"));
    wild.dialect().dollar_rule()
        && wild.words().next().is_some_and(|word| !matches!(word, Literal(_)))
        && hidden.words().next().is_some_and(is_hidden)
}

/// The words, with a `Many` that needs at least one word written as `One` and `Many`.
fn expanded(pattern: &Pattern) -> Words<'_> {
    let mut words = Vec::new();
    for (at, word) in pattern.words().enumerate() {
        let never_nothing = at == 0 && pattern.dialect() == Dialect::Mqtt;
        if word == Many && (never_nothing || pattern.dialect().many_min() == 1) {
            words.push(One);
        }
        words.push(word);
    }
    words
}

/// Patterns that together match the same subjects as this one, but not the subject of one empty word.
///
/// That subject matters only if a pattern's only word is a literal empty one. A pattern that accepts any word
/// also accepts others that have the same effect.
fn readings(pattern: &Pattern) -> Vec<Words<'_>> {
    const EMPTY: PatternWord<'_> = Literal(b"");
    let words = expanded(pattern);
    match *words {
        [Many, EMPTY] => vec![vec![One, Many, EMPTY]],
        [EMPTY, Many] => vec![vec![EMPTY, One, Many]],
        [Many, EMPTY, Many] => vec![vec![One, Many, EMPTY, Many], vec![Many, EMPTY, One, Many]],
        _ => vec![words],
    }
}

/// Reports whether some subject matches both. `reached[j]` tells whether some start of a subject matches the
/// words of `a` so far and the first `j` words of `b`.
fn words_overlap(a: &[PatternWord<'_>], b: &[PatternWord<'_>]) -> bool {
    let mut reached = vec![false; b.len() + 1];
    reached[0] = true;
    skip_many(b, &mut reached);
    for word in a {
        let mut next = vec![false; b.len() + 1];
        for (at, other) in b.iter().enumerate().filter(|(at, _)| reached[*at]) {
            match (word, other) {
                // A `Many` of `a` consumes words of `b`: see below.
                (Many, _) => {}
                // A `Many` of `b` consumes this word and stays.
                (_, Many) => next[at] = true,
                (Literal(word), Literal(other)) => next[at + 1] |= word == other,
                (One, _) | (_, One) => next[at + 1] = true,
            }
        }
        if *word == Many {
            let first = reached.iter().position(|reached| *reached).unwrap_or(reached.len());
            next[first..].fill(true);
        }
        reached = next;
        skip_many(b, &mut reached);
    }
    reached[b.len()]
}

/// A `Many` may match zero words.
fn skip_many(words: &[PatternWord<'_>], reached: &mut [bool]) {
    for (at, word) in words.iter().enumerate() {
        reached[at + 1] |= reached[at] && *word == Many;
    }
}

/// Reports whether `a` matches every subject that `b` matches.
///
/// There are more words than both patterns name. So a `One` of `b` is as good as a word that `a` does not
/// name, and a `Many` of `b` may stand for very many such words, or for none. In `a`, only a run of wildcards
/// with a `Many` can match it: a run of `k` words and a `Many` matches any stretch of `b` that has at least
/// `k` words even if each `Many` in it stands for none.
///
/// `reached[j]` tells whether the words of `a` so far cover the first `j` words of `b`.
fn words_cover(a: &[PatternWord<'_>], b: &[PatternWord<'_>]) -> bool {
    let mut reached = vec![false; b.len() + 1];
    reached[0] = true;
    let mut rest = a;
    while let Some((word, after)) = rest.split_first() {
        let ones = rest.iter().take_while(|word| **word == One).count();
        if rest.get(ones) == Some(&Many) {
            reached = after_run(b, &reached, ones);
            rest = &rest[ones + 1..];
            continue;
        }
        let takes = |other: &PatternWord<'_>| *other != Many && (*word == One || word == other);
        let step = |end: usize| end > 0 && reached[end - 1] && takes(&b[end - 1]);
        reached = (0..=b.len()).map(step).collect();
        rest = after;
    }
    reached[b.len()]
}

/// Where a run of `ones` words and a `Many` can end: from the first start on, every position that leaves it
/// enough words.
fn after_run(b: &[PatternWord<'_>], reached: &[bool], ones: usize) -> Vec<bool> {
    let mut words = None;
    let mut next = Vec::with_capacity(reached.len());
    for (at, reached) in reached.iter().enumerate() {
        if let Some(words) = &mut words {
            *words += usize::from(b[at - 1] != Many);
        } else if *reached {
            words = Some(0);
        }
        next.push(words.is_some_and(|words| words >= ones));
    }
    next
}
