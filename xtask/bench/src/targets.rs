//! The targets, and whether a run meets them. A ratio is computed within each round, and the median of the
//! ratios counts.

use super::sample::Sample;
use super::stats::{Spread, number};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// Shown without a verdict.
    Stated,
}

impl Bound {
    pub(super) fn is_met(self, value: f64) -> Option<bool> {
        match self {
            Self::AtLeast(bound) => Some(value >= bound),
            Self::AtMost(bound) => Some(value <= bound),
            Self::Stated => None,
        }
    }

    pub(super) fn shown(self) -> String {
        match self {
            Self::AtLeast(bound) => format!("at least {}", number(bound)),
            Self::AtMost(bound) => format!("at most {}", number(bound)),
            Self::Stated => "stated".to_owned(),
        }
    }
}

/// The figure with which tailrace's is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Against {
    Nothing,
    System(&'static str),
    /// The lowest figure of several systems.
    Lowest(&'static [&'static str]),
    /// tailrace's own figure under another load.
    Load(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) part: &'static str,
    pub(super) load: &'static str,
    pub(super) what: &'static str,
    pub(super) figure: &'static str,
    pub(super) against: Against,
    pub(super) bound: Bound,
}

use Against::{Load, Lowest, Nothing, System};
use Bound::{AtLeast, AtMost, Stated};

pub(super) const fn target(
    part: &'static str,
    load: &'static str,
    figure: &'static str,
    against: Against,
    bound: Bound,
    what: &'static str,
) -> Target {
    Target { part, load, what, figure, against, bound }
}

const KAFKA: Against = System("kafka");
const KAFKA_OR_DISK: Against = Lowest(&["kafka", "disk"]);

pub(super) const TARGETS: &[Target] = &[
    target("produce", "acks1", "sent_per_s", KAFKA, AtLeast(2.0), "acks=1: records/s, over Kafka's"),
    target(
        "produce",
        "acks1",
        "server_cpu_s_per_m",
        KAFKA,
        AtMost(0.4),
        "acks=1: server CPU per record, over Kafka's",
    ),
    target("produce", "acksall", "sent_per_s", KAFKA, AtLeast(2.0), "acks=all: records/s, over Kafka's"),
    target(
        "produce",
        "acksall",
        "server_cpu_s_per_m",
        KAFKA,
        AtMost(0.4),
        "acks=all: server CPU per record, over Kafka's",
    ),
    target(
        "strict",
        "one",
        "sent_per_s",
        KAFKA_OR_DISK,
        AtLeast(1.0),
        "one partition: records/s, over the lower of Kafka without fsync and 80 % of the disk",
    ),
    target(
        "strict",
        "one",
        "sent_per_s",
        KAFKA,
        Stated,
        "one partition: records/s, over Kafka's without fsync",
    ),
    target(
        "strict",
        "thousand",
        "sent_per_s",
        KAFKA,
        Stated,
        "1,000 partitions: records/s, over Kafka's without fsync",
    ),
    target("consume", "cached", "received_per_s", KAFKA, AtLeast(1.0), "records/s, over Kafka's"),
    target("consume", "cached", "server_cpu_s_per_gb", KAFKA, AtMost(0.8), "server CPU per GB, over Kafka's"),
    target(
        "consume",
        "cached",
        "server_cpu_s_per_gb",
        System("sendfile"),
        AtMost(1.3),
        "server CPU per GB, over a bare sendfile loop's",
    ),
    target(
        "both",
        "both",
        "messages_per_s",
        KAFKA,
        AtLeast(2.0),
        "6 + 6 clients, 12 partitions: messages/s, over Kafka's",
    ),
    target(
        "both",
        "both",
        "peak_rss_mib",
        Nothing,
        AtMost(100.0),
        "peak resident memory under that load, MiB",
    ),
    target("both", "idle", "idle_rss_mib", Nothing, AtMost(25.0), "idle resident memory, MiB"),
    target("both", "empty", "ready_ms", Nothing, AtMost(50.0), "ready on an empty folder, ms"),
    target(
        "both",
        "thousand",
        "ready_ms",
        Nothing,
        AtMost(1000.0),
        "ready with 1,000 partitions after a clean stop, ms",
    ),
    target("latency", "3k", "p50_us", KAFKA, AtMost(0.6), "3,000/s over 1 pair: p50, over Kafka's"),
    target("latency", "3k", "p99.9_us", KAFKA, AtMost(1.0), "3,000/s over 1 pair: p99.9, over Kafka's"),
    target(
        "latency",
        "3k",
        "p50_us",
        System("echo"),
        Stated,
        "3,000/s over 1 pair: p50, over the bare echo's",
    ),
    target("latency", "20k", "p50_us", KAFKA, AtMost(0.25), "20,000/s over 25 pairs: p50, over Kafka's"),
    target("latency", "20k", "p99_us", KAFKA, AtMost(0.25), "20,000/s over 25 pairs: p99, over Kafka's"),
    target(
        "latency",
        "20k",
        "p50_us",
        System("echo"),
        Stated,
        "20,000/s over 25 pairs: p50, over the bare echo's",
    ),
    target(
        "fsync",
        "3k",
        "ack_p50_us",
        KAFKA,
        AtMost(0.25),
        "3,000/s over 25 connections: p50 to the acknowledgement, over Kafka's",
    ),
    target(
        "cold",
        "cold",
        "ack_p99_us",
        Load("quiet"),
        Stated,
        "p99 to the acknowledgement beside a cold reader, over the quiet one",
    ),
    target(
        "cold",
        "cached",
        "ack_p99_us",
        Load("quiet"),
        Stated,
        "the same beside a reader from the page cache",
    ),
    target(
        "cold",
        "cold",
        "ack_p99_us",
        KAFKA,
        Stated,
        "p99 to the acknowledgement beside a cold reader, over Kafka's",
    ),
];

