//! The interface of a library: its public items, and the names that their signatures mention.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::package::{Package, Part};
use crate::tokens::{after_item, attribute, is_for_tests, is_sign, text, word_at};

/// A public item of a library.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
    /// The type whose `impl` or `struct` contains it.
    pub(crate) owner: Option<String>,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The names in its signature, public fields or variants. They must be as public as the item.
    pub(crate) shown: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An item with its own path: a type, a trait, a function, a constant.
    Free,
    /// A function or a constant of a type, without `self`.
    Associated,
    Method,
}

impl Item {
    /// Returns `name`, or `Owner::name`.
    pub(crate) fn path(&self) -> String {
        self.owner.iter().chain([&self.name]).map(String::as_str).collect::<Vec<_>>().join("::")
    }
}

/// The public items of one library.
#[derive(Default)]
pub(crate) struct Items {
    pub(crate) all: Vec<Item>,
    /// Names mentioned outside of items: by associated types of traits, and by macros.
    pub(crate) shown: BTreeSet<String>,
}

/// Keywords that start an item.
const BEGIN: [&str; 13] = [
    "const",
    "enum",
    "extern",
    "fn",
    "impl",
    "macro_rules",
    "mod",
    "static",
    "struct",
    "trait",
    "type",
    "union",
    "use",
];

impl Items {
    /// Reads the library of `package`, without generated files and test code.
    pub(crate) fn read(package: &Package) -> Self {
        let mut items = Self::default();
        for file in package.files_of(&[Part::Library]) {
            items.read_module(&file.path, file.tokens.clone());
        }
        items
    }

    fn read_module(&mut self, file: &Path, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            at = self.read_one(file, &tokens, at);
        }
    }

    /// Reads the item at `at`, and returns the position after it.
    fn read_one(&mut self, file: &Path, tokens: &[TokenTree], at: usize) -> usize {
        if let Some((content, after)) = attribute(tokens, at) {
            let is_inner = is_sign(tokens.get(at + 1), "!");
            return match is_left_out(content) {
                true if is_inner => tokens.len(),
                true => after_item(tokens, after),
                false => after,
            };
        }
        let start = Start::of(tokens, at);
        let Some(word) = word_at(tokens, start.word) else { return at + 1 };
        let end = end_of(tokens, start.word, &word);
        let item = &tokens[start.word..end];
        match word.as_str() {
            "mod" => {
                if let Some(TokenTree::Group(body)) = item.last() {
                    self.read_module(file, body.stream());
                }
            }
            "impl" => self.read_impl(file, item),
            "use" | "extern" => {}
            "macro_rules" => add_words(item, &mut self.shown),
            word if BEGIN.contains(&word) => {
                if start.is_public {
                    self.add(file, item, None);
                }
            }
            // A macro call, which may expand to items.
            _ => add_words(item, &mut self.shown),
        }
        end
    }

    /// Adds `item`, which starts with its keyword, such as `fn`.
    fn add(&mut self, file: &Path, item: &[TokenTree], owner: Option<&str>) {
        let at = 1 + usize::from(matches!(word_at(item, 1).as_deref(), Some("mut")));
        let Some(name) = word_at(item, at) else { return };
        let mut shown = BTreeSet::new();
        let word = text(&item[0]);
        match word.as_str() {
            "struct" | "union" => add_words_of_fields(item, &mut shown),
            "const" | "static" => {
                let value = item.iter().position(|token| is_sign(Some(token), "=")).unwrap_or(item.len());
                add_words(&item[..value], &mut shown);
            }
            "fn" => {
                let has_body = matches!(item.last(), Some(TokenTree::Group(_)));
                add_words(&item[..item.len() - usize::from(has_body)], &mut shown);
            }
            _ => add_words(item, &mut shown),
        }
        let kind = match owner {
            None => Kind::Free,
            Some(_) if word == "fn" && has_self(item) => Kind::Method,
            Some(_) => Kind::Associated,
        };
        let (file, line) = (file.to_owned(), item[at].span().start().line);
        self.all.push(Item { file, line, owner: owner.map(str::to_owned), name, kind, shown });
    }

    fn read_impl(&mut self, file: &Path, item: &[TokenTree]) {
        let Some((TokenTree::Group(body), head)) = item.split_last() else { return };
        let body: Vec<TokenTree> = body.stream().into_iter().collect();
        let head = &head[after_generics(head, 1)..];
        let owner = (!is_of_trait(head)).then(|| owner_of(head)).flatten();
        let mut at = 0;
        while at < body.len() {
            if let Some((content, after)) = attribute(&body, at) {
                at = if is_left_out(content) { after_item(&body, after) } else { after };
                continue;
            }
            let start = Start::of(&body, at);
            let Some(word) = word_at(&body, start.word) else {
                at += 1;
                continue;
            };
            let end = end_of(&body, start.word, &word);
            match &owner {
                Some(owner) if start.is_public => self.add(file, &body[start.word..end], Some(owner)),
                None if word == "type" => add_words(&body[start.word..end], &mut self.shown),
                _ => {}
            }
            at = end;
        }
        if owner.is_some() {
            add_words(
                item.split_last().map_or(&[], |(_, head)| &head[..after_generics(head, 1)]),
                &mut self.shown,
            );
        }
    }
}

/// Reports whether an attribute marks test code, or an item that is hidden on purpose.
fn is_left_out(content: &proc_macro2::Group) -> bool {
    let code: String = content.stream().to_string().split_whitespace().collect();
    is_for_tests(content) || code == "doc(hidden)"
}

