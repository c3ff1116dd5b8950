//! The clients: each passes its own tests, and both pass one script, against real servers.

use crate::fleet::{Fleet, Language};
use crate::kit::Server;
use crate::support::Place;
use crate::tools::{npm_tests, python, root, run};

#[test]
fn python_has_sound_types() {
    let said = run(python()
        .args(["-m", "mypy", "--cache-dir"])
        .arg(root().join("target/mypy"))
        .current_dir(root().join("clients/python")));
    assert!(said.contains("Success: no issues found"), "{said}");
}

#[test]
fn python_passes_its_tests() {
    let said = run(python()
        .args(["-m", "unittest", "discover", "-s", "tests"])
        .current_dir(root().join("clients/python")));
    assert!(said.contains("\nOK"), "{said}");
    println!("{said}");
}

/// What is published is what the tests run: a wheel with everything in it, that needs nothing else.
#[test]
fn python_is_installed_from_its_wheel() {
    let place = Place::new();
    let at = |name: &str| place.path().join(name);
    // Building writes beside the sources.
    run(std::process::Command::new("cp").arg("-r").arg(root().join("clients/python")).arg(at("source")));
    let pip = |arguments: &[&str]| {
        let mut pip = python();
        pip.args(["-m", "pip", "--disable-pip-version-check", "--no-input"]).args(arguments);
        run(pip.current_dir(place.path()))
    };
    // What it is built with is there already.
    pip(&[
        "wheel",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        "wheels",
        "./source",
    ]);
    let wheels: Vec<_> =
        std::fs::read_dir(at("wheels")).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert_eq!(wheels, [concat!("windlass-", env!("CARGO_PKG_VERSION"), "-py3-none-any.whl")]);
    let wheel = format!("wheels/{}", wheels[0].to_str().unwrap());
    pip(&["install", "--quiet", "--no-index", "--target", "installed", &wheel]);
    assert!(at("installed/windlass/py.typed").is_file(), "its types are part of it");
    let server = Server::start();
    let program = "import sys, windlass\n\
        client = windlass.Client(sys.argv[1])\n\
        print(windlass.__file__, windlass.__version__, client.submit('x', {'a': 1})['state'])";
    let mut python = std::process::Command::new("python3");
    // In a place of its own, with nothing else to be found.
    python.args(["-s", "-c", program, &format!("http://{}", server.address)]);
    let said = run(python.env("PYTHONPATH", at("installed")).current_dir(place.path()));
    assert!(said.contains("installed/windlass/__init__.py"), "{said}");
    assert!(said.trim_end().ends_with(concat!(env!("CARGO_PKG_VERSION"), " pending")), "{said}");
}

/// That it compiles under the strictest rules is seen when it is built.
#[test]
fn typescript_passes_its_tests() {
    let said = run(&mut npm_tests());
    assert!(said.contains("# fail 0"), "{said}");
    println!("{said}");
}

#[test]
fn both_pass_one_script_and_work_on_one_workflow() {
    for server in Server::each() {
        let _fleet = Fleet::start(&server, &[Language::Python, Language::TypeScript], 4);
        let script = root().join("clients/conformance/script.json");
        for language in [Language::Python, Language::TypeScript] {
            let said = run(language.conformance().arg("run").arg(&script).args([
                "--both",
                "--server",
                &format!("http://{}", server.address),
            ]));
            assert!(said.contains(" passed, 0 failed") && said.contains("both languages"), "{said}");
            println!("{said}");
        }
    }
}
