//! `tailrace config check|print|reference`.

use std::process::ExitCode;

use tailrace_broker::config::{ConfigSource, DescribedConfig, configuration_markdown, describe_broker};

use crate::args::{ConfigArguments, ConfigVerb, Output};
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::settings::Settings;

pub(crate) fn run(arguments: &ConfigArguments) -> Result<ExitCode, Failure> {
    match &arguments.verb {
        ConfigVerb::Check(settings) => {
            let (settings, _) = Settings::load(settings)?;
            if let Some(variable) = settings.unknown_variables.first() {
                return Err(format!("{variable} is no setting of tailrace").into());
            }
            print("ok\n")?;
        }
        ConfigVerb::Print { settings, changed, output } => {
            let (_, config) = Settings::load(settings)?;
            let mut entries = describe_broker(&config);
            entries.retain(|entry| !changed || entry.source != ConfigSource::Default);
            match output {
                Output::Text => {
                    let line = |entry: DescribedConfig| {
                        let hidden = entry.sensitive && entry.source != ConfigSource::Default;
                        let instead = if hidden { "(hidden)" } else { "(not set)" };
                        format!("{} = {}\n", entry.name, entry.value.as_deref().unwrap_or(instead))
                    };
                    print(&entries.into_iter().map(line).collect::<String>())?;
                }
                Output::Json => {
                    let entries: serde_json::Map<_, _> = entries
                        .into_iter()
                        .map(|entry| (entry.name.to_owned(), entry.value.into()))
                        .collect();
                    print_json(&entries)?;
                }
            }
        }
        ConfigVerb::Reference => print(&configuration_markdown())?,
    }
    Ok(ExitCode::SUCCESS)
}
