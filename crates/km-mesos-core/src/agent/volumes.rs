//! Persistent volumes: directories outside of any sandbox, with a link inside the sandboxes of tasks that use them.

use std::collections::BTreeSet;

use km_mesos_proto::{
    resources::Resource,
    v1::{self, resource::disk_info::source},
};

use super::{Action, Agent, paths::path_component};

/// A volume in a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mount {
    /// The link, an absolute path in the sandbox.
    pub link: String,
    /// The volume's directory.
    pub volume: String,
    /// Who shall own the volume, when the agent may give it away.
    pub user: Option<String>,
}

/// Where a volume's data are, below the agent's directory or that of its disk. None for what is no volume.
fn directory(work_dir: &str, resource: &v1::Resource) -> Option<String> {
    let read = Resource::from_proto(resource).ok()?;
    let id = read.persistence_id()?;
    let disk = read.disk.as_ref()?.source.as_ref();
    let root = match disk.map(|disk| (disk.r#type(), disk)) {
        Some((source::Type::Mount, disk)) => return disk.mount.as_ref()?.root.clone(),
        Some((source::Type::Path, disk)) => disk.path.as_ref()?.root.clone()?,
        _ => work_dir.to_owned(),
    };
    // A role's name may hold slashes; Apache Mesos writes a space for each.
    let role = path_component(&read.role().replace('/', " "));
    Some(format!("{root}/volumes/roles/{role}/{}", path_component(id)))
}

impl Agent {
    fn volumes_of(&self, resources: &[v1::Resource]) -> BTreeSet<String> {
        resources.iter().filter_map(|resource| directory(&self.config.work_dir, resource)).collect()
    }

    /// The agent's resources become these: new volumes get a directory, and what is gone loses its data.
    pub(super) fn change_volumes(&mut self, before: &[v1::Resource], after: &[v1::Resource]) {
        let (before, after) = (self.volumes_of(before), self.volumes_of(after));
        for path in after.difference(&before) {
            self.act(Action::MakeVolume { path: path.clone() });
        }
        for path in before.difference(&after) {
            self.act(Action::ClearVolume { path: path.clone() });
        }
    }

    /// After a start: a crash may have come between the checkpoint and the directory.
    pub(super) fn restore_volumes(&mut self) {
        for path in self.volumes_of(&self.resources) {
            self.act(Action::MakeVolume { path });
        }
    }

    /// Where the volumes among these resources appear in a sandbox.
    pub(super) fn mounts(&self, sandbox: &str, resources: &[v1::Resource], user: Option<&str>) -> Vec<Mount> {
        let mount = |resource: &v1::Resource| {
            let volume = directory(&self.config.work_dir, resource)?;
            let place = &resource.disk.as_ref()?.volume.as_ref()?.container_path;
            let inside = !place.starts_with('/') && !place.split('/').any(|part| part == ".." || part.is_empty());
            inside.then(|| Mount { link: format!("{sandbox}/{place}"), volume, user: user.map(str::to_owned) })
        };
        resources.iter().filter_map(mount).collect()
    }

    fn mounts_of_task(&self, framework_id: &str, task_id: &str) -> Vec<Mount> {
        let Some(framework) = self.frameworks.get(framework_id) else { return Vec::new() };
        let Some(task) = framework.tasks.get(task_id) else { return Vec::new() };
        let Some(executor) = framework.executors.get(&task.executor_id) else { return Vec::new() };
        let sandbox = self.sandbox(framework_id, &task.executor_id, &executor.container);
        let user = executor.info.command.as_ref().and_then(|command| command.user.as_deref());
        self.mounts(&sandbox, &task.info.resources, user.or(Some(&framework.info.user)))
    }

    /// A task reaches its executor, whose sandbox gets its volumes.
    pub(super) fn link_volumes(&mut self, framework_id: &str, task_id: &str) {
        for mount in self.mounts_of_task(framework_id, task_id) {
            self.act(Action::LinkVolume(mount));
        }
    }

    /// A task has ended: its volumes leave the sandbox, and stay.
    pub(super) fn unlink_volumes(&mut self, framework_id: &str, task_id: &str) {
        for Mount { link, .. } in self.mounts_of_task(framework_id, task_id) {
            self.act(Action::UnlinkVolume { link });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(role: &str, source: Option<v1::resource::disk_info::Source>) -> v1::Resource {
        let reservation =
            v1::resource::ReservationInfo { r#type: Some(2), role: Some(role.to_owned()), ..Default::default() };
        let persistence = v1::resource::disk_info::Persistence { id: "id".to_owned(), principal: None };
        v1::Resource {
            name: "disk".to_owned(),
            scalar: Some(v1::value::Scalar { value: 16.0 }),
            reservations: vec![reservation],
            disk: Some(v1::resource::DiskInfo { persistence: Some(persistence), source, ..Default::default() }),
            ..Default::default()
        }
    }

    #[test]
    fn volumes_are_where_mesos_has_them() {
        let disk = |kind: source::Type, root: &str| source_of(kind, root);
        assert_eq!(directory("/w", &volume("a", None)).as_deref(), Some("/w/volumes/roles/a/id"));
        assert_eq!(directory("/w", &volume("a/b", None)).as_deref(), Some("/w/volumes/roles/a b/id"));
        let path = volume("a", Some(disk(source::Type::Path, "/disk")));
        assert_eq!(directory("/w", &path).as_deref(), Some("/disk/volumes/roles/a/id"));
        let mount = volume("a", Some(disk(source::Type::Mount, "/mnt")));
        assert_eq!(directory("/w", &mount).as_deref(), Some("/mnt"));
        let plain = v1::Resource { disk: None, ..volume("a", None) };
        assert_eq!(directory("/w", &plain), None);
    }

    fn source_of(kind: source::Type, root: &str) -> v1::resource::disk_info::Source {
        let root = Some(root.to_owned());
        v1::resource::disk_info::Source {
            r#type: kind as i32,
            path: (kind == source::Type::Path).then(|| source::Path { root: root.clone() }),
            mount: (kind == source::Type::Mount).then_some(source::Mount { root }),
            ..Default::default()
        }
    }
}
