//! `tailrace config check|print|reference`.

use std::process::ExitCode;

use serde_json::json;
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};
use tailrace_config::{ConfigSource, DescribedConfig, broker_key, configuration_markdown, describe_broker};

use crate::args::{ConfigArguments, ConfigVerb};
use crate::settings::{Origin, Settings};

pub(crate) fn run(arguments: &ConfigArguments) -> Result<ExitCode, Failure> {
    match &arguments.verb {
        ConfigVerb::Check(settings) => {
            let (settings, _) = Settings::load(settings)?;
            if let Some(variable) = settings.unknown_variables.first() {
                return Err(format!("{variable} is not a tailrace setting").into());
            }
            print("ok\n")?;
        }
        ConfigVerb::Print { settings, changed, output } => {
            let (settings, config) = Settings::load(settings)?;
            let mut entries = describe_broker(&config);
            entries.retain(|entry| !changed || entry.source != ConfigSource::Default);
            match output {
                Output::Text => {
                    let lines = entries.iter().map(|entry| line(entry, &settings));
                    let own = own_settings(&settings).map(|(name, value, origin)| {
                        format!("{name} = {value}  ({} {origin})\n", origin.layer())
                    });
                    print(&lines.chain(own).collect::<String>())?;
                }
                Output::Json => {
                    let object = |entry: &DescribedConfig| {
                        let origin = origin(entry, &settings);
                        let object = json!({
                            "value": entry.value,
                            "source": origin.map_or("default", Origin::layer),
                            "place": origin.map(Origin::to_string),
                        });
                        (entry.name.to_owned(), object)
                    };
                    let own = own_settings(&settings).map(|(name, value, origin)| {
                        let (source, place) = (origin.layer(), origin.to_string());
                        (name.clone(), json!({ "value": value, "source": source, "place": place }))
                    });
                    print_json(&entries.iter().map(object).chain(own).collect::<serde_json::Map<_, _>>())?;
                }
            }
        }
        ConfigVerb::Reference => print(&configuration_markdown())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the settings of single Kafka listeners, which no table lists.
fn own_settings(settings: &Settings) -> impl Iterator<Item = (&String, &String, &Origin)> {
    let own = settings.values.iter().filter(|(name, _)| broker_key(name).is_err());
    own.filter_map(|(name, value)| Some((name, value, settings.origins.get(name)?)))
}

/// Where a value was set; `None` for a default. A setting may get its value from a synonym in another unit.
fn origin<'a>(entry: &DescribedConfig, settings: &'a Settings) -> Option<&'a Origin> {
    if entry.source == ConfigSource::Default {
        return None;
    }
    let set_by = entry.synonyms.first().map_or(entry.name, |synonym| synonym.name);
    settings.origins.get(set_by)
}

fn line(entry: &DescribedConfig, settings: &Settings) -> String {
    let origin = origin(entry, settings);
    let instead = if entry.sensitive && origin.is_some() { "(hidden)" } else { "(not set)" };
    let value = entry.value.as_deref().unwrap_or(instead);
    let place = origin.map_or_else(|| "default".to_owned(), |origin| format!("{} {origin}", origin.layer()));
    format!("{} = {value}  ({place})\n", entry.name)
}
