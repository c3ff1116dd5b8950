//! A server by TLS, with an authority of one's own.

use super::kit::{Server, certificates};
use super::support::Place;

#[test]
fn a_server_is_known_by_its_authority() {
    let place = Place::new();
    certificates(&place, "localhost");
    let ca = place.path().join("ca.pem");
    let server = Server::in_place(place, &["--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
    let url = format!("https://localhost:{}", server.address.port());
    let here = Place::new().with("WINDLASS_SERVER", &*url);
    here.run(&["stats"]).told(1, "--ca-file");
    let ca = ca.to_str().unwrap();
    let said = here.run(&["stats", "--ca-file", ca]);
    assert_eq!(said.code, 0, "{}", said.err);
    let trusting = Place::new().with("WINDLASS_SERVER", &*url).with("WINDLASS_CA_FILE", ca);
    let id = trusting.submit(&["x", "7"]);
    // A program of a worker finds the file, too.
    trusting.drain(&[
        "--pass-store",
        "--exec",
        r#"x=cd / && "$WINDLASS" submit y >/dev/null && cat"#,
        "--exec",
        "y=cat",
    ]);
    assert_eq!(trusting.task(&id)["result"], 7);
    assert_eq!(trusting.tasks().len(), 2);
    let by_address = format!("https://{}", server.address);
    here.run(&["stats", "--ca-file", ca, "--server", &by_address]).told(1, "for another name");
    here.run(&["stats", "--ca-file", "nowhere.pem"]).told(1, "nowhere.pem");
    here.file("empty.pem", "");
    here.run(&["stats", "--ca-file", "empty.pem"]).told(1, "no certificate");
    // The wrong one of http and https.
    let plain = Server::start();
    here.run(&["stats", "--server", &format!("https://{}", plain.address)]).told(1, "is it http://?");
    let open = format!("http://{}", server.address);
    let said = here.run(&["stats", "--server", &open]);
    assert_eq!(said.code, 1, "{}", said.err);
}
