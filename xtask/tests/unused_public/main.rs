//! What is public in a library is used outside of it. What is not is `pub(crate)`, so that rustc reports it once it is
//! dead, or goes. What only tests use is dead, too.
//!
//! Read are functions, types, traits, constants and statics, and what a type has of its own: functions, methods and
//! constants. An item counts as used if its name stands in code of a package that depends on its own: in a path that
//! begins with one of our libraries or with what was imported from one, as `Type::name`, or, for a method, behind a dot.
//! What a used item shows in its signature, its public fields or its variants must be public as well, and is used.
//! The folder `tests` and the programs of a package count as outside of its library.
//!
//! What is not seen: an item whose name another item has that is used, which is most frequent for methods. Fields and
//! variants are left out: a type whose fields are not all public can't be written down by others, and variants are made
//! inside and told apart by others. So are modules, items that a macro defines, those of traits and of generated files,
//! and what is `#[doc(hidden)]`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod items;
mod judge;
mod judged;
mod package;
#[path = "../common/tokens.rs"]
#[expect(dead_code, reason = "it does not matter here whether a `use` re-exports")]
mod tokens;
mod uses;

use std::path::Path;

use judge::Rules;

const RULES: Rules<'_> = Rules {
    not_read: &[],
    // The simulator: tests are what it is for.
    for_tests: &["sim"],
    listed: &[
        (
            "bench",
            "Rate::per_second",
            "rates of tests are whole; options are read in messages per 1,000 seconds",
        ),
        ("log", "LogStore::open_segments", "a test counts the open files"),
        ("subjects", "Dialect::ALL", "tests go through all dialects"),
        ("subjects", "Limits::widest", "tests with texts of any length"),
        ("subjects", "Pattern::covers", "a library of its own, see its README"),
        ("subjects", "TupleSpace::has_interest", "a library of its own, see its README"),
        ("subjects", "TupleSpace::len_about", "a library of its own, see its README"),
    ],
};

#[test]
fn every_public_item_is_used_outside_of_its_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let lines = judge::report(root, &RULES);
    assert!(lines.is_empty(), "make these `pub(crate)`, or delete them:\n{}\n", lines.join("\n"));
}
