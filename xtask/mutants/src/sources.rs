//! The files of a crate that ship: those that its modules lead to, without tests.

use std::fs;
use std::path::{Path, PathBuf};

use syn::{Attribute, Item};

/// Conditions under which code ships and is compiled into tests. Code under any other has no mutants.
const SHIPPED: [&str; 4] = ["feature = \"raft\"", "unix", "target_os = \"linux\"", "not (shuttle)"];

/// A file of a crate, from the root of the workspace.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) code: syn::File,
}

/// Reads the files of the crate in `folder`, which is relative to `root`.
pub(crate) fn of_crate(root: &Path, folder: &str) -> Result<Vec<Source>, String> {
    let mut found = Vec::new();
    read(root, &Path::new(folder).join("src/lib.rs"), &mut found)?;
    Ok(found)
}

fn read(root: &Path, path: &Path, found: &mut Vec<Source>) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(root.join(path)).map_err(|error| told(&error))?;
    let code = syn::parse_file(&text).map_err(|error| told(&error))?;
    let modules = modules(&code.items, path, &inner_folder(path));
    found.push(Source { path: path.to_string_lossy().into_owned(), text, code });
    for candidates in modules {
        let module = candidates.iter().find(|path| root.join(path).is_file());
        let module = module.ok_or_else(|| told(&format!("no such module: {candidates:?}")))?;
        read(root, module, found)?;
    }
    Ok(())
}

/// The folder of the modules that a file declares.
fn inner_folder(path: &Path) -> PathBuf {
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("lib" | "mod" | "main") | None => folder,
        Some(stem) => folder.join(stem),
    }
}

/// The files in which each declared module may be.
fn modules(items: &[Item], file: &Path, folder: &Path) -> Vec<Vec<PathBuf>> {
    let mut found = Vec::new();
    for item in items {
        let Item::Mod(module) = item else { continue };
        if !ships(&module.attrs) {
            continue;
        }
        let name = module.ident.to_string();
        if let Some((_, items)) = &module.content {
            found.extend(modules(items, file, &folder.join(&name)));
        } else if let Some(path) = path_attribute(&module.attrs) {
            found.push(vec![file.parent().unwrap_or(Path::new("")).join(path)]);
        } else {
            found.push(vec![folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")]);
        }
    }
    found
}

fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

/// Whether code with these attributes is part of the program.
pub(crate) fn ships(attributes: &[Attribute]) -> bool {
    attributes.iter().all(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            SHIPPED.contains(&list.tokens.to_string().as_str())
        }
        syn::Meta::Path(path) => path.segments.last().is_none_or(|last| last.ident != "test"),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_tests_and_of_other_builds_are_left_out() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = root.path().join("a/src").join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        write(
            "lib.rs",
            "mod b; mod c; #[cfg(test)] mod d; #[path = \"x.rs\"] mod e; #[cfg(feature = \"raft\")] mod f;",
        );
        write("b.rs", "mod g; #[cfg(shuttle)] mod h;");
        write("b/g.rs", "");
        write("c/mod.rs", "mod i { mod j; }");
        write("c/i/j.rs", "");
        write("x.rs", "");
        write("f.rs", "");
        let found = of_crate(root.path(), "a").expect("a crate");
        let names: Vec<&str> = found.iter().map(|source| &source.path["a/src/".len()..]).collect();
        assert_eq!(names, ["lib.rs", "b.rs", "b/g.rs", "c/mod.rs", "c/i/j.rs", "x.rs", "f.rs"]);
    }
}
