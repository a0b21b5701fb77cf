//! Works out the settings that a change leads to. Whether they fit together is checked by resolving them.

use std::collections::{BTreeMap, BTreeSet};

use super::ControlError;
use super::command::{ConfigAction, ConfigChange, ConfigOp};
use crate::config::{
    BrokerConfig, ConfigKey, ConfigKind, ConfigScope, broker_key, describe_broker, describe_topic, topic_key,
};

type Configs = BTreeMap<String, String>;

/// Settings that are given whole. Of a key that comes twice, the last counts.
pub(super) fn given(scope: ConfigScope, pairs: &[(String, Option<String>)]) -> Result<Configs, ControlError> {
    let mut configs = Configs::new();
    for (name, value) in pairs {
        let key = find(scope, name)?;
        let Some(text) = value else { return Err(ControlError::NullConfig { key: name.clone() }) };
        configs.insert(key.name.to_owned(), key.parse(text)?.to_string());
    }
    Ok(configs)
}

/// What `current` becomes. `defaults` says from which value a list that is not set is extended.
pub(super) fn changed(
    scope: ConfigScope,
    current: &Configs,
    change: &ConfigChange,
    defaults: &dyn Fn(&str) -> String,
) -> Result<Configs, ControlError> {
    match change {
        ConfigChange::Replace(pairs) => given(scope, pairs),
        ConfigChange::Incremental(ops) => {
            check_distinct(scope, ops)?;
            let mut configs = current.clone();
            for op in ops {
                apply(scope, &mut configs, op, defaults)?;
            }
            Ok(configs)
        }
    }
}

fn find(scope: ConfigScope, name: &str) -> Result<&'static ConfigKey, ControlError> {
    let key = match scope {
        ConfigScope::Topic => topic_key(name)?,
        ConfigScope::Broker => broker_key(name)?,
    };
    if !key.dynamic {
        return Err(ControlError::ReadOnlyConfig { key: name.to_owned() });
    }
    Ok(key)
}

fn check_distinct(scope: ConfigScope, ops: &[ConfigOp]) -> Result<(), ControlError> {
    let mut seen = BTreeSet::new();
    for op in ops {
        if !seen.insert(find(scope, &op.key)?.name) {
            return Err(ControlError::DuplicateConfig { key: op.key.clone() });
        }
    }
    Ok(())
}

fn apply(
    scope: ConfigScope,
    configs: &mut Configs,
    op: &ConfigOp,
    defaults: &dyn Fn(&str) -> String,
) -> Result<(), ControlError> {
    let key = find(scope, &op.key)?;
    if op.action == ConfigAction::Delete {
        configs.remove(key.name);
        return Ok(());
    }
    let Some(given) = &op.value else { return Err(ControlError::NullConfig { key: op.key.clone() }) };
    let text = match op.action {
        ConfigAction::Set | ConfigAction::Delete => given.clone(),
        ConfigAction::Append | ConfigAction::Subtract => {
            if key.kind != ConfigKind::List {
                return Err(ControlError::NotAList { key: op.key.clone(), action: op.action.name() });
            }
            let current = configs.get(key.name).cloned().unwrap_or_else(|| defaults(key.name));
            edited(&current, given, op.action)
        }
    };
    configs.insert(key.name.to_owned(), key.parse(&text)?.to_string());
    Ok(())
}

/// The list `current` with the elements of `given` added or taken away.
fn edited(current: &str, given: &str, action: ConfigAction) -> String {
    let mut elements = elements(current);
    for element in self::elements(given) {
        match action {
            ConfigAction::Append if !elements.contains(&element) => elements.push(element),
            ConfigAction::Subtract => elements.retain(|other| *other != element),
            _ => {}
        }
    }
    elements.join(",")
}

fn elements(list: &str) -> Vec<&str> {
    list.split(',').map(str::trim).filter(|element| !element.is_empty()).collect()
}

/// What a topic key is without an override.
pub(super) fn topic_default(key: &str, broker: &BrokerConfig) -> String {
    let described = describe_topic(&BTreeMap::new(), broker).unwrap_or_default();
    described.into_iter().find(|entry| entry.name == key).and_then(|entry| entry.value).unwrap_or_default()
}

/// What a broker key is now.
pub(super) fn broker_default(key: &str, broker: &BrokerConfig) -> String {
    let described = describe_broker(broker);
    described.into_iter().find(|entry| entry.name == key).and_then(|entry| entry.value).unwrap_or_default()
}
