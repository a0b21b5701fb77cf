//! Ctrl-C and SIGTERM during measurements.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tailrace_cli::failure::Status;
use tokio::signal::unix::{SignalKind, signal};

use super::{namespace, server};

/// Makes the first Ctrl-C or SIGTERM stop the sending, and the second one end the program and the server that
/// it started. No signal after the return is missed.
pub(super) fn stop_on_interrupt() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    // A run that cannot be stopped early is still useful.
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

/// Before the program ends at once: kills the running server, and removes what was created for it.
fn give_up() {
    server::kill_servers();
    namespace::remove_active();
}
