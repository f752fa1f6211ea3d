//! Compiles the `.proto` files of `proto/` without protoc and keeps their descriptors for the JSON dialect.

use std::{env, error::Error, fs, path::PathBuf};

const FILES: [&str; 8] = ["mesos", "scheduler", "executor", "master", "agent", "maintenance", "quota", "allocator"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = FILES.map(|name| format!("mesos/v1/{name}.proto"));
    let mut descriptors = protox::compile(files, ["proto"])?;
    for file in &mut descriptors.file {
        // Comments and positions are three quarters of the size and nobody reads them at run time.
        file.source_code_info = None;
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), prost::Message::encode_to_vec(&descriptors))?;
    prost_build::Config::new()
        // Names find a message's descriptor; ordered maps make equal messages equal bytes.
        .enable_type_names()
        .btree_map(["."])
        .include_file("protos.rs")
        .compile_fds(descriptors)?;
    Ok(())
}
