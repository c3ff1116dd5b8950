//! The workflow file: read, checked, and what is wrong with it told with places.

use std::fs::File;
use std::io::{Read, Write, stderr};
use std::path::Path;

use anyhow::Result;
use windlass::flow::{self, Document, Problem};
use windlass::limits;

use crate::escape::plain;
use crate::failure::Usage;

/// Reads and checks a workflow file. What is wrong, and what is odd, goes to standard error, a line each.
pub(crate) fn read(path: &Path) -> Result<Document> {
    let name = path.display().to_string();
    let text = text(path).map_err(|why| Usage::new(format!("{name}: {why}")))?;
    let (document, problems) = match flow::check(&text) {
        Ok((document, warnings)) => (Some(document), warnings),
        Err(problems) => (None, problems),
    };
    for problem in &problems {
        // Nobody may listen; the exit code says it too.
        let _ = writeln!(stderr(), "{}", line(&name, problem));
    }
    let count = problems.iter().filter(|problem| !problem.is_warning).count();
    document.ok_or_else(|| {
        let problems = if count == 1 { "a problem" } else { "problems" };
        Usage::new(format!("{name} has {problems}; nothing was started")).into()
    })
}

fn text(path: &Path) -> Result<String, String> {
    let most = u64::try_from(limits::DEFINITION_BYTES).unwrap_or(u64::MAX) + 1;
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    read.map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text; a workflow is YAML or JSON".into())
}

/// `flow.yaml:4:28: steps.count.needs[0]: there is no step "lst"; did you mean "list"?`
fn line(name: &str, problem: &Problem) -> String {
    let (line, column) = (problem.line.unwrap_or(1), problem.column.unwrap_or(1));
    let bare = Problem { line: None, column: None, ..problem.clone() };
    plain(&format!("{name}:{line}:{column}: {bare}")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_a_place_that_editors_understand() {
        let problems = flow::check("name: x\nsteps:\n  list: {run: ls}\n  count: {run: wc, needs: [lst]}\n")
            .unwrap_err();
        assert_eq!(
            line("a\u{1b}.yaml", &problems[0]),
            "a\\u{1b}.yaml:4:28: steps.count.needs[0]: there is no step \"lst\"; did you mean \"list\"?"
        );
    }
}
