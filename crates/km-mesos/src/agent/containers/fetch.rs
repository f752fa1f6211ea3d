//! Fetches a command's URIs into the sandbox, as the Mesos fetcher does: local files and http(s), made executable,
//! extracted, or renamed.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, anyhow, bail};
use futures::StreamExt;
use km_mesos_core::agent::Launch;
use km_mesos_proto::v1::command_info::Uri;
use tokio::{fs, io::AsyncWriteExt, process::Command};

/// How long a server may stay silent.
const SILENCE: Duration = Duration::from_secs(30);

pub(super) async fn fetch(launch: &Launch, cache: &Path) -> anyhow::Result<()> {
    for uri in &launch.command.uris {
        fetch_one(uri, Path::new(&launch.sandbox), cache)
            .await
            .with_context(|| format!("cannot fetch {}", uri.value))?;
    }
    Ok(())
}

async fn fetch_one(uri: &Uri, sandbox: &Path, cache: &Path) -> anyhow::Result<()> {
    let target = sandbox.join(target_name(uri)?);
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).await?;
    }
    match Source::of(&uri.value)? {
        Source::File(path) => copy(&path, &target).await?,
        Source::Http(url) if uri.cache() => {
            let cached = cache.join(cache_name(&url));
            if !fs::try_exists(&cached).await? {
                fs::create_dir_all(cache).await?;
                download(&url, &cached).await?;
            }
            copy(&cached, &target).await?;
        }
        Source::Http(url) => download(&url, &target).await?,
    }
    if uri.executable() {
        let mode = std::fs::Permissions::from_mode(0o755);
        fs::set_permissions(&target, mode).await?;
    } else if uri.extract() {
        extract(&target, sandbox).await?;
    }
    Ok(())
}

#[derive(Debug, PartialEq)]
enum Source {
    File(PathBuf),
    Http(String),
}

impl Source {
    fn of(value: &str) -> anyhow::Result<Self> {
        if let Some(path) = value.strip_prefix("file://") {
            // file://host/path names a host, which can only be this one.
            let path = path.strip_prefix("localhost").unwrap_or(path);
            return Ok(Self::File(PathBuf::from(path)));
        }
        if value.starts_with("http://") || value.starts_with("https://") {
            return Ok(Self::Http(value.to_owned()));
        }
        if value.starts_with('/') {
            return Ok(Self::File(PathBuf::from(value)));
        }
        bail!("URI must be an absolute path, file:///…, http://… or https://…")
    }
}

/// The file's name in the sandbox: `output_file`, or the last part of the URI's path.
fn target_name(uri: &Uri) -> anyhow::Result<PathBuf> {
    if let Some(name) = &uri.output_file {
        let path = PathBuf::from(name);
        let leaves = path.is_absolute() || path.components().any(|part| part.as_os_str() == "..");
        return if leaves { Err(anyhow!("output_file {name:?} must stay in the sandbox")) } else { Ok(path) };
    }
    let path = match uri.value.split_once("://") {
        Some((_, rest)) => rest.split(['?', '#']).next().unwrap_or_default(),
        None => &uri.value,
    };
    match path.rsplit('/').next() {
        None | Some("" | "." | "..") => Err(anyhow!("the URI names no file; set output_file")),
        Some(name) => Ok(PathBuf::from(name)),
    }
}

fn cache_name(url: &str) -> String {
    url.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).collect()
}

async fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let metadata = fs::metadata(from).await?;
    if metadata.is_dir() {
        run(Command::new("cp").arg("-a").arg(from).arg(to)).await
    } else {
        fs::copy(from, to).await?;
        Ok(())
    }
}

async fn download(url: &str, to: &Path) -> anyhow::Result<()> {
    let client = reqwest::Client::builder().connect_timeout(SILENCE).read_timeout(SILENCE).build()?;
    let response = client.get(url).send().await?.error_for_status()?;
    let partial = to.with_added_extension("part");
    let mut file = fs::File::create(&partial).await?;
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        file.write_all(&chunk?).await?;
    }
    file.flush().await?;
    fs::rename(partial, to).await?;
    Ok(())
}

/// Unpacks archives by their names; other files stay as they are.
async fn extract(file: &Path, sandbox: &Path) -> anyhow::Result<()> {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let tar = [".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz"];
    if tar.iter().any(|end| name.ends_with(end)) {
        run(Command::new("tar").arg("-C").arg(sandbox).arg("-xf").arg(file)).await
    } else if name.ends_with(".zip") {
        run(Command::new("unzip").arg("-o").arg("-d").arg(sandbox).arg(file)).await
    } else if name.ends_with(".gz") {
        run(Command::new("gzip").arg("-dk").arg(file)).await
    } else {
        Ok(())
    }
}

async fn run(command: &mut Command) -> anyhow::Result<()> {
    let output =
        command.kill_on_drop(true).output().await.with_context(|| format!("cannot run {:?}", command.as_std()))?;
    if output.status.success() {
        return Ok(());
    }
    bail!("{:?} failed: {}", command.as_std(), String::from_utf8_lossy(&output.stderr).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(value: &str) -> Uri {
        Uri { value: value.to_owned(), ..Default::default() }
    }

    #[test]
    fn names_come_from_the_uri_or_output_file() {
        for (value, name) in [("/a/km", "km"), ("file:///a/b.tar", "b.tar"), ("http://h:1/p/x.tgz?y=/z#w", "x.tgz")] {
            assert_eq!(target_name(&uri(value)).unwrap(), PathBuf::from(name));
        }
        assert!(target_name(&uri("http://host/")).is_err());
        let renamed = |output: &str| Uri { output_file: Some(output.to_owned()), ..uri("/a/b") };
        assert_eq!(target_name(&renamed("bin/c")).unwrap(), PathBuf::from("bin/c"));
        for outside in ["../c", "/etc/passwd"] {
            assert!(target_name(&renamed(outside)).is_err());
        }
    }

    #[test]
    fn other_schemes_are_refused() {
        assert!(Source::of("hdfs://x/y").is_err());
        assert!(Source::of("relative").is_err());
        assert_eq!(Source::of("file:///a").unwrap(), Source::File("/a".into()));
    }

    #[tokio::test]
    async fn local_files_are_copied_made_executable_and_extracted() {
        let from = tempfile::tempdir().unwrap();
        let sandbox = tempfile::tempdir().unwrap();
        let program = from.path().join("program");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        run(Command::new("tar")
            .args(["-C", from.path().to_str().unwrap(), "-czf"])
            .arg(from.path().join("a.tgz"))
            .arg("program"))
        .await
        .unwrap();
        let executable =
            Uri { executable: Some(true), output_file: Some("x".to_owned()), ..uri(program.to_str().unwrap()) };
        let archive = uri(from.path().join("a.tgz").to_str().unwrap());
        for uri in [executable, archive] {
            fetch_one(&uri, sandbox.path(), from.path()).await.unwrap();
        }
        let mode = std::fs::metadata(sandbox.path().join("x")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        assert!(sandbox.path().join("program").exists());
    }
}
