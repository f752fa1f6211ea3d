//! The map of the original (docs/ORIGINAL-MAP.md) is complete, and every test that it names is in the tree.

use std::{collections::BTreeMap, fs};

use anyhow::{Context, Result};

use crate::shell::root;

const MAP: &str = "docs/ORIGINAL-MAP.md";
/// Rows by letter and count: the first package, the later packages, the promises of the read-me file.
const ROWS: [(char, usize); 3] = [('E', 26), ('P', 49), ('R', 8)];
/// What the column `holds` may say.
const STATES: [&str; 3] = ["yes", "partly", "no"];

/// Adds what is wrong with the map to `problems`.
pub fn check(problems: &mut Vec<String>) -> Result<()> {
    let text = fs::read_to_string(root().join(MAP)).with_context(|| format!("cannot read {MAP}"))?;
    let mut sources = BTreeMap::new();
    let mut complaints = complaints(&text, |path, test| {
        let source =
            sources.entry(path.to_owned()).or_insert_with(|| fs::read_to_string(root().join(path)).unwrap_or_default());
        source.contains(&format!("fn {test}("))
    });
    problems.append(&mut complaints);
    Ok(())
}

/// `exists` says whether a file has a test of that name.
fn complaints(text: &str, mut exists: impl FnMut(&str, &str) -> bool) -> Vec<String> {
    let mut problems = Vec::new();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let id = cells.first().copied().unwrap_or_default();
        if !is_row_id(id) {
            continue;
        }
        *seen.entry(id).or_default() += 1;
        let [_, _, _, holds, proof] = cells[..] else {
            problems.push(format!("{MAP}: row {id} has {} columns, not 5", cells.len()));
            continue;
        };
        if !STATES.contains(&holds) {
            problems.push(format!("{MAP}: row {id} holds {holds:?}; say one of {}", STATES.join(", ")));
        }
        let tests: Vec<(&str, &str)> = proof.split('`').filter_map(|word| word.split_once("::")).collect();
        if holds == "yes" && tests.is_empty() {
            problems.push(format!("{MAP}: row {id} holds, but names no test"));
        }
        for (path, test) in tests {
            if !exists(path, test) {
                problems.push(format!("{MAP}: row {id} names {path}::{test}, which does not exist"));
            }
        }
    }
    for (letter, count) in ROWS {
        for number in 1..=count {
            let id = format!("{letter}{number:02}");
            match seen.get(id.as_str()).copied().unwrap_or_default() {
                1 => {}
                times => problems.push(format!("{MAP}: row {id} is there {times} times, not once")),
            }
        }
    }
    problems
}

fn is_row_id(text: &str) -> bool {
    let mut letters = text.chars();
    text.len() == 3
        && letters.next().is_some_and(|letter| ROWS.iter().any(|(known, _)| *known == letter))
        && letters.all(|letter| letter.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A map of all rows, with these lines in the place of their rows.
    fn map(changed: &[&str]) -> String {
        let mut lines: Vec<String> = ROWS
            .into_iter()
            .flat_map(|(letter, count)| (1..=count).map(move |number| format!("{letter}{number:02}")))
            .filter(|id| !changed.iter().any(|line| line.contains(id.as_str())))
            .map(|id| format!("| {id} | x | y | no | not there |"))
            .collect();
        lines.extend(changed.iter().map(|line| (*line).to_owned()));
        lines.join("\n")
    }

    #[test]
    fn what_is_wrong_with_a_map_is_named() {
        let table: [(&[&str], &str); 6] = [
            (&["| E01 | x | y | yes | `a.rs::known` |"], ""),
            (&["| E01 | x | y | yes | `a.rs::other` |"], "a.rs::other, which does not exist"),
            (&["| E01 | x | y | yes | by hand |"], "names no test"),
            (&["| E01 | x | y | perhaps | – |"], "say one of yes, partly, no"),
            (&["| E01 | x | no |"], "has 3 columns"),
            (&["| E01 | x | y | no | – |", "| E01 | x | y | no | – |"], "E01 is there 2 times"),
        ];
        for (lines, expected) in table {
            let found = complaints(&map(lines), |path, test| (path, test) == ("a.rs", "known")).join("\n");
            assert!(
                if expected.is_empty() { found.is_empty() } else { found.contains(expected) },
                "{lines:?}: {found}"
            );
        }
        assert!(complaints("", |_, _| true).len() == 83);
    }
}
