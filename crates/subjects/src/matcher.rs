//! What a matcher can do, whatever its algorithm.

use crate::{Dialect, Pattern, SubscribeError, TextError};

/// Subscriptions by pattern, searched by subject. All methods may be called from any number of threads at once.
///
/// A value is found once per subscription: the same pattern subscribed twice gives two, as NATS does. Who wants once per client, or one
/// member of a queue group, decides that among the values found; the group's name belongs into the value.
pub trait Matcher<V>: Send + Sync {
    /// What [`Matcher::subscribe`] gives and [`Matcher::unsubscribe`] takes. Dropping it leaves the subscription in place.
    type Subscription: Send;

    /// The name of the algorithm, as the benchmark prints it.
    fn name(&self) -> &'static str;

    /// The dialect of its patterns and subjects.
    fn dialect(&self) -> Dialect;

    /// Adds a subscription. Its value is found by every [`Matcher::matches`] that begins after this returns.
    ///
    /// # Errors
    /// [`SubscribeError`]; nothing was added then.
    fn subscribe(&self, pattern: &Pattern, value: V) -> Result<Self::Subscription, SubscribeError>;

    /// Removes a subscription; false if this matcher does not know it.
    fn unsubscribe(&self, subscription: Self::Subscription) -> bool;

    /// Puts the values of all subscriptions whose pattern matches into `found`, in no particular order, after
    /// clearing it.
    ///
    /// # Errors
    /// [`TextError`] if the subject is malformed; `found` is empty then.
    fn matches(&self, subject: &[u8], found: &mut Vec<V>) -> Result<(), TextError>;

    /// The number of live subscriptions.
    fn len(&self) -> usize;

    /// Whether there is no subscription.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
