//! The differential suite's README says which rows of the list of Mesos' behaviours it covers. This holds it to that:
//! each row is named once at least, and the scripts name the same rows as the table of scripts.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The list has the rows M001 to M349.
const LAST: usize = 349;
/// What a row may be that no script plays: tested in another place, different for a reason, not to be seen from
/// outside or not playable to the peer at hand, or still to be done.
const KINDS: [&str; 5] = ["unit", "differs", "unseen", "no peer", "not yet"];

type Rows = BTreeSet<usize>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential")
}

fn readme() -> String {
    fs::read_to_string(folder().join("README.md")).expect("the README is there")
}

/// The rows that a text names, as in `M001, M003 to M005`.
fn rows_of(text: &str) -> Rows {
    let mut rows = Rows::new();
    let mut words = text.split([' ', ',', '|', '/']).filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        let Some(first) = row(word) else { continue };
        let mut last = first;
        if words.next_if_eq(&"to").is_some() {
            last = words.next().and_then(row).unwrap_or_else(|| panic!("a row after `to` in: {text}"));
        }
        rows.extend(first..=last);
    }
    rows
}

fn row(word: &str) -> Option<usize> {
    let digits = word.strip_prefix('M').filter(|digits| digits.len() == 3)?;
    digits.parse().ok()
}

/// The cells of the table below a heading, without its head.
fn table(readme: &str, heading: &str) -> Vec<Vec<String>> {
    let section = readme.split("\n## ").find(|section| section.starts_with(heading));
    let section = section.unwrap_or_else(|| panic!("the README has a section {heading}"));
    let lines = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    lines.map(cells).collect()
}

/// The rows of each script, by `file::name`, as its comment has them.
fn scripts() -> BTreeMap<String, Rows> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder().join("scripts")).expect("there are scripts") {
        let path = entry.expect("readable").path();
        let file = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("readable");
        let mut comment = String::new();
        for line in text.lines() {
            if let Some(words) = line.strip_prefix("// ") {
                comment.push_str(words);
                comment.push(' ');
                continue;
            }
            if let Some(name) = line.strip_prefix("async fn ").and_then(|rest| rest.split('(').next()) {
                let rows = rows_of(&comment);
                if !rows.is_empty() {
                    found.insert(format!("{file}::{name}"), rows);
                }
            }
            comment.clear();
        }
    }
    found
}

#[test]
fn the_table_of_scripts_is_what_the_scripts_say() {
    let told: BTreeMap<String, Rows> = table(&readme(), "Rows that scripts play")
        .into_iter()
        .map(|cells| (cells[0].trim_matches('`').to_owned(), rows_of(&cells[1])))
        .collect();
    assert_eq!(told, scripts());
}

#[test]
fn every_row_is_accounted_for() {
    let readme = readme();
    let played: Rows = scripts().into_values().flatten().collect();
    let mut kinds: BTreeMap<String, Rows> = BTreeMap::new();
    for cells in table(&readme, "Rows that no script plays") {
        assert!(KINDS.contains(&cells[1].as_str()), "no kind is called {}", cells[1]);
        assert!(!cells[2].is_empty(), "{}: where, or why?", cells[0]);
        if cells[1] == "unit" {
            for place in cells[2].split(", ") {
                let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(place.trim_matches('`'));
                assert!(path.exists(), "{} is not there", path.display());
            }
        }
        kinds.entry(cells[1].clone()).or_default().extend(rows_of(&cells[0]));
    }
    let known: Rows = kinds.values().flatten().chain(&played).copied().collect();
    assert_eq!(known, (1..=LAST).collect(), "rows that are named nowhere, or that are not in the list");
    let not_yet = kinds.get("not yet").cloned().unwrap_or_default();
    assert!(not_yet.is_disjoint(&played), "these are played: {:?}", not_yet.intersection(&played));
    let counts = kinds.iter().map(|(kind, rows)| format!("{kind} {}", rows.len())).collect::<Vec<_>>().join(", ");
    let summary = format!("Of the {LAST} rows scripts play {}. Of other rows: {counts}.", played.len());
    assert!(readme.contains(&summary), "the README must say: {summary}");
}
