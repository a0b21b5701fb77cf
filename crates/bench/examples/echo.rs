//! An echo server for comparing load generators: `echo tcp` or `echo http` (the body of each POST). Prints
//! its address, and ends when its standard input does.
#![allow(clippy::print_stdout, reason = "the caller reads the address there")]

use std::io::{self, Read};

use tailrace_bench::systems::{EchoProtocol, EchoServer};

fn main() -> io::Result<()> {
    let protocol = match std::env::args().nth(1).as_deref() {
        Some("tcp") => EchoProtocol::Tcp,
        Some("http") => EchoProtocol::Http,
        _ => return Err(io::Error::other("expected one argument: tcp or http")),
    };
    let server = EchoServer::start(protocol)?;
    println!("{}", server.address());
    io::stdin().lock().read_to_end(&mut Vec::new())?;
    Ok(())
}
