//! Reads the files of a crate: its modules, and what each of them defines, imports and names.
//!
//! Files are read as tokens, so that code in macro calls and attributes counts like any other code.
//! `#[cfg(test)]` modules and items are left out, with the files that they declare.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::tokens::{
    Imports, after_item, attribute, ends_chain, import, is_for_tests, is_sign, text, word_at,
};

/// The source of one crate. Its roots are the modules without a parent.
#[derive(Default)]
pub(crate) struct Source {
    /// The files in the order of their declarations. A file that is several modules is listed once for each.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) modules: Vec<Module>,
}

#[derive(Default)]
pub(crate) struct Module {
    /// The index of its file.
    pub(crate) file: usize,
    pub(crate) parent: Option<usize>,
    pub(crate) children: BTreeMap<String, usize>,
    /// The names of the items that it defines.
    pub(crate) items: BTreeSet<String>,
    pub(crate) imports: Vec<Import>,
    /// The paths of `use path::*`.
    pub(crate) globs: BTreeSet<Vec<String>>,
    /// All paths in the code, each with the line of its first occurrence.
    pub(crate) paths: BTreeMap<Vec<String>, usize>,
}

/// A name that `use` imports.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) path: Vec<String>,
    pub(crate) name: String,
    /// Whether it is `pub`, at least in a part of the crate.
    pub(crate) re_exported: bool,
    pub(crate) line: usize,
}

/// Keywords before the name of an item.
const DEFINE: [&str; 9] =
    ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "macro_rules"];

/// The current position: a module, and the folder of the files that it declares.
#[derive(Clone)]
struct Place {
    module: usize,
    folder: PathBuf,
    /// Whether the position is directly in the module, not within braces.
    top: bool,
}

impl Place {
    fn within(&self) -> Self {
        Self { top: false, ..self.clone() }
    }
}

impl Source {
    /// Reads the crate in `folder`, from its `src/lib.rs` and `src/main.rs` on.
    ///
    /// # Panics
    /// If a declared file does not exist or is not Rust.
    pub(crate) fn read(folder: &Path) -> Self {
        let mut source = Self::default();
        let src = folder.join("src");
        for root in ["lib.rs", "main.rs"].map(|name| src.join(name)) {
            if root.exists() {
                source.read_file(&root, &src, None);
            }
        }
        assert!(!source.files.is_empty(), "{} has no root", src.display());
        source
    }

    fn read_file(&mut self, file: &Path, folder: &Path, parent: Option<usize>) -> usize {
        let code =
            std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let tokens: TokenStream =
            code.parse().unwrap_or_else(|error| panic!("{} is not Rust: {error}", file.display()));
        self.files.push(file.to_owned());
        let module = self.begin_module(self.files.len() - 1, parent);
        self.read_tokens(&Place { module, folder: folder.to_owned(), top: true }, tokens);
        module
    }

    fn begin_module(&mut self, file: usize, parent: Option<usize>) -> usize {
        self.modules.push(Module { file, parent, ..Module::default() });
        self.modules.len() - 1
    }

    fn read_tokens(&mut self, place: &Place, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            at = self.read_one(place, &tokens, at);
        }
    }

    /// Reads the construct at `at`, and returns the position after it.
    fn read_one(&mut self, place: &Place, tokens: &[TokenTree], at: usize) -> usize {
        if let Some((content, after)) = attribute(tokens, at) {
            if is_for_tests(content) {
                // `#![cfg(test)]` applies to the whole file or module.
                let is_inner = text(&tokens[at + 1]) == "!";
                return if is_inner { tokens.len() } else { after_item(tokens, after) };
            }
            self.read_tokens(&place.within(), content.stream());
            return after;
        }
        if let TokenTree::Group(group) = &tokens[at] {
            self.read_tokens(&place.within(), group.stream());
            return at + 1;
        }
        let Some(word) = word_at(tokens, at) else { return at + 1 };
        match word.as_str() {
            "mod" => self.read_mod(place, tokens, at),
            "use" => match import(tokens, at) {
                Some((leaves, after)) => {
                    self.note_imports(place.module, leaves, tokens[at].span().start().line);
                    after
                }
                None => at + 1,
            },
            word if place.top && DEFINE.contains(&word) => self.note_item(place.module, tokens, at),
            _ => self.note_path(place.module, tokens, at, word),
        }
    }

    fn read_mod(&mut self, place: &Place, tokens: &[TokenTree], at: usize) -> usize {
        let Some(name) = word_at(tokens, at + 1) else { return at + 1 };
        let folder = place.folder.join(&name);
        let child = match tokens.get(at + 2) {
            Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => {
                let child = self.begin_module(self.modules[place.module].file, Some(place.module));
                self.read_tokens(&Place { module: child, folder, top: true }, body.stream());
                child
            }
            _ => {
                let beside = place.folder.join(format!("{name}.rs"));
                let file = if beside.exists() { beside } else { folder.join("mod.rs") };
                self.read_file(&file, &folder, Some(place.module))
            }
        };
        self.modules[place.module].children.insert(name, child);
        at + 3
    }

    fn note_imports(&mut self, module: usize, leaves: Imports, line: usize) {
        let module = &mut self.modules[module];
        for (path, name) in leaves.names {
            module.imports.push(Import { path, name, re_exported: leaves.re_exported, line });
        }
        module.globs.extend(leaves.globs);
    }

    fn note_item(&mut self, module: usize, tokens: &[TokenTree], at: usize) -> usize {
        // For `static mut NAME` and `macro_rules! name`. `const fn name` is found at its second keyword.
        let skipped = tokens.get(at + 1).map(text);
        let name = at + 1 + usize::from(matches!(skipped.as_deref(), Some("mut" | "!")));
        if let Some(name) = word_at(tokens, name).filter(|name| !DEFINE.contains(&name.as_str())) {
            self.modules[module].items.insert(name);
        }
        at + 1
    }

    fn note_path(&mut self, module: usize, tokens: &[TokenTree], at: usize, first: String) -> usize {
        let line = tokens[at].span().start().line;
        let (mut path, mut after) = (vec![first], at + 1);
        while ends_chain(tokens, after) {
            let Some(next) = word_at(tokens, after + 2) else { break };
            path.push(next);
            after += 3;
        }
        // `name:` of a field, a parameter or a binding is not a path.
        let is_name = path.len() == 1 && is_sign(tokens.get(after), ":") && !ends_chain(tokens, after);
        if !is_part_of_other(tokens, at) && !is_name {
            self.modules[module].paths.entry(path).or_insert(line);
        }
        after
    }
}

/// Reports whether the word at `at` is a field or a method, the end of another path, or a lifetime. The dots
/// of a range and the colon in `name: Type` do not make it one.
fn is_part_of_other(tokens: &[TokenTree], at: usize) -> bool {
    let before = |count: usize| at.checked_sub(count).and_then(|at| tokens.get(at));
    if is_sign(before(1), "'") {
        return true;
    }
    is_sign(before(1), ":") && is_sign(before(2), ":") || is_sign(before(1), ".") && !is_sign(before(2), ".")
}
