//! Ctrl-C and SIGTERM, for what measures.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tailrace_cli::failure::Status;
use tokio::signal::unix::{SignalKind, signal};

use super::{namespace, server};

/// Ctrl-C, or SIGTERM, ends the sending; the second one ends the program, and the server that it started. None that comes after this has
/// returned is missed.
pub(super) fn stop_on_interrupt() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    // A run that cannot be ended early is as good otherwise.
    let _ = listen(Arc::clone(&stop));
    stop
}

fn listen(stop: Arc<AtomicBool>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let waiting = thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
        runtime.block_on(async {
            loop {
                let heard = tokio::select! {
                    heard = interrupt.recv() => heard.is_some(),
                    heard = terminate.recv() => heard.is_some(),
                };
                if !heard {
                    return;
                }
                if stop.swap(true, Ordering::Relaxed) {
                    give_up();
                    std::process::exit(i32::from(Status::Interrupted as u8));
                }
            }
        });
    });
    waiting.map(drop)
}

/// For a program that ends at once: kills the server that runs, and removes what was made for it.
fn give_up() {
    server::kill_servers();
    namespace::remove_active();
}
