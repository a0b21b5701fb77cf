//! Development tasks: `cargo xtask codegen|check|test|bench`.

fn main() {
    eprintln!("usage: cargo xtask codegen|check|test|bench");
    std::process::exit(2);
}
