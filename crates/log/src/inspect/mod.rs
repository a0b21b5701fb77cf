//! Looking at a partition's folder offline: `tailrace log verify` and `tailrace log dump`. Read only: what the log does at a start is
//! done in memory. Also reads folders that Kafka wrote, as far as the `.log` files go.

mod dump;
mod foreign;
mod report;
mod verify;

pub use dump::{Dump, DumpedBatch, dump_dir};
pub use report::{Problem, Report, SegmentReport};
pub(crate) use verify::identity_of;
pub use verify::{verify_dir, verify_dir_paced};
