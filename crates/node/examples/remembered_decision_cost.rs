//! Prints what a decision costs that was made before, and one that is new, with 10,000 rules for 1,000 users.
//!
//! `cargo run --release -p tailrace-node --example remembered_decision_cost [FOLDER]`

use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tailrace_config::{BrokerConfig, DynamicConfigs};
use tailrace_env::metrics::Metrics;
use tailrace_env::random;
use tailrace_env::workers::Workers;
use tailrace_identity::acl::{
    Access, Acl, Operation, PatternKind, Permission, ResourceKind, SubjectAccess, SubjectUse,
};
use tailrace_metadata::{Command, CreateTopic, Requester};
use tailrace_node::{Caller, DataFolder, Door, Fronts, Node, NodeDisk, RunningNode, Startup};
use tailrace_runtime::disk::LocalDisk;
use tailrace_types::TopicId;

const RULES: usize = 10_000;
const USERS: usize = 1_000;

/// Rules in one command.
const RULES_AT_ONCE: usize = 500;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "decision-cost-data".to_owned());
    let running = started(folder).await?;
    let node = Arc::clone(running.node());
    for first in (0..RULES).step_by(RULES_AT_ONCE) {
        let rules = (first..first + RULES_AT_ONCE).map(rule).collect();
        node.execute(Caller::internal(), Command::CreateAcls(rules)).await?;
    }
    create(&node, "orders-7", "orders.seven.>").await?;
    measure(&node);
    running.stop().await;
    Ok(())
}

/// Starts a node that decides by rules.
pub(crate) async fn started(folder: String) -> Result<RunningNode, Box<dyn Error>> {
    tailrace_runtime::install();
    let settings = [
        ("data.dir", folder.as_str()),
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("super.users", "User:admin"),
    ];
    let settings: BTreeMap<_, _> =
        settings.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let config = BrokerConfig::resolve(&settings, &DynamicConfigs::default())?;
    let startup = Startup {
        folder: DataFolder::open(&config, NodeDisk::new(LocalDisk::default()))?,
        settings,
        metrics: Arc::new(Metrics::default()),
        addresses: None,
        workers: Arc::new(Workers::start()?),
        fronts: Fronts::default(),
    };
    Ok(tailrace_node::start(startup).await?)
}

/// Creates a topic with these bindings.
pub(crate) async fn create(node: &Arc<Node>, name: &str, subjects: &str) -> Result<(), Box<dyn Error>> {
    let id = TopicId::from_random(random::bytes16());
    let mut create = CreateTopic::with_defaults(name, id, node.now(), Requester::Client);
    if !subjects.is_empty() {
        create.configs.push(("tailrace.subjects".to_owned(), Some(subjects.to_owned())));
    }
    node.execute(Caller::internal(), Command::CreateTopic(create)).await?;
    Ok(())
}

fn rule(number: usize) -> Acl {
    Acl {
        kind: if number.is_multiple_of(5) { ResourceKind::Group } else { ResourceKind::Topic },
        name: format!("orders-{}", number / USERS),
        pattern: PatternKind::Literal,
        principal: format!("User:user-{}", number % USERS),
        host: "*".to_owned(),
        operation: Operation::Read,
        permission: Permission::Allow,
    }
}

fn measure(node: &Node) {
    let user = Caller::client(Door::Kafka, ([127, 0, 0, 1], 1).into()).as_user("user-77".into());
    let stranger = Caller::client(Door::Kafka, ([127, 0, 0, 1], 1).into());
    let read =
        |caller: &Caller, name: &str| node.rights(caller).may(Operation::Read, ResourceKind::Topic, name);
    assert!(read(&user, "orders-7") && !read(&stranger, "orders-7"));
    let rights = node.rights(&user);
    let once = nanoseconds(|| {
        black_box(rights.may(Operation::Read, ResourceKind::Topic, black_box("orders-7")));
    });
    let whole = nanoseconds(|| {
        black_box(read(black_box(&user), black_box("orders-7")));
    });
    let names: Vec<String> = (0..200_000).map(|number| format!("orders-{number}")).collect();
    let mut at = 0;
    let new = nanoseconds(|| {
        at = (at + 1) % names.len();
        black_box(rights.sees(Operation::Read, ResourceKind::Topic, &names[at]));
    });
    let subject = SubjectUse { access: Access::Read, subject: b"orders.seven.a", queue: None };
    let by_subject = nanoseconds(|| {
        black_box(rights.hears(subject) == SubjectAccess::Allowed);
    });
    println!("decision_again_ns={once:.1}");
    println!("decision_again_with_rights_ns={whole:.1}");
    println!("decision_new_ns={new:.1}");
    println!("subject_new_ns={by_subject:.1}");
}

/// The best of ten runs of about 20 ms, in nanoseconds, because the machine is shared.
fn nanoseconds(mut work: impl FnMut()) -> f64 {
    let run = |work: &mut dyn FnMut()| {
        let (start, mut rounds) = (Instant::now(), 0_u32);
        while start.elapsed() < Duration::from_millis(20) {
            for _ in 0..100 {
                work();
            }
            rounds += 100;
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(rounds)
    };
    (0..10).map(|_| run(&mut work)).fold(f64::INFINITY, f64::min)
}
