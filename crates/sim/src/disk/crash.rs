//! What is left on a disk after a power failure.

use super::fault::Faults;
use super::file::{FileOp, Inode};
use super::folder::{Folder, apply};
use super::state::{CrashMode, State, Stats};
use crate::Rng;

const PAGE_BYTES: usize = 4096;
const SECTOR_BYTES: usize = 512;

pub(super) fn crash(state: &mut State, mode: CrashMode) -> State {
    let mut rng = state.rng.fork();
    if mode == CrashMode::KeepAll {
        return killed(state, rng);
    }
    let folders = state.folders.iter().map(|folder| crash_folder(folder, mode, &mut rng)).collect();
    let inodes = state.inodes.iter().map(|inode| crash_file(inode, mode, &mut rng)).collect();
    State {
        rng,
        inodes,
        folders,
        faults: Faults::default(),
        cold_percent: state.cold_percent,
        stats: Stats::default(),
        recording: None,
        observer: None,
    }
}

/// The state after a process was killed. Unsynced writes are still there, and a later power failure may still
/// take them.
fn killed(state: &State, rng: Rng) -> State {
    State {
        rng,
        inodes: state.inodes.clone(),
        folders: state.folders.clone(),
        faults: Faults::default(),
        cold_percent: state.cold_percent,
        stats: Stats::default(),
        recording: None,
        observer: None,
    }
}

/// Draws what a random crash does to one file or folder. Quite often it keeps everything or nothing.
fn refine(mode: CrashMode, rng: &mut Rng) -> CrashMode {
    match (mode, rng.below(4)) {
        (CrashMode::Random, 0) => CrashMode::LoseAll,
        (CrashMode::Random, 1) => CrashMode::KeepAll,
        _ => mode,
    }
}

fn crash_folder(folder: &Folder, mode: CrashMode, rng: &mut Rng) -> Folder {
    let names = match refine(mode, rng) {
        CrashMode::KeepAll => folder.current.clone(),
        CrashMode::LoseAll => folder.durable.clone(),
        CrashMode::Random => {
            let mut names = folder.durable.clone();
            folder.pending.iter().filter(|_| rng.percent(50)).for_each(|op| apply(&mut names, op));
            names
        }
    };
    Folder { current: names.clone(), durable: names, pending: Vec::new() }
}

fn crash_file(inode: &Inode, mode: CrashMode, rng: &mut Rng) -> Inode {
    let content = match refine(mode, rng) {
        CrashMode::KeepAll => inode.current.clone(),
        CrashMode::LoseAll => inode.durable.clone(),
        CrashMode::Random => some_of(inode, rng),
    };
    Inode { reserved: content.len() as u64, current: content.clone(), durable: content, pending: Vec::new() }
}

/// Each page (or each sector) has its content from some moment since the last sync, and the length comes from
/// another moment.
fn some_of(inode: &Inode, rng: &mut Rng) -> Vec<u8> {
    let changes = inode.pending.len();
    let mut content = inode.durable.clone();
    let len = inode.len_after(moment(changes, rng));
    content.resize(len, 0);
    let unit = if rng.percent(40) { SECTOR_BYTES } else { PAGE_BYTES };
    for number in 0..len.div_ceil(unit) {
        let (start, end) = (number * unit, ((number + 1) * unit).min(len));
        if touches(&inode.pending, start, end) {
            content[start..end].copy_from_slice(&inode.range_after(moment(changes, rng), start, end));
        }
    }
    content
}

/// Draws how many of the changes have reached the disk: often all, sometimes none.
fn moment(changes: usize, rng: &mut Rng) -> usize {
    match rng.below(10) {
        0 => 0,
        1..=5 => changes,
        _ => rng.below(changes as u64 + 1) as usize,
    }
}

fn touches(pending: &[FileOp], start: usize, end: usize) -> bool {
    pending.iter().any(|op| match op {
        FileOp::Write { position, data } => *position < end && position + data.len() > start,
        FileOp::SetLen(bytes) => *bytes < end,
    })
}
