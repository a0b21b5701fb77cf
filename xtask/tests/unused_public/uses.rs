//! The names that code uses: paths, members after a dot, and words.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};

use crate::items::{Item, Kind};
use crate::package::File;
use crate::tokens::{after_item, attribute, ends_chain, import, is_for_tests, is_sign, text, word_at};

/// The names that some files of one package use.
#[derive(Default)]
pub(crate) struct Uses {
    with_tests: bool,
    /// Paths in code and in `use`.
    paths: BTreeSet<Vec<String>>,
    /// The names that `use` and `type` define, and the paths that each stands for.
    imports: BTreeMap<String, BTreeSet<Vec<String>>>,
    /// Names of fields and methods, after a dot.
    members: BTreeSet<String>,
    /// All other words, without those in `use`.
    words: BTreeSet<String>,
    /// Whether a star imports everything from one of our libraries, so that its names may occur as bare
    /// words.
    has_star: bool,
}

/// The first segment of a path whose start is unknown: after `>`, or a macro parameter.
const UNKNOWN: &str = "?";

/// Keywords before the name of an item. A definition is not a use.
const DEFINE: [&str; 9] = ["const", "enum", "fn", "mod", "static", "struct", "trait", "type", "union"];

/// The prefix of the names of our libraries.
const OURS: &str = "tailrace_";

