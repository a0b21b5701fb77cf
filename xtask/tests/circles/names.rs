//! Resolves names: follows a path in a module to the file that defines the item.

use crate::source::{Module, Source};

/// A meaning of a name. A name may have several: a module and a function, or variants under `cfg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Module(usize),
    /// An item defined in this file.
    Item(usize),
}

/// The names that are being looked up, so that an import of itself ends.
type Way<'a> = Vec<(usize, &'a str, bool)>;

impl Source {
    /// Returns the files that define the items that `path` names in `module`. Empty if it names a module, or
    /// something outside the crate.
    pub(crate) fn files_of(&self, module: usize, path: &[String]) -> Vec<usize> {
        let meanings = self.follow(module, path, &mut Vec::new());
        meanings
            .into_iter()
            .filter_map(|meaning| match meaning {
                Meaning::Item(file) => Some(file),
                Meaning::Module(_) => None,
            })
            .collect()
    }

    fn follow<'a>(&'a self, module: usize, path: &'a [String], way: &mut Way<'a>) -> Vec<Meaning> {
        let Some((first, mut rest)) = path.split_first() else { return Vec::new() };
        let mut meanings = match first.as_str() {
            "crate" => vec![Meaning::Module(self.root_of(module))],
            "self" => vec![Meaning::Module(module)],
            "super" => {
                let mut ancestor = self.parent_of(module);
                while let Some((_, further)) = rest.split_first().filter(|(next, _)| *next == "super") {
                    (ancestor, rest) = (self.parent_of(ancestor), further);
                }
                vec![Meaning::Module(ancestor)]
            }
            name => self.look_up(module, name, rest.is_empty(), way),
        };
        for (number, name) in rest.iter().enumerate() {
            let next = self.step(&meanings, name, number + 1 == rest.len(), way);
            // A name within an item, such as a variant, belongs to the file of the item.
            if next.is_empty() {
                meanings.retain(|meaning| matches!(meaning, Meaning::Item(_)));
                return meanings;
            }
            meanings = next;
        }
        meanings
    }

    fn step<'a>(
        &'a self,
        meanings: &[Meaning],
        name: &'a str,
        is_last: bool,
        way: &mut Way<'a>,
    ) -> Vec<Meaning> {
        let is_within_item = meanings.iter().any(|meaning| matches!(meaning, Meaning::Item(_)));
        let mut found = Vec::new();
        for meaning in meanings {
            let Meaning::Module(module) = *meaning else { continue };
            let inner = self.look_up(module, name, is_last, way);
            // Names that a macro defines are not seen. Assume that the module's own file defines them.
            if inner.is_empty() && !is_within_item {
                found.push(Meaning::Item(self.modules[module].file));
            }
            found.extend(inner);
        }
        found
    }

    /// Returns the meanings of `name` in a module: its definitions and declarations, its imports, and if
    /// there are none, its star imports.
    fn look_up<'a>(&'a self, module: usize, name: &'a str, is_last: bool, way: &mut Way<'a>) -> Vec<Meaning> {
        let step = (module, name, is_last);
        if way.contains(&step) {
            return Vec::new();
        }
        way.push(step);
        let here = &self.modules[module];
        let mut found = own_meanings(here, name);
        for import in here.imports.iter().filter(|import| import.name == name && import.path != [name]) {
            found.extend(self.follow(module, &import.path, way));
        }
        if found.is_empty() {
            for glob in &here.globs {
                for meaning in self.follow(module, glob, way) {
                    if let Meaning::Module(from) = meaning {
                        found.extend(self.look_up(from, name, is_last, way));
                    }
                }
            }
        }
        way.pop();
        found
    }

    fn parent_of(&self, module: usize) -> usize {
        self.modules[module].parent.unwrap_or(module)
    }

    fn root_of(&self, mut module: usize) -> usize {
        while let Some(parent) = self.modules[module].parent {
            module = parent;
        }
        module
    }
}

fn own_meanings(module: &Module, name: &str) -> Vec<Meaning> {
    let item = module.items.contains(name).then_some(Meaning::Item(module.file));
    item.into_iter().chain(module.children.get(name).map(|child| Meaning::Module(*child))).collect()
}
