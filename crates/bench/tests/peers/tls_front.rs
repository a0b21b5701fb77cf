//! A TLS proxy in front of a plain server: decrypts and forwards, in both directions.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection};
use tempfile::TempDir;

/// Bytes that may wait for the server.
const WAITING_BYTES_MAX: usize = 1 << 20;

pub(crate) struct TlsFront {
    pub(crate) address: String,
    folder: TempDir,
}

impl TlsFront {
    /// Starts it in front of `upstream`, with a certificate for 127.0.0.1 and for `front.example`.
    pub(crate) fn start(upstream: String) -> Self {
        let names = vec!["127.0.0.1".to_owned(), "front.example".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), made.cert.pem()).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        // The thread ends with the process.
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (config, upstream) = (Arc::clone(&config), upstream.clone());
                std::thread::spawn(move || {
                    let mut tls = ServerConnection::new(config).unwrap();
                    tls.set_buffer_limit(None);
                    // A client that disconnects, or does not trust the certificate, is the normal end.
                    let _ = carry(client.unwrap(), TcpStream::connect(upstream).unwrap(), tls);
                });
            }
        });
        Self { address, folder }
    }

    /// The file with the authority of its certificate.
    pub(crate) fn authority(&self) -> String {
        let path: PathBuf = self.folder.path().join("ca.pem");
        path.to_str().unwrap().to_owned()
    }
}

fn carry(mut client: TcpStream, mut server: TcpStream, mut tls: ServerConnection) -> io::Result<()> {
    for stream in [&client, &server] {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
    }
    let (mut to_server, mut buffer) = (Vec::new(), vec![0; 65_536]);
    loop {
        {
            let reads = |yes: bool| if yes { PollFlags::IN } else { PollFlags::empty() };
            let writes = |yes: bool| if yes { PollFlags::OUT } else { PollFlags::empty() };
            let of_client = reads(to_server.len() < WAITING_BYTES_MAX) | writes(tls.wants_write());
            let of_server = reads(!tls.wants_write()) | writes(!to_server.is_empty());
            let mut watched = [PollFd::new(&client, of_client), PollFd::new(&server, of_server)];
            poll(&mut watched, None)?;
        }
        if to_server.len() < WAITING_BYTES_MAX {
            match tls.read_tls(&mut client) {
                Ok(0) => return Ok(()),
                Ok(_) => {
                    let judged = tls.process_new_packets();
                    if judged.is_err() {
                        let _ = tls.write_tls(&mut client);
                    }
                    let bytes = judged.map_err(io::Error::other)?.plaintext_bytes_to_read();
                    let begin = to_server.len();
                    to_server.resize(begin + bytes, 0);
                    tls.reader().read_exact(&mut to_server[begin..])?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        if !tls.wants_write() {
            match server.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => tls.writer().write_all(&buffer[..count])?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        while tls.wants_write() {
            match tls.write_tls(&mut client) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        while !to_server.is_empty() {
            match server.write(&to_server) {
                Ok(count) => drop(to_server.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
    }
}
