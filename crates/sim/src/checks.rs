//! Tests of this crate's private parts, as functions that panic. `tests/seeded` runs them.
//!
//! A test build of the crate itself would compile all of it a second time, optimized, for these few
//! tests. That took 130 s of 1,090 s that all test builds of the workspace took.

pub use crate::network::checks::*;
pub use crate::storm::checks::*;
