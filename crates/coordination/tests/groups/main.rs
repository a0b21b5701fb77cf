//! The group coordinator without a server: scripts, and random members over an unreliable network.

mod consumer_properties;
mod conversations;
mod properties;
mod rig;
mod size;
