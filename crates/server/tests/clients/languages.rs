//! The clients: each passes its own tests, and both pass one script, against real servers.

use crate::fleet::{Fleet, Language};
use crate::kit::Server;
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
