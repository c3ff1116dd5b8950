//! A connection that is kept, and requests one after the other: as little as a client can do, so that the
//! server is what is measured.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    /// Headers that every request has, each with the end of its line.
    pub(crate) headers: String,
    read: Vec<u8>,
}

impl Wire {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, headers: String::new(), read: Vec::new() })
    }

    /// Sends a request, and gives the answer, which must be a good one.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Result<Value> {
        Ok(serde_json::from_slice(self.ask("POST", path, body).await?)?)
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Value> {
        Ok(serde_json::from_slice(self.ask("GET", path, "").await?)?)
    }

    pub(crate) async fn text(&mut self, path: &str) -> Result<String> {
        Ok(std::str::from_utf8(self.ask("GET", path, "").await?)?.to_owned())
    }

    async fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<&[u8]> {
        let (length, headers) = (body.len(), &self.headers);
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(request.as_bytes()).await?;
        self.read.clear();
        let end = loop {
            if let Some(end) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            self.more().await?;
        };
        self.body(path, end).await
    }

    /// The body behind a head that ends at `end`.
    async fn body(&mut self, path: &str, end: usize) -> Result<&[u8]> {
        let head = std::str::from_utf8(&self.read[..end])?.to_owned();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.context("an answer without its length")?.trim().parse()?;
        while self.read.len() < end + 4 + length {
            self.more().await?;
        }
        let body = &self.read[end + 4..];
        let is_good = head.starts_with("HTTP/1.1 20");
        ensure!(is_good, "{path}: {head}\n{}", String::from_utf8_lossy(body));
        Ok(body)
    }

    async fn more(&mut self) -> Result<()> {
        if self.stream.read_buf(&mut self.read).await? == 0 {
            bail!("the server has closed the connection");
        }
        Ok(())
    }
}
