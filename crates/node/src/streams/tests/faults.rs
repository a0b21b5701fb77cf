//! Bounds, changed settings, deleted topics, lost leadership.

use super::*;
use crate::partitions::advance_log_start;
use tailrace_metadata::{ConfigChange, TopicRef};
use tailrace_types::Offset;

async fn three(rig: &Rig) {
    let topic = rig.topic();
    let handle = topic.here(0).unwrap();
    send(rig.node(), handle, None, &[("a", b"1", None), ("b", b"2", None), ("a", b"3", None)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_beyond_a_bound_says_so_and_takes_no_memory() {
    for (setting, value) in
        [("tailrace.jetstream.stream.messages.max", "2"), ("tailrace.jetstream.stream.subjects.max", "1")]
    {
        let rig = Rig::start(&[(setting, value)]).await;
        create(rig.node(), Some(&config())).await;
        three(&rig).await;
        let failure = rig.read(last("a")).await.unwrap_err();
        assert!(matches!(failure, StreamFailure::TooLarge(_)), "{setting}: {failure:?}");
        assert_eq!(failure.to_api_error().kind().err_code(), 10047);
        assert_eq!(rig.read(last("a")).await, Err(failure), "it is not counted again at once");
        assert_eq!(rig.node().streams.memory_bytes(), 0);
        rig.running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_of_all_tables_together_is_bounded() {
    let rig = Rig::start(&[("tailrace.jetstream.memory.bytes.max", "1048576")]).await;
    create(rig.node(), Some(&config())).await;
    three(&rig).await;
    assert_eq!(sequences(&rig.read(last("a")).await.unwrap()), [3]);
    let small = rig.node().streams.memory_bytes();
    assert!(small > 0 && small < 100_000, "{small} bytes");
    let topic = rig.topic();
    let handle = topic.here(0).unwrap();
    for number in 0..60 {
        let long = "x".repeat(200);
        let subjects: Vec<String> = (0..100).map(|other| format!("{long}.{number}.{other}")).collect();
        let sent: Vec<Sent<'_>> = subjects.iter().map(|subject| (&**subject, &b""[..], None)).collect();
        send(rig.node(), handle, None, &sent).await;
    }
    assert!(matches!(rig.read(last("a")).await, Err(StreamFailure::TooLarge(_))));
    assert_eq!(rig.node().streams.memory_bytes(), 0);
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_and_the_start_of_the_log_remove_messages() {
    let rig = Rig::start(&[]).await;
    create(rig.node(), Some(&StreamConfig { max_msgs_per_subject: 1, ..config() })).await;
    three(&rig).await;
    assert_eq!(sequences(&rig.read(next("", 0)).await.unwrap()), [2, 3]);
    // Lower limits hold at once.
    let fewer = StreamConfig { max_msgs_per_subject: 1, max_msgs: 1, ..config() };
    change(&rig, &fewer).await;
    assert_eq!(sequences(&rig.read(next("", 0)).await.unwrap()), [3]);
    assert_eq!((rig.state().await.first_seq, rig.state().await.last_seq), (3, 3));
    let topic = rig.topic();
    advance_log_start(rig.node(), Caller::internal(), topic.here(0).unwrap(), Offset(3)).await.unwrap();
    assert_eq!(rig.read(Select::At(3)).await, Err(StreamFailure::NoMessage));
    let found = rig.state().await;
    assert_eq!((found.messages, found.first_seq, found.last_seq, found.deleted), (0, 4, 3, 0));
    // A roll-up removes what is before it.
    change(&rig, &config()).await;
    let handle = topic.here(0).unwrap();
    let rollup = Some(("Nats-Rollup", "sub"));
    send(rig.node(), handle, None, &[("a", b"4", None), ("b", b"5", None), ("a", b"6", rollup)]).await;
    assert_eq!(sequences(&rig.read(next("", 0)).await.unwrap()), [5, 6]);
    // Everything is older than this: the times are those of 1970.
    change(&rig, &StreamConfig { max_age: 1_000_000_000, ..config() }).await;
    assert_eq!(rig.read(next("", 0)).await, Err(StreamFailure::NoMessage));
    assert_eq!(rig.state().await.first_seq, 7);
    rig.running.stop().await;
}

async fn change(rig: &Rig, config: &StreamConfig) {
    let change = ConfigChange::Stream(vec![("tailrace.jetstream.stream".to_owned(), config.to_stored())]);
    let alter = Command::AlterTopicConfigs { topic: "orders".to_owned(), change };
    rig.node().controller.execute(Caller::internal(), alter, rig.node().now()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_of_the_same_name_is_another_stream() {
    let rig = Rig::start(&[]).await;
    create(rig.node(), Some(&config())).await;
    three(&rig).await;
    let old = rig.topic();
    assert_eq!(rig.state().await.messages, 3);
    let delete = Command::DeleteTopic { topic: TopicRef::Name("orders".to_owned()), by: Requester::Client };
    rig.node().controller.execute(Caller::internal(), delete, rig.node().now()).await.unwrap();
    let read = messages(rig.node(), Caller::internal(), &old, last("a"), ALL).await;
    assert_eq!(read, Err(StreamFailure::NoStream));
    create(rig.node(), Some(&config())).await;
    assert_eq!(rig.state().await, StreamState::default());
    // The table of the deleted one is gone as soon as its task has seen it.
    while rig.node().streams.tables() > 1 {
        tokio::task::yield_now().await;
    }
    rig.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_of_an_earlier_leadership_is_not_used_again() {
    let rig = Rig::start(&[]).await;
    create(rig.node(), Some(&config())).await;
    three(&rig).await;
    assert_eq!(rig.state().await.messages, 3);
    let topic = rig.topic();
    let handle = topic.here(0).unwrap();
    let group = handle.group;
    let table = || rig.node().streams.live.lock().get(&group).map(Arc::clone).unwrap();
    let before = table();
    handle.lead_again();
    assert_eq!(rig.state().await.messages, 3);
    assert!(!Arc::ptr_eq(&before, &table()));
    rig.running.stop().await;
}
