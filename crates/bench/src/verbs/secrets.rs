//! Hides secrets, such as passwords, from results, reports and messages.
//!
//! They are recognised by the names next to them, and before the `@` of addresses. A secret without a name,
//! as in `-p WORD`, cannot be recognised. When in doubt, text is hidden.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The replacement for hidden text.
pub(super) const HIDDEN: &str = "***";

/// Parts of names whose values are hidden.
const NAMES: [&str; 6] = ["pass", "secret", "token", "key", "cred", "pwd"];

/// Reports whether a setting or an option of this name is secret.
pub(super) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    NAMES.iter().any(|part| name.contains(part))
}

/// A system's text without its secret settings, which it may repeat.
pub(super) fn without(settings: &BTreeMap<String, String>, text: &str) -> String {
    let secrets = settings.iter().filter(|(key, value)| is_secret(key) && !value.is_empty());
    secrets.fold(text.to_owned(), |text, (_, value)| text.replace(value, HIDDEN))
}

/// A command line without its secrets.
pub(super) fn words(words: &[String]) -> Vec<String> {
    let mut after_name = false;
    words
        .iter()
        .map(|word| {
            let shown = if after_name { HIDDEN.to_owned() } else { text(word) };
            after_name = names_the_next(word);
            shown
        })
        .collect()
}

/// Reports whether the word is an option like `--password`, whose value is the next word.
fn names_the_next(word: &str) -> bool {
    word.starts_with('-') && !word.contains('=') && !word.contains(char::is_whitespace) && is_secret(word)
}

/// A word, an address, or a script of several words, without its secrets.
pub(super) fn text(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut after_name = false;
    for (word, gap) in split(text) {
        let hidden = if after_name && !word.is_empty() { HIDDEN.to_owned() } else { one(word) };
        shown.push_str(&hidden);
        shown.push_str(gap);
        if !word.is_empty() {
            after_name = names_the_next(word);
        }
    }
    shown
}

/// Words, each with the blanks after it. Blanks in quotes belong to words.
fn split(text: &str) -> Vec<(&str, &str)> {
    let (mut parts, mut quote, mut begin, mut end) = (Vec::new(), None, 0, None);
    for (at, letter) in text.char_indices() {
        let is_gap = quote.is_none() && letter.is_whitespace();
        match (is_gap, end) {
            (true, None) => end = Some(at),
            (false, Some(stop)) => {
                parts.push((&text[begin..stop], &text[stop..at]));
                (begin, end) = (at, None);
            }
            _ => {}
        }
        quote = match quote {
            None if letter == '"' || letter == '\'' => Some(letter),
            Some(open) if open == letter => None,
            other => other,
        };
    }
    let stop = end.unwrap_or(text.len());
    parts.push((&text[begin..stop], &text[stop..]));
    parts
}

/// Hides the value in `--set=password=x`, and the part between colon and `@` in `nats://user:x@host`.
fn one(word: &str) -> String {
    for (at, _) in word.match_indices('=') {
        let name = word[..at].rsplit('=').next().unwrap_or_default();
        if is_secret(name) {
            return format!("{}={HIDDEN}", &word[..at]);
        }
    }
    let begin = word.find("://").map(|at| at + 3).or_else(|| word.find('=').map(|at| at + 1)).unwrap_or(0);
    if let Some(end) = word.rfind('@').filter(|end| *end > begin)
        && let Some(colon) = word[begin..end].find(':')
    {
        return format!("{}:{HIDDEN}{}", &word[..begin + colon], &word[end..]);
    }
    word.to_owned()
}

/// A plan's own text without its secrets.
pub(super) fn plan(plan: &str) -> String {
    let Ok(table) = DeTable::parse(plan) else { return plan.to_owned() };
    let mut hidden = Vec::new();
    hide_in_table(table.get_ref(), &mut hidden);
    hidden.sort_by_key(|(span, _)| span.start);
    let (mut shown, mut at) = (String::with_capacity(plan.len()), 0);
    for (span, value) in hidden {
        shown.push_str(&plan[at..span.start]);
        shown.push_str(&literal(&value));
        at = span.end;
    }
    shown + &plan[at..]
}

/// Ranges in a plan, and their replacements.
type Hidden = Vec<(Range<usize>, String)>;

fn hide_in_table(table: &DeTable<'_>, hidden: &mut Hidden) {
    for (key, value) in table {
        hide(key.get_ref(), value, hidden);
    }
}

