//! Finds the public items of a library that are not needed.

use std::collections::BTreeSet;
use std::path::Path;

use crate::items::{Item, Items, Kind};
use crate::package::{Package, Part};
use crate::uses::{Named, Uses};

/// The exceptions.
pub(crate) struct Rules<'a> {
    /// Libraries that are not checked. Their own uses count.
    pub(crate) not_read: &'a [&'a str],
    /// Libraries that exist for tests.
    pub(crate) for_tests: &'a [&'a str],
    /// Library, item and reason of each listed item.
    pub(crate) listed: &'a [(&'a str, &'a str, &'a str)],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    NotUsedOutside,
    OnlyInTests,
}

/// The uses of other packages by a package.
struct Used {
    with_tests: Named,
    without_tests: Named,
}

const ALL: [Part; 5] = [Part::Library, Part::Generated, Part::UnitTests, Part::Program, Part::Tests];
const WITHOUT_TESTS: [Part; 3] = [Part::Library, Part::Generated, Part::Program];

impl Used {
    fn read(package: &Package) -> Self {
        Self {
            with_tests: Uses::read(package.files_of(&ALL), true).of_others(),
            without_tests: Uses::read(package.files_of(&WITHOUT_TESTS), false).of_others(),
        }
    }
}

/// Returns a line for each fault in the workspace in `root`, and for each listed item without a fault.
pub(crate) fn report(root: &Path, rules: &Rules<'_>) -> Vec<String> {
    let packages = Package::read_all(root);
    let used: Vec<Used> = packages.iter().map(Used::read).collect();
    let (mut lines, mut met) = (Vec::new(), BTreeSet::new());
    for package in packages.iter().filter(|package| package.has_library()) {
        let name = package.name.as_str();
        if rules.not_read.contains(&name) {
            continue;
        }
        let users = packages.iter().zip(&used).filter(|(user, _)| package.can_be_used_by(user));
        let users: Vec<&Used> = users.map(|(_, used)| used).collect();
        let items = Items::read(package);
        assert!(!items.all.is_empty(), "nothing public was found in {name}");
        for (item, fault) in faults(package, &items, &users) {
            let path = item.path();
            if let Some(at) = rules.listed.iter().position(|(of, listed, _)| *of == name && *listed == path) {
                met.insert(at);
                continue;
            }
            let fault = match fault {
                Fault::NotUsedOutside => "nobody outside of the crate uses it",
                Fault::OnlyInTests if rules.for_tests.contains(&name) => continue,
                Fault::OnlyInTests => "only tests use it",
            };
            lines.push(format!("{name}/{}:{} {path}: {fault}", item.file.display(), item.line));
        }
    }
    for (at, (name, item, _)) in rules.listed.iter().enumerate() {
        if !met.contains(&at) {
            lines.push(format!(
                "{name} {item} is listed, but it is used or does not exist: remove it from the list"
            ));
        }
    }
    lines
}

/// The faults of the library of `package` with these `items`. `users` are the uses by packages that depend on
/// it.
fn faults<'a>(package: &Package, items: &'a Items, users: &[&Used]) -> Vec<(&'a Item, Fault)> {
    let mut outside = Uses::read(package.files_of(&[Part::Program, Part::Tests]), true).of_others();
    let mut without_tests = Uses::read(package.files_of(&[Part::Program]), false).of_others();
    without_tests.add(&Uses::read(package.files_of(&[Part::Library, Part::Generated]), false).of_itself());
    for user in users {
        outside.add(&user.with_tests);
        without_tests.add(&user.without_tests);
    }
    let (outside, without_tests) = (used(items, &outside), used(items, &without_tests));
    let mut found = Vec::new();
    for (number, item) in items.all.iter().enumerate() {
        match (outside.contains(&number), without_tests.contains(&number)) {
            (true, true) => {}
            (false, _) => found.push((item, Fault::NotUsedOutside)),
            (true, false) => found.push((item, Fault::OnlyInTests)),
        }
    }
    // The functions of a type are reported with the type.
    let free = found.iter().map(|(item, _)| *item).filter(|item| item.kind == Kind::Free);
    let free: BTreeSet<&str> = free.map(|item| item.name.as_str()).collect();
    found.retain(|(item, _)| item.owner.as_deref().is_none_or(|owner| !free.contains(owner)));
    found
}

/// The indexes of the items in `named`, and of the items that these mention.
fn used(items: &Items, named: &Named) -> BTreeSet<usize> {
    let numbers = 0..items.all.len();
    let mut used: BTreeSet<usize> = numbers.clone().filter(|number| named.has(&items.all[*number])).collect();
    loop {
        let mut shown: BTreeSet<&str> = items.shown.iter().map(String::as_str).collect();
        shown.extend(used.iter().flat_map(|number| &items.all[*number].shown).map(String::as_str));
        let is_shown = |item: &Item| item.kind == Kind::Free && shown.contains(item.name.as_str());
        let more = numbers.clone().filter(|number| !used.contains(number) && is_shown(&items.all[*number]));
        let more: Vec<usize> = more.collect();
        if more.is_empty() {
            return used;
        }
        used.extend(more);
    }
}
