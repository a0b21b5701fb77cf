//! Waits for several connections at once.

use crate::clock::Clock;
use crate::requester::Readiness;

/// Waits until `until_ns`, or until one of the connections may have something to receive. Marks in `ready`
/// which ones to read.
pub(super) fn wait_for<'a>(
    clock: &dyn Clock,
    until_ns: u64,
    connections: impl Iterator<Item = Readiness<'a>>,
    ready: &mut [bool],
) {
    let mut until = until_ns;
    let (mut watched, mut owners) = (Vec::new(), Vec::new());
    for (index, readiness) in connections.enumerate() {
        ready[index] = false;
        match readiness {
            Readiness::Sockets(first, second) => {
                for socket in std::iter::once(first).chain(second) {
                    watched.push(socket.poll_fd());
                    owners.push(index);
                }
            }
            Readiness::At(at_ns) => {
                until = until.min(at_ns);
                ready[index] = true;
            }
            Readiness::Often => ready[index] = true,
        }
    }
    clock.wait(until, &mut watched);
    for (descriptor, owner) in watched.iter().zip(owners) {
        ready[owner] |= !descriptor.revents().is_empty();
    }
}
