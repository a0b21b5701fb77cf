//! `tailrace acl remove`.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use serde_json::json;
use tailrace_cli::failure::{Failure, plain, usage};
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::units::plural;
use tailrace_kafka_wire::messages::DeleteAclsRequest;

use super::arguments::RemoveArguments;
use super::filters::removals;
use super::find::find;
use super::refusals::Refusals;
use super::rule::{Rule, table};
use crate::client::{ClientError, Cluster, block_on, retrying};

/// Rules per request: far below the limit of Kafka's servers, which is 10,000.
const RULES_PER_REQUEST: usize = 1_000;

/// Removes exactly the rules that it has shown, not those that match by then.
pub(super) fn run(arguments: &RemoveArguments) -> Result<ExitCode, Failure> {
    let filters = removals(&arguments.filter).map_err(usage)?;
    if arguments.common.output == Output::Json && !arguments.yes {
        return Err(usage("with -o json it cannot ask; add --yes"));
    }
    block_on(async {
        let mut cluster = Cluster::connect(&arguments.common.connect).await?;
        let rules = find(&mut cluster, &filters).await?;
        if rules.is_empty() && !arguments.if_exists {
            return Err("there is no such rule; `tailrace acl list` shows all rules".into());
        }
        if !arguments.yes && !rules.is_empty() && !confirmed(&rules)? {
            return Err("nothing was removed; --yes removes without asking".into());
        }
        let (mut removed, mut refusals) = (Vec::new(), Refusals::default());
        for some in rules.chunks(RULES_PER_REQUEST) {
            removed.extend(remove(&mut cluster, some, &mut refusals).await?);
        }
        refusals.complain("remove");
        if refusals.is_empty() || !removed.is_empty() {
            show(&removed, arguments.common.output)?;
        }
        Ok(if refusals.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Shows the rules and asks on the terminal. Without one the answer is no.
fn confirmed(rules: &[Rule]) -> Result<bool, Failure> {
    let failed = |error: io::Error| format!("cannot ask: {}", plain(&error));
    io::stderr().write_all(table(rules).as_bytes()).map_err(failed)?;
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(false);
    }
    let mut line = String::new();
    write!(io::stderr(), "Remove {}? [y/N] ", plural(rules.len() as u64, "rule")).map_err(failed)?;
    io::stdin().read_line(&mut line).map_err(failed)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// Returns the rules that the server removed. Those that were gone already are not among them.
async fn remove(
    cluster: &mut Cluster,
    rules: &[Rule],
    refusals: &mut Refusals,
) -> Result<Vec<Rule>, ClientError> {
    let request =
        DeleteAclsRequest { filters: rules.iter().map(Rule::to_filter).collect(), ..Default::default() };
    let results = retrying(cluster, async |cluster| {
        let answer = cluster.controller().await?.call(&request).await?;
        if answer.filter_results.len() != rules.len() {
            return Err(ClientError::NoResult { what: "cannot remove rules".to_owned() });
        }
        let mut failed = Refusals::default();
        for result in &answer.filter_results {
            failed.accept(result.error_code, result.error_message.as_ref());
        }
        match failed.retriable("remove") {
            Some(error) => Err(error),
            None => Ok(answer.filter_results),
        }
    })
    .await?;
    let mut removed = Vec::new();
    for result in results {
        if refusals.accept(result.error_code, result.error_message.as_ref()) {
            let mut matches = result.matching_acls;
            matches.retain(|found| refusals.accept(found.error_code, found.error_message.as_ref()));
            removed.extend(matches.into_iter().map(Rule::from_match));
        }
    }
    Ok(removed)
}

fn show(removed: &[Rule], output: Output) -> Result<(), Failure> {
    match output {
        Output::Text => print(&removed.iter().map(|rule| format!("{rule}: removed\n")).collect::<String>()),
        Output::Json => {
            print_json(&json!({ "removed": removed.iter().map(Rule::to_json).collect::<Vec<_>>() }))
        }
    }
}
