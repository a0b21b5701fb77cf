//! The page of metrics without the names that its reader may not describe.

use tailrace_node::access::DescribableTopics;

/// Labels whose values are names of users, groups or clients, or addresses of theirs. Their lines are for who
/// may DESCRIBE the cluster.
const NAMES: &[&str] = &["user", "principal", "client_id", "group", "account", "subject", "address"];

/// The label with the name of a topic.
const TOPIC: &str = "topic";

/// Removes the lines of topics that the reader may not describe, and of users.
pub(crate) fn without_names(page: &str, topics: &DescribableTopics) -> String {
    filtered(page, |topic| topics.has(topic))
}

fn filtered(page: &str, sees: impl Fn(&str) -> bool) -> String {
    // The lines of a topic follow each other.
    let mut last: Option<(String, bool)> = None;
    let mut sees_topic = |name: String| match &last {
        Some((known, sees)) if *known == name => *sees,
        _ => {
            let found = sees(&name);
            last = Some((name, found));
            found
        }
    };
    let mut kept = String::with_capacity(page.len());
    for line in page.split_inclusive('\n') {
        let is_kept = line.starts_with('#')
            || labels(line).into_iter().all(|(label, value)| match label {
                TOPIC => sees_topic(value),
                label => !NAMES.contains(&label),
            });
        if is_kept {
            kept.push_str(line);
        }
    }
    kept
}

/// Returns the labels of a line: `name{label="value",...} 1`. A value may have any characters: quotation
/// marks, backslashes and line feeds are escaped.
fn labels(line: &str) -> Vec<(&str, String)> {
    let Some((_, mut rest)) = line.split_once('{') else { return Vec::new() };
    let mut labels = Vec::new();
    while let Some((label, after)) = rest.split_once("=\"") {
        let (value, after) = value(after);
        labels.push((label.trim_start_matches(','), value));
        rest = after;
        if rest.starts_with('}') {
            break;
        }
    }
    labels
}

/// Returns a value without its escapes, and what follows its closing quotation mark.
fn value(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => match characters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, escaped)) => value.push(escaped),
                None => break,
            },
            character => value.push(character),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# HELP tailrace_log_end The end, of {topic=\"secret\"}.\n\
        # TYPE tailrace_log_end gauge\n\
        tailrace_log_end{topic=\"orders\",partition=\"0\"} 5\n\
        tailrace_log_end{topic=\"secret\",partition=\"0\"} 6\n\
        tailrace_log_end{partition=\"0\",topic=\"secret\"} 6\n\
        tailrace_log_end{reason=\"a}\\\"b=\\\\\",topic=\"secret\"} 6\n\
        tailrace_logins_total{mechanism=\"PLAIN\",result=\"failed\"} 7\n\
        tailrace_times_bucket{le=\"+Inf\"} 8\n\
        tailrace_quota{user=\"alice\"} 9\n\
        tailrace_quota{key=\"x\",client_id=\"app\"} 9\n\
        tailrace_up 1\n\
        # EOF\n";

    #[test]
    fn lines_of_hidden_topics_and_of_users_are_left_out() {
        let page = filtered(PAGE, |topic| topic == "orders");
        let expected: String = PAGE
            .split_inclusive('\n')
            .filter(|line| {
                let is_named = line.contains("alice") || line.contains("client_id");
                line.starts_with('#') || !(line.contains("secret") || is_named)
            })
            .collect();
        assert_eq!(page, expected);
        assert!(page.contains("orders") && page.contains("Inf") && page.ends_with("# EOF\n"));
    }

    #[test]
    fn escapes_do_not_hide_a_name() {
        for (name, escaped) in [("a\"b", r#"a\"b"#), ("a\\", r"a\\"), ("a\nb", r"a\nb"), ("}", "}")] {
            let line = format!("x{{other=\"}}\\\"\",topic=\"{escaped}\"}} 1\n");
            assert_eq!(labels(&line)[1], ("topic", name.to_owned()));
            assert_eq!(filtered(&line, |topic| topic != name), "");
            assert_eq!(filtered(&line, |topic| topic == name), line);
        }
        for line in ["x{topic=\"a", "x{", "x{}", "x{a} 1", ""] {
            let _ = labels(line);
        }
    }
}
