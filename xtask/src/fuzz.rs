//! `cargo xtask fuzz`: libFuzzer on the rules of km-fuzz, from their seeds.

use std::{fs, process::Command};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::shell::{self, root};

#[derive(Args)]
pub struct Flags {
    /// The rules to try; all of them, if none is named.
    targets: Vec<String>,
    /// Seconds for each.
    #[arg(long, default_value_t = 60)]
    time: u32,
}

pub fn run(flags: &Flags) -> Result<()> {
    let known = known()?;
    let unknown = flags.targets.iter().find(|name| !known.contains(name));
    ensure!(unknown.is_none(), "no rule is called {unknown:?}; there are {}", known.join(", "));
    let chosen = if flags.targets.is_empty() { &known } else { &flags.targets };
    for name in chosen {
        let (corpus, seeds) = (format!("fuzz/corpus/{name}"), format!("crates/km-fuzz/seeds/{name}"));
        fs::create_dir_all(root().join(&corpus)).with_context(|| corpus.clone())?;
        let mut cargo = Command::new("cargo");
        // The instrumentation is not in stable compilers; the pinned one has it all the same.
        cargo.current_dir(root()).env("RUSTC_BOOTSTRAP", "1");
        cargo.args(["fuzz", "run", "--sanitizer", "none", name.as_str(), &corpus, &seeds, "--"]);
        shell::run(cargo.arg(format!("-max_total_time={}", flags.time)).args(["-timeout=10", "-print_final_stats=1"]))?;
    }
    Ok(())
}

fn known() -> Result<Vec<String>> {
    let folder = root().join("crates/km-fuzz/seeds");
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}
