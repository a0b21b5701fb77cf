//! What goes wrong, and when: a schedule that follows from the seed alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::site::Site;
use crate::disk::{CrashMode, Effect, OpKind, Rule};
use crate::mask::Mask;
use crate::rng::Rng;

/// Most time between two faults.
const BETWEEN_MS: (u64, u64) = (1, 800);

/// How long a fault lasts.
const LASTS_MS: (u64, u64) = (10, 3_000);

/// A disk that is nearly full has so many bytes left, at most.
const LEFT_BYTES: u64 = 20_000;

/// Hours by which a clock is wrong, either way: producers are forgotten after a day.
const HOURS: u64 = 11;

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Crash {
        computer: usize,
        mode: CrashMode,
    },
    Cut {
        from: usize,
        to: usize,
        is_both: bool,
    },
    Reset {
        one: usize,
        other: usize,
        choice: u64,
    },
    Pause {
        computer: usize,
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
}

#[derive(Clone, Debug)]
struct Fault {
    at: Duration,
    what: What,
    /// What it takes away comes back after so long.
    lasts: Duration,
}

/// What comes back, and when.
enum Mend {
    Cut(u8, u8),
    Boot(usize),
    Space(usize),
    /// Its disk is fine again, and somebody has started its node again.
    Restart(usize),
}

/// The schedule of a run, and how far it has come.
pub(super) struct Faults {
    left: Vec<(usize, Fault)>,
    mends: Vec<(Duration, Mend)>,
    /// Computers that are off.
    off: BTreeSet<usize>,
    told: Vec<(usize, String)>,
    counts: BTreeMap<&'static str, u64>,
}

impl Faults {
    /// For so many computers, from `begin` to `end`; without those that `mask` leaves out.
    pub(super) fn new(mut rng: Rng, computers: usize, begin: Duration, end: Duration, mask: &Mask) -> Self {
        let (mut left, mut at) = (Vec::new(), begin);
        loop {
            at += Duration::from_millis(rng.between(BETWEEN_MS.0, BETWEEN_MS.1));
            if at >= end {
                break;
            }
            let what = What::any(&mut rng, computers);
            let lasts = Duration::from_millis(rng.between(LASTS_MS.0, LASTS_MS.1));
            left.push(Fault { at, what, lasts });
        }
        let numbered = left.into_iter().enumerate().filter(|(number, _)| !mask.leaves_out(*number));
        // The next one is the last of the list.
        let mut left: Vec<_> = numbered.collect();
        left.reverse();
        Self { left, mends: Vec::new(), off: BTreeSet::new(), told: Vec::new(), counts: BTreeMap::new() }
    }

    /// What went wrong so far, with its number.
    pub(super) fn told(&self) -> Vec<(usize, String)> {
        self.told.clone()
    }

