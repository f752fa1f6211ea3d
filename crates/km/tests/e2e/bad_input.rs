//! Wrong input: each gets an error that names the thing and what would be right, and nothing else stops working.

use km_testkit::{Kubectl, eventually};

use crate::cluster;

const CONTAINER: &str = "{name: main, image: 'localhost/km/hello:v1', resources: {requests: {cpu: 10m, memory: 32Mi}}}";

fn pod(name: &str, container: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: 1\n  containers: [{container}]\n"
    )
}

#[track_caller]
fn refused(kubectl: &Kubectl, manifest: &str, words: &[&str]) {
    let error = kubectl.try_with_input("create -f -", manifest).expect_err("the manifest must be refused");
    for word in words {
        assert!(error.contains(word), "{word:?} is not in: {error}");
    }
}

#[track_caller]
fn pending(kubectl: &Kubectl, name: &str, words: &[&str]) {
    let condition = "{.status.conditions[?(@.type=='PodScheduled')].message}";
    eventually("the pod says why it is pending", || {
        let message = kubectl.try_run(&format!("get pod {name} -o jsonpath={condition}"))?;
        if words.iter().all(|word| message.contains(word)) { Ok(()) } else { Err(message) }
    });
    eventually("an event says it too", || {
        let events = kubectl
            .try_run(&format!("get events --field-selector involvedObject.name={name},reason=FailedScheduling"))?;
        if words.iter().all(|word| events.contains(word)) { Ok(()) } else { Err(events) }
    });
}

#[test]
fn wrong_input_is_named_and_disturbs_nothing() {
    let mut turn = cluster(&["--agents", "1"]);
    let kubectl = turn.cluster.kubectl.clone();

    refused(
        &kubectl,
        &pod("a", &CONTAINER.replace("image:", "imagee: x, image:")),
        &["unknown field", "spec.containers[0].imagee"],
    );
    refused(&kubectl, &pod("a", "{name: main, image: x, ports: [{containerPort: many}]}"), &["containerPort"]);
    refused(&kubectl, &pod("a", "{name: main}"), &["spec.containers[0].image", "Required value"]);
    refused(&kubectl, &pod("Not_A_Label", CONTAINER), &["metadata.name", "Not_A_Label", "lowercase"]);
    kubectl.apply(&pod("once", CONTAINER));
    refused(&kubectl, &pod("once", CONTAINER), &["pods \"once\" already exists"]);

    for version in ["apps/v1", "example.com/v1"] {
        let widget = format!("apiVersion: {version}\nkind: Widget\nmetadata: {{name: w}}\n");
        refused(&kubectl, &widget, &[&format!("no matches for kind \"Widget\" in version \"{version}\"")]);
    }
    let refusal = kubectl.fails("debug once --image=localhost/km/busybox:v1");
    assert!(refusal.contains("pods/ephemeralcontainers is not served"), "{refusal}");

    kubectl.apply(&pod("huge", "{name: main, image: x, resources: {limits: {cpu: '900', memory: 32Mi}}}"));
    pending(&kubectl, "huge", &["0/1 nodes are available", "cpu"]);
    kubectl.apply(&pod(
        "port",
        &CONTAINER.replace("resources:", "ports: [{containerPort: 80, hostPort: 80}], resources:"),
    ));
    pending(&kubectl, "port", &["0/1 nodes are available", "port"]);
    kubectl.apply(&pod("absent", &CONTAINER.replace("localhost/km/hello:v1", "127.0.0.1:1/absent:1")));
    eventually("a missing image is named", || match kubectl.try_run("describe pod absent")? {
        text if text.contains("127.0.0.1:1/absent:1") && text.contains("Failed") => Ok(()),
        text => Err(text),
    });

    // All that disturbed nothing.
    kubectl.run("wait --for=condition=Ready pod/once --timeout=60s");
    turn.cluster.stop();
}
