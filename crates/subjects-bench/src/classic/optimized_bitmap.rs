//! The optimized inverted bitmap: bitmaps of subscriptions for every position and word, which a lookup
//! intersects.
//!
//! Source: Tyler Treat, "Fast Topic Matching" (2016), section "Optimized Inverted Bitmap". Every position has
//! - a row for each literal word that a pattern has there,
//! - the row *others*: patterns that accept any word there (a wildcard, or what follows a `#`),
//! - the row *null*: patterns that accept a subject that ends before this position.
//!
//! The essay copies *others* into each word's row. Here a lookup unites the two instead, so that a wildcard
//! costs one bit and not one per word. A lookup costs one bit operation per 64 candidates and position, and
//! no subject must be known in advance.
//!
//! Rows cover what comes before the first `#`, and whether the subject may end. A direct match on each
//! candidate checks what they cannot: words after a `#`, and words from [`POSITIONS_MAX`] on.

use std::collections::HashMap;
use std::sync::RwLock;

use tailrace_subjects::{Dialect, Limits, Matcher, Pattern, PatternWord, Subject, SubscribeError, TextError};

use super::bitmap::{Bitmap, Columns};
use super::direct::direct_match;
use super::{ClassicSubscription, Rules, read, write};

/// Positions that have rows. A subscription with a `#` sets two bits at each. Subjects have fewer than 32
/// words in practice.
const POSITIONS_MAX: usize = 32;

/// Bitmaps of subscriptions by position and word.
#[derive(Debug)]
pub struct OptimizedBitmap<V> {
    rules: Rules,
    table: RwLock<Table<V>>,
}

#[derive(Debug)]
struct Table<V> {
    positions: Vec<Position>,
    /// *null* of the position after the last.
    null_last: Bitmap,
    /// Patterns that accept subjects of more than [`POSITIONS_MAX`] words.
    deeper: Bitmap,
    /// Patterns that need a direct match in addition to the rows.
    unsure: Bitmap,
    columns: Columns<V>,
}

#[derive(Clone, Debug, Default)]
struct Position {
    words: HashMap<Box<[u8]>, Bitmap>,
    others: Bitmap,
    null: Bitmap,
}

/// The bits of a pattern in the rows.
struct Plan<'a> {
    /// The words before the first `#`, as far as there are positions; `None` is a wildcard.
    prefix: Vec<Option<&'a [u8]>>,
    /// How many words a subject may have, as far as the rows can tell: the minimum, and whether there is no
    /// maximum.
    words_min: usize,
    open: bool,
    unsure: bool,
}

impl<'a> Plan<'a> {
    fn new(pattern: &'a Pattern) -> Self {
        let mut plan = Self { prefix: Vec::new(), words_min: 0, open: false, unsure: false };
        let mut words = pattern.words();
        for word in words.by_ref() {
            if word == PatternWord::Many {
                plan.open = true;
                break;
            }
            if plan.prefix.len() == POSITIONS_MAX {
                plan.words_min = POSITIONS_MAX + 1;
                (plan.open, plan.unsure) = (true, true);
                return plan;
            }
            plan.prefix.push(match word {
                PatternWord::Literal(word) => Some(word),
                PatternWord::One | PatternWord::Many => None,
            });
        }
        plan.words_min = plan.prefix.len() + if plan.open { pattern.dialect().many_min() } else { 0 };
        plan.unsure = words.next().is_some();
        plan
    }
}

impl<V> Table<V> {
    fn new() -> Self {
        Self {
            positions: vec![Position::default(); POSITIONS_MAX],
            null_last: Bitmap::default(),
            deeper: Bitmap::default(),
            unsure: Bitmap::default(),
            columns: Columns::new(),
        }
    }

    fn null(&mut self, words: usize) -> &mut Bitmap {
        match self.positions.get_mut(words) {
            Some(position) => &mut position.null,
            None => &mut self.null_last,
        }
    }

