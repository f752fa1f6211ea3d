//! ACCEPT, its launches and their validations (M124 to M158).

use km_mesos_core::link::MasterMessage;
use km_mesos_proto::v1::{self, TaskState, task_status::Reason};

use crate::{
    harness::*,
    stage::{Stage, stage},
};

/// Launches one task and gives the answer that came at once.
fn refuse(stage: &mut Stage, task: v1::TaskInfo) -> v1::TaskStatus {
    let offer = stage.offer.clone();
    stage.world.accept(&stage.scheduler, &[&offer], vec![launch(vec![task])]);
    stage.world.update(&stage.scheduler)
}

#[test]
fn a_launched_task_reaches_the_agent_and_the_rest_is_offered_again() {
    // M053, M178, M179
    let mut stage = stage(framework("a"), "cpus:4;mem:4096;ports:[31000-32000]");
    assert_eq!(stage.offer.hostname, "host");
    let offer = stage.offer.clone();
    let one = task("t", &offer, "cpus:1;mem:1024;ports:[31000-31001]");
    stage.world.accept(&stage.scheduler, &[&offer], vec![launch(vec![one])]);
    let ran = stage.world.read_agent(&stage.agent).into_iter().find_map(|message| match message {
        MasterMessage::RunTasks { framework, tasks } => Some((framework, tasks)),
        _ => None,
    });
    let (framework, tasks) = ran.expect("the agent is told");
    assert_eq!(framework.id.map(|id| id.value), Some(stage.scheduler.id.clone()));
    assert_eq!(tasks[0].task_id.value, "t");
    assert!(tasks[0].resources.iter().all(|one| one.allocation_info.is_some()), "the role is filled in");
    stage.world.pass_secs(2);
    let rest = stage.world.offer(&stage.scheduler);
    assert_eq!(offered(&rest), resources("cpus:3;mem:3072;ports:[31002-32000]"));
}

#[test]
fn tasks_on_invalid_offers_are_dropped_with_the_reason() {
    // M124 to M127
    for (info, state) in [(framework("a"), TaskState::TaskLost), (aware("a"), TaskState::TaskDropped)] {
        let mut world = World::new();
        let scheduler = world.subscribe(info);
        world.agent("cpus:1;mem:512");
        world.agent("cpus:2;mem:1024");
        let offers = world.offers(&scheduler);
        let (first, second) = (&offers[0], &offers[1]);
        let cases: [(Vec<&v1::Offer>, &str); 3] = [
            (vec![first, first], "Duplicate offer"),
            (vec![first], "is no longer valid"),
            (vec![second, first], "is no longer valid"),
        ];
        for (ids, text) in cases {
            world.accept(&scheduler, &ids, vec![launch(vec![task("t", first, "cpus:1")])]);
            let status = world.update(&scheduler);
            assert_eq!((status.state(), status.reason()), (state, Reason::InvalidOffers));
            assert_eq!(status.source(), v1::task_status::Source::Master);
            assert!(status.uuid.is_none());
            assert!(status.message().starts_with("Task launched with invalid offers: "), "{}", status.message());
            assert!(status.message().contains(text), "{}", status.message());
        }
        world.pass_secs(2);
        let offers = world.offers(&scheduler);
        assert_eq!(offers.len(), 2, "all resources are back");
        world.accept(&scheduler, &[&offers[0], &offers[1]], vec![launch(vec![task("t", &offers[0], "cpus:1")])]);
        assert!(world.update(&scheduler).message().contains("must belong to one single agent"));
    }
}