/// The start of an item.
struct Start {
    /// Whether it is `pub`, and not only in a part of the crate.
    is_public: bool,
    /// The position of its keyword, such as `fn`, after `pub` and words such as `async`.
    word: usize,
}

impl Start {
    fn of(tokens: &[TokenTree], mut at: usize) -> Self {
        let mut is_public = false;
        if word_at(tokens, at).as_deref() == Some("pub") {
            is_public = true;
            at += 1;
            if let Some(TokenTree::Group(group)) = tokens.get(at) {
                let first = group.stream().into_iter().next().map(|token| text(&token));
                if matches!(first.as_deref(), Some("crate" | "super" | "self" | "in")) {
                    is_public = false;
                    at += 1;
                }
            }
        }
        while let Some(word) = word_at(tokens, at) {
            let next = word_at(tokens, at + 1);
            let is_literal = matches!(tokens.get(at + 1), Some(TokenTree::Literal(_)));
            match (word.as_str(), next.as_deref()) {
                ("const" | "async" | "unsafe" | "default" | "auto", Some(next)) if LEAD.contains(&next) => {
                    at += 1
                }
                ("extern", Some("fn")) => at += 1,
                ("extern", _) if is_literal && word_at(tokens, at + 2).as_deref() == Some("fn") => at += 2,
                _ => break,
            }
        }
        Self { is_public, word: at }
    }
}

/// Words that may follow a word such as `async` or `unsafe` at the start of an item.
const LEAD: [&str; 7] = ["async", "const", "extern", "fn", "impl", "trait", "unsafe"];

/// The position after the item whose keyword `word` is at `at`.
fn end_of(tokens: &[TokenTree], at: usize, word: &str) -> usize {
    let has_value = matches!(word, "const" | "static" | "type" | "use");
    let is_last = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace && !has_value,
        token => is_sign(Some(token), ";"),
    };
    tokens[at..].iter().position(is_last).map_or(tokens.len(), |length| at + length + 1)
}

fn has_self(function: &[TokenTree]) -> bool {
    let parameters = function.iter().find_map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => Some(group.stream()),
        _ => None,
    });
    // The first word that is neither `mut` nor a lifetime.
    let mut is_lifetime = false;
    for token in parameters.into_iter().flatten() {
        match &token {
            TokenTree::Ident(word) if !is_lifetime && word != "mut" => return word == "self",
            token => is_lifetime = is_sign(Some(token), "'"),
        }
    }
    false
}

/// The position after `<..>` if it starts at `at`, else `at`.
fn after_generics(tokens: &[TokenTree], at: usize) -> usize {
    if !is_sign(tokens.get(at), "<") {
        return at;
    }
    let mut depth = Depth::default();
    let end = tokens[at..].iter().position(|token| depth.step(token) && depth.angles == 0);
    end.map_or(tokens.len(), |length| at + length + 1)
}

/// The number of open `<`. The `>` of an arrow does not close one.
#[derive(Default)]
struct Depth {
    angles: usize,
    after_dash: bool,
}

impl Depth {
    /// Counts `token`, and reports whether it opens or closes one.
    fn step(&mut self, token: &TokenTree) -> bool {
        let sign = if matches!(token, TokenTree::Punct(_)) { text(token) } else { String::new() };
        let counts = sign == "<" || sign == ">" && !self.after_dash;
        if counts {
            self.angles = if sign == "<" { self.angles + 1 } else { self.angles.saturating_sub(1) };
        }
        self.after_dash = sign == "-";
        counts
    }
}

/// Reports whether the head is `Trait for Type`.
fn is_of_trait(head: &[TokenTree]) -> bool {
    let mut depth = Depth::default();
    head.iter().enumerate().any(|(at, token)| {
        depth.step(token);
        depth.angles == 0 && text(token) == "for" && !is_sign(head.get(at + 1), "<")
    })
}

/// The name of the type in a head such as `a::Type<T> where ..`.
fn owner_of(head: &[TokenTree]) -> Option<String> {
    let path = head.iter().take_while(|token| !is_sign(Some(token), "<") && text(token) != "where");
    path.filter(|token| matches!(token, TokenTree::Ident(_))).last().map(text)
}

/// Adds the words of the head and of the public fields of `item`, a struct.
fn add_words_of_fields(item: &[TokenTree], words: &mut BTreeSet<String>) {
    for token in item {
        let TokenTree::Group(group) = token else {
            add_words(std::slice::from_ref(token), words);
            continue;
        };
        let fields: Vec<TokenTree> = group.stream().into_iter().collect();
        for field in split_at_commas(&fields) {
            let mut at = 0;
            while let Some((_, after)) = attribute(field, at) {
                at = after;
            }
            let start = Start::of(field, at);
            if start.is_public {
                add_words(&field[start.word..], words);
            }
        }
    }
}

fn split_at_commas(tokens: &[TokenTree]) -> Vec<&[TokenTree]> {
    let mut depth = Depth::default();
    let is_end = |token: &TokenTree| {
        depth.step(token);
        depth.angles == 0 && is_sign(Some(token), ",")
    };
    tokens.split(is_end).filter(|field| !field.is_empty()).collect()
}

/// Adds all words, including those within groups.
fn add_words(tokens: &[TokenTree], words: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(_) => {
                words.insert(text(token));
            }
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                add_words(&inner, words);
            }
            _ => {}
        }
    }
}
