//! Rules by which operations fail.

use std::path::Path;

pub(super) const EBADF: i32 = 9;
pub(super) const ENOSPC: i32 = 28;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Opening or creating a file.
    Open,
    /// Reading from a file.
    Read,
    /// Writing to a file.
    Write,
    /// fdatasync of a file.
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

/// What a rule does to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Fails with EIO. Nothing is done.
    Eio,
    /// Fails with ENOSPC. Nothing is done.
    Enospc,
    /// Carries out part of a write, then fails with EIO.
    ShortWriteEio,
    /// Carries out part of a write, then fails with ENOSPC.
    ShortWriteEnospc,
    /// A sync reports success and does nothing. Tests must catch this.
    Lie,
    /// A write reports success and goes to another place in its file.
    Misdirected,
}

/// A rule that makes some operations fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The kind of operation. `None` for any.
    pub kind: Option<OpKind>,
    /// The ending of the path. Empty for all paths.
    pub path_ends: String,
    /// How many matching operations succeed before the first one fails.
    pub after: u64,
    /// How many operations fail.
    pub times: u64,
    /// How they fail.
    pub effect: Effect,
}

impl Rule {
    /// From some operation on, nothing reaches the disk: `after` writes succeed, and a quarter as many
    /// operations of each other kind.
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
