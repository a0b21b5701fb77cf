//! Waiting for several things at once.

/// Waits for the first of several branches, like `tokio::select!`, and drops the others. Polls the branches
/// in source order.
#[macro_export]
macro_rules! select {
    ($($branches:tt)*) => {
        $crate::__tokio::select! { biased; $($branches)* }
    };
}

/// Waits for all of several futures within one task, like `tokio::join!`.
#[macro_export]
macro_rules! join {
    ($($futures:tt)*) => {
        $crate::__tokio::join! { $($futures)* }
    };
}
