//! Publishing into a stream: what the headers of a message ask for, and whether it is stored.
//!
//! - [`PublishHeaders`]: the headers that mean something to a stream.
//! - [`judge`]: the checks, in the order of a clustered nats-server, in which a retry of a stored message is
//!   told so before anything else is compared.
//! - [`StreamView`]: what the checks need to know of the stream.

mod counter;
mod headers;
mod judge;
mod schedule;
mod view;

pub use headers::{PublishHeaders, Rollup, Ttl};
pub use judge::{HeaderEdit, Publish, Store, Verdict, judge, refusal};
pub use schedule::{Schedule, ScheduleError};
pub use view::{StoredParts, StreamView};
