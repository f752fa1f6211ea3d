//! What was launched, beside what the API server says by now.

use k8s_openapi::api::core::v1::{Container, Pod};
use km_kube::keys;
use km_mesos_proto::v1;
use km_pod::Allotment;
use km_podtask::{memory_from_mesos, thousandths};

/// The CPU and memory of a task, over all roles.
pub fn allotment(task: &v1::TaskInfo, pod: &Pod) -> Allotment {
    let total = |name: &str| -> i64 {
        let resources = task.resources.iter().filter(|resource| resource.name == name);
        resources.filter_map(|resource| resource.scalar.as_ref()).map(|scalar| thousandths(scalar.value)).sum()
    };
    let counted = pod.metadata.annotations.as_ref().and_then(|all| all.get(keys::COUNTED));
    Allotment {
        milli_cpu: total("cpus"),
        memory_bytes: memory_from_mesos(total("mem")),
        of_limits: counted.is_some_and(|counted| counted == keys::COUNTED_LIMITS),
    }
}

/// The API server's pod with what stands in the task's copy only: the host ports that the scheduler mapped, and the
/// resources that it filled in.
pub fn merged(mut pod: Pod, task: &Pod) -> Pod {
    for container in containers_mut(&mut pod) {
        let Some(twin) = twin(task, container) else { continue };
        container.ports.clone_from(&twin.ports);
        let (Some(theirs), own) = (twin.resources.clone(), container.resources.get_or_insert_default()) else {
            continue;
        };
        for (own, theirs) in [(&mut own.requests, theirs.requests), (&mut own.limits, theirs.limits)] {
            for (name, amount) in theirs.into_iter().flatten() {
                own.get_or_insert_default().entry(name).or_insert(amount);
            }
        }
    }
    pod
}

/// The pod with the resources of its launch, if it asks for more than its task holds by now.
pub fn granted(mut pod: Pod, task: &Pod, allotment: &Allotment) -> Pod {
    if pod.spec.as_ref().is_none_or(|spec| allotment.check(spec).is_ok()) {
        return pod;
    }
    for container in containers_mut(&mut pod) {
        if let Some(twin) = twin(task, container) {
            container.resources.clone_from(&twin.resources);
        }
    }
    pod
}

fn containers_mut(pod: &mut Pod) -> impl Iterator<Item = &mut Container> {
    let spec = pod.spec.iter_mut();
    spec.flat_map(|spec| spec.init_containers.iter_mut().flatten().chain(&mut spec.containers))
}

fn twin<'a>(task: &'a Pod, container: &Container) -> Option<&'a Container> {
    let spec = task.spec.as_ref()?;
    spec.init_containers.iter().flatten().chain(&spec.containers).find(|twin| twin.name == container.name)
}
