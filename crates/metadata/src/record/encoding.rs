//! The versioned encoding of a record.

use serde::{Deserialize, Serialize};

use super::body::{Body, malformed};
use super::types::{MetadataRecord, RecordError};

/// The newest version of the encoding that this build reads. It writes this version only where an older one
/// is not enough.
///
/// Version 2 added settings of groups and feature levels. Version 3 added nodes and the replicas of
/// partitions. Version 4 added users, rules, client quotas, delegation tokens, the claims of NATS accounts
/// and the names of Kafka listeners.
const METADATA_RECORD_VERSION: u32 = 4;

/// The first version whose records hold secrets. Errors show nothing of them.
const SECRETS_VERSION: u32 = 4;

/// The field of every record that every version can read.
#[derive(Deserialize)]
struct Leading {
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct Envelope<T> {
    version: u32,
    #[serde(flatten)]
    body: T,
}

impl MetadataRecord {
    /// Encodes the record as the value of a record in the metadata log.
    pub fn encode(&self) -> Vec<u8> {
        let envelope = Envelope { version: self.version(), body: Body::from(self) };
        // Texts, numbers and maps with text keys can always be serialized.
        serde_json::to_vec(&envelope).expect("metadata records serialize")
    }

    /// Returns the oldest version that can express this record, so that an older tailrace reads as much as
    /// possible.
    fn version(&self) -> u32 {
        match self {
            Self::TopicCreated { replicas, .. } | Self::PartitionsAdded { replicas, .. }
                if !replicas.is_empty() =>
            {
                3
            }
            Self::TopicCreated { .. }
            | Self::TopicDeleted { .. }
            | Self::PartitionsAdded { .. }
            | Self::TopicConfigs { .. }
            | Self::BrokerConfigs { .. }
            | Self::ProducerIds { .. } => 1,
            Self::GroupConfigs { .. } | Self::Features { .. } => 2,
            Self::NodeRegistered(registration) if !registration.listeners.is_empty() => 4,
            Self::ClusterFounded { .. }
            | Self::NodeRegistered(_)
            | Self::NodeFenced { .. }
            | Self::NodeRemoved { .. }
            | Self::PartitionReplicas { .. } => 3,
            Self::User(_)
            | Self::UserRemoved { .. }
            | Self::AclsChanged { .. }
            | Self::ClientQuota { .. }
            | Self::Token(_)
            | Self::TokenRemoved { .. }
            | Self::AccountClaims(_)
            | Self::AccountClaimsRemoved { .. }
            | Self::AccessVersion { .. } => 4,
        }
    }

    /// Decodes the output of [`MetadataRecord::encode`].
    ///
    /// # Errors
    /// The bytes are damaged, or were written by a newer tailrace.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let leading: Leading = serde_json::from_slice(bytes).map_err(|e| malformed(&e))?;
        if leading.version > METADATA_RECORD_VERSION {
            let (found, newest) = (leading.version, METADATA_RECORD_VERSION);
            return Err(RecordError::NewerVersion { found, newest });
        }
        if leading.version == 0 {
            return Err(malformed(&"version 0 was never written"));
        }
        let envelope: Envelope<Body> =
            serde_json::from_slice(bytes).map_err(|error| match leading.version {
                ..SECRETS_VERSION => malformed(&error),
                SECRETS_VERSION.. => malformed(&"a field is unknown, missing, or not of its type"),
            })?;
        let record: Self = envelope.body.try_into()?;
        let expected = record.version();
        if expected >= SECRETS_VERSION && expected > leading.version {
            return Err(malformed(&format!("it has version {}, expected {expected}", leading.version)));
        }
        Ok(record)
    }
}
