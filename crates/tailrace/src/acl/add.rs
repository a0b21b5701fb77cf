//! `tailrace acl add`.

use std::process::ExitCode;

use serde_json::{Value, json};
use tailrace_cli::failure::{Failure, usage};
use tailrace_cli::output::{Output, print, print_json};
use tailrace_kafka_wire::messages::CreateAclsRequest;

use super::arguments::AddArguments;
use super::plan::rules;
use super::refusals::Refusals;
use super::rule::Rule;
use crate::client::{ClientError, Cluster, block_on, retrying};

/// Adds what the server accepts. A rule that exists already is no error.
pub(super) fn run(arguments: &AddArguments) -> Result<ExitCode, Failure> {
    let rules = rules(arguments).map_err(usage)?;
    block_on(async {
        let mut cluster = Cluster::connect(&arguments.common.connect).await?;
        let (added, refusals) = add(&mut cluster, &rules).await?;
        refusals.complain("add");
        if refusals.is_empty() || !added.is_empty() {
            show(&added, arguments.common.output)?;
        }
        Ok(if refusals.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

async fn add<'a>(cluster: &mut Cluster, rules: &'a [Rule]) -> Result<(Vec<&'a Rule>, Refusals), ClientError> {
    let request =
        CreateAclsRequest { creations: rules.iter().map(Rule::to_creation).collect(), ..Default::default() };
    retrying(cluster, async |cluster| {
        let answer = cluster.controller().await?.call(&request).await?;
        if answer.results.len() != rules.len() {
            return Err(ClientError::NoResult { what: "cannot add rules".to_owned() });
        }
        let mut refusals = Refusals::default();
        let results = rules.iter().zip(&answer.results);
        let added = results
            .filter(|(_, result)| refusals.accept(result.error_code, result.error_message.as_ref()))
            .map(|(rule, _)| rule)
            .collect();
        match refusals.retriable("add") {
            Some(error) => Err(error),
            None => Ok((added, refusals)),
        }
    })
    .await
}

fn show(added: &[&Rule], output: Output) -> Result<(), Failure> {
    match output {
        Output::Text => print(&added.iter().map(|rule| format!("{rule}: added\n")).collect::<String>()),
        Output::Json => {
            print_json(&json!({ "added": added.iter().map(|rule| rule.to_json()).collect::<Vec<Value>>() }))
        }
    }
}
