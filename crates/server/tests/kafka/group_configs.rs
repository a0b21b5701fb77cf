//! Group settings through the configuration APIs, as Kafka 4.3.1 answers them. They exist even for groups
//! that do not.

use crate::common::{Client, OK, TestServer, error};
use tailrace_kafka_wire::ErrorCode::{self, InvalidConfig, InvalidRequest};
use tailrace_kafka_wire::messages::alter_configs_request::{self, AlterConfigsRequest};
use tailrace_kafka_wire::messages::describe_configs_request::{
    DescribeConfigsRequest, DescribeConfigsResource,
};
use tailrace_kafka_wire::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use tailrace_kafka_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use tailrace_kafka_wire::messages::list_config_resources_request::ListConfigResourcesRequest;

const GROUP: i8 = 32;

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;

async fn alter(
    client: &mut Client,
    group: &str,
    key: &str,
    op: i8,
    value: Option<&str>,
) -> (ErrorCode, String) {
    let config = AlterableConfig {
        name: key.to_owned(),
        config_operation: op,
        value: value.map(str::to_owned),
        ..Default::default()
    };
    let resource = AlterConfigsResource {
        resource_type: GROUP,
        resource_name: group.to_owned(),
        configs: vec![config],
        ..Default::default()
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let answer = client.call(1, &request).await.responses.remove(0);
    assert_eq!((answer.resource_type, answer.resource_name.as_str()), (GROUP, group));
    (error(answer.error_code), answer.error_message.unwrap_or_default())
}

async fn set(client: &mut Client, group: &str, key: &str, value: &str) -> ErrorCode {
    alter(client, group, key, SET, Some(value)).await.0
}

async fn describe(
    client: &mut Client,
    version: i16,
    group: &str,
    keys: Option<&[&str]>,
) -> DescribeConfigsResult {
    let resource = DescribeConfigsResource {
        resource_type: GROUP,
        resource_name: group.to_owned(),
        configuration_keys: keys.map(|keys| keys.iter().map(|key| (*key).to_owned()).collect()),
        ..Default::default()
    };
    let request = DescribeConfigsRequest {
        resources: vec![resource],
        include_synonyms: true,
        include_documentation: version >= 3,
        ..Default::default()
    };
    client.call(version, &request).await.results.remove(0)
}

fn synonym(name: &str, value: &str, source: i8) -> DescribeConfigsSynonym {
    DescribeConfigsSynonym {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        source,
        ..Default::default()
    }
}

#[tokio::test]
async fn a_group_shows_all_its_settings_at_every_version() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    for version in 1..=4 {
        let all = describe(&mut client, version, "g", None).await;
        assert_eq!((all.error_code, all.error_message.as_deref(), all.resource_type), (0, Some(""), GROUP));
        assert_eq!(all.configs.len(), 17, "as many as Kafka 4.3.1 has");
        let one =
            describe(&mut client, version, "g", Some(&["share.session.timeout.ms"])).await.configs.remove(0);
        let documentation = one.documentation.clone();
        assert_eq!(documentation.is_some_and(|text| !text.is_empty()), version >= 3, "version {version}");
        let expected = DescribeConfigsResourceResult {
            name: "share.session.timeout.ms".to_owned(),
            value: Some("45000".to_owned()),
            config_source: 5,
            synonyms: vec![synonym("group.share.session.timeout.ms", "45000", 5)],
            config_type: if version >= 3 { 3 } else { 0 },
            documentation: one.documentation.clone(),
            ..Default::default()
        };
        assert_eq!(one, expected, "version {version}");
    }
    let nameless = describe(&mut client, 4, "", None).await;
    assert_eq!(error(nameless.error_code), InvalidRequest);
}

