//! Producer ids, and waiting for metadata.

use std::collections::BTreeSet;
use std::fs;
use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use tailrace_env::time::{Duration, Instant};
use tailrace_env::{join, task, time};

use tailrace_log::read_identity;
use tailrace_metadata::{Command, CreateTopic, MetadataRecord, Requester, TopicRef};
use tailrace_types::{
    HighWatermark, LeaderEpoch, PartitionId, ProducerId, TimestampMs, TopicId, TopicName, TopicPartition,
};
use tempfile::TempDir;

use super::here::append;
use super::{CommandError, ControllerShell};
use crate::caller::{Caller, Door};
use crate::deadlines::COMMAND_TIMEOUT;
use crate::node::Node;
use crate::partitions::{Awaited, PartitionSlot};
use crate::start::RunningNode;
use crate::testing::start_in;

const ALL_GONE: &str = "All producer ids have been handed out.";

/// Reserves all ids below `next`, as if they had been allocated over the ages.
async fn reserve(node: &Node, next: i64) {
    let shell = &node.controller;
    let guard = Arc::clone(&shell.state).lock_owned().await;
    let first = shell.image().next_producer_id();
    let records = [MetadataRecord::ProducerIds { first, next: ProducerId(next) }];
    let (handle, now) = (shell.handle(), node.now());
    let epoch = handle.leads().unwrap();
    let appended = task::spawn_blocking(move || append(&handle, &records, epoch, now));
    let until = Instant::now() + COMMAND_TIMEOUT;
    shell.committed(appended.await.unwrap().unwrap(), until).await.unwrap();
    shell.apply_committed(guard, now).await.unwrap();
}

async fn fresh_id(running: &RunningNode) -> Result<ProducerId, String> {
    let node = running.node();
    let id = node.controller.next_producer_id(Caller::internal(), &node.producer_ids, node.now()).await;
    id.map_err(|error| error.to_string())
}

/// Two blocks are left, and the server restarts halfway through the first. What was reserved is gone, and no
/// id comes twice, or after the last one.
#[tokio::test(flavor = "multi_thread")]
async fn producer_ids_end_and_never_come_again() {
    let folder = TempDir::new().unwrap();
    let mut ids = BTreeSet::new();
    let first = start_in(&folder, &[]).await;
    reserve(first.node(), i64::MAX - 2000).await;
    for _ in 0..500 {
        assert!(ids.insert(fresh_id(&first).await.unwrap()));
    }
    assert_eq!(first.stop().await, 0);

    let second = start_in(&folder, &[]).await;
    for _ in 0..1000 {
        assert!(ids.insert(fresh_id(&second).await.unwrap()), "an id came twice");
    }
    assert_eq!(ids.first(), Some(&ProducerId(i64::MAX - 2000)));
    assert_eq!(ids.last(), Some(&ProducerId(i64::MAX - 1)));
    for _ in 0..3 {
        assert_eq!(fresh_id(&second).await.unwrap_err(), ALL_GONE);
    }
    assert_eq!(second.stop().await, 0);
    let third = start_in(&folder, &[]).await;
    assert_eq!(fresh_id(&third).await.unwrap_err(), ALL_GONE);
    assert_eq!(third.node().image().next_producer_id(), ProducerId(i64::MAX));
}

/// On the controller's node, and on one that asks it.
#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_the_newest_metadata_has_them_and_reserves_nothing() {
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let first = start_in(&folders[0], &[("node.id", "1"), ("cluster.listen", "127.0.0.1:0")]).await;
    let seed = first.addresses().unwrap().cluster.unwrap().to_string();
    let own = [("node.id", "2"), ("cluster.listen", "127.0.0.1:0"), ("tailrace.cluster.seeds", &seed)];
    let second = start_in(&folders[1], &own).await;
    for number in 0..5 {
        let (made, now) = (&first.node().controller, first.node().now());
        let (name, id) = (format!("topic-{number}"), TopicId([number + 1; 16]));
        let create = CreateTopic::with_defaults(&name, id, now, Requester::Client);
        let unreserved = made.image().next_producer_id();
        made.execute(Caller::internal(), Command::CreateTopic(create), now).await.unwrap();
        for running in [&second, &first] {
            let node = running.node();
            node.controller.catch_up(node.now()).await.unwrap();
            let image = node.image();
            assert!(image.topic_by_id(id).is_some(), "{number}");
            assert_eq!(image.next_producer_id(), unreserved);
        }
    }
    second.stop().await;
    first.stop().await;
}

