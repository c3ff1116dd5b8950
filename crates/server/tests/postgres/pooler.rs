//! What a pooler in transaction mode does to notifications: they do not arrive. That is said, and nothing
//! stands still.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use serde_json::json;

use crate::support::Place;
use crate::{Database, server};

/// Passes everything on but notifications.
fn deaf_pooler() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(server().addr()).unwrap());
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Both);
            });
            std::thread::spawn(move || pass_on(server, client));
        }
    });
    address
}

/// A message of the server is a letter, a length that counts itself, and the rest.
fn pass_on(mut server: TcpStream, mut client: TcpStream) -> io::Result<()> {
    loop {
        let mut head = [0; 5];
        server.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut rest = vec![0; usize::try_from(length).unwrap() - 4];
        server.read_exact(&mut rest)?;
        if head[0] != b'A' {
            client.write_all(&[&head[..], &rest].concat())?;
        }
    }
}

#[test]
fn without_notifications_the_store_looks_by_itself_and_says_so() {
    let database = Database::new();
    let direct = database.place();
    let address = format!("postgres://postgres@{}/{}?sslmode=disable", deaf_pooler(), database.name);
    let pooled = Place::with_store(address);
    let mut command = pooled.command(env!("CARGO_BIN_EXE_windlass"));
    let mut worker = crate::support::Running::start(command.args(["work", "--exec", "x=cat"]));
    let said = worker.until("notifications do not arrive");
    assert!(said.contains("WARN") && said.contains("looking every 1s instead"), "{said}");
    worker.until(" takes x");
    let done = direct.json(&["submit", "x", "1", "--wait", "--wait-for", "25s"]);
    assert_eq!(done["state"], json!("completed"), "it is found long before the usual look every 30 s");
    let found = pooled.run(&["doctor", "--json"]).json()["findings"].as_array().unwrap().clone();
    let wake_up = found.iter().find(|one| one["what"].as_str().unwrap().starts_with("wake-up: ")).unwrap();
    assert_eq!(wake_up["level"], "note");
    assert_eq!(wake_up["what"], "wake-up: looks every 1s: notifications do not arrive");
    assert!(wake_up["advice"].as_str().unwrap().contains("pooler in session mode"), "{wake_up}");
}
