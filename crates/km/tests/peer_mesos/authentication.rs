//! A master that asks who we are.

use km_testkit::eventually;

use crate::{setup::Setup, stage::Stage, workload::Workload};

const CREDENTIALS: &str = r#"{"credentials": [{"principal": "kubernetes", "secret": "open sesame"}]}"#;

#[test]
fn a_master_with_authentication_lets_in_who_has_the_secret_and_the_log_tells_others_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let credentials = folder.path().join("credentials.json");
    std::fs::write(&credentials, CREDENTIALS).unwrap();
    let setup = Setup::default()
        .with_agents(1)
        .with_master_flag("authenticate_http_frameworks=true")
        .with_master_flag("http_framework_authenticators=basic")
        .with_master_flag(format!("credentials={}", credentials.display()));
    let mut stage = Stage::set_without_scheduler(setup);
    let logs = |stage: &Stage, advice: &str| {
        eventually(&format!("the log says '{advice}'"), || match stage.scheduler_log() {
            log if log.contains(advice) => Ok(()),
            log => Err(log),
        });
    };

    stage.start_scheduler();
    logs(&stage, "set --mesos-authentication-principal and --mesos-authentication-secret-file");
    stage.crash_scheduler();

    let secret = stage.file("secret", "open barley\n");
    stage.add_scheduler_flags(&[
        "--mesos-authentication-principal=kubernetes".to_owned(),
        format!("--mesos-authentication-secret-file={}", secret.display()),
    ]);
    stage.start_scheduler();
    logs(&stage, "the master doesn't know the principal or its secret");

    stage.file("secret", "open sesame\n");
    stage.restart_scheduler();
    stage.agents_are_back();
    assert_eq!(stage.operator.framework().unwrap()["principal"], "kubernetes");
    let idle = Workload::of("idle", 2);
    idle.apply(&stage.kubectl);
    idle.runs(&stage.kubectl);
    stage.live_tasks_are_bound_pods();

    // What Mesos never changes about a framework is said, and what runs goes on.
    stage.add_scheduler_flags(&["--checkpoint=false".to_owned()]);
    stage.restart_scheduler();
    logs(&stage, "Mesos keeps --mesos-user, --checkpoint and the principal");
    assert_eq!(stage.operator.framework().unwrap()["checkpoint"], true);
    idle.runs(&stage.kubectl);
    stage.live_tasks_are_bound_pods();
    stage.strike();
}