#[test]
fn offers_of_one_agent_can_be_used_together() {
    // M060
    let mut stage = stage(framework("a"), "cpus:2;mem:1024");
    let offer = stage.offer.clone();
    stage.world.accept(&stage.scheduler, &[&offer], vec![launch(vec![task("t1", &offer, "cpus:1;mem:512")])]);
    stage.world.pass_secs(1);
    let half = stage.world.offer(&stage.scheduler);
    let (scheduler, agent) = (stage.scheduler.clone(), stage.agent.clone());
    stage.world.status(&scheduler, &agent, "t1", TaskState::TaskFinished, [1; 16]);
    stage.world.pass_secs(1);
    let other = stage.world.offer(&scheduler);
    stage.world.accept(&scheduler, &[&half, &other], vec![launch(vec![task("t2", &half, "cpus:2;mem:1024")])]);
    let told = stage.world.read_agent(&agent);
    assert!(
        told.iter()
            .any(|message| matches!(message, MasterMessage::RunTasks { tasks, .. } if tasks[0].task_id.value == "t2"))
    );
}

#[test]
fn bad_tasks_are_errors_and_their_resources_come_back() {
    // M062, M132 to M136, M141 to M148, M150, M157, M158
    type Change = fn(&mut v1::TaskInfo);
    let cases: [(&str, Change); 21] = [
        ("CommandInfo or ExecutorInfo present", |task| task.executor = Some(executor("e", "cpus:0.1"))),
        ("CommandInfo or ExecutorInfo present", |task| task.command = None),
        ("Task uses no resources", |task| task.resources.clear()),
        ("more than available", |task| task.resources = resources("cpus:100").to_protos()),
        ("Invalid scalar resource", |task| task.resources[0].scalar = Some(v1::value::Scalar { value: -1.0 })),
        ("Invalid scalar resource: value <= 0", |task| {
            task.resources[0].scalar = Some(v1::value::Scalar { value: 0.00001 })
        }),
        ("Task's 'kill_policy.grace_period' must be non-negative", |task| {
            task.kill_policy = Some(v1::KillPolicy { grace_period: Some(v1::DurationInfo { nanoseconds: -1 }) });
        }),
        ("'ExecutorInfo.command' must be set", |task| {
            task.command = None;
            task.executor = Some(v1::ExecutorInfo { command: None, ..executor("e", "cpus:0.1") });
        }),
        ("'ExecutorInfo.type' must be 'CUSTOM'", |task| {
            task.command = None;
            let kind = Some(v1::executor_info::Type::Default as i32);
            task.executor = Some(v1::ExecutorInfo { command: None, r#type: kind, ..executor("e", "cpus:0.1") });
        }),
        ("ExecutorInfo has an invalid FrameworkID", |task| {
            task.command = None;
            task.executor = Some(v1::ExecutorInfo { framework_id: Some("x".into()), ..executor("e", "cpus:0.1") });
        }),
        ("ExecutorInfo's 'shutdown_grace_period' must be non-negative", |task| {
            task.command = None;
            let grace = Some(v1::DurationInfo { nanoseconds: -1 });
            task.executor = Some(v1::ExecutorInfo { shutdown_grace_period: grace, ..executor("e", "cpus:0.1") });
        }),
        ("invalid characters", |task| {
            task.command = None;
            task.executor = Some(executor("a/b", "cpus:0.1"));
        }),
        (
            "Task's `CommandInfo` is invalid: Environment variable 'ENV_VAR_KEY' of type 'VALUE' must have a value set",
            |task| {
                let variable = v1::environment::Variable { name: "ENV_VAR_KEY".to_owned(), ..Default::default() };
                let environment = Some(v1::Environment { variables: vec![variable] });
                task.command = Some(v1::CommandInfo { environment, ..task.command.clone().unwrap_or_default() });
            },
        ),
        ("Task's `ContainerInfo` is invalid: DockerInfo 'docker' is not set for DOCKER typed ContainerInfo", |task| {
            let kind = v1::container_info::Type::Docker as i32;
            task.container = Some(v1::ContainerInfo { r#type: kind, ..Default::default() });
        }),
        ("Only one of them should be set: 'host_path', 'image' and 'source'", |task| {
            let volume =
                v1::Volume { container_path: "/x".to_owned(), mode: v1::volume::Mode::Rw as i32, ..Default::default() };
            let kind = v1::container_info::Type::Mesos as i32;
            task.container = Some(v1::ContainerInfo { r#type: kind, volumes: vec![volume], ..Default::default() });
        }),
        ("The cpu limit must be greater than or equal to the cpu request", |task| {
            task.limits.insert("cpus".to_owned(), v1::value::Scalar { value: 0.5 });
        }),
        ("Only cpus and mem may be included in a task's resource limits", |task| {
            task.limits.insert("disk".to_owned(), v1::value::Scalar { value: 1.0 });
        }),
        ("HealthCheck must specify 'type'", |task| task.health_check = Some(v1::HealthCheck::default())),
        ("CheckInfo must specify 'type'", |task| task.check = Some(v1::CheckInfo::default())),
        ("ID must not be empty", |task| task.task_id = "".into()),
        ("Task uses invalid agent", |task| task.agent_id = "other".into()),
    ];
    for (text, change) in cases {
        let mut stage = stage(framework("a"), "cpus:4;mem:4096");
        let mut bad = task("t", &stage.offer, "cpus:1;mem:100");
        change(&mut bad);
        let status = refuse(&mut stage, bad);
        assert_eq!((status.state(), status.reason()), (TaskState::TaskError, Reason::TaskInvalid), "{text}");
        assert!(status.message().contains(text), "'{}' lacks '{text}'", status.message());
        stage.world.pass_secs(1);
        assert_eq!(offered(&stage.world.offer(&stage.scheduler)), resources("cpus:4;mem:4096"), "{text}");
        let (world, scheduler) = (&mut stage.world, &stage.scheduler);
        assert!(world.reconcile(scheduler, &[]).is_empty(), "the task is unknown (M129)");
    }
}

#[test]
fn a_repeated_id_fails_alone() {
    // M137
    let mut stage = stage(framework("a"), "cpus:4;mem:4096");
    let offer = stage.offer.clone();
    let twins = vec![task("t", &offer, "cpus:1"), task("t", &offer, "cpus:1"), task("u", &offer, "cpus:1")];
    stage.world.accept(&stage.scheduler, &[&offer], vec![launch(twins)]);
    let status = stage.world.update(&stage.scheduler);
    assert_eq!(status.state(), TaskState::TaskError);
    assert!(status.message().starts_with("Task has duplicate ID"));
    let tasks = stage.world.reconcile(&stage.scheduler, &[]);
    assert_eq!(tasks.len(), 2);
}

#[test]
fn an_executor_is_counted_once_and_must_stay_the_same() {
    // M130, M139, M057
    let mut stage = stage(framework("a"), "cpus:4;mem:4096");
    let offer = stage.offer.clone();
    let first = with_executor(task("t1", &offer, "cpus:1;mem:100"), executor("e", "cpus:0.5;mem:50"));
    stage.world.accept(&stage.scheduler, &[&offer], vec![launch(vec![first])]);
    stage.world.pass_secs(1);
    let offer = stage.world.offer(&stage.scheduler);
    assert_eq!(offered(&offer), resources("cpus:2.5;mem:3946"));
    assert_eq!(offer.executor_ids, ["e".into()]);
    let second = with_executor(task("t2", &offer, "cpus:1;mem:100"), executor("e", "cpus:0.5;mem:50"));
    let mut other = executor("e", "cpus:0.5;mem:50");
    other.name = Some("other".to_owned());
    let third = with_executor(task("t3", &offer, "cpus:1;mem:100"), other);
    stage.world.accept(&stage.scheduler, &[&offer], vec![launch(vec![second, third])]);
    let status = stage.world.update(&stage.scheduler);
    assert_eq!(status.task_id.value, "t3");
    assert!(status.message().contains("ExecutorInfo is not compatible"), "{}", status.message());
    let (scheduler, agent) = (stage.scheduler.clone(), stage.agent.clone());
    stage.world.status(&scheduler, &agent, "t1", TaskState::TaskFinished, [1; 16]);
    stage.world.status(&scheduler, &agent, "t2", TaskState::TaskFinished, [2; 16]);
    stage.world.pass_secs(1);
    let all: km_mesos_proto::resources::Resources = stage.world.offers(&scheduler).iter().map(offered).sum();
    assert_eq!(all, resources("cpus:3.5;mem:4046"), "the executor still holds its own");
    let exited = km_mesos_core::link::AgentMessage::ExecutorExited {
        framework_id: scheduler.id.as_str().into(),
        executor_id: "e".into(),
        status: 0,
    };
    stage.world.agent_says(&agent, exited);
    let failure = stage.world.read(&scheduler).into_iter().find_map(|event| event.failure).expect("FAILURE");
    assert_eq!((failure.executor_id.map(|id| id.value), failure.status), (Some("e".to_owned()), Some(0)));
}

#[test]
fn a_group_is_launched_whole_or_not_at_all() {
    // M131, M151, M153, M155, M181
    let default = |framework: &str| v1::ExecutorInfo {
        r#type: Some(v1::executor_info::Type::Default as i32),
        command: None,
        framework_id: Some(framework.into()),
        ..executor("default", "cpus:0.1;mem:32;disk:10")
    };
    type Change = fn(&mut v1::ExecutorInfo, &mut Vec<v1::TaskInfo>);
    let cases: [(Option<&str>, Change); 7] = [
        (None, |_, _| {}),
        (Some("Executor 'default' uses no disk"), |executor, _| executor.resources.retain(|one| one.name != "disk")),
        (Some("'ExecutorInfo.framework_id' must be set"), |executor, _| executor.framework_id = None),
        (Some("Task '1' is invalid: Docker ContainerInfo is not supported on the task"), |_, tasks| {
            let kind = v1::container_info::Type::Docker as i32;
            let docker = Some(v1::container_info::DockerInfo { image: "i".to_owned(), ..Default::default() });
            tasks[0].container = Some(v1::ContainerInfo { r#type: kind, docker, ..Default::default() });
        }),
        (Some("is different from executor 'default'"), |_, tasks| tasks[0].executor = Some(executor("x", "cpus:0.1"))),
        (Some("more than available"), |_, tasks| tasks[1].resources = resources("cpus:100").to_protos()),
        (Some("'ExecutorInfo.command' must not be set for 'DEFAULT' executor"), |executor, _| {
            executor.command = Some(v1::CommandInfo::default());
        }),
    ];
    for (text, change) in cases {
        let mut stage = stage(framework("a"), "cpus:4;mem:4096;disk:100");
        let offer = stage.offer.clone();
        let bare =
            |id: &str| v1::TaskInfo { command: Some(v1::CommandInfo::default()), ..task(id, &offer, "cpus:1;mem:100") };
        let (mut executor, mut tasks) = (default(&stage.scheduler.id), vec![bare("1"), bare("2")]);
        change(&mut executor, &mut tasks);
        stage.world.accept(&stage.scheduler, &[&offer], vec![launch_group(executor, tasks)]);
        let updates = stage.world.updates(&stage.scheduler);
        let told = stage.world.read_agent(&stage.agent);
        let ran = told.iter().any(|message| matches!(message, MasterMessage::RunTaskGroup { .. }));
        assert_eq!(ran, text.is_none());
        match text {
            None => assert!(updates.is_empty()),
            Some(text) => {
                assert_eq!(updates.len(), 2, "{text}");
                for status in updates {
                    assert_eq!((status.state(), status.reason()), (TaskState::TaskError, Reason::TaskGroupInvalid));
                    assert!(status.message().contains(text), "'{}' lacks '{text}'", status.message());
                }
            }
        }
    }
}
