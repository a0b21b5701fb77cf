//! Features: what clients may rely on, as levels that are raised deliberately (KIP-584).
//!
//! Each has a range that this build supports and a level that is in force, which is kept in the metadata. A new data folder gets the
//! newest levels; an older one keeps its own until somebody raises them. What a level means is decided where it is used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Something that can be there at several levels. 0 means that it is not in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// `eligible.leader.replicas.version`: replicas that may be elected beside those in sync (KIP-966). Nothing to do on one node.
    EligibleLeaderReplicas,
    /// `group.version`: 1 brings consumer groups that the server assigns (KIP-848).
    Group,
    /// `kraft.version`: how Kafka's controllers agree. tailrace has no such quorum; its level stays 0.
    Kraft,
    /// `metadata.version`: the release of Kafka whose behaviour is shown, as a number (30 is 4.3). It cannot be changed.
    Metadata,
    /// `share.version`: 1 brings share groups (KIP-932).
    Share,
    /// `transaction.version`: 1 is Kafka's flexible records, 2 gives each transaction an epoch of its own (KIP-890).
    Transaction,
}

/// Name under which the level of the protocol between nodes is kept and raised. It is there in clusters only, and its range
/// is what all registered nodes speak: so it is no [`Feature`].
pub const CLUSTER_LEVEL: &str = "tailrace.cluster.level";

/// A level of the protocol between nodes as it is kept. Other nodes say which they speak: one that is too high for it is above all.
pub(crate) fn stored_level(level: u16) -> i16 {
    i16::try_from(level).unwrap_or(i16::MAX)
}

/// All features, by name.
const ALL: [Feature; 6] = [
    Feature::EligibleLeaderReplicas,
    Feature::Group,
    Feature::Kraft,
    Feature::Metadata,
    Feature::Share,
    Feature::Transaction,
];

impl Feature {
    /// All features, by name.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.into_iter()
    }

    /// The feature of this name.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        Self::all().find(|feature| feature.name() == name)
    }

    /// Kafka's name.
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

    /// Lowest and highest level that is supported: those of Kafka 4.3.
    pub const fn supported(self) -> (i16, i16) {
        match self {
            Self::EligibleLeaderReplicas | Self::Group | Self::Kraft | Self::Share => (0, 1),
            Self::Metadata => (7, 30),
            Self::Transaction => (0, 2),
        }
    }

    /// The level that a new data folder gets.
    const fn newest(self) -> i16 {
        match self {
            Self::Kraft => 0,
            other => other.supported().1,
        }
    }

    /// The level of data folders that say nothing of features. It must never change.
    const fn unwritten(self) -> i16 {
        match self {
            Self::Kraft => 0,
            Self::EligibleLeaderReplicas | Self::Group | Self::Share => 1,
            Self::Metadata => 30,
            Self::Transaction => 2,
        }
    }
}

/// The levels that are in force.
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

    /// Every feature at its newest level. That of the cluster stays: it is for the nodes to follow.
    pub(crate) fn raised(&self) -> BTreeMap<String, i16> {
        let mut newest = levels(Feature::newest);
        newest.extend(self.levels.get_key_value(CLUSTER_LEVEL).map(|(name, level)| (name.clone(), *level)));
        newest
    }

    /// The level of the protocol between nodes that is in force; 0 for a node that is alone.
    pub fn cluster_level(&self) -> u16 {
        self.levels.get(CLUSTER_LEVEL).map_or(0, |level| level.unsigned_abs())
    }

    /// The level of a feature.
    pub fn level(&self, feature: Feature) -> i16 {
        self.levels.get(feature.name()).copied().unwrap_or(0)
    }

    /// Those above 0, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i16)> {
        self.levels.iter().map(|(name, level)| (name.as_str(), *level))
    }

    /// Grows with every change. 0 while nothing was written.
    pub fn epoch(&self) -> i64 {
        self.epoch
    }
}

fn levels(of: impl Fn(Feature) -> i16) -> BTreeMap<String, i16> {
    let all = Feature::all().map(|feature| (feature.name().to_owned(), of(feature)));
    all.filter(|(_, level)| *level > 0).collect()
}

/// A level that somebody wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureUpdate {
    /// The feature's name.
    pub name: String,
    /// The level; 0 takes it out of force.
    pub level: i16,
    /// In which direction it may go.
    pub direction: FeatureDirection,
}

/// In which direction a level may be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FeatureDirection {
    /// Only up.
    Upgrade,
    /// Only down, and only if nothing is lost.
    SafeDowngrade,
    /// Only down, even if something is lost.
    UnsafeDowngrade,
}

/// Why a level is not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeatureError {
    /// There is none of that name.
    #[error("Invalid update version {level} for feature {name}. tailrace does not support this feature.")]
    Unknown {
        /// The name.
        name: String,
        /// The level that was asked for.
        level: i16,
    },
    /// Not a level of this feature.
    #[error(
        "Invalid update version {level} for feature {name}. tailrace supports the versions {min} to {max}."
    )]
    OutOfRange {
        /// The feature.
        name: &'static str,
        /// The level that was asked for.
        level: i16,
        /// The lowest that is supported.
        min: i16,
        /// The highest that is supported.
        max: i16,
    },
    /// A lower level without permission to go down.
    #[error(
        "Can't downgrade the version of feature {name} without setting the upgrade type to safe downgrade: it is {current}."
    )]
    IsDowngrade {
        /// The feature.
        name: &'static str,
        /// Its level.
        current: i16,
    },
    /// A higher level where only lower ones were permitted.
    #[error("Can't downgrade to a newer version: feature {name} is at {current}.")]
    IsUpgrade {
        /// The feature.
        name: &'static str,
        /// Its level.
        current: i16,
    },
    /// Something might be lost.
    #[error("Unsafe downgrades are not supported; ask for a safe downgrade of feature {name}.")]
    Unsafe {
        /// The feature.
        name: &'static str,
    },
    /// A feature whose level never changes.
    #[error(
        "Invalid update version {level} for feature {name}. In tailrace it is always at {current}: {reason}."
    )]
    Fixed {
        /// The feature.
        name: &'static str,
        /// The level that was asked for.
        level: i16,
        /// Its level.
        current: i16,
        /// Why.
        reason: &'static str,
    },
    /// One feature twice in a request.
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
