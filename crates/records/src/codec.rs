//! The codecs of batches, by id and by name.

use std::fmt;
use std::str::FromStr;

/// The codec of a batch's records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// gzip, RFC 1952.
    Gzip,
    /// Snappy in snappy-java's framing.
    Snappy,
    /// LZ4 frames of independent blocks.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// All codecs, by id.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// Returns the id in the low three bits of the attributes.
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// Returns the codec with this id. `None` for an unknown id.
    pub const fn from_id(id: u8) -> Option<Self> {
        match id {
            0 => Some(Self::None),
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Returns Kafka's name, as in a producer's `compression.type`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error of a text that names no codec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a compression type: expected none, gzip, snappy, lz4 or zstd")]
pub struct UnknownCompressionName(pub String);

impl FromStr for Compression {
    type Err = UnknownCompressionName;

    /// Parses Kafka's names. A topic's `uncompressed` means `none`. A topic's `producer` is not a codec.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|c| c.name() == text);
        match text {
            "uncompressed" => Ok(Self::None),
            _ => named.ok_or_else(|| UnknownCompressionName(text.to_owned())),
        }
    }
}
