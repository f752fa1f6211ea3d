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
    // Deprecated fields are part of the protocol that we serve; the mark only matters to the JSON dialect.
    descriptors.file.iter_mut().flat_map(|file| &mut file.message_type).for_each(unmark_deprecated);
    prost_build::Config::new()
        // Names find a message's descriptor; ordered maps make equal messages equal bytes.
        .enable_type_names()
        .btree_map(["."])
        .include_file("protos.rs")
        .compile_fds(descriptors)?;
    Ok(())
}

fn unmark_deprecated(message: &mut prost_types::DescriptorProto) {
    for options in message.field.iter_mut().filter_map(|field| field.options.as_mut()) {
        options.deprecated = None;
    }
    for options in
        message.enum_type.iter_mut().flat_map(|kind| &mut kind.value).filter_map(|value| value.options.as_mut())
    {
        options.deprecated = None;
    }
    message.nested_type.iter_mut().for_each(unmark_deprecated);
}
