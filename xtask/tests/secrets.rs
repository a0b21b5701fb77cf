//! Types that hold secrets cannot be printed: a password that `{:?}` shows gets into a log one day
//! (CVE-2026-33558).
//!
//! The check reads the sources of all crates. A type with a field of text or bytes whose name is that of a
//! secret must derive neither `Debug` nor `Serialize`. It may have a `Debug` of its own, which leaves secrets
//! out: a test of the type shows that. And no type of the list below may have any `Debug` or `Display`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/tokens.rs"]
#[expect(dead_code, reason = "only a part is needed here")]
mod tokens;

use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use tokens::{attribute, is_sign, text, word_at};

/// Words in the names of fields that hold secrets.
const SECRET_WORDS: [&str; 14] = [
    "auth_bytes",
    "auth_token",
    "bearer",
    "hmac",
    "jwt",
    "pass",
    "password",
    "private_key",
    "proof",
    "salted_password",
    "secret",
    "secret_key",
    "seed",
    "signature",
];

/// Types of fields that show their content.
const SHOWING: [&str; 7] = ["String", "str", "Bytes", "BytesMut", "Vec", "u8", "Cow"];

/// Types that derive `Debug` or `Serialize` although a field looks like a secret: crate, type, why.
const LISTED: [(&str, &str, &str); 4] = [
    ("node", "JoinError", "the seed is the address of a node"),
    ("nats", "CookieNames", "the names of cookies, not what is in them"),
    ("nats-wire", "ConnectOptions", "a client writes its CONNECT; its own Debug hides secrets"),
    ("identity", "ConnectOptions", "the question to a callout, which is sealed or stays in an account"),
];

/// Types that nothing may print: crate, type.
const NEVER_PRINTED: [(&str, &str); 8] = [
    ("identity", "TokenSecret"),
    ("identity", "SecretKey"),
    ("identity", "Secret"),
    ("identity", "CurveKey"),
    ("identity", "SigningKey"),
    ("nats", "Cookies"),
    ("bench", "Login"),
    ("node", "Delegation"),
];

/// A type, and what its attributes derive.
#[derive(Debug)]
struct Found {
    krate: String,
    name: String,
    derives: Vec<String>,
    /// Fields that look like secrets.
    secrets: Vec<String>,
}

#[test]
fn types_with_secrets_derive_neither_debug_nor_serialize() {
    let all = types();
    assert!(all.len() > 1_000, "the sources were read: {} types", all.len());
    let prints = |found: &&Found| found.derives.iter().any(|name| name == "Debug" || name == "Serialize");
    let is_listed =
        |found: &&Found| LISTED.iter().any(|(krate, name, _)| found.krate == *krate && found.name == *name);
    let wrong: Vec<_> = all
        .iter()
        .filter(|found| !found.secrets.is_empty() && prints(found) && !is_listed(found))
        .map(|found| format!("{}: {} ({})", found.krate, found.name, found.secrets.join(", ")))
        .collect();
    assert!(wrong.is_empty(), "these print a secret:\n{}\n", wrong.join("\n"));
    for (krate, name, _) in LISTED {
        let is_needed = |found: &&Found| {
            found.krate == krate && found.name == name && !found.secrets.is_empty() && prints(found)
        };
        assert!(all.iter().any(|found| is_needed(&found)), "{krate}: {name} need not be listed");
    }
}

#[test]
fn keys_and_credentials_have_no_text_at_all() {
    let (all, implemented) = (types(), implementations());
    for (krate, name) in NEVER_PRINTED {
        let mut same = all.iter().filter(|found| found.krate == krate && found.name == name).peekable();
        assert!(same.peek().is_some(), "there is no {krate}: {name}");
        for found in same {
            let shows = |derived: &&String| ["Debug", "Serialize"].contains(&derived.as_str());
            assert!(!found.derives.iter().any(|derived| shows(&derived)), "{krate}: {name} can be printed");
        }
        for shown in ["Debug", "Display", "Serialize"] {
            let one = (krate.to_owned(), shown.to_owned(), name.to_owned());
            assert!(!implemented.contains(&one), "{krate}: {name} has {shown}");
        }
    }
}

