//! The names and the expected durations of the parts.

/// The maximum number of rounds of `cold`. Each round reads 10 GB, and three are enough.
pub(super) const COLD_ROUNDS_MAX: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Produce,
    Strict,
    Consume,
    Both,
    Latency,
    Cold,
    Fsync,
}

impl Part {
    /// All parts, in the order in which they run. The last one needs another Kafka.
    pub(crate) const ALL: [Self; 7] =
        [Self::Produce, Self::Strict, Self::Consume, Self::Both, Self::Latency, Self::Cold, Self::Fsync];

    /// What each part measures, as a heading.
    pub(crate) const TITLES: [(&str, &str); 7] = [
        ("produce", "Producing to a relaxed topic"),
        ("strict", "Producing to a strict topic (fdatasync before the acknowledgement)"),
        ("consume", "Consuming from the page cache"),
        ("both", "Six producers and six consumers; memory; start-up"),
        ("latency", "Response time, open loop"),
        ("cold", "Producing while others read 10 GB from the disk"),
        ("fsync", "Response time with fsync before every acknowledgement"),
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Strict => "strict",
            Self::Consume => "consume",
            Self::Both => "both",
            Self::Latency => "latency",
            Self::Cold => "cold",
            Self::Fsync => "fsync",
        }
    }

    /// The expected duration on two cores: that of the preparation plus that of each round.
    pub(crate) fn planned_s(self, rounds: u32, quick: bool) -> f64 {
        let (once, round) = match self {
            Self::Produce => (25.0, 52.0),
            Self::Strict => (5.0, 30.0),
            Self::Consume => (45.0, 14.0),
            Self::Both => (5.0, 27.0),
            Self::Latency => (5.0, 62.0),
            Self::Cold => (120.0, 30.0),
            Self::Fsync => (40.0, 22.0),
        };
        let rounds = if self == Self::Cold { rounds.min(COLD_ROUNDS_MAX) } else { rounds };
        let seconds = once + round * f64::from(rounds);
        if quick { seconds / 3.0 } else { seconds }
    }
}
