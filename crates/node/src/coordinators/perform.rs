//! Work that a coordinator wants done elsewhere once its decision is committed.

use std::pin::Pin;
use std::sync::Arc;

use tailrace_coordination::coordinator::Coordinator;

use crate::node::Node;

/// The future of such work.
pub type Performed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A coordinator whose work the shell can do.
pub trait Perform: Coordinator {
    /// Does the work that the core of this partition wants done.
    fn perform(node: Arc<Node>, partition: i32, work: Self::Work) -> Performed;
}
