//! The interface of a matcher, whatever its algorithm.

use crate::{Dialect, Pattern, SubscribeError, TextError};

/// Subscriptions by pattern, searched by subject. All methods may be called from any number of threads at
/// once.
///
/// A value is found once per subscription: the same pattern subscribed twice yields two, as in NATS. A caller
/// that wants one per client, or one member of a queue group, chooses among the values found. The group's
/// name belongs in the value.
pub trait Matcher<V>: Send + Sync {
    /// The handle that [`Matcher::subscribe`] returns and [`Matcher::unsubscribe`] takes. Dropping it leaves
    /// the subscription in place.
    type Subscription: Send;

    /// The name of the algorithm in the benchmark's output.
    fn name(&self) -> &'static str;

    /// The dialect of its patterns and subjects.
    fn dialect(&self) -> Dialect;

    /// Adds a subscription. Every [`Matcher::matches`] that starts after this returns finds its value.
    ///
    /// # Errors
    /// [`SubscribeError`]. Nothing was added then.
    fn subscribe(&self, pattern: &Pattern, value: V) -> Result<Self::Subscription, SubscribeError>;

    /// Removes a subscription. Returns false if this matcher does not know it.
    fn unsubscribe(&self, subscription: Self::Subscription) -> bool;

    /// Clears `found`, and fills it with the values of all subscriptions whose pattern matches, in no
    /// particular order.
    ///
    /// # Errors
    /// [`TextError`] if the subject is malformed. `found` is empty then.
    fn matches(&self, subject: &[u8], found: &mut Vec<V>) -> Result<(), TextError>;

    /// The number of live subscriptions.
    fn len(&self) -> usize;

    /// Reports whether there are no subscriptions.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
