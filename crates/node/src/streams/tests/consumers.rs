//! Pull consumers of a node, asked as a front asks.

use std::time::Duration;

use super::*;

/// Time in which something happens that happens soon on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The stream and a consumer C with this configuration.
async fn with_consumer(
    settings: &[(&'static str, &'static str)],
    stream: &StreamConfig,
    config: &str,
) -> Rig {
    let rig = Rig::start(settings).await;
    create(rig.node(), Some(stream)).await;
    made(&rig, stream, config).await;
    rig
}

pub(super) async fn made(rig: &Rig, stream: &StreamConfig, config: &str) -> ConsumerFacts {
    let request = CreateConsumer {
        subject: "$JS.API.CONSUMER.CREATE.orders.C".to_owned(),
        body: format!("{{\"stream_name\":\"orders\",\"config\":{config}}}"),
        stream: stream.to_stored(),
        is_single: true,
    };
    consumers(rig, &rig.topic()).create(request).await.unwrap()
}

pub(super) fn consumers<'a>(rig: &'a Rig, topic: &'a Topic) -> Consumers<'a> {
    Consumers { node: rig.node(), caller: Caller::internal(), topic }
}

/// The sequences of messages, and how often each was delivered.
pub(super) fn deliveries(pulled: &Pulled) -> Vec<(u64, u64)> {
    let delivery = |item: &PulledItem| match item {
        PulledItem::Message(message) => {
            let deliveries = message.reply.split('.').nth(4).unwrap().parse().unwrap();
            Some((message.message.sequence, deliveries))
        }
        PulledItem::Status { .. } => None,
    };
    pulled.items.iter().filter_map(delivery).collect()
}

