//! The schedule of faults, which follows from the seed alone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tailrace_log::Disk;
use tracing::warn;

use super::aim::Aim;
use super::fault::{Fault, Harm, Takes, What};
use super::judge;
use super::operators::Operators;
use super::site::{DATA_FOLDER, Site};
use crate::disk::{CrashMode, Rule, SimDisk};
use crate::mask::{AIMED_FROM, Mask};
use crate::rng::Rng;

/// Shortest and longest time between two faults.
const BETWEEN_MS: (u64, u64) = (1, 800);

/// Shortest and longest duration of a fault.
const LASTS_MS: (u64, u64) = (10, 3_000);

/// A node whose copy was harmed may be busy with it for so long.
const REPAIR: Duration = Duration::from_secs(5);

/// At most this many copies are harmed after the other faults have ended.
const HARMS_AT_THE_END: usize = 2;

/// What is mended when a fault ends.
#[derive(Debug)]
enum Mend {
    Cut(u8, u8),
    Slow(u8, u8),
    Boot(usize),
    Space(usize),
    /// The disk works again, and someone restarts the node.
    Restart(usize),
    /// The disk has stopped accepting writes, and now the power fails.
    Power(usize),
}

/// The schedule of a run, and its progress.
pub(super) struct Faults {
    left: Vec<(usize, Fault)>,
    mends: Vec<(Duration, Mend)>,
    /// Computers that are switched off.
    off: BTreeSet<usize>,
    /// Harm that waits until everything is whole. With two copies of three gone, nothing is promised.
    postponed: Vec<(usize, Fault)>,
    operators: Operators,
    aim: Aim,
    /// Number of aimed faults so far.
    aimed: usize,
    mask: Mask,
    rng: Rng,
    told: Vec<(usize, String)>,
    counts: BTreeMap<&'static str, u64>,
}

