//! Settings.

use super::*;

#[tokio::test]
async fn settings() {
    check_all(&cases()).await;
}

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!(
            "DescribeConfigs of a topic",
            [(DescribeConfigs, Topic, T)],
            4,
            |_id| described(TOPIC, T),
            |a| a.results[0].error_code
        ),
        case!(
            "DescribeConfigs of a group",
            [(DescribeConfigs, Group, G)],
            4,
            |_id| described(GROUP, G),
            |a| a.results[0].error_code
        ),
        case!(
            "DescribeConfigs of all brokers",
            [(DescribeConfigs, Cluster, CLUSTER_NAME)],
            4,
            |_id| described(BROKER, ""),
            |a| a.results[0].error_code
        ),
        case!("AlterConfigs of a topic", [(AlterConfigs, Topic, T)], 2, |_id| replaced(TOPIC, T), |a| a
            .responses[0]
            .error_code),
        case!("AlterConfigs of a group", [(AlterConfigs, Group, G)], 2, |_id| replaced(GROUP, G), |a| a
            .responses[0]
            .error_code),
        case!(
            "AlterConfigs of all brokers",
            [(AlterConfigs, Cluster, CLUSTER_NAME)],
            2,
            |_id| replaced(BROKER, ""),
            |a| a.responses[0].error_code
        ),
        case!(
            "IncrementalAlterConfigs of a topic",
            [(AlterConfigs, Topic, T)],
            1,
            |_id| changed(TOPIC, T, "retention.ms", "1000000"),
            |a| a.responses[0].error_code
        ),
        case!(
            "IncrementalAlterConfigs of a group",
            [(AlterConfigs, Group, G)],
            1,
            |_id| changed(GROUP, G, "consumer.session.timeout.ms", "50000"),
            |a| a.responses[0].error_code
        ),
        case!(
            "IncrementalAlterConfigs of all brokers",
            [(AlterConfigs, Cluster, CLUSTER_NAME)],
            1,
            |_id| changed(BROKER, "", "log.retention.ms", "1000000"),
            |a| a.responses[0].error_code
        ),
        case!(
            "ListConfigResources",
            [(DescribeConfigs, Cluster, CLUSTER_NAME)],
            1,
            |_id| ListConfigResourcesRequest::default(),
            |a| a.error_code
        ),
    ]
}

/// Resource types of the protocol.
const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const GROUP: i8 = 32;

fn described(resource_type: i8, name: &str) -> DescribeConfigsRequest {
    DescribeConfigsRequest {
        resources: vec![describe_configs_request::DescribeConfigsResource {
            resource_type,
            resource_name: name.to_owned(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn replaced(resource_type: i8, name: &str) -> AlterConfigsRequest {
    AlterConfigsRequest {
        resources: vec![alter_configs_request::AlterConfigsResource {
            resource_type,
            resource_name: name.to_owned(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn changed(resource_type: i8, name: &str, key: &str, value: &str) -> IncrementalAlterConfigsRequest {
    IncrementalAlterConfigsRequest {
        resources: vec![incremental_alter_configs_request::AlterConfigsResource {
            resource_type,
            resource_name: name.to_owned(),
            configs: vec![incremental_alter_configs_request::AlterableConfig {
                name: key.to_owned(),
                value: Some(value.to_owned()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}
