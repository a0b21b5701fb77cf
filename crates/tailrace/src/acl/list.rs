//! `tailrace acl list`.

use std::process::ExitCode;

use tailrace_cli::failure::{Failure, usage};
use tailrace_cli::output::{Output, print, print_json};

use super::arguments::ListArguments;
use super::filters::filters;
use super::find::find;
use super::rule::{Rule, table};
use super::words::Pattern;
use crate::client::{Cluster, block_on};

/// A name stands for all rules that apply to it, unless `--prefixed` asks for a prefix.
pub(super) fn run(arguments: &ListArguments) -> Result<ExitCode, Failure> {
    let filters = filters(&arguments.filter, Pattern::MATCH).map_err(usage)?;
    block_on(async {
        let mut cluster = Cluster::connect(&arguments.common.connect).await?;
        let rules = find(&mut cluster, &filters).await?;
        match arguments.common.output {
            Output::Text => print(&table(&rules))?,
            Output::Json => print_json(&rules.iter().map(Rule::to_json).collect::<Vec<_>>())?,
        }
        Ok(ExitCode::SUCCESS)
    })
}
