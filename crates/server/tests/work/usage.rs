//! What is typed wrong.

use crate::support::Place;

#[test]
fn what_cannot_be_meant_is_told_in_one_line_and_makes_no_file() {
    let place = Place::new();
    let many: Vec<String> = (0..257).map(|n| format!("--exec=kind-{n}=true")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for (arguments, part) in [
        (&[][..], "--exec"),
        (&["--exec", "echo"], "KIND=COMMAND"),
        (&["--exec", "a="], "KIND=COMMAND"),
        (&["--exec", "=true"], "kind is"),
        (&["--exec", "a b=true"], "kind is"),
        (&["--exec", "a=true", "--exec", "a=false"], "\"a\" twice"),
        (&["--exec", "a=true", "--pool", "0"], "--pool"),
        (&["--exec", "a=true", "--pool", "10001"], "--pool"),
        (&["--exec", "a=true", "--pool", "x"], "--pool"),
        (&["--exec", "a=true", "--grace", "10"], "1h30m"),
        (&["--exec", "a=true", "--grace", "999999d"], "365d"),
        (&["--exec", "a=true", "--patience", "1.5s"], "--patience"),
        (&["--exec", "a=true", "--dead-after", "999ms"], "1s or more"),
        (&["--exec", "a=true", "--dead-after", "soon"], "--dead-after"),
        (&["--exec", "a=true", "--queue", "a b"], "queue is"),
        (&["--exec", "a=true", "--namespace", ""], "namespace"),
        (&["--exec", "a=true", "--retry-on", "0"], "--retry-on"),
        (&["--exec", "a=true", "--retry-on", "256"], "--retry-on"),
        (&["--exec", "a=true", "--keep", "running=1d"], "--keep"),
        (&["--exec", "a=true", "--keep", "completed"], "completed=7d"),
        (&["--exec", "a=true", "--store", "mysql://x"], "sqlite:PATH"),
        (&many, "at most 256"),
    ] {
        place.run(&[&["work"], arguments].concat()).told(2, part);
        assert_eq!(place.files(), [""; 0], "{arguments:?}");
    }
}

#[test]
fn a_store_that_cannot_be_used_is_told() {
    let place = Place::new();
    place.file(
        "notes.txt",
        "not a database, but longer than a header of one would be, to be sure: no, no, no, no, no, no",
    );
    place.run(&["work", "--exec", "a=true", "--store", "sqlite:notes.txt"]).told(1, "database");
}
