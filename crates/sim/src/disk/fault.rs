//! Rules by which operations fail.

use std::path::Path;

pub(super) const EBADF: i32 = 9;
pub(super) const ENOSPC: i32 = 28;

/// Kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Opening or creating a file.
    Open,
    /// Reading from a file.
    Read,
    /// Writing to a file.
    Write,
    /// fdatasync.
    SyncData,
    /// fsync of a file.
    SyncAll,
    /// fsync of a folder.
    SyncDir,
    /// Syncing a whole file system.
    SyncFs,
    /// Reserving blocks.
    Preallocate,
    /// Setting a length.
    SetLen,
    /// Renaming.
    Rename,
    /// Removing a file or folder.
    Remove,
    /// Creating a folder.
    CreateDir,
}

/// What happens to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// EIO, and nothing is done.
    Eio,
    /// ENOSPC, and nothing is done.
    Enospc,
    /// A write is carried out in part and then fails with EIO.
    ShortWriteEio,
    /// A write is carried out in part and then fails with ENOSPC.
    ShortWriteEnospc,
    /// A sync answers success and does nothing. What a test must catch.
    Lie,
    /// A write answers success and lands elsewhere in its file.
    Misdirected,
}

/// Makes some operations fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Which kind; `None` for any.
    pub kind: Option<OpKind>,
    /// Only paths that end so; empty for all.
    pub path_ends: String,
    /// Matching operations that pass before the first one fails.
    pub after: u64,
    /// How many fail.
    pub times: u64,
    /// How.
    pub effect: Effect,
}

impl Rule {
    /// From some operation on nothing gets onto the disk any more: so many writes pass, and a quarter as many of each other kind.
    pub(crate) fn fading(after: u64) -> impl Iterator<Item = Self> {
        let kinds = [
            OpKind::Write,
            OpKind::SyncData,
            OpKind::SyncAll,
            OpKind::SyncDir,
            OpKind::Rename,
            OpKind::SetLen,
            OpKind::Remove,
        ];
        kinds.into_iter().map(move |kind| {
            let after = if kind == OpKind::Write { after } else { after / 4 };
            let (kind, path_ends) = (Some(kind), String::new());
            Self { kind, path_ends, after, times: u64::MAX, effect: Effect::Eio }
        })
    }
}

#[derive(Default)]
pub(super) struct Faults {
    pub(super) rules: Vec<Rule>,
    pub(super) space_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    Fail(i32),
    ShortWrite(i32),
    Lie,
    Misdirect,
}

const EIO: i32 = 5;

impl Faults {
    pub(super) fn judge(&mut self, kind: OpKind, path: &Path) -> Verdict {
        let path = path.to_string_lossy();
        for rule in &mut self.rules {
            if rule.times == 0 || rule.kind.is_some_and(|k| k != kind) || !path.ends_with(&rule.path_ends) {
                continue;
            }
            if rule.after > 0 {
                rule.after -= 1;
                continue;
            }
            rule.times -= 1;
            return match (rule.effect, kind) {
                (Effect::Eio, _) => Verdict::Fail(EIO),
                (Effect::Enospc, _) => Verdict::Fail(ENOSPC),
                (Effect::ShortWriteEio, OpKind::Write) => Verdict::ShortWrite(EIO),
                (Effect::ShortWriteEnospc, OpKind::Write) => Verdict::ShortWrite(ENOSPC),
                (Effect::Misdirected, OpKind::Write) => Verdict::Misdirect,
                (Effect::Lie, OpKind::SyncData | OpKind::SyncAll | OpKind::SyncDir | OpKind::SyncFs) => {
                    Verdict::Lie
                }
                _ => Verdict::Pass,
            };
        }
        Verdict::Pass
    }
}
