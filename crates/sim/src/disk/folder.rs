//! Folders, and the changes to their names that are not durable yet.

use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    File(usize),
    Folder(usize),
}

/// A change that is not durable yet. A rename is a single change: after a crash it either happened or did
/// not.
#[derive(Clone, Debug)]
pub(super) enum FolderOp {
    Set(String, Node),
    Remove(String),
    Rename(String, String, Node),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Folder {
    pub(super) current: BTreeMap<String, Node>,
    pub(super) durable: BTreeMap<String, Node>,
    pub(super) pending: Vec<FolderOp>,
}

impl Folder {
    pub(super) fn change(&mut self, op: FolderOp) {
        apply(&mut self.current, &op);
        self.pending.push(op);
    }

    pub(super) fn sync(&mut self) {
        for op in self.pending.drain(..) {
            apply(&mut self.durable, &op);
        }
    }
}

pub(super) fn apply(names: &mut BTreeMap<String, Node>, op: &FolderOp) {
    match op {
        FolderOp::Set(name, node) => drop(names.insert(name.clone(), *node)),
        FolderOp::Remove(name) => drop(names.remove(name)),
        FolderOp::Rename(from, to, node) => {
            names.remove(from);
            names.insert(to.clone(), *node);
        }
    }
}