/// A node that only follows also slows down when the disk cannot keep up.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_follower_writes_counts_as_dirty() {
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let first = start_in(&folders[0], &[("node.id", "1"), ("cluster.listen", "127.0.0.1:0")]).await;
    let seed = first.addresses().unwrap().cluster.unwrap().to_string();
    let own = [("node.id", "2"), ("cluster.listen", "127.0.0.1:0"), ("tailrace.cluster.seeds", &seed)];
    let second = start_in(&folders[1], &own).await;
    let node = second.node();
    node.controller.catch_up(node.now()).await.unwrap();
    let (before, end) = (node.dirty.appended_bytes(), node.controller.handle().reader.log_end());
    let create = CreateTopic::with_defaults("t", TopicId([1; 16]), node.now(), Requester::Client);
    let (leader, now) = (&first.node().controller, node.now());
    leader.execute(Caller::internal(), Command::CreateTopic(create), now).await.unwrap();
    node.controller.catch_up(node.now()).await.unwrap();
    assert!(node.controller.handle().reader.log_end() > end, "it has the records");
    assert!(node.dirty.appended_bytes() > before);
    second.stop().await;
    first.stop().await;
}

/// A follower that is far behind makes the leader read the rows of its index.
#[tokio::test(flavor = "multi_thread")]
async fn the_metadata_log_is_reopened_when_its_index_is_damaged() {
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap()];
    let cluster = ("cluster.listen", "127.0.0.1:0");
    let first = start_in(&folders[0], &[("node.id", "1"), cluster]).await;
    let seed = first.addresses().unwrap().cluster.unwrap().to_string();
    let second = start_in(&folders[1], &[("node.id", "2"), cluster, ("tailrace.cluster.seeds", &seed)]).await;
    let settings = [("node.id", "3"), cluster, ("tailrace.cluster.seeds", &*seed)];
    let third = start_in(&folders[2], &settings).await;
    third.node().controller.catch_up(third.node().now()).await.unwrap();
    third.stop().await;
    let node = first.node();
    let make = async |number: u8| {
        let create = CreateTopic::with_defaults(
            &format!("t-{number}"),
            TopicId([number; 16]),
            node.now(),
            Requester::Client,
        );
        let made = node.controller.execute(Caller::internal(), Command::CreateTopic(create), node.now());
        made.await.unwrap();
    };
    for number in 1..=200 {
        make(number).await;
    }
    let before = node.controller.handle();
    let folder = folders[0].path().join("data").join(before.id.to_string());
    let is_index = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "index");
    let indexes = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(is_index);
    for index in indexes {
        let mut rows = fs::read(&index).unwrap();
        rows.iter_mut().for_each(|byte| *byte = !*byte);
        fs::write(index, rows).unwrap();
    }

    let third = start_in(&folders[2], &settings).await;
    let until = Instant::now() + Duration::from_secs(60);
    while Arc::ptr_eq(&before, &node.controller.handle()) {
        assert!(Instant::now() < until, "halted: {:?}", before.halted());
        time::sleep(Duration::from_millis(100)).await;
    }
    for running in [&first, &second, &third] {
        let node = running.node();
        node.controller.catch_up(node.now()).await.unwrap();
        assert!(node.image().topic_by_id(TopicId([200; 16])).is_some());
    }
    for running in [third, second, first] {
        running.stop().await;
    }
}

/// Without a controller, the caller stops waiting at its deadline, although others may be more patient.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_looks_for_a_controller_longer_than_the_caller_waits() {
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let first = start_in(&folders[0], &[("node.id", "1"), ("cluster.listen", "127.0.0.1:0")]).await;
    let seed = first.addresses().unwrap().cluster.unwrap().to_string();
    let own = [("node.id", "2"), ("cluster.listen", "127.0.0.1:0"), ("tailrace.cluster.seeds", &seed)];
    let second = start_in(&folders[1], &own).await;
    first.stop().await;
    let node = second.node();
    let create = CreateTopic::with_defaults("t", TopicId([1; 16]), node.now(), Requester::Client);
    let client = Caller::client(Door::Kafka, SocketAddr::from((Ipv4Addr::LOCALHOST, 5000)));
    let (caller, began) = (client.within(Duration::from_millis(200)), Instant::now());
    let outcome = node.controller.executed(&caller, Command::CreateTopic(create), node.now()).await;
    // The other node may have stopped while the command was in flight.
    assert!(matches!(outcome, Err(CommandError::NotController | CommandError::OutcomeUnknown)));
    assert!(began.elapsed() < COMMAND_TIMEOUT / 2);
    second.stop().await;
}

