//! What the development tasks share with the benchmarks.

pub mod run;
