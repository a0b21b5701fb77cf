//! The settings of the broker: the table and the typed struct. The keys that hold broker-wide defaults for
//! topics and groups are not here. `keys` derives them from the topic and group tables.

mod kafka_first;
mod kafka_last;
mod tailrace_first;
mod tailrace_last;
mod tailrace_nats;

use std::sync::Arc;

use tailrace_types::{DECOMPRESSED_BYTES_MAX, NodeId, i64_of};

use super::choice::{
    AuthorizerClass, KafkaAuthentication, LogFormat, MigrationPolicy, NatsAuthentication, NatsTls,
    ReplicaSelector, Secret, TlsClientAuth,
};
use super::group::GroupConfig;
use super::key::ConfigKind::{Boolean, Class, Double, Int, List, Long, Password, Short, String as Text};
use super::key::{ConfigKey, Unit};
use super::layers::{DynamicConfigs, Layers};
use super::listeners::KafkaListener;
use super::table::settings;
use super::topic::TopicConfig;

use ConfigKey as K;
use kafka_first::kafka_first_settings;
use kafka_last::kafka_last_settings;
use tailrace_first::tailrace_first_settings;
use tailrace_last::tailrace_last_settings;
use tailrace_nats::tailrace_nats_settings;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 86_400_000;

/// Largest value of `tailrace.nats.max.payload.bytes`. It is also NATS's own maximum.
const NATS_PAYLOAD_MAX: i64 = 67_108_864;

/// Declares the configuration from the settings of all families.
macro_rules! broker_settings {
    (; $($settings:tt)*) => {
        settings! {
            /// The effective configuration of this process: dynamic settings, the start configuration and the
            /// defaults, merged.
            #[derive(Clone, Debug, PartialEq)]
            pub struct BrokerConfig, table BROKER_KEYS {
                $($settings)*
            }
            with {
                /// The effective configuration of a topic without overrides.
                pub topic_defaults: TopicConfig,
                /// The effective configuration of a group without overrides.
                pub group_defaults: Arc<GroupConfig>,
                /// The origins of all values.
                layers: Layers,
                /// The Kafka listeners that the settings make.
                pub(crate) listeners_resolved: Arc<[KafkaListener]>,
            }
        }
    };
}

kafka_first_settings! { kafka_last_settings tailrace_first_settings tailrace_nats_settings tailrace_last_settings broker_settings; }

impl BrokerConfig {
    /// The number of this node.
    pub fn node(&self) -> NodeId {
        NodeId(self.node_id)
    }

    pub(crate) fn layers(&self) -> &Layers {
        &self.layers
    }

    /// The settings that were changed at run time.
    pub fn dynamic(&self) -> &DynamicConfigs {
        self.layers.dynamic()
    }

    /// Address of the listener for other nodes. `None` in a standalone server.
    pub fn cluster_address(&self) -> Option<&str> {
        Some(self.cluster_listen.as_str()).filter(|address| *address != "off")
    }

    /// Address of the NATS listener. `None` if it is off.
    pub fn nats_address(&self) -> Option<&str> {
        Some(self.nats.as_str()).filter(|address| *address != "off")
    }

    /// The name of this server in its NATS INFO.
    pub fn nats_server_name(&self) -> String {
        match self.tailrace_nats_server_name.as_str() {
            "" => format!("tailrace-{}", self.node_id),
            name => name.to_owned(),
        }
    }
}
