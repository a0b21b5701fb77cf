//! Tests the check itself with small workspaces.

use tempfile::TempDir;

use crate::judge::{Rules, report};

const NO_RULES: Rules<'_> = Rules { not_read: &[], for_tests: &[], listed: &[] };

/// The report for a workspace of a library `a`, a package `b` that depends on it, and a package `c` that does
/// not. Each file is a path and its code. `b` always uses `needed` of the library, so that something is used.
fn found_by(rules: &Rules<'_>, files: &[(&str, &str)]) -> Vec<String> {
    let root = TempDir::new().unwrap();
    let dependencies = [("a", ""), ("b", "[dependencies]\ntailrace-a.workspace = true\n"), ("c", "")];
    let manifests = dependencies.map(|(name, dependencies)| {
        let text = format!("[package]\nname = \"tailrace-{name}\"\n{dependencies}");
        (format!("crates/{name}/Cargo.toml"), text)
    });
    let files = files.iter().map(|(path, code)| (format!("crates/{path}"), (*code).to_owned()));
    let needed = ("crates/b/src/bin/needed.rs".to_owned(), "use tailrace_a::needed;".to_owned());
    for (path, text) in files.chain(manifests).chain([needed]) {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    report(root.path(), rules)
}

/// The paths of the items that are reported for this library if `b` has this code.
fn unused(library: &str, user: &str) -> Vec<String> {
    let library = format!("pub fn needed() {{}}\n{library}");
    let lines = found_by(&NO_RULES, &[("a/src/lib.rs", library.as_str()), ("b/src/main.rs", user)]);
    let path = |line: &String| line.split(' ').nth(1).unwrap().trim_end_matches(':').to_owned();
    lines.iter().map(path).collect()
}

#[test]
fn what_nobody_uses_is_named_with_its_line() {
    let library = "pub fn needed() {}\n\npub fn lonely() { needed() }\n";
    let found = found_by(&NO_RULES, &[("a/src/lib.rs", library)]);
    assert_eq!(found, ["a/src/lib.rs:3 lonely: nobody outside of the crate uses it"]);
}

#[test]
fn every_kind_of_item_is_seen() {
    let library = "pub struct S; pub enum E {} pub trait T {} pub type Y = u8; pub const C: u8 = 1;
        pub static mut I: u8 = 1; pub const fn f() {} pub async unsafe fn g() {} pub mod m { pub fn h() {} }";
    assert_eq!(unused(library, ""), ["S", "E", "T", "Y", "C", "I", "f", "g", "h"]);
    let methods = "pub struct S<T>(T);
        impl<T: Fn() -> u8> m::S<T> where T: Copy { pub fn new() {} pub const A: u8 = 1; pub fn get(&mut self) {} }";
    assert_eq!(unused(methods, "use tailrace_a::S;"), ["S::new", "S::A", "S::get"]);
    assert_eq!(unused(methods, "use tailrace_a::S; fn f() { S::new(); S::<u8>::A; x.get(); }"), [""; 0]);
}

#[test]
fn what_is_not_public_for_others_does_not_count() {
    let library = "fn a() {} pub(crate) fn b() {} pub(in crate::m) fn c() {} #[cfg(test)] pub fn d() {}
        #[doc(hidden)] pub fn e() {} pub use m::F; struct S { pub f: u8 }
        impl Trait for S { fn g() {} } impl S { fn h() {} } #[cfg(test)] mod tests { pub fn i() {} }";
    assert_eq!(unused(library, ""), [""; 0]);
}

#[test]
fn a_path_must_lead_here() {
    let library = "pub struct Found; pub mod m { pub fn far() {} }";
    let of = |code: &str| unused(library, code);
    assert_eq!(of("use tailrace_a::{Found as F, m}; fn f() { m::far(); }"), [""; 0]);
    assert_eq!(of("fn f() { tailrace_a::m::far(tailrace_a::Found); }"), [""; 0]);
    assert_eq!(of("use tailrace_a::*; use tailrace_a::m::*; fn f(_: Found) { far(); }"), [""; 0]);
    assert_eq!(of("use tailrace_a::m; mod x { use super::m::far; fn f(x: $y::Found) {} }"), [""; 0]);
    assert_eq!(of("#[serde(with = \"tailrace_a::m\")] struct S;"), ["Found", "far"]);
    assert_eq!(of("use other::Found; use crate::x::far; fn Found() { x.far(); far(); }"), ["Found", "far"]);
    assert_eq!(
        of("// tailrace_a::Found\n/// [`tailrace_a::m::far`]\nfn f() { \"tailrace_a::Found\"; }").len(),
        2
    );
}

#[test]
fn functions_of_serde_are_named_by_their_module() {
    let library = "pub mod m { pub fn serialize() {} pub fn deserialize() {} }";
    assert_eq!(unused(library, "#[serde(default, with = \"tailrace_a::m\")] struct S;"), [""; 0]);
    assert_eq!(unused(library, "struct S;"), ["serialize", "deserialize"]);
}

#[test]
fn a_function_of_a_type_belongs_to_its_type() {
    let library = "pub struct S; impl S { pub fn new() {} } pub struct R; impl R { pub fn new() {} }";
    assert_eq!(unused(library, "use tailrace_a::{R, S}; fn f() { S::new(); }"), ["R::new"]);
    assert_eq!(unused(library, "use tailrace_a::{R as Q, S}; fn f() { Q::new(); }"), ["S::new"]);
    assert_eq!(unused(library, "use tailrace_a::{R, S}; type P = R; fn f() { P::new(); }"), ["S::new"]);
}

#[test]
fn what_a_used_item_shows_is_used() {
    let shows = |item: &str| unused(&format!("pub struct Shown; {item}"), "use tailrace_a::used;");
    assert_eq!(shows("pub fn used(_: Shown) {}"), [""; 0]);
    assert_eq!(shows("pub fn used() { Shown; }"), ["Shown"]);
    assert_eq!(shows("pub fn used() -> Between {} pub struct Between { pub map: M<u8, Shown> }"), [""; 0]);
    assert_eq!(shows("pub fn used() -> Between {} pub struct Between { map: M<u8, Shown> }"), ["Shown"]);
    assert_eq!(shows("pub fn used() -> Between {} pub enum Between { A(Shown) }"), [""; 0]);
    assert_eq!(shows("pub fn used() {} impl Iterator for X { type Item = Shown; }"), [""; 0]);
    assert_eq!(shows("pub fn used() {} pub fn other(_: Shown) {}"), ["Shown", "other"]);
}

#[test]
fn what_a_type_has_is_reported_with_the_type() {
    assert_eq!(unused("pub struct S; impl S { pub fn new() {} pub fn get(&self) {} }", ""), ["S"]);
}

#[test]
fn only_packages_that_depend_on_it_count_and_their_tests() {
    let library = ("a/src/lib.rs", "pub fn needed() {}\npub fn f() { f() }");
    let code = "use tailrace_a::f;";
    for (path, faults) in [
        ("c/src/main.rs", 1),
        ("c/tests/t.rs", 1),
        ("b/tests/t.rs", 0),
        ("b/benches/t.rs", 0),
        ("a/tests/t.rs", 0),
        ("a/src/main.rs", 0),
        ("a/src/other.rs", 1),
    ] {
        let found = found_by(&NO_RULES, &[library, (path, code)]);
        assert_eq!(found.len(), faults, "{path} {found:?}");
    }
}

#[test]
fn what_only_tests_use_is_told_apart() {
    let library = "pub fn needed() {} pub struct S; impl S { pub fn dead() {} pub fn get(&self) {} pub fn live(&self) {} }
        fn f(s: S) { s.live(); } #[cfg(test)] mod tests { fn f() { S::dead(); } } #[cfg(test)] mod more;";
    let tests = "use tailrace_a::S; fn f(s: S) { S::dead(); s.get(); s.live(); }";
    let expected = ["S::dead", "S::get"].map(|path| format!("a/src/lib.rs:1 {path}: only tests use it"));
    for test in ["a/tests/t.rs", "b/tests/t.rs"] {
        let files = [("a/src/lib.rs", library), ("a/src/more.rs", "fn f() { x.get(); }"), (test, tests)];
        assert_eq!(found_by(&NO_RULES, &files), expected);
        let rules = Rules { for_tests: &["a"], ..NO_RULES };
        assert_eq!(found_by(&rules, &files), [""; 0]);
    }
}

#[test]
fn the_list_is_kept_true_in_both_directions() {
    let files = [("a/src/lib.rs", "pub fn needed() {} pub fn f() {}")];
    let rules = Rules { listed: &[("a", "f", "a reason")], ..NO_RULES };
    assert_eq!(found_by(&rules, &files), [""; 0]);
    let rules =
        Rules { listed: &[("a", "f", "a reason"), ("a", "needed", "none"), ("b", "f", "none")], ..NO_RULES };
    assert_eq!(found_by(&rules, &files).len(), 2);
    assert_eq!(found_by(&Rules { not_read: &["a"], ..NO_RULES }, &files), [""; 0]);
    assert_eq!(found_by(&NO_RULES, &files).len(), 1);
}

#[test]
fn generated_files_are_not_judged_but_use() {
    let files = [
        ("a/src/lib.rs", "pub fn needed() {} pub mod g; pub fn f() {}"),
        ("a/src/g.rs", "// @generated by a tool\npub fn g() { f(); }"),
        ("a/tests/t.rs", "use tailrace_a::f;"),
    ];
    assert_eq!(found_by(&NO_RULES, &files), [""; 0]);
}