impl Uses {
    /// Reads the names that `files` use. `with_tests` says whether code that exists only in tests counts.
    pub(crate) fn read<'a>(files: impl Iterator<Item = &'a File>, with_tests: bool) -> Self {
        let mut uses = Self { with_tests, ..Self::default() };
        for file in files {
            uses.read_tokens(file.tokens.clone());
        }
        uses
    }

    fn read_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            at = self.read_one(&tokens, at);
        }
    }

    fn read_one(&mut self, tokens: &[TokenTree], at: usize) -> usize {
        if let Some((content, after)) = attribute(tokens, at) {
            if !self.with_tests && is_for_tests(content) {
                let is_inner = is_sign(tokens.get(at + 1), "!");
                return if is_inner { tokens.len() } else { after_item(tokens, after) };
            }
            if word_at(&content.stream().into_iter().collect::<Vec<_>>(), 0).as_deref() != Some("doc") {
                self.read_texts(content.stream());
                self.read_tokens(content.stream());
            }
            return after;
        }
        if let TokenTree::Group(group) = &tokens[at] {
            self.read_tokens(group.stream());
            return at + 1;
        }
        let Some(word) = word_at(tokens, at) else { return at + 1 };
        if word == "use"
            && let Some((leaves, after)) = import(tokens, at)
        {
            for (path, name) in leaves.names {
                self.paths.insert(path.clone());
                self.imports.entry(name).or_default().insert(path);
            }
            for path in leaves.globs {
                self.has_star |= path[0].starts_with(OURS);
                self.paths.insert(path);
            }
            return after;
        }
        if word == "type"
            && let Some(name) = word_at(tokens, at + 1)
        {
            self.read_alias(name, &tokens[at + 2..]);
        }
        self.read_path(tokens, at, word)
    }

    /// Reads paths in strings of an attribute, as in `#[serde(with = "a::path")]`, where the path stands for
    /// two functions.
    fn read_texts(&mut self, attribute: TokenStream) {
        for token in attribute {
            match token {
                TokenTree::Group(group) => self.read_texts(group.stream()),
                TokenTree::Literal(literal) => {
                    let literal = literal.to_string();
                    let path: Vec<String> =
                        literal.trim_matches('"').split("::").map(str::to_owned).collect();
                    for name in ["serialize", "deserialize"].iter().filter(|_| path.len() > 1) {
                        self.paths.insert(path.iter().cloned().chain([(*name).to_owned()]).collect());
                    }
                }
                _ => {}
            }
        }
    }

    /// Reads `type Name = a::Path<..>;`.
    fn read_alias(&mut self, name: String, tokens: &[TokenTree]) {
        let end = tokens.iter().position(|token| is_sign(Some(token), ";")).unwrap_or(tokens.len());
        let Some(value) = tokens[..end].iter().position(|token| is_sign(Some(token), "=")) else { return };
        let path = tokens[value + 1..end].iter().take_while(|token| !is_sign(Some(token), "<"));
        let path: Vec<String> = path.filter(|token| matches!(token, TokenTree::Ident(_))).map(text).collect();
        if !path.is_empty() {
            self.imports.entry(name).or_default().insert(path);
        }
    }

    fn read_path(&mut self, tokens: &[TokenTree], at: usize, first: String) -> usize {
        let sign =
            |count: usize, sign: &str| is_sign(at.checked_sub(count).and_then(|at| tokens.get(at)), sign);
        let before = at.checked_sub(1).and_then(|before| word_at(tokens, before));
        if before.is_none_or(|before| !DEFINE.contains(&before.as_str())) {
            self.words.insert(first.clone());
        }
        let (mut path, mut after) = (vec![first], at + 1);
        while ends_chain(tokens, after) {
            let Some(next) = word_at(tokens, after + 2) else { break };
            self.words.insert(next.clone());
            path.push(next);
            after += 3;
        }
        if sign(1, ".") && !sign(2, ".") {
            self.members.insert(path.swap_remove(0));
            return after;
        }
        if sign(1, "$") {
            path[0] = UNKNOWN.to_owned();
        } else if sign(1, ":") && sign(2, ":") {
            path.insert(0, UNKNOWN.to_owned());
        }
        if path.len() > 1 {
            self.paths.insert(path);
        }
        after
    }

    /// The names that may belong to other packages.
    pub(crate) fn of_others(&self) -> Named {
        let mut leading: BTreeSet<&str> = BTreeSet::new();
        let leads = |leading: &BTreeSet<&str>, path: &[String]| {
            let (first, rest) = (path[0].as_str(), &path[1..path.len().max(2) - 1]);
            first.starts_with(OURS)
                || first == UNKNOWN
                || leading.contains(first)
                || matches!(first, "crate" | "self" | "super")
                    && rest.iter().any(|segment| leading.contains(segment.as_str()))
        };
        loop {
            let more = self.imports.iter().filter(|(name, paths)| {
                !leading.contains(name.as_str()) && paths.iter().any(|path| leads(&leading, path))
            });
            let more: Vec<&str> = more.map(|(name, _)| name.as_str()).collect();
            if more.is_empty() {
                break;
            }
            leading.extend(more);
        }
        self.named(self.has_star, |path| self.has_star || leads(&leading, path))
    }

    /// The names that may belong to the package itself.
    pub(crate) fn of_itself(&self) -> Named {
        self.named(true, |_| true)
    }

    /// The names in the paths that count. `with_words` says whether bare words count, too.
    fn named(&self, with_words: bool, counts: impl Fn(&[String]) -> bool) -> Named {
        let mut named = Named { members: self.members.clone(), ..Named::default() };
        for path in self.paths.iter().filter(|path| counts(path)) {
            named.free.extend(path.iter().cloned());
            for pair in path.windows(2) {
                named.members.insert(pair[1].clone());
                let owners = self.meanings(&pair[0]).into_iter();
                named.associated.extend(owners.map(|owner| (owner, pair[1].clone())));
            }
        }
        if with_words {
            named.free.extend(self.words.iter().cloned());
        }
        named
    }

    /// The names that a word before `::` may stand for: itself, and the names that it is an alias of.
    fn meanings(&self, word: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut left = vec![word.to_owned()];
        while let Some(word) = left.pop() {
            let paths = self.imports.get(&word).into_iter().flatten();
            left.extend(paths.filter_map(|path| path.last().cloned()).filter(|last| !found.contains(last)));
            found.insert(word);
        }
        found
    }
}

/// Names that may refer to items.
#[derive(Default)]
pub(crate) struct Named {
    /// Names in a path, or bare words.
    free: BTreeSet<String>,
    /// Type and name of each `Type::name`.
    associated: BTreeSet<(String, String)>,
    /// Names after a dot or `::`.
    members: BTreeSet<String>,
}

impl Named {
    pub(crate) fn add(&mut self, other: &Self) {
        self.free.extend(other.free.iter().cloned());
        self.associated.extend(other.associated.iter().cloned());
        self.members.extend(other.members.iter().cloned());
    }

    pub(crate) fn has(&self, item: &Item) -> bool {
        let owners = [item.owner.as_deref().unwrap_or_default(), "Self", UNKNOWN];
        let mut pairs = owners.iter().map(|owner| ((*owner).to_owned(), item.name.clone()));
        match item.kind {
            Kind::Free => self.free.contains(&item.name),
            Kind::Associated => pairs.any(|pair| self.associated.contains(&pair)),
            Kind::Method => self.members.contains(&item.name),
        }
    }
}