/// What was planned in an earlier epoch may not fit what another leader has appended since.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_planned_in_another_epoch_is_not_appended() {
    let folder = TempDir::new().unwrap();
    let running = start_in(&folder, &[("cluster.listen", "127.0.0.1:0")]).await;
    let (node, first) = (running.node(), running.node().image().next_producer_id());
    let records = [MetadataRecord::ProducerIds { first, next: ProducerId(first.get() + 1) }];
    let (handle, now) = (node.controller.handle(), node.now());
    let epoch = handle.leads().unwrap();
    let end = handle.reader.log_end();
    let appended = task::spawn_blocking(move || append(&handle, &records, LeaderEpoch(epoch.get() - 1), now));
    assert!(matches!(appended.await.unwrap(), Err(CommandError::NotController)));
    assert_eq!(node.controller.handle().reader.log_end(), end);
    running.stop().await;
}

/// Another controller may have been elected, and may delete the topic that this one knows.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_may_be_deposed_refuses_nothing_and_does_not_say_that_it_did_nothing() {
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap()];
    let cluster = ("cluster.listen", "127.0.0.1:0");
    // With this tick it takes a while to notice.
    let ticks = ("tailrace.raft.tick.ms", "300");
    let first = start_in(&folders[0], &[("node.id", "1"), cluster, ticks]).await;
    let seed = first.addresses().unwrap().cluster.unwrap().to_string();
    let second =
        start_in(&folders[1], &[("node.id", "2"), cluster, ticks, ("tailrace.cluster.seeds", &seed)]).await;
    let third =
        start_in(&folders[2], &[("node.id", "3"), cluster, ticks, ("tailrace.cluster.seeds", &seed)]).await;
    let node = first.node();
    let until = Instant::now() + Duration::from_secs(60);
    let voters = async || node.controller.handle().members().await.map(|members| members.voters.len());
    while voters().await != Some(3) {
        assert!(Instant::now() < until, "all three are to vote");
        time::sleep(Duration::from_millis(20)).await;
    }
    let client = Caller::client(Door::Kafka, SocketAddr::from((Ipv4Addr::LOCALHOST, 5000)));
    let create = async |name: &str, id: u8, patience: Duration| {
        let create = CreateTopic::with_defaults(name, TopicId([id; 16]), node.now(), Requester::Client);
        let caller = client.within(patience);
        node.controller.executed(&caller, Command::CreateTopic(create), node.now()).await
    };
    create("known", 1, COMMAND_TIMEOUT).await.unwrap();
    let again = create("known", 2, COMMAND_TIMEOUT).await;
    assert!(matches!(again, Err(CommandError::Refused(_))), "a majority confirms it");
    join!(second.stop(), third.stop());

    assert!(node.controller.handle().leads().is_some());
    let (again, other) =
        join!(create("known", 3, Duration::from_millis(200)), create("other", 4, COMMAND_TIMEOUT / 2));
    assert!(matches!(again, Err(CommandError::NotController)), "{:?}", again.err());
    assert!(matches!(other, Err(CommandError::OutcomeUnknown)), "{:?}", other.err());
    first.stop().await;
}

/// In a cluster each earlier command may wait for a majority. A standalone server waits for its disk alone
/// and asks no other node.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_does_not_wait_for_its_turn_for_ever() {
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let one_of_several = start_in(&folders[0], &[("node.id", "1"), ("cluster.listen", "127.0.0.1:0")]).await;
    let alone = start_in(&folders[1], &[]).await;
    let soon = || Instant::now() + Duration::from_millis(20);

    let shell = &one_of_several.node().controller;
    let taken = Arc::clone(&shell.state).lock_owned().await;
    assert!(matches!(shell.turn(soon()).await, Err(CommandError::NotController)));
    drop(taken);
    assert!(shell.turn(soon()).await.is_ok());

    let shell = &alone.node().controller;
    let taken = Arc::clone(&shell.state).lock_owned().await;
    assert!(time::timeout(Duration::from_millis(100), shell.turn(soon())).await.is_err(), "it waits");
    drop(taken);
    one_of_several.stop().await;
    alone.stop().await;
}