impl Faults {
    /// Draws the faults from `begin` to `end`, without those that `mask` leaves out.
    pub(super) fn new(mut rng: Rng, site: &Site, begin: Duration, end: Duration, mask: &Mask) -> Self {
        let (mut left, mut at, computers) = (Vec::new(), begin, site.computers.len());
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
        // Reversed, so that the next one is the last of the list.
        let mut left: Vec<_> = numbered.collect();
        left.reverse();
        Self {
            left,
            mends: Vec::new(),
            off: BTreeSet::new(),
            postponed: Vec::new(),
            operators: Operators::default(),
            aim: Aim::draw(rng.fork(), site),
            aimed: 0,
            mask: mask.clone(),
            rng,
            told: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Returns the faults so far, with their numbers.
    pub(super) fn told(&self) -> Vec<(usize, String)> {
        self.told.clone()
    }

    /// Returns how often each fault happened.
    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.clone()
    }

    /// Mends what is due, and injects the faults that are due.
    pub(super) fn strike(&mut self, site: &mut Site) {
        let now = site.universe.now();
        self.mend(site, now);
        self.aim(site);
        while self.left.last().is_some_and(|(_, fault)| fault.at <= now) {
            let Some((number, fault)) = self.left.pop() else { return };
            match fault.what.takes(site) {
                Takes::Nothing => self.begin(site, number, &fault, now),
                // A cluster of one node has no other copy.
                Takes::OneCopy if site.computers.len() > 1 => self.postponed.push((number, fault)),
                Takes::OneCopy | Takes::All => {}
            }
        }
        if !self.postponed.is_empty() && self.is_all_whole(site) {
            self.harm(site);
        }
    }

    /// Adds the faults that depend on what has happened to those of the schedule.
    fn aim(&mut self, site: &Site) {
        for fault in self.aim.take(site) {
            let number = AIMED_FROM + self.aimed;
            self.aimed += 1;
            if !self.mask.leaves_out(number) {
                // The next one is the last of the list.
                let place = self.left.partition_point(|(_, other)| other.at > fault.at);
                self.left.insert(place, (number, fault));
            }
        }
    }

    /// Harms one copy. Returns false if there is no harm left to do. All copies must be whole.
    pub(super) fn harm(&mut self, site: &mut Site) -> bool {
        if self.postponed.is_empty() {
            return false;
        }
        let (number, fault) = self.postponed.remove(0);
        let now = site.universe.now();
        self.begin(site, number, &fault, now);
        true
    }

    /// Mends what is due. Returns true once everything is mended, and the nodes report that all copies are
    /// whole.
    pub(super) fn are_mended(&mut self, site: &mut Site) -> bool {
        let now = site.universe.now();
        self.mend(site, now);
        self.mends.is_empty() && self.is_all_whole(site)
    }

    /// Asks what the nodes report. If a power failure destroys what only some copies have, no copy may lag at
    /// all. For a short lag, `/clusterz` still reports a copy as whole, as Kafka does.
    fn is_all_whole(&mut self, site: &Site) -> bool {
        self.operators.see_all_whole(site)
            && (!site.habits.relaxes_old || judge::are_old_copies_complete(&site.computers))
    }

    fn begin(&mut self, site: &mut Site, number: usize, fault: &Fault, now: Duration) {
        *self.counts.entry(fault.what.label()).or_default() += 1;
        warn!(number, what = ?fault.what, lasts = ?fault.lasts, "a fault");
        self.told.push((number, format!("{now:.3?}: {:?} for {:?}", fault.what, fault.lasts)));
        for computer in fault.what.affects(site.computers.len()) {
            // Copies that are harmed are repaired afterwards.
            let repair = if matches!(fault.what, What::Harm { .. }) { REPAIR } else { Duration::ZERO };
            site.disturb(computer, now + fault.lasts + repair);
        }
        self.apply(site, fault, now + fault.lasts);
    }

    fn apply(&mut self, site: &mut Site, fault: &Fault, until: Duration) {
        match fault.what {
            What::Crash { computer, mode } => self.crash(site, computer, mode, until),
            What::CrashOfAll { mode } => {
                (0..site.computers.len()).for_each(|computer| self.crash(site, computer, mode, until));
            }
            What::PowerFails { computer, after } => {
                let disk = site.computers[computer].disk();
                Rule::fading(after).for_each(|rule| disk.add_rule(rule));
                self.mends.push((until, Mend::Power(computer)));
            }
            What::Stop { computer } => {
                site.computers[computer].shut_down();
                self.mends.push((until, Mend::Restart(computer)));
            }
            What::Cut { from, to, is_both } => {
                let (from, to) = (site.number(from), site.number(to));
                let both = [(from, to), (to, from)];
                for (from, to) in both.into_iter().take(if is_both { 2 } else { 1 }) {
                    site.network.cut(from, to, true);
                    self.mends.push((until, Mend::Cut(from, to)));
                }
            }
            What::CutOff { computer } => {
                let own = site.number(computer);
                for other in (0..site.computers.len()).filter(|other| *other != computer) {
                    let other = site.number(other);
                    for (from, to) in [(own, other), (other, own)] {
                        site.network.cut(from, to, true);
                        self.mends.push((until, Mend::Cut(from, to)));
                    }
                }
            }
            What::Reset { one, other, choice } => {
                site.network.reset(site.number(one), site.number(other), choice);
            }
            What::Slow { one, other, ms } | What::HearLate { one, other, ms } => {
                let (one, other) = (site.number(one), site.number(other));
                for (from, to) in [(one, other), (other, one)] {
                    site.network.slow_down(from, to, Duration::from_millis(ms));
                    self.mends.push((until, Mend::Slow(from, to)));
                }
            }
            What::Move { from, to } => site.move_coordinator(from, to, fault.lasts),
            What::Pause { computer } => site.computers[computer].machine().pause(fault.lasts),
            What::Starve { computer, choice } => {
                site.computers[computer].machine().starve(fault.lasts, choice);
            }
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
            What::Harm { computer, harm: Harm::DiskLost } => {
                self.crash(site, computer, CrashMode::LoseAll, until);
                site.computers[computer].lose_disk(self.rng.next_u64());
            }
            What::Harm { computer, ref harm } => {
                let disk = site.computers[computer].disk();
                match harm {
                    Harm::Misdirected(rule) => {
                        disk.add_rule(rule.clone());
                        self.mends.push((until, Mend::Restart(computer)));
                    }
                    _ => rot(disk, &mut self.rng),
                }
                self.operators.suspect(computer);
            }
        }
    }

    fn crash(&mut self, site: &mut Site, computer: usize, mode: CrashMode, until: Duration) {
        site.computers[computer].crash(mode);
        self.off.insert(computer);
        self.mends.retain(|(_, mend)| !matches!(mend, Mend::Boot(other) if *other == computer));
        self.mends.push((until, Mend::Boot(computer)));
    }

    fn mend(&mut self, site: &mut Site, now: Duration) {
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.mends).into_iter().partition(|(at, _)| *at <= now);
        self.mends = later;
        for (_, mend) in due {
            warn!(?mend, "mended");
            match mend {
                Mend::Cut(from, to) => site.network.cut(from, to, false),
                Mend::Slow(from, to) => site.network.slow_down(from, to, Duration::ZERO),
                Mend::Boot(computer) => {
                    site.disturb(computer, now.min(site.universe.now()));
                    self.off.remove(&computer);
                    site.boot(computer);
                }
                Mend::Space(computer) => site.computers[computer].disk().set_space(None),
                // The node of a computer that is off is started separately.
                Mend::Restart(computer) | Mend::Power(computer) if self.off.contains(&computer) => {
                    site.computers[computer].disk().clear_rules();
                }
                Mend::Power(computer) => {
                    site.computers[computer].crash(CrashMode::Random);
                    site.boot(computer);
                }
                Mend::Restart(computer) => {
                    site.computers[computer].crash(CrashMode::KeepAll);
                    site.boot(computer);
                }
            }
        }
    }

    /// Mends everything except harm.
    pub(super) fn end(&mut self, site: &mut Site) {
        self.left.clear();
        self.postponed.truncate(HARMS_AT_THE_END);
        self.mend(site, Duration::MAX);
        // A disk that was full when its computer crashed is still full, and a batch from the future would be
        // refused.
        for computer in &site.computers {
            computer.disk().set_space(None);
            computer.machine().set_clock_error(0);
        }
    }
}

/// Changes a few bits of some file of a partition.
fn rot(disk: &SimDisk, rng: &mut Rng) {
    let files = partition_files(disk);
    if files.is_empty() {
        return;
    }
    let path = &files[usize::try_from(rng.below(files.len() as u64)).expect("a small number")];
    disk.damage(path, |bytes| {
        for _ in 0..rng.between(1, 3) {
            let at = usize::try_from(rng.below(bytes.len() as u64)).expect("a position in the file");
            bytes[at] ^= 1 << rng.below(8);
        }
    });
}

/// Returns the non-empty files of all partitions.
fn partition_files(disk: &SimDisk) -> Vec<PathBuf> {
    let data = Path::new(DATA_FOLDER);
    let entries = |folder: &Path| disk.read_dir(folder).unwrap_or_default();
    let mut files = Vec::new();
    for folder in entries(data).into_iter().filter(|entry| entry.is_dir) {
        let folder = data.join(&folder.name);
        let in_folder = entries(&folder).into_iter().filter(|entry| !entry.is_dir);
        files.extend(in_folder.map(|entry| folder.join(&entry.name)));
    }
    files.retain(|path| Disk::len(disk, path).is_ok_and(|bytes| bytes > 0));
    files
}
