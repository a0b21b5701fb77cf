//! Copies of the tree, in which tasks change the code while work in the original goes on.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{root, tracked};

/// Makes `to` the same as the tree: all files that git knows or would add, and no others but `Cargo.lock`.
/// Files that are the same are not written, so that cargo does not build them again. `change` gets the name
/// and the content of each file, and returns what the copy has instead. `None` leaves the copy's file as it
/// is.
///
/// # Errors
/// If git cannot be asked, a file cannot be written, or `change` fails.
pub fn tree(
    to: &Path,
    mut change: impl FnMut(&str, Vec<u8>) -> Result<Option<Vec<u8>>, String>,
) -> Result<(), String> {
    let mut kept = HashSet::new();
    for name in tracked()? {
        // Git lists deleted files as well.
        let Ok(content) = fs::read(root().join(&name)) else { continue };
        let path = to.join(&name);
        if let Some(content) = change(&name, content)? {
            write(&path, &content)?;
        }
        kept.insert(path);
    }
    remove_others(to, &kept).map_err(|error| format!("{}: {error}", to.display()))
}

/// Writes a file, if it has another content.
///
/// # Errors
/// If it cannot be written.
pub fn write(path: &Path, content: &[u8]) -> Result<(), String> {
    if fs::read(path).is_ok_and(|before| before == content) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(path, content));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// Removes files of the copy that the tree no longer has, such as deleted tests.
fn remove_others(folder: &Path, kept: &HashSet<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) && path.file_name().is_some_and(|name| name != "Cargo.lock") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_files_of_the_tree_and_what_was_changed_stays() {
        let to = tempfile::tempdir().expect("a folder");
        let path = |name: &str| to.path().join(name);
        write(&path("crates/gone.rs"), b"deleted since").expect("written");
        write(&path("Cargo.lock"), b"of the copy").expect("written");
        write(&path("README.md"), b"left alone").expect("written");
        let change = |name: &str, content: Vec<u8>| match name {
            "README.md" | "Cargo.lock" => Ok(None),
            "Cargo.toml" => Ok(Some(b"changed".to_vec())),
            _ => Ok(Some(content)),
        };
        tree(to.path(), change).expect("a copy");
        let read = |name: &str| fs::read(path(name)).expect("a file");
        assert!(!path("crates/gone.rs").exists());
        assert_eq!(read("Cargo.lock"), b"of the copy");
        assert_eq!(read("README.md"), b"left alone");
        assert_eq!(read("Cargo.toml"), b"changed");
        assert_eq!(read("xtask/src/copy.rs"), fs::read(root().join("xtask/src/copy.rs")).expect("a file"));
    }
}
