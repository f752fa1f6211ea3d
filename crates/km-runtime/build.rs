//! Compiles the programs of the built-in images, so that the binary carries images which need no registry.

use std::{env, path::PathBuf, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=images");
    for name in ["hello", "pause"] {
        if let Err(error) = compile(name) {
            println!("cargo::error=built-in image {name}: {error}");
        }
    }
}

/// Statically linked against the C library of the build target: a static libc (`libc.a`) must be there, as it is with
/// every C tool chain of the usual distributions.
fn compile(name: &str) -> Result<(), Box<dyn std::error::Error>> {
    let source = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("images").join(format!("{name}.rs"));
    let program = PathBuf::from(env::var("OUT_DIR")?).join(name);
    let output = Command::new(env::var("RUSTC")?)
        .args(["--edition", "2024", "--crate-type", "bin", "--target", &env::var("TARGET")?])
        .args(["-C", "target-feature=+crt-static", "-C", "opt-level=s", "-C", "panic=abort", "-C", "strip=symbols"])
        .arg("-o")
        .arg(&program)
        .arg(source)
        .output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).replace('\n', " ").into())
    }
}
