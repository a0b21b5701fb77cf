//! The `tailrace` binary: command line, configuration, wiring.

fn main() {
    println!("tailrace {}", env!("CARGO_PKG_VERSION"));
}
