//! What a node asks the front that knows NATS: who listens at a subject, and to send messages there.

use tailrace_peers::BoxFuture;

use super::consumers::PulledItem;

/// Sends what push consumers deliver, in the account of the topics, to clients of all nodes.
pub trait Deliverer: Send + Sync {
    /// Reports whether somebody listens at a subject; with a queue group, one of its members.
    fn has_interest(&self, subject: &str, group: Option<&str>) -> bool;

    /// Sends these in order to those who listen at a subject, messages under their own subjects. Waits for
    /// receivers that are behind, but not for ever. Returns how many of them, from the first on, are sent:
    /// all, unless nobody listens any more.
    fn deliver<'a>(&'a self, subject: &'a str, items: &'a [PulledItem]) -> BoxFuture<'a, usize>;

    /// Tells an advisory to those who listen at its subject. Topics do not capture it.
    fn tell<'a>(&'a self, subject: &'a str, body: &'a str) -> BoxFuture<'a, ()>;
}
