//! Tables and properties of `patch`.

use super::diff::diff;
use super::*;
use crate::schema::{self, TypeRef};
use proptest::prelude::*;
use serde_json::json;

fn pod() -> TypeRef {
    schema::lookup("", "v1", "Pod").unwrap()
}

#[test]
fn strategic_table() {
    let live = json!({
        "metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x", "y"]},
        "spec": {
            "containers": [{"name": "a", "image": "1", "args": ["p"]}, {"name": "b", "image": "2"}],
            "tolerations": [{"key": "t"}],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "nodeSelector": {"n": "1"},
        }
    });
    let table = [
        ("null deletes", json!({"metadata": {"labels": {"a": null}}}), "/metadata/labels", json!({"b": "2"})),
        (
            "null of nothing is dropped",
            json!({"metadata": {"annotations": {"z": null}}}),
            "/metadata/annotations",
            json!({}),
        ),
        (
            "map replace",
            json!({"metadata": {"labels": {"$patch": "replace", "c": "3"}}}),
            "/metadata/labels",
            json!({"c": "3"}),
        ),
        ("map delete", json!({"metadata": {"labels": {"$patch": "delete"}}}), "/metadata/labels", json!({})),
        (
            "map merge",
            json!({"metadata": {"labels": {"$patch": "merge", "c": "3"}}}),
            "/metadata/labels",
            json!({"a": "1", "b": "2", "c": "3"}),
        ),
        (
            "item merged by key",
            json!({"spec": {"containers": [{"name": "b", "image": "9"}]}}),
            "/spec/containers",
            json!([{"name": "a", "image": "1", "args": ["p"]}, {"name": "b", "image": "9"}]),
        ),
        (
            "item added",
            json!({"spec": {"containers": [{"name": "c", "image": "3"}]}}),
            "/spec/containers/0",
            json!({"name": "c", "image": "3"}),
        ),
        (
            "item deleted",
            json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}),
            "/spec/containers",
            json!([{"name": "b", "image": "2"}]),
        ),
        (
            "list replaced",
            json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}}),
            "/spec/containers",
            json!([{"name": "z"}]),
        ),
        (
            "atomic list in item",
            json!({"spec": {"containers": [{"name": "a", "args": ["q"]}]}}),
            "/spec/containers/0/args",
            json!(["q"]),
        ),
        ("atomic list", json!({"spec": {"tolerations": [{"key": "u"}]}}), "/spec/tolerations", json!([{"key": "u"}])),
        (
            "retain keys",
            json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/p"}}]}}),
            "/spec/volumes",
            json!([{"name": "v", "hostPath": {"path": "/p"}}]),
        ),
        (
            "primitive list merges",
            json!({"metadata": {"finalizers": ["z", "x"]}}),
            "/metadata/finalizers",
            json!(["z", "x", "y"]),
        ),
        (
            "delete from primitives",
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}}),
            "/metadata/finalizers",
            json!(["y"]),
        ),
        (
            "order",
            json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}),
            "/spec/containers/0/name",
            json!("b"),
        ),
        (
            "order and change",
            json!({"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
            "containers": [{"name": "c", "image": "3"}]}}),
            "/spec/containers/2/name",
            json!("a"),
        ),
        (
            "new object without directives",
            json!({"spec": {"affinity": {"$patch": "replace", "nodeAffinity": {}}}}),
            "/spec/affinity",
            json!({"nodeAffinity": {}}),
        ),
    ];
    for (name, patch, at, want) in table {
        let patched = strategic_merge(pod(), &live, &patch).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(patched.pointer(at), Some(&want), "{name}");
    }
}

#[test]
fn strategic_refusals() {
    let live = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "a"}]}});
    for patch in [
        json!([]),
        json!({"$patch": "explode"}),
        json!({"$patch": 1}),
        json!({"$unknown": 1}),
        json!({"metadata": {"$retainKeys": "name"}}),
        json!({"metadata": {"$retainKeys": ["name"], "labels": {}}}),
        json!({"spec": {"containers": [{"image": "x"}]}}),
        json!({"spec": {"containers": ["x"]}}),
        json!({"spec": {"containers": [{"name": "a", "$patch": "explode"}]}}),
        json!({"spec": {"$setElementOrder/containers": "a"}}),
    ] {
        assert!(matches!(strategic_merge(pod(), &live, &patch), Err(PatchError::Malformed(_))), "{patch}");
    }
}

