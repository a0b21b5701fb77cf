//! Durable consumers: what survives a restart and another leader, and what must wait for that.

use std::time::Duration;

use tailrace_coordination::stream_consumers::{
    ConsumerWrite, ConsumersAnswer, ConsumersError, ConsumersRequest, ConsumersWrite, WholeConsumer,
};
use tailrace_metadata::{JETSTREAM_STATE_TOPIC, TopicRef};

use super::cluster::{leading, nodes, start_again, until};
use super::consumers::{all, consumers, deliveries, made};
use super::*;

/// All of these tests have one partition of `__jetstream_state`.
const SETTINGS: [(&str, &str); 1] = [("tailrace.jetstream.state.topic.num.partitions", "1")];

const DURABLE: &str = r#"{"durable_name":"C","ack_policy":"explicit","ack_wait":60000000000}"#;

const EVERYTHING: &str = r#"{"batch":99,"no_wait":true}"#;

async fn rig(config: &str) -> Rig {
    let rig = Rig::start(&SETTINGS).await;
    create(rig.node(), Some(&super::config())).await;
    made(&rig, &super::config(), config).await;
    rig
}

async fn send_some(rig: &Rig, count: usize) {
    let topic = rig.topic();
    send(rig.node(), topic.here(0).unwrap(), None, &vec![("a", &b""[..], None); count]).await;
}

async fn pulled(rig: &Rig) -> Vec<(u64, u64)> {
    all(rig, EVERYTHING).await.iter().flat_map(deliveries).collect()
}

fn ack(stream_seq: u64, payload: &str) -> AckAsk {
    AckAsk {
        consumer: "C".to_owned(),
        stream_seq,
        consumer_seq: stream_seq,
        deliveries: 1,
        payload: payload.to_owned(),
        wants_answer: true,
    }
}

async fn acked(rig: &Rig, sequences: &[u64]) {
    let acks = sequences.iter().map(|seq| ack(*seq, "")).collect();
    let acked = consumers(rig, &rig.topic()).acks(acks).await.unwrap();
    assert_eq!(acked, vec![Acked::Answered; sequences.len()]);
}

