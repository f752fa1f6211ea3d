//! hostPath volumes: what the type asks for is checked, or made.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::Path,
};

use k8s_openapi::api::core::v1::HostPathVolumeSource;

pub fn check(source: &HostPathVolumeSource) -> Result<(), String> {
    let path = Path::new(&source.path);
    if !path.is_absolute() {
        return Err(format!("hostPath {:?} must be absolute", source.path));
    }
    let kind = source.type_.as_deref().unwrap_or_default();
    let failed = |error: std::io::Error| format!("hostPath {}: {error}", source.path);
    match kind {
        "DirectoryOrCreate" if !path.exists() => {
            fs::create_dir_all(path).map_err(failed)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(failed)?;
        }
        "FileOrCreate" if !path.exists() => {
            fs::write(path, "").map_err(failed)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o644)).map_err(failed)?;
        }
        // Without a type anything goes; what isn't there becomes a folder, as the mount needs something.
        "" if !path.exists() => fs::create_dir_all(path).map_err(failed)?,
        _ => {}
    }
    let found = fs::metadata(path).map_err(failed)?.file_type();
    let fits = match kind {
        "" => true,
        "DirectoryOrCreate" | "Directory" => found.is_dir(),
        "FileOrCreate" | "File" => found.is_file(),
        "Socket" => found.is_socket(),
        "CharDevice" => found.is_char_device(),
        "BlockDevice" => found.is_block_device(),
        other => return Err(format!("hostPath type {other:?} is unknown")),
    };
    if fits { Ok(()) } else { Err(format!("hostPath type check failed: {} is not a {kind}", source.path)) }
}
