//! What the README and the documentation show is what runs.

/// The README's program is the example that the gate runs, line for line.
#[test]
fn the_first_program_is_the_example() {
    let readme = include_str!("../../../README.md");
    let example = include_str!("../examples/first_program.rs");
    let program = &example[example.find("use serde::").expect("the program begins with what it uses")..];
    assert!(readme.contains(program), "README.md and examples/first_program.rs differ");
}

/// The definition that the page about workflows shows in Rust is the one of the example that the gate runs.
#[test]
fn the_definition_in_rust_is_the_example() {
    let page = include_str!("../../../docs/workflows.md");
    let example = include_str!("../examples/workflow.rs");
    let (_, rest) = page.split_once("```rust\n").expect("the page has a program");
    let (program, _) = rest.split_once("```").expect("which ends");
    assert!(example.contains(program), "docs/workflows.md and examples/workflow.rs differ");
}
