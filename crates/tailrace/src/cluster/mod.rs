//! `tailrace cluster ...`: the nodes of a cluster, where replicas are, and whether their data is intact.

mod arguments;
mod decommission;
mod moves;
mod pages;
mod placement;
mod reassign;
mod repair;
mod scrub;
mod scrub_report;
mod status;
mod wait;

use std::process::ExitCode;

use tailrace_cli::failure::Failure;

pub(crate) use self::arguments::ClusterArguments;
use self::arguments::ClusterVerb;
use crate::client::{Cluster, block_on};

pub(crate) fn run(arguments: &ClusterArguments) -> Result<ExitCode, Failure> {
    let verb = &arguments.verb;
    block_on(async {
        if let ClusterVerb::Status(arguments) = verb {
            return status::run(arguments).await;
        }
        let mut cluster = Cluster::connect(&verb.common().connect).await?;
        match verb {
            ClusterVerb::Status(arguments) => status::run(arguments).await,
            ClusterVerb::Reassign(arguments) => reassign::run(&mut cluster, arguments).await,
            ClusterVerb::Decommission(arguments) => decommission::run(&mut cluster, arguments).await,
            ClusterVerb::Scrub(arguments) => scrub::run(&mut cluster, arguments).await,
            ClusterVerb::Repair(arguments) => repair::run(&mut cluster, arguments).await,
        }
    })
}
