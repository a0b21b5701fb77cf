//! Prints docs/configuration.md. `cargo xtask docs` writes it.

use std::io::{self, Write};

use tailrace_config::configuration_markdown;

fn main() -> io::Result<()> {
    io::stdout().write_all(configuration_markdown().as_bytes())
}
