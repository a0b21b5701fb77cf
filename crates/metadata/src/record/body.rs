//! The body of a record, as it is written.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tailrace_identity::acl::Acl;
use tailrace_identity::nats_accounts::jwt::{KeyKind, Nkey, TOKEN_BYTES_MAX};
use tailrace_types::{NodeId, PartitionId, ProducerId, ReplicaId, TimestampMs, TopicId, TopicName};

use super::endpoint::{KafkaEndpoint, check_endpoints};
use super::types::{MetadataRecord, NodeRegistration, RecordError};
use crate::access::StoredAccountClaims;
use crate::access::bounds::ACLS_PER_COMMAND_MAX;
use crate::access::forms::{self, AclForm, EntityForm, FormError, LimitsForm, TokenForm, UserForm};

#[derive(Serialize, Deserialize)]
pub(super) struct NodeConfigs {
    node: i32,
    configs: BTreeMap<String, String>,
}

/// The body as written. Ids and names are texts.
#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub(super) enum Body {
    TopicCreated {
        name: String,
        id: String,
        partitions: i32,
        replication_factor: i16,
        created_at: i64,
        configs: BTreeMap<String, String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        replicas: Vec<Vec<u64>>,
    },
    TopicDeleted {
        id: String,
    },
    PartitionsAdded {
        id: String,
        partitions: i32,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        replicas: Vec<Vec<u64>>,
    },
    TopicConfigs {
        id: String,
        configs: BTreeMap<String, String>,
    },
    BrokerConfigs {
        cluster: BTreeMap<String, String>,
        nodes: Vec<NodeConfigs>,
    },
    GroupConfigs {
        group: String,
        configs: BTreeMap<String, String>,
    },
    Features {
        epoch: i64,
        levels: BTreeMap<String, i16>,
    },
    ProducerIds {
        first: i64,
        next: i64,
    },
    ClusterFounded {
        node: i32,
        cluster_id: String,
        epoch: i64,
    },
    NodeRegistered {
        node: i32,
        directory: String,
        epoch: i64,
        replica: u64,
        cluster: String,
        kafka: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        listeners: Vec<KafkaEndpoint>,
        nats: Option<String>,
        http: Option<String>,
        rack: Option<String>,
        levels: (u16, u16),
    },
    NodeFenced {
        node: i32,
        fenced: bool,
    },
    NodeRemoved {
        node: i32,
    },
    PartitionReplicas {
        id: String,
        partition: i32,
        replicas: Vec<u64>,
        adding: Vec<u64>,
        removing: Vec<u64>,
        lost: Vec<u64>,
        next_incarnation: u32,
    },
    User(UserForm),
    UserRemoved {
        name: String,
    },
    AclsChanged {
        added: Vec<AclForm>,
        removed: Vec<AclForm>,
    },
    ClientQuota {
        entity: EntityForm,
        limits: LimitsForm,
    },
    Token(TokenForm),
    TokenRemoved {
        id: String,
    },
    AccountClaims {
        account: String,
        issued_at: i64,
        token: String,
    },
    AccountClaimsRemoved {
        account: String,
    },
    AccessVersion {
        access_version: u64,
    },
}

pub(super) fn malformed(reason: &dyn std::fmt::Display) -> RecordError {
    RecordError::Malformed { reason: reason.to_string() }
}

fn numbers(replicas: Vec<ReplicaId>) -> Vec<u64> {
    replicas.into_iter().map(|replica| replica.0).collect()
}

/// Parses a replica id. It must have a valid node and an incarnation.
fn replica(number: u64) -> Result<ReplicaId, RecordError> {
    let replica = ReplicaId(number);
    if replica.incarnation() == 0 || replica.node().0 < 0 {
        return Err(malformed(&format!("{number} is not a replica id")));
    }
    Ok(replica)
}

fn replicas(numbers: Vec<u64>) -> Result<Vec<ReplicaId>, RecordError> {
    numbers.into_iter().map(replica).collect()
}

fn assignment(numbers: Vec<Vec<u64>>) -> Result<Vec<Vec<ReplicaId>>, RecordError> {
    numbers.into_iter().map(replicas).collect()
}

fn topic_id(text: &str) -> Result<TopicId, RecordError> {
    TopicId::parse(text).ok_or_else(|| malformed(&format!("{text:?} is not a topic id")))
}

/// Checks the Kafka listeners of a node.
fn checked(listeners: Vec<KafkaEndpoint>) -> Result<Vec<KafkaEndpoint>, RecordError> {
    check_endpoints(&listeners).map_err(|reason| malformed(&reason))?;
    Ok(listeners)
}

