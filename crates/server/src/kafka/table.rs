//! Which APIs are served, at which versions, and by whom.

use tailrace_kafka_wire::{ApiKey, Reader};

use crate::connection::Closed;
use crate::kafka::{Context, Decided, answer};
use crate::kafka::{api_versions, fetch, produce};

/// One served API.
pub(crate) struct Served {
    pub(crate) key: ApiKey,
    /// Lowest version that is answered.
    pub(crate) min: i16,
    /// Highest version that is answered.
    pub(crate) max: i16,
    /// Lowest version that ApiVersions names. It differs from `min` for Produce alone: librdkafka sends uncompressed
    /// data to brokers that do not claim version 0 (KAFKA-18659).
    pub(crate) advertised_min: i16,
}

const fn served(key: ApiKey, min: i16, max: i16) -> Served {
    Served { key, min, max, advertised_min: min }
}

/// All served APIs, in the order of their keys. The floors are those of Kafka 4, the tops those of Kafka 4.3.
pub(crate) const SERVED: &[Served] = &[
    Served { key: ApiKey::Produce, min: 3, max: 13, advertised_min: 0 },
    served(ApiKey::Fetch, 4, 18),
    served(ApiKey::ApiVersions, 0, 4),
];

/// True if a request of this version is answered.
pub(crate) fn serves(key: ApiKey, version: i16) -> bool {
    SERVED.iter().any(|served| served.key == key && served.min <= version && version <= served.max)
}

/// The name of a served API, for metrics.
pub(crate) fn api_name(code: i16) -> Option<&'static str> {
    SERVED.iter().map(|served| served.key).find(|key| key.code() == code).map(ApiKey::name)
}

/// Hands a request to its API. [`serves`] has been asked before.
pub(crate) async fn dispatch(context: Context, reader: Reader) -> Result<Decided, Closed> {
    match context.header.api_key {
        ApiKey::Produce => produce::decide(context, reader).await,
        ApiKey::Fetch => fetch::decide(context, reader).await,
        ApiKey::ApiVersions => answer(context, reader, api_versions::handle).await,
        key => Err(Closed::Protocol(format!("{} is not served", key.name()))),
    }
}
