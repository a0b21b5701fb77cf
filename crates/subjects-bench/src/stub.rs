use tailrace_subjects::classic::{ClassicSubscription, Trie};
use tailrace_subjects::{Dialect, Matcher, Pattern, SubscribeError, TextError};

pub struct TupleSpace<V>(Trie<V>);
#[derive(Default)]
pub struct Batch<V>(Vec<Vec<V>>);
pub struct Cache<V>(Vec<V>);

impl<V: Clone + Send + Sync> TupleSpace<V> {
    pub fn new(dialect: Dialect) -> Self {
        Self(Trie::new(dialect))
    }
    pub fn matches_many(&self, subjects: &[&[u8]], batch: &mut Batch<V>) {
        batch.0.resize_with(subjects.len(), Vec::new);
        for (s, b) in subjects.iter().zip(&mut batch.0) {
            self.0.matches(s, b).unwrap();
        }
    }
}
impl<V> Batch<V> {
    pub fn get(&self, i: usize) -> Result<&[V], &TextError> {
        Ok(&self.0[i])
    }
}
impl<V: Clone + Send + Sync> Cache<V> {
    pub fn new(_: usize) -> Self {
        Self(Vec::new())
    }
    pub fn matches(&mut self, m: &TupleSpace<V>, s: &[u8]) -> Result<&[V], TextError> {
        m.0.matches(s, &mut self.0)?;
        Ok(&self.0)
    }
}
impl<V: Clone + Send + Sync> Matcher<V> for TupleSpace<V> {
    type Subscription = ClassicSubscription;
    fn name(&self) -> &'static str {
        "stub"
    }
    fn dialect(&self) -> Dialect {
        self.0.dialect()
    }
    fn subscribe(&self, p: &Pattern, v: V) -> Result<ClassicSubscription, SubscribeError> {
        self.0.subscribe(p, v)
    }
    fn unsubscribe(&self, s: ClassicSubscription) -> bool {
        self.0.unsubscribe(s)
    }
    fn matches(&self, s: &[u8], f: &mut Vec<V>) -> Result<(), TextError> {
        self.0.matches(s, f)
    }
    fn len(&self) -> usize {
        self.0.len()
    }
}
