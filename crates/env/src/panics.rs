//! The count of panics. Each panic is a bug in the server. It costs only the task that panicked.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// Counts one more panic. The panic hook of the process calls it for every panic.
pub fn note() {
    COUNT.fetch_add(1, Ordering::Relaxed);
}

/// Returns the number of panics so far.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Returns the message of a panic.
pub fn reason_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_what_was_said() {
        let reason = |panics: fn()| {
            let panic = std::panic::catch_unwind(panics).expect_err("it panics");
            reason_of(&*panic).to_owned()
        };
        assert_eq!(reason(|| panic!("as it is")), "as it is");
        assert_eq!(reason(|| panic!("{} of {}", 2, 1)), "2 of 1");
        assert_eq!(reason(|| std::panic::panic_any(7)), "a panic without a message");
    }
}
