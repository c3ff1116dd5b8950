//! What the program says about itself.

use crate::Place;

#[test]
fn shells_complete_every_command() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.text(&["completions", shell]);
        for word in ["submit", "schedule", "preview", "completions"] {
            assert!(script.contains(word), "{word} in the script for {shell}");
        }
        assert_eq!(place.json(&["completions", shell])["script"], *script);
    }
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn every_command_has_a_page() {
    let place = Place::new();
    let page = place.text(&["man"]);
    assert!(page.contains(".TH windlass 1") && page.contains("NAME"), "{page}");
    let pages = place.path().join("pages");
    std::fs::create_dir(&pages).unwrap();
    let said = place.json(&["man", "--out", "pages"]);
    let names: Vec<String> = std::fs::read_dir(&pages)
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(said["files"].as_array().unwrap().len(), names.len());
    for expected in [
        "windlass.1",
        "windlass-submit.1",
        "windlass-task.1",
        "windlass-task-get.1",
        "windlass-schedule-preview.1",
    ] {
        assert!(names.iter().any(|name| name == expected), "{expected} in {names:?}");
    }
    for name in &names {
        let text = std::fs::read_to_string(pages.join(name)).unwrap();
        assert!(text.contains("Example"), "{name} has no example");
        // Every page is that of a command which has help, with an example.
        let command = name.trim_end_matches(".1").trim_start_matches("windlass");
        // The one command whose name has a dash in it.
        let command = command.replace("give-up", "give_up");
        let words = command.split('-').filter(|word| !word.is_empty()).map(|word| word.replace('_', "-"));
        let arguments: Vec<String> = words.chain(["--help".into()]).collect();
        let help = place.text(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(help.contains("Example") && help.contains("Usage: windlass"), "{name}");
    }
    assert!(place.text(&["man", "--out", "pages"]).ends_with(" pages in pages\n"));
}
