//! A trie of words under a reader-writer lock.
//!
//! Source: Tyler Treat, "Fast Topic Matching" (2016), section "Trie". Every edge is a word or a wildcard. A
//! lookup follows the word's edge and the wildcards' edges at once. Nodes are in one table and refer to each
//! other by number, so that neither a lookup nor a drop recurses, however deep the trie is. The lock makes it
//! linearizable and keeps it from being lock-free.
//!
//! A lookup goes through the subject word by word and keeps the active nodes. A node after a `#` stays active
//! to the end once it was reached. So it is kept in a separate list and entered once, which bounds the work
//! by words times nodes, whatever the number of `#`.

use std::collections::{HashMap, HashSet};
use std::sync::RwLock;

use tailrace_subjects::{Dialect, Limits, Matcher, Pattern, PatternWord, Subject, SubscribeError, TextError};

use super::{ClassicSubscription, Entry, Rules, read, remove_entry, write};

/// A trie of words under a reader-writer lock.
#[derive(Debug)]
pub struct Trie<V> {
    rules: Rules,
    table: RwLock<Table<V>>,
}

type NodeNumber = usize;

/// The node that every pattern starts at.
const ROOT: NodeNumber = 0;

#[derive(Debug)]
struct Table<V> {
    nodes: Vec<Node<V>>,
    /// Numbers of nodes that are in no pattern's path.
    free: Vec<NodeNumber>,
    live: usize,
}

#[derive(Debug)]
struct Node<V> {
    literals: HashMap<Box<[u8]>, NodeNumber>,
    one: Option<NodeNumber>,
    many: Option<NodeNumber>,
    /// Whether there is a `#` on the path to this node, without its own edge.
    below_many: bool,
    /// Subscriptions whose pattern ends here.
    entries: Vec<Entry<V>>,
}

impl<V> Node<V> {
    fn new(below_many: bool) -> Self {
        Self { literals: HashMap::new(), one: None, many: None, below_many, entries: Vec::new() }
    }

    fn child(&self, word: PatternWord<'_>) -> Option<NodeNumber> {
        match word {
            PatternWord::Literal(word) => self.literals.get(word).copied(),
            PatternWord::One => self.one,
            PatternWord::Many => self.many,
        }
    }

    fn set_child(&mut self, word: PatternWord<'_>, child: Option<NodeNumber>) {
        match (word, child) {
            (PatternWord::Literal(word), Some(child)) => _ = self.literals.insert(word.into(), child),
            (PatternWord::Literal(word), None) => _ = self.literals.remove(word),
            (PatternWord::One, child) => self.one = child,
            (PatternWord::Many, child) => self.many = child,
        }
    }

    fn is_unused(&self) -> bool {
        self.entries.is_empty() && self.literals.is_empty() && self.one.is_none() && self.many.is_none()
    }
}

impl<V> Table<V> {
    /// The node where this pattern ends, created if it is missing.
    fn node_of(&mut self, pattern: &Pattern) -> NodeNumber {
        let mut at = ROOT;
        let mut below_many = false;
        for word in pattern.words() {
            at = match self.nodes[at].child(word) {
                Some(child) => child,
                None => {
                    let child = self.add_node(below_many);
                    self.nodes[at].set_child(word, Some(child));
                    child
                }
            };
            below_many |= word == PatternWord::Many;
        }
        at
    }

    fn add_node(&mut self, below_many: bool) -> NodeNumber {
        if let Some(number) = self.free.pop() {
            self.nodes[number] = Node::new(below_many);
            return number;
        }
        self.nodes.push(Node::new(below_many));
        self.nodes.len() - 1
    }

    /// Removes the subscription and every node that is no longer needed.
    fn remove(&mut self, subscription: &ClassicSubscription) -> bool {
        let mut path = vec![(ROOT, None)];
        for word in subscription.pattern.words() {
            let (at, _) = path[path.len() - 1];
            let Some(child) = self.nodes[at].child(word) else { return false };
            path.push((child, Some(word)));
        }
        let (end, _) = path[path.len() - 1];
        if !remove_entry(&mut self.nodes[end].entries, subscription.id) {
            return false;
        }
        while let Some((node, Some(word))) = path.pop() {
            if !self.nodes[node].is_unused() {
                break;
            }
            // Frees its tables at once; the number itself waits for the next pattern.
            self.nodes[node] = Node::new(false);
            self.free.push(node);
            let (parent, _) = path[path.len() - 1];
            self.nodes[parent].set_child(word, None);
        }
        true
    }
}

