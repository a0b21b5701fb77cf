//! Matching: the classical algorithms against the same rules as the matcher of `subjects`. The rules, the
//! histories and the reference are the files of that crate's tests, so that all are judged alike.

#[path = "../../../subjects/tests/matching/algorithms.rs"]
mod algorithms;
#[path = "../../../subjects/tests/matching/any.rs"]
mod any;
mod cs_trie;
mod every;
#[path = "../../../subjects/tests/matching/reference.rs"]
mod reference;
#[path = "../../../subjects/tests/matching/rules.rs"]
mod rules;
#[path = "../../../subjects/tests/matching/rules_bad_input.rs"]
mod rules_bad_input;
