//! Tables and properties of `garbage`.

use super::*;
use serde_json::json;

fn object(uid: &str, owners: &[&str], more: Value) -> Value {
    let references: Vec<Value> = owners
        .iter()
        .map(|uid| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": uid, "uid": uid, "blockOwnerDeletion": true}))
        .collect();
    let mut metadata =
        json!({"name": uid, "namespace": "n", "uid": uid, "resourceVersion": "7", "ownerReferences": references});
    for (name, value) in more.as_object().unwrap() {
        metadata[name] = value.clone();
    }
    json!({"metadata": metadata})
}

fn dying(finalizer: &str) -> Value {
    json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [finalizer]})
}

struct Scene {
    graph: Graph,
    found: BTreeMap<String, bool>,
}

impl Scene {
    fn new(objects: &[Value]) -> Self {
        let mut graph = Graph::default();
        for object in objects {
            let resource = if text_starts_with(object, "rs") { Resource::replica_sets() } else { Resource::pods() };
            graph.seen(&resource, object);
        }
        Self { graph, found: BTreeMap::new() }
    }

    fn decide(&self, uid: &str) -> Vec<Action> {
        reconcile(&self.graph, uid, &self.found, &[Resource::pods(), Resource::replica_sets()]).actions
    }
}

fn text_starts_with(object: &Value, prefix: &str) -> bool {
    object["metadata"]["uid"].as_str().unwrap().starts_with(prefix)
}

fn deletes(actions: &[Action]) -> Vec<(&str, &str)> {
    actions
        .iter()
        .map(|action| match action {
            Action::Delete { uid, propagation, .. } => (uid.as_str(), propagation.unwrap()),
            other => panic!("want a delete, got {other:?}"),
        })
        .collect()
}

fn patched(actions: &[Action]) -> Vec<(&str, &Value)> {
    actions
        .iter()
        .map(|action| match action {
            Action::Patch { name, patch, .. } => (name.as_str(), &patch["metadata"]),
            other => panic!("want a patch, got {other:?}"),
        })
        .collect()
}

#[test]
fn an_owner_unseen_is_asked_for_before_anything_is_deleted() {
    let mut scene = Scene::new(&[object("pod", &["rs"], json!({}))]);
    assert!(matches!(&scene.decide("pod")[..], [Action::Get { uid, name, .. }] if uid == "rs" && name == "rs"));
    scene.found.insert("rs".to_owned(), true);
    assert!(scene.decide("pod").is_empty());
    scene.found.insert("rs".to_owned(), false);
    assert_eq!(deletes(&scene.decide("pod")), [("pod", "Background")]);
}

#[test]
fn objects_with_living_owners_or_none_stay() {
    let scene =
        Scene::new(&[object("rs", &[], json!({})), object("pod", &["rs"], json!({})), object("free", &[], json!({}))]);
    assert!(scene.decide("pod").is_empty() && scene.decide("free").is_empty() && scene.decide("unknown").is_empty());
}

#[test]
fn a_reference_to_a_lost_owner_is_removed_while_another_is_left() {
    let mut scene = Scene::new(&[object("rs", &[], json!({})), object("pod", &["rs", "rs-lost"], json!({}))]);
    scene.found.insert("rs-lost".to_owned(), false);
    let actions = scene.decide("pod");
    let patches = patched(&actions);
    assert_eq!(patches[0].1["ownerReferences"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&patches[0].1["ownerReferences"][0]["uid"], &patches[0].1["resourceVersion"]),
        (&json!("rs"), &json!("7"))
    );
}

#[test]
fn foreground_deletes_dependents_first() {
    let mut scene = Scene::new(&[object("rs", &[], dying("foregroundDeletion")), object("pod", &["rs"], json!({}))]);
    assert_eq!(deletes(&scene.decide("rs")), [("pod", "Background")]);
    assert_eq!(deletes(&scene.decide("pod")), [("pod", "Background")]);
    assert_eq!(scene.graph.gone("pod"), ["rs"], "the owner looks again");
    let actions = scene.decide("rs");
    assert_eq!(patched(&actions)[0].1["finalizers"], json!([]));
}

#[test]
fn foreground_goes_down_the_tree() {
    let scene = Scene::new(&[
        object("rs-top", &[], dying("foregroundDeletion")),
        object("rs", &["rs-top"], json!({})),
        object("pod", &["rs"], json!({})),
    ]);
    assert_eq!(deletes(&scene.decide("rs-top")), [("rs", "Foreground")]);
}

#[test]
fn orphaning_frees_dependents_then_the_owner() {
    let mut scene = Scene::new(&[object("rs", &[], dying("orphan")), object("pod", &["rs"], json!({}))]);
    let actions = scene.decide("rs");
    assert_eq!(patched(&actions), [("pod", &json!({"ownerReferences": [], "uid": "pod", "resourceVersion": "7"}))]);
    assert_eq!(scene.graph.seen(&Resource::pods(), &object("pod", &[], json!({}))), ["rs"], "the owner looks again");
    let actions = scene.decide("rs");
    assert_eq!(patched(&actions)[0].1["finalizers"], json!([]));
}

#[test]
fn a_dependent_of_an_owner_that_goes_in_the_background_waits_for_its_end() {
    let scene = Scene::new(&[
        object("rs", &[], json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]})),
        object("pod", &["rs"], json!({})),
    ]);
    assert!(scene.decide("pod").is_empty());
}

#[test]
fn an_owner_of_an_unserved_kind_keeps_its_dependents() {
    let scene = Scene::new(&[object("pod", &["rs"], json!({}))]);
    assert!(reconcile(&scene.graph, "pod", &scene.found, &[Resource::pods()]).actions.is_empty());
}
