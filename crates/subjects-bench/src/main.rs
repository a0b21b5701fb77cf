//! The worker of `cargo xtask bench subjects`; it can also be run by itself:
//!
//! ```text
//! cargo build --release -p tailrace-subjects-bench
//! target/release/subjects-bench table tailrace --count 1000000 --seconds 1     # one thread, 1M patterns
//! target/release/subjects-bench threads tailrace --threads 1,2,4 --writes 0,10 # 100k patterns
//! ```

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match tailrace_subjects_bench::run(&arguments, None) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}
