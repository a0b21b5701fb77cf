//! `tailrace quota ...`: sets, shows and removes the quotas of users, client ids and addresses.
//!
//! Every node applies a quota on its own: three nodes let three times as much pass.

mod arguments;
mod change;
mod entity;
mod limits;
mod list;
mod remove;
mod set;

use std::process::ExitCode;

use tailrace_cli::failure::Failure;

pub(crate) use self::arguments::QuotaArguments;
use self::arguments::QuotaVerb;

pub(crate) fn run(arguments: &QuotaArguments) -> Result<ExitCode, Failure> {
    match &arguments.verb {
        QuotaVerb::Set(arguments) => set::run(arguments),
        QuotaVerb::List(arguments) => list::run(arguments),
        QuotaVerb::Remove(arguments) => remove::run(arguments),
    }
}
