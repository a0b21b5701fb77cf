//! Messages between coordinator and agents after authentication: JSON, one message per frame.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2Serializer};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::RemoteError;
use super::assignment::Assignment;
use crate::engine::Break;
use crate::recorder::{Counts, Distribution, Recorder};
use crate::report::{Machine, ResourceSample};

/// Largest message: a schedule from a trace, of about three million due times.
pub(super) const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// A message from the coordinator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ToAgent {
    /// Asks for the time. Answered at once.
    Probe {
        number: u64,
    },
    /// Connect, and probe with one message if both ends are on this agent.
    Prepare(Box<Assignment>),
    /// Wait until each publisher's probe has arrived.
    AwaitProbes,
    Start(Start),
    /// This agent's clock less that of each agent, in nanoseconds.
    Offsets(Vec<i64>),
    /// Connections, and how many messages each has sent.
    Sent(BTreeMap<u32, u64>),
    /// Stop sending.
    Stop,
    /// The coordinator has everything that it needs.
    Goodbye,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Start {
    /// When the first message is due, on this agent's clock.
    pub(super) begin_ns: u64,
    /// The same time on each agent's clock.
    pub(super) begins_ns: Vec<u64>,
    /// This agent's clock less that of each agent, in nanoseconds.
    pub(super) offsets_ns: Vec<i64>,
}

/// A message from an agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ToCoordinator {
    Probed { number: u64, received_ns: u64, answered_ns: u64 },
    Prepared { machine: Machine },
    ProbesCame,
    Interval(Box<IntervalForm>),
    Final(Box<Final>),
    Failed { reason: String },
}

/// Measurements of one interval.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct IntervalForm {
    /// The interval's number, from 0 at the first due message.
    pub(super) index: u64,
    pub(super) recorder: RecorderForm,
    pub(super) in_flight: usize,
}

/// The end of an agent's part. Distributions came with the intervals.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Final {
    pub(super) interrupted: bool,
    pub(super) neglected: u64,
    pub(super) failures: Vec<String>,
    pub(super) breaks: Vec<Break>,
    pub(super) refusals: Vec<String>,
    /// Connections, and how many messages each has sent.
    pub(super) sent: BTreeMap<u32, u64>,
    /// On the agent's clock.
    pub(super) stopped_ns: u64,
    pub(super) receipt_is_reply: bool,
    pub(super) expects_payload: bool,
    /// The sum of all intervals, to detect a missing one.
    pub(super) counts: Counts,
    pub(super) resources: Vec<ResourceSample>,
    /// What could not be cleaned up in the system.
    pub(super) complaint: Option<String>,
}

/// A recorder: each histogram in HdrHistogram's format V2, in Base64.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RecorderForm {
    distributions: BTreeMap<String, DistributionForm>,
    counts: Counts,
    oldest_waiting_ns: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct DistributionForm {
    histogram: String,
    above_range: u64,
    max_ns: u64,
}

impl RecorderForm {
    pub(super) fn new(recorder: &Recorder) -> Self {
        let mut serializer = V2Serializer::new();
        let mut distributions = BTreeMap::new();
        for (name, distribution) in recorder.named() {
            let Some(histogram) = distribution.histogram() else { continue };
            let mut bytes = Vec::new();
            // Writing to memory does not fail, and three digits up to 300 s fit into the format.
            if let Err(error) = serializer.serialize(histogram, &mut bytes) {
                unreachable!("a histogram of our own: {error:?}");
            }
            let form = DistributionForm {
                histogram: STANDARD.encode(&bytes),
                above_range: distribution.above_range(),
                max_ns: distribution.max_ns(),
            };
            distributions.insert(name.to_owned(), form);
        }
        Self { distributions, counts: recorder.counts, oldest_waiting_ns: recorder.oldest_waiting_ns }
    }

    pub(super) fn recorder(&self) -> Result<Recorder, RemoteError> {
        let wrong = |found: &str| RemoteError::Protocol {
            expected: "the histograms of an agent",
            found: found.to_owned(),
        };
        let (counts, oldest_waiting_ns) = (self.counts, self.oldest_waiting_ns);
        let mut recorder = Recorder { counts, oldest_waiting_ns, ..Recorder::default() };
        let mut deserializer = Deserializer::new();
        for (name, form) in &self.distributions {
            let bytes = STANDARD.decode(&form.histogram).map_err(|_| wrong("something not in Base64"))?;
            let histogram = deserializer
                .deserialize(&mut bytes.as_slice())
                .map_err(|error| wrong(&format!("{error:?}")))?;
            let place = recorder.by_name_mut(name).ok_or_else(|| wrong("one of another name"))?;
            *place = Distribution::with_extremes(&histogram, form.above_range, form.max_ns);
        }
        Ok(recorder)
    }
}

pub(super) fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, RemoteError> {
    serde_json::to_vec(message).map_err(|error| RemoteError::Unsupported(error.to_string()))
}

pub(super) fn decode<T: DeserializeOwned>(frame: &[u8]) -> Result<T, RemoteError> {
    serde_json::from_slice(frame).map_err(|error| {
        let found: String = error.to_string().chars().take(200).collect();
        RemoteError::Protocol { expected: "a message of this protocol", found }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorder_travels_unchanged() {
        let mut recorder = Recorder::default();
        for n in 1..2000_u64 {
            recorder.receipt.success.record(n * n * 1000);
            recorder.lateness.record(n);
        }
        recorder.acknowledgement.timeout.record(u64::MAX);
        recorder.counts.received = 7;
        recorder.oldest_waiting_ns = 3_000_000;
        let text = encode(&RecorderForm::new(&recorder)).unwrap();
        let elsewhere = decode::<RecorderForm>(&text).unwrap().recorder().unwrap();
        assert_eq!((elsewhere.counts, elsewhere.oldest_waiting_ns), (recorder.counts, 3_000_000));
        let all = |recorder: &Recorder| {
            let described =
                |found: &Distribution| (found.histogram().cloned(), found.above_range(), found.max_ns());
            recorder.named().map(|(name, found)| (name, described(found))).collect::<Vec<_>>()
        };
        assert_eq!((all(&elsewhere), all(&recorder).len()), (all(&recorder), 3));
    }

    #[test]
    fn rubbish_is_no_recorder() {
        let good = r#"{"distributions": {"held": {"histogram": "", "above_range": 0, "max_ns": 1}}, "counts": {}, "oldest_waiting_ns": 0}"#;
        assert!(decode::<RecorderForm>(good.as_bytes()).is_err(), "counts are missing");
        let counts = serde_json::to_string(&Counts::default()).unwrap();
        let good = good.replace("{},", &format!("{counts},"));
        for text in [good.clone(), good.replace("\"\"", "\"!\""), good.replace("\"\"", "\"AAAA\"")] {
            assert!(decode::<RecorderForm>(text.as_bytes()).unwrap().recorder().is_err(), "{text}");
        }
    }
}
