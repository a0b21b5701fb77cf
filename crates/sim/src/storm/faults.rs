//! What goes wrong, and when.

use std::time::Duration;

use super::Storm;
use crate::disk::CrashMode;
use crate::rng::Rng;

/// Mean time between two faults.
const BETWEEN_MS: u64 = 400;

/// What is mended later, and when.
enum Mend {
    /// What goes from one computer to another goes on.
    Cut(u8, u8),
    /// The node of a computer is started.
    Boot(usize),
    /// The disk has room again.
    Space(usize),
}

pub(super) struct Faults {
    rng: Rng,
    next: Duration,
    mends: Vec<(Duration, Mend)>,
    told: Vec<String>,
}

impl Faults {
    pub(super) fn new(rng: Rng) -> Self {
        Self { rng, next: Duration::ZERO, mends: Vec::new(), told: Vec::new() }
    }

    /// All that went wrong so far.
    pub(super) fn told(&self) -> Vec<String> {
        self.told.clone()
    }

    /// Mends what is due, and strikes if the time has come.
    pub(super) fn strike(&mut self, storm: &mut Storm) {
        let now = storm.universe.now();
        self.mend(storm, now);
        if now < self.next {
            return;
        }
        self.next = now + Duration::from_millis(self.rng.between(1, 2 * BETWEEN_MS));
        let count = storm.computers.len() as u64;
        let index = usize::try_from(self.rng.below(count)).expect("there are few");
        let number = u8::try_from(index + 1).expect("there are few");
        let other = u8::try_from(self.rng.below(count) + 1).expect("there are few");
        let lasts = Duration::from_millis(self.rng.between(10, 3_000));
        let what = match self.rng.below(100) {
            0..15 => self.crash(storm, index, CrashMode::Random),
            15..20 => self.crash(storm, index, CrashMode::LoseAll),
            20..30 => self.crash(storm, index, CrashMode::KeepAll),
            30..50 => {
                storm.network.cut(number, other, true);
                self.mends.push((now + lasts, Mend::Cut(number, other)));
                format!("cut {number} -> {other} for {lasts:?}")
            }
            50..60 => {
                for (from, to) in [(number, other), (other, number)] {
                    storm.network.cut(from, to, true);
                    self.mends.push((now + lasts, Mend::Cut(from, to)));
                }
                format!("cut {number} <-> {other} for {lasts:?}")
            }
            60..75 => {
                storm.network.reset(number, other, self.rng.next_u64());
                format!("reset {number} - {other}")
            }
            75..90 => {
                storm.computers[index].machine().pause(lasts);
                format!("pause {number} for {lasts:?}")
            }
            90..95 => {
                let hours = i64::try_from(self.rng.below(31)).unwrap_or(0) - 15;
                storm.computers[index].machine().set_clock_error(hours * 3_600_000);
                format!("the clock of {number} is wrong by {hours} h")
            }
            _ => {
                let disk = storm.computers[index].disk();
                disk.set_space(Some(disk.used_bytes() + self.rng.below(20_000)));
                self.mends.push((now + lasts, Mend::Space(index)));
                format!("the disk of {number} is nearly full for {lasts:?}")
            }
        };
        self.told.push(format!("{now:?}: {what}"));
    }

    fn crash(&mut self, storm: &mut Storm, index: usize, mode: CrashMode) -> String {
        storm.computers[index].crash(mode);
        let down = Duration::from_millis(self.rng.between(1, 3_000));
        self.mends.retain(|(_, mend)| !matches!(mend, Mend::Boot(other) if *other == index));
        self.mends.push((storm.universe.now() + down, Mend::Boot(index)));
        format!("crash {} ({mode:?}), down for {down:?}", index + 1)
    }

    fn mend(&mut self, storm: &mut Storm, now: Duration) {
        let (due, later) = std::mem::take(&mut self.mends).into_iter().partition(|(at, _)| *at <= now);
        self.mends = later;
        let due: Vec<(Duration, Mend)> = due;
        for (_, mend) in due {
            match mend {
                Mend::Cut(from, to) => storm.network.cut(from, to, false),
                Mend::Boot(index) => storm.boot(index),
                Mend::Space(index) => storm.computers[index].disk().set_space(None),
            }
        }
    }

    /// Mends all.
    pub(super) fn end(&mut self, storm: &mut Storm) {
        self.mend(storm, Duration::MAX);
        for computer in &storm.computers {
            computer.disk().set_space(None);
        }
    }
}
