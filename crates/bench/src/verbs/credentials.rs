//! Secret settings whose values are in a file or an environment variable, to keep them off the command line.
//!
//! `--set password-file=PATH` sets `password` to the content of the file, without its line end; `--set
//! password-env=NAME` to the value of the variable. The same works for `token`, `secret`, `nkey` and `creds`.
//! They are read once, where the command runs, and sent to agents as values.

use std::collections::BTreeMap;

use tailrace_cli::failure::{Failure, plain};

/// Settings that may come from elsewhere.
const NAMES: [&str; 5] = ["password", "token", "secret", "nkey", "creds"];

/// All settings, with the values from elsewhere filled in.
pub(super) fn resolve(set: &[(String, String)]) -> Result<BTreeMap<String, String>, Failure> {
    let mut resolved = BTreeMap::new();
    for (key, value) in set {
        let (name, value) = match elsewhere(key) {
            Some((name, "file")) => (name, from_file(key, value)?),
            Some((name, _)) => (name, from_environment(key, value)?),
            None => (key.as_str(), value.clone()),
        };
        // The last value of a name counts. But values from different places are an error.
        let comes_again = set.iter().any(|(other, _)| other != key && named(other) == name);
        if comes_again {
            return Err(format!(
                "{name} is set in two ways: expected one of {name}, {name}-file, {name}-env"
            )
            .into());
        }
        resolved.insert(name.to_owned(), value);
    }
    Ok(resolved)
}

/// Splits the key: `password-file` is `password` from a file.
fn elsewhere(key: &str) -> Option<(&str, &str)> {
    let (name, place) = key.rsplit_once('-')?;
    (NAMES.contains(&name) && ["file", "env"].contains(&place)).then_some((name, place))
}

fn named(key: &str) -> &str {
    elsewhere(key).map_or(key, |(name, _)| name)
}

fn from_file(key: &str, path: &str) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("{key}: cannot read {path}: {}", plain(&error)))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.is_empty() {
        return Err(format!("{key}: {path} is empty").into());
    }
    Ok(text.to_owned())
}

fn from_environment(key: &str, name: &str) -> Result<String, Failure> {
    std::env::var(name)
        .ok()
        .filter(|value| !value.is_empty())
        .ok_or_else(|| format!("{key}: the variable {name} is not set, or holds no text").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(values: &[(&str, &str)]) -> Result<BTreeMap<String, String>, String> {
        let values: Vec<_> =
            values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        resolve(&values).map_err(|error| error.to_string())
    }

    #[test]
    fn secrets_come_from_files_and_variables() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        std::fs::write(&path, "open sesame \r\n").unwrap();
        let path = path.to_str().unwrap();
        let found = set(&[("user", "u"), ("password-file", path), ("token-env", "PATH")]).unwrap();
        assert_eq!((found["user"].as_str(), found["password"].as_str()), ("u", "open sesame "));
        assert_eq!(found["token"], std::env::var("PATH").unwrap());
        // Files of other settings are left to their adapters.
        assert_eq!(set(&[("tls-key", path), ("colour-file", path)]).unwrap()["colour-file"], path);
        for (values, expected) in [
            (&[("password", "x"), ("password-file", path)][..], "password is set in two ways"),
            (&[("password-env", "PATH"), ("password-file", path)], "password is set in two ways"),
            (&[("password-file", "/nowhere")], "password-file: cannot read /nowhere: no such file"),
            (&[("password-file", "/dev/null")], "password-file: /dev/null is empty"),
            (&[("token-env", "TAILRACE_NO_SUCH")], "token-env: the variable TAILRACE_NO_SUCH is not set"),
        ] {
            let error = set(values).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
