//! Offline inspection of a partition's folder: `tailrace log verify` and `tailrace log dump`. Read only: the
//! steps of a start run in memory. Also reads the `.log` files of folders that Kafka wrote.

mod dump;
mod foreign;
mod report;
mod verify;

pub use dump::{Dump, DumpedBatch, dump_dir};
pub use report::{Problem, Report, SegmentReport};
pub(crate) use verify::identity_of;
pub use verify::{verify_dir, verify_dir_paced};
