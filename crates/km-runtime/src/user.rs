//! Who a container runs as: numbers and names of the image's own `/etc/passwd` and `/etc/group`.

/// The resolved identity of a container's first process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub uid: u32,
    pub gid: u32,
    pub additional_gids: Vec<u32>,
    /// Home folder from the image's passwd, `/` when it names none.
    pub home: String,
}

/// `user` is the image's `USER` (`name`, `uid`, with an optional `:group`); the pod's own choice wins over it.
///
/// # Errors
/// A name that the image does not know.
pub fn resolve(
    user: &str,
    run_as_user: Option<u32>,
    run_as_group: Option<u32>,
    passwd: &str,
    group: &str,
) -> Result<Identity, String> {
    let (user_part, group_part) = match user.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (user, None),
    };
    let from_pod = run_as_user.is_some();
    let wanted = run_as_user.map_or_else(|| user_part.to_owned(), |uid| uid.to_string());
    let entry = if wanted.is_empty() { find(passwd, "0") } else { find(passwd, &wanted) };
    let uid = match (&entry, wanted.parse::<u32>()) {
        (Some(entry), _) => entry.uid,
        (None, Ok(uid)) => uid,
        (None, Err(_)) if wanted.is_empty() => 0,
        (None, Err(_)) => return Err(format!("the image's /etc/passwd knows no user {wanted:?}")),
    };
    let gid = match (run_as_group, group_part) {
        (Some(gid), _) => gid,
        (None, Some(name)) if !from_pod && !name.is_empty() => group_id(group, name)?,
        _ => entry.as_ref().map_or(0, |entry| entry.gid),
    };
    let name = entry.as_ref().map(|entry| entry.name.clone()).unwrap_or_default();
    Ok(Identity {
        uid,
        gid,
        additional_gids: memberships(group, &name, gid),
        home: entry.map(|entry| entry.home).filter(|home| !home.is_empty()).unwrap_or_else(|| "/".to_owned()),
    })
}

struct Entry {
    name: String,
    uid: u32,
    gid: u32,
    home: String,
}

/// By name first, as `login` does, then by number.
fn find(passwd: &str, wanted: &str) -> Option<Entry> {
    let entries = || {
        passwd.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            Some(Entry {
                name: (*fields.first()?).to_owned(),
                uid: fields.get(2)?.parse().ok()?,
                gid: fields.get(3)?.parse().ok()?,
                home: (*fields.get(5)?).to_owned(),
            })
        })
    };
    entries()
        .find(|entry| entry.name == wanted)
        .or_else(|| wanted.parse().ok().and_then(|uid: u32| entries().find(|entry| entry.uid == uid)))
}

fn group_id(group: &str, wanted: &str) -> Result<u32, String> {
    let named = group.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.first() == Some(&wanted)).then(|| fields.get(2)?.parse().ok()).flatten()
    });
    named.or_else(|| wanted.parse().ok()).ok_or_else(|| format!("the image's /etc/group knows no group {wanted:?}"))
}

fn memberships(group: &str, name: &str, gid: u32) -> Vec<u32> {
    let mut gids: Vec<u32> = group
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let member = !name.is_empty() && fields.get(3)?.split(',').any(|member| member == name);
            if member { fields.get(2)?.parse().ok() } else { None }
        })
        .filter(|&other| other != gid)
        .collect();
    gids.sort_unstable();
    gids.dedup();
    gids
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nweb:x:33:34:web:/srv:/bin/sh\nbroken\n";
    const GROUP: &str = "root:x:0:\nwww:x:34:web\nlogs:x:50:root,web\n";

    #[test]
    fn users_are_found_in_the_image() {
        for (user, pod_user, pod_group, expected) in [
            ("", None, None, (0, 0, vec![50], "/root")),
            ("web", None, None, (33, 34, vec![50], "/srv")),
            ("33", None, None, (33, 34, vec![50], "/srv")),
            ("web:logs", None, None, (33, 50, vec![34], "/srv")),
            ("web:7", None, None, (33, 7, vec![34, 50], "/srv")),
            ("1234", None, None, (1234, 0, vec![], "/")),
            ("1234:99", None, None, (1234, 99, vec![], "/")),
            ("web:logs", Some(1000), None, (1000, 0, vec![], "/")),
            ("web:logs", Some(33), Some(5), (33, 5, vec![34, 50], "/srv")),
        ] {
            let identity = resolve(user, pod_user, pod_group, PASSWD, GROUP).unwrap();
            let found = (identity.uid, identity.gid, identity.additional_gids, identity.home.as_str());
            assert_eq!(found, expected, "{user} {pod_user:?} {pod_group:?}");
        }
    }

    #[test]
    fn unknown_names_are_errors() {
        assert!(resolve("nobody", None, None, PASSWD, GROUP).unwrap_err().contains("nobody"));
        assert!(resolve("web:none", None, None, PASSWD, GROUP).unwrap_err().contains("none"));
        assert_eq!(resolve("nobody", Some(1), None, PASSWD, GROUP).unwrap().uid, 1);
        assert_eq!(resolve("", None, None, "", "").unwrap().home, "/");
    }
}
