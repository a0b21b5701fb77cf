//! A controller of a cluster, with all records that it has written.

use std::collections::BTreeMap;

use tailrace_metadata::*;
use tailrace_types::{NodeId, PartitionId, ReplicaId, TimestampMs, TopicId};

pub(crate) struct Rig {
    pub(crate) controller: Controller,
    pub(crate) log: Vec<MetadataRecord>,
}

/// Returns the registration of node `id`, which supports the levels 1 to 3.
pub(crate) fn node(id: i32) -> RegisterNode {
    let byte = u8::try_from(id).expect("few nodes");
    RegisterNode {
        node: NodeId(id),
        directory: [byte; 16],
        cluster: format!("node-{id}:9190"),
        kafka: format!("node-{id}:9092"),
        listeners: Vec::new(),
        nats: None,
        http: Some(format!("[::1]:{id}")),
        rack: None,
        levels: (1, 3),
        replica: None,
        renews: false,
    }
}

/// Returns listeners of these names, at a port of their own.
pub(crate) fn listeners(names: &[&str]) -> Vec<KafkaEndpoint> {
    let endpoint = |(number, name): (usize, &&str)| KafkaEndpoint {
        name: (*name).to_owned(),
        protocol: tailrace_config::SecurityProtocol::SaslSsl,
        address: format!("there:{}", 9092 + number),
    };
    names.iter().enumerate().map(endpoint).collect()
}

pub(crate) fn replica(node: i32, incarnation: u32) -> ReplicaId {
    ReplicaId::new(NodeId(node), incarnation)
}

pub(crate) fn nodes(numbers: &[i32]) -> Vec<NodeId> {
    numbers.iter().copied().map(NodeId).collect()
}

/// Returns the command that creates a topic on these nodes.
pub(crate) fn topic(name: &str, id: u8, assignment: &[&[i32]]) -> Command {
    let mut create = CreateTopic::with_defaults(name, TopicId([id; 16]), TimestampMs(1), Requester::Client);
    create.assignment = Some(assignment.iter().map(|numbers| nodes(numbers)).collect());
    Command::CreateTopic(create)
}

impl Rig {
    pub(crate) fn alone() -> Self {
        Self::replay(&[], &[])
    }

    /// Returns a cluster of the nodes 1 to `count`, all unfenced.
    pub(crate) fn cluster(count: i32) -> Self {
        Self::cluster_with(count, &[])
    }

    pub(crate) fn cluster_with(count: i32, fixed: &[(&str, &str)]) -> Self {
        let mut rig = Self::replay(fixed, &[]);
        rig.run(&Command::FoundCluster { cluster_id: "c".to_owned(), node: node(1) }).expect("legal");
        for id in 2..=count {
            rig.run(&Command::RegisterNode(node(id))).expect("legal");
            rig.run(&Command::FenceNode { node: NodeId(id), fenced: false }).expect("legal");
        }
        rig
    }

    pub(crate) fn replay(fixed: &[(&str, &str)], log: &[MetadataRecord]) -> Self {
        let fixed: BTreeMap<_, _> = fixed.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let mut controller = Controller::new(fixed).expect("legal");
        for record in log {
            let read = MetadataRecord::decode(&record.encode()).expect("was just written");
            controller.apply(&read).expect("was applied before");
        }
        Self { controller, log: log.to_vec() }
    }

    pub(crate) fn image(&self) -> std::sync::Arc<MetadataImage> {
        self.controller.image()
    }

    /// Carries out a command as if another node had forwarded it. Returns the number of records.
    pub(crate) fn run(&mut self, command: &Command) -> Result<usize, ControlError> {
        let bytes = serde_json::to_vec(command).expect("commands serialize");
        let command: Command = serde_json::from_slice(&bytes).expect("was just written");
        let records = self.controller.plan(&command)?;
        for record in &records {
            self.controller.apply(record).expect("planned records apply");
        }
        self.log.extend(records.iter().cloned());
        Ok(records.len())
    }

    pub(crate) fn refusal(&mut self, command: &Command) -> String {
        let before = self.image();
        let error = self.run(command).expect_err("must be refused");
        assert_eq!(before, self.image(), "a refusal changes nothing");
        let sent = serde_json::to_vec(&RemoteControlError::from(&error)).expect("serializes");
        let read: RemoteControlError = serde_json::from_slice(&sent).expect("was just written");
        let remote = ControlError::from(read);
        assert_eq!((remote.kind(), remote.to_string()), (error.kind(), error.to_string()));
        error.to_string()
    }

    pub(crate) fn contradiction(&mut self, record: &MetadataRecord) -> String {
        let before = self.image();
        let error = self.controller.apply(record).expect_err("must be refused");
        assert_eq!(before, self.image());
        error.to_string()
    }

    pub(crate) fn create(&mut self, name: &str, partitions: i32, replication_factor: i16) -> TopicId {
        let id = TopicId([name.as_bytes()[0]; 16]);
        let mut create = CreateTopic::with_defaults(name, id, TimestampMs(1), Requester::Client);
        (create.partitions, create.replication_factor) = (partitions, replication_factor);
        self.run(&Command::CreateTopic(create)).expect("legal");
        id
    }

    pub(crate) fn reassign(
        &mut self,
        topic: &str,
        partition: i32,
        numbers: &[i32],
    ) -> Result<usize, ControlError> {
        let partition = PartitionId(partition);
        let nodes = Some(nodes(numbers));
        self.run(&Command::ReassignPartition { topic: topic.to_owned(), partition, nodes })
    }

    pub(crate) fn partition(&self, topic: &str, partition: i32) -> PartitionImage {
        let image = self.image();
        image.topic(topic).expect("it exists").partition(PartitionId(partition)).expect("it exists").clone()
    }

    /// Finishes a reassignment, as the partition's leader does.
    pub(crate) fn finish(&mut self, topic: &str, partition: i32) {
        let replicas = self.partition(topic, partition).replicas;
        let id = self.image().topic(topic).expect("it exists").id;
        let partition = PartitionId(partition);
        self.run(&Command::FinishReassignment { topic: id, partition, replicas }).expect("legal");
    }
}
