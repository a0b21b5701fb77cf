//! Which offset each partition is set to.

use std::collections::BTreeMap;
use std::path::Path;

use tailrace_cli::failure::{Failure, note, plain};
use tailrace_cli::text::time::now_ms;

use super::arguments::ResetArguments;
use super::scope::Scope;
use crate::client::{Cluster, OffsetQuery, Position, list_offsets};

/// Largest size of a file of offsets.
const FILE_BYTES_MAX: u64 = 64 << 20;

type Offsets = BTreeMap<Position, i64>;

/// How to find the offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Earliest,
    Latest,
    Current,
    Offset(i64),
    Shift(i64),
    Time(i64),
}

fn rule(arguments: &ResetArguments) -> Rule {
    if let Some(ms) = arguments.to_datetime {
        return Rule::Time(ms);
    }
    if let Some(age) = arguments.by_duration {
        let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        return Rule::Time(now_ms().saturating_sub(age_ms));
    }
    match (arguments.to_offset, arguments.shift_by) {
        (Some(offset), _) => Rule::Offset(offset),
        (None, Some(count)) => Rule::Shift(count),
        (None, None) if arguments.to_earliest => Rule::Earliest,
        (None, None) if arguments.to_latest => Rule::Latest,
        (None, None) => Rule::Current,
    }
}

/// The new offset of each partition in `scope`. `current` holds the group's offsets. Offsets from a file,
/// `named`, win.
pub(super) async fn offsets(
    cluster: &mut Cluster,
    arguments: &ResetArguments,
    scope: &Scope,
    current: &Offsets,
    named: Option<&Offsets>,
) -> Result<Offsets, Failure> {
    let rule = if named.is_some() { Rule::Current } else { rule(arguments) };
    let mut offsets = Offsets::new();
    for (topic, partitions) in scope.by_topic() {
        let earliest = list_offsets(cluster, topic, &partitions, OffsetQuery::Earliest, false).await?;
        let latest = list_offsets(cluster, topic, &partitions, OffsetQuery::Latest, false).await?;
        let by_time = match rule {
            Rule::Time(ms) => {
                list_offsets(cluster, topic, &partitions, OffsetQuery::AtTime(ms), false).await?
            }
            _ => BTreeMap::new(),
        };
        for partition in partitions {
            let of = |offsets: &BTreeMap<i32, i64>| offsets.get(&partition).copied().unwrap_or(0);
            let (earliest, latest) = (of(&earliest), of(&latest));
            let position = (topic.name.clone(), partition);
            let is_at = named.unwrap_or(current).get(&position).copied();
            let wanted = match rule {
                Rule::Earliest => earliest,
                Rule::Latest => latest,
                Rule::Offset(offset) => offset,
                Rule::Time(_) => Some(of(&by_time)).filter(|&offset| offset >= 0).unwrap_or(latest),
                // As in Kafka's tool: a partition without an offset is set to the end.
                Rule::Current => is_at.unwrap_or(latest),
                Rule::Shift(count) => is_at
                    .ok_or_else(|| {
                        format!("the group has no offset in {}-{partition} to shift; choose --to-offset or another target", topic.name)
                    })?
                    .saturating_add(count),
            };
            let inside = wanted.clamp(earliest, latest.max(earliest));
            if inside != wanted {
                note(&format!(
                    "{}-{partition} holds offsets {earliest} up to, not including, {latest}: {inside} is used instead of {wanted}",
                    topic.name
                ));
            }
            offsets.insert(position, inside);
        }
    }
    Ok(offsets)
}

/// Reads lines of TOPIC,PARTITION,OFFSET. `-` is standard input.
pub(super) fn read_file(path: &Path) -> Result<Offsets, Failure> {
    use std::io::Read as _;
    let failed = |error: &std::io::Error| format!("cannot read {}: {}", path.display(), plain(error));
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().lock().take(FILE_BYTES_MAX).read_to_string(&mut text)
    } else {
        let file = std::fs::File::open(path).map_err(|error| failed(&error))?;
        file.take(FILE_BYTES_MAX).read_to_string(&mut text)
    };
    read.map_err(|error| failed(&error))?;
    parse_lines(&text).map_err(|(line, reason)| format!("{}, line {line}: {reason}", path.display()).into())
}

fn parse_lines(text: &str) -> Result<Offsets, (usize, String)> {
    let mut offsets = Offsets::new();
    for (number, line) in text.lines().enumerate() {
        // Kafka's tool puts names in quotation marks.
        let line = line.replace('"', "");
        if line.trim().is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let parsed = match fields[..] {
            [topic, partition, offset] if !topic.is_empty() => {
                partition.parse::<i32>().ok().zip(offset.parse::<i64>().ok()).map(|(p, o)| (topic, p, o))
            }
            _ => None,
        };
        let Some((topic, partition, offset)) = parsed.filter(|&(_, p, o)| p >= 0 && o >= 0) else {
            return Err((number + 1, "expected TOPIC,PARTITION,OFFSET".to_owned()));
        };
        if offsets.insert((topic.to_owned(), partition), offset).is_some() {
            return Err((number + 1, format!("{topic},{partition} comes twice")));
        }
    }
    if offsets.is_empty() {
        return Err((1, "there are no offsets in it".to_owned()));
    }
    Ok(offsets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_offsets() {
        let expected = Offsets::from([(("a".to_owned(), 0), 5), (("b.c".to_owned(), 1), 0)]);
        assert_eq!(parse_lines("a,0,5\n\n\"b.c\", 1 ,0\n"), Ok(expected));
        for (text, line) in [
            ("", 1),
            ("a,0", 1),
            ("a,0,1\na,0,2", 2),
            ("a,x,1", 1),
            ("a,0,1\nb,0,-1", 2),
            (",0,1", 1),
            ("a,0,1,2", 1),
        ] {
            assert_eq!(parse_lines(text).unwrap_err().0, line, "{text}");
        }
    }
}