fn account_key(text: String) -> Result<String, RecordError> {
    match Nkey::parse_as(KeyKind::Account, &text) {
        Ok(_) => Ok(text),
        Err(error) => Err(malformed(&error)),
    }
}

/// Parses rules, each of which must differ from all others.
fn rules(forms: Vec<AclForm>) -> Result<BTreeSet<Acl>, RecordError> {
    let count = forms.len();
    if count > ACLS_PER_COMMAND_MAX {
        return Err(malformed(&format!("it has {count} rules, expected at most {ACLS_PER_COMMAND_MAX}")));
    }
    let rules = forms.into_iter().map(forms::acl).collect::<Result<BTreeSet<_>, _>>()?;
    if rules.len() == count { Ok(rules) } else { Err(malformed(&"a rule occurs twice")) }
}

impl From<FormError> for RecordError {
    fn from(error: FormError) -> Self {
        malformed(&error)
    }
}

impl From<&MetadataRecord> for Body {
    fn from(record: &MetadataRecord) -> Self {
        match record.clone() {
            MetadataRecord::TopicCreated {
                name,
                id,
                partitions,
                replication_factor,
                created_at,
                configs,
                replicas,
            } => Self::TopicCreated {
                name: name.to_string(),
                id: id.to_string(),
                partitions,
                replication_factor,
                created_at: created_at.0,
                configs,
                replicas: replicas.into_iter().map(numbers).collect(),
            },
            MetadataRecord::TopicDeleted { id } => Self::TopicDeleted { id: id.to_string() },
            MetadataRecord::PartitionsAdded { id, partitions, replicas } => Self::PartitionsAdded {
                id: id.to_string(),
                partitions,
                replicas: replicas.into_iter().map(numbers).collect(),
            },
            MetadataRecord::TopicConfigs { id, configs } => {
                Self::TopicConfigs { id: id.to_string(), configs }
            }
            MetadataRecord::BrokerConfigs { cluster, nodes } => {
                let nodes = nodes.into_iter().map(|(node, configs)| NodeConfigs { node: node.0, configs });
                Self::BrokerConfigs { cluster, nodes: nodes.collect() }
            }
            MetadataRecord::GroupConfigs { group, configs } => Self::GroupConfigs { group, configs },
            MetadataRecord::Features { epoch, levels } => Self::Features { epoch, levels },
            MetadataRecord::ProducerIds { first, next } => Self::ProducerIds { first: first.0, next: next.0 },
            MetadataRecord::ClusterFounded { node, cluster_id, epoch } => {
                Self::ClusterFounded { node: node.0, cluster_id, epoch }
            }
            MetadataRecord::NodeRegistered(registration) => registration.into(),
            MetadataRecord::NodeFenced { node, fenced } => Self::NodeFenced { node: node.0, fenced },
            MetadataRecord::NodeRemoved { node } => Self::NodeRemoved { node: node.0 },
            MetadataRecord::PartitionReplicas {
                id,
                partition,
                replicas,
                adding,
                removing,
                lost,
                next_incarnation,
            } => Self::PartitionReplicas {
                id: id.to_string(),
                partition: partition.0,
                replicas: numbers(replicas),
                adding: numbers(adding),
                removing: numbers(removing),
                lost: numbers(lost),
                next_incarnation,
            },
            MetadataRecord::User(user) => Self::User(UserForm::from(&user)),
            MetadataRecord::UserRemoved { name } => Self::UserRemoved { name },
            MetadataRecord::AclsChanged { added, removed } => {
                let forms = |acls: BTreeSet<Acl>| acls.iter().map(AclForm::from).collect();
                Self::AclsChanged { added: forms(added), removed: forms(removed) }
            }
            MetadataRecord::ClientQuota { entity, limits } => {
                Self::ClientQuota { entity: EntityForm::from(&entity), limits: forms::limits_form(&limits) }
            }
            MetadataRecord::Token(token) => Self::Token(TokenForm::from(&token)),
            MetadataRecord::TokenRemoved { id } => Self::TokenRemoved { id },
            MetadataRecord::AccountClaims(StoredAccountClaims { account, issued_at_s, token }) => {
                Self::AccountClaims { account, issued_at: issued_at_s, token: token.to_string() }
            }
            MetadataRecord::AccountClaimsRemoved { account } => Self::AccountClaimsRemoved { account },
            MetadataRecord::AccessVersion { version } => Self::AccessVersion { access_version: version },
        }
    }
}

