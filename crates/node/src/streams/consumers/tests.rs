//! A consumer beside a table, without the task that keeps it.

use std::sync::Arc;

use tailrace_jetstream::consumer::{Bounds, Names};
use tailrace_jetstream::consumer_config::ConsumerConfig;
use tailrace_metadata::{Command, CreateTopic, Requester};
use tailrace_peers::BoxFuture;
use tailrace_types::TopicId;
use tempfile::TempDir;

use super::super::deliverer::Deliverer;
use super::super::live::LiveStream;
use super::super::rules::Rules;
use super::beside::moment;
use super::member::{Boxes, Member, Origin, Turn};
use super::pulls::Pulls;
use super::push::Pushes;
use super::types::PulledItem;
use crate::caller::Caller;
use crate::testing::start_in;

/// A front where somebody listens at every subject, or nobody at any.
struct Front {
    is_listened: bool,
}

impl Deliverer for Front {
    fn has_interest(&self, _: &str, _: Option<&str>) -> bool {
        self.is_listened
    }

    fn deliver<'a>(&'a self, _: &'a str, items: &'a [PulledItem]) -> BoxFuture<'a, usize> {
        Box::pin(std::future::ready(items.len()))
    }

    fn tell<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Otherwise it would deliver what comes only at the next look whether its client is still there, seconds
/// later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_consumer_is_looked_at_for_each_new_message_while_somebody_listens() {
    let folder = TempDir::new().unwrap();
    let running = start_in(&folder, &[]).await;
    let node = running.node();
    let create = CreateTopic::with_defaults("t", TopicId([1; 16]), node.now(), Requester::Client);
    node.execute(Caller::internal(), Command::CreateTopic(create)).await.unwrap();
    let topic = node.topics().by_name("t").unwrap();
    let (handle, rules) = (topic.here(0).unwrap(), Rules::of(&topic).unwrap());
    let (memory, ids) = (&node.streams.memory, &node.streams.ids);
    let live = LiveStream::new(handle, handle.leads().unwrap(), rules, memory, ids);
    for is_listened in [false, true] {
        let table = live.table.read();
        let (pulls, pushes) =
            (Pulls::new(&Arc::default()), Pushes::new(Some(Arc::new(Front { is_listened }))));
        let boxes = Boxes { pulls: &pulls, pushes: &pushes };
        let config = ConsumerConfig { deliver_subject: "to".to_owned(), ..ConsumerConfig::default() };
        let names = Names { stream: "t".into(), consumer: "C".into() };
        let turn = Turn { table: table.as_ref().unwrap(), boxes, at: moment() };
        let member = Member::create(Origin { names, config, bounds: Bounds::default() }, turn).unwrap();
        assert_eq!(member.is_hungry(), is_listened);
    }
    running.stop().await;
}