    /// How often what went wrong.
    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.clone()
    }

    /// Mends what is due, and strikes with what is.
    pub(super) fn strike(&mut self, site: &mut Site) {
        let now = site.universe.now();
        self.mend(site, now);
        while self.left.last().is_some_and(|(_, fault)| fault.at <= now) {
            let Some((number, fault)) = self.left.pop() else { return };
            *self.counts.entry(fault.what.label()).or_default() += 1;
            self.told.push((number, format!("{now:.3?}: {:?} for {:?}", fault.what, fault.lasts)));
            self.apply(site, &fault, now + fault.lasts);
        }
    }

    fn apply(&mut self, site: &mut Site, fault: &Fault, until: Duration) {
        match fault.what {
            What::Crash { computer, mode } => {
                site.computers[computer].crash(mode);
                self.off.insert(computer);
                self.mends.retain(|(_, mend)| !matches!(mend, Mend::Boot(other) if *other == computer));
                self.mends.push((until, Mend::Boot(computer)));
            }
            What::Cut { from, to, is_both } => {
                let (from, to) = (site.number(from), site.number(to));
                let both = [(from, to), (to, from)];
                for (from, to) in both.into_iter().take(if is_both { 2 } else { 1 }) {
                    site.network.cut(from, to, true);
                    self.mends.push((until, Mend::Cut(from, to)));
                }
            }
            What::Reset { one, other, choice } => {
                site.network.reset(site.number(one), site.number(other), choice);
            }
            What::Pause { computer } => site.computers[computer].machine().pause(fault.lasts),
            What::Clock { computer, hours } => {
                site.computers[computer].machine().set_clock_error(hours * 3_600_000);
            }
            What::Space { computer, left } => {
                let disk = site.computers[computer].disk();
                disk.set_space(Some(disk.used_bytes() + left));
                self.mends.push((until, Mend::Space(computer)));
            }
            What::Errors { computer, ref rule } => {
                site.computers[computer].disk().add_rule(rule.clone());
                self.mends.push((until, Mend::Restart(computer)));
            }
        }
    }

    fn mend(&mut self, site: &mut Site, now: Duration) {
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.mends).into_iter().partition(|(at, _)| *at <= now);
        self.mends = later;
        for (_, mend) in due {
            match mend {
                Mend::Cut(from, to) => site.network.cut(from, to, false),
                Mend::Boot(computer) => {
                    self.off.remove(&computer);
                    site.boot(computer);
                }
                Mend::Space(computer) => site.computers[computer].disk().set_space(None),
                // One that is off starts by itself.
                Mend::Restart(computer) if self.off.contains(&computer) => {
                    site.computers[computer].disk().clear_rules();
                }
                Mend::Restart(computer) => {
                    site.computers[computer].crash(CrashMode::KeepAll);
                    site.boot(computer);
                }
            }
        }
    }

    /// Mends all.
    pub(super) fn end(&mut self, site: &mut Site) {
        self.left.clear();
        self.mend(site, Duration::MAX);
        // A disk that was full when its computer crashed is so still; and a batch from the future is refused.
        for computer in &site.computers {
            computer.disk().set_space(None);
            computer.machine().set_clock_error(0);
        }
    }
}

impl What {
    fn any(rng: &mut Rng, computers: usize) -> Self {
        let mut one = || usize::try_from(rng.below(computers as u64)).expect("there are few");
        let (computer, other) = (one(), one());
        // The computer of the clients comes behind the others.
        let beside = usize::try_from(rng.below(computers as u64 + 1)).expect("there are few");
        match rng.below(100) {
            0..15 => Self::Crash { computer, mode: CrashMode::Random },
            15..20 => Self::Crash { computer, mode: CrashMode::LoseAll },
            20..30 => Self::Crash { computer, mode: CrashMode::KeepAll },
            30..40 => Self::Cut { from: computer, to: other, is_both: false },
            40..45 => Self::Cut { from: computer, to: beside, is_both: false },
            45..50 => Self::Cut { from: beside, to: computer, is_both: false },
            50..60 => Self::Cut { from: computer, to: beside, is_both: true },
            60..75 => Self::Reset { one: computer, other: beside, choice: rng.next_u64() },
            75..88 => Self::Pause { computer },
            88..92 => {
                let hours = i64::try_from(rng.below(2 * HOURS + 1)).expect("a few");
                Self::Clock { computer, hours: hours - HOURS as i64 }
            }
            92..96 => Self::Space { computer, left: rng.below(LEFT_BYTES) },
            _ => Self::Errors { computer, rule: errors(rng) },
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Crash { mode: CrashMode::KeepAll, .. } => "a process was killed",
            Self::Crash { .. } => "a computer lost its power",
            Self::Cut { is_both: true, .. } => "two computers were cut off from each other",
            Self::Cut { .. } => "a computer did not hear of another one",
            Self::Reset { .. } => "a connection was reset",
            Self::Pause { .. } => "a computer stood still",
            Self::Clock { .. } => "a clock was wrong",
            Self::Space { .. } => "a disk was nearly full",
            Self::Errors { .. } => "operations of a disk failed",
        }
    }
}

fn errors(rng: &mut Rng) -> Rule {
    let kinds =
        [OpKind::Write, OpKind::Write, OpKind::SyncData, OpKind::Read, OpKind::Rename, OpKind::SetLen];
    let kind = Some(kinds[usize::try_from(rng.below(kinds.len() as u64)).expect("there are few")]);
    let effect = if rng.percent(50) { Effect::Eio } else { Effect::ShortWriteEio };
    Rule { kind, path_ends: String::new(), after: rng.below(20), times: 1 + rng.below(3), effect }
}
