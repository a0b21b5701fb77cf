//! Tests the check itself with small crates.

use std::path::Path;

use tempfile::TempDir;

use crate::fault;
use crate::graph::Graph;

/// The circles of a crate with these files, one line for each step.
fn circles(files: &[(&str, &str)]) -> Vec<String> {
    let folder = TempDir::new().unwrap();
    let graph = graph(folder.path(), files);
    graph.circles().iter().map(|circle| graph.describe(circle)).collect()
}

fn graph(folder: &Path, files: &[(&str, &str)]) -> Graph {
    for (name, code) in files {
        let file = folder.join("src").join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, code).unwrap();
    }
    Graph::read(folder)
}

const PAIR: [(&str, &str); 3] = [
    ("lib.rs", "mod a;\nmod b;\n"),
    ("a.rs", "use crate::b::B;\npub(crate) struct A(B);\n"),
    ("b.rs", "//! Text.\npub(crate) struct B;\nfn f() { super::a::A::new(); }\n"),
];

#[test]
fn two_files_that_use_each_other_are_a_circle_and_it_is_named() {
    let expected = "a circle of 2 files, its shortest way around:\n  \
        src/a.rs:1 uses crate::b::B of src/b.rs\n  \
        src/b.rs:3 uses super::a::A::new of src/a.rs\n";
    assert_eq!(circles(&PAIR), [expected]);
}

#[test]
fn a_circle_goes_through_a_re_export_and_a_star() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; pub use self::a::{A, Other as Renamed};"),
        ("a.rs", "use super::b::B; pub struct A(B); pub struct Other;"),
        ("b.rs", "use crate::c::*; pub struct B(C);"),
        ("c/mod.rs", "mod inner; pub use inner::C;"),
        ("c/inner.rs", "pub struct C(crate::Renamed);"),
    ];
    let found = circles(&files);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("a circle of 3 files"), "{}", found[0]);
    assert!(found[0].contains("src/c/inner.rs:1 uses crate::Renamed of src/a.rs\n"), "{}", found[0]);
    assert!(found[0].contains("src/b.rs:1 uses C of src/c/inner.rs\n"), "{}", found[0]);
}

#[test]
fn a_module_that_declares_and_re_exports_uses_nothing() {
    let files = [
        ("lib.rs", "mod a; pub use a::A; pub struct Shared;"),
        ("a/mod.rs", "mod b; pub(crate) use b::{A, B}; pub(crate) const BOUND: usize = 1;"),
        ("a/b.rs", "use crate::Shared; pub struct A(Shared, [u8; super::BOUND]); pub(crate) struct B;"),
    ];
    assert_eq!(circles(&files), [""; 0]);
}

#[test]
fn a_module_that_calls_what_it_declares_is_in_a_circle_with_what_uses_it() {
    let files = [
        ("lib.rs", "mod a; pub use a::run; fn start() { run(&[BOUND]); } const BOUND: usize = 1;"),
        ("a.rs", "use crate::BOUND; pub fn run(_: &[usize]) { assert!(BOUND > 0); }"),
    ];
    assert_eq!(circles(&files).len(), 1);
}

#[test]
fn calls_of_macros_and_attributes_are_looked_into() {
    let by_macro = |code: &str| {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub(crate) fn check(_: B) -> bool { true }"),
            ("b.rs", code),
        ];
        circles(&files).len()
    };
    assert_eq!(by_macro("pub(crate) struct B; fn f() { assert!([crate::a::check(B)][0], \"{}\", 1); }"), 1);
    assert_eq!(by_macro("#[command(value_parser = super::a::check)] pub(crate) struct B;"), 1);
    assert_eq!(by_macro("pub(crate) struct B; fn f() { 0..crate::a::check(B); }"), 1);
    assert_eq!(by_macro("/// See [`crate::a::check`].\npub(crate) struct B; // crate::a::check"), 0);
    assert_eq!(by_macro("pub(crate) struct B; const TEXT: &str = \"crate::a::check\";"), 0);
}

#[test]
fn what_only_tests_have_does_not_count() {
    let without = |code: &str| {
        let files = [
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod only_tests;"),
            ("a.rs", "use crate::b::B; pub(crate) struct A(B);"),
            ("b.rs", code),
        ];
        circles(&files).len()
    };
    assert_eq!(without("pub(crate) struct B; #[cfg(test)] mod tests { use crate::a::A; }"), 0);
    assert_eq!(without("pub(crate) struct B { #[cfg(test)] a: Vec<crate::a::A, X>, c: u8 }"), 0);
    assert_eq!(without("#[cfg(test)] use crate::a::A; #[test] fn f() { A; } pub(crate) struct B;"), 0);
    assert_eq!(without("pub(crate) struct B { #[cfg(test)] a: u8, b: crate::a::A }"), 1);
    assert_eq!(without("#[cfg(not(test))] use crate::a::A; pub(crate) struct B;"), 1);
}

#[test]
fn fields_bindings_lifetimes_and_other_crates_are_no_uses() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B; pub(crate) fn of(_: B) {} pub(crate) fn text() {}"),
        (
            "b.rs",
            "use super::a::*; use other::a::of as far; pub(crate) struct B { of: u8 }
             fn f<'text>(b: &'text B) { b.of; b.text(); far::text(); x::of(); ::a::of(); B { of: 1 }; }",
        ),
    ];
    assert_eq!(circles(&files), [""; 0]);
}

#[test]
fn the_list_is_kept_true_in_both_directions() {
    let folder = TempDir::new().unwrap();
    let graph = graph(folder.path(), &PAIR);
    assert_eq!(fault("pair", &graph, 2), None);
    let more = fault("pair", &graph, 0).unwrap();
    assert!(more.contains("2 files are in circles, not 0") && more.contains("src/a.rs:1 uses"), "{more}");
    let fewer = fault("pair", &graph, 3).unwrap();
    assert!(fewer.contains("only 2 files"), "{fewer}");
}
