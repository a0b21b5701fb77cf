//! `tailrace user ...`: adds, shows, changes and removes users with SCRAM credentials.
//!
//! A password never leaves this process: it is hashed here, and the server gets the salt, the iterations and
//! the salted password.

mod add;
mod arguments;
mod credentials;
mod list;
mod remove;
mod rotate;
mod switch;

use std::process::ExitCode;

use tailrace_cli::failure::Failure;

pub(crate) use self::arguments::UserArguments;
use self::arguments::UserVerb;
use self::switch::Switch;
use crate::client::{Cluster, block_on};

pub(crate) fn run(arguments: &UserArguments) -> Result<ExitCode, Failure> {
    let verb = &arguments.verb;
    block_on(async {
        let mut cluster = Cluster::connect(&verb.common().connect).await?;
        match verb {
            UserVerb::Add(arguments) => add::run(&mut cluster, arguments).await,
            UserVerb::List(arguments) => list::run(&mut cluster, arguments).await,
            UserVerb::Rotate(arguments) => rotate::run(&mut cluster, arguments).await,
            UserVerb::Remove(arguments) => remove::run(&mut cluster, arguments).await,
            UserVerb::Disable(arguments) => switch::run(&mut cluster, arguments, Switch::Disable).await,
            UserVerb::Enable(arguments) => switch::run(&mut cluster, arguments, Switch::Enable).await,
        }
    })
}
