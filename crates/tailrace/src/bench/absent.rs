//! `tailrace bench` in a build without the feature `bench`: it says so, whatever the arguments.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use tailrace_cli::failure::{Failure, speak_json, usage};
use tailrace_cli::output::asks_for_json;

// The words after the verb are ignored. `--help` gets the same answer.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct BenchArguments {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

pub(crate) fn run(arguments: BenchArguments) -> Result<ExitCode, Failure> {
    if asks_for_json(&arguments.words) {
        speak_json();
    }
    Err(usage(
        "this tailrace was built without bench; a build has it unless --no-default-features leaves it out, and \
         --features bench adds it",
    ))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    enum Line {
        Bench(BenchArguments),
    }

    #[test]
    fn whatever_is_asked_the_answer_is_what_build_has_it() {
        for line in [
            "tailrace bench",
            "tailrace bench --help",
            "tailrace bench -h",
            "tailrace bench run --help",
            "tailrace bench run --system nats --rate 20k -q",
            "tailrace bench agent --clock-shift-ns -5",
            "tailrace bench run -- plan.toml",
        ] {
            let words = line.split(' ');
            let Line::Bench(arguments) =
                Line::try_parse_from(words).unwrap_or_else(|e| panic!("{line}: {e}"));
            let text = run(arguments).unwrap_err().to_string();
            assert!(text.contains("built without bench"), "{text}");
            assert!(text.contains("--no-default-features") && text.contains("--features bench"), "{text}");
        }
    }
}
