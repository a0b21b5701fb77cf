//! The kinds of faults, and how likely each is.

use std::time::Duration;

use super::site::Site;
use crate::disk::{CrashMode, Effect, OpKind, Rule};
use crate::rng::Rng;

/// A nearly full disk has at most this many bytes left.
const LEFT_BYTES: u64 = 20_000;

/// How many milliseconds slower a link becomes. An election takes a second or two.
const SLOWER_MS: [u64; 4] = [5, 20, 80, 300];

/// By how many hours a clock may be wrong, either way. Producers are forgotten after a day.
const HOURS: u64 = 11;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Crash {
        computer: usize,
        mode: CrashMode,
    },
    CrashOfAll {
        mode: CrashMode,
    },
    /// From some operation on nothing reaches the disk. Then the power fails.
    PowerFails {
        computer: usize,
        after: u64,
    },
    /// A node is stopped in an orderly way.
    Stop {
        computer: usize,
    },
    Cut {
        from: usize,
        to: usize,
        is_both: bool,
    },
    /// A leader and all others cannot reach each other.
    CutOff {
        computer: usize,
    },
    Reset {
        one: usize,
        other: usize,
        choice: u64,
    },
    /// Messages between two computers take longer.
    Slow {
        one: usize,
        other: usize,
        ms: u64,
    },
    /// The same, for so little and so short that both must act as if it were not slow.
    HearLate {
        one: usize,
        other: usize,
        ms: u64,
    },
    /// A coordinator of transactions hands over to another node while it ends a transaction.
    Move {
        from: usize,
        to: usize,
    },
    Pause {
        computer: usize,
    },
    /// Some tasks and threads of a node get no turn.
    Starve {
        computer: usize,
        choice: u64,
    },
    Clock {
        computer: usize,
        hours: i64,
    },
    Space {
        computer: usize,
        left: u64,
    },
    /// A few operations of a disk fail.
    Errors {
        computer: usize,
        rule: Rule,
    },
    /// Permanent damage to a copy.
    Harm {
        computer: usize,
        harm: Harm,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Harm {
    /// The disk is lost, and replaced by an empty one.
    DiskLost,
    /// A few bits of some file change.
    BitRot,
    /// A write goes to another place in its file.
    Misdirected(Rule),
}

/// How much of the acknowledged data a fault may destroy for good.
pub(super) enum Takes {
    Nothing,
    OneCopy,
    All,
}

#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) at: Duration,
    pub(super) what: What,
    /// The effect of the fault ends after this time.
    pub(super) lasts: Duration,
}

impl What {
    pub(super) fn any(rng: &mut Rng, computers: usize) -> Self {
        let mut one = || usize::try_from(rng.below(computers as u64)).expect("a small number");
        let (computer, other) = (one(), one());
        // The computer of the clients follows the others.
        let beside = usize::try_from(rng.below(computers as u64 + 1)).expect("a small number");
        match rng.below(100) {
            0..10 => Self::Crash { computer, mode: CrashMode::Random },
            10..13 => Self::Crash { computer, mode: CrashMode::LoseAll },
            13..20 => Self::Crash { computer, mode: CrashMode::KeepAll },
            20..22 => Self::CrashOfAll { mode: CrashMode::Random },
            22..26 => Self::PowerFails { computer, after: rng.below(40) },
            26..30 => Self::Stop { computer },
            30..36 => Self::Cut { from: computer, to: other, is_both: false },
            36..40 => Self::Cut { from: computer, to: beside, is_both: false },
            40..44 => Self::Cut { from: beside, to: computer, is_both: false },
            44..51 => Self::Cut { from: computer, to: beside, is_both: true },
            51..58 => Self::Reset { one: computer, other: beside, choice: rng.next_u64() },
            58..70 => {
                let ms =
                    SLOWER_MS[usize::try_from(rng.below(SLOWER_MS.len() as u64)).expect("a small number")];
                Self::Slow { one: computer, other: beside, ms }
            }
            70..76 => Self::Pause { computer },
            76..80 => Self::Starve { computer, choice: rng.next_u64() },
            80..84 => {
                let hours = i64::try_from(rng.below(2 * HOURS + 1)).expect("a small number");
                Self::Clock { computer, hours: hours - HOURS as i64 }
            }
            84..88 => Self::Space { computer, left: rng.below(LEFT_BYTES) },
            88..92 => Self::Errors { computer, rule: errors(rng) },
            92..95 => Self::Harm { computer, harm: Harm::DiskLost },
            95..98 => Self::Harm { computer, harm: Harm::BitRot },
            _ => Self::Harm { computer, harm: Harm::Misdirected(misdirected(rng)) },
        }
    }

