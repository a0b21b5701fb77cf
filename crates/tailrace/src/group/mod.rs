//! `tailrace group ...`: shows consumer groups and their lag, sets their offsets, deletes them.

mod arguments;
mod choice;
mod delete;
mod describe;
mod lag;
mod list;
mod reset;
mod scope;
mod target;
mod words;

use std::process::ExitCode;

use crate::client::{Cluster, block_on};

pub(crate) use arguments::GroupArguments;
use arguments::GroupVerb;
use tailrace_cli::failure::Failure;

pub(crate) fn run(arguments: &GroupArguments) -> Result<ExitCode, Failure> {
    let verb = &arguments.verb;
    block_on(async {
        let mut cluster = Cluster::connect(&verb.common().connect).await?;
        match verb {
            GroupVerb::List(arguments) => list::run(&mut cluster, arguments).await,
            GroupVerb::Describe(arguments) => describe::run(&mut cluster, arguments).await,
            GroupVerb::Lag(arguments) => lag::run(&mut cluster, arguments).await,
            GroupVerb::Reset(arguments) => reset::run(&mut cluster, arguments).await,
            GroupVerb::Delete(arguments) => delete::run(&mut cluster, arguments).await,
        }
    })
}
