//! `tailrace log ...`: looks into the files of a data folder. Read only, with or without a server; nothing is recovered,
//! rebuilt or removed.

mod dump;
mod folders;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::args::Output;
use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct LogArguments {
    #[command(subcommand)]
    verb: LogVerb,
}

#[derive(Debug, Subcommand)]
enum LogVerb {
    /// Show the batches of segments, and their records.
    #[command(after_help = "Examples:\n  tailrace log dump tailrace-data/orders-0\n  \
        tailrace log dump --records -o json tailrace-data/orders-0/00000000000000000000.log")]
    Dump(DumpArguments),
    /// Check every segment and say what is damaged; exit status 1 if anything is.
    #[command(
        after_help = "What the next start of the server puts right by itself (a tail that was being written when \
        the server was killed, an index that is missing) is mentioned, but is no damage.\n\n\
        Examples:\n  tailrace log verify tailrace-data\n  tailrace log verify tailrace-data/orders-0 -o json"
    )]
    Verify(VerifyArguments),
}

#[derive(Debug, Args)]
struct DumpArguments {
    /// A data folder, partition folders, or .log files; those that Kafka wrote too
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Also each record
    #[arg(short, long)]
    records: bool,
    /// Lines for people, or one JSON object per line
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Args)]
struct VerifyArguments {
    /// A data folder, or a partition's folder
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Lines for people, or JSON
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub(crate) fn run(arguments: &LogArguments) -> Result<ExitCode, Failure> {
    match &arguments.verb {
        LogVerb::Dump(arguments) => dump::run(arguments),
        LogVerb::Verify(arguments) => verify::run(arguments),
    }
}
