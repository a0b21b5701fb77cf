//! A server that sends back what it gets, for load generators that are to be compared: `echo tcp` or `echo http` (the body of each POST).
//! Prints its address, and ends with its standard input.
#![allow(clippy::print_stdout, reason = "whoever starts it reads the address there")]

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
