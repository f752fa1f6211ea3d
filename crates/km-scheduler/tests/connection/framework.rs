//! What the framework is to Mesos changes with the configuration file, while the scheduler runs.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Node;
use km_mesos_proto::v1::scheduler::{
    AttributeConstraint,
    attribute_constraint::{predicate::Predicate, selector::Selector},
    call,
};
use kube::Api;
use nix::sys::signal::{Signal, raise};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    Stand,
    cluster::{Cluster, PATIENCE, get, wait},
    master::{FakeMaster, Reply},
    seen,
};

/// A scheduler with a configuration file.
struct Settled {
    stand: Stand,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Settled {
    async fn set(master: &FakeMaster, settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("scheduler.ini");
        write(&file, settings);
        let stand = Stand::set(master.address.to_string(), |flags| flags.scheduler_config = Some(file.clone())).await;
        seen(master, call::Type::Subscribe, 1).await;
        Self { stand, file, _folder: folder }
    }

    /// Has the file read again with other settings.
    async fn change(&self, settings: &str) -> (u16, String) {
        write(&self.file, settings);
        self.get("/debug/actions/reload").await
    }

    async fn get(&self, path: &str) -> (u16, String) {
        get(self.stand.scheduler.address, path).await
    }

    async fn asked(&self) -> Value {
        let page = self.get("/debug/inspect/offers").await.1;
        let page: Value = serde_json::from_str(&page[page.find('{').unwrap()..]).unwrap();
        page["asked"].clone()
    }

    async fn counts(&self, line: &str) {
        wait(line, async || self.get("/metrics").await.1.contains(line).then_some(())).await;
    }
}

fn write(file: &Path, settings: &str) {
    std::fs::write(file, format!("[scheduler]\n{settings}\n")).unwrap();
}

async fn update(master: &FakeMaster, number: usize) -> call::UpdateFramework {
    seen(master, call::Type::UpdateFramework, number).await[number - 1].call.update_framework.clone().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_file_updates_the_framework_and_a_wrong_one_changes_nothing() {
    let master = FakeMaster::start(|_| Reply::Accept).await;
    master.tell_version("1.11.0");
    let scheduler = Settled::set(&master, "framework-weburi = http://old").await;
    // The first one asks what the master keeps.
    assert_eq!(update(&master, 1).await.framework_info.webui_url(), "http://old");

    let settings = "mesos-framework-roles = prod,*\nmesos-default-pod-roles = prod\noffer-ttl = 7s\n\
                    mesos-offer-constraints = [[\"rack\",\"LIKE\",\"r[12]\"]] ; two racks";
    let (status, told) = scheduler.change(settings).await;
    assert_eq!(status, 200, "{told}");
    for line in ["framework-weburi: taken over", "mesos-framework-roles: taken over", "offer-ttl: taken over when"] {
        assert!(told.contains(line), "{told}");
    }
    let second = update(&master, 2).await;
    assert_eq!(second.framework_info.roles, ["prod"]);
    assert_eq!(
        (second.framework_info.id.clone(), second.framework_info.webui_url.clone()),
        (Some("framework-1".into()), None)
    );
    let constraints = second.offer_constraints.unwrap();
    let AttributeConstraint { selector, predicate } =
        constraints.role_constraints["prod"].groups[0].attribute_constraints[0].clone();
    assert_eq!(selector.selector, Some(Selector::AttributeName("rack".to_owned())));
    assert!(matches!(predicate.predicate, Some(Predicate::TextMatches(matches)) if matches.regex == "r[12]"));

    let (status, told) = scheduler.change("mesos-framework-rolls = a").await;
    assert_eq!(status, 400);
    assert!(
        told.contains("line 2: unknown setting \"mesos-framework-rolls\"; did you mean \"mesos-framework-roles\"?")
    );
    let (status, told) = scheduler.change("mesos-framework-roles = a\nmesos-default-pod-roles = b").await;
    assert_eq!(status, 400);
    assert!(told.contains("line 3: mesos-default-pod-roles: b is none of --mesos-framework-roles (a)"), "{told}");
    scheduler.counts("scheduler_config_reloads_total{result=\"refused\"} 2").await;
    assert_eq!(scheduler.asked().await["roles"][0]["role"], "prod");

    // A signal does the same.
    write(&scheduler.file, "mesos-framework-roles = test\nmesos-default-pod-roles = test");
    raise(Signal::SIGHUP).unwrap();
    assert_eq!(update(&master, 3).await.framework_info.roles, ["test"]);
    assert_eq!(master.seen(call::Type::Subscribe).len(), 1, "the subscription goes on");
    // What the next subscription says is what was last told.
    master.cut();
    let again = seen(&master, call::Type::Subscribe, 2).await[1].call.subscribe.clone().unwrap();
    assert_eq!((again.framework_info.roles, again.offer_constraints), (vec!["test".to_owned()], None));
    scheduler.stand.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_knows_no_updates_is_subscribed_to_anew() {
    let master = FakeMaster::start(|_| Reply::Accept).await;
    master.tell_version("1.8.1");
    let scheduler = Settled::set(&master, "").await;
    let ready = async || (scheduler.get("/readyz").await.0 == 200).then_some(());
    wait("readiness", ready).await;
    assert_eq!(scheduler.change("mesos-framework-roles = prod,*").await.0, 200);
    let again = seen(&master, call::Type::Subscribe, 2).await[1].call.clone();
    assert_eq!(again.framework_id, Some("framework-1".into()));
    assert_eq!(again.subscribe.unwrap().framework_info.roles, ["prod"]);
    assert!(master.seen(call::Type::UpdateFramework).is_empty());
    scheduler.stand.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_the_master_refuses_is_taken_back() {
    let master = FakeMaster::start(|call| match &call.update_framework {
        Some(update) if update.framework_info.roles == ["forbidden"] => {
            Reply::Refuse(400, "Supplied FrameworkInfo is not valid: Role 'forbidden' is not present".to_owned())
        }
        Some(update) if update.framework_info.webui_url() == "http://kept" => Reply::Refuse(
            400,
            "FrameworkInfo update is not valid: Updating 'FrameworkInfo.user' is unsupported".to_owned(),
        ),
        _ => Reply::Accept,
    })
    .await;
    master.tell_version("1.11.0");
    let scheduler = Settled::set(&master, "").await;
    update(&master, 1).await;
    let roles = "mesos-framework-roles = forbidden\nmesos-default-pod-roles = forbidden";
    assert_eq!(scheduler.change(roles).await.0, 200);
    update(&master, 2).await;
    scheduler.counts("scheduler_framework_updates_total{result=\"refused\"} 1").await;
    wait("the refusal", async || {
        let asked = scheduler.asked().await;
        let told = asked["refused"].as_str().is_some_and(|reason| reason.contains("'forbidden' is not present"));
        (told && asked["roles"][0]["role"] == "*").then_some(())
    })
    .await;
    assert_eq!(master.seen(call::Type::Subscribe).len(), 1);

    // What is refused for something that Mesos never changes is told by another subscription.
    assert_eq!(scheduler.change("framework-weburi = http://kept").await.0, 200);
    let again = seen(&master, call::Type::Subscribe, 2).await[1].call.subscribe.clone().unwrap();
    assert_eq!(again.framework_info.webui_url(), "http://kept");
    assert_eq!(again.framework_info.roles, ["*"]);
    scheduler.stand.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_master_takes_roles_constraints_and_minima_without_another_subscription() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scheduler.ini");
    write(&file, "");
    let mut cluster = Cluster::up().await.unwrap();
    cluster.agent("alpha").await.unwrap();
    let flags = km_scheduler::Flags { scheduler_config: Some(file.clone()), ..cluster.flags() };
    let stop = CancellationToken::new();
    let scheduler = km_scheduler::start(flags, stop.clone()).await.unwrap();
    let master = cluster.master().parse().unwrap();
    // The page of our framework, once something is as it should be.
    let framework = async |what: &str, pleases: &dyn Fn(&Value) -> bool| {
        wait(what, async || {
            let page = get(master, "/frameworks").await.1;
            let page: Value = serde_json::from_str(&page[page.find('{')?..]).ok()?;
            Some(page["frameworks"][0].clone()).filter(|found| found["connected"] == true && pleases(found))
        })
        .await
    };
    let first = framework("the subscription", &|found| found["roles"] == json!(["*"])).await;
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    wait("the node", async || nodes.get_opt("alpha").await.ok().flatten()).await;
    write(
        &file,
        "mesos-framework-roles = prod,*\nmesos-default-pod-roles = prod\nframework-weburi = http://new\n\
         mesos-min-allocatable-resources = cpus:0.1\nmesos-offer-constraints = [\"rack\",\"UNLIKE\",\"r1\"]",
    );
    let (status, told) = get(scheduler.address, "/debug/actions/reload").await;
    assert_eq!(status, 200, "{told}");
    let second = framework("the update", &|found| found["roles"] == json!(["prod"])).await;
    for field in ["id", "registered_time", "reregistered_time"] {
        assert_eq!(second[field], first[field], "{field}");
    }
    assert_eq!(second["webui_url"], "http://new");
    assert!(second["offer_constraints"]["role_constraints"]["prod"].is_object(), "{second}");
    // The one agent is on that rack, so nothing is to come there any more.
    wait("the taint", async || {
        let taints = nodes.get("alpha").await.ok()?.spec?.taints?;
        taints.iter().find(|taint| taint.value.as_deref() == Some("excluded")).map(drop)
    })
    .await;
    stop.cancel();
    tokio::time::timeout(PATIENCE, scheduler.join()).await.unwrap().unwrap();
    cluster.down().await.unwrap();
}
