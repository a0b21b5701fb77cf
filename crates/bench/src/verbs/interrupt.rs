//! Ctrl-C and SIGTERM, for what measures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tailrace_cli::failure::Status;
use tokio::signal::unix::{SignalKind, signal};

use super::{namespace, server};

/// Ctrl-C, or SIGTERM, ends the sending; the second one ends the program, and the server that it started.
pub(super) fn stop_on_interrupt() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    // A run without this thread cannot be ended early, and is as good otherwise.
    let _ = std::thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
            loop {
                let heard = tokio::select! {
                    heard = tokio::signal::ctrl_c() => heard.is_ok(),
                    heard = terminate.recv() => heard.is_some(),
                };
                if !heard {
                    return;
                }
                if flag.swap(true, Ordering::Relaxed) {
                    give_up();
                    std::process::exit(i32::from(Status::Interrupted as u8));
                }
            }
        });
    });
    stop
}

/// For a program that ends at once: kills the server that runs, and removes what was made for it.
fn give_up() {
    server::kill_servers();
    namespace::remove_active();
}