impl From<NodeRegistration> for Body {
    fn from(registration: NodeRegistration) -> Self {
        let NodeRegistration { node, directory, epoch, replica, cluster, kafka, listeners, .. } =
            registration;
        let (node, directory, replica) = (node.0, TopicId(directory).to_string(), replica.0);
        let NodeRegistration { nats, http, rack, levels, .. } = registration;
        Self::NodeRegistered {
            node,
            directory,
            epoch,
            replica,
            cluster,
            kafka,
            listeners,
            nats,
            http,
            rack,
            levels,
        }
    }
}

impl TryFrom<Body> for MetadataRecord {
    type Error = RecordError;

    fn try_from(body: Body) -> Result<Self, RecordError> {
        Ok(match body {
            Body::TopicCreated {
                name,
                id,
                partitions,
                replication_factor,
                created_at,
                configs,
                replicas,
            } => Self::TopicCreated {
                name: TopicName::new(&name).map_err(|e| malformed(&e))?,
                id: topic_id(&id)?,
                partitions,
                replication_factor,
                created_at: TimestampMs(created_at),
                configs,
                replicas: assignment(replicas)?,
            },
            Body::TopicDeleted { id } => Self::TopicDeleted { id: topic_id(&id)? },
            Body::PartitionsAdded { id, partitions, replicas } => {
                Self::PartitionsAdded { id: topic_id(&id)?, partitions, replicas: assignment(replicas)? }
            }
            Body::TopicConfigs { id, configs } => Self::TopicConfigs { id: topic_id(&id)?, configs },
            Body::BrokerConfigs { cluster, nodes } => {
                let nodes = nodes.into_iter().map(|node| (NodeId(node.node), node.configs));
                Self::BrokerConfigs { cluster, nodes: nodes.collect() }
            }
            Body::GroupConfigs { group, configs } => Self::GroupConfigs { group, configs },
            Body::Features { epoch, levels } => Self::Features { epoch, levels },
            Body::ProducerIds { first, next } => {
                Self::ProducerIds { first: ProducerId(first), next: ProducerId(next) }
            }
            Body::ClusterFounded { node, cluster_id, epoch } => {
                Self::ClusterFounded { node: NodeId(node), cluster_id, epoch }
            }
            Body::NodeRegistered {
                node,
                directory,
                epoch,
                replica: number,
                cluster,
                kafka,
                listeners,
                nats,
                http,
                rack,
                levels,
            } => Self::NodeRegistered(NodeRegistration {
                node: NodeId(node),
                directory: topic_id(&directory)?.0,
                epoch,
                replica: replica(number)?,
                cluster,
                kafka,
                listeners: checked(listeners)?,
                nats,
                http,
                rack,
                levels,
            }),
            Body::NodeFenced { node, fenced } => Self::NodeFenced { node: NodeId(node), fenced },
            Body::NodeRemoved { node } => Self::NodeRemoved { node: NodeId(node) },
            Body::PartitionReplicas {
                id,
                partition,
                replicas: wanted,
                adding,
                removing,
                lost,
                next_incarnation,
            } => Self::PartitionReplicas {
                id: topic_id(&id)?,
                partition: PartitionId(partition),
                replicas: replicas(wanted)?,
                adding: replicas(adding)?,
                removing: replicas(removing)?,
                lost: replicas(lost)?,
                next_incarnation,
            },
            Body::User(form) => Self::User(form.try_into()?),
            Body::UserRemoved { name } => Self::UserRemoved { name: forms::user_name(name)? },
            Body::AclsChanged { added, removed } => {
                Self::AclsChanged { added: rules(added)?, removed: rules(removed)? }
            }
            Body::ClientQuota { entity, limits } => {
                Self::ClientQuota { entity: forms::entity(entity)?, limits: forms::limits(limits)? }
            }
            Body::Token(form) => Self::Token(form.try_into()?),
            Body::TokenRemoved { id } => Self::TokenRemoved { id: forms::token_id(id)? },
            Body::AccountClaims { account, issued_at, token } => {
                if token.len() > TOKEN_BYTES_MAX {
                    return Err(malformed(&"the claims of an account are too long"));
                }
                Self::AccountClaims(StoredAccountClaims {
                    account: account_key(account)?,
                    issued_at_s: issued_at,
                    token: token.into(),
                })
            }
            Body::AccountClaimsRemoved { account } => {
                Self::AccountClaimsRemoved { account: account_key(account)? }
            }
            Body::AccessVersion { access_version } => Self::AccessVersion { version: access_version },
        })
    }
}