/// A command that waits for a majority keeps later ones waiting, and all of them would delay the stop of a
/// server that has no majority any longer.
#[tokio::test(flavor = "multi_thread")]
async fn closing_ends_commands_that_wait_for_a_majority() {
    let folder = TempDir::new().unwrap();
    let running = start_in(&folder, &[]).await;
    let shell = &running.node().controller;
    let guard = Arc::clone(&shell.state).lock_owned().await;
    let beyond = HighWatermark(shell.handle().reader.log_end().offset().get() + 1);
    let epoch = shell.handle().leads().unwrap();
    let until = Instant::now() + COMMAND_TIMEOUT;
    let waiting = async {
        let outcome = shell.committed(Awaited { at: beyond, epoch }, until).await;
        drop(guard);
        outcome
    };
    let both = async { join!(waiting, shell.close()) };
    let (outcome, ()) = time::timeout(COMMAND_TIMEOUT / 2, both).await.expect("it closes");
    assert!(outcome.is_err());
    running.stop().await;
}

/// Polls a command this many times and then drops it, as a timeout does. True if it was executed.
async fn given_up_after(
    polls: usize,
    shell: &Arc<ControllerShell>,
    command: Command,
    now: TimestampMs,
) -> bool {
    let mut executed = pin!(shell.execute(Caller::internal(), command, now));
    let mut polled = 0;
    poll_fn(|context| {
        if polled == polls {
            return Poll::Ready(false);
        }
        polled += 1;
        executed.as_mut().poll(context).map(|executed| executed.is_ok())
    })
    .await
}

/// Wherever the command is dropped: what is in the metadata log is applied to the end, without another
/// change.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_nobody_waits_for_is_carried_out() {
    let folder = TempDir::new().unwrap();
    let running = start_in(&folder, &[]).await;
    let node = running.node();
    let shell = &node.controller;
    let carried_out = async || {
        let end = shell.handle().reader.log_end().offset();
        let applied = time::timeout(COMMAND_TIMEOUT, shell.applied_upto(end)).await;
        applied.expect("what is committed is applied");
    };
    for polls in 1.. {
        let id = TopicId([u8::try_from(polls).unwrap(); 16]);
        let create = Command::CreateTopic(CreateTopic::with_defaults("t", id, node.now(), Requester::Client));
        let is_created = given_up_after(polls, shell, create.clone(), node.now()).await;
        carried_out().await;
        if !is_created {
            // It may have been dropped before it was appended, or be in flight.
            let _ = shell.execute(Caller::internal(), create, node.now()).await;
        }
        let created = shell.topics().by_id(id.0).expect("the table has it");
        let folder = folder.path().join("data/t-0");
        assert!(created.partitions.iter().all(|slot| slot.handle().is_some()), "{polls} polls");
        let owner = read_identity(shell.opener.store.disk(), &folder).unwrap().map(|found| found.topic_id);
        assert_eq!(owner, Some(id), "{polls} polls");

        let delete = Command::DeleteTopic { topic: TopicRef::Id(id), by: Requester::Client };
        let is_deleted = given_up_after(polls, shell, delete.clone(), node.now()).await;
        carried_out().await;
        if !is_deleted {
            let _ = shell.execute(Caller::internal(), delete, node.now()).await;
        }
        assert!(shell.topics().by_id(id.0).is_none() && !folder.exists(), "{polls} polls");
        if is_created && is_deleted {
            break;
        }
    }
    running.stop().await;
}

