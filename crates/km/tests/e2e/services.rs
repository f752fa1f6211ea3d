//! Services answer from the host and from pods, with nftables and without.

use km_testkit::{Kubectl, eventually};

use crate::{cluster, example, hello};

fn answers_from_a_pod(kubectl: &Kubectl) {
    let ip = kubectl.run("get service hello -o jsonpath={.spec.clusterIP}");
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: client}}\nspec:\n  restartPolicy: Never\n  containers:\n  - name: client\n    image: \
         localhost/km/busybox:v1\n    command: [sh, -c, 'until wget -q -O - http://{ip}/; do sleep 0.3; done']\n    resources: \
         {{requests: {{cpu: 10m, memory: 32Mi}}}}\n"
    );
    kubectl.apply(&manifest);
    eventually("a pod reaches the service", || match kubectl.try_run("logs client")? {
        log if log.contains("hello-") => Ok(()),
        log => Err(format!("{log} {}", kubectl.try_run("get pod client -o wide")?)),
    });
    kubectl.run("delete pod client --grace-period=1");
}

#[test]
fn a_service_answers_from_host_and_pods() {
    let mut turn = cluster(&["--apply", &example("hello.yaml")]);
    let kubectl = turn.cluster.kubectl.clone();
    hello::service_answers_from_all_pods(&kubectl, 4);
    answers_from_a_pod(&kubectl);
    host_ports_are_published(&kubectl);
    turn.cluster.stop();
}

#[test]
fn a_service_answers_where_there_are_no_nftables() {
    let mut turn = cluster(&["--proxy-mode", "userspace", "--apply", &example("hello.yaml")]);
    let kubectl = turn.cluster.kubectl.clone();
    hello::service_answers_from_all_pods(&kubectl, 4);
    answers_from_a_pod(&kubectl);
    turn.cluster.stop();
}

/// The endpoints are host ports of the agents, and each answers by itself.
fn host_ports_are_published(kubectl: &Kubectl) {
    let endpoints = kubectl.json("get endpoints hello").unwrap();
    let subset = &endpoints["subsets"][0];
    let addresses = endpoints["subsets"].as_array().unwrap();
    assert!(!addresses.is_empty(), "{endpoints}");
    let ip = subset["addresses"][0]["ip"].as_str().unwrap();
    let port = subset["ports"][0]["port"].as_u64().unwrap();
    assert!((31_000..=64_000).contains(&port), "{endpoints}");
    eventually("the host port answers", || hello::get(&format!("http://{ip}:{port}/")));
}