#[tokio::test]
async fn settings_are_changed_listed_and_outlive_a_restart() {
    let mut server = TestServer::start().await;
    let mut client = server.connect().await;
    let lock = "share.record.lock.duration.ms";
    assert_eq!(set(&mut client, "g", lock, "20000").await, OK);
    assert_eq!(set(&mut client, "g", "share.auto.offset.reset", "by_duration:P1D").await, OK);
    assert_eq!(set(&mut client, "h", "consumer.session.timeout.ms", "60000").await, OK);
    server.restart().await;
    let mut client = server.connect().await;
    let shown = describe(&mut client, 4, "g", Some(&[lock])).await.configs.remove(0);
    assert_eq!((shown.value.as_deref(), shown.config_source, shown.read_only), (Some("20000"), 8, false));
    assert_eq!(
        shown.synonyms,
        [synonym(lock, "20000", 8), synonym("group.share.record.lock.duration.ms", "30000", 5)]
    );
    let without_broker_key =
        describe(&mut client, 4, "g", Some(&["share.auto.offset.reset"])).await.configs.remove(0);
    assert_eq!(
        without_broker_key.synonyms,
        [
            synonym("share.auto.offset.reset", "by_duration:P1D", 8),
            synonym("share.auto.offset.reset", "latest", 5)
        ]
    );
    let list = ListConfigResourcesRequest { resource_types: vec![GROUP], ..Default::default() };
    let names = |found: tailrace_kafka_wire::messages::ListConfigResourcesResponse| {
        found.config_resources.into_iter().map(|r| (r.resource_type, r.resource_name)).collect::<Vec<_>>()
    };
    let found = names(client.call(1, &list).await);
    assert_eq!(found, [(GROUP, "g".to_owned()), (GROUP, "h".to_owned())]);

    assert_eq!(alter(&mut client, "h", "consumer.session.timeout.ms", DELETE, None).await.0, OK);
    let config = alter_configs_request::AlterableConfig {
        name: "share.delivery.count.limit".to_owned(),
        value: Some("9".to_owned()),
        ..Default::default()
    };
    let resource = alter_configs_request::AlterConfigsResource {
        resource_type: GROUP,
        resource_name: "g".to_owned(),
        configs: vec![config],
        ..Default::default()
    };
    let replace = AlterConfigsRequest { resources: vec![resource], ..Default::default() };
    assert_eq!(client.call(2, &replace).await.responses[0].error_code, 0);
    let shown = describe(&mut client, 4, "g", None).await.configs;
    let own: Vec<_> = shown.iter().filter(|c| c.config_source == 8).map(|c| c.name.as_str()).collect();
    assert_eq!(own, ["share.delivery.count.limit"], "replacing replaces all settings");
    assert_eq!(
        names(client.call(1, &list).await),
        [(GROUP, "g".to_owned())],
        "h has no settings of its own left"
    );
}

#[tokio::test]
async fn what_kafka_refuses_is_refused_with_its_codes() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    for (key, value) in [
        ("consumer.session.timeout.ms", "1"),
        ("consumer.session.timeout.ms", "61000"),
        ("consumer.session.timeout.ms", "x"),
        ("consumer.heartbeat.interval.ms", "1000"),
        ("consumer.assignment.interval.ms", "20000"),
        ("nope", "1"),
        ("share.auto.offset.reset", "by_duration:x"),
        ("share.auto.offset.reset", "foo"),
        ("share.isolation.level", "READ_COMMITTED"),
        ("streams.num.standby.replicas", "3"),
        ("share.delivery.count.limit", "11"),
        ("share.partition.max.record.locks", "99"),
        ("share.partition.max.record.locks", "5000"),
        ("share.record.lock.duration.ms", "61000"),
    ] {
        assert_eq!(set(&mut client, "g", key, value).await, InvalidConfig, "{key}={value}");
    }
    assert_eq!(alter(&mut client, "g", "share.auto.offset.reset", APPEND, Some("x")).await.0, InvalidConfig);
    let (code, message) = alter(&mut client, "", "share.renew.acknowledge.enable", SET, Some("true")).await;
    assert_eq!((code, message.as_str()), (InvalidRequest, "Default group resources are not allowed."));
    // As in Kafka, the broker's defaults for groups cannot be changed at run time.
    let broker = DescribeConfigsResource {
        resource_type: 4,
        resource_name: "1".to_owned(),
        configuration_keys: Some(vec!["group.consumer.session.timeout.ms".to_owned()]),
        ..Default::default()
    };
    let request = DescribeConfigsRequest { resources: vec![broker], ..Default::default() };
    let shown = client.call(4, &request).await.results.remove(0).configs.remove(0);
    assert_eq!((shown.value.as_deref(), shown.read_only, shown.config_type), (Some("45000"), true, 3));
}
