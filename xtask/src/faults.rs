//! Longer runs of the tests that break things on purpose: processes killed and stopped, servers and
//! connections that fail, and simulated faults.
//!
//! The tests are those of the gate; variables in the environment tell them how long to go on.

use std::path::Path;

use crate::{cargo, provision};

/// What can be asked for: the option, the variable that the tests read, and how many make a long run.
const NUMBERS: [(&str, &str, &str); 5] = [
    ("--kills", "WINDLASS_KILLS", "10000"),
    ("--zombies", "WINDLASS_ZOMBIES", "2000"),
    ("--restarts", "WINDLASS_RESTARTS", "2000"),
    ("--answers", "WINDLASS_ANSWERS", "20000"),
    ("--seeds", "WINDLASS_SEEDS", "100000"),
];

/// The test programs.
const PROGRAMS: [&str; 3] = ["kill", "postgres_faults", "simulation"];

/// Runs all programs in release mode, each also if one before it fails. `Err` is for the terminal.
pub(crate) fn run(root: &Path, variables: &[(&str, &str)]) -> Result<(), String> {
    provision::run(root, false)?;
    for (name, value) in variables {
        println!("{name}={value}");
    }
    let failed: Vec<String> = PROGRAMS
        .into_iter()
        .filter_map(|program| {
            let line =
                ["test", "--release", "--locked", "-p", "windlass", "--all-features", "--test", program];
            cargo::run(root, &[&line[..], &["--", "--nocapture"]].concat(), variables).err()
        })
        .collect();
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// The variables for a command line. Without options: a long run of everything. With options: what they say,
/// and the rest as in the gate.
pub(crate) fn variables(words: &[String]) -> Result<Vec<(&'static str, &str)>, String> {
    if words.is_empty() {
        return Ok(NUMBERS.map(|(_, variable, number)| (variable, number)).to_vec());
    }
    let mut variables = Vec::new();
    for pair in words.chunks(2) {
        let known = NUMBERS.iter().find(|(option, ..)| *option == pair[0]);
        let Some((option, variable, _)) = known else {
            let known = NUMBERS.map(|(option, ..)| option).join(", ");
            return Err(format!("`faults` has no option `{}`; there are {known}", pair[0]));
        };
        match pair.get(1) {
            Some(number) if number.parse::<u64>().is_ok_and(|number| number > 0) => {
                variables.push((*variable, number.as_str()));
            }
            _ => return Err(format!("`{option}` takes a number, as in `{option} 1000`")),
        }
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Vec<(String, String)>, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let variables = variables(&words)?;
        Ok(variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    #[test]
    fn options_become_variables() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = vec![pair("WINDLASS_SEEDS", "7"), pair("WINDLASS_KILLS", "100")];
        assert_eq!(asked("--seeds 7 --kills 100"), Ok(expected));
        assert_eq!(asked("").unwrap().len(), NUMBERS.len(), "without options everything runs long");
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for (line, expected) in [
            ("--kill 5", "no option `--kill`"),
            ("--kills", "`--kills` takes a number"),
            ("--kills many", "`--kills` takes a number"),
            ("--seeds 0", "`--seeds` takes a number"),
            ("--cuts 5", "there are --kills, --zombies, --restarts, --answers, --seeds"),
        ] {
            let said = asked(line).unwrap_err();
            assert!(said.contains(expected), "{line}: {said}");
        }
    }
}
