//! Documents that are written by the code they describe.

use tailrace_config::configuration_markdown;

use crate::run::root;

const CONFIGURATION: &str = "docs/configuration.md";

pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let path = root().join(CONFIGURATION);
    let wanted = configuration_markdown();
    match arguments {
        [] => std::fs::write(&path, wanted).map_err(|error| format!("{CONFIGURATION}: {error}")),
        [flag] if flag == "--check" => match std::fs::read_to_string(&path) {
            Ok(found) if found == wanted => Ok(()),
            Ok(_) => Err(format!("{CONFIGURATION} is out of date: run cargo xtask docs")),
            Err(error) => Err(format!("{CONFIGURATION}: {error}")),
        },
        _ => Err("usage: cargo xtask docs [--check]".to_owned()),
    }
}
