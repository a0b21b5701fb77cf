//! Computes the settings after a change. Resolving them checks whether they are consistent.

use std::collections::{BTreeMap, BTreeSet};

use tailrace_config::{BrokerConfig, ConfigKey, ConfigKind, ConfigScope, broker_key, group_key, topic_key};

use super::command::{ConfigAction, ConfigChange, ConfigOp};
use super::error::ControlError;
use super::streams;

type Configs = BTreeMap<String, String>;

/// Parses a complete set of settings. If a key appears twice, the last value counts.
pub(super) fn given(scope: ConfigScope, pairs: &[(String, Option<String>)]) -> Result<Configs, ControlError> {
    let mut configs = Configs::new();
    for (name, value) in pairs {
        let Some(text) = value else { return Err(ControlError::NullConfig { key: name.clone() }) };
        let key = find(scope, name)?;
        configs.insert(key.name.to_owned(), key.parse(text)?.to_string());
    }
    Ok(configs)
}

/// Applies a change to `current`. A list that is not set is edited from its effective value in `broker`.
pub(super) fn changed(
    scope: ConfigScope,
    current: &Configs,
    change: &ConfigChange,
    broker: &BrokerConfig,
) -> Result<Configs, ControlError> {
    match change {
        ConfigChange::Replace(pairs) => given(scope, pairs),
        ConfigChange::Stream(pairs) => {
            let pairs: Vec<_> = pairs.iter().map(|(key, text)| (key.clone(), Some(text.clone()))).collect();
            Ok(streams::replaced(current, given(scope, &pairs)?))
        }
        ConfigChange::Incremental(ops) => {
            check_distinct(scope, ops)?;
            let mut configs = current.clone();
            for op in ops {
                apply(scope, &mut configs, op, broker)?;
            }
            Ok(configs)
        }
    }
}

fn find(scope: ConfigScope, name: &str) -> Result<&'static ConfigKey, ControlError> {
    let key = match scope {
        ConfigScope::Topic => topic_key(name)?,
        ConfigScope::Broker => broker_key(name)?,
        ConfigScope::Group => group_key(name)?,
    };
    if !key.dynamic {
        return Err(ControlError::ReadOnlyConfig { key: name.to_owned() });
    }
    Ok(key)
}

/// Refuses two operations on one key. Two names of one setting count as the same key.
fn check_distinct(scope: ConfigScope, ops: &[ConfigOp]) -> Result<(), ControlError> {
    let mut seen = BTreeSet::new();
    for op in ops {
        let name = find(scope, &op.key).map_or(op.key.as_str(), |key| key.name);
        if !seen.insert(name) {
            return Err(ControlError::DuplicateConfig { key: op.key.clone() });
        }
    }
    Ok(())
}

fn apply(
    scope: ConfigScope,
    configs: &mut Configs,
    op: &ConfigOp,
    broker: &BrokerConfig,
) -> Result<(), ControlError> {
    let action = match op.action {
        // As in Kafka, deleting a key that does not exist succeeds: tools clean up old settings that way.
        ConfigAction::Delete => {
            if let Ok(key) = find(scope, &op.key) {
                configs.remove(key.name);
            }
            return Ok(());
        }
        ConfigAction::Set => None,
        ConfigAction::Append => Some(Edit::Append),
        ConfigAction::Subtract => Some(Edit::Subtract),
    };
    let Some(given) = &op.value else { return Err(ControlError::NullConfig { key: op.key.clone() }) };
    let key = find(scope, &op.key)?;
    let text = match action {
        None => given.clone(),
        Some(_) if key.kind != ConfigKind::List => {
            return Err(ControlError::NotAList { key: op.key.clone(), action: op.action.name() });
        }
        Some(edit) => {
            let current = match configs.get(key.name) {
                Some(current) => current.clone(),
                None => broker.value_without_override(scope, key)?.to_string(),
            };
            edited(&current, given, edit)
        }
    };
    configs.insert(key.name.to_owned(), key.parse(&text)?.to_string());
    Ok(())
}

#[derive(Clone, Copy)]
enum Edit {
    Append,
    Subtract,
}

/// Returns the list `current` with the elements of `given` added or removed.
fn edited(current: &str, given: &str, edit: Edit) -> String {
    let mut result = elements(current);
    for element in elements(given) {
        match edit {
            Edit::Append if result.contains(&element) => {}
            Edit::Append => result.push(element),
            Edit::Subtract => result.retain(|other| *other != element),
        }
    }
    result.join(",")
}

fn elements(list: &str) -> Vec<&str> {
    list.split(',').map(str::trim).filter(|element| !element.is_empty()).collect()
}