fn hide(key: &str, value: &Spanned<DeValue<'_>>, hidden: &mut Hidden) {
    match value.get_ref() {
        DeValue::Table(table) => hide_in_table(table, hidden),
        _ if is_secret(key) => hidden.push((value.span(), HIDDEN.to_owned())),
        DeValue::Array(values) => {
            // Words of a command: each may name the next one.
            let found: Vec<String> =
                values.iter().map(|value| value.get_ref().as_str().unwrap_or_default().to_owned()).collect();
            for ((value, found), shown) in values.iter().zip(&found).zip(words(&found)) {
                match value.get_ref() {
                    DeValue::String(_) if *found != shown => hidden.push((value.span(), shown)),
                    DeValue::String(_) => {}
                    _ => hide(key, value, hidden),
                }
            }
        }
        DeValue::String(found) => {
            let shown = text(found);
            if **found != *shown {
                hidden.push((value.span(), shown));
            }
        }
        _ => {}
    }
}

/// A basic string of TOML.
fn literal(text: &str) -> String {
    let mut shown = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => shown.extend(['\\', letter]),
            letter if letter.is_control() => shown.push_str(&format!("\\u{:04X}", u32::from(letter))),
            letter => shown.push(letter),
        }
    }
    shown + "\""
}

/// The error about an invalid plan, without the line that toml would show.
pub(super) fn toml_error(plan: &str, error: &toml::de::Error) -> String {
    let Some(at) = error.span().map(|span| span.start.min(plan.len())) else {
        return error.message().to_owned();
    };
    let before = plan.get(..at).unwrap_or_default();
    let number = before.matches('\n').count() + 1;
    let line = plan.lines().nth(number - 1).unwrap_or_default();
    // A message may quote the value.
    let message = if is_secret(line) { "expected something else here" } else { error.message() };
    format!("line {number}: {message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_lose_their_secrets() {
        for (line, shown) in [
            (&["--set=password=p"][..], &["--set=password=***"][..]),
            (&["--set", "client.sasl.password=a=b"], &["--set", "client.sasl.password=***"]),
            (
                &["server", "--requirepass", "-hush", "--port", "1"],
                &["server", "--requirepass", "***", "--port", "1"],
            ),
            (&["java", "-Dapi.TOKEN=x", "-Dsize=3"], &["java", "-Dapi.TOKEN=***", "-Dsize=3"]),
            (&["--url", "amqp://me:hu:sh@h:5672/v"], &["--url", "amqp://me:***@h:5672/v"]),
            (&["--address=me:hush@h:1,me:hush2@h:2"], &["--address=me:***@h:2"]),
            (
                &["sh", "-c", "PGPASSWORD='hu sh'  psql --password hush  -c \"select 1\""],
                &["sh", "-c", "PGPASSWORD=***  psql --password ***  -c \"select 1\""],
            ),
            (
                &["--set=storage=file", "--rate=3000", "a@b", ""],
                &["--set=storage=file", "--rate=3000", "a@b", ""],
            ),
        ] {
            let line: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(words(&line), shown);
        }
    }

    #[test]
    fn plans_lose_their_secrets() {
        let text = "rounds = 2 # twice\n[[system]]\nsystem = 'rabbitmq'\nset = { user = 'u1', password = 'p-1' }\n\
            start = ['redis-server', '--requirepass', 'p-1-long', '--port', '2']\naddress = 'me:hush@h:1'\n\
            [[system]]\nsystem = 'kafka'\n[system.set]\n'client.sasl.password' = \"p-1\"\n";
        let shown = plan(text);
        assert_eq!(
            shown,
            "rounds = 2 # twice\n[[system]]\nsystem = 'rabbitmq'\nset = { user = 'u1', password = \"***\" }\n\
             start = ['redis-server', '--requirepass', \"***\", '--port', '2']\naddress = \"me:***@h:1\"\n\
             [[system]]\nsystem = 'kafka'\n[system.set]\n'client.sasl.password' = \"***\"\n"
        );
        assert_eq!(plan(&shown), shown);
        for secret in ["'s'", r#""hu\"sh""#, "5", "['a', 'b']", "\"\"\"\nlong\n\"\"\""] {
            let shown = plan(&format!("rounds = 2\nname = 'systems'\n[set]\npassword = {secret} # s\n"));
            assert_eq!(shown, "rounds = 2\nname = 'systems'\n[set]\npassword = \"***\" # s\n");
        }
        let script = "start = ['sh', '-c', '''exec \"x\" --token=\\t\n y''']";
        assert_eq!(plan(script), r#"start = ['sh', '-c', "exec \"x\" --token=***\u000A y"]"#);
        assert_eq!(plan("no plan ="), "no plan =");
    }

    #[test]
    fn errors_do_not_show_the_line() {
        for (text, shown) in [
            ("rounds = 2\npassword = 'hush' x\n", "line 2: expected something else here"),
            ("rounds = 2\nname = x\n", "line 2: "),
        ] {
            let error = text.parse::<toml::Table>().unwrap_err();
            let found = toml_error(text, &error);
            assert!(found.starts_with(shown) && !found.contains("hush"), "{found}");
        }
    }
}
