//! `tailrace acl ...`: adds, shows and removes rules about what users may do, and says which one decides.

mod add;
mod arguments;
mod explain;
mod filters;
mod find;
mod list;
mod plan;
mod refusals;
mod remove;
mod resources;
mod rule;
mod words;

use std::process::ExitCode;

use tailrace_cli::failure::Failure;

pub(crate) use self::arguments::AclArguments;
use self::arguments::AclVerb;

pub(crate) fn run(arguments: &AclArguments) -> Result<ExitCode, Failure> {
    match &arguments.verb {
        AclVerb::Add(arguments) => add::run(arguments),
        AclVerb::List(arguments) => list::run(arguments),
        AclVerb::Remove(arguments) => remove::run(arguments),
        AclVerb::Explain(arguments) => explain::run(arguments),
    }
}