fn is_gone<T: std::fmt::Debug>(answer: Result<T, StreamFailure>) {
    assert!(matches!(answer, Err(StreamFailure::Api(10014, _))), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_a_durable_consumer_goes_on_and_what_was_acknowledged_does_not_come_again() {
    let rig = rig(DURABLE).await;
    send_some(&rig, 6).await;
    assert_eq!(pulled(&rig).await.len(), 6);
    acked(&rig, &[1, 2, 4]).await;
    let before = consumers(&rig, &rig.topic()).info("C").await.unwrap();
    let rig = rig.again().await;
    let topic = rig.topic();
    let facts = consumers(&rig, &topic).info("C").await.unwrap();
    assert_eq!((facts.config, facts.created_ns), (before.config, before.created_ns));
    assert_eq!((facts.ack_floor.stream, facts.num_pending, facts.num_ack_pending), (2, 3, 0));
    assert_eq!(rig.state().await.consumers, 1);
    // The one that was on its way may still be acknowledged.
    acked(&rig, &[5]).await;
    assert_eq!(pulled(&rig).await, [(3, 1), (6, 1)]);
    // It can be acknowledged once more, which changes nothing.
    acked(&rig, &[1, 3, 6]).await;
    let rig = rig.again().await;
    assert_eq!(pulled(&rig).await, []);
    assert_eq!(consumers(&rig, &rig.topic()).info("C").await.unwrap().num_pending, 0);
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_often_a_message_was_delivered_outlives_the_leader_and_so_does_what_was_given_up() {
    let config = r#"{"durable_name":"C","ack_policy":"explicit","ack_wait":60000000000,"max_deliver":2}"#;
    let rig = rig(config).await;
    send_some(&rig, 3).await;
    assert_eq!(pulled(&rig).await, [(1, 1), (2, 1), (3, 1)]);
    let nak = vec![ack(1, "-NAK"), ack(3, "+TERM")];
    consumers(&rig, &rig.topic()).acks(nak).await.unwrap();
    assert_eq!(pulled(&rig).await, [(1, 2)]);
    // Behind this answer everything is saved that was before it.
    acked(&rig, &[3]).await;
    let rig = rig.again().await;
    assert_eq!(pulled(&rig).await, [(2, 2)], "1 was delivered as often as it may be");
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_and_deletions_are_durable_when_they_are_answered() {
    let rig = rig(DURABLE).await;
    let changed = r#"{"durable_name":"C","ack_policy":"explicit","ack_wait":60000000000,"description":"x"}"#;
    assert!(made(&rig, &config(), changed).await.config.contains(r#""description":"x""#));
    let rig = rig.again().await;
    let facts = consumers(&rig, &rig.topic()).info("C").await.unwrap();
    assert!(facts.config.contains(r#""description":"x""#), "{}", facts.config);
    consumers(&rig, &rig.topic()).delete("C").await.unwrap();
    let rig = rig.again().await;
    is_gone(consumers(&rig, &rig.topic()).info("C").await);
    is_gone(consumers(&rig, &rig.topic()).delete("C").await);
    assert_eq!(rig.state().await.consumers, 0);
    // Another one of its name starts where its configuration says.
    send_some(&rig, 1).await;
    made(&rig, &config(), DURABLE).await;
    let rig = rig.again().await;
    assert_eq!(pulled(&rig).await, [(1, 1)]);
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_a_stop_acknowledgements_are_saved_that_nobody_waits_for() {
    let rig = rig(DURABLE).await;
    send_some(&rig, 2).await;
    assert_eq!(pulled(&rig).await.len(), 2);
    let silent = AckAsk { wants_answer: false, ..ack(1, "") };
    assert_eq!(consumers(&rig, &rig.topic()).acks(vec![silent]).await, Ok(vec![Acked::Silent]));
    rig.running.hand_over().await;
    let rig = rig.again().await;
    assert_eq!(pulled(&rig).await, [(2, 1)]);
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_that_are_not_durable_go_with_their_leader() {
    for config in [
        r#"{"ack_policy":"explicit","inactive_threshold":300000000000}"#,
        r#"{"durable_name":"C","ack_policy":"explicit","mem_storage":true}"#,
    ] {
        let rig = rig(config).await;
        consumers(&rig, &rig.topic()).info("C").await.unwrap();
        let rig = rig.again().await;
        is_gone(consumers(&rig, &rig.topic()).info("C").await);
        assert_eq!(consumers(&rig, &rig.topic()).names(0).await, Ok((0, Vec::new())));
        rig.running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_made_again_has_none_of_the_old_ones_consumers() {
    let rig = rig(DURABLE).await;
    let delete = Command::DeleteTopic { topic: TopicRef::Name("orders".to_owned()), by: Requester::Client };
    rig.node().controller.execute(Caller::internal(), delete, rig.node().now()).await.unwrap();
    create(rig.node(), Some(&config())).await;
    is_gone(consumers(&rig, &rig.topic()).info("C").await);
    let rig = rig.again().await;
    is_gone(consumers(&rig, &rig.topic()).info("C").await);
    let mut left = 0;
    rig.node().coordinators.consumers.look(|core| left += core.len());
    assert_eq!(left, 0);
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_saved_has_no_answer_and_holds_up_nothing_else() {
    let rig = rig(DURABLE).await;
    send_some(&rig, 4).await;
    assert_eq!(all(&rig, "2").await.iter().flat_map(deliveries).count(), 2);
    let topic = rig.topic();
    rig.node().coordinators.consumers.refuse_until(0, i64::MAX).await;
    let hasty = Caller::internal().within(Duration::from_millis(300));
    let asked = Consumers { caller: &hasty, ..consumers(&rig, &topic) };
    let failure = asked.acks(vec![ack(1, "")]).await.unwrap_err();
    assert_eq!(failure.to_api_error().kind().err_code(), 10008, "{failure}");
    // Deliveries, questions, and acknowledgements that nobody waits for go on.
    assert_eq!(pulled(&rig).await, [(3, 1), (4, 1)]);
    let silent = AckAsk { wants_answer: false, ..ack(2, "") };
    assert_eq!(consumers(&rig, &topic).acks(vec![silent]).await, Ok(vec![Acked::Silent]));
    assert_eq!(consumers(&rig, &topic).info("C").await.unwrap().ack_floor.stream, 2);
    rig.node().coordinators.consumers.refuse_until(0, 0).await;
    acked(&rig, &[1]).await;
    let rig = rig.again().await;
    assert_eq!(pulled(&rig).await, [(3, 1), (4, 1)]);
    rig.running.stop().await;
}

async fn ask(rig: &Rig, request: ConsumersRequest) -> Result<ConsumersAnswer, KeepFailure> {
    ask_coordinator_here(rig.node(), Caller::internal(), request).await
}

/// A write of somebody who is not the leader any more: C as it was at first.
fn late(topic: TopicId, generation: i64) -> ConsumersRequest {
    let whole = WholeConsumer { stream: "orders".to_owned(), config: DURABLE.to_owned(), created_ns: 1 };
    let state = [1_u8, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0][..].into();
    let changed = vec![ConsumerWrite { name: "C".to_owned(), whole: Some(whole), state }];
    let write = ConsumersWrite { deleted: Vec::new(), changed };
    ConsumersRequest::Write { topic, generation, sequence: 1_000, write }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_write_of_an_earlier_leadership_loses() {
    let rig = rig(DURABLE).await;
    send_some(&rig, 3).await;
    assert_eq!(pulled(&rig).await.len(), 3);
    let topic = rig.topic();
    let leader_epoch = topic.here(0).unwrap().leads().unwrap().get();
    let open = ConsumersRequest::Open { topic: topic.id, leader_epoch };
    // Somebody else opens the consumers, as a leader does that this node has not heard of.
    let Ok(ConsumersAnswer::Opened(old)) = ask(&rig, open).await else { panic!("it is opened") };
    // This node notices when it saves, loads them again, and is the one that writes.
    acked(&rig, &[1]).await;
    let refused = ask(&rig, late(topic.id, old)).await;
    assert!(
        matches!(refused, Err(KeepFailure::Refused(ConsumersError::FencedGeneration { .. }))),
        "{refused:?}"
    );
    topic.here(0).unwrap().lead_again();
    acked(&rig, &[2]).await;
    let open = ConsumersRequest::Open { topic: topic.id, leader_epoch };
    let refused = ask(&rig, open).await;
    assert!(matches!(refused, Err(KeepFailure::Refused(ConsumersError::FencedEpoch { .. }))), "{refused:?}");
    // The test's change of leaders is in no log, so what was saved is looked at without a restart.
    topic.here(0).unwrap().lead_again();
    assert_eq!(pulled(&rig).await, [(3, 1)]);
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_cannot_touch_the_topic_of_consumers() {
    let rig = rig(DURABLE).await;
    let topic = rig.node().topics().by_name(JETSTREAM_STATE_TOPIC).unwrap();
    assert!(topic.internal);
    assert_eq!(topic.partition_count(), 1);
    assert!(topic.config.cleanup_policy.compact, "it is compacted");
    rig.running.stop().await;
}

struct Three {
    nodes: Vec<RunningNode>,
    folders: Vec<(i32, TempDir)>,
}

impl Three {
    /// Asks any node. The leader may be about to change.
    async fn ask<T>(&self, at: usize, what: impl AsyncFn(Consumers<'_>) -> Result<T, StreamFailure>) -> T {
        let node = self.nodes[at % self.nodes.len()].node();
        let topic = until(|| node.topics().by_name("orders")).await;
        loop {
            match what(Consumers { node, caller: Caller::internal(), topic: &topic }).await {
                Ok(answer) => return answer,
                Err(StreamFailure::NoLeader(_)) => {}
                Err(failure) => panic!("{failure:?}"),
            }
        }
    }

    /// Pulls this many messages, and returns their sequences.
    async fn pull(&self, at: usize, count: usize) -> Vec<u64> {
        let body = format!("{{\"batch\":{count},\"expires\":300000000000}}");
        let mut got = Vec::new();
        while got.len() < count {
            let left = format!("{{\"batch\":{},\"no_wait\":true}}", count - got.len());
            let body = if got.is_empty() { &body } else { &left };
            let pulled = self.ask(at, async |consumers| consumers.pull("C", body).await).await;
            got.extend(deliveries(&pulled).into_iter().map(|(sequence, _)| sequence));
            if !pulled.is_over {
                self.ask(at, async |consumers| consumers.gone("C", pulled.pull, Vec::new()).await).await;
            }
        }
        got
    }

    async fn ack(&self, at: usize, sequences: &[u64]) {
        let acks: Vec<_> = sequences.iter().map(|seq| ack(*seq, "")).collect();
        let answers = self.ask(at, async |consumers| consumers.acks(acks.clone()).await).await;
        assert_eq!(answers, vec![Acked::Answered; sequences.len()]);
    }

    /// The leader stops, and comes back when another one leads.
    async fn change_leaders(&mut self) {
        let leader = until(|| leading(&self.nodes)).await;
        let gone = self.nodes.remove(leader);
        let id = gone.node().id().0;
        gone.stop().await;
        until(|| leading(&self.nodes)).await;
        let (_, folder) = self.folders.iter().find(|(other, _)| *other == id).unwrap();
        let again = start_again(&self.nodes, folder).await;
        self.nodes.push(again);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whichever_node_leads_an_answered_acknowledgement_is_kept() {
    const COUNT: usize = 12;
    let (nodes, folders) = nodes().await;
    let mut three = Three { nodes, folders: (1..).zip(folders).collect() };
    let node = three.nodes[0].node();
    let create =
        CreateTopic::with_defaults("orders", TopicId::from_random([7; 16]), node.now(), Requester::Stream);
    let configs = vec![("tailrace.jetstream.stream".to_owned(), Some(config().to_stored()))];
    let create = Command::CreateTopic(CreateTopic { replication_factor: 3, configs, ..create });
    node.execute(Caller::internal(), create).await.unwrap();
    let request = CreateConsumer {
        subject: "$JS.API.CONSUMER.CREATE.orders.C".to_owned(),
        body: format!("{{\"stream_name\":\"orders\",\"config\":{DURABLE}}}"),
        stream: config().to_stored(),
        is_single: false,
    };
    three.ask(1, async |consumers| consumers.create(request.clone()).await).await;
    let leader = until(|| leading(&three.nodes)).await;
    let node = three.nodes[leader].node();
    let topic = node.topics().by_name("orders").unwrap();
    send(node, topic.led(0).unwrap(), None, &[("a", &b""[..], None); COUNT]).await;
    let mut left: Vec<u64> = (1..=COUNT as u64).collect();
    for round in 0..3 {
        let got = three.pull(round, left.len()).await;
        assert_eq!(got, left, "round {round}");
        // Every second one is acknowledged.
        let done: Vec<u64> = got.iter().copied().step_by(2).collect();
        three.ack(round + 1, &done).await;
        left.retain(|seq| !done.contains(seq));
        three.change_leaders().await;
    }
    let facts = three.ask(2, async |consumers| consumers.info("C").await).await;
    assert_eq!(facts.num_pending, left.len() as u64);
    three.ask(0, async |consumers| consumers.delete("C").await).await;
    three.change_leaders().await;
    let (total, _) = three.ask(1, async |consumers| consumers.names(0).await).await;
    assert_eq!(total, 0, "it stays deleted");
    for node in three.nodes {
        node.stop().await;
    }
}
