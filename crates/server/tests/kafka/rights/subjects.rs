//! A topic captures subjects only for a client that may read them.

use tailrace_identity::acl::Operation::{Alter, AlterConfigs, Create, Describe, Read, Write};
use tailrace_identity::acl::ResourceKind::{Subject, Topic};
use tailrace_kafka_wire::ErrorCode::{self, InvalidConfig, TopicAuthorizationFailed};
use tailrace_kafka_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use tailrace_kafka_wire::messages::{AlterConfigsRequest, CreateTopicsRequest, alter_configs_request};

use super::{Rig, of_cluster};
use crate::common::{Client, OK, error, topic};

const TOPIC: i8 = 2;

const SUBJECTS: &str = "tailrace.subjects";
const ACK: &str = "tailrace.subjects.ack";

async fn alter(client: &mut Client, name: &str, settings: &[(&str, &str)]) -> (ErrorCode, String) {
    let configs = settings.iter().map(|(key, value)| AlterableConfig {
        name: (*key).to_owned(),
        value: Some((*value).to_owned()),
        ..Default::default()
    });
    let resource = AlterConfigsResource {
        resource_type: TOPIC,
        resource_name: name.to_owned(),
        configs: configs.collect(),
        ..Default::default()
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let answer = client.call(1, &request).await.responses.remove(0);
    (error(answer.error_code), answer.error_message.unwrap_or_default())
}

async fn altered(client: &mut Client, settings: &[(&str, &str)]) -> ErrorCode {
    alter(client, "t", settings).await.0
}

async fn prepared() -> (Rig, Client) {
    let mut rig = Rig::new().await;
    rig.admin.create_topic("t", 1, &[]).await;
    rig.allow(&[(AlterConfigs, Topic, "t")]).await;
    let client = rig.anonymous().await;
    (rig, client)
}

fn captured(rig: &Rig) -> usize {
    let image = rig.server.node().image();
    image.topic("t").map_or(0, |topic| topic.config.tailrace_subjects.patterns().len())
}

#[tokio::test]
async fn a_pattern_needs_read_of_all_its_subjects() {
    let (rig, mut client) = prepared().await;
    let settings = [(SUBJECTS, "a.>"), (ACK, "false")];
    assert_eq!(altered(&mut client, &[("retention.ms", "100000")]).await, OK, "other settings need nothing");
    assert_eq!(altered(&mut client, &settings).await, TopicAuthorizationFailed);
    rig.allow(&[(Read, Subject, "a.*")]).await;
    assert_eq!(altered(&mut client, &settings).await, TopicAuthorizationFailed, "it covers too little");
    assert_eq!(captured(&rig), 0);
    rig.allow(&[(Read, Subject, "a.>")]).await;
    assert_eq!(altered(&mut client, &settings).await, OK);
    assert_eq!(captured(&rig), 1);
    // What is captured already is not asked for again.
    rig.forget(&[(Read, Subject, "a.>"), (Read, Subject, "a.*")]).await;
    rig.allow(&[(Read, Subject, "b")]).await;
    assert_eq!(altered(&mut client, &[(SUBJECTS, "a.>,b")]).await, OK);
    assert_eq!(altered(&mut client, &[(SUBJECTS, "a.>,b,c")]).await, TopicAuthorizationFailed);
    assert_eq!(captured(&rig), 2);
}

#[tokio::test]
async fn acknowledgements_need_write_too() {
    let (rig, mut client) = prepared().await;
    rig.allow(&[(Read, Subject, "a.>")]).await;
    assert_eq!(altered(&mut client, &[(SUBJECTS, "a.>"), (ACK, "true")]).await, TopicAuthorizationFailed);
    assert_eq!(altered(&mut client, &[(SUBJECTS, "a.>"), (ACK, "false")]).await, OK);
    assert_eq!(altered(&mut client, &[(ACK, "true")]).await, TopicAuthorizationFailed, "not later either");
    rig.allow(&[(Write, Subject, "a.>")]).await;
    assert_eq!(altered(&mut client, &[(ACK, "true")]).await, OK);
}

#[tokio::test]
async fn a_denied_subject_keeps_the_pattern_out() {
    let (rig, mut client) = prepared().await;
    rig.allow(&[(Read, Subject, "a.>")]).await;
    rig.deny((Read, Subject, "a.secret")).await;
    let settings = [(SUBJECTS, "a.>"), (ACK, "false")];
    assert_eq!(altered(&mut client, &settings).await, TopicAuthorizationFailed);
    assert_eq!(captured(&rig), 0);
}

#[tokio::test]
async fn who_may_alter_the_cluster_may_capture_everything() {
    let (rig, mut client) = prepared().await;
    rig.allow(&[of_cluster(Alter)]).await;
    assert_eq!(altered(&mut client, &[(SUBJECTS, "a.>")]).await, OK);
    assert_eq!(captured(&rig), 1);
}

#[tokio::test]
async fn new_topics_and_replaced_settings_are_checked_too() {
    let (rig, mut client) = prepared().await;
    let config = alter_configs_request::AlterableConfig {
        name: SUBJECTS.to_owned(),
        value: Some("a.>".to_owned()),
        ..Default::default()
    };
    let resource = alter_configs_request::AlterConfigsResource {
        resource_type: TOPIC,
        resource_name: "t".to_owned(),
        configs: vec![config],
        ..Default::default()
    };
    let request = AlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let answer = client.call(2, &request).await.responses.remove(0);
    assert_eq!(error(answer.error_code), TopicAuthorizationFailed);
    assert_eq!(captured(&rig), 0);

    rig.allow(&[(Create, Topic, "new")]).await;
    let topics = vec![topic("new", 1, &[(SUBJECTS, "a.>")])];
    let request = CreateTopicsRequest { topics, ..Default::default() };
    let created = client.call(7, &request).await.topics.remove(0);
    assert_eq!(error(created.error_code), TopicAuthorizationFailed);
    assert!(rig.server.node().image().topic("new").is_none());
    rig.allow(&[(Read, Subject, "a.>"), (Write, Subject, "a.>")]).await;
    let created = client.call(7, &request).await.topics.remove(0);
    assert_eq!(error(created.error_code), OK, "{:?}", created.error_message);
}

#[tokio::test]
async fn an_overlap_names_the_other_topic_only_to_who_may_describe_it() {
    let (mut rig, mut client) = prepared().await;
    rig.admin.create_topic("secret", 1, &[(SUBJECTS, "a.b")]).await;
    rig.allow(&[(Read, Subject, "a.>"), (Write, Subject, "a.>")]).await;
    let (code, text) = alter(&mut client, "t", &[(SUBJECTS, "a.>")]).await;
    assert_eq!(code, InvalidConfig);
    assert!(!text.contains("secret") && !text.contains("a.b"), "{text}");
    rig.allow(&[(Describe, Topic, "secret")]).await;
    let (code, text) = alter(&mut client, "t", &[(SUBJECTS, "a.>")]).await;
    assert_eq!(code, InvalidConfig);
    assert!(text.contains("secret"), "{text}");
}
