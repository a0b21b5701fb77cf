//! The packages of a workspace: their files, and which package depends on which.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};

use crate::tokens::{attribute, is_for_tests, is_sign, word_at};

/// One package.
pub(crate) struct Package {
    /// The name in `Cargo.toml`, without `tailrace-`.
    pub(crate) name: String,
    pub(crate) files: Vec<File>,
    /// The name in `Cargo.toml`.
    package_name: String,
    /// The names of the packages that it depends on, directly or through others.
    depends_on: BTreeSet<String>,
}

/// A Rust file.
pub(crate) struct File {
    /// The path from the folder of its package.
    pub(crate) path: PathBuf,
    pub(crate) part: Part,
    pub(crate) tokens: TokenStream,
}

/// The part of a package that a file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Library,
    /// A generated file of the library.
    Generated,
    /// A module of the library that exists only in tests.
    UnitTests,
    /// `src/main.rs`, `src/bin`, `build.rs`, examples, benchmarks, fuzz targets.
    Program,
    /// The folder `tests`.
    Tests,
}

impl Package {
    /// Reads all packages of the workspace in `root`: its `crates`, `xtask` with its two
    /// programs, and `fuzz`.
    ///
    /// # Panics
    /// If a file cannot be read or is not Rust.
    pub(crate) fn read_all(root: &Path) -> Vec<Self> {
        let crates = root.join("crates").read_dir().unwrap().map(|entry| entry.unwrap().path());
        let folders =
            crates.chain(["xtask", "xtask/bench", "xtask/mutants", "fuzz"].map(|name| root.join(name)));
        let mut folders: Vec<PathBuf> = folders.filter(|folder| folder.join("Cargo.toml").exists()).collect();
        folders.sort();
        let mut packages: Vec<Self> = folders.iter().map(|folder| Self::read(folder)).collect();
        for _ in 0..packages.len() {
            let known: Vec<_> = packages
                .iter()
                .map(|package| (package.package_name.clone(), package.depends_on.clone()))
                .collect();
            for package in &mut packages {
                let more = known.iter().filter(|(name, _)| package.depends_on.contains(name));
                let more: Vec<String> = more.flat_map(|(_, depends_on)| depends_on.iter().cloned()).collect();
                package.depends_on.extend(more);
            }
        }
        packages
    }

    fn read(folder: &Path) -> Self {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let package_name = manifest.lines().find_map(|line| line.strip_prefix("name = ")).unwrap();
        let package_name = package_name.trim_matches('"').to_owned();
        // The line of a dependency starts with its name.
        let names = manifest.lines().map(|line| {
            line.split(|sign: char| sign != '-' && !sign.is_alphanumeric())
                .next()
                .unwrap_or_default()
                .to_owned()
        });
        let mut files: Vec<File> = rust_files(folder).iter().map(|file| File::read(folder, file)).collect();
        let of_tests: Vec<PathBuf> = files.iter().flat_map(File::modules_for_tests).collect();
        for file in files.iter_mut().filter(|file| file.part == Part::Library) {
            let path = file.path.with_extension("");
            if of_tests.iter().any(|module| path.starts_with(module)) {
                file.part = Part::UnitTests;
            }
        }
        Self {
            name: package_name.strip_prefix("tailrace-").unwrap_or(&package_name).to_owned(),
            package_name,
            depends_on: names.filter(|name| !name.is_empty()).collect(),
            files,
        }
    }

    pub(crate) fn has_library(&self) -> bool {
        self.files.iter().any(|file| file.path == Path::new("src/lib.rs"))
    }

    /// Reports whether `other` is another package that can use this one.
    pub(crate) fn can_be_used_by(&self, other: &Self) -> bool {
        self.name != other.name && other.depends_on.contains(&self.package_name)
    }

    /// Its files that belong to one of `parts`.
    pub(crate) fn files_of(&self, parts: &[Part]) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| parts.contains(&file.part))
    }
}

impl File {
    fn read(folder: &Path, file: &Path) -> Self {
        let code = std::fs::read_to_string(file).unwrap();
        let tokens = code.parse().unwrap_or_else(|error| panic!("{} is not Rust: {error}", file.display()));
        let path = file.strip_prefix(folder).unwrap().to_owned();
        let part = if path.starts_with("tests") {
            Part::Tests
        } else if !path.starts_with("src") || path == Path::new("src/main.rs") || path.starts_with("src/bin")
        {
            Part::Program
        } else if code.starts_with("// @generated") {
            Part::Generated
        } else {
            Part::Library
        };
        Self { path, part, tokens }
    }

    /// The modules that it declares only for tests, each as the path of its file without `.rs`.
    fn modules_for_tests(&self) -> Vec<PathBuf> {
        let tokens: Vec<TokenTree> = self.tokens.clone().into_iter().collect();
        let (mut modules, mut at) = (Vec::new(), 0);
        while at < tokens.len() {
            let mut path = None;
            let mut is_of_tests = false;
            while let Some((content, after)) = attribute(&tokens, at) {
                is_of_tests |= is_for_tests(content);
                path = path.or_else(|| path_in(content));
                at = after;
            }
            let is_module =
                word_at(&tokens, at).as_deref() == Some("mod") && is_sign(tokens.get(at + 2), ";");
            if let Some(name) = word_at(&tokens, at + 1).filter(|_| is_of_tests && is_module) {
                let folder = self.path.parent().unwrap();
                modules.push(match path {
                    Some(path) => folder.join(path).with_extension(""),
                    None => self.folder_of_modules().join(name),
                });
            }
            at += 1;
        }
        modules
    }

    fn folder_of_modules(&self) -> PathBuf {
        let is_root = self.path.ends_with("lib.rs") || self.path.ends_with("mod.rs");
        if is_root { self.path.parent().unwrap().to_owned() } else { self.path.with_extension("") }
    }
}

/// The value of `[path = ".."]`.
fn path_in(attribute: &proc_macro2::Group) -> Option<String> {
    let tokens: Vec<TokenTree> = attribute.stream().into_iter().collect();
    match tokens.as_slice() {
        [TokenTree::Ident(word), _, TokenTree::Literal(path)] if word == "path" => {
            Some(path.to_string().trim_matches('"').to_owned())
        }
        _ => None,
    }
}

/// The `.rs` files of the package in `folder`, in order. A folder with a manifest is a package of its own.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") && !path.join("Cargo.toml").exists() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}
