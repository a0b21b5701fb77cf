//! What matches: the rules of each dialect, and every algorithm against them.

mod algorithms;
mod algorithms_cs_trie;
mod hostile;
mod reference;
mod relation;
mod rules;
mod rules_bad_input;
