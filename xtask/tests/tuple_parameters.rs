//! Checks that functions do not take several parameters as one tuple, `(topic, partition): (&Topic, u32)`.
//!
//! A tuple hides from clippy that there are too many parameters. Values that belong together should be a
//! named struct, and others separate parameters.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The functions that still do, as file and name. The list may only shrink.
const LEFT: &[(&str, &str)] = &[];

#[test]
fn no_function_takes_parameters_as_a_tuple() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let crates = root.join("crates").read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut found = BTreeSet::new();
    for folder in crates.chain([root.join("xtask")]) {
        let files = sources(&folder.join("src"));
        assert!(!files.is_empty(), "no sources in {}", folder.display());
        for file in files {
            let path = file.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let source = fs::read_to_string(&file).unwrap();
            found.extend(with_tuples(&source).into_iter().map(|function| (path.clone(), function)));
        }
    }
    let left: BTreeSet<_> =
        LEFT.iter().map(|(path, name)| ((*path).to_owned(), (*name).to_owned())).collect();
    let new: Vec<_> = found.difference(&left).collect();
    assert!(new.is_empty(), "put the parameters into a named struct, or take fewer: {new:#?}");
    let gone: Vec<_> = left.difference(&found).collect();
    assert!(gone.is_empty(), "these no longer exist, so remove them from the list: {gone:#?}");
}

#[test]
fn tuples_are_told_from_what_looks_like_them() {
    let tuples = "fn a((x, y): (u8, u8)) {}\n\
                  async fn b<T: Fn(u8) -> u8>(\n    key: &[u8; 4],\n    (x, _): &(T, u8),\n) -> u8 {}\n\
                  fn c((x, y): &mut (u8, u8));\n\
                  fn d<'a>((x, y): &'a (u8, u8)) {}\n";
    assert_eq!(with_tuples(tuples), ["a", "b", "c", "d"]);
    let others = "fn d(pair: (u8, u8)) -> (u8, u8) {\n    let (x, y): (u8, u8) = pair;\n    |(a, b): (u8, u8)| a\n}\n\
                  fn e(f: fn(u8) -> (u8, u8), (x, y): Pair, Key(key): Key) {}\n\
                  // When each fn ends (now): (so)\n";
    assert_eq!(with_tuples(others), [""; 0]);
}

/// The functions in `source` that destructure a tuple in their parameters. A named type does not count, even
/// if it is an alias of a tuple.
fn with_tuples(source: &str) -> Vec<String> {
    let code: Vec<_> = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let takes_tuple = |rest: &&str| {
        let signature = rest.split('{').next().unwrap_or_default().split(";\n").next().unwrap_or_default();
        // Before a function's body, only the pattern of a parameter can end with `):`.
        signature.split("): ").skip(1).any(is_tuple)
    };
    let name = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    code.split("fn ").skip(1).filter(takes_tuple).map(name).collect()
}

/// Reports whether the type at the start of `text` is a tuple or a reference to one.
fn is_tuple(text: &str) -> bool {
    let mut words = text.split_whitespace().skip_while(|word| *word == "&mut" || word.starts_with("&'"));
    words.next().is_some_and(|word| word.trim_start_matches('&').starts_with('('))
}

/// The `.rs` files below `folder`.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}
