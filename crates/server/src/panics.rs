//! A panic is a bug in the server. The log and the metrics report it as one.

use std::any::Any;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::thread;

use tailrace_env::panics;

/// Counts and logs every panic of the process from now on, then runs the panic hook that was set before. Call
/// it once, after logging has been set up.
pub fn watch_panics() {
    let before = take_hook();
    set_hook(Box::new(move |info| {
        panics::note();
        log(info);
        before(info);
    }));
}

fn log(info: &PanicHookInfo<'_>) {
    let payload: &(dyn Any + Send) = info.payload();
    let (reason, thread) = (panics::reason_of(payload), thread::current());
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!(thread = thread.name(), place, reason, "a panic: a bug in the server");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_counted() {
        watch_panics();
        let before = panics::count();
        assert!(std::panic::catch_unwind(|| panic!("on purpose")).is_err());
        assert!(panics::count() > before);
    }
}
