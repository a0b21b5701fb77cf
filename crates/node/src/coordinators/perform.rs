//! What coordinators want done elsewhere, once it is committed.

use std::pin::Pin;
use std::sync::Arc;

use tailrace_coordination::coordinator::Coordinator;

use crate::node::Node;

/// Work that is being done.
pub type Performed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A coordinator whose work the shell knows to do.
pub trait Perform: Coordinator {
    /// Carries out what the core of this partition wants done.
    fn perform(node: Arc<Node>, partition: i32, work: Self::Work) -> Performed;
}
