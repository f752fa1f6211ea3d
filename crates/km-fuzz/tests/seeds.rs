//! Every rule holds of its seeds and of what random changes make of them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use km_fuzz::{TARGETS, Target};
use proptest::{prelude::*, test_runner::TestRunner};

/// A change of some bytes: where, as a share of the length, and what is done there.
#[derive(Clone, Debug)]
enum Change {
    Set(u16, u8),
    Insert(u16, Vec<u8>),
    Remove(u16, u8),
    /// Bytes of one place come again at another.
    Repeat(u16, u16, u8),
    End(u16),
}

fn change() -> impl Strategy<Value = Change> {
    let special = prop::sample::select(b"\"[]{}()<>,;:-+.*/\\ \n0195eE\0\xff\xc3".to_vec());
    let bytes = prop::collection::vec(prop_oneof![special.clone(), any::<u8>()], 1..8);
    prop_oneof![
        4 => (any::<u16>(), prop_oneof![special, any::<u8>()]).prop_map(|(at, byte)| Change::Set(at, byte)),
        3 => (any::<u16>(), bytes).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        2 => (any::<u16>(), 1u8..16).prop_map(|(at, length)| Change::Remove(at, length)),
        2 => (any::<u16>(), any::<u16>(), 1u8..64).prop_map(|(from, to, length)| Change::Repeat(from, to, length)),
        1 => any::<u16>().prop_map(Change::End),
    ]
}

fn changed(mut data: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let place = |at: u16| usize::from(at) * data.len() / (usize::from(u16::MAX) + 1);
        let piece = |at: usize, length: u8| at..data.len().min(at + usize::from(length));
        match change {
            Change::Set(at, byte) => {
                let at = place(*at);
                if let Some(old) = data.get_mut(at) {
                    *old = *byte;
                }
            }
            Change::Insert(at, bytes) => {
                let at = place(*at);
                data.splice(at..at, bytes.iter().copied());
            }
            Change::Remove(at, length) => {
                let gone = piece(place(*at), *length);
                data.drain(gone);
            }
            Change::Repeat(from, to, length) => {
                let (copy, to) = (data[piece(place(*from), *length)].to_vec(), place(*to));
                data.splice(to..to, copy);
            }
            Change::End(at) => {
                let end = place(*at);
                data.truncate(end);
            }
        }
    }
    data
}

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = files.map(|file| file.expect("a listed file").path()).collect();
    files.sort();
    files
}

/// What broke of a target's rule, if anything.
fn broken(target: Target) -> Option<String> {
    let seeds: Vec<Vec<u8>> =
        files(&format!("seeds/{}", target.name)).iter().map(|file| fs::read(file).expect("a file of seeds")).collect();
    assert!(!seeds.is_empty(), "{} has no seeds", target.name);
    seeds.iter().for_each(|seed| (target.check)(seed));
    let inputs = (prop::sample::select(seeds), prop::collection::vec(change(), 1..12));
    let inputs = inputs.prop_map(|(seed, changes)| changed(seed, &changes));
    let config = ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(&inputs, |data| {
        (target.check)(&data);
        Ok(())
    });
    outcome.err().map(|error| format!("{}: {error}\n", target.name))
}

#[test]
fn rules_hold_of_seeds_and_what_is_like_them() {
    let broken: String = TARGETS.into_iter().filter_map(broken).collect();
    assert!(broken.is_empty(), "{broken}");
}

#[test]
fn every_target_has_its_program() {
    let stem = |file: &PathBuf| file.file_stem().map(|name| name.to_string_lossy().into_owned());
    let programs: Vec<String> = files("../../fuzz/fuzz_targets").iter().filter_map(stem).collect();
    let mut names = TARGETS.map(|target| target.name);
    names.sort_unstable();
    assert_eq!(programs, names);
}
