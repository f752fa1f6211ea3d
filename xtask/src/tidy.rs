//! `cargo xtask tidy`: the rules of the house that the compiler does not know.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{named_tests, original_map, shell::root};

/// A crate may use crates of lower floors only; see ARCHITECTURE.md.
const FLOORS: [(&str, u8); 24] = [
    ("km-mesos-proto", 0),
    ("km-kube", 0),
    ("km-offers", 1),
    ("km-podtask", 1),
    ("km-placement", 1),
    ("km-pod", 1),
    ("km-mesos-core", 1),
    ("km-mesos-client", 2),
    ("km-store", 2),
    ("km-fakeapi", 2),
    ("km-runtime", 2),
    ("km-observe", 2),
    ("km-fuzz", 3),
    ("km-scheduler", 3),
    ("km-executor", 3),
    ("km-apiserver", 3),
    ("km-controllers", 3),
    ("km-proxy", 3),
    ("km-minion", 3),
    ("km-mesos", 3),
    ("km-sim", 4),
    ("km-testkit", 4),
    ("km-bench", 5),
    ("km", 5),
];

/// Crates that decide and must not touch the world.
const CORES: [&str; 9] = [
    "km-mesos-proto",
    "km-fakeapi",
    "km-kube",
    "km-offers",
    "km-podtask",
    "km-placement",
    "km-pod",
    "km-mesos-core",
    "km-sim",
];

/// What a core may not name, outside its tests.
const IO: [&str; 8] = [
    "tokio::",
    "std::net::Tcp",
    "std::fs",
    "std::process",
    "SystemTime::now",
    "Instant::now",
    "thread::sleep",
    "reqwest",
];

const LONGEST_FILE: usize = 600;

pub fn run() -> Result<()> {
    let mut problems = Vec::new();
    floors(&mut problems)?;
    cores(&mut problems)?;
    sources(&mut problems)?;
    dependencies(&mut problems)?;
    links(&mut problems)?;
    original_map::check(&mut problems)?;
    named_tests::check(&mut problems)?;
    for problem in &problems {
        eprintln!("tidy: {problem}");
    }
    if problems.is_empty() { Ok(()) } else { bail!("{} rules of the house are broken", problems.len()) }
}

fn floors(problems: &mut Vec<String>) -> Result<()> {
    let floors: BTreeMap<_, _> = FLOORS.into_iter().collect();
    for folder in folders(&root().join("crates"))? {
        let name = file_name(&folder);
        let Some(floor) = floors.get(name.as_str()) else {
            problems.push(format!("crate {name} stands on no floor: add it to FLOORS"));
            continue;
        };
        for used in section(&folder.join("Cargo.toml"), "[dependencies]")? {
            if floors.get(used.as_str()).is_some_and(|below| below >= floor) {
                problems.push(format!("{name} (floor {floor}) uses {used}, which stands no lower"));
            }
        }
    }
    Ok(())
}

fn cores(problems: &mut Vec<String>) -> Result<()> {
    for name in CORES {
        for file in rust_files(&root().join("crates").join(name).join("src"))? {
            if file_name(&file).contains("test") {
                continue;
            }
            let text = read(&file)?;
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for (number, line) in code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
                if let Some(word) = IO.iter().find(|word| line.contains(**word)) {
                    problems.push(format!("{}:{}: a core names {word}", shown(&file), number + 1));
                }
            }
        }
    }
    Ok(())
}

fn sources(problems: &mut Vec<String>) -> Result<()> {
    for folder in ["crates", "xtask"] {
        for file in rust_files(&root().join(folder))? {
            let text = read(&file)?;
            if !text.starts_with("//!") {
                problems.push(format!("{}: the first line must say what the file is for (//!)", shown(&file)));
            }
            let lines = text.lines().count();
            if lines > LONGEST_FILE {
                problems.push(format!("{}: {lines} lines; is it one idea? (at most {LONGEST_FILE})", shown(&file)));
            }
            let left_open = ["todo!(", "unimplemented!(", "FIXME"];
            for word in left_open.iter().filter(|_| file_name(&file) != "tidy.rs") {
                if text.contains(word) {
                    problems.push(format!("{}: leaves something open: {word}", shown(&file)));
                }
            }
        }
    }
    Ok(())
}

fn dependencies(problems: &mut Vec<String>) -> Result<()> {
    let reasons = read(&root().join("docs/DEPENDENCIES.md"))?;
    for name in section(&root().join("Cargo.toml"), "[workspace.dependencies]")? {
        if !name.starts_with("km-") && !reasons.contains(&format!("`{name}`")) {
            problems.push(format!("docs/DEPENDENCIES.md does not say why {name} is here"));
        }
    }
    Ok(())
}

fn links(problems: &mut Vec<String>) -> Result<()> {
    for file in files(&root(), "md")? {
        let folder = file.parent().unwrap_or_else(|| Path::new(".")).to_owned();
        let text = read(&file)?;
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap_or_default();
            if !path.is_empty() && !path.contains("://") && !folder.join(path).exists() {
                problems.push(format!("{}: dead link {target}", shown(&file)));
            }
        }
    }
    Ok(())
}

/// The keys of one section of a Cargo.toml, without what follows the first dot.
fn section(path: &Path, header: &str) -> Result<BTreeSet<String>> {
    let text = read(path)?;
    let lines = text.lines().skip_while(|line| *line != header).skip(1).take_while(|line| !line.starts_with('['));
    let keys = lines.filter(|line| !line.starts_with('#') && line.contains('='));
    Ok(keys.filter_map(|line| line.split(['.', ' ', '=']).next()).map(str::to_owned).collect())
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    files(folder, "rs")
}

fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            let name = file_name(&path);
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                open.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths: Vec<_> =
        entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    paths.sort();
    Ok(paths)
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
