//! A real nginx in front of a server, with the settings that docs/server.md shows.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::json;

use super::access::create;
use super::kit::{Answer, DEADLINE, Server, answer, chunk, head, request};

/// nginx, where there is one.
fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|directory| directory.join("nginx"));
    // What `cargo xtask provision` fetches.
    let provisioned = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/provision/nginx/nginx");
    on_path.chain(["/usr/sbin/nginx".into(), provisioned]).find(|place| place.is_file())
}

/// A running nginx.
struct Nginx {
    child: Child,
    address: SocketAddr,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Nginx {
    /// With the settings of the page, on a port of its own and without TLS.
    fn start(program: &Path, server: &Server) -> Self {
        let page = include_str!("../../../../docs/server.md");
        let shown = page.split_once("```nginx\n").unwrap().1.split_once("```").unwrap().0;
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let ours = shown
            .lines()
            .filter(|line| !line.trim().starts_with("ssl_"))
            .map(|line| line.replace("listen 443 ssl;", &format!("listen {address};")))
            .map(|line| line.replace("127.0.0.1:7070", &server.address.to_string()))
            .collect::<Vec<_>>()
            .join("\n");
        assert!(ours.contains(&address.to_string()) && ours.contains(&server.address.to_string()), "{ours}");
        let home = server.place.path();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|what| format!("{what}_temp_path {}/{what};\n", home.display()))
            .concat();
        let settings = format!(
            "daemon off;\nmaster_process off;\npid {home}/nginx.pid;\nerror_log {home}/nginx.log;\nevents {{}}\n\
             http {{\naccess_log off;\n{temporary}{ours}\n}}\n",
            home = home.display()
        );
        let file = server.place.file("nginx.conf", settings);
        let mut command = Command::new(program);
        command.arg("-e").arg(home.join("nginx.log")).arg("-c").arg(file);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let (mut nginx, begun) = (Self { child, address }, Instant::now());
        while TcpStream::connect(address).is_err() {
            let log = || server.place.read("nginx.log");
            assert!(nginx.child.try_wait().unwrap().is_none(), "nginx ended: {}", log());
            assert!(begun.elapsed() < DEADLINE, "nginx does not listen: {}", log());
            std::thread::yield_now();
        }
        nginx
    }

    fn connect(&self, bytes: &[u8]) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(bytes).unwrap();
        BufReader::new(stream)
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> Answer {
        answer(&mut self.connect(&request(method, path, headers, body)))
    }
}

/// Without tokens it is refused, with tokens it carries everything: requests, long polls and streams.
#[test]
#[allow(clippy::print_stderr)]
fn nginx_in_front_of_a_server() {
    let Some(program) = find() else {
        eprintln!("left out: there is no nginx here; install the Debian package `nginx-light`");
        return;
    };
    let server = Server::start();
    let nginx = Nginx::start(&program, &server);
    server.get("/v1/stats");
    nginx.ask("GET", "/v1/stats", &[], None).refused(403, "proxy_without_tokens");
    assert_eq!(nginx.ask("GET", "/health", &[], None).status, 200);
    let bearer = format!("Bearer {}", create(&server.place, "all", &["--scope", "admin"]));
    let headers = [("authorization", &*bearer), ("content-type", "application/json")];
    nginx.ask("GET", "/v1/stats", &headers, None).told(200);
    nginx.ask("GET", "/v1/stats", &[], None).refused(401, "unauthenticated");
    let large = json!({ "kind": "x", "payload": "x".repeat(1_000_000) }).to_string();
    nginx.ask("POST", "/v1/tasks", &headers, Some(large.as_bytes())).told(201);
    let worker = json!({ "kinds": ["none"] }).to_string();
    let worker = nginx.ask("POST", "/v1/workers", &headers, Some(worker.as_bytes())).told(201);
    let claim = format!("/v1/workers/{}/claim", worker["worker_id"].as_str().unwrap());
    let waited = nginx.ask("POST", &claim, &headers, Some(br#"{"limit": 1, "wait_seconds": 1}"#)).told(200);
    assert_eq!(waited["tasks"], json!([]));
    // An event is told at once, not when a buffer is full.
    let mut stream = nginx.connect(&request("GET", "/v1/events", &headers, None));
    assert_eq!(head(&mut stream).0, 200);
    let mut told = String::new();
    while !told.contains("event: ready") {
        told += &String::from_utf8(chunk(&mut stream).unwrap()).unwrap();
    }
    nginx.ask("POST", "/v1/tasks", &headers, Some(br#"{"kind": "told"}"#)).told(201);
    while !told.contains("\"kind\":\"told\"") {
        told += &String::from_utf8(chunk(&mut stream).unwrap()).unwrap();
    }
}
