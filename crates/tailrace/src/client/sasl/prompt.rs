//! Asks for a password on the terminal, without showing what is typed.
//!
//! The terminal is that of the process, even if standard input is a pipe: `tailrace produce` reads records
//! there.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use tailrace_cli::failure::{Status, plain};
use zeroize::{Zeroize as _, Zeroizing};

use super::errors::PasswordError;

/// Longest line that is taken, in bytes. It is longer than any password, so that the limit of passwords is
/// what refuses it.
const LINE_BYTES_MAX: usize = 8_192;

/// What was typed.
enum Typed {
    Line(Zeroizing<Vec<u8>>),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D on an empty line, or the terminal is gone.
    Ended,
}

/// Shows `prompt` on the terminal of this process and reads a line. Ctrl-C ends the process with the status
/// of SIGINT. `instead` says what to do without a terminal.
///
/// # Errors
/// There is no terminal, it fails, or the input ends.
pub(super) fn ask(prompt: &str, instead: &'static str) -> Result<Zeroizing<Vec<u8>>, PasswordError> {
    let terminal = File::options().read(true).write(true).open("/dev/tty");
    let terminal = terminal.map_err(|_| PasswordError::NoTerminal { instead })?;
    match ask_on(&terminal, prompt).map_err(|error| PasswordError::Read(plain(&error)))? {
        Typed::Line(line) => Ok(line),
        Typed::Interrupted => std::process::exit(i32::from(Status::Interrupted as u8)),
        Typed::Ended => Err(PasswordError::Ended),
    }
}

/// A terminal that shows nothing of what is typed. Dropping it restores the terminal.
struct Silent<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> Silent<'a> {
    /// Signals are off as well: after Ctrl-C the terminal must be restored before the process ends. So keys
    /// come one by one, and the line is edited here.
    fn new(terminal: &'a File) -> std::io::Result<Self> {
        let before = tcgetattr(terminal.as_fd())?;
        let mut silent = before.clone();
        silent.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        silent.special_codes[SpecialCodeIndex::VMIN] = 1;
        silent.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(terminal.as_fd(), OptionalActions::Flush, &silent)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.terminal.as_fd(), OptionalActions::Flush, &self.before);
    }
}

fn ask_on(mut terminal: &File, prompt: &str) -> std::io::Result<Typed> {
    let silent = Silent::new(terminal)?;
    terminal.write_all(prompt.as_bytes())?;
    let typed = read_line(&mut terminal);
    terminal.write_all(b"\r\n")?;
    drop(silent);
    typed
}

/// Reads keys up to Enter.
fn read_line(keys: &mut impl std::io::Read) -> std::io::Result<Typed> {
    // Growing would leave copies behind.
    let mut line = Zeroizing::new(Vec::with_capacity(LINE_BYTES_MAX));
    let mut key = Zeroizing::new([0_u8]);
    loop {
        if keys.read(&mut *key)? == 0 {
            return Ok(Typed::Ended);
        }
        match key[0] {
            b'\n' | b'\r' => return Ok(Typed::Line(line)),
            // Ctrl-C, Ctrl-D, backspace, Ctrl-U.
            0x03 => return Ok(Typed::Interrupted),
            0x04 if line.is_empty() => return Ok(Typed::Ended),
            0x04 => return Ok(Typed::Line(line)),
            0x7f | 0x08 => drop_character(&mut line),
            0x15 => line.zeroize(),
            byte if line.len() < LINE_BYTES_MAX => line.push(byte),
            _ => {}
        }
    }
}

/// Removes the last character, which may have several bytes.
fn drop_character(line: &mut Vec<u8>) {
    while let Some(byte) = line.pop() {
        let continues = byte & 0xc0 == 0x80;
        if !continues {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _};

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    fn typed(keys: &[u8]) -> Option<Vec<u8>> {
        match read_line(&mut &*keys).unwrap() {
            Typed::Line(line) => Some(line.to_vec()),
            Typed::Interrupted | Typed::Ended => None,
        }
    }

    #[test]
    fn a_line_can_be_edited() {
        for (keys, expected) in [
            (&b"pencil\r"[..], Some(&b"pencil"[..])),
            (b"pencil\nx", Some(b"pencil")),
            (b"pen\x7fcil\x08\r", Some(b"peci")),
            (b"\x7f\x7fx\r", Some(b"x")),
            ("aü\x7fb\r".as_bytes(), Some(b"ab")),
            (b"wrong\x15right\r", Some(b"right")),
            (b"pencil\x04", Some(b"pencil")),
            (b"\r", Some(b"")),
            (b"\x04", None),
            (b"pencil\x03\r", None),
            (b"pencil", None),
        ] {
            assert_eq!(typed(keys).as_deref(), expected, "{keys:?}");
        }
        let long = [b"x".repeat(LINE_BYTES_MAX + 10), b"\r".to_vec()].concat();
        assert_eq!(typed(&long).map(|line| line.len()), Some(LINE_BYTES_MAX));
    }

    /// Whether the terminal echoes.
    fn echoes(terminal: &File) -> bool {
        tcgetattr(terminal.as_fd()).unwrap().local_modes.contains(LocalModes::ECHO)
    }

    #[test]
    fn the_terminal_shows_nothing_and_is_restored() {
        let keyboard = File::from(openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap());
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
        let terminal = rustix::fs::open(&*name, flags, rustix::fs::Mode::empty()).unwrap();
        let terminal = File::from(terminal);
        assert!(echoes(&terminal));
        for (keys, expected) in [(&b"pencil\r"[..], Some(&b"pencil"[..])), (b"pen\x03", None)] {
            let asking = std::thread::spawn({
                let terminal = terminal.try_clone().unwrap();
                move || ask_on(&terminal, "password: ")
            });
            let mut screen = BufReader::new(keyboard.try_clone().unwrap());
            let mut shown = vec![0; "password: ".len()];
            screen.read_exact(&mut shown).unwrap();
            assert_eq!(shown, b"password: ");
            assert!(!echoes(&terminal));
            (&keyboard).write_all(keys).unwrap();
            let mut rest = Vec::new();
            screen.read_until(b'\n', &mut rest).unwrap();
            assert!(!rest.windows(3).any(|letters| letters == b"pen"), "{rest:?}");
            let line = match asking.join().unwrap().unwrap() {
                Typed::Line(line) => Some(line.to_vec()),
                Typed::Interrupted | Typed::Ended => None,
            };
            assert_eq!(line.as_deref(), expected);
            assert!(echoes(&terminal));
        }
    }
}
