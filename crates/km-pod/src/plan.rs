//! What the spec says of each container, read once.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

/// The part a container plays in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Runs to success before the next one starts.
    Init,
    /// An init container with restart policy Always: stays beside the main ones and ends after them.
    Sidecar,
    Main,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

impl RestartPolicy {
    fn parse(text: Option<&str>) -> Self {
        match text {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            // The API server allows nothing else and defaults to this.
            _ => Self::Always,
        }
    }

    /// Whether a run that ended with `code` is followed by another.
    pub fn restarts(self, code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => code != 0,
            Self::Never => false,
        }
    }
}

/// When an image is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

impl PullPolicy {
    /// The container's policy; without one, Always for `:latest` or no tag, as the API server defaults it.
    pub fn of(container: &Container) -> Self {
        match container.image_pull_policy.as_deref() {
            Some("Always") => Self::Always,
            Some("Never") => Self::Never,
            Some("IfNotPresent") => Self::IfNotPresent,
            _ => {
                let image = container.image.as_deref().unwrap_or_default();
                let last = image.rsplit('/').next().unwrap_or_default();
                let pinned = last.contains('@') || last.split_once(':').is_some_and(|(_, tag)| tag != "latest");
                if pinned { Self::IfNotPresent } else { Self::Always }
            }
        }
    }
}

/// How the containers of a role restart: init containers retry unless the pod never restarts, sidecars always do.
pub(crate) fn restart_policy(spec: &PodSpec, container: &Container, role: Role) -> RestartPolicy {
    let own = container.restart_policy.as_deref();
    match role {
        Role::Sidecar => RestartPolicy::Always,
        Role::Main => RestartPolicy::parse(own.or(spec.restart_policy.as_deref())),
        Role::Init => match RestartPolicy::parse(own.or(spec.restart_policy.as_deref())) {
            RestartPolicy::Never => RestartPolicy::Never,
            _ => RestartPolicy::OnFailure,
        },
    }
}

/// All containers in the order in which they start, with their roles.
pub(crate) fn containers(spec: &PodSpec) -> Vec<(Role, Container)> {
    let init = spec.init_containers.iter().flatten().map(|container| {
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        (if sidecar { Role::Sidecar } else { Role::Init }, container.clone())
    });
    init.chain(spec.containers.iter().map(|container| (Role::Main, container.clone()))).collect()
}

/// `name_namespace(uid)`, as the kubelet names a pod in its messages.
pub fn pod_ref(pod: &Pod) -> String {
    let meta = &pod.metadata;
    format!(
        "{}_{}({})",
        meta.name.as_deref().unwrap_or_default(),
        meta.namespace.as_deref().unwrap_or_default(),
        meta.uid.as_deref().unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pull_policy_follows_the_tag_when_unset() {
        for (image, policy) in [
            ("busybox", PullPolicy::Always),
            ("busybox:latest", PullPolicy::Always),
            ("busybox:1.35", PullPolicy::IfNotPresent),
            ("localhost:5000/busybox", PullPolicy::Always),
            ("localhost:5000/busybox:1", PullPolicy::IfNotPresent),
            ("busybox@sha256:00", PullPolicy::IfNotPresent),
        ] {
            let container = Container { image: Some(image.into()), ..Default::default() };
            assert_eq!(PullPolicy::of(&container), policy, "{image}");
        }
        let never = Container { image_pull_policy: Some("Never".into()), ..Default::default() };
        assert_eq!(PullPolicy::of(&never), PullPolicy::Never);
    }

    #[test]
    fn restarts_by_policy_role_and_code() {
        let spec = |policy: &str| PodSpec { restart_policy: Some(policy.into()), ..Default::default() };
        let plain = Container::default();
        for (policy, role, ok, failed) in [
            ("Always", Role::Main, true, true),
            ("OnFailure", Role::Main, false, true),
            ("Never", Role::Main, false, false),
            ("Always", Role::Init, false, true),
            ("OnFailure", Role::Init, false, true),
            ("Never", Role::Init, false, false),
            ("Never", Role::Sidecar, true, true),
        ] {
            let restart = restart_policy(&spec(policy), &plain, role);
            assert_eq!((restart.restarts(0), restart.restarts(1)), (ok, failed), "{policy} {role:?}");
        }
    }
}
