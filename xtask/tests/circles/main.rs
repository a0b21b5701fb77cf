//! Checks that the files of a crate do not form a circle: no file may use an item of a file that uses it,
//! directly or through other files.
//!
//! Every path counts, in `use` and elsewhere. The check follows it through re-exports to the file that
//! defines the item. Declaring a module is not a use of it, and neither is re-exporting from it: only the
//! place that uses the name counts. Code that exists only in tests does not count.
//!
//! The check does not see method calls and field reads on types that the file does not name, traits imported
//! with a star, names that a macro uses in a file that calls it, and paths in strings (`#[serde(with =
//! "..")]`). It takes items that a macro defines for the module's own. It does not distinguish scopes
//! narrower than a module: an import within a function counts for the whole module, and a variable with the
//! name of an item counts as that item.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod graph;
mod judged;
mod names;
mod source;
#[path = "../common/tokens.rs"]
mod tokens;

use std::path::Path;

use graph::Graph;

/// The number of files of a crate that are still in circles. It may only go down: if you take files out of a
/// circle, put the smaller number here, and remove the row with the last one. A crate that is not listed has
/// none.
const IN_CIRCLES: &[(&str, usize)] = &[];

/// Says what is wrong with a crate that may have `listed` files in circles. `None` if it has exactly these.
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
    let mut folders: Vec<_> =
        crates.chain(["xtask", "xtask/bench", "xtask/mutants"].map(|name| root.join(name))).collect();
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