#[test]
fn deployment_strategy_keeps_only_listed_keys() {
    let deployment = schema::lookup("apps", "v1", "Deployment").unwrap();
    let live = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let patched = strategic_merge(deployment, &live, &patch).unwrap();
    assert_eq!(patched, json!({"spec": {"strategy": {"type": "Recreate"}}}));
}

#[test]
fn json_and_merge_patches() {
    let live = json!({"a": {"b": 1}, "c": [1, 2]});
    let patched = json_patch(
        &live,
        &json!([{"op": "test", "path": "/a/b", "value": 1}, {"op": "add", "path": "/c/-", "value": 3}]),
    );
    assert_eq!(patched.unwrap(), json!({"a": {"b": 1}, "c": [1, 2, 3]}));
    let failed = json_patch(&live, &json!([{"op": "test", "path": "/a/b", "value": 2}]));
    assert!(matches!(failed, Err(PatchError::DoesNotApply(_))));
    assert!(matches!(json_patch(&live, &json!([{"op": "remove", "path": "/x"}])), Err(PatchError::DoesNotApply(_))));
    assert!(matches!(json_patch(&live, &json!({"op": "x"})), Err(PatchError::Malformed(_))));
    let many: Vec<Value> =
        (0..=MAX_JSON_PATCH_OPERATIONS).map(|_| json!({"op": "test", "path": "/a/b", "value": 1})).collect();
    assert!(matches!(json_patch(&live, &json!(many)), Err(PatchError::Malformed(_))));
    assert_eq!(merge_patch(&live, &json!({"a": null, "c": [9]})).unwrap(), json!({"c": [9]}));
    assert!(merge_patch(&live, &json!([])).is_err());
}

fn arbitrary_pod() -> impl Strategy<Value = Value> {
    let word = || prop::sample::select(vec!["a", "b", "c", "d"]);
    let labels = prop::collection::btree_map(word(), word(), 0..4);
    let finalizers = prop::collection::vec(word(), 0..4).prop_map(|mut list| {
        let mut seen = std::collections::BTreeSet::new();
        list.retain(|item| seen.insert(*item));
        list
    });
    let env = prop::collection::btree_map(word(), word(), 0..3)
        .prop_map(|env| env.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Vec<_>>());
    let container = (word(), prop::option::of(word()), env, prop::collection::vec(word(), 0..3)).prop_map(
        |(name, image, env, args)| {
            let mut container = json!({"name": name, "env": env, "args": args});
            if let Some(image) = image {
                container["image"] = json!(image);
            }
            container
        },
    );
    let containers = prop::collection::vec(container, 0..4).prop_map(|mut list| {
        let mut seen = std::collections::BTreeSet::new();
        list.retain(|item| seen.insert(item["name"].to_string()));
        list
    });
    (labels, finalizers, containers, prop::option::of(word())).prop_map(|(labels, finalizers, containers, node)| {
        let mut pod =
            json!({"metadata": {"labels": labels, "finalizers": finalizers}, "spec": {"containers": containers}});
        if let Some(node) = node {
            pod["spec"]["nodeName"] = json!(node);
        }
        pod
    })
}

proptest! {
    #[test]
    fn a_patch_made_from_the_difference_gives_the_target(old in arbitrary_pod(), new in arbitrary_pod()) {
        let patch = Value::Object(diff(Some(pod()), old.as_object().unwrap(), new.as_object().unwrap()));
        let patched = strategic_merge(pod(), &old, &patch).unwrap();
        prop_assert_eq!(&patched, &new);
        prop_assert_eq!(&strategic_merge(pod(), &patched, &patch).unwrap(), &new, "a second time changes nothing");
    }

    #[test]
    fn an_object_laid_over_itself_stays(old in arbitrary_pod()) {
        prop_assert_eq!(&strategic_merge(pod(), &old, &old).unwrap(), &old);
        prop_assert_eq!(&strategic_merge(pod(), &old, &json!({})).unwrap(), &old);
    }
}
