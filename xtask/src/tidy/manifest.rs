//! As much of TOML as manifests use, so that this program needs no dependency.
//!
//! Not understood: strings over several lines. No manifest has a use for them.

/// One value with its full key: `[lints]` and `workspace = true` give `lints.workspace`.
pub(super) struct Entry {
    pub(super) key: Vec<String>,
    /// As written, without a comment. Quotes are taken off where the value is one string.
    pub(super) value: String,
    /// Counted from one.
    pub(super) line: usize,
}

/// A crate that a manifest asks for.
pub(super) struct Dependency {
    /// The crate's own name, where the manifest renames it.
    pub(super) name: String,
    pub(super) for_tests: bool,
    pub(super) line: usize,
}

/// Every value of the manifest, those of inline tables included.
pub(super) fn parse(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut table = Vec::new();
    let mut lines = (1..).zip(text.lines().map(without_comment));
    while let Some((line, statement)) = lines.next() {
        let statement = statement.trim();
        if statement.starts_with('[') {
            table = split_key(statement.trim_matches(['[', ']']));
            continue;
        }
        let Some((key, value)) = split_once_outside(statement, '=') else { continue };
        let mut value = value.trim().to_owned();
        while depth(&value) > 0 {
            let Some((_, more)) = lines.next() else { break };
            value.push(' ');
            value.push_str(more.trim());
        }
        let key = [table.as_slice(), &split_key(key)].concat();
        push_value(&mut entries, key, &value, line);
    }
    entries
}

/// The value at a dotted key.
pub(super) fn value<'a>(entries: &'a [Entry], key: &str) -> Option<&'a str> {
    entries.iter().find(|entry| entry.key.join(".") == key).map(|entry| entry.value.as_str())
}

/// What the package depends on, for any target and any purpose. The table of versions of a workspace is no
/// dependency of anything.
pub(super) fn dependencies(entries: &[Entry]) -> Vec<Dependency> {
    let mut found: Vec<(&[String], Dependency)> = Vec::new();
    for entry in entries {
        let start = if entry.key[0] == "target" { 2 } else { 0 };
        let [table, name, rest @ ..] = entry.key.get(start..).unwrap_or_default() else { continue };
        let for_tests = match table.as_str() {
            "dependencies" | "build-dependencies" => false,
            "dev-dependencies" => true,
            _ => continue,
        };
        let place = &entry.key[..start + 2];
        if found.last().is_none_or(|(last, _)| *last != place) {
            found.push((place, Dependency { name: name.clone(), for_tests, line: entry.line }));
        }
        if let ([key], Some((_, dependency))) = (rest, found.last_mut())
            && key == "package"
        {
            dependency.name.clone_from(&entry.value);
        }
    }
    found.into_iter().map(|(_, dependency)| dependency).collect()
}

fn push_value(entries: &mut Vec<Entry>, key: Vec<String>, value: &str, line: usize) {
    let Some(inside) = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        entries.push(Entry { key, value: value.trim_matches(['"', '\'']).to_owned(), line });
        return;
    };
    for pair in split_outside(inside, ',') {
        if let Some((inner, value)) = split_once_outside(pair, '=') {
            push_value(entries, [key.as_slice(), &split_key(inner)].concat(), value.trim(), line);
        }
    }
}

fn split_key(key: &str) -> Vec<String> {
    split_outside(key, '.').iter().map(|part| part.trim().trim_matches(['"', '\'']).to_owned()).collect()
}

/// The characters that are not within quotes, with their places.
fn unquoted(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut quote = None;
    text.char_indices().filter(move |&(_, c)| match quote {
        Some(open) => {
            if c == open {
                quote = None;
            }
            false
        }
        None if c == '"' || c == '\'' => {
            quote = Some(c);
            false
        }
        None => true,
    })
}

fn without_comment(line: &str) -> &str {
    unquoted(line).find(|&(_, c)| c == '#').map_or(line, |(at, _)| &line[..at])
}

/// How many brackets are open at the end.
fn depth(text: &str) -> usize {
    unquoted(text).fold(0, |depth, (_, c)| match c {
        '[' | '{' => depth + 1,
        ']' | '}' => depth.saturating_sub(1),
        _ => depth,
    })
}

/// Splits where the separator is within neither quotes nor brackets.
fn split_outside(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut depth = 0_usize;
    for (at, c) in unquoted(text) {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            _ if c == separator && depth == 0 => {
                parts.push(&text[start..at]);
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn split_once_outside(text: &str, separator: char) -> Option<(&str, &str)> {
    let (at, _) = unquoted(text).find(|&(_, c)| c == separator)?;
    Some((&text[..at], &text[at + separator.len_utf8()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_a_key_gives_the_same_entry() {
        for text in [
            "[lints]\nworkspace = true",
            "lints.workspace = true # why",
            "lints = { workspace = true }",
            "[\"lints\"]\n'workspace' = true",
        ] {
            assert_eq!(value(&parse(text), "lints.workspace"), Some("true"), "{text}");
        }
    }

    #[test]
    fn an_array_over_several_lines_hides_no_key_and_shows_none() {
        let entries = parse("[features]\nall = [\n  \"a=b\", # c = d\n  \"e\",\n]\nnext = []\n");
        let keys: Vec<String> = entries.iter().map(|entry| entry.key.join(".")).collect();
        assert_eq!(keys, ["features.all", "features.next"]);
        assert_eq!(entries[1].line, 6);
    }

    #[test]
    fn dependencies_are_found_in_every_table_and_under_their_own_name() {
        let text = "\
[workspace.dependencies]
not-this = \"1\"
[dependencies]
a.workspace = true
b = { version = \"1\", package = \"real-b\", features = [\"x\", \"y\"] }
[dependencies.c]
version = \"1\"
package = \"real-c\"
[dev-dependencies]
d = \"1\"
[target.'cfg(unix)'.build-dependencies]
e = \"1\"
";
        let found: Vec<(String, bool, usize)> =
            dependencies(&parse(text)).into_iter().map(|it| (it.name, it.for_tests, it.line)).collect();
        let expected =
            [("a", false, 4), ("real-b", false, 5), ("real-c", false, 7), ("d", true, 10), ("e", false, 12)];
        assert_eq!(found, expected.map(|(name, for_tests, line)| (name.to_owned(), for_tests, line)));
    }
}
