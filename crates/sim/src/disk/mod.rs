//! A disk in memory with the semantics that POSIX promises, and nothing more.
//!
//! Written data is durable after a sync of its file, a name after a sync of its folder. A crash keeps an
//! arbitrary part of the rest: page by page (or sector by sector), name by name, and the length independently
//! of the content.

mod crash;
mod fault;
mod file;
mod folder;
mod names;
mod state;

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tailrace_log::{DirEntry, Disk, DiskFile, OpenMode};

use crate::Rng;
pub use fault::{Effect, OpKind, Rule};
use fault::{Faults, Verdict};
use file::Inode;
use folder::{Folder, Node};
use state::State;
pub use state::{CrashMode, Op, Stats};

/// The free space of a disk without a bound.
const PLENTY_BYTES: u64 = 1 << 50;

/// A disk in memory. Clones refer to the same disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

/// An open file of a [`SimDisk`].
pub struct SimFile {
    disk: SimDisk,
    inode: usize,
    path: PathBuf,
    writable: bool,
}

impl SimDisk {
    /// Returns an empty disk whose decisions follow from `seed`.
    pub fn new(seed: u64) -> Self {
        let state = State {
            rng: Rng::new(seed),
            inodes: Vec::new(),
            folders: vec![Folder::default()],
            faults: Faults::default(),
            cold_percent: 0,
            stats: Stats::default(),
            recording: None,
            observer: None,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Returns the disk as it is after a power failure at this moment. Files that are open on this disk do
    /// not reach the new one. Rules and recordings end.
    #[must_use]
    pub fn crash(&self, mode: CrashMode) -> Self {
        let mut state = self.state.lock();
        let survivor = crash::crash(&mut state, mode);
        Self { state: Arc::new(Mutex::new(survivor)) }
    }

    /// Adds a rule by which operations fail.
    pub fn add_rule(&self, rule: Rule) {
        self.state.lock().faults.rules.push(rule);
    }

    /// Ends all rules.
    pub fn clear_rules(&self) {
        self.state.lock().faults.rules.clear();
    }

    /// Reports whether some rule may still have an effect.
    pub(crate) fn awaits_faults(&self) -> bool {
        self.state.lock().faults.rules.iter().any(|rule| rule.times > 0)
    }

    /// Limits the bytes that the disk holds. `None` for no bound. File lengths and reserved blocks count.
    pub fn set_space(&self, bytes: Option<u64>) {
        self.state.lock().faults.space_bytes = bytes;
    }

    /// Makes `percent` of the non-blocking reads find data that is not in memory. Some of them report that
    /// they would block. Others return less data than there is, or none, as Linux 5.9 and 5.10 do.
    pub fn set_cold(&self, percent: u64) {
        self.state.lock().cold_percent = percent;
    }

    /// Returns the number of bytes in use.
    pub fn used_bytes(&self) -> u64 {
        self.state.lock().used_bytes()
    }

    /// Returns the counts since the disk was created.
    pub fn stats(&self) -> Stats {
        self.state.lock().stats
    }

    /// Starts recording operations.
    pub fn record(&self) {
        self.state.lock().recording = Some(Vec::new());
    }

    /// Returns the operations recorded since [`SimDisk::record`] or the last call.
    pub fn take_recording(&self) -> Vec<Op> {
        self.state.lock().recording.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Calls `observer` after every operation, before its caller learns the result.
    pub fn observe(&self, observer: impl Fn(&Op) + Send + Sync + 'static) {
        self.state.lock().observer = Some(Arc::new(observer));
    }

    /// Returns the current content of a file.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state.lock();
        let inode = state.file(path).ok()?;
        Some(state.inodes[inode].current.clone())
    }

    /// Changes a file without anyone noticing, durably: bit rot.
    pub fn damage(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state.lock();
        if let Ok(inode) = state.file(path) {
            let inode = &mut state.inodes[inode];
            inode.sync();
            change(&mut inode.current);
            inode.durable = inode.current.clone();
        }
    }

    /// Consults the rules, carries out `act`, and records the operation.
    fn perform<T>(&self, op: Op, act: impl FnOnce(&mut State, Verdict) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state.lock();
        let verdict = state.faults.judge(op.kind, &op.path);
        let result = match verdict {
            Verdict::Fail(code) => Err(io::Error::from_raw_os_error(code)),
            verdict => act(&mut state, verdict),
        };
        let op = Op { ok: result.is_ok(), ..op };
        state.stats.count(&op);
        if let Some(recording) = &mut state.recording {
            recording.push(op.clone());
        }
        let observer = state.observer.clone();
        drop(state);
        if let Some(observer) = observer {
            observer(&op);
        }
        result
    }
}

impl Stats {
    fn count(&mut self, op: &Op) {
        match op.kind {
            OpKind::Open => self.opens += 1,
            OpKind::Read => {
                self.reads += 1;
                self.bytes_read += op.bytes;
            }
            OpKind::Write => {
                self.writes += 1;
                self.bytes_written += op.bytes;
            }
            OpKind::SyncData | OpKind::SyncAll | OpKind::SyncDir | OpKind::SyncFs => self.syncs += 1,
            _ => {}
        }
    }
}

fn op(kind: OpKind, path: &Path) -> Op {
    Op { kind, path: path.to_owned(), position: 0, bytes: 0, ok: true }
}

impl Disk for SimDisk {
    type File = SimFile;

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<SimFile> {
        let inode = self.perform(op(OpKind::Open, path), |state, _| match (state.file(path), mode) {
            (Ok(inode), OpenMode::Truncate) => {
                state.inodes[inode].set_len(0);
                Ok(inode)
            }
            (Ok(inode), _) => Ok(inode),
            (Err(error), OpenMode::Read | OpenMode::Write) => Err(error),
            (Err(_), OpenMode::Create | OpenMode::Truncate) => state.create_file(path),
        })?;
        Ok(SimFile { disk: self.clone(), inode, path: path.to_owned(), writable: mode != OpenMode::Read })
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        let state = self.state.lock();
        let inode = state.file(path)?;
        Ok(state.inodes[inode].current.len() as u64)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.state.lock().node(path).is_some())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.perform(op(OpKind::Rename, from), |state, _| state.rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.perform(op(OpKind::Remove, path), |state, _| {
            state.file(path)?;
            state.remove(path)
        })
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.perform(op(OpKind::CreateDir, path), |state, _| state.create_dir(path))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.perform(op(OpKind::Remove, path), |state, _| {
            state.folder(path)?;
            state.remove(path)
        })
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let state = self.state.lock();
        let folder = state.folder(path)?;
        let entries = state.folders[folder].current.iter();
        Ok(entries
            .map(|(name, node)| DirEntry { name: name.clone(), is_dir: matches!(node, Node::Folder(_)) })
            .collect())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.perform(op(OpKind::SyncDir, path), |state, verdict| {
            let folder = state.folder(path)?;
            if verdict != Verdict::Lie {
                state.folders[folder].sync();
            }
            Ok(())
        })
    }

    fn sync_fs(&self, path: &Path) -> io::Result<()> {
        self.perform(op(OpKind::SyncFs, path), |state, verdict| {
            if verdict != Verdict::Lie {
                state.inodes.iter_mut().for_each(Inode::sync);
                state.folders.iter_mut().for_each(Folder::sync);
            }
            Ok(())
        })
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        let state = self.state.lock();
        Ok(state.faults.space_bytes.map_or(PLENTY_BYTES, |space| space.saturating_sub(state.used_bytes())))
    }
}

impl SimFile {
    fn op(&self, kind: OpKind, position: u64, bytes: u64) -> Op {
        Op { position, bytes, ..op(kind, &self.path) }
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.writable { Ok(()) } else { Err(io::Error::from_raw_os_error(fault::EBADF)) }
    }

    fn sync(&self, kind: OpKind) -> io::Result<()> {
        self.disk.perform(self.op(kind, 0, 0), |state, verdict| {
            if verdict != Verdict::Lie {
                state.inodes[self.inode].sync();
            }
            Ok(())
        })
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.disk.perform(self.op(OpKind::Read, position, buf.len() as u64), |state, _| {
            let current = &state.inodes[self.inode].current;
            let from = usize::try_from(position).unwrap_or(usize::MAX).min(current.len());
            let bytes = buf.len().min(current.len() - from);
            buf[..bytes].copy_from_slice(&current[from..from + bytes]);
            Ok(bytes)
        })
    }

    fn read_at_hand(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let there = self.disk.state.lock().at_hand(buf.len())?;
        self.read_at(&mut buf[..there], position)
    }

    fn write_all_at(&self, bufs: &[IoSlice<'_>], position: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut data: Vec<u8> = Vec::with_capacity(bufs.iter().map(|b| b.len()).sum());
        bufs.iter().for_each(|buf| data.extend_from_slice(buf));
        self.disk.perform(self.op(OpKind::Write, position, data.len() as u64), |state, verdict| {
            let mut code = None;
            if let Verdict::ShortWrite(short) = verdict {
                let kept = state.rng.below(data.len() as u64 + 1) as usize;
                data.truncate(kept);
                code = Some(short);
            }
            let position = if verdict == Verdict::Misdirect {
                state.rng.below(state.inodes[self.inode].current.len() as u64 + 1)
            } else {
                position
            };
            let room = state.room_for(self.inode, position);
            if (data.len() as u64) > room {
                data.truncate(room as usize);
                code = Some(fault::ENOSPC);
            }
            state.inodes[self.inode].write(position, &data);
            code.map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(code)))
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync(OpKind::SyncData)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync(OpKind::SyncAll)
    }

    fn preallocate(&self, position: u64, bytes: u64) -> io::Result<()> {
        self.check_writable()?;
        self.disk.perform(self.op(OpKind::Preallocate, position, bytes), |state, _| {
            let room = state.room_for(self.inode, position);
            if bytes > room {
                return Err(io::Error::from_raw_os_error(fault::ENOSPC));
            }
            let inode = &mut state.inodes[self.inode];
            inode.reserved = inode.reserved.max(position + bytes);
            Ok(())
        })
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.check_writable()?;
        self.disk.perform(self.op(OpKind::SetLen, bytes, 0), |state, _| {
            state.inodes[self.inode].set_len(bytes);
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.state.lock().inodes[self.inode].current.len() as u64)
    }
}
