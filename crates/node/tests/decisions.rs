//! Decisions are remembered, and never outlive the rules and the bindings that they were made by.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../examples/remembered_decision_cost.rs"]
#[allow(dead_code, reason = "its main function")]
mod cost;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tailrace_identity::acl::{Acl, Operation, PatternKind, Permission, ResourceKind};
use tailrace_metadata::{Command, ConfigAction, ConfigChange, ConfigOp};
use tailrace_node::{Caller, Door, Node};

fn rule(permission: Permission) -> Acl {
    Acl {
        kind: ResourceKind::Topic,
        name: "orders".to_owned(),
        pattern: PatternKind::Literal,
        principal: "User:alice".to_owned(),
        host: "*".to_owned(),
        operation: Operation::Read,
        permission,
    }
}

/// Replaces the bindings of a topic.
async fn bind(node: &Arc<Node>, name: &str, subjects: &str) -> Result<(), Box<dyn std::error::Error>> {
    let (key, value) = ("tailrace.subjects".to_owned(), Some(subjects.to_owned()));
    let change = ConfigChange::Incremental(vec![ConfigOp { key, action: ConfigAction::Set, value }]);
    let command = Command::AlterTopicConfigs { topic: name.to_owned(), change };
    node.execute(Caller::internal(), command).await?;
    Ok(())
}

fn alice() -> Caller {
    Caller::client(Door::Kafka, ([127, 0, 0, 1], 1).into()).as_user("alice".into())
}

fn may_read(node: &Node) -> bool {
    node.rights(&alice()).sees(Operation::Read, ResourceKind::Topic, "orders")
}

/// Three threads ask all the time, and one changes the rules. Even numbers of changes allow, odd ones deny. A
/// decision during a change may follow the rules before or after it. After each change, every thread decides
/// at least once before the next one begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_thread_decides_by_rules_that_were_replaced_before_it_asked() {
    let folder = tempfile::TempDir::new().unwrap();
    let running = cost::started(folder.path().join("data").display().to_string()).await.unwrap();
    let node = Arc::clone(running.node());
    let caller = Caller::internal();
    node.execute(caller, Command::CreateAcls(vec![rule(Permission::Allow)])).await.unwrap();
    let (begun, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let stop = Arc::new(AtomicBool::new(false));
    let seen: Vec<_> = (0..3).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let asking: Vec<_> = seen
        .iter()
        .map(|seen| {
            let (node, begun, done, stop, seen) = (
                Arc::clone(&node),
                Arc::clone(&begun),
                Arc::clone(&done),
                Arc::clone(&stop),
                Arc::clone(seen),
            );
            std::thread::spawn(move || {
                tailrace_runtime::install();
                while !stop.load(Ordering::SeqCst) {
                    let before = done.load(Ordering::SeqCst);
                    let allowed = may_read(&node);
                    if begun.load(Ordering::SeqCst) == before {
                        assert_eq!(allowed, before % 2 == 0, "after {before} changes");
                        seen.store(before, Ordering::SeqCst);
                    }
                }
            })
        })
        .collect();
    for change in 1..=200 {
        begun.store(change, Ordering::SeqCst);
        let deny = vec![rule(Permission::Deny)];
        let command = if change % 2 == 1 { Command::CreateAcls(deny) } else { Command::DeleteAcls(deny) };
        node.execute(caller, command).await.unwrap();
        done.store(change, Ordering::SeqCst);
        assert_eq!(may_read(&node), change % 2 == 0, "after {change} changes");
        while seen.iter().any(|seen| seen.load(Ordering::SeqCst) < change) {
            assert!(!asking.iter().any(std::thread::JoinHandle::is_finished), "a thread panicked");
            tokio::task::yield_now().await;
        }
    }
    stop.store(true, Ordering::SeqCst);
    for thread in asking {
        thread.join().unwrap();
    }
    assert_eq!(running.stop().await, 0);
}

#[tokio::test]
async fn a_new_binding_counts_at_once() {
    let folder = tempfile::TempDir::new().unwrap();
    let running = cost::started(folder.path().join("data").display().to_string()).await.unwrap();
    let node = Arc::clone(running.node());
    let subject = Acl { kind: ResourceKind::Subject, name: "secret.*".to_owned(), ..rule(Permission::Deny) };
    let rules = vec![rule(Permission::Allow), subject];
    node.execute(Caller::internal(), Command::CreateAcls(rules)).await.unwrap();
    cost::create(&node, "orders", "").await.unwrap();
    assert!(may_read(&node));
    cost::create(&node, "other", "secret.other").await.unwrap();
    assert!(may_read(&node), "another topic's");
    bind(&node, "orders", "secret.orders").await.unwrap();
    assert!(!may_read(&node), "a part of the topic is denied, so all of it is");
    assert_eq!(running.stop().await, 0);
}
