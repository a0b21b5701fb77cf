//! Files of one crate must not form a circle: none may use what is defined in a file that uses it, be it by others.
//!
//! A `use` counts, and any other path. Both are followed to the file that defines what they name, through re-exports.
//! To declare a module is not to use it, and neither is to re-export from it: what counts is where the name is used.
//! What is only there in tests does not count.
//!
//! What is not seen: calls of methods and reads of fields of a type that the file does not name; traits that come in with
//! a star; what a macro names in a file that calls it; items that a macro defines (they are taken for the module's own);
//! paths in strings (`#[serde(with = "..")]`). A scope narrower than a module is not told from it: an import within a
//! function holds for the module here, and a variable that is called like an item of the module counts as that item.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod graph;
mod judged;
mod names;
mod source;
#[path = "../common/tokens.rs"]
mod tokens;

use std::path::Path;

use graph::Graph;

/// How many files are still in circles. It only goes down: who takes files out of their circle puts the smaller number
/// here, and the row goes with the last one. A crate that is not listed has none.
const IN_CIRCLES: &[(&str, usize)] = &[];

/// What is wrong with a crate that may have `listed` files in circles. `None` if nothing is.
fn fault(name: &str, graph: &Graph, listed: usize) -> Option<String> {
    let circles = graph.circles();
    let found: usize = circles.iter().map(|circle| circle.len()).sum();
    let described = || circles.iter().map(|circle| graph.describe(circle)).collect::<String>();
    match found.cmp(&listed) {
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Less => {
            Some(format!("{name}: only {found} files are in circles; list that instead of {listed}\n"))
        }
        std::cmp::Ordering::Greater => {
            Some(format!("{name}: {found} files are in circles, not {listed}\n{}", described()))
        }
    }
}

#[test]
fn files_form_no_circle_that_is_not_listed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let crates = root.join("crates").read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<_> = crates.chain([root.join("xtask")]).collect();
    folders.sort();
    let name_of = |folder: &Path| folder.file_name().unwrap().to_str().unwrap().to_owned();
    for (name, _) in IN_CIRCLES {
        assert!(folders.iter().any(|folder| name_of(folder) == *name), "there is no crate {name}");
    }
    let faults = folders.iter().filter_map(|folder| {
        let name = name_of(folder);
        let listed = IN_CIRCLES.iter().find(|(listed, _)| *listed == name).map_or(0, |(_, files)| *files);
        fault(&name, &Graph::read(folder), listed)
    });
    let faults: String = faults.collect();
    assert!(faults.is_empty(), "\n{faults}");
}
