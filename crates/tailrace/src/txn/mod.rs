//! `tailrace txn ...`: shows transactions, and aborts hanging ones.

mod abort;
mod arguments;
mod coordinator;
mod describe;
mod list;

use std::process::ExitCode;

use tailrace_cli::failure::Failure;

pub(crate) use self::arguments::TxnArguments;
use self::arguments::TxnVerb;
use crate::client::{Cluster, block_on};

pub(crate) fn run(arguments: &TxnArguments) -> Result<ExitCode, Failure> {
    let verb = &arguments.verb;
    block_on(async {
        let mut cluster = Cluster::connect(&verb.common().connect).await?;
        match verb {
            TxnVerb::List(arguments) => list::run(&mut cluster, arguments).await,
            TxnVerb::Describe(arguments) => describe::run(&mut cluster, arguments).await,
            TxnVerb::Abort(arguments) => abort::run(&mut cluster, arguments).await,
        }
    })
}
