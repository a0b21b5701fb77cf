//! `tailrace log ...`: looks into the files of a data folder. Read only, with or without a server.

use std::process::ExitCode;

use clap::Args;

use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct LogArguments {}

pub(crate) fn run(_: &LogArguments) -> Result<ExitCode, Failure> {
    Ok(ExitCode::SUCCESS)
}
