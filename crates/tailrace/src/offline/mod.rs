//! `tailrace log ...`: looks into the files of a data folder, with or without a server, and changes nothing; but for `repair
//! --execute`, which takes a server that is stopped.

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
