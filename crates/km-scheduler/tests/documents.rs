//! docs/scheduler.md says what the scheduler does.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;

use clap::{Args, Command, FromArgMatches};
use km_scheduler::{Flags, RETIRED, Tuning};

/// The part of the page below a heading.
fn section(heading: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scheduler.md");
    let page = std::fs::read_to_string(page).unwrap();
    let lines = page.lines().skip_while(|line| *line != format!("## {heading}")).skip(1);
    lines.take_while(|line| !line.starts_with("## ")).map(|line| format!("{line}\n")).collect()
}

/// The rows of the table in a section, without its head; back quotes are left out.
fn table(heading: &str) -> Vec<Vec<String>> {
    let section = section(heading);
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().replace('`', "")).collect()).collect()
}

fn command() -> Command {
    Flags::augment_args(Command::new("scheduler"))
}

#[test]
fn every_flag_of_the_original_is_there_with_its_default() {
    let command = command();
    let rows = table("Flags of the original");
    assert_eq!(rows.len(), 72);
    for row in &rows {
        let [flag, default, here] = &row[..] else { panic!("{row:?}") };
        let name = flag.trim_start_matches("--");
        let named = |argument: &&clap::Arg| {
            let aliases = argument.get_all_aliases().unwrap_or_default();
            argument.get_long() == Some(name) || aliases.contains(&name)
        };
        let argument = command.get_arguments().find(named).unwrap_or_else(|| panic!("{flag} is unknown"));
        if let Some((_, reason)) = RETIRED.iter().find(|(retired, _)| *retired == name) {
            assert_eq!(*here, format!("no effect: {reason}"), "{flag}");
            continue;
        }
        assert!(!here.starts_with("no effect"), "{flag} has an effect");
        let ours: Vec<String> =
            argument.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
        let ours = Some(ours.join(",")).filter(|text| !text.is_empty()).unwrap_or_else(|| "–".to_owned());
        assert!(ours == *default || here.contains(&format!("default {ours}")), "{flag}: {ours} is not {default}");
    }
    let documented: BTreeSet<&str> = rows.iter().map(|row| row[0].trim_start_matches("--")).collect();
    assert!(RETIRED.iter().all(|(flag, _)| documented.contains(flag)));
}

#[test]
fn retired_flags_take_any_value_and_are_told() {
    for (flag, reason) in RETIRED {
        for word in [format!("--{flag}=x"), format!("--{flag}")] {
            let matches = command().try_get_matches_from(["scheduler", &word]).unwrap();
            let flags = Flags::from_arg_matches(&matches).unwrap();
            assert_eq!(flags.retired.given().collect::<Vec<_>>(), [(flag, reason)], "{word}");
        }
    }
    assert_eq!(Flags::default().retired.given().count(), 0);
}

#[test]
fn the_configuration_files_of_the_page_are_the_default_and_one_for_a_framework() {
    let section = section("The configuration file");
    let files: Vec<&str> = section.split("```ini\n").skip(1).map(|file| file.split("```").next().unwrap()).collect();
    let [defaults, framework] = files[..] else { panic!("{} files", files.len()) };
    assert_eq!(Tuning::parse(defaults), Ok(Tuning::default()));
    let settings = |file: &str| file.lines().filter(|line| line.contains(" = ")).count();
    assert_eq!(settings(defaults), 12, "every setting is shown");
    let read = Tuning::parse(framework).unwrap();
    assert_eq!((settings(framework), read.framework.len()), (8, 8), "every setting is shown");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), framework).unwrap();
    let (kubeconfig, scheduler_config) = (Some("/k".into()), Some(file.path().to_owned()));
    let flags = Flags { kubeconfig, scheduler_config, ..Flags::default() }.resolve().unwrap();
    let framework = flags.framework().unwrap();
    assert_eq!(framework.info.roles, ["prod"]);
    assert!(framework.constraints.role_constraints.contains_key("prod"));
}
