//! Checks that no NATS subject is captured by two topics.
//!
//! Only the changed topic is compared with all others. Its patterns form a tree by words, and each pattern of
//! another topic walks down that tree. The time grows with the number of patterns, not with the number of
//! pairs.

use std::collections::BTreeMap;

use tailrace_config::TopicConfig;
use tailrace_subjects::{Pattern, PatternWord};
use tailrace_types::TopicName;

use super::error::ControlError;
use crate::image::{MetadataImage, is_internal_topic};

/// Checks the subjects that the topic `name` would capture with `config`.
pub(super) fn check(
    image: &MetadataImage,
    name: &TopicName,
    config: &TopicConfig,
) -> Result<(), ControlError> {
    let patterns = config.tailrace_subjects.patterns();
    if patterns.is_empty() {
        return Ok(());
    }
    if is_internal_topic(name.as_str()) {
        return Err(ControlError::InternalTopicCaptures { name: name.clone() });
    }
    let mut tree = PatternTree::default();
    for pattern in patterns {
        if let Some(other) = tree.overlapping(pattern) {
            return Err(overlap(name, pattern, name, other));
        }
        tree.insert(pattern);
    }
    for topic in image.topics().filter(|topic| topic.name != *name) {
        for other in topic.config.tailrace_subjects.patterns() {
            if let Some(pattern) = tree.overlapping(other) {
                return Err(overlap(name, pattern, &topic.name, other));
            }
        }
    }
    Ok(())
}

fn overlap(topic: &TopicName, pattern: &Pattern, other: &TopicName, other_pattern: &Pattern) -> ControlError {
    ControlError::SubjectsOverlap {
        topic: topic.clone(),
        pattern: pattern.to_string(),
        other: other.clone(),
        other_pattern: other_pattern.to_string(),
    }
}

/// A tree of NATS patterns by word. No two of them overlap.
#[derive(Default)]
struct PatternTree<'a> {
    nodes: Vec<Node<'a>>,
}

#[derive(Default)]
struct Node<'a> {
    /// The pattern that ends at this node.
    end: Option<&'a Pattern>,
    /// The pattern that ends at this node with `>`.
    many: Option<&'a Pattern>,
    /// The node after a `*`.
    one: Option<usize>,
    /// The node after each literal word.
    literal: BTreeMap<&'a [u8], usize>,
}

impl<'a> PatternTree<'a> {
    const ROOT: usize = 0;

    fn insert(&mut self, pattern: &'a Pattern) {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut at = Self::ROOT;
        for word in pattern.words() {
            let next = self.nodes.len();
            let node = &mut self.nodes[at];
            at = match word {
                PatternWord::Many => {
                    node.many = Some(pattern);
                    return;
                }
                PatternWord::One => *node.one.get_or_insert(next),
                PatternWord::Literal(word) => *node.literal.entry(word).or_insert(next),
            };
            if at == next {
                self.nodes.push(Node::default());
            }
        }
        self.nodes[at].end = Some(pattern);
    }

    /// Returns a pattern of the tree that matches some subject that `pattern` matches too.
    fn overlapping(&self, pattern: &Pattern) -> Option<&'a Pattern> {
        if self.nodes.is_empty() {
            return None;
        }
        let words: Vec<_> = pattern.words().collect();
        let mut ahead = vec![(Self::ROOT, 0)];
        while let Some((at, depth)) = ahead.pop() {
            let node = &self.nodes[at];
            let Some(word) = words.get(depth) else {
                // A `>` needs at least one word, and none is left.
                if node.end.is_some() {
                    return node.end;
                }
                continue;
            };
            if node.many.is_some() {
                return node.many;
            }
            match word {
                PatternWord::Many => {
                    if let Some(below) = self.any_below(at) {
                        return Some(below);
                    }
                }
                PatternWord::One => ahead.extend(node.literal.values().map(|next| (*next, depth + 1))),
                PatternWord::Literal(word) => {
                    ahead.extend(node.literal.get(word).map(|next| (*next, depth + 1)));
                }
            }
            ahead.extend(node.one.map(|next| (next, depth + 1)));
        }
        None
    }

    /// Returns a pattern with at least one word more than the path to this node.
    fn any_below(&self, mut at: usize) -> Option<&'a Pattern> {
        loop {
            let node = &self.nodes[at];
            at = *node.literal.values().next().or(node.one.as_ref())?;
            let node = &self.nodes[at];
            if node.end.or(node.many).is_some() {
                return node.end.or(node.many);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tailrace_subjects::{Dialect, Limits};

    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(Dialect::Nats, text, &Limits::default()).expect("valid")
    }

    proptest! {
        #[test]
        fn the_tree_finds_an_overlap_exactly_where_two_patterns_overlap(
            texts in proptest::collection::vec("(a|b|\\*)(\\.(a|b|\\*)){0,3}(\\.>)?", 1..12),
            asked in "((a|b|\\*)(\\.(a|b|\\*)){0,3}(\\.>)?|>)",
        ) {
            let patterns: Vec<Pattern> = texts.iter().map(|text| pattern(text)).collect();
            let mut tree = PatternTree::default();
            let mut kept: Vec<&Pattern> = Vec::new();
            for pattern in &patterns {
                let found = tree.overlapping(pattern);
                prop_assert_eq!(found.is_some(), kept.iter().any(|other| other.overlaps(pattern)));
                if found.is_none() {
                    tree.insert(pattern);
                    kept.push(pattern);
                }
            }
            let asked = pattern(&asked);
            let found = tree.overlapping(&asked);
            prop_assert_eq!(found.is_some(), kept.iter().any(|other| other.overlaps(&asked)));
            prop_assert!(found.is_none_or(|found| found.overlaps(&asked) && kept.contains(&found)));
        }
    }
}
