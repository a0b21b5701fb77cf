//! Where the names come from: a path that stands in a module is followed to the file that defines it.

use crate::source::{Module, Source};

/// What a name means. It may mean more than one thing: a module and a function, or one of several under `cfg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Module(usize),
    /// Defined in this file.
    Item(usize),
}

/// Names that are being looked for, so that an import of itself ends.
type Way<'a> = Vec<(usize, &'a str, bool)>;

impl Source {
    /// The files in which what `path` names in `module` is defined. None for what lies outside of the crate, and for a
    /// module.
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
            // What is named within an item, like a variant, lies where the item does.
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
            // A name that a macro defines is not seen: it is taken for one of the module's own file.
            if inner.is_empty() && !is_within_item {
                found.push(Meaning::Item(self.modules[module].file));
            }
            found.extend(inner);
        }
        found
    }

    /// What `name` means in a module: what it defines and declares, what it imports, or what it imports with a star.
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
