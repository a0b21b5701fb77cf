//! Checks that every public item of a library is used outside the library. An item that is not should be
//! deleted, or be `pub(crate)`, so that rustc reports it once it is dead. An item that only tests use counts
//! as dead, too.
//!
//! The check reads functions, types, traits, constants and statics, and the functions, methods and constants
//! of types. An item counts as used if its name occurs in the code of a package that depends on the item's
//! package: in a path that starts with one of our libraries or with an import from one, as `Type::name`, or,
//! for a method, after a dot. Types that a used item mentions in its signature, public fields or variants
//! must be public as well, and count as used. The folder `tests` and the programs of a package count as
//! outside its library.
//!
//! The check does not notice an unused item with the same name as a used one, which happens mostly for
//! methods. It leaves out fields and variants: other crates cannot construct a type whose fields are not all
//! public, and variants are often constructed inside a library and only matched outside. It also leaves out
//! modules, items that a macro defines, items of traits and of generated files, and `#[doc(hidden)]` items.

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
    // The files of xtask's program are beside those of its library. No server uses jetstream yet.
    not_read: &["jetstream", "xtask"],
    // The simulator exists for tests.
    for_tests: &["sim"],
    listed: &[
        (
            "bench",
            "Rate::per_second",
            "tests use whole rates; options are parsed in messages per 1,000 seconds",
        ),
        ("log", "LogStore::open_segments", "a test counts the open files"),
        ("subjects", "Dialect::ALL", "tests run with all dialects"),
        ("subjects", "TupleSpace::len_about", "part of the library's interface for others, see its README"),
    ],
};

#[test]
fn every_public_item_is_used_outside_of_its_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let lines = judge::report(root, &RULES);
    assert!(lines.is_empty(), "make these `pub(crate)`, or delete them:\n{}\n", lines.join("\n"));
}
