//! State of the fault that cuts leaders off soon after their election.

use tailrace_types::LeaderEpoch;

use crate::Rng;

#[derive(Debug)]
pub(super) struct Aim {
    pub(super) is_taken: bool,
    pub(super) epoch: LeaderEpoch,
    /// The leader to cut off next, and the time in milliseconds.
    pub(super) next: Option<(u64, u64)>,
    pub(super) cut: Option<u64>,
    pub(super) made: usize,
}

impl Aim {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        Self { is_taken: rng.percent(25), epoch: LeaderEpoch(0), next: None, cut: None, made: 0 }
    }

    pub(super) fn is_taken(&self) -> bool {
        self.is_taken
    }
}
