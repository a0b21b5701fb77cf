//! The inverted bitmap: for every subject that can be published, a bitmap of the subscriptions that match it.
//!
//! Source: Tyler Treat, "Fast Topic Matching" (2016), section "Inverted Bitmap". The subscribe does all the
//! work: it tries its pattern on every known subject (a pattern without wildcards needs one hash). A lookup
//! is one hash and one walk over set bits. The subjects must be known in advance. A valid subject that is not
//! among them is matched by trying every pattern, like [`Naive`](super::Naive): slow, but still correct.

use std::collections::HashMap;
use std::sync::RwLock;

use tailrace_subjects::{Dialect, Limits, Matcher, Pattern, Subject, SubscribeError, TextError};

use super::bitmap::{Bitmap, Columns};
use super::direct::direct_match;
use super::{ClassicSubscription, Rules, read, write};

/// A bitmap of subscriptions for every subject that is known in advance.
#[derive(Debug)]
pub struct InvertedBitmap<V> {
    rules: Rules,
    /// Row number of every known subject.
    space: HashMap<Box<[u8]>, usize>,
    table: RwLock<Table<V>>,
}

#[derive(Debug)]
struct Table<V> {
    rows: Vec<Bitmap>,
    columns: Columns<V>,
}

impl<V> InvertedBitmap<V> {
    /// Creates a matcher for these subjects, with the default limits.
    ///
    /// # Errors
    /// [`TextError`] of the first malformed subject.
    pub(crate) fn new<S: AsRef<[u8]>>(
        dialect: Dialect,
        subjects: impl IntoIterator<Item = S>,
    ) -> Result<Self, TextError> {
        Self::with_limits(dialect, Limits::default(), subjects)
    }

    /// Creates a matcher for these subjects.
    ///
    /// # Errors
    /// [`TextError`] of the first malformed subject.
    pub fn with_limits<S: AsRef<[u8]>>(
        dialect: Dialect,
        limits: Limits,
        subjects: impl IntoIterator<Item = S>,
    ) -> Result<Self, TextError> {
        let mut space = HashMap::new();
        for subject in subjects {
            let subject = Subject::parse(dialect, subject.as_ref(), &limits)?.as_bytes().into();
            let row = space.len();
            space.entry(subject).or_insert(row);
        }
        let table = Table { rows: vec![Bitmap::default(); space.len()], columns: Columns::new() };
        Ok(Self { rules: Rules { dialect, limits }, space, table: RwLock::new(table) })
    }

    /// Calls `change` for the row of every known subject that the pattern matches.
    fn for_each_row(&self, table: &mut Table<V>, pattern: &Pattern, change: impl Fn(&mut Bitmap)) {
        if pattern.is_literal() {
            if let Some(row) = self.space.get(pattern.as_bytes()) {
                change(&mut table.rows[*row]);
            }
            return;
        }
        for (subject, row) in &self.space {
            let subject = Subject::parse(self.rules.dialect, subject, &self.rules.limits);
            if direct_match(pattern, &subject.expect("checked when it came")) {
                change(&mut table.rows[*row]);
            }
        }
    }
}

impl<V: Clone + Send + Sync> Matcher<V> for InvertedBitmap<V> {
    type Subscription = ClassicSubscription;

    fn name(&self) -> &'static str {
        "inverted bitmap"
    }

    fn dialect(&self) -> Dialect {
        self.rules.dialect
    }

    fn subscribe(&self, pattern: &Pattern, value: V) -> Result<ClassicSubscription, SubscribeError> {
        let mut table = write(&self.table);
        self.rules.check(pattern, table.columns.len())?;
        let subscription = ClassicSubscription::new(pattern);
        let column = table.columns.add(&subscription, value);
        self.for_each_row(&mut table, pattern, |row| row.set(column));
        Ok(subscription)
    }

    fn unsubscribe(&self, subscription: ClassicSubscription) -> bool {
        let mut table = write(&self.table);
        let Some(column) = table.columns.remove(subscription.id) else { return false };
        self.for_each_row(&mut table, &subscription.pattern, |row| row.clear(column));
        true
    }

    fn matches(&self, subject: &[u8], found: &mut Vec<V>) -> Result<(), TextError> {
        found.clear();
        let subject = Subject::parse(self.rules.dialect, subject, &self.rules.limits)?;
        let table = read(&self.table);
        match self.space.get(subject.as_bytes()) {
            Some(row) => {
                let values = table.rows[*row].columns().map(|column| table.columns.get(column).1.clone());
                found.extend(values);
            }
            None => {
                let hits = table.columns.iter().filter(|(pattern, _)| direct_match(pattern, &subject));
                found.extend(hits.map(|(_, value)| value.clone()));
            }
        }
        Ok(())
    }

    fn len(&self) -> usize {
        read(&self.table).columns.len()
    }
}
