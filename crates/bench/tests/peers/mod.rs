//! The other side of systems whose servers the tests start themselves, or play.

pub(crate) mod brokerless;
pub(crate) mod nsqd;
pub(crate) mod postgres;
pub(crate) mod script;

use std::process::Child;

/// A process that ends with the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
