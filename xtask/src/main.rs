//! Development tasks: `cargo xtask codegen|check|test|bench`.

mod codegen;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((task, rest)) if task == "codegen" => codegen::run(rest),
        _ => {
            eprintln!("usage: cargo xtask codegen|check|test|bench");
            std::process::exit(2);
        }
    };
    if let Err(reason) = result {
        eprintln!("xtask: {reason}");
        std::process::exit(1);
    }
}
