//! The parts, and the systems that run in each.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Thousand,
    Three,
    Table,
    Million,
    Threads,
    MillionThreads,
    Storm,
    Growth,
    Churn,
    Memory,
}

/// The nats systems, which run in the Go program.
pub(super) const NATS: [&str; 2] = ["nats", "nats-cached"];
const ALL: &[&str] =
    &["tailrace", "nats", "nats-cached", "naive", "inverted-bitmap", "optimized-bitmap", "trie", "cs-trie"];
/// Without the systems that would take minutes: the naive map visits every subscription, and the bitmaps have
/// a bit for each.
const LARGE: &[&str] = &["tailrace", "nats", "nats-cached", "trie", "cs-trie"];
/// Only the systems that the targets name, because building a table of a million takes longer than measuring
/// it.
const FEW: &[&str] = &["tailrace", "nats", "cs-trie"];
/// Without `nats-cached`, because the cache makes no difference here.
const UNCACHED: &[&str] = &["tailrace", "nats", "trie", "cs-trie"];

impl Part {
    pub(super) const ALL: [Self; 10] = [
        Self::Thousand,
        Self::Three,
        Self::Table,
        Self::Million,
        Self::Threads,
        Self::MillionThreads,
        Self::Storm,
        Self::Growth,
        Self::Churn,
        Self::Memory,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Thousand => "thousand",
            Self::Three => "three",
            Self::Table => "table",
            Self::Million => "million",
            Self::Threads => "threads",
            Self::MillionThreads => "million-threads",
            Self::Storm => "storm",
            Self::Growth => "growth",
            Self::Churn => "churn",
            Self::Memory => "memory",
        }
    }

    /// The heading of the part in the report.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Thousand => "1,000 patterns of five words, hot and cold",
            Self::Three => "Three words, three hits for each message",
            Self::Table => "100,000 patterns, one thread",
            Self::Million => "1,000,000 patterns, one thread",
            Self::Threads => "100,000 patterns, many threads, real writes",
            Self::MillionThreads => "1,000,000 patterns, many threads, real writes",
            Self::Storm => "Subscribe storm: one thread looks up while the others subscribe and unsubscribe",
            Self::Growth => "Each single insert while the table grows",
            Self::Churn => "Memory after subscriptions have come and gone",
            Self::Memory => "Bytes per subscription",
        }
    }

    /// The name of the part in the measuring programs.
    pub(super) fn program_part(self) -> &'static str {
        match self {
            Self::Million => "table",
            Self::MillionThreads => "threads",
            other => other.name(),
        }
    }

    pub(super) fn systems(self) -> &'static [&'static str] {
        match self {
            Self::Thousand | Self::Three => ALL,
            Self::Table | Self::Million | Self::Threads | Self::Storm => LARGE,
            Self::MillionThreads => FEW,
            Self::Growth | Self::Churn | Self::Memory => UNCACHED,
        }
    }

    /// The number of rounds. Parts that take long and hardly vary run fewer than wanted.
    pub(super) fn rounds(self, wanted: u32) -> u32 {
        match self {
            Self::Growth | Self::Churn | Self::MillionThreads => wanted.min(3),
            Self::Memory => wanted.min(1),
            _ => wanted,
        }
    }

    pub(super) fn count(self, quick: bool) -> usize {
        match self {
            Self::Million | Self::MillionThreads | Self::Churn | Self::Memory if quick => 200_000,
            Self::Million | Self::MillionThreads | Self::Churn | Self::Memory => 1_000_000,
            Self::Growth if quick => 200_000,
            Self::Growth => 2_000_000,
            _ => 100_000,
        }
    }

    /// The expected seconds of a round on two cores.
    pub(super) fn round_s(self) -> f64 {
        match self {
            Self::Thousand => 20.0,
            Self::Three => 5.0,
            Self::Table => 12.0,
            Self::Million => 50.0,
            Self::Threads => 60.0,
            Self::MillionThreads => 30.0,
            Self::Storm => 9.0,
            Self::Growth => 30.0,
            Self::Churn => 30.0,
            Self::Memory => 20.0,
        }
    }
}
