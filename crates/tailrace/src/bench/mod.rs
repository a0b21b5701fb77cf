//! `tailrace bench`: mounts the verbs of `tailrace-bench`, or says that this build has none.
//!
//! The verbs come with the feature `bench`, which is on by default. A build for servers can do without
//! charts, fonts and clients of other systems.

#[cfg(any(test, not(feature = "bench")))]
mod absent;
#[cfg(feature = "bench")]
mod mounted;

#[cfg(not(feature = "bench"))]
pub(crate) use absent::{BenchArguments, run};
#[cfg(feature = "bench")]
pub(crate) use mounted::{BenchArguments, run};