impl Target {
    /// tailrace's figure, or its ratio, in each round that has the necessary samples.
    pub(super) fn spread(&self, samples: &[Sample]) -> Option<Spread> {
        let figure = |system: &str, load: &str, round| {
            let mine = |s: &&Sample| s.system == system && s.load == load && s.round == round;
            let sample = samples.iter().find(mine).filter(|sample| sample.failed.is_none())?;
            sample.figures.get(self.figure).copied()
        };
        let other = |round| match self.against {
            Nothing => Some(1.0),
            System(system) => figure(system, self.load, round),
            Lowest(systems) => {
                let figures: Option<Vec<f64>> = systems.iter().map(|s| figure(s, self.load, round)).collect();
                figures?.into_iter().reduce(f64::min)
            }
            Load(load) => figure("tailrace", load, round),
        };
        let last = samples.iter().map(|sample| sample.round).max()?;
        let value = |round| Some(figure("tailrace", self.load, round)? / other(round)?);
        Spread::of((1..=last).filter_map(value))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn sample(system: &str, round: u32, value: f64) -> Sample {
        Sample {
            part: "strict".into(),
            load: "one".into(),
            system: system.into(),
            round,
            figures: BTreeMap::from([("sent_per_s".into(), value)]),
            failed: None,
            line: String::new(),
        }
    }

    fn spread(against: Against, samples: &[Sample]) -> Option<Spread> {
        target("strict", "one", "sent_per_s", against, AtLeast(1.0), "").spread(samples)
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let values = [(1, 200.0, 100.0), (2, 300.0, 300.0), (3, 90.0, 30.0)];
        let rounds = |(round, a, b)| [sample("tailrace", round, a), sample("kafka", round, b)];
        let samples: Vec<Sample> = values.into_iter().flat_map(rounds).collect();
        let found = spread(KAFKA, &samples).unwrap();
        assert_eq!((found.lowest, found.median, found.highest), (1.0, 2.0, 3.0));
    }

    #[test]
    fn a_failed_run_or_a_missing_one_does_not_count() {
        let mut samples =
            vec![sample("tailrace", 1, 2.0), sample("kafka", 1, 1.0), sample("tailrace", 2, 9.0)];
        assert_eq!(spread(KAFKA, &samples).unwrap().rounds, 1);
        samples[1].failed = Some("lost records".into());
        assert_eq!(spread(KAFKA, &samples), None);
    }

    #[test]
    fn the_lower_of_two_is_the_one_to_reach() {
        let samples = [sample("tailrace", 1, 3.0), sample("kafka", 1, 6.0), sample("disk", 1, 2.0)];
        assert_eq!(spread(KAFKA_OR_DISK, &samples).unwrap().median, 1.5);
        assert_eq!(spread(Nothing, &samples).unwrap().median, 3.0);
    }

    #[test]
    fn bounds_include_themselves() {
        assert_eq!(AtLeast(2.0).is_met(2.0), Some(true));
        assert_eq!(AtMost(0.4).is_met(0.41), Some(false));
        assert_eq!(Stated.is_met(9.0), None);
    }
}
