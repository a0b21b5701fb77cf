//! `tailrace quota list`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::json;
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};
use tailrace_cli::text::table::Table;

use super::arguments::ListArguments;
use super::change::{Quotas, find};
use super::entity::Entity;
use super::limits::shown_value;
use crate::client::{Cluster, block_on};
use crate::shown::shown;

/// A user's name also finds the quotas of the user's single client ids.
pub(super) fn run(arguments: &ListArguments) -> Result<ExitCode, Failure> {
    block_on(async {
        let mut cluster = Cluster::connect(&arguments.common.connect).await?;
        let found = find(&mut cluster, &arguments.entity.entity(), false).await?;
        match arguments.common.output {
            Output::Text => print(&table(&found))?,
            Output::Json => {
                let entries = found
                    .iter()
                    .map(|(entity, quotas)| json!({ "entity": entity.to_json(), "quotas": quotas }));
                print_json(&entries.collect::<Vec<_>>())?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn table(found: &BTreeMap<Entity, Quotas>) -> String {
    let mut table = Table::new(0, &["ENTITY", "QUOTA", "VALUE"]);
    for (entity, quotas) in found {
        for (key, &value) in quotas {
            table.row(vec![entity.to_string(), shown(key).into_owned(), shown_value(key, value)]);
        }
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use tailrace_kafka_wire::messages::describe_client_quotas_response::EntityData;

    use super::*;

    #[test]
    fn a_quota_has_a_row() {
        let part = |kind: &str, name: Option<&str>| EntityData {
            entity_type: kind.to_owned(),
            entity_name: name.map(str::to_owned),
            ..Default::default()
        };
        let alice = Entity::from_answer(vec![part("user", Some("alice"))]);
        let app = Entity::from_answer(vec![part("user", None), part("client-id", Some("app"))]);
        let quotas = |pairs: &[(&str, f64)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
        let found = BTreeMap::from([
            (alice, quotas(&[("producer_byte_rate", 1e6), ("request_percentage", 50.0)])),
            (app, quotas(&[("consumer_byte_rate", 10.0)])),
        ]);
        assert_eq!(
            table(&found),
            "ENTITY                             QUOTA               VALUE\n\
             the default user, client-id 'app'  consumer_byte_rate  10\n\
             user 'alice'                       producer_byte_rate  1000000 (1.00 MB/s)\n\
             user 'alice'                       request_percentage  50\n"
        );
    }
}
