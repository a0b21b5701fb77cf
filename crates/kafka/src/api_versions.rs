//! ApiVersions (18): the APIs, versions and features of this server.

use std::sync::Arc;

use tailrace_kafka_wire::messages::api_versions_request::ApiVersionsRequest;
use tailrace_kafka_wire::messages::api_versions_response::{
    ApiVersion, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use tailrace_kafka_wire::{ApiKey, ErrorCode, response_frame};
use tailrace_metadata::{CLUSTER_LEVEL, Feature, FeatureLevels};

use crate::closed::Closed;
use crate::context::parts_of;
use crate::context::{Context, Decided};
use crate::served::SERVED;

/// First version in which clients name their software (KIP-511).
const NAMES_FROM: i16 = 3;

/// First version in which a feature's lowest level may be 0 (KIP-1022, KAFKA-17492).
const LEVEL_ZERO_FROM: i16 = 4;

pub(crate) async fn handle(context: Arc<Context>, request: ApiVersionsRequest) -> ApiVersionsResponse {
    let (name, version) = (request.client_software_name, request.client_software_version);
    if context.version() >= NAMES_FROM {
        if !is_software_word(&name) || !is_software_word(&version) {
            return ApiVersionsResponse {
                error_code: ErrorCode::InvalidRequest.code(),
                ..Default::default()
            };
        }
        tracing::debug!(caller = %context.caller(), %name, %version, "client");
        // A second ApiVersions on the same connection does not rename the client.
        let _ = context.session.software.set((name, version));
    }
    let api_keys = SERVED
        .iter()
        .map(|served| ApiVersion {
            api_key: served.key.code(),
            min_version: served.advertised_min,
            max_version: served.max,
            ..Default::default()
        })
        .collect();
    let image = context.node().image();
    ApiVersionsResponse {
        api_keys,
        supported_features: supported_features(context.version(), image.cluster_levels()),
        finalized_features_epoch: image.features().epoch(),
        finalized_features: finalized_features(image.features()),
        ..Default::default()
    }
}

/// Returns the features this server supports. Clients older than [`LEVEL_ZERO_FROM`] cannot read a range that
/// starts at 0.
fn supported_features(version: i16, cluster_levels: Option<(u16, u16)>) -> Vec<SupportedFeatureKey> {
    // The range of levels that all nodes support.
    let level = |level: u16| i16::try_from(level).unwrap_or(i16::MAX);
    let cluster = cluster_levels.map(|(min, max)| (CLUSTER_LEVEL, (level(min), level(max))));
    let ranges = Feature::all().map(|feature| (feature.name(), feature.supported())).chain(cluster);
    let legible = ranges.filter(|(_, (min, _))| version >= LEVEL_ZERO_FROM || *min > 0);
    let key = |(name, (min_version, max_version)): (&str, _)| SupportedFeatureKey {
        name: name.to_owned(),
        min_version,
        max_version,
        ..Default::default()
    };
    legible.map(key).collect()
}

fn finalized_features(levels: &FeatureLevels) -> Vec<FinalizedFeatureKey> {
    let key = |(name, level): (&str, i16)| FinalizedFeatureKey {
        name: name.to_owned(),
        max_version_level: level,
        min_version_level: level,
        ..Default::default()
    };
    levels.iter().map(key).collect()
}

/// Answers an unknown version in the layout of version 0, with the versions of this one API (KIP-511).
pub(crate) fn unsupported(context: &Context) -> Result<Decided, Closed> {
    let own = SERVED.iter().filter(|served| served.key == ApiKey::ApiVersions).map(|served| ApiVersion {
        api_key: served.key.code(),
        min_version: served.min,
        max_version: served.max,
        ..Default::default()
    });
    let response = ApiVersionsResponse {
        error_code: ErrorCode::UnsupportedVersion.code(),
        api_keys: own.collect(),
        ..Default::default()
    };
    let frame = response_frame(context.header.correlation_id, 0, &response)
        .map_err(|error| Closed::Protocol(format!("a response could not be encoded: {error}")))?;
    Ok(Decided::Reply(parts_of(frame, &[])))
}

/// Reports whether a software name or version is legal (KIP-511): letters and digits, with dots and dashes
/// inside.
fn is_software_word(word: &str) -> bool {
    let edge = |c: u8| c.is_ascii_alphanumeric();
    let bytes = word.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(&first), Some(&last)) if edge(first) && edge(last) => {
            bytes.iter().all(|&c| edge(c) || c == b'.' || c == b'-')
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_software_word;

    #[test]
    fn software_names_are_words() {
        for good in ["a", "apache-kafka-java", "4.3.1", "v2"] {
            assert!(is_software_word(good), "{good}");
        }
        for bad in ["", "a b", "-a", "a.", "é", "a/b"] {
            assert!(!is_software_word(bad), "{bad}");
        }
    }
}
