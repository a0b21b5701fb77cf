//! Names of what a run creates on a system. Every name starts with [`PREFIX`], so that leftovers of a killed
//! run can be told from what belongs to others.

/// The start of every name. Run and connection follow, as numbers: `tailrace-bench.4711.0`.
pub(crate) const PREFIX: &str = "tailrace-bench";

/// The suffix that NSQ requires.
const EPHEMERAL: &str = "#ephemeral";

/// A subject, key, queue, channel or topic. `name` is that of run and connection, as in `4711.0`.
pub(super) fn dotted(name: &str) -> String {
    format!("{PREFIX}.{name}")
}

/// The same name for systems in which a dot has a meaning.
pub(super) fn dashed(name: &str) -> String {
    with_separator(name, "-")
}

/// The same name as levels of a topic.
pub(super) fn slashed(name: &str) -> String {
    with_separator(name, "/")
}

/// A topic or a channel of NSQ that disappears with its last client.
pub(super) fn ephemeral(name: &str) -> String {
    format!("{name}{EPHEMERAL}")
}

fn with_separator(name: &str, separator: &str) -> String {
    format!("{PREFIX}{separator}{}", name.replace('.', separator))
}

/// Reports whether a name is one of those above, and not another name with the same start.
pub(super) fn is_ours(name: &str) -> bool {
    let Some(rest) = name.strip_suffix(EPHEMERAL).unwrap_or(name).strip_prefix(PREFIX) else { return false };
    let Some(separator) = rest.chars().next().filter(|letter| ".-/".contains(*letter)) else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match rest[1..].split_once(separator) {
        Some((run, connection)) => is_number(run) && is_number(connection),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_names_are_told_from_others() {
        for name in [dotted("4711.0"), dashed("4711.0"), slashed("65535.300"), ephemeral(&dotted("7.0"))] {
            assert!(is_ours(&name), "{name}");
        }
        for name in [
            "tailrace-bench",
            "tailrace-bench.",
            "tailrace-bench.4711",
            "tailrace-bench.4711.",
            "tailrace-bench.4711.0.1",
            "tailrace-bench.4711-0",
            "tailrace-bench.results.1",
            "tailrace-benchmark.1.2",
            "bench.4711.0",
            "tailrace-bench.4711.0#durable",
            "#ephemeral",
            "my-tailrace-bench.1.2",
            "tailrace-bench-\u{e9}-0",
        ] {
            assert!(!is_ours(name), "{name}");
        }
    }
}
