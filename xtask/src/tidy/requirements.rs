//! The numbers that tests and comments cite are defined in `docs/requirements.md`.

use std::collections::BTreeMap;

use super::Found;
use super::prose::prose;
use super::tree::{File, Tree};

const PAGE: &str = "docs/requirements.md";

pub(super) fn requirements(tree: &Tree) -> Found {
    let mut found = Vec::new();
    let mut defined: BTreeMap<&str, usize> = BTreeMap::new();
    for (line, number) in tree.file(PAGE).into_iter().flat_map(definitions) {
        if let Some(first) = defined.get(number) {
            let message = format!("`{number}` is defined in line {first} already; merge the two entries");
            found.push((PAGE.to_owned(), line, message));
        } else {
            defined.insert(number, line);
        }
    }
    for file in tree.files.iter().filter(|file| !file.quotes_the_rules()) {
        for (line, number) in citations(file) {
            if !defined.contains_key(number.as_str()) {
                let message = format!(
                    "`{number}` is not defined in {PAGE}; define it there as `- **{number}** …`, \
                     or say in words what you mean"
                );
                found.push((file.path.clone(), line, message));
            }
        }
    }
    found
}

/// Entries of the page: `- **I1** What holds.`
fn definitions(page: &File) -> impl Iterator<Item = (usize, &str)> {
    page.lines().filter_map(|(line, text)| {
        let number = text.strip_prefix("- **")?.split_once("**")?.0;
        (is_letter(number) || is_section(number)).then_some((line, number))
    })
}

/// `I4`, `C25` and `L1` anywhere in prose. `3.4` only where it cannot be a quantity: at the beginning of a
/// documentation comment, and in brackets that hold nothing else.
fn citations(file: &File) -> Vec<(usize, String)> {
    if file.extension() == "json" {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (line, text) in prose(file) {
        let words = text.split(|c: char| !(c.is_alphanumeric() || "_%.".contains(c)));
        let words = words.map(|word| word.trim_end_matches('.')).filter(|word| is_letter(word));
        found.extend(words.map(|word| (line, word.to_owned())));
    }
    if file.extension() == "rs" {
        let mut before = "";
        for (line, text) in file.lines() {
            let is_first = !before.trim_start().starts_with("///");
            let documentation = text.trim_start().strip_prefix("///").filter(|_| is_first);
            let leading = documentation.into_iter().flat_map(leading_sections);
            let sections = leading.chain(sections_in_brackets(text));
            found.extend(sections.map(|number| (line, number.to_owned())));
            before = text;
        }
    }
    found
}

/// `4.4` and `4.5` of a comment with `(4.4, C69, 4.5)`.
fn sections_in_brackets(line: &str) -> impl Iterator<Item = &str> {
    let comment = line.split_once("//").map_or("", |(_, comment)| comment);
    let brackets = comment.split('(').skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    let numbers = brackets.filter(|inner| inner.split(", ").all(|part| is_letter(part) || is_section(part)));
    numbers.flat_map(|inner| inner.split(", ")).filter(|part| is_section(part))
}

/// The section numbers of a comment such as `0.8, C8, 1.4: first come, first served`.
fn leading_sections(comment: &str) -> impl Iterator<Item = &str> {
    comment
        .trim_start()
        .split(", ")
        .map(|part| part.split([':', ' ']).next().unwrap_or_default())
        .map_while(|part| (is_letter(part) || is_section(part)).then_some(part))
        .filter(|part| is_section(part))
}

fn is_letter(word: &str) -> bool {
    word.strip_prefix(['C', 'I', 'L']).is_some_and(is_short_number)
}

fn is_section(word: &str) -> bool {
    word.split_once('.').is_some_and(|(chapter, number)| {
        chapter.len() == 1 && is_short_number(chapter) && is_short_number(number)
    })
}

fn is_short_number(digits: &str) -> bool {
    matches!(digits.len(), 1 | 2) && digits.bytes().all(|byte| byte.is_ascii_digit())
}
