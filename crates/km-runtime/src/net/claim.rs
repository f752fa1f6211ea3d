//! Which /24 belongs to which agent of this host: one file per claim in `/run/km/subnets`, under a lock.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{CLUSTER_NET, address::Ipv4Net, links};
use crate::{Result, RuntimeError, files, files::Context};

const CLAIMS: &str = "/run/km/subnets";

/// Claims a free network for the agent with the given state folder and bridge, or returns the one it has.
pub(crate) async fn claim_subnet(state: &Path, bridge: &str, wanted: Option<Ipv4Net>) -> Result<Ipv4Net> {
    let used = links::addresses_without(bridge).await?;
    let state = state.to_owned();
    tokio::task::spawn_blocking(move || claim(Path::new(CLAIMS), &state, wanted, &used))
        .await
        .map_err(|error| RuntimeError::Other(error.to_string()))?
}

fn claim(folder: &Path, state: &Path, wanted: Option<Ipv4Net>, used: &[Ipv4Net]) -> Result<Ipv4Net> {
    let claiming = || format!("claiming a pod network in {}", folder.display());
    let _lock = files::lock_folder(folder).context(claiming)?;
    let claims = claims(folder).context(claiming)?;
    if let Some((net, _)) =
        claims.iter().find(|(net, owner)| owner == state && wanted.is_none_or(|wanted| wanted == *net))
    {
        return Ok(*net);
    }
    let free = |net: &Ipv4Net| {
        !claims.iter().any(|(claimed, owner)| claimed.overlaps(*net) && owner != state)
            && !used.iter().any(|other| other.overlaps(*net))
    };
    let net = match wanted {
        Some(net) if claims.iter().any(|(claimed, owner)| claimed.overlaps(net) && owner != state) => {
            return Err(RuntimeError::Other(format!("the pod network {net} belongs to another agent of this host")));
        }
        Some(net) => net,
        None => {
            let nets = u32::try_from(CLUSTER_NET.size() / 256).unwrap_or(0);
            (0..nets).map(|n| Ipv4Net::new(CLUSTER_NET.nth(n * 256), 24)).find(free).ok_or_else(|| {
                RuntimeError::Other(format!("no free /24 is left in {CLUSTER_NET}: other interfaces or agents use it"))
            })?
        }
    };
    let file = folder.join(net.to_string().replace('/', "-"));
    files::write_atomically(&file, state.as_os_str().as_encoded_bytes()).context(claiming)?;
    Ok(net)
}

/// Claims whose agents still have their state. Others are left-overs and are removed.
fn claims(folder: &Path) -> io::Result<Vec<(Ipv4Net, PathBuf)>> {
    let mut claims = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Ok(net) = name.replace('-', "/").parse::<Ipv4Net>() else { continue };
        let owner = PathBuf::from(fs::read_to_string(&path)?);
        if owner.is_dir() {
            claims.push((net, owner));
        } else {
            files::remove_tree(&path)?;
        }
    }
    Ok(claims)
}

/// Gives up the claims of an agent. Succeeds when it has none. The last one leaves no folder behind.
pub(crate) fn release_subnet(state: &Path) -> Result<()> {
    release(Path::new(CLAIMS), state)
}

fn release(folder: &Path, state: &Path) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    let releasing = || format!("releasing the pod network in {}", folder.display());
    let _lock = files::lock_folder(folder).context(releasing)?;
    for (net, owner) in claims(folder).context(releasing)? {
        if owner == state {
            files::remove_tree(&folder.join(net.to_string().replace('/', "-"))).context(releasing)?;
        }
    }
    files::remove_if_empty(folder).context(releasing)?;
    folder.parent().map_or(Ok(()), |parent| files::remove_if_empty(parent).context(releasing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_get_networks_of_their_own_and_keep_them() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let claims = folder.path().join("subnets");
        let used = ["10.88.0.1/24".parse().unwrap(), "192.168.0.0/16".parse().unwrap()];
        let first = claim(&claims, one.path(), None, &used).unwrap();
        assert_eq!(first.to_string(), "10.88.1.0/24");
        let second = claim(&claims, two.path(), None, &used).unwrap();
        assert_eq!(second.to_string(), "10.88.2.0/24");
        // Its own bridge has an address in it by now.
        assert_eq!(claim(&claims, one.path(), None, &[used[0], first]).unwrap(), first);
        assert!(claim(&claims, two.path(), Some(first), &used).unwrap_err().to_string().contains("another agent"));
        drop(one);
        assert_eq!(claim(&claims, two.path(), Some(first), &used).unwrap(), first);
    }

    #[test]
    fn the_last_claim_takes_the_folders_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let claims = folder.path().join("km/subnets");
        claim(&claims, one.path(), None, &[]).unwrap();
        claim(&claims, two.path(), None, &[]).unwrap();
        release(&claims, one.path()).unwrap();
        assert!(claims.is_dir());
        release(&claims, two.path()).unwrap();
        assert!(!claims.parent().unwrap().exists());
        claim(&claims, one.path(), None, &[]).unwrap();
    }
}
