//! The terminal while `tailrace top` runs: single keys, and an alternate screen. Dropping it restores the
//! terminal.

use std::io::{self, IsTerminal, Read as _, Write as _};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc;

/// Columns and rows if the terminal does not report its size.
const SIZE: (usize, usize) = (120, 30);

/// The terminal; see the module.
pub(super) struct Terminal {
    before: Termios,
    keys: mpsc::Receiver<u8>,
}

impl Terminal {
    /// Takes over the terminal, if there is one.
    pub(super) fn take() -> Option<Self> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return None;
        }
        let before = tcgetattr(io::stdin()).ok()?;
        let mut single_keys = before.clone();
        // Signals stay enabled: Ctrl-C ends the verb.
        single_keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        tcsetattr(io::stdin(), OptionalActions::Now, &single_keys).ok()?;
        let (sender, keys) = mpsc::channel(16);
        let read = move || {
            for key in io::stdin().lock().bytes().map_while(Result::ok) {
                if sender.blocking_send(key).is_err() {
                    return;
                }
            }
        };
        // Without the thread there are no keys, but that is no reason to fail.
        let _ = std::thread::Builder::new().name("keys".to_owned()).spawn(read);
        let terminal = Self { before, keys };
        // The alternate screen, without a cursor.
        write("\x1b[?1049h\x1b[?25l").ok()?;
        Some(terminal)
    }

    /// The number of columns and rows.
    pub(super) fn size() -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => SIZE,
        }
    }

    /// Waits for a key.
    pub(super) async fn key(&mut self) -> u8 {
        match self.keys.recv().await {
            Some(key) => key,
            None => std::future::pending().await,
        }
    }

    /// Draws a page over the last one.
    pub(super) fn draw(page: &str) -> io::Result<()> {
        let lines: String = page.lines().map(|line| format!("{line}\x1b[K\r\n")).collect();
        write(&format!("\x1b[H{}\x1b[J", lines.trim_end_matches("\r\n")))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = write("\x1b[?25h\x1b[?1049l");
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
