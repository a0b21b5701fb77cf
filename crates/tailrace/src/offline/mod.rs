//! `tailrace log ...`: inspects the files of a data folder, with or without a running server, and changes
//! nothing. The exception is `repair --execute`, which needs the server to be stopped.

mod arguments;
mod dump;
mod folders;
mod progress;
mod repair;
mod verify;

use std::process::ExitCode;

use tailrace_cli::failure::Failure;

pub(crate) use self::arguments::LogArguments;
use self::arguments::LogVerb;

pub(crate) fn run(arguments: &LogArguments) -> Result<ExitCode, Failure> {
    match &arguments.verb {
        LogVerb::Dump(arguments) => dump::run(arguments),
        LogVerb::Verify(arguments) => verify::run(arguments),
        LogVerb::Repair(arguments) => repair::run(arguments),
    }
}
