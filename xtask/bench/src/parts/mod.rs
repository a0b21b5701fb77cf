//! The parts of the comparison with Kafka. Each can run alone.

mod both;
mod cold;
mod consume;
mod fsync;
mod latency;
mod part;
mod produce;
mod strict;

pub(super) use self::part::Part;
use super::lab::Lab;

/// Runs one part.
pub(super) fn run(part: Part, lab: &mut Lab) -> Result<(), String> {
    match part {
        Part::Produce => produce::run(lab),
        Part::Strict => strict::run(lab),
        Part::Consume => consume::run(lab),
        Part::Both => both::run(lab),
        Part::Latency => latency::run(lab),
        Part::Cold => cold::run(lab),
        Part::Fsync => fsync::run(lab),
    }
}
