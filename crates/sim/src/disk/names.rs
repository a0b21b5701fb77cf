//! Looks up files and folders by their names.

use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path};

use super::file::Inode;
use super::folder::{Folder, FolderOp, Node};
use super::state::State;

fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{}: no such file or folder", path.display()))
}

fn name_of(path: &Path) -> io::Result<String> {
    let name = path.file_name().and_then(OsStr::to_str);
    name.map(str::to_owned).ok_or_else(|| not_found(path))
}

impl State {
    pub(super) fn node(&self, path: &Path) -> Option<Node> {
        let mut node = Node::Folder(0);
        for component in path.components() {
            let Component::Normal(name) = component else { continue };
            let Node::Folder(folder) = node else { return None };
            node = *self.folders[folder].current.get(name.to_str()?)?;
        }
        Some(node)
    }

    pub(super) fn file(&self, path: &Path) -> io::Result<usize> {
        match self.node(path) {
            Some(Node::File(inode)) => Ok(inode),
            _ => Err(not_found(path)),
        }
    }

    pub(super) fn folder(&self, path: &Path) -> io::Result<usize> {
        match self.node(path) {
            Some(Node::Folder(folder)) => Ok(folder),
            _ => Err(not_found(path)),
        }
    }

    fn parent(&self, path: &Path) -> io::Result<usize> {
        self.folder(path.parent().unwrap_or(Path::new("")))
    }

    pub(super) fn create_file(&mut self, path: &Path) -> io::Result<usize> {
        let (parent, name) = (self.parent(path)?, name_of(path)?);
        self.inodes.push(Inode::default());
        let inode = self.inodes.len() - 1;
        self.folders[parent].change(FolderOp::Set(name, Node::File(inode)));
        Ok(inode)
    }

    pub(super) fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        if self.folder(path).is_ok() {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.create_dir(parent)?;
        }
        let (parent, name) = (self.parent(path)?, name_of(path)?);
        self.folders.push(Folder::default());
        let folder = Node::Folder(self.folders.len() - 1);
        self.folders[parent].change(FolderOp::Set(name, folder));
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let (parent, name) = (self.parent(path)?, name_of(path)?);
        self.folders[parent].change(FolderOp::Remove(name));
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let node = self.node(from).ok_or_else(|| not_found(from))?;
        let parent = self.parent(from)?;
        assert_eq!(parent, self.parent(to)?, "the log only renames within a folder");
        self.folders[parent].change(FolderOp::Rename(name_of(from)?, name_of(to)?, node));
        Ok(())
    }

    /// Returns the number of bytes that reachable files take.
    pub(super) fn used_bytes(&self) -> u64 {
        let mut used = 0;
        let mut folders = vec![0];
        while let Some(folder) = folders.pop() {
            for node in self.folders[folder].current.values() {
                match node {
                    Node::File(inode) => used += self.inodes[*inode].reserved,
                    Node::Folder(folder) => folders.push(*folder),
                }
            }
        }
        used
    }

    /// Returns how many bytes can be written to a file from `position` on.
    pub(super) fn room_for(&self, inode: usize, position: u64) -> u64 {
        let Some(space) = self.faults.space_bytes else { return u64::MAX };
        let free = space.saturating_sub(self.used_bytes());
        self.inodes[inode].reserved.saturating_sub(position) + free
    }
}
