//! The stock kubectl's commands, one after the other, on a cluster with a running Deployment.

use std::{io::Read, process::Stdio};

use km_testkit::{Kubectl, eventually};

use crate::{cluster, example};

#[test]
fn stock_kubectl_works() {
    let mut turn = cluster(&["--agents", "1", "--apply", &example("hello.yaml")]);
    let kubectl = turn.cluster.kubectl.clone();
    discovery(&kubectl);
    get(&kubectl);
    watch(&kubectl);
    patch_and_edit(&kubectl);
    rollout(&kubectl);
    delete(&kubectl);
    namespaces(&kubectl);
    turn.cluster.stop();
}

fn discovery(kubectl: &Kubectl) {
    let resources = kubectl.run("api-resources");
    for (name, short, kind) in
        [("pods", "po", "Pod"), ("deployments", "deploy", "Deployment"), ("endpointslices", "", "EndpointSlice")]
    {
        let line = resources
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")))
            .unwrap_or_else(|| panic!("{name}: {resources}"));
        assert!(line.contains(short) && line.ends_with(kind), "{line}");
    }
    assert!(kubectl.run("version").contains("Server Version: v1.37"));
    assert!(kubectl.run("cluster-info").contains("is running at"));
    assert!(kubectl.run("explain deployment.spec.replicas").contains("integer"));
}

fn get(kubectl: &Kubectl) {
    let table = kubectl.run("get pods -l app=hello -o wide");
    for column in ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"] {
        assert!(table.lines().next().unwrap_or("").contains(column), "{table}");
    }
    assert_eq!(
        table
            .lines()
            .filter(|line| line.contains("1/1") && line.contains("Running") && line.contains("agent-1"))
            .count(),
        4
    );
    assert_eq!(kubectl.run("get pods -l app!=hello -o name"), "");
    assert_eq!(kubectl.run("get pods --field-selector status.phase=Running -o name").lines().count(), 4);
    assert!(kubectl.run("get deployment hello -o yaml").contains("kind: Deployment"));
    assert!(kubectl.run("get all").contains("deployment.apps/hello"));
    assert!(kubectl.run("get nodes").contains("Ready"));
    assert!(kubectl.run("get endpointslices -l kubernetes.io/service-name=hello").contains("IPv4"));
    let pod = kubectl.run("get pods -l app=hello -o jsonpath={.items[0].metadata.name}");
    let described = kubectl.run(&format!("describe pod {pod}"));
    for part in ["Node:", "Containers:", "Conditions:", "Events:", "Scheduled"] {
        assert!(described.contains(part), "{part}: {described}");
    }
    assert!(kubectl.run("describe node agent-1").contains("Capacity"));
    assert!(kubectl.run("events").contains("Started") || kubectl.run("get events").contains("Started"));
    assert!(kubectl.fails("get pod nobody").contains("pods \"nobody\" not found"));
}

fn watch(kubectl: &Kubectl) {
    let mut watching = kubectl.command("get configmaps -w --output-watch-events");
    let mut watching = watching.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = watching.stdout.take().unwrap();
    kubectl.run("create configmap watched --from-literal=a=1");
    kubectl.run("delete configmap watched");
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !(text.contains("ADDED") && text.lines().any(|line| line.contains("DELETED") && line.contains("watched"))) {
        let count = output.read(&mut buffer).unwrap();
        assert!(count > 0, "the watch ended: {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    watching.kill().unwrap();
    watching.wait().unwrap();
}

fn patch_and_edit(kubectl: &Kubectl) {
    kubectl.run("create configmap patched --from-literal=a=1");
    kubectl.run(r#"patch configmap patched --type=json -p [{"op":"add","path":"/data/b","value":"2"}]"#);
    kubectl.run(r#"patch configmap patched --type=merge -p {"data":{"c":"3"}}"#);
    kubectl.run(r#"patch configmap patched --type=strategic -p {"data":{"a":null}}"#);
    assert_eq!(kubectl.run("get configmap patched -o jsonpath={.data}"), r#"{"b":"2","c":"3"}"#);
    let mut edit = kubectl.command("edit configmap patched");
    let output = edit.env("KUBE_EDITOR", "sed -i s/\\\"3\\\"/edited/").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(kubectl.run("get configmap patched -o jsonpath={.data.c}"), "edited");
    // One container of several is found by its name.
    kubectl.run(r#"patch deployment hello -p {"spec":{"template":{"spec":{"containers":[{"name":"hello","env":[{"name":"EXTRA","value":"1"}]}]}}}}"#);
    let names = kubectl.run("get deployment hello -o jsonpath={.spec.template.spec.containers[0].env[*].name}");
    assert!(names.contains("EXTRA") && names.contains("POD_NAME"), "{names}");
    kubectl.run("label deployment hello tier=front");
    kubectl.run("annotate deployment hello note=seen");
    assert_eq!(kubectl.run("get deployments -l tier=front -o name"), "deployment.apps/hello\n");
}

fn rollout(kubectl: &Kubectl) {
    kubectl.run("rollout status deployment hello --timeout=90s");
    assert_eq!(kubectl.run("get replicasets -l app=hello -o name").lines().count(), 2);
    kubectl.run("set env deployment/hello EXTRA=2");
    kubectl.run("rollout status deployment hello --timeout=90s");
    kubectl.run("rollout undo deployment hello");
    kubectl.run("rollout status deployment hello --timeout=90s");
    kubectl.run("wait --for=condition=Available deployment/hello --timeout=60s");
    let value = kubectl
        .run("get deployment hello -o jsonpath={.spec.template.spec.containers[0].env[?(@.name=='EXTRA')].value}");
    assert_eq!(value, "1");
}

fn delete(kubectl: &Kubectl) {
    let pod = kubectl.run("get pods -l app=hello -o jsonpath={.items[0].metadata.name}");
    kubectl.run(&format!("delete pod {pod} --force --grace-period=0"));
    eventually("the replica set makes another pod", || {
        match kubectl.run("get pods -l app=hello --field-selector status.phase=Running -o name") {
            list if list.lines().count() == 4 && !list.contains(&pod) => Ok(()),
            list => Err(list),
        }
    });
    kubectl.run("delete deployment hello --cascade=foreground --timeout=90s");
    eventually("all pods are gone", || match kubectl.run("get pods -l app=hello -o name").as_str() {
        "" => Ok(()),
        list => Err(list.to_owned()),
    });
}

fn namespaces(kubectl: &Kubectl) {
    kubectl.run("create namespace team");
    kubectl.run("-n team create deployment web --image=localhost/km/hello:v1 --replicas=2");
    kubectl.run("-n team rollout status deployment web --timeout=90s");
    kubectl.run("-n team create configmap one");
    kubectl.run("delete namespace team --timeout=90s");
    assert!(kubectl.fails("get namespace team").contains("NotFound"));
    assert!(kubectl.fails("-n team create configmap late").contains("not found"));
}