/// Polls a command until the image shows its topic, and then drops it.
async fn given_up_once_visible(shell: &Arc<ControllerShell>, create: CreateTopic, now: TimestampMs) {
    let id = create.id;
    let mut executed = pin!(shell.execute(Caller::internal(), Command::CreateTopic(create), now));
    poll_fn(|context| {
        let is_done = executed.as_mut().poll(context).is_ready();
        if is_done || shell.image().topic_by_id(id).is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// The image shows the topic before its partitions are open. Between the two there is always a moment at
/// which the command may be dropped, however fast the machine is.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_nobody_waits_for_opens_its_partitions() {
    let folder = TempDir::new().unwrap();
    let running = start_in(&folder, &[]).await;
    let (node, id) = (running.node(), TopicId([1; 16]));
    let shell = &node.controller;
    let create = CreateTopic::with_defaults("t", id, node.now(), Requester::Client);
    given_up_once_visible(shell, create, node.now()).await;
    let end = shell.handle().reader.log_end().offset();
    let applied = time::timeout(COMMAND_TIMEOUT, shell.applied_upto(end)).await;
    applied.expect("what is committed is applied");
    let created = shell.topics().by_id(id.0).expect("the table has it");
    assert!(created.partitions.iter().all(|slot| slot.handle().is_some()));
    running.stop().await;
}

async fn start_with_topic(folder: &TempDir, id: TopicId) -> RunningNode {
    let running = start_in(folder, &[]).await;
    let node = running.node();
    let create = CreateTopic::with_defaults("t", id, node.now(), Requester::Client);
    let command = Command::CreateTopic(create);
    node.controller.execute(Caller::internal(), command, node.now()).await.unwrap();
    running
}

/// A node that starts with old metadata may know a deleted topic, and have the folder of a later topic of the
/// same name.
#[tokio::test(flavor = "multi_thread")]
async fn the_folder_of_a_later_topic_of_the_name_stays() {
    let (folder, later, earlier) = (TempDir::new().unwrap(), TopicId([2; 16]), TopicId([1; 16]));
    let running = start_with_topic(&folder, later).await;
    let (node, id) = (running.node(), TopicPartition::new(TopicName::new("t").unwrap(), PartitionId(0)));
    let opener = &node.controller.opener;
    opener.delete(&id, earlier).unwrap();
    let owner = || read_identity(opener.store.disk(), &opener.dir(&id)).unwrap().map(|found| found.topic_id);
    assert_eq!(owner(), Some(later));

    opener.is_up_to_date.store(false, Ordering::Release);
    let topic = Arc::clone(&node.topics().by_name("t").unwrap().image);
    let mut known = (*topic).clone();
    known.id = earlier;
    let opened = opener.open(&known, &id, node.image().broker(), node.now());
    assert!(
        matches!(&opened, PartitionSlot::Offline(offline) if offline.waits_for_metadata && !offline.is_lost)
    );
    assert_eq!(owner(), Some(later));
    running.stop().await;
}

/// A node that starts with old metadata may have deleted the partition before.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_without_a_folder_is_lost_only_by_the_newest_metadata() {
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let first = start_in(&folders[0], &[("node.id", "1"), ("cluster.listen", "127.0.0.1:0")]).await;
    let seed = first.addresses().unwrap().cluster.unwrap().to_string();
    let own = [("node.id", "2"), ("cluster.listen", "127.0.0.1:0"), ("tailrace.cluster.seeds", &seed)];
    let second = start_in(&folders[1], &own).await;
    let (node, id) = (second.node(), TopicPartition::new(TopicName::new("t").unwrap(), PartitionId(0)));
    let create = CreateTopic::with_defaults("t", TopicId([1; 16]), node.now(), Requester::Client);
    let create = Command::CreateTopic(CreateTopic { replication_factor: 2, ..create });
    node.controller.execute(Caller::internal(), create, node.now()).await.unwrap();
    let (topic, opener) = (Arc::clone(&node.topics().by_name("t").unwrap().image), &node.controller.opener);
    fs::remove_dir_all(opener.dir(&id)).unwrap();
    for (is_up_to_date, is_lost) in [(false, false), (true, true)] {
        opener.is_up_to_date.store(is_up_to_date, Ordering::Release);
        match opener.open(&topic, &id, node.image().broker(), node.now()) {
            PartitionSlot::Offline(offline) => {
                assert_eq!((offline.is_lost, offline.waits_for_metadata), (is_lost, !is_lost));
            }
            other => panic!("{other:?}"),
        }
    }
    second.stop().await;
    first.stop().await;
}

/// A node was killed between the deletion of a topic and that of its folder, and another topic was created
/// under the same name.
#[tokio::test(flavor = "multi_thread")]
async fn the_folder_of_a_deleted_topic_of_the_name_gives_way() {
    let (folders, later) = ([TempDir::new().unwrap(), TempDir::new().unwrap()], TopicId([2; 16]));
    let [earlier, last] =
        [start_with_topic(&folders[0], TopicId([1; 16])).await, start_with_topic(&folders[1], later).await];
    let [earlier_folder, later_folder] = [&earlier, &last].map(|running| running.node().data_dir.join("t-0"));
    earlier.stop().await;
    last.stop().await;
    fs::remove_dir_all(&later_folder).unwrap();
    fs::rename(earlier_folder, &later_folder).unwrap();
    // Something that would be missed.
    fs::write(later_folder.join("00000000000000000000.log"), [0; 100]).unwrap();

    let running = start_in(&folders[1], &[]).await;
    let node = running.node();
    assert!(node.topics().by_name("t").unwrap().here(0).is_ok());
    let found = read_identity(node.controller.opener.store.disk(), &later_folder).unwrap();
    assert_eq!(found.map(|found| found.topic_id), Some(later));
    let names = fs::read_dir(&node.data_dir).unwrap();
    let kept = names.filter(|entry| {
        entry.as_ref().is_ok_and(|entry| entry.file_name().to_string_lossy().ends_with(".damaged"))
    });
    assert_eq!(kept.count(), 1);
    running.stop().await;
}
