//! `tailrace quota remove`.

use std::process::ExitCode;

use serde_json::json;
use tailrace_cli::failure::Failure;
use tailrace_cli::output::{Output, print, print_json};

use super::arguments::RemoveArguments;
use super::change::{Quotas, alter, find};
use crate::client::{Cluster, block_on};
use crate::shown::shown;

/// Looks first: the server reports success for quotas that do not exist.
pub(super) fn run(arguments: &RemoveArguments) -> Result<ExitCode, Failure> {
    let entity = arguments.entity.entity();
    block_on(async {
        let mut cluster = Cluster::connect(&arguments.common.connect).await?;
        let found = find(&mut cluster, &entity, true).await?.remove(&entity).unwrap_or_default();
        let removed = match wanted(&found, &arguments.limit) {
            Ok(keys) => keys,
            Err(_) if arguments.if_exists => {
                found.into_keys().filter(|key| arguments.limit.contains(key)).collect()
            }
            Err(missing) => {
                return Err(format!("{entity}: {missing}; `tailrace quota list` shows all quotas").into());
            }
        };
        if !removed.is_empty() {
            let changes: Vec<_> = removed.iter().map(|key| (key.clone(), None)).collect();
            alter(&mut cluster, &entity, &changes, false).await?;
        }
        match arguments.common.output {
            Output::Text if removed.is_empty() => {}
            Output::Text => {
                let list: Vec<_> = removed.iter().map(|key| shown(key)).collect();
                print(&format!("{entity}: removed: {}\n", list.join(", ")))?;
            }
            Output::Json => print_json(&json!({ "entity": entity.to_json(), "removed": removed }))?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The keys to remove: those that were named, or all.
fn wanted(found: &Quotas, named: &[String]) -> Result<Vec<String>, String> {
    if found.is_empty() {
        return Err("there is no quota".to_owned());
    }
    match named.iter().find(|key| !found.contains_key(*key)) {
        Some(missing) => Err(format!("there is no quota {missing}")),
        None => Ok(found.keys().filter(|key| named.is_empty() || named.contains(key)).cloned().collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_name_all_quotas_are_removed() {
        let found = Quotas::from([("a".to_owned(), 1.0), ("b".to_owned(), 2.0)]);
        let wanted =
            |named: &[&str]| wanted(&found, &named.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        assert_eq!(wanted(&[]), Ok(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(wanted(&["b", "b"]), Ok(vec!["b".to_owned()]));
        assert_eq!(wanted(&["b", "c"]), Err("there is no quota c".to_owned()));
        assert_eq!(super::wanted(&Quotas::new(), &[]), Err("there is no quota".to_owned()));
    }
}
