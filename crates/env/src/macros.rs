//! Waiting for several things at once.

/// Waits for the first of several branches, as `tokio::select!`, and drops the others. Branches are looked at in the order in
/// which they stand.
#[macro_export]
macro_rules! select {
    ($($branches:tt)*) => {
        $crate::__tokio::select! { biased; $($branches)* }
    };
}

/// Waits for all of several futures within one task, as `tokio::join!`.
#[macro_export]
macro_rules! join {
    ($($futures:tt)*) => {
        $crate::__tokio::join! { $($futures)* }
    };
}
