//! Every test that docs/FIELD-CASES.md names, as `path.rs::name`, is in the tree.

use std::fs;

use anyhow::{Context, Result};

use crate::shell::root;

const CASES: &str = "docs/FIELD-CASES.md";

/// Adds tests that do not exist, and rows without one, to `problems`.
pub fn check(problems: &mut Vec<String>) -> Result<()> {
    let text = fs::read_to_string(root().join(CASES)).with_context(|| format!("cannot read {CASES}"))?;
    for row in text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| id ")) {
        let id = row.split('|').nth(1).unwrap_or_default().trim();
        let tests: Vec<(&str, &str)> = named(row).collect();
        if tests.is_empty() {
            problems.push(format!("{CASES}: row {id} names no test"));
        }
        for (path, test) in tests {
            let source = fs::read_to_string(root().join(path)).unwrap_or_default();
            if !source.contains(&format!("fn {test}(")) {
                problems.push(format!("{CASES}: row {id} names {path}::{test}, which does not exist"));
            }
        }
    }
    Ok(())
}

fn named(row: &str) -> impl Iterator<Item = (&str, &str)> {
    row.split('`').filter_map(|word| word.split_once("::")).filter(|(path, _)| path.ends_with(".rs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_in_a_row() {
        let row = "| B1 | `Foo::bar` is right | `a/b.rs::one`, and on Mesos `c.rs::two` |";
        assert_eq!(named(row).collect::<Vec<_>>(), [("a/b.rs", "one"), ("c.rs", "two")]);
    }
}