#[test]
fn a_planted_secret_is_found() {
    let found = |code: &str| {
        let mut all = Vec::new();
        collect("x", &code.parse().unwrap(), &mut all);
        all.into_iter()
            .map(|found| (found.derives.contains(&"Debug".to_owned()), found.secrets.len()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found("#[derive(Clone, Debug)] pub(crate) struct A { user: String, password: Option<String> }"),
        [(true, 1)]
    );
    assert_eq!(
        found("#[derive(Debug)] struct A<'a> { pub hmac: &'a [u8], #[x(y)] pub jwt: std::string::String }"),
        [(true, 2)]
    );
    assert_eq!(found("#[derive(Clone)] struct A { password: String }"), [(false, 1)]);
    assert_eq!(
        found("#[derive(Debug)] struct A { password: Secret, passwords: usize, seed: u64 }"),
        [(true, 0)]
    );
    assert_eq!(found("#[derive(Debug)] enum A { B { secret: Bytes }, C(String) }"), [(true, 1)]);
    assert_eq!(found("mod m { #[derive(Debug)] struct A { signature: Box<[u8]> } }"), [(true, 1)]);
}

fn types() -> Vec<Found> {
    let mut all = Vec::new();
    for (krate, tokens) in sources() {
        collect(&krate, &tokens, &mut all);
    }
    all
}

/// Crate, trait and type of each `impl .. Trait for Type`.
fn implementations() -> std::collections::BTreeSet<(String, String, String)> {
    let mut all = std::collections::BTreeSet::new();
    for (krate, tokens) in sources() {
        let tokens: Vec<_> = tokens.into_iter().collect();
        for at in 1..tokens.len() {
            let (Some(of), Some("for")) = (word_at(&tokens, at - 1), word_at(&tokens, at).as_deref()) else {
                continue;
            };
            if let Some(name) = word_at(&tokens, at + 1) {
                all.insert((krate.clone(), of, name));
            }
        }
    }
    all
}

/// The sources of all crates, without tests, generated messages and what only develops.
fn sources() -> Vec<(String, TokenStream)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("crates");
    let mut all = Vec::new();
    for krate in std::fs::read_dir(root).unwrap() {
        let krate = krate.unwrap();
        let name = krate.file_name().into_string().unwrap();
        if ["sim", "subjects-bench"].contains(&name.as_str()) {
            continue;
        }
        let mut files = Vec::new();
        files_below(&krate.path().join("src"), &mut files);
        for file in files {
            let code = std::fs::read_to_string(&file).unwrap();
            all.push((name.clone(), code.parse().unwrap_or_else(|_| panic!("{}", file.display()))));
        }
    }
    all
}

fn files_below(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            files_below(&path, files);
        } else if name.ends_with(".rs") && !["tests.rs", "testing.rs"].contains(&name.as_str()) {
            files.push(path);
        }
    }
}

fn collect(krate: &str, tokens: &TokenStream, all: &mut Vec<Found>) {
    let tokens: Vec<_> = tokens.clone().into_iter().collect();
    let mut derives = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if let Some((group, after)) = attribute(&tokens, at) {
            let content: Vec<_> = group.stream().into_iter().collect();
            if word_at(&content, 0).as_deref() == Some("derive")
                && let Some(TokenTree::Group(list)) = content.get(1)
            {
                derives.extend(list.stream().into_iter().map(|token| text(&token)));
            }
            at = after;
            continue;
        }
        match (word_at(&tokens, at).as_deref(), &tokens[at]) {
            (Some("struct" | "enum"), _) => {
                let name = word_at(&tokens, at + 1).unwrap_or_default();
                let body = tokens[at..].iter().find_map(|token| match token {
                    TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                        Some(Some(group.stream()))
                    }
                    TokenTree::Punct(sign) if sign.as_char() == ';' => Some(None),
                    _ => None,
                });
                let mut secrets = Vec::new();
                fields(&body.flatten().unwrap_or_default(), &mut secrets);
                let derives = std::mem::take(&mut derives);
                all.push(Found { krate: krate.to_owned(), name, derives, secrets });
            }
            // What is in a module, a function or a macro.
            (_, TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                collect(krate, &group.stream(), all);
                derives.clear();
            }
            _ => {}
        }
        at += 1;
    }
}

/// Adds the fields that look like secrets, also those of variants.
fn fields(body: &TokenStream, secrets: &mut Vec<String>) {
    let tokens: Vec<_> = body.clone().into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = token
            && group.delimiter() == Delimiter::Brace
        {
            fields(&group.stream(), secrets);
        }
        let (Some(name), true) = (word_at(&tokens, at), is_sign(tokens.get(at + 1), ":")) else { continue };
        let is_path = is_sign(tokens.get(at + 2), ":");
        if is_path || !SECRET_WORDS.contains(&name.as_str()) {
            continue;
        }
        let kind = tokens[at + 2..].iter().take_while(|token| !is_sign(Some(token), ","));
        if kind.flat_map(words).any(|word| SHOWING.contains(&word.as_str())) {
            secrets.push(name);
        }
    }
}

/// The words of a type.
fn words(token: &TokenTree) -> Vec<String> {
    match token {
        TokenTree::Group(group) => group.stream().into_iter().flat_map(|token| words(&token)).collect(),
        token => vec![text(token)],
    }
}
