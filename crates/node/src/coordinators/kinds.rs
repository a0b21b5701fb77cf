//! The kinds of coordinators, and their topics.

use tailrace_config::BrokerConfig;
use tailrace_coordination::groups::GroupCoordinator;
use tailrace_coordination::share::ShareCoordinator;
use tailrace_coordination::stream_consumers::ConsumersCoordinator;
use tailrace_coordination::transactions::TransactionCoordinator;
use tailrace_metadata::{
    CONSUMER_OFFSETS_TOPIC, JETSTREAM_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC,
};

use super::cores::{Kind, Runtime};

/// All coordinators of groups.
pub type Groups = Runtime<GroupCoordinator>;

pub(super) static GROUPS: Kind<GroupCoordinator> = Kind {
    name: "group",
    topic: CONSUMER_OFFSETS_TOPIC,
    partitions: |config| config.offsets_topic_num_partitions,
    settings: |config| {
        vec![
            ("cleanup.policy", "compact".to_owned()),
            ("segment.bytes", config.offsets_topic_segment_bytes.to_string()),
        ]
    },
    new: GroupCoordinator::new,
};

/// All coordinators of transactions.
pub type Transactions = Runtime<TransactionCoordinator>;

/// Coordinators of transactions.
pub(super) static TRANSACTIONS: Kind<TransactionCoordinator> = Kind {
    name: "transaction",
    topic: TRANSACTION_STATE_TOPIC,
    partitions: |config| config.transaction_state_log_num_partitions,
    settings,
    new: TransactionCoordinator::new,
};

fn settings(config: &BrokerConfig) -> Vec<(&'static str, String)> {
    vec![
        ("cleanup.policy", "compact".to_owned()),
        ("segment.bytes", config.transaction_state_log_segment_bytes.to_string()),
    ]
}

/// Share coordinators.
pub(super) static SHARES: Kind<ShareCoordinator> = Kind {
    name: "share",
    topic: SHARE_GROUP_STATE_TOPIC,
    partitions: |config| config.share_coordinator_state_topic_num_partitions,
    settings: |config| {
        let segment_bytes = config.share_coordinator_state_topic_segment_bytes.to_string();
        vec![("cleanup.policy", "compact".to_owned()), ("segment.bytes", segment_bytes)]
    },
    new: ShareCoordinator::new,
};

/// Coordinators of the durable consumers of streams.
pub(super) static CONSUMERS: Kind<ConsumersCoordinator> = Kind {
    name: "stream-consumer",
    topic: JETSTREAM_STATE_TOPIC,
    partitions: |config| config.tailrace_jetstream_state_topic_num_partitions,
    settings: |config| {
        let segment_bytes = config.tailrace_jetstream_state_topic_segment_bytes.to_string();
        vec![("cleanup.policy", "compact".to_owned()), ("segment.bytes", segment_bytes)]
    },
    new: ConsumersCoordinator::new,
};
