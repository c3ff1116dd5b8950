//! What the README shows is what runs.

/// The README's program is the example that the gate runs, line for line.
#[test]
fn the_first_program_is_the_example() {
    let readme = include_str!("../../../README.md");
    let example = include_str!("../examples/first_program.rs");
    let program = &example[example.find("use serde::").expect("the program begins with what it uses")..];
    assert!(readme.contains(program), "README.md and examples/first_program.rs differ");
}
