//! The verbs of `tailrace-bench`. Passes them this program's version and commit, for their results.

use std::process::ExitCode;

pub(crate) use tailrace_bench::verbs::BenchArguments;
use tailrace_bench::verbs::{self, Program};
use tailrace_cli::failure::Failure;

pub(crate) fn run(arguments: BenchArguments) -> Result<ExitCode, Failure> {
    let commit = env!("BUILT_FROM");
    let commit = (!commit.is_empty()).then_some(commit);
    verbs::run(arguments, Program { version: env!("CARGO_PKG_VERSION"), commit })
}
