//! `tailrace topic ...`: creates, shows, changes and deletes topics.

mod alter;
mod arguments;
mod change;
mod create;
mod delete;
mod describe;
mod id;
mod list;

use std::process::ExitCode;

use tailrace_cli::failure::Failure;

pub(crate) use self::arguments::TopicArguments;
use self::arguments::TopicVerb;
use crate::client::{Cluster, block_on};

pub(crate) fn run(arguments: &TopicArguments) -> Result<ExitCode, Failure> {
    let verb = &arguments.verb;
    block_on(async {
        let mut cluster = Cluster::connect(&verb.common().connect).await?;
        match verb {
            TopicVerb::Create(arguments) => create::run(&mut cluster, arguments).await,
            TopicVerb::List(arguments) => list::run(&mut cluster, arguments).await,
            TopicVerb::Describe(arguments) => describe::run(&mut cluster, arguments).await,
            TopicVerb::Alter(arguments) => alter::run(&mut cluster, arguments).await,
            TopicVerb::Delete(arguments) => delete::run(&mut cluster, arguments).await,
        }
    })
}
