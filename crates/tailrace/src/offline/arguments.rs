//! The command line of `tailrace log`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use tailrace_cli::output::Output;

#[derive(Debug, Args)]
pub(crate) struct LogArguments {
    #[command(subcommand)]
    pub(super) verb: LogVerb,
}

#[derive(Debug, Subcommand)]
pub(super) enum LogVerb {
    /// Show the batches of segments, and their records.
    #[command(after_help = "Examples:\n  tailrace log dump tailrace-data/orders-0\n  \
        tailrace log dump --records -o json tailrace-data/orders-0/00000000000000000000.log")]
    Dump(DumpArguments),
    /// Check every segment and report damage; exit status 1 if there is any.
    #[command(
        after_help = "Problems that the next start of the server repairs by itself (a tail that was being written when \
        the server was killed, a missing index) are mentioned, but are not damage.\n\n\
        Examples:\n  tailrace log verify tailrace-data\n  tailrace log verify tailrace-data/orders-0 -o json"
    )]
    Verify(VerifyArguments),
    /// Show how a damaged data folder can be repaired, and do it with --execute; exit status 1 if some damage
    /// remains.
    #[command(
        after_help = "Derived data is rewritten: indexes, headers, partition.meta, a checkpoint. Damaged records are \
        restored from a copy (--from), or given up (--give-up): their offsets stay, and the damaged bytes are kept in a \
        separate file. Without --execute nothing is changed. The server that uses the folder must be stopped.\n\n\
        Examples:\n  tailrace log repair tailrace-data\n  \
        tailrace log repair tailrace-data --from /backup/tailrace-data --execute\n  \
        tailrace log repair tailrace-data/orders-0 --give-up --execute"
    )]
    Repair(RepairArguments),
}

#[derive(Debug, Args)]
pub(super) struct DumpArguments {
    /// A data folder, partition folders, or .log files; files written by Kafka work, too
    #[arg(value_name = "PATH", required = true)]
    pub(super) paths: Vec<PathBuf>,
    /// Show each record, too
    #[arg(short, long)]
    pub(super) records: bool,
    /// Text, or one JSON object per line
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
pub(super) struct VerifyArguments {
    /// A data folder, or a partition's folder
    #[arg(value_name = "DIR")]
    pub(super) dir: PathBuf,
    /// Read at most this much per second, such as 64MiB [default: as fast as possible]
    #[arg(long, value_name = "BYTES", value_parser = tailrace_cli::text::units::parse_bytes)]
    pub(super) rate: Option<u64>,
    /// Text or JSON
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
}

#[derive(Debug, Args)]
pub(super) struct RepairArguments {
    /// A data folder, or a partition's folder
    #[arg(value_name = "DIR")]
    pub(super) dir: PathBuf,
    /// Restore from this folder: another node's data folder or partition folder, or a copy; may be repeated
    #[arg(long, value_name = "DIR")]
    pub(super) from: Vec<PathBuf>,
    /// Give up what no copy has
    #[arg(long)]
    pub(super) give_up: bool,
    /// Do it, instead of only showing what would be done
    #[arg(long)]
    pub(super) execute: bool,
    /// Text or JSON
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
}
