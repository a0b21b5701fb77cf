//! `tailrace token ...`: makes, shows, renews and ends delegation tokens (KIP-48).
//!
//! The secret of a token, its HMAC, is printed once, when the token is made. It never comes from the command
//! line: a token is named by its id.

mod arguments;
mod create;
mod extend;
mod list;
mod tokens;

use std::process::ExitCode;

use tailrace_cli::failure::Failure;

pub(crate) use self::arguments::TokenArguments;
use self::arguments::TokenVerb;
use crate::client::{Cluster, block_on};

pub(crate) fn run(arguments: &TokenArguments) -> Result<ExitCode, Failure> {
    let verb = &arguments.verb;
    block_on(async {
        let mut cluster = Cluster::connect(&verb.common().ask.connect).await?;
        match verb {
            TokenVerb::Create(arguments) => create::run(&mut cluster, arguments).await,
            TokenVerb::List(arguments) => list::run(&mut cluster, arguments).await,
            TokenVerb::Renew(arguments) => extend::renew(&mut cluster, arguments).await,
            TokenVerb::Expire(arguments) => extend::expire(&mut cluster, arguments).await,
        }
    })
}