    /// Returns how much of the acknowledged data the fault may destroy for good.
    pub(super) fn takes(&self, site: &Site) -> Takes {
        match self {
            // Until its power fails, the computer may be the only one besides the leader that has a record.
            Self::CrashOfAll { .. } | Self::PowerFails { .. } if site.habits.relaxes_old => Takes::All,
            Self::Crash { mode: CrashMode::LoseAll | CrashMode::Random, .. } if site.habits.relaxes_old => {
                Takes::OneCopy
            }
            Self::Harm { .. } => Takes::OneCopy,
            _ => Takes::Nothing,
        }
    }

    /// Returns the computers that the fault affects. The one of the clients follows the others.
    pub(super) fn affects(&self, computers: usize) -> Vec<usize> {
        match self {
            Self::CrashOfAll { .. } | Self::CutOff { .. } => (0..computers).collect(),
            Self::Crash { computer, .. }
            | Self::PowerFails { computer, .. }
            | Self::Stop { computer }
            | Self::Pause { computer }
            | Self::Starve { computer, .. }
            | Self::Space { computer, .. }
            | Self::Errors { computer, .. }
            | Self::Harm { computer, .. } => vec![*computer],
            Self::Cut { from, to, .. } => vec![*from, *to],
            Self::Reset { one, other, .. } | Self::Slow { one, other, .. } => vec![*one, *other],
            Self::HearLate { .. } | Self::Move { .. } | Self::Clock { .. } => Vec::new(),
        }
    }

    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Crash { mode: CrashMode::KeepAll, .. } => "a process was killed",
            Self::Crash { .. } | Self::PowerFails { .. } => "a computer lost power",
            Self::CrashOfAll { .. } => "all computers lost power",
            Self::Stop { .. } => "a node was stopped",
            Self::Cut { is_both: true, .. } => "two computers were cut off from each other",
            Self::Cut { .. } => "a computer could not hear another one",
            Self::CutOff { .. } => "a leader was cut off right after its election",
            Self::Reset { .. } => "a connection was reset",
            Self::Slow { .. } => "a link was slow",
            Self::HearLate { .. } => "a node heard late that a right was taken",
            Self::Move { .. } => "a coordinator moved while one of its links was slow",
            Self::Pause { .. } => "a computer was paused",
            Self::Starve { .. } => "tasks of a node were starved",
            Self::Clock { .. } => "a clock was wrong",
            Self::Space { .. } => "a disk was nearly full",
            Self::Errors { .. } => "disk operations failed",
            Self::Harm { harm: Harm::DiskLost, .. } => "a disk was lost",
            Self::Harm { harm: Harm::BitRot, .. } => "bits rotted",
            Self::Harm { harm: Harm::Misdirected(_), .. } => "a write was misdirected",
        }
    }
}

fn errors(rng: &mut Rng) -> Rule {
    let kinds =
        [OpKind::Write, OpKind::Write, OpKind::SyncData, OpKind::Read, OpKind::Rename, OpKind::SetLen];
    let kind = Some(kinds[usize::try_from(rng.below(kinds.len() as u64)).expect("a small number")]);
    let effect = if rng.percent(50) { Effect::Eio } else { Effect::ShortWriteEio };
    Rule { kind, path_ends: String::new(), after: rng.below(20), times: 1 + rng.below(3), effect }
}

/// A rule that makes one write go to another place in its file.
fn misdirected(rng: &mut Rng) -> Rule {
    let ends = [".log", ".log", ".index", "entries"];
    let path_ends = ends[usize::try_from(rng.below(ends.len() as u64)).expect("a small number")].to_owned();
    let (kind, effect) = (Some(OpKind::Write), Effect::Misdirected);
    Rule { kind, path_ends, after: rng.below(20), times: 1, effect }
}
