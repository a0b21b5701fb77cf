//! `tailrace bench clean`: lists leftovers of killed runs, and removes them.
//!
//! They are recognised by name alone, so those of runs in progress are found, too. Therefore nothing is
//! removed without asking.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::Args;
use tailrace_cli::failure::{Failure, tell};
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::pairs::key_value;

use super::namespace::{NETEM, namespaces_left, remove_namespaces};
use super::{arguments, credentials, secrets};
use crate::systems::{self, Deed, LeftOver, Settings, Target};

#[derive(Debug, Args)]
#[command(
    after_help = "Everything that `tailrace bench` creates on a system has a name that starts with tailrace-bench. What belongs to runs \
    in progress is listed, too.\n\n\
    Examples:\n  \
    tailrace bench clean jetstream\n  \
    tailrace bench clean kafka --address broker:9092 --yes\n  \
    tailrace bench clean netem --yes"
)]
pub(crate) struct CleanArguments {
    /// The system, as in `bench systems`; netem for network namespaces and the servers in them
    #[arg(value_name = "SYSTEM", value_parser = system)]
    system: String,
    /// Address of the system [default: the system's usual port on this machine]
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,
    /// A setting of the system: user, password, TLS; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
    /// Remove what is found without asking
    #[arg(short, long)]
    yes: bool,
    /// Text or JSON
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

fn system(text: &str) -> Result<String, String> {
    if text == NETEM { Ok(text.to_owned()) } else { arguments::system(text) }
}

pub(super) fn run(arguments: &CleanArguments) -> Result<ExitCode, Failure> {
    let settings = credentials::resolve(&arguments.set)?;
    let place = ServerToClean { arguments, settings };
    let found = place.find(Deed::List, &[]).map_err(|error| place.without_secrets(&error))?;
    let json = arguments.output == Output::Json;
    if !json {
        print(&found.iter().map(|one| format!("{} {}\n", one.kind, one.name)).collect::<String>())?;
    }
    let remove = !found.is_empty() && (arguments.yes || (!json && confirmed(found.len())?));
    let removed = if remove {
        place.find(Deed::Remove, &found).map_err(|error| place.without_secrets(&error))?
    } else {
        Vec::new()
    };
    if json {
        let list: Vec<_> = found
            .iter()
            .map(|one| serde_json::json!({"kind": one.kind, "name": one.name, "removed": removed.contains(one)}))
            .collect();
        print_json(&list)?;
        return Ok(ExitCode::SUCCESS);
    }
    match (found.len(), remove) {
        (0, _) => tell("nothing is left of any run"),
        (_, true) => tell(&format!("removed {}", removed.len())),
        (count, false) => tell(&format!("{count} left as they are; --yes removes them")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks on a terminal. Without one the answer is no.
fn confirmed(count: usize) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(false);
    }
    let mut line = String::new();
    let asked =
        write!(io::stderr(), "Remove all {count}? [y/N] ").and_then(|()| io::stdin().read_line(&mut line));
    asked.map_err(|error| format!("cannot ask: {error}"))?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

struct ServerToClean<'a> {
    arguments: &'a CleanArguments,
    settings: BTreeMap<String, String>,
}

impl ServerToClean<'_> {
    fn find(&self, deed: Deed, only: &[LeftOver]) -> Result<Vec<LeftOver>, Failure> {
        let CleanArguments { system, address, .. } = self.arguments;
        if system == NETEM {
            let names = match deed {
                Deed::List => namespaces_left(),
                Deed::Remove => {
                    remove_namespaces(&only.iter().map(|one| one.name.clone()).collect::<Vec<_>>())
                }
            }?;
            return Ok(names.into_iter().map(|name| LeftOver { kind: "namespace", name }).collect());
        }
        let settings = Settings::new(self.settings.clone());
        let (system, address) = (system.clone(), address.clone());
        let target = Target { system, address, connections: 1, payload_bytes: 0, run: 0, settings };
        Ok(systems::left_over(&target, deed, only)?)
    }

    fn without_secrets(&self, error: &Failure) -> Failure {
        secrets::without(&self.settings, &error.to_string()).into()
    }
}
