//! UpdateFeatures (57): raises and lowers the levels of features. All changes of a request apply, or none.

use std::sync::Arc;

use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::update_features_request::{FeatureUpdateKey, UpdateFeaturesRequest};
use tailrace_kafka_wire::messages::update_features_response::{
    UpdatableFeatureResult, UpdateFeaturesResponse,
};
use tailrace_metadata::{Command, FeatureDirection, FeatureUpdate};

use crate::commands::{Mode, Refusal, in_time};
use crate::context::Context;

/// First version with the direction in which a level may change.
const DIRECTIONS_FROM: i16 = 1;

/// Last version with a result for each feature.
const RESULTS_UP_TO: i16 = 1;

pub(crate) async fn handle(context: Arc<Context>, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse {
    let version = context.version();
    if let Err(code) = context.rights().cluster(Operation::Alter) {
        let Refusal { code, message } = Refusal::unauthorized(code);
        let (error_code, error_message) = (code.code(), Some(message));
        return UpdateFeaturesResponse { error_code, error_message, ..Default::default() };
    }
    let names: Vec<String> = request.feature_updates.iter().map(|update| update.feature.clone()).collect();
    match update(&context, request).await {
        Ok(()) => {
            let result =
                |feature| UpdatableFeatureResult { feature, error_message: None, ..Default::default() };
            let results = if version <= RESULTS_UP_TO { names } else { Vec::new() };
            UpdateFeaturesResponse {
                error_message: None,
                results: results.into_iter().map(result).collect(),
                ..Default::default()
            }
        }
        Err(refusal) => UpdateFeaturesResponse {
            error_code: refusal.code.code(),
            error_message: Some(format!(
                "The update failed for all features since the following feature had an error: {}",
                refusal.message
            )),
            ..Default::default()
        },
    }
}

async fn update(context: &Context, request: UpdateFeaturesRequest) -> Result<(), Refusal> {
    let (mode, caller) =
        (Mode::validate_only(request.validate_only), context.caller_within_ms(request.timeout_ms));
    let wanted = request.feature_updates.into_iter().map(|update| wanted(update, context.version()));
    let updates = wanted.collect::<Result<Vec<_>, _>>()?;
    in_time(&caller)?;
    if updates.is_empty() {
        return Ok(());
    }
    context.command(&caller, Command::UpdateFeatures(updates), mode).await.map(drop)
}

fn wanted(update: FeatureUpdateKey, version: i16) -> Result<FeatureUpdate, Refusal> {
    let direction = match (version >= DIRECTIONS_FROM, update.upgrade_type) {
        (false, _) if update.allow_downgrade => FeatureDirection::SafeDowngrade,
        (false, _) | (true, 1) => FeatureDirection::Upgrade,
        (true, 2) => FeatureDirection::SafeDowngrade,
        (true, 3) => FeatureDirection::UnsafeDowngrade,
        (true, other) => {
            let message = format!(
                "Invalid update version {} for feature {}. Upgrade type {other} is unknown.",
                update.max_version_level, update.feature
            );
            return Err(Refusal::new(ErrorCode::InvalidUpdateVersion, message));
        }
    };
    Ok(FeatureUpdate { name: update.feature, level: update.max_version_level, direction })
}
