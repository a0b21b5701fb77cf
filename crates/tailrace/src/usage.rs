//! Parses the command line, and reports usage errors.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};
use tailrace_cli::failure::{self, Status};
use tailrace_cli::output::{Output, asks_for_json};

use crate::args::Arguments;

/// Parses the command line. On `Err`, the error message or the text that `--help` asks for has already been
/// printed.
pub(crate) fn parse() -> Result<Arguments, ExitCode> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let asks_for_json = asks_for_json(&words);
    read(words).map_err(|error| {
        if !error.use_stderr() {
            // Help, or the version. It is no failure if nobody reads it.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        if asks_for_json {
            failure::speak_json();
            failure::complain_with(&first_paragraph(&explained(&error)), Status::Usage);
        } else {
            use std::io::Write as _;
            let _ = write!(std::io::stderr(), "{}", explained(&error));
        }
        Status::Usage.into()
    })
}

/// Parses the words. A negative number after an option is the option's value. clap may take such a number for
/// another option and suggest `-- -5`, which would make it a positional argument.
fn read(mut words: Vec<OsString>) -> Result<Arguments, clap::Error> {
    loop {
        let error = match Arguments::command().try_get_matches_from(&words) {
            Ok(matches) => {
                if output_of(&matches) == Some(Output::Json) {
                    failure::speak_json();
                }
                return Arguments::from_arg_matches(&matches);
            }
            Err(error) => error,
        };
        match joined(&words, &error) {
            Some(fewer) => words = fewer,
            None => return Err(error),
        }
    }
}

/// The verb's output format, if it has a choice.
fn output_of(mut matches: &ArgMatches) -> Option<Output> {
    while let Some((_, inner)) = matches.subcommand() {
        matches = inner;
    }
    matches.try_get_one::<Output>("output").ok().flatten().copied()
}

/// The words, with the negative number that `error` is about joined to the option before it. `None` if
/// `error` is about something else.
fn joined(words: &[OsString], error: &clap::Error) -> Option<Vec<OsString>> {
    let Some(ContextValue::String(found)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::UnknownArgument || !is_negative(OsStr::new(found)) {
        return None;
    }
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let at = (2..end).find(|&at| {
        let word = words[at].to_string_lossy();
        is_negative(&words[at]) && word.starts_with(found.as_str()) && is_option(&words[at - 1])
    })?;
    let mut option = words[at - 1].clone();
    option.push("=");
    option.push(&words[at]);
    let mut fewer = words.to_vec();
    fewer.splice(at - 1..=at, [option]);
    Some(fewer)
}

fn is_negative(word: &OsStr) -> bool {
    matches!(word.as_encoded_bytes(), [b'-', b'0'..=b'9' | b'.', ..])
}

/// Reports whether the word is an option such as `-p` or `--partition`, without a value attached.
fn is_option(word: &OsStr) -> bool {
    let bytes = word.as_encoded_bytes();
    bytes.len() > 1 && bytes[0] == b'-' && !is_negative(word) && !bytes.contains(&b'=')
}

/// clap's message, with Rust's phrases for bad numbers replaced.
fn explained(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let is_below_0 = matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value))
        if value.strip_prefix('-').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit())));
    let expected = if is_below_0 { "it must be 0 or more" } else { "expected a whole number" };
    text.replace("invalid digit found in string", expected)
        .replace("number too large to fit in target type", "the number is too large")
}

/// The text before the usage.
fn first_paragraph(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let end = text.find("\n\nUsage:").or_else(|| text.find("\n\nFor more")).unwrap_or(text.len());
    text[..end].split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        explained(&read(words).unwrap_err())
    }

    #[test]
    fn the_command_line_is_built_without_contradictions() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn negative_values_are_refused_for_what_they_are() {
        for (line, expected) in [
            ("tailrace consume t --count -5", "invalid value '-5' for '--count <N>': it must be 0 or more"),
            ("tailrace consume t -c -5", "invalid value '-5' for '--count <N>': it must be 0 or more"),
            (
                "tailrace consume t -p -1",
                "invalid value '-1' for '--partition <N>': -1 is not in 0..=2147483647",
            ),
            (
                "tailrace produce t -p -1",
                "invalid value '-1' for '--partition <N>': -1 is not in 0..=2147483647",
            ),
            (
                "tailrace consume t --timeout -5s",
                "invalid value '-5s' for '--timeout <TIME>': '-5s' is not a time",
            ),
            ("tailrace consume t --fetch-bytes -1KiB", "invalid value '-1KiB' for '--fetch-bytes <BYTES>'"),
            (
                "tailrace group reset g -t t --to-offset -5",
                "invalid value '-5' for '--to-offset <N>': -5 is not",
            ),
            ("tailrace cluster decommission -1", "invalid value '-1' for '<NODE>': -1 is not in 0.."),
            (
                "tailrace cluster reassign -t t -r 1,-2",
                "invalid value '-2' for '--replicas <NODES>': -2 is not",
            ),
            ("tailrace txn abort --topic t --partition 0 --start-offset -5", "-5 is not in 0.."),
        ] {
            let text = wrong(line);
            assert!(text.contains(expected), "{line}: {text}");
            assert!(!text.contains("tip:"), "{line}: {text}");
        }
    }

    #[test]
    fn negative_values_that_are_allowed_are_values() {
        for line in [
            "tailrace group reset g -t t --shift-by -5",
            "tailrace group reset g -t t --to-datetime -1h",
            "tailrace consume t --from -10 -c 1",
            "tailrace produce t --key -5",
            "tailrace produce t --key -5x --null -1",
            "tailrace pub a -5",
        ] {
            read(line.split(' ').map(OsString::from).collect()).unwrap();
        }
    }

    #[test]
    fn an_unknown_option_is_what_is_named() {
        assert!(wrong("tailrace consume t --nope -5").contains("unexpected argument '--nope'"));
        assert!(wrong("tailrace consume t --follow -5").contains("'--follow'"));
        // The tip is right here: `-5` would be a second topic.
        assert!(wrong("tailrace consume t -5").contains("'-- -5'"));
    }

    #[test]
    fn the_first_paragraph_is_what_is_wrong() {
        let text = first_paragraph(&wrong("tailrace top --sort nope"));
        assert!(
            text.starts_with("invalid value 'nope' for '--sort <SORT>' [possible values: rate,"),
            "{text}"
        );
        assert!(!text.contains("For more"), "{text}");
    }
}