    /// Sets or clears every bit of a pattern's column.
    fn change(&mut self, plan: &Plan<'_>, change: impl Fn(&mut Bitmap)) {
        for (position, word) in self.positions.iter_mut().zip(&plan.prefix) {
            match word {
                Some(word) => {
                    let row = position.words.entry((*word).into()).or_default();
                    change(row);
                    if row.is_empty() {
                        position.words.remove(*word);
                    }
                }
                None => change(&mut position.others),
            }
        }
        if plan.open {
            self.positions[plan.prefix.len()..].iter_mut().for_each(|position| change(&mut position.others));
            (plan.words_min..=POSITIONS_MAX).for_each(|words| change(self.null(words)));
            change(&mut self.deeper);
        } else {
            change(self.null(plan.words_min));
        }
        if plan.unsure {
            change(&mut self.unsure);
        }
    }

    /// The columns whose rows agree with the subject. Smallest rows first would be faster still, so one pass
    /// finds the smallest.
    fn candidates(&self, subject: &Subject<'_>) -> Bitmap {
        let none = Bitmap::default();
        let words = subject.words().count();
        let mut rows = Vec::with_capacity(words.min(POSITIONS_MAX) + 1);
        for (index, (position, word)) in self.positions.iter().zip(subject.words()).enumerate() {
            let others = if index == 0 && subject.is_hidden() { &none } else { &position.others };
            rows.push((position.words.get(word).unwrap_or(&none), others));
        }
        let end = match self.positions.get(words) {
            Some(position) => &position.null,
            None if words == POSITIONS_MAX => &self.null_last,
            None => &self.deeper,
        };
        rows.push((end, &none));
        let size = |(row, others): &(&Bitmap, &Bitmap)| row.blocks() + others.blocks();
        let smallest = (0..rows.len()).min_by_key(|at| size(&rows[*at])).unwrap_or(0);
        let (row, others) = rows.swap_remove(smallest);
        let mut candidates = row.union(others);
        for (row, others) in rows {
            candidates.keep(row, others);
        }
        candidates
    }
}

impl<V> OptimizedBitmap<V> {
    /// Creates an empty matcher with the default limits.
    #[must_use]
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self::with_limits(dialect, Limits::default())
    }

    /// Creates an empty matcher.
    #[must_use]
    pub fn with_limits(dialect: Dialect, limits: Limits) -> Self {
        Self { rules: Rules { dialect, limits }, table: RwLock::new(Table::new()) }
    }
}

impl<V: Clone + Send + Sync> Matcher<V> for OptimizedBitmap<V> {
    type Subscription = ClassicSubscription;

    fn name(&self) -> &'static str {
        "optimized inverted bitmap"
    }

    fn dialect(&self) -> Dialect {
        self.rules.dialect
    }

    fn subscribe(&self, pattern: &Pattern, value: V) -> Result<ClassicSubscription, SubscribeError> {
        let mut table = write(&self.table);
        self.rules.check(pattern, table.columns.len())?;
        let subscription = ClassicSubscription::new(pattern);
        let column = table.columns.add(&subscription, value);
        table.change(&Plan::new(pattern), |row| row.set(column));
        Ok(subscription)
    }

    fn unsubscribe(&self, subscription: ClassicSubscription) -> bool {
        let mut table = write(&self.table);
        let Some(column) = table.columns.remove(subscription.id) else { return false };
        table.change(&Plan::new(&subscription.pattern), |row| row.clear(column));
        true
    }

    fn matches(&self, subject: &[u8], found: &mut Vec<V>) -> Result<(), TextError> {
        found.clear();
        let subject = Subject::parse(self.rules.dialect, subject, &self.rules.limits)?;
        let table = read(&self.table);
        for column in table.candidates(&subject).columns() {
            let (pattern, value) = table.columns.get(column);
            if !table.unsure.contains(column) || direct_match(pattern, &subject) {
                found.push(value.clone());
            }
        }
        Ok(())
    }

    fn len(&self) -> usize {
        read(&self.table).columns.len()
    }
}
