//! `tailrace acl ...`: adds, shows and removes rules about what users may do.
//!
//! Deliberately absent, since Kafka's protocol has no request for it: rules for NATS subjects, and the reason
//! of a decision (`explain`).

mod add;
mod arguments;
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

use tailrace_cli::failure::{Failure, speak_json};
use tailrace_cli::output::asks_for_json;

pub(crate) use self::arguments::AclArguments;
use self::arguments::{AclVerb, ResourceArguments};

pub(crate) fn run(arguments: &AclArguments) -> Result<ExitCode, Failure> {
    match &arguments.verb {
        AclVerb::Add(arguments) => {
            check_served(&arguments.resources)?;
            add::run(arguments)
        }
        AclVerb::List(arguments) => {
            check_served(&arguments.filter.resources)?;
            list::run(arguments)
        }
        AclVerb::Remove(arguments) => {
            check_served(&arguments.filter.resources)?;
            remove::run(arguments)
        }
        AclVerb::Explain(arguments) => {
            if asks_for_json(&arguments.words) {
                speak_json();
            }
            Err("`acl explain` is not served yet; `tailrace acl list --topic NAME` shows the rules that apply".into())
        }
    }
}

fn check_served(resources: &ResourceArguments) -> Result<(), Failure> {
    match resources.subject.is_empty() {
        true => Ok(()),
        false => Err("--subject is not served yet, and nothing was changed; see docs/security.md for the \
            permissions of NATS users"
            .into()),
    }
}
