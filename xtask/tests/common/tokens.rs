//! Helpers for slices of tokens.

use proc_macro2::{Delimiter, Group, Spacing, TokenTree};

/// The imports of one `use`.
#[derive(Default)]
pub(crate) struct Imports {
    /// Path and name of each import.
    pub(crate) names: Vec<(Vec<String>, String)>,
    pub(crate) globs: Vec<Vec<String>>,
    pub(crate) re_exported: bool,
}

/// The text of a word or a single sign, without `r#`. For a group, the sign that opens it.
pub(crate) fn text(token: &TokenTree) -> String {
    match token {
        TokenTree::Ident(ident) => ident.to_string().trim_start_matches("r#").to_owned(),
        TokenTree::Punct(sign) => sign.as_char().to_string(),
        TokenTree::Literal(_) => String::new(),
        TokenTree::Group(group) => match group.delimiter() {
            Delimiter::Brace => "{".to_owned(),
            Delimiter::Parenthesis => "(".to_owned(),
            Delimiter::Bracket => "[".to_owned(),
            Delimiter::None => String::new(),
        },
    }
}

/// The word at `at`, if there is one.
pub(crate) fn word_at(tokens: &[TokenTree], at: usize) -> Option<String> {
    tokens.get(at).filter(|token| matches!(token, TokenTree::Ident(_))).map(text)
}

/// Reports whether the token is this sign.
pub(crate) fn is_sign(token: Option<&TokenTree>, sign: &str) -> bool {
    token.is_some_and(|token| matches!(token, TokenTree::Punct(_)) && text(token) == sign)
}

/// Reports whether `::` is at `at`.
pub(crate) fn ends_chain(tokens: &[TokenTree], at: usize) -> bool {
    let is_joint = matches!(tokens.get(at), Some(TokenTree::Punct(sign)) if sign.spacing() == Spacing::Joint);
    is_joint && is_sign(tokens.get(at), ":") && is_sign(tokens.get(at + 1), ":")
}

/// The content of the attribute at `at`, and the position after it.
pub(crate) fn attribute(tokens: &[TokenTree], at: usize) -> Option<(&Group, usize)> {
    if tokens.get(at).map(text)? != "#" {
        return None;
    }
    let content = at + 1 + usize::from(is_sign(tokens.get(at + 1), "!"));
    match tokens.get(content)? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => Some((group, content + 1)),
        _ => None,
    }
}

/// Reports whether the attribute is `[test]`, `[cfg(test)]` or `[cfg(all(test, ..))]`, so that the code after
/// it only exists in tests.
pub(crate) fn is_for_tests(attribute: &Group) -> bool {
    let code: String = attribute.stream().to_string().split_whitespace().collect();
    code == "test" || code == "cfg(test)" || code.starts_with("cfg(all(test,")
}

/// The position after the item, field or statement at `at`.
pub(crate) fn after_item(tokens: &[TokenTree], mut at: usize) -> usize {
    while let Some((_, after)) = attribute(tokens, at) {
        at = after;
    }
    // A comma ends a field, a variant or an arm. In the head of an item, it may separate generics.
    let is_item = tokens[at..].iter().map(text).find(|text| text != "pub" && text != "(");
    let is_item = is_item.is_some_and(|word| ITEM.contains(&word.as_str()));
    for (number, token) in tokens[at..].iter().enumerate() {
        match text(token).as_str() {
            ";" | "{" => return at + number + 1,
            "," if !is_item => return at + number + 1,
            _ => {}
        }
    }
    tokens.len()
}

const ITEM: [&str; 16] = [
    "async",
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
    "unsafe",
    "use",
    "let",
];

/// The imports of the `use` at `at`, and the position after it. `None` if the word has another meaning, or if
/// the path starts with `::` and so is in another crate.
pub(crate) fn import(tokens: &[TokenTree], at: usize) -> Option<(Imports, usize)> {
    let length = tokens[at..].iter().position(|token| text(token) == ";")?;
    let tree = &tokens[at + 1..at + length];
    if matches!(tree.first().map(text).as_deref(), None | Some("<" | ":")) {
        return None;
    }
    let before = at.checked_sub(1).map(|before| text(&tokens[before]));
    let mut found =
        Imports { re_exported: matches!(before.as_deref(), Some("pub" | "(")), ..Imports::default() };
    add_trees(tree, &[], &mut found);
    Some((found, at + length + 1))
}

fn add_trees(tokens: &[TokenTree], prefix: &[String], found: &mut Imports) {
    for tree in tokens.split(|token| text(token) == ",").filter(|tree| !tree.is_empty()) {
        add_tree(tree, prefix.to_vec(), found);
    }
}

fn add_tree(tree: &[TokenTree], mut path: Vec<String>, found: &mut Imports) {
    let mut name = None;
    let mut tokens = tree.iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => {
                let inner: Vec<_> = group.stream().into_iter().collect();
                return add_trees(&inner, &path, found);
            }
            TokenTree::Ident(word) if word == "as" => name = tokens.next().map(text),
            TokenTree::Ident(_) => path.push(text(token)),
            TokenTree::Punct(sign) if sign.as_char() == '*' => return found.globs.push(path),
            _ => {}
        }
    }
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
    found.names.push((path, name));
}
