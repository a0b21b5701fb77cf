//! Groups.

mod assignors;
