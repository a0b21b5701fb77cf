//! Executes commands for other nodes, as the controller.

use std::sync::Arc;

use tailrace_metadata::{Command, MetadataRecord, RemoteControlError};

use super::Answers;
use crate::access::ClientCheck;
use crate::ask::{Execute, ExecuteFor, Outcome};
use crate::caller::Caller;
use crate::controller::{Check, CommandError, UNCHECKED};
use crate::node::Node;

impl Answers for ExecuteFor {
    async fn answer(self, node: &Arc<Node>, caller: &Caller) -> Outcome {
        let client = Caller::passed_on(self.user.map(Into::into), self.address);
        executed(node, caller, self.command, &ClientCheck { node, client: &client }).await
    }
}

impl Answers for Execute {
    async fn answer(self, node: &Arc<Node>, caller: &Caller) -> Outcome {
        executed(node, caller, self.0, UNCHECKED).await
    }
}

async fn executed(node: &Arc<Node>, caller: &Caller, command: Command, check: Check<'_>) -> Outcome {
    let name = command.to_string();
    match node.controller.execute_here(command, node.now(), check).await {
        Ok(done) => {
            let text = |record: &MetadataRecord| String::from_utf8(record.encode()).unwrap_or_default();
            Outcome::Done { records: done.records.iter().map(text).collect(), end: done.end.get() }
        }
        Err(CommandError::Refused(error)) => {
            tracing::debug!(%caller, command = name, %error, "refused a command");
            Outcome::Refused(RemoteControlError::from(&error))
        }
        Err(CommandError::NotController | CommandError::Stopping) => Outcome::NotController,
        Err(CommandError::OutcomeUnknown) => Outcome::Unknown,
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use tailrace_identity::acl::{Acl, Operation, PatternKind, Permission, ResourceKind};
    use tailrace_metadata::{
        ConfigAction, ConfigChange, ConfigOp, ControlErrorKind, CreateTopic, Requester, TopicRef,
    };
    use tailrace_types::{NodeId, TimestampMs, TopicId};
    use tempfile::TempDir;

    use super::*;
    use crate::caller::Door;
    use crate::start::RunningNode;
    use crate::testing::start_in;

    struct Rig {
        running: RunningNode,
        _folder: TempDir,
    }

    impl Rig {
        async fn new() -> Self {
            let folder = TempDir::new().unwrap();
            let class = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
            let settings = [("authorizer.class.name", class), ("super.users", "User:root")];
            Self { running: start_in(&folder, &settings).await, _folder: folder }
        }

        /// The node of `user` passes the command on.
        async fn passed_on(&self, user: &str, command: Command) -> Option<ControlErrorKind> {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1000));
            let question = ExecuteFor { command, user: Some(user.to_owned()), address };
            match question.answer(self.running.node(), Caller::internal()).await {
                Outcome::Done { .. } => None,
                Outcome::Refused(error) => Some(error.kind),
                other => panic!("{other:?}"),
            }
        }

        async fn allow(&self, operation: Operation, kind: ResourceKind, name: &str) {
            let acl = Acl {
                kind,
                name: name.to_owned(),
                pattern: PatternKind::Literal,
                principal: "User:u".to_owned(),
                host: "*".to_owned(),
                operation,
                permission: Permission::Allow,
            };
            assert_eq!(self.passed_on("root", Command::CreateAcls(vec![acl])).await, None);
        }
    }

    fn create(name: &str, subjects: Option<&str>) -> Command {
        let id = TopicId::from_random(tailrace_env::random::bytes16());
        let topic = CreateTopic::with_defaults(name, id, TimestampMs(0), Requester::Client);
        let setting = |subjects: &str| ("tailrace.subjects".to_owned(), Some(subjects.to_owned()));
        Command::CreateTopic(CreateTopic { configs: subjects.map(setting).into_iter().collect(), ..topic })
    }

    fn bind(name: &str, subjects: &str) -> Command {
        let op = ConfigOp {
            key: "tailrace.subjects".to_owned(),
            action: ConfigAction::Set,
            value: Some(subjects.to_owned()),
        };
        Command::AlterTopicConfigs { topic: name.to_owned(), change: ConfigChange::Incremental(vec![op]) }
    }

    #[tokio::test]
    async fn the_rights_of_the_client_are_asked_again() {
        let rig = Rig::new().await;
        let refused = Some(ControlErrorKind::NotAuthorized);
        assert_eq!(rig.passed_on("u", create("t", None)).await, refused);
        assert_eq!(rig.passed_on("u", Command::CreateAcls(Vec::new())).await, refused);
        rig.allow(Operation::Create, ResourceKind::Topic, "t").await;
        assert_eq!(rig.passed_on("u", create("t", None)).await, None);
        assert_eq!(rig.passed_on("u", create("other", None)).await, refused);
        rig.running.stop().await;
    }

    /// Whatever a client may ask for, and in whose name: the controller decides by its own rules.
    #[tokio::test]
    async fn each_kind_of_command_is_refused_without_its_right() {
        use tailrace_identity::scram::ScramMechanism;
        use tailrace_metadata::{BrokerScope, ScramChange};
        let rig = Rig::new().await;
        assert_eq!(rig.passed_on("root", create("t", None)).await, None);
        let (now, none) = (TimestampMs(0), ConfigChange::Incremental(Vec::new()));
        let name = || "t".to_owned();
        let user = |by: &str| ("v".to_owned(), format!("User:{by}"));
        let mut commands = vec![
            create("u", None),
            Command::DeleteTopic { topic: TopicRef::Name(name()), by: Requester::Client },
            Command::CreatePartitions { topic: name(), count: 9, assignment: None, by: Requester::Client },
            Command::AlterTopicConfigs { topic: name(), change: none.clone() },
            Command::AlterGroupConfigs { group: "g".to_owned(), change: none.clone() },
            Command::AlterBrokerConfigs { scope: BrokerScope::Cluster, change: none },
            Command::UpdateFeatures(Vec::new()),
            Command::RemoveNode { node: NodeId(7) },
            Command::CreateAcls(Vec::new()),
            Command::DeleteAcls(Vec::new()),
            Command::RemoveUser { user: "v".to_owned() },
        ];
        // Also in the name of one who may.
        for by in ["u", "root"] {
            let (user, by) = user(by);
            let (change, disabled) = (ScramChange::Delete { mechanism: ScramMechanism::Sha256 }, true);
            commands.push(Command::DisableUser { user: user.clone(), disabled, by: by.clone(), now });
            commands.push(Command::AlterScramCredential { user, change, by, now });
        }
        let before = rig.running.node().image();
        for command in commands {
            let found = rig.passed_on("u", command.clone()).await;
            assert_eq!(found, Some(ControlErrorKind::NotAuthorized), "{command:?}");
        }
        assert!(std::sync::Arc::ptr_eq(&before, &rig.running.node().image()));
        rig.running.stop().await;
    }

    #[tokio::test]
    async fn a_right_to_the_cluster_is_enough_to_create_and_delete_topics() {
        let rig = Rig::new().await;
        let delete = || Command::DeleteTopic { topic: TopicRef::Name("t".to_owned()), by: Requester::Client };
        rig.allow(Operation::Create, ResourceKind::Cluster, "kafka-cluster").await;
        assert_eq!(rig.passed_on("u", create("t", None)).await, None);
        assert_eq!(rig.passed_on("u", delete()).await, Some(ControlErrorKind::NotAuthorized));
        rig.allow(Operation::Delete, ResourceKind::Cluster, "kafka-cluster").await;
        assert_eq!(rig.passed_on("u", delete()).await, None);
        rig.running.stop().await;
    }

    /// A node that has just been elected still has old rules when the command arrives. And so has one that
    /// was cut off when the front asked, and then becomes the controller.
    #[tokio::test]
    async fn the_rights_count_when_the_command_is_executed_not_when_it_arrives() {
        let rig = Rig::new().await;
        let (node, by_client) =
            (rig.running.node(), Caller::client(Door::Kafka, SocketAddr::from((Ipv4Addr::LOCALHOST, 1000))));
        let by_client = by_client.as_user("u".into());
        for is_passed_on in [true, false] {
            rig.allow(Operation::Create, ResourceKind::Topic, "t").await;
            let rules = node.image().access().acls().iter().cloned().collect();
            let busy = node.controller.keep_busy().await;
            let taken = async {
                node.execute(Caller::internal(), Command::DeleteAcls(rules)).await.unwrap();
            };
            let created = async {
                match is_passed_on {
                    true => rig.passed_on("u", create("t", None)).await.is_some(),
                    false => node.execute(&by_client, create("t", None)).await.is_err(),
                }
            };
            // Both arrive while an earlier command is under way, and are executed in this order.
            let ((), is_refused, ()) = tokio::join!(biased; taken, created, async { drop(busy) });
            assert!(is_refused, "passed on: {is_passed_on}");
            assert!(node.image().topic("t").is_none());
        }
        rig.running.stop().await;
    }

    /// The same for subjects that a topic captures: the rules, and what it captures already.
    #[tokio::test]
    async fn bindings_count_when_the_command_is_executed_not_when_it_arrives() {
        let rig = Rig::new().await;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1000));
        let by_client = Caller::client(Door::Kafka, address).as_user("u".into());
        assert_eq!(rig.passed_on("root", create("t", None)).await, None);
        rig.allow(Operation::AlterConfigs, ResourceKind::Topic, "t").await;
        for is_passed_on in [true, false] {
            for loses_rules in [true, false] {
                let node = rig.running.node();
                let before = if loses_rules {
                    rig.allow(Operation::Read, ResourceKind::Subject, "a.>").await;
                    rig.allow(Operation::Write, ResourceKind::Subject, "a.>").await;
                    let image = node.image();
                    let rules = image.access().acls().iter().filter(|acl| acl.kind == ResourceKind::Subject);
                    Command::DeleteAcls(rules.cloned().collect())
                } else {
                    // It captures them already, so nobody needs a right to say it once more.
                    node.execute(Caller::internal(), bind("t", "a.>")).await.unwrap();
                    bind("t", "b.>")
                };
                let busy = node.controller.keep_busy().await;
                let earlier = async { drop(node.execute(Caller::internal(), before).await.unwrap()) };
                let bound = async {
                    match is_passed_on {
                        true => rig.passed_on("u", bind("t", "a.>")).await.is_some(),
                        false => node.execute(&by_client, bind("t", "a.>")).await.is_err(),
                    }
                };
                let ((), is_refused, ()) = tokio::join!(biased; earlier, bound, async { drop(busy) });
                assert!(is_refused, "passed on: {is_passed_on}, loses rules: {loses_rules}");
                node.execute(Caller::internal(), bind("t", "b.>")).await.unwrap();
            }
        }
        rig.running.stop().await;
    }

    /// The node that passed it on may not have known the rule that forbids it.
    #[tokio::test]
    async fn subjects_are_bound_only_by_clients_that_may_hear_them() {
        let rig = Rig::new().await;
        let refused = Some(ControlErrorKind::NotAuthorized);
        rig.allow(Operation::Create, ResourceKind::Topic, "t").await;
        rig.allow(Operation::AlterConfigs, ResourceKind::Topic, "t").await;
        assert_eq!(rig.passed_on("u", create("t", Some("a.>"))).await, refused);
        assert_eq!(rig.passed_on("u", create("t", None)).await, None);
        assert_eq!(rig.passed_on("u", bind("t", "a.>")).await, refused);
        assert!(rig.running.node().image().topic("t").unwrap().config.tailrace_subjects.is_empty());

        rig.allow(Operation::Read, ResourceKind::Subject, "a.>").await;
        assert_eq!(rig.passed_on("u", bind("t", "a.>")).await, refused, "it also acknowledges them");
        rig.allow(Operation::Write, ResourceKind::Subject, "a.>").await;
        assert_eq!(rig.passed_on("u", bind("t", "a.>")).await, None);
        // An error of the command itself is told as it is.
        assert_eq!(rig.passed_on("u", bind("t", "a..b")).await, Some(ControlErrorKind::InvalidConfig));
        rig.running.stop().await;
    }
}