/// Pulls until the pull is over.
pub(super) async fn all(rig: &Rig, body: &str) -> Vec<Pulled> {
    let topic = rig.topic();
    let consumers = consumers(rig, &topic);
    let mut answers = vec![consumers.pull("C", body).await.unwrap()];
    while !answers.last().unwrap().is_over {
        let pull = answers.last().unwrap().pull;
        answers.push(consumers.more(pull).await.unwrap());
    }
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_counts_and_delivers_what_the_limits_have_left() {
    let stream = StreamConfig { max_msgs_per_subject: 1, ..config() };
    let rig = with_consumer(&[], &stream, r#"{"ack_policy":"explicit","filter_subject":"a.*"}"#).await;
    let topic = rig.topic();
    let handle = topic.here(0).unwrap();
    send(rig.node(), handle, None, &[("a.1", b"", None), ("b", b"", None), ("a.2", b"", None)]).await;
    let pending = async || consumers(&rig, &topic).info("C").await.unwrap().num_pending;
    assert_eq!(pending().await, 2);
    // The first is gone: the subject has one message as before.
    send(rig.node(), handle, None, &[("a.1", b"", None)]).await;
    assert_eq!(pending().await, 2);
    let got = all(&rig, r#"{"batch":9,"no_wait":true}"#).await;
    assert_eq!(got.iter().flat_map(deliveries).collect::<Vec<_>>(), [(3, 1), (4, 1)]);
    // A message that is gone needs no acknowledgement any more.
    send(rig.node(), handle, None, &[("a.2", b"", None), ("a.3", b"", None)]).await;
    let facts = consumers(&rig, &topic).info("C").await.unwrap();
    assert_eq!((facts.num_ack_pending, facts.num_pending), (1, 2));
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn very_many_messages_come_in_parts_and_in_order() {
    const COUNT: usize = 9_000;
    let rig = with_consumer(&[], &config(), r#"{"ack_policy":"none"}"#).await;
    let topic = rig.topic();
    for _ in 0..COUNT / 1_000 {
        send(rig.node(), topic.here(0).unwrap(), None, &[("a", &b"x"[..], None); 1_000]).await;
    }
    let got = all(&rig, &COUNT.to_string()).await;
    assert!(got.iter().all(|pulled| pulled.items.len() <= 1_024));
    let expected: Vec<_> = (1..=COUNT as u64).map(|seq| (seq, 1)).collect();
    assert_eq!(got.iter().flat_map(deliveries).collect::<Vec<_>>(), expected);
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_reach_its_client_goes_to_another_and_counts_once() {
    let rig = with_consumer(&[], &config(), r#"{"ack_policy":"explicit"}"#).await;
    let topic = rig.topic();
    send(rig.node(), topic.here(0).unwrap(), None, &[("a", b"1", None), ("a", b"2", None)]).await;
    let consumers = consumers(&rig, &topic);
    let first = consumers.pull("C", "5").await.unwrap();
    assert_eq!(deliveries(&first), [(1, 1), (2, 1)]);
    consumers.gone("C", first.pull, vec![2]).await.unwrap();
    assert_eq!(consumers.info("C").await.unwrap().num_waiting, 0);
    let got = all(&rig, r#"{"batch":9,"no_wait":true}"#).await;
    assert_eq!(got.iter().flat_map(deliveries).collect::<Vec<_>>(), [(2, 1)]);
    let unknown = consumers.more(first.pull).await;
    assert!(matches!(unknown, Err(StreamFailure::Api(10014, _))), "{unknown:?}");
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_has_no_more_messages_unacknowledged_than_the_settings_allow() {
    let settings = [("tailrace.jetstream.consumer.ack.pending.max", "3")];
    let rig = with_consumer(&settings, &config(), r#"{"ack_policy":"explicit","max_ack_pending":-1}"#).await;
    let topic = rig.topic();
    send(rig.node(), topic.here(0).unwrap(), None, &[("a", &b""[..], None); 5]).await;
    let pulled = consumers(&rig, &topic).pull("C", "5").await.unwrap();
    assert_eq!(deliveries(&pulled), [(1, 1), (2, 1), (3, 1)]);
    let ack = |stream_seq| AckAsk {
        consumer: "C".to_owned(),
        stream_seq,
        consumer_seq: stream_seq,
        deliveries: 1,
        payload: String::new(),
        wants_answer: true,
    };
    let acked = consumers(&rig, &topic).acks(vec![ack(1), ack(9)]).await.unwrap();
    assert_eq!(acked, [Acked::Answered, Acked::Silent]);
    assert_eq!(deliveries(&consumers(&rig, &topic).more(pulled.pull).await.unwrap()), [(4, 1)]);
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pull_whose_node_is_gone_is_given_up_and_what_was_for_it_goes_to_another() {
    let rig = with_consumer(&[], &config(), r#"{"ack_policy":"explicit","ack_wait":60000000000}"#).await;
    let topic = rig.topic();
    let handle = topic.here(0).unwrap();
    send(rig.node(), handle, None, &[("a", b"1", None)]).await;
    let consumers = consumers(&rig, &topic);
    let lost = consumers.pull("C", r#"{"batch":5,"expires":300000000000}"#).await.unwrap();
    assert_eq!((deliveries(&lost), lost.is_over), (vec![(1, 1)], false));
    // Its node asks no more. What comes now is in its box until the lease has ended.
    send(rig.node(), handle, None, &[("a", b"2", None)]).await;
    let is_taken = |facts: &ConsumerFacts| facts.num_ack_pending == 2 || facts.num_waiting == 0;
    let taken = async { while !is_taken(&consumers.info("C").await.unwrap()) {} };
    tokio::time::timeout(PATIENCE, taken).await.expect("it is delivered into the box, or too late");
    let got = all(&rig, r#"{"batch":1,"expires":60000000000}"#).await;
    assert_eq!(got.iter().flat_map(deliveries).collect::<Vec<_>>(), [(2, 1)], "it has not counted");
    let facts = consumers.info("C").await.unwrap();
    assert_eq!((facts.num_waiting, facts.num_ack_pending), (0, 2), "the lost pull waits no more");
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_matches_little_gets_its_messages_and_others_need_not_wait() {
    const COUNT: usize = 70_000;
    let rig = with_consumer(&[], &config(), r#"{"ack_policy":"none","filter_subject":"b"}"#).await;
    let topic = rig.topic();
    let handle = topic.here(0).unwrap();
    for _ in 0..COUNT / 1_000 {
        send(rig.node(), handle, None, &[("a", &b""[..], None); 1_000]).await;
    }
    send(rig.node(), handle, None, &[("b", b"", None), ("a", b"", None)]).await;
    // One search looks at fewer messages than that.
    let got = all(&rig, r#"{"batch":1,"expires":60000000000}"#).await;
    assert_eq!(got.iter().flat_map(deliveries).collect::<Vec<_>>(), [(COUNT as u64 + 1, 1)]);
    rig.running.stop().await;
}
