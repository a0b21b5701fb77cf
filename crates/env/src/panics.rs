//! Panics. Each is a bug of the server: what panicked is lost, is counted, and nobody else pays for it.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// One more was seen. To be called by the panic hook of the process, which sees all of them.
pub fn note() {
    COUNT.fetch_add(1, Ordering::Relaxed);
}

/// How many were seen.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// What a thread or a task panicked with, as it said it.
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
