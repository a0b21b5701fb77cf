//! Names of states and kinds, in any spelling.

/// Reports whether `a` and `b` are the same name, as `PreparingRebalance` and `preparing-rebalance` are.
pub fn is_same_name(a: &str, b: &str) -> bool {
    let letters = |name: &str| {
        name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect::<String>()
    };
    letters(a) == letters(b)
}

/// Finds the name in `known` that equals `text`.
///
/// # Errors
/// The list of known names, if none matches.
pub fn one_of(known: &[&str], text: &str) -> Result<String, String> {
    let found = known.iter().find(|name| is_same_name(name, text));
    found.map(|name| (*name).to_owned()).ok_or_else(|| format!("expected one of {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_be_written_in_any_way() {
        for name in ["PreparingRebalance", "preparing-rebalance", "preparing_rebalance", "preparingrebalance"]
        {
            assert_eq!(one_of(&["Stable", "PreparingRebalance"], name), Ok("PreparingRebalance".to_owned()));
        }
        let error = one_of(&["Stable", "Empty"], "steady").unwrap_err();
        assert_eq!(error, "expected one of Stable, Empty");
    }
}
