//! `tailrace group ...`: shows groups of consumers and how far they are, sets their offsets, deletes them.

mod arguments;
mod delete;
mod describe;
mod lag;
mod list;
mod reset;
mod scope;
mod target;

use std::process::ExitCode;

use crate::client::{ClientError, Cluster, Group, block_on, find_group};

pub(crate) use arguments::GroupArguments;
use arguments::GroupVerb;
use tailrace_cli::failure::Failure;
use tailrace_cli::text::units::plural;

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

/// A group that shall be there.
async fn existing(cluster: &mut Cluster, id: &str) -> Result<Group, Failure> {
    let found = find_group(cluster, id).await?;
    Ok(found.ok_or_else(|| ClientError::NoGroup(id.to_owned()))?)
}

/// `1 member`, `2 members`.
fn members(count: usize) -> String {
    plural(count as u64, "member")
}
