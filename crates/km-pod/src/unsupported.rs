//! What a pod may ask for that this node doesn't do: each gives a warning event instead of silence.
//!
//! Probes and hooks of an unsupported kind are left out: such a container counts as alive, and as ready once it runs.

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, PodSpec, Probe};

/// Whether a hook is one that this node can run.
pub fn hook_is_supported(handler: &LifecycleHandler) -> bool {
    handler.http_get.is_some() || handler.tcp_socket.is_some() || handler.sleep.is_some()
}

/// Path and explanation of everything in the spec that has no effect here.
pub fn list(spec: &PodSpec) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    let mut note = |set: bool, path: &str, why: &'static str| {
        if set {
            found.push((path.to_owned(), why));
        }
    };
    note(spec.host_pid == Some(true), "spec.hostPID", "the pod gets a PID namespace of its own");
    note(spec.host_ipc == Some(true), "spec.hostIPC", "the pod gets an IPC namespace of its own");
    note(spec.share_process_namespace == Some(true), "spec.shareProcessNamespace", "containers don't share PIDs");
    note(spec.host_users == Some(false), "spec.hostUsers", "pods run in the host's user namespace");
    note(spec.runtime_class_name.is_some(), "spec.runtimeClassName", "there is one runtime; the class is ignored");
    note(
        spec.ephemeral_containers.as_ref().is_some_and(|list| !list.is_empty()),
        "spec.ephemeralContainers",
        "they are not started",
    );
    note(
        spec.resource_claims.as_ref().is_some_and(|list| !list.is_empty()),
        "spec.resourceClaims",
        "devices are not assigned",
    );
    let security = spec.security_context.clone().unwrap_or_default();
    note(security.sysctls.is_some(), "spec.securityContext.sysctls", "sysctls are not set");
    note(
        security.fs_group.is_some(),
        "spec.securityContext.fsGroup",
        "files of volumes keep their group; the process gets it in addition",
    );
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        let on_disk = volume.empty_dir.as_ref().filter(|empty| empty.medium.as_deref() != Some("Memory"));
        let path = format!("spec.volumes[{index}].emptyDir.sizeLimit");
        note(on_disk.is_some_and(|empty| empty.size_limit.is_some()), &path, "only volumes in memory are limited");
    }
    for (list, containers) in
        [("initContainers", spec.init_containers.as_ref()), ("containers", Some(&spec.containers))]
    {
        for (index, container) in containers.into_iter().flatten().enumerate() {
            found.extend(of_container(&format!("spec.{list}[{index}]"), container));
        }
    }
    found
}

fn of_container(path: &str, container: &Container) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    let mut note = |set: bool, field: &str, why: &'static str| {
        if set {
            found.push((format!("{path}.{field}"), why));
        }
    };
    for (field, probe) in [
        ("startupProbe", &container.startup_probe),
        ("livenessProbe", &container.liveness_probe),
        ("readinessProbe", &container.readiness_probe),
    ] {
        let odd = |probe: &Probe| probe.http_get.is_none() && probe.tcp_socket.is_none();
        note(
            probe.as_ref().is_some_and(odd),
            field,
            "only httpGet and tcpSocket probes are supported; this one is skipped",
        );
    }
    let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    note(
        limits.is_some_and(|limits| limits.contains_key("ephemeral-storage")),
        "resources.limits[ephemeral-storage]",
        "the disk that a container uses is not watched",
    );
    let lifecycle = container.lifecycle.clone().unwrap_or_default();
    for (field, hook) in [("lifecycle.postStart", &lifecycle.post_start), ("lifecycle.preStop", &lifecycle.pre_stop)] {
        let odd = hook.as_ref().is_some_and(|hook| !hook_is_supported(hook));
        note(odd, field, "only httpGet, tcpSocket and sleep hooks are supported; this one is skipped");
    }
    note(lifecycle.stop_signal.is_some(), "lifecycle.stopSignal", "containers are ended with SIGTERM");
    note(container.tty == Some(true), "tty", "containers get no terminal");
    note(container.stdin == Some(true), "stdin", "standard input is empty");
    note(container.volume_devices.is_some(), "volumeDevices", "block devices are not passed on");
    note(container.restart_policy_rules.is_some(), "restartPolicyRules", "restartPolicy alone decides");
    let security = container.security_context.clone().unwrap_or_default();
    note(security.seccomp_profile.is_some(), "securityContext.seccompProfile", "no seccomp filter is set");
    note(security.app_armor_profile.is_some(), "securityContext.appArmorProfile", "no AppArmor profile is set");
    note(security.se_linux_options.is_some(), "securityContext.seLinuxOptions", "no SELinux label is set");
    for mount in container.volume_mounts.iter().flatten() {
        note(
            mount.mount_propagation.as_deref().is_some_and(|mode| mode != "None"),
            "volumeMounts.mountPropagation",
            "mounts are private",
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        api::core::v1::{EmptyDirVolumeSource, ExecAction, HTTPGetAction, Lifecycle, ResourceRequirements, Volume},
        apimachinery::pkg::api::resource::Quantity,
    };

    use super::*;

    #[test]
    fn names_each_field_that_has_no_effect() {
        let quantity = |text: &str| Quantity(text.into());
        let limits =
            [("cpu", "1"), ("ephemeral-storage", "1Gi")].map(|(name, limit)| (name.to_owned(), quantity(limit)));
        let volume = |medium: &str| Volume {
            empty_dir: Some(EmptyDirVolumeSource {
                medium: Some(medium.into()),
                size_limit: Some(quantity("1Mi")),
                ..Default::default()
            }),
            ..Default::default()
        };
        let container = Container {
            resources: Some(ResourceRequirements { limits: Some(limits.into()), ..Default::default() }),
            liveness_probe: Some(Probe { exec: Some(ExecAction::default()), ..Default::default() }),
            readiness_probe: Some(Probe { http_get: Some(HTTPGetAction::default()), ..Default::default() }),
            lifecycle: Some(Lifecycle {
                pre_stop: Some(LifecycleHandler { exec: Some(ExecAction::default()), ..Default::default() }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let volumes = Some(vec![volume("Memory"), volume("")]);
        let spec = PodSpec { host_pid: Some(true), containers: vec![container], volumes, ..Default::default() };
        let paths: Vec<String> = list(&spec).into_iter().map(|(path, _)| path).collect();
        let expected = [
            "spec.hostPID",
            "spec.volumes[1].emptyDir.sizeLimit",
            "spec.containers[0].livenessProbe",
            "spec.containers[0].resources.limits[ephemeral-storage]",
            "spec.containers[0].lifecycle.preStop",
        ];
        assert_eq!(paths, expected);
        assert!(list(&PodSpec::default()).is_empty());
    }
}
