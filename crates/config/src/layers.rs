//! The sources of a value: the node's dynamic settings, the cluster's, the start configuration, the default.

use std::collections::BTreeMap;

use super::error::ConfigError;
use super::key::ConfigKey;
use super::listeners::OWN_PREFIX;
use super::value::Value;

/// Settings changed at run time and stored in the metadata log. Their keys are canonical.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DynamicConfigs {
    /// For this node only: the broker resource with its node id.
    pub node: BTreeMap<String, String>,
    /// For all nodes: the broker resource with the empty name.
    pub cluster: BTreeMap<String, String>,
}

/// The source of a value. The numbers are those of a DescribeConfigs response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigSource {
    /// Override of a topic.
    DynamicTopic = 1,
    /// Changed at run time for this node.
    DynamicBroker = 2,
    /// Changed at run time for all nodes.
    DynamicDefaultBroker = 3,
    /// File, environment or command line.
    StaticBroker = 4,
    /// No value is set.
    Default = 5,
    /// Override of a group.
    DynamicGroup = 8,
}

impl ConfigSource {
    /// Returns Kafka's name of the source.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DynamicTopic => "DYNAMIC_TOPIC_CONFIG",
            Self::DynamicBroker => "DYNAMIC_BROKER_CONFIG",
            Self::DynamicDefaultBroker => "DYNAMIC_DEFAULT_BROKER_CONFIG",
            Self::StaticBroker => "STATIC_BROKER_CONFIG",
            Self::Default => "DEFAULT_CONFIG",
            Self::DynamicGroup => "DYNAMIC_GROUP_CONFIG",
        }
    }
}

/// The broker's settings by source, under canonical names. It does not derive `Debug`, because some settings
/// are secrets.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Layers {
    dynamic: DynamicConfigs,
    fixed: BTreeMap<String, String>,
}

impl std::fmt::Debug for Layers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = |layer: &BTreeMap<String, String>| layer.keys().cloned().collect::<Vec<_>>();
        f.debug_struct("Layers")
            .field("node", &names(&self.dynamic.node))
            .field("cluster", &names(&self.dynamic.cluster))
            .field("fixed", &names(&self.fixed))
            .finish()
    }
}

impl Layers {
    /// Builds layers from canonical keys and legal values.
    pub(crate) fn of_canonical(dynamic: DynamicConfigs, fixed: BTreeMap<String, String>) -> Self {
        Self { dynamic, fixed }
    }

    /// Returns the layers, the strongest first.
    pub(crate) fn layers(&self) -> [(ConfigSource, &BTreeMap<String, String>); 3] {
        [
            (ConfigSource::DynamicBroker, &self.dynamic.node),
            (ConfigSource::DynamicDefaultBroker, &self.dynamic.cluster),
            (ConfigSource::StaticBroker, &self.fixed),
        ]
    }

    /// Returns the settings of single Kafka listeners. They cannot be changed at run time.
    pub(crate) fn own_settings(&self) -> impl Iterator<Item = (&String, &String)> {
        self.fixed.range(OWN_PREFIX.to_owned()..).take_while(|(key, _)| key.starts_with(OWN_PREFIX))
    }

    pub(crate) fn dynamic(&self) -> &DynamicConfigs {
        &self.dynamic
    }

    /// Returns the value of a broker key itself, ignoring its synonyms.
    pub(crate) fn broker_value(&self, key: &ConfigKey) -> Result<Value, ConfigError> {
        match self.layers().iter().find_map(|(_, layer)| layer.get(key.name)) {
            Some(text) => key.parse(text),
            None => Ok(key.default_value()),
        }
    }
}
