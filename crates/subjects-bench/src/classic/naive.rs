//! The naive hash map: patterns as keys, and every lookup tries every pattern.
//!
//! Source: Tyler Treat, "Fast Topic Matching" (2016), section "Naive". Subscribing costs one hash, a lookup
//! costs a direct match per distinct pattern. A reader-writer lock guards the map, so it is not lock-free.
//! Everything under the lock is atomic, which makes it linearizable.

use std::collections::HashMap;
use std::sync::RwLock;

use tailrace_subjects::{Dialect, Limits, Matcher, Pattern, Subject, SubscribeError, TextError};

use super::direct::direct_match;
use super::{ClassicSubscription, Entry, Rules, read, remove_entry, write};

/// A hash map of patterns, scanned on every lookup.
#[derive(Debug)]
pub struct Naive<V> {
    rules: Rules,
    table: RwLock<Table<V>>,
}

#[derive(Debug)]
struct Table<V> {
    patterns: HashMap<Pattern, Vec<Entry<V>>>,
    live: usize,
}

impl<V> Naive<V> {
    /// Creates an empty matcher with the default limits.
    #[must_use]
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self::with_limits(dialect, Limits::default())
    }

    /// Creates an empty matcher.
    #[must_use]
    pub fn with_limits(dialect: Dialect, limits: Limits) -> Self {
        let table = Table { patterns: HashMap::new(), live: 0 };
        Self { rules: Rules { dialect, limits }, table: RwLock::new(table) }
    }
}

impl<V: Clone + Send + Sync> Matcher<V> for Naive<V> {
    type Subscription = ClassicSubscription;

    fn name(&self) -> &'static str {
        "naive hash map"
    }

    fn dialect(&self) -> Dialect {
        self.rules.dialect
    }

    fn subscribe(&self, pattern: &Pattern, value: V) -> Result<ClassicSubscription, SubscribeError> {
        let mut table = write(&self.table);
        self.rules.check(pattern, table.live)?;
        let subscription = ClassicSubscription::new(pattern);
        let entry = Entry { id: subscription.id, value };
        table.patterns.entry(pattern.clone()).or_default().push(entry);
        table.live += 1;
        Ok(subscription)
    }

    fn unsubscribe(&self, subscription: ClassicSubscription) -> bool {
        let mut table = write(&self.table);
        let Some(entries) = table.patterns.get_mut(&subscription.pattern) else { return false };
        if !remove_entry(entries, subscription.id) {
            return false;
        }
        if entries.is_empty() {
            table.patterns.remove(&subscription.pattern);
        }
        table.live -= 1;
        true
    }

    fn matches(&self, subject: &[u8], found: &mut Vec<V>) -> Result<(), TextError> {
        found.clear();
        let subject = Subject::parse(self.rules.dialect, subject, &self.rules.limits)?;
        for (pattern, entries) in &read(&self.table).patterns {
            if direct_match(pattern, &subject) {
                found.extend(entries.iter().map(|entry| entry.value.clone()));
            }
        }
        Ok(())
    }

    fn len(&self) -> usize {
        read(&self.table).live
    }
}
