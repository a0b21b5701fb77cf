//! Features: capabilities that clients may rely on, with levels that are raised deliberately (KIP-584).
//!
//! Each feature has a range of levels that this build supports, and a level in force, which the metadata
//! stores. A new data folder gets the newest levels. An older one keeps its levels until an operator raises
//! them. The meaning of a level is defined where the feature is used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A feature with several levels. 0 means that it is not in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// `eligible.leader.replicas.version`: replicas outside the in-sync set that may be elected (KIP-966). It
    /// has no effect in a standalone server.
    EligibleLeaderReplicas,
    /// `group.version`: level 1 adds consumer groups with server-side assignment (KIP-848).
    Group,
    /// `kraft.version`: the protocol of Kafka's controller quorum. tailrace has no such quorum, and the level
    /// is always 0.
    Kraft,
    /// `metadata.version`: the Kafka release whose behavior clients see, as a number (30 is 4.3). It cannot
    /// be changed.
    Metadata,
    /// `share.version`: level 1 adds share groups (KIP-932).
    Share,
    /// `transaction.version`: level 1 is Kafka's flexible records, level 2 gives each transaction its own
    /// epoch (KIP-890).
    Transaction,
}

/// The feature name of the level of the protocol between nodes. It is not a [`Feature`]: it exists in
/// clusters only, and its range is the one that all registered nodes support.
pub const CLUSTER_LEVEL: &str = "tailrace.cluster.level";

/// Converts a protocol level to its stored form. Other nodes report their levels; one that does not fit
/// becomes the maximum.
pub(crate) fn stored_level(level: u16) -> i16 {
    i16::try_from(level).unwrap_or(i16::MAX)
}

/// All features, ordered by name.
const ALL: [Feature; 6] = [
    Feature::EligibleLeaderReplicas,
    Feature::Group,
    Feature::Kraft,
    Feature::Metadata,
    Feature::Share,
    Feature::Transaction,
];

impl Feature {
    /// Returns all features, ordered by name.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.into_iter()
    }

    /// Returns the feature of this name.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Self::all().find(|feature| feature.name() == name)
    }

    /// Returns Kafka's name of the feature.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EligibleLeaderReplicas => "eligible.leader.replicas.version",
            Self::Group => "group.version",
            Self::Kraft => "kraft.version",
            Self::Metadata => "metadata.version",
            Self::Share => "share.version",
            Self::Transaction => "transaction.version",
        }
    }

    /// Returns the lowest and highest supported level: those of Kafka 4.3.
    pub const fn supported(self) -> (i16, i16) {
        match self {
            Self::EligibleLeaderReplicas | Self::Group | Self::Kraft | Self::Share => (0, 1),
            Self::Metadata => (7, 30),
            Self::Transaction => (0, 2),
        }
    }

    /// Returns the level in a new data folder.
    const fn newest(self) -> i16 {
        match self {
            Self::Kraft => 0,
            other => other.supported().1,
        }
    }

    /// Returns the level in data folders without a features record. It must never change.
    const fn unwritten(self) -> i16 {
        match self {
            Self::Kraft => 0,
            Self::EligibleLeaderReplicas | Self::Group | Self::Share => 1,
            Self::Metadata => 30,
            Self::Transaction => 2,
        }
    }
}

/// The levels in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureLevels {
    /// By name, without those of level 0. May hold names that this build does not know.
    pub(crate) levels: BTreeMap<String, i16>,
    pub(crate) epoch: i64,
}

impl FeatureLevels {
    pub(crate) fn unwritten() -> Self {
        Self { levels: levels(Feature::unwritten), epoch: 0 }
    }

    /// Returns every feature at its newest level. The cluster level does not change, because the nodes must
    /// support it first.
    pub(crate) fn raised(&self) -> BTreeMap<String, i16> {
        let mut newest = levels(Feature::newest);
        newest.extend(self.levels.get_key_value(CLUSTER_LEVEL).map(|(name, level)| (name.clone(), *level)));
        newest
    }

    /// Returns the level of the protocol between nodes that is in force. 0 for a standalone server.
    pub fn cluster_level(&self) -> u16 {
        self.levels.get(CLUSTER_LEVEL).map_or(0, |level| level.unsigned_abs())
    }

    /// Returns the level of a feature.
    pub fn level(&self, feature: Feature) -> i16 {
        self.levels.get(feature.name()).copied().unwrap_or(0)
    }

    /// Returns the levels above 0, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i16)> {
        self.levels.iter().map(|(name, level)| (name.as_str(), *level))
    }

    /// Returns the epoch, which grows with every change. 0 if no record was written.
    pub fn epoch(&self) -> i64 {
        self.epoch
    }
}

fn levels(of: impl Fn(Feature) -> i16) -> BTreeMap<String, i16> {
    let all = Feature::all().map(|feature| (feature.name().to_owned(), of(feature)));
    all.filter(|(_, level)| *level > 0).collect()
}

/// A requested level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureUpdate {
    /// The feature's name.
    pub name: String,
    /// The level. 0 takes the feature out of force.
    pub level: i16,
    /// The permitted direction.
    pub direction: FeatureDirection,
}

/// The direction in which a level may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FeatureDirection {
    /// Only up.
    Upgrade,
    /// Only down, and only if nothing is lost.
    SafeDowngrade,
    /// Only down, even if something is lost.
    UnsafeDowngrade,
}

/// Why a level cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeatureError {
    /// No feature has this name.
    #[error("Invalid update version {level} for feature {name}. tailrace does not support this feature.")]
    Unknown {
        /// The name.
        name: String,
        /// The requested level.
        level: i16,
    },
    /// The feature does not have this level.
    #[error(
        "Invalid update version {level} for feature {name}. tailrace supports the versions {min} to {max}."
    )]
    OutOfRange {
        /// The feature.
        name: &'static str,
        /// The requested level.
        level: i16,
        /// The lowest supported level.
        min: i16,
        /// The highest supported level.
        max: i16,
    },
    /// The requested level is lower, and no downgrade was permitted.
    #[error(
        "Can't downgrade the version of feature {name} without setting the upgrade type to safe downgrade: it is {current}."
    )]
    IsDowngrade {
        /// The feature.
        name: &'static str,
        /// Its level.
        current: i16,
    },
    /// The requested level is higher, and only a downgrade was permitted.
    #[error("Can't downgrade to a newer version: feature {name} is at {current}.")]
    IsUpgrade {
        /// The feature.
        name: &'static str,
        /// Its level.
        current: i16,
    },
    /// The downgrade might lose data.
    #[error("Unsafe downgrades are not supported; ask for a safe downgrade of feature {name}.")]
    Unsafe {
        /// The feature.
        name: &'static str,
    },
    /// The feature's level never changes.
    #[error(
        "Invalid update version {level} for feature {name}. In tailrace it is always at {current}: {reason}."
    )]
    Fixed {
        /// The feature.
        name: &'static str,
        /// The requested level.
        level: i16,
        /// Its level.
        current: i16,
        /// The reason.
        reason: &'static str,
    },
    /// A feature appears twice in a request.
    #[error("Feature {name} appears more than once.")]
    Repeated {
        /// Its name.
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_come_by_name_and_new_levels_are_supported() {
        assert!(Feature::all().map(Feature::name).is_sorted());
        for feature in Feature::all() {
            let (min, max) = feature.supported();
            assert!(min <= max, "{feature:?}");
            assert!((min..=max).contains(&feature.newest()), "{feature:?}");
            assert_eq!(Feature::by_name(feature.name()), Some(feature));
        }
    }
}
