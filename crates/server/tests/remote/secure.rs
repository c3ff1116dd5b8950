//! A server by TLS, with an authority of one's own.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};

use super::kit::Server;
use super::support::Place;

/// Writes an authority's certificate, and one that it signed for a name, with its key.
fn certificates(place: &Place, name: &str) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let signed = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    place.file("ca.pem", authority.pem());
    place.file("cert.pem", signed.pem());
    place.file("key.pem", key.serialize_pem());
}

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
    trusting.drain(&["--exec", r#"x=cd / && "$WINDLASS" submit y >/dev/null && cat"#, "--exec", "y=cat"]);
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