/// A lookup in progress.
struct Search<'a, V> {
    table: &'a Table<V>,
    dialect: Dialect,
    /// Nodes reached by exactly the words read so far, each once.
    active: Vec<NodeNumber>,
    /// Nodes after a `#` that were reached, and go on to the end of the subject.
    looping: Vec<NodeNumber>,
    /// Which nodes after a second `#` were reached: the others cannot be met twice.
    seen: HashSet<NodeNumber>,
}

impl<V: Clone> Search<'_, V> {
    fn run(mut self, subject: &Subject<'_>, found: &mut Vec<V>) {
        let mut hidden = subject.is_hidden();
        self.enter(ROOT, hidden, found);
        let mut last = Vec::new();
        for word in subject.words() {
            std::mem::swap(&mut last, &mut self.active);
            // A node that enters the loop at this word takes part from the next word on.
            let looping = self.looping.len();
            for at in last.drain(..) {
                self.step(at, word, std::mem::take(&mut hidden), found);
            }
            for at in 0..looping {
                let node = &self.table.nodes[self.looping[at]];
                if let Some(child) = node.literals.get(word) {
                    self.enter(*child, false, found);
                }
            }
        }
        for at in &self.active {
            emit(&self.table.nodes[*at], found);
        }
    }

    /// Reads one word at a node; `hidden` keeps it from wildcards.
    fn step(&mut self, at: NodeNumber, word: &[u8], hidden: bool, found: &mut Vec<V>) {
        let node = &self.table.nodes[at];
        if let Some(child) = node.literals.get(word) {
            self.enter(*child, false, found);
        }
        if hidden {
            return;
        }
        if let Some(child) = node.one {
            self.enter(child, false, found);
        }
        if self.dialect.many_min() == 1
            && let Some(child) = node.many
        {
            self.enter_many(child, found);
        }
    }

    fn enter(&mut self, at: NodeNumber, hidden: bool, found: &mut Vec<V>) {
        self.active.push(at);
        if self.dialect.many_min() == 0
            && !hidden
            && let Some(child) = self.table.nodes[at].many
        {
            self.enter_many(child, found);
        }
    }

    /// Enters a node after a `#`, which matches whatever follows. In normal form only literal words can
    /// follow it.
    fn enter_many(&mut self, at: NodeNumber, found: &mut Vec<V>) {
        let node = &self.table.nodes[at];
        if node.below_many && !self.seen.insert(at) {
            return;
        }
        emit(node, found);
        if !node.literals.is_empty() {
            self.looping.push(at);
        }
    }
}

fn emit<V: Clone>(node: &Node<V>, found: &mut Vec<V>) {
    found.extend(node.entries.iter().map(|entry| entry.value.clone()));
}

impl<V> Trie<V> {
    /// Creates an empty trie with the default limits.
    #[must_use]
    pub fn new(dialect: Dialect) -> Self {
        Self::with_limits(dialect, Limits::default())
    }

    /// Creates an empty trie.
    #[must_use]
    pub fn with_limits(dialect: Dialect, limits: Limits) -> Self {
        let table = Table { nodes: vec![Node::new(false)], free: Vec::new(), live: 0 };
        Self { rules: Rules { dialect, limits }, table: RwLock::new(table) }
    }
}

impl<V: Clone + Send + Sync> Matcher<V> for Trie<V> {
    type Subscription = ClassicSubscription;

    fn name(&self) -> &'static str {
        "trie under a lock"
    }

    fn dialect(&self) -> Dialect {
        self.rules.dialect
    }

    fn subscribe(&self, pattern: &Pattern, value: V) -> Result<ClassicSubscription, SubscribeError> {
        let mut table = write(&self.table);
        self.rules.check(pattern, table.live)?;
        let subscription = ClassicSubscription::new(pattern);
        let node = table.node_of(pattern);
        table.nodes[node].entries.push(Entry { id: subscription.id, value });
        table.live += 1;
        Ok(subscription)
    }

    fn unsubscribe(&self, subscription: ClassicSubscription) -> bool {
        let mut table = write(&self.table);
        let removed = subscription.pattern.dialect() == self.rules.dialect && table.remove(&subscription);
        table.live -= usize::from(removed);
        removed
    }

    fn matches(&self, subject: &[u8], found: &mut Vec<V>) -> Result<(), TextError> {
        found.clear();
        let subject = Subject::parse(self.rules.dialect, subject, &self.rules.limits)?;
        let table = &*read(&self.table);
        let dialect = self.rules.dialect;
        let (active, looping, seen) = (Vec::new(), Vec::new(), HashSet::new());
        Search { table, dialect, active, looping, seen }.run(&subject, found);
        Ok(())
    }

    fn len(&self) -> usize {
        read(&self.table).live
    }
}
