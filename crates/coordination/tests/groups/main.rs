//! The coordinator of groups, without a server: scripts, and random members over a bad network.

mod consumer_properties;
mod conversations;
mod properties;
mod rig;
mod size;
