//! What the development tasks share with the programs of their own: benchmarks and mutants by operators.

pub mod copy;
pub mod run;
