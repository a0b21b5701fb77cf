//! Decisions about feature levels.

use std::collections::BTreeMap;

use crate::features::{
    CLUSTER_LEVEL, Feature, FeatureDirection, FeatureError, FeatureLevels, FeatureUpdate, stored_level,
};
use crate::image::MetadataImage;
use crate::record::MetadataRecord;

/// Returns the record that puts `levels` in force. There is none if they are already in force and written.
pub(super) fn put(image: &MetadataImage, levels: BTreeMap<String, i16>) -> Vec<MetadataRecord> {
    if levels == image.features.levels && image.features.epoch > 0 {
        return Vec::new();
    }
    vec![MetadataRecord::Features { epoch: image.features.epoch.saturating_add(1), levels }]
}

/// Returns the levels after `updates`, or an error if any of them is refused.
pub(super) fn updated(
    image: &MetadataImage,
    updates: &[FeatureUpdate],
) -> Result<BTreeMap<String, i16>, FeatureError> {
    let current = &image.features;
    let mut levels = current.levels.clone();
    for (number, update) in updates.iter().enumerate() {
        if updates[..number].iter().any(|earlier| earlier.name == update.name) {
            return Err(FeatureError::Repeated { name: update.name.clone() });
        }
        match image.cluster_levels() {
            Some((min, max)) if update.name == CLUSTER_LEVEL => check_cluster(current, update, min, max)?,
            Some(_) | None => check(current, update)?,
        }
        if update.level == 0 {
            levels.remove(&update.name);
        } else {
            levels.insert(update.name.clone(), update.level);
        }
    }
    Ok(levels)
}

/// Checks an update of the cluster level. The level never goes down, because nodes may rely on everything a
/// level brought.
fn check_cluster(
    current: &FeatureLevels,
    update: &FeatureUpdate,
    min: u16,
    max: u16,
) -> Result<(), FeatureError> {
    let (name, level, current) = (CLUSTER_LEVEL, update.level, stored_level(current.cluster_level()));
    let (min, max) = (stored_level(min), stored_level(max));
    if level < min || level > max {
        return Err(FeatureError::OutOfRange { name, level, min, max });
    }
    match update.direction {
        FeatureDirection::UnsafeDowngrade => Err(FeatureError::Unsafe { name }),
        FeatureDirection::Upgrade if level < current => Err(FeatureError::IsDowngrade { name, current }),
        FeatureDirection::SafeDowngrade if level > current => Err(FeatureError::IsUpgrade { name, current }),
        FeatureDirection::SafeDowngrade if level < current => {
            let reason = "nodes may rely on what that level introduced";
            Err(FeatureError::Fixed { name, level, current, reason })
        }
        FeatureDirection::Upgrade | FeatureDirection::SafeDowngrade => Ok(()),
    }
}

fn check(current: &FeatureLevels, update: &FeatureUpdate) -> Result<(), FeatureError> {
    let level = update.level;
    let Some(feature) = Feature::by_name(&update.name) else {
        return Err(FeatureError::Unknown { name: update.name.clone(), level });
    };
    let (name, (min, max), current) = (feature.name(), feature.supported(), current.level(feature));
    if level < min || level > max {
        return Err(FeatureError::OutOfRange { name, level, min, max });
    }
    match update.direction {
        FeatureDirection::Upgrade if level < current => {
            return Err(FeatureError::IsDowngrade { name, current });
        }
        FeatureDirection::SafeDowngrade | FeatureDirection::UnsafeDowngrade if level > current => {
            return Err(FeatureError::IsUpgrade { name, current });
        }
        FeatureDirection::UnsafeDowngrade => return Err(FeatureError::Unsafe { name }),
        FeatureDirection::Upgrade | FeatureDirection::SafeDowngrade => {}
    }
    let reason = match feature {
        Feature::Metadata => "its metadata has its own format",
        Feature::Kraft => "there is no quorum of Kafka's controllers",
        Feature::EligibleLeaderReplicas | Feature::Group | Feature::Share | Feature::Transaction => {
            return Ok(());
        }
    };
    if level == current { Ok(()) } else { Err(FeatureError::Fixed { name, level, current, reason }) }
}
