//! Push consumers of a node, with a front that writes down what it is to send.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tailrace_peers::BoxFuture;

use super::*;

/// Time in which something happens that happens soon on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A front whose clients take as many messages as there is room for, and wait then, or leave.
#[derive(Default)]
struct Clients {
    listen: AtomicBool,
    room: AtomicUsize,
    /// Whether they leave when there is no room.
    leave: AtomicBool,
    /// The sequences that they have got, and how often those had been delivered.
    got: Mutex<Vec<(u64, u64)>>,
}

impl Clients {
    fn come(&self, room: usize) {
        self.room.store(room, Ordering::SeqCst);
        self.listen.store(true, Ordering::SeqCst);
    }

    fn got(&self) -> Vec<(u64, u64)> {
        self.got.lock().clone()
    }

    async fn take(&self, item: &PulledItem) -> bool {
        let PulledItem::Message(message) = item else { return true };
        while self.room.load(Ordering::SeqCst) == 0 {
            if self.leave.load(Ordering::SeqCst) {
                self.listen.store(false, Ordering::SeqCst);
                return false;
            }
            // For the test to make room.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.room.fetch_sub(1, Ordering::SeqCst);
        let deliveries = message.reply.split('.').nth(4).unwrap().parse().unwrap();
        self.got.lock().push((message.message.sequence, deliveries));
        true
    }
}

impl Deliverer for Clients {
    fn has_interest(&self, subject: &str, _: Option<&str>) -> bool {
        subject == "to" && self.listen.load(Ordering::SeqCst)
    }

    fn deliver<'a>(&'a self, _: &'a str, items: &'a [PulledItem]) -> BoxFuture<'a, usize> {
        Box::pin(async move {
            for (number, item) in items.iter().enumerate() {
                if !self.take(item).await {
                    return number;
                }
            }
            items.len()
        })
    }

    fn tell<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

async fn rig(clients: &Arc<Clients>) -> Rig {
    let folder = TempDir::new().unwrap();
    let deliverer = Some(Arc::clone(clients) as _);
    let running = start_with(&folder, &[], Fronts { deliverer, ..fronts() }).await;
    let rig = Rig { running, folder, settings: Vec::new() };
    create(rig.node(), Some(&config())).await;
    rig
}

async fn made(rig: &Rig, name: &str, config: &str) -> ConsumerFacts {
    let request = CreateConsumer {
        subject: format!("$JS.API.CONSUMER.CREATE.orders.{name}"),
        body: format!("{{\"stream_name\":\"orders\",\"config\":{config}}}"),
        stream: super::config().to_stored(),
        is_single: true,
    };
    consumers(rig, &rig.topic()).create(request).await.unwrap()
}

fn consumers<'a>(rig: &'a Rig, topic: &'a Topic) -> Consumers<'a> {
    Consumers { node: rig.node(), caller: Caller::internal(), topic }
}

async fn until(what: impl Fn() -> bool) {
    let there = async {
        while !what() {
            // For the consumer's task to have its turn.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, there).await.expect("it happens");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_reaches_nobody_does_not_count_and_goes_to_those_who_come_later() {
    let clients = Arc::new(Clients::default());
    let rig = rig(&clients).await;
    let topic = rig.topic();
    send(rig.node(), topic.here(0).unwrap(), None, &[("a", &b""[..], None); 5]).await;
    clients.leave.store(true, Ordering::SeqCst);
    clients.come(2);
    made(&rig, "P", r#"{"deliver_subject":"to","durable_name":"P","ack_policy":"explicit"}"#).await;
    until(|| !clients.listen.load(Ordering::SeqCst)).await;
    assert_eq!(clients.got(), [(1, 1), (2, 1)]);
    assert!(!consumers(&rig, &topic).info("P").await.unwrap().push_bound);
    clients.come(9);
    until(|| clients.got().len() == 5).await;
    assert_eq!(clients.got()[2..], [(3, 1), (4, 1), (5, 1)]);
    let facts = consumers(&rig, &topic).info("P").await.unwrap();
    assert_eq!((facts.push_bound, facts.num_ack_pending, facts.num_redelivered), (true, 5, 0));
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_whose_client_is_slow_stops_and_holds_up_no_other() {
    const COUNT: usize = 9_000;
    let clients = Arc::new(Clients::default());
    let rig = rig(&clients).await;
    let topic = rig.topic();
    for _ in 0..COUNT / 1_000 {
        send(rig.node(), topic.here(0).unwrap(), None, &[("a", &b"x"[..], None); 1_000]).await;
    }
    clients.come(0);
    made(&rig, "P", r#"{"deliver_subject":"to","ack_policy":"none"}"#).await;
    made(&rig, "C", r#"{"ack_policy":"none"}"#).await;
    let consumers = consumers(&rig, &topic);
    let pulled = consumers.pull("C", "1").await.unwrap();
    assert_eq!(pulled.items.len(), 1);
    let mut delivered = 0;
    // It stands still: what is in its box, and what was taken out of it.
    let stopped = async {
        loop {
            let now = consumers.info("P").await.unwrap().delivered.stream;
            if std::mem::replace(&mut delivered, now) == now && now >= 4_096 {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, stopped).await.expect("it stops");
    assert!(delivered < 4_096 + 1_024 + 512, "{delivered}");
    clients.come(COUNT);
    until(|| clients.got().len() == COUNT).await;
    assert!(clients.got().iter().map(|(sequence, _)| *sequence).eq(1..=COUNT as u64));
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_front_that_sends_there_are_no_push_consumers() {
    let rig = Rig::start(&[]).await;
    create(rig.node(), Some(&config())).await;
    let request = CreateConsumer {
        subject: "$JS.API.CONSUMER.CREATE.orders.P".to_owned(),
        body: r#"{"stream_name":"orders","config":{"deliver_subject":"to"}}"#.to_owned(),
        stream: config().to_stored(),
        is_single: true,
    };
    let refused = consumers(&rig, &rig.topic()).create(request).await;
    assert!(matches!(refused, Err(StreamFailure::Api(10012, _))), "{refused:?}");
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_a_durable_consumer_sends_on_without_being_asked() {
    let clients = Arc::new(Clients::default());
    let rig = rig(&clients).await;
    let topic = rig.topic();
    send(rig.node(), topic.here(0).unwrap(), None, &[("a", &b""[..], None); 3]).await;
    clients.come(9);
    made(&rig, "P", r#"{"deliver_subject":"to","durable_name":"P","ack_policy":"all"}"#).await;
    until(|| clients.got().len() == 3).await;
    let ack = AckAsk {
        consumer: "P".to_owned(),
        stream_seq: 2,
        consumer_seq: 2,
        deliveries: 1,
        payload: String::new(),
        wants_answer: true,
    };
    assert_eq!(consumers(&rig, &topic).acks(vec![ack]).await, Ok(vec![Acked::Answered]));
    let Rig { running, folder, .. } = rig;
    running.stop().await;
    let deliverer = Some(Arc::clone(&clients) as _);
    let running = start_with(&folder, &[], Fronts { deliverer, ..fronts() }).await;
    until(|| clients.got().len() == 4).await;
    assert_eq!(clients.got()[3], (3, 1));
    running.stop().await;
}
