//! Matching: the rules of each dialect, and the matcher against them and against a simple reference.

mod algorithms;
mod any;
mod every;
mod hostile;
mod reference;
mod relation;
mod rules;
mod rules_bad_input;
