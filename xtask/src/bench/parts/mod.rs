//! The parts of the comparison, each runnable alone.

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

/// Runs one of them.
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
