//! A NATS client that sends whatever text it is given, over any stream.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const PATIENCE: Duration = Duration::from_secs(20);

pub struct Lines<S> {
    pub stream: S,
    unread: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Lines<S> {
    pub fn over(stream: S) -> Self {
        Self { stream, unread: Vec::new() }
    }

    pub async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.expect("the connection is open");
        self.stream.flush().await.expect("the connection is open");
    }

    /// Returns the next line, including its line ending. `None` if the stream ends or breaks.
    pub async fn line(&mut self) -> Option<String> {
        let read = async {
            loop {
                if let Some(end) = self.unread.windows(2).position(|pair| pair == b"\r\n") {
                    let line: Vec<u8> = self.unread.drain(..end + 2).collect();
                    return Some(String::from_utf8_lossy(&line).into_owned());
                }
                match self.stream.read_buf(&mut self.unread).await {
                    Ok(0) | Err(_) => return None,
                    Ok(_) => {}
                }
            }
        };
        tokio::time::timeout(PATIENCE, read).await.expect("an answer in time")
    }

    /// Reads an INFO and returns its fields.
    pub async fn info(&mut self) -> serde_json::Value {
        let line = self.line().await.expect("an INFO");
        serde_json::from_str(line.strip_prefix("INFO ").expect("an INFO")).expect("JSON")
    }

    /// Sends a PING and returns all lines before the PONG that answers it.
    pub async fn until_pong(&mut self) -> Vec<String> {
        self.send("PING\r\n").await;
        let mut lines = Vec::new();
        loop {
            match self.line().await.expect("a PONG, not the end of the connection").as_str() {
                "PONG\r\n" => return lines,
                line => lines.push(line.trim_end().to_owned()),
            }
        }
    }

    /// Returns all lines up to the end of the connection.
    pub async fn until_end(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(line) = self.line().await {
            lines.push(line.trim_end().to_owned());
        }
        lines
    }
}
