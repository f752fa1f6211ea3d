//! Finding the leading master by a real ZooKeeper.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod server;

use std::time::Duration;

use km_mesos_client::{
    Authority, ClientError, MasterAddress, OperatorClient,
    scheduler::{EventStream, Options, Session, connect},
};
use km_mesos_proto::v1::{
    self, master,
    scheduler::{Call, call},
};
use km_testkit::ZooKeeper;
use server::{protobuf, willing_master};
use tokio::time::timeout;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The part of masters in ZooKeeper.
struct Election {
    client: Client,
}

impl Election {
    async fn at(zookeeper: &ZooKeeper) -> Self {
        Self { client: Client::connect(&zookeeper.address()).await.unwrap() }
    }

    async fn open(&self) {
        self.client.create("/mesos", b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
    }

    /// A master stands for election. Answers its node.
    async fn stands(&self, prefix: &str, content: &[u8], options: &CreateOptions<'_>) -> String {
        let path = format!("/mesos/{prefix}");
        let (_, sequence) = self.client.create(&path, content, options).await.unwrap();
        format!("{path}{sequence}")
    }

    async fn stands_in_json(&self, master: &Authority) -> String {
        self.stands("json.info_", &json(master), &everybodys()).await
    }

    async fn resigns(&self, node: &str) {
        self.client.delete(node, None).await.unwrap();
    }
}

/// A node that everybody may read, numbered. It is not ephemeral, so that it survives what a test does to the server.
fn everybodys() -> CreateOptions<'static> {
    CreateMode::PersistentSequential.with_acls(Acls::anyone_all())
}

fn json(master: &Authority) -> Vec<u8> {
    let port = master.port;
    format!(r#"{{"address":{{"hostname":"localhost","ip":"127.0.0.1","port":{port}}},"id":"m","ip":1,"port":{port}}}"#)
        .into_bytes()
}

fn options(zookeeper: &ZooKeeper) -> Options {
    let address: MasterAddress = format!("zk://{}/mesos", zookeeper.address()).parse().unwrap();
    Options { subscribe_backoff_max: Duration::from_millis(100), ..Options::new(address) }
}

async fn subscribe(options: &Options) -> (Session, EventStream) {
    let framework = v1::FrameworkInfo { user: "u".to_owned(), name: "n".to_owned(), ..Default::default() };
    connect(options.clone()).unwrap().subscribe(framework, vec![]).await.unwrap()
}

#[tokio::test]
async fn the_leader_is_found_and_its_successor_followed() {
    let zookeeper = ZooKeeper::start();
    let election = Election::at(&zookeeper).await;
    let (first, second, third) = (willing_master().await, willing_master().await, willing_master().await);
    let options = options(&zookeeper);
    // Nothing is there at first, not even the path.
    let early = tokio::spawn({
        let options = options.clone();
        async move { subscribe(&options).await }
    });
    election.open().await;
    election
        .client
        .create("/mesos/log_replicas", b"", &CreateMode::Persistent.with_acls(Acls::anyone_all()))
        .await
        .unwrap();
    let one = election.stands_in_json(&first.authority).await;
    let (session, _events) = timeout(PATIENCE, early).await.unwrap().unwrap();
    assert_eq!(session.master(), &first.authority);

    // The second stands as masters before 0.24 did.
    let old = v1::MasterInfo {
        id: "old".to_owned(),
        ip: u32::from_le_bytes([127, 0, 0, 1]),
        port: second.authority.port.into(),
        ..Default::default()
    };
    let two = election.stands("info_", &protobuf(&old), &everybodys()).await;
    let _three = election.stands_in_json(&third.authority).await;
    assert!(timeout(Duration::ZERO, session.superseded()).await.is_err(), "the first leads on");
    election.resigns(&one).await;
    timeout(PATIENCE, session.superseded()).await.unwrap();
    let (session, _events) = subscribe(&options).await;
    assert_eq!(session.master(), &second.authority);

    election.resigns(&two).await;
    timeout(PATIENCE, session.superseded()).await.unwrap();
    assert_eq!(subscribe(&options).await.0.master(), &third.authority);
    // The clients of other interfaces find it, too.
    let operator = OperatorClient::new(options.masters.clone(), options.encoding, None, PATIENCE).unwrap();
    operator.call(master::Call::default()).await.unwrap();
    assert_eq!(third.seen().last().unwrap().path, "/api/v1");
}

#[tokio::test]
async fn zookeepers_absence_is_no_loss_of_the_leader() {
    let mut zookeeper = ZooKeeper::start();
    let (first, second) = (willing_master().await, willing_master().await);
    let one = {
        let election = Election::at(&zookeeper).await;
        election.open().await;
        election.stands_in_json(&first.authority).await
    };
    let options = options(&zookeeper);
    let (session, _events) = subscribe(&options).await;

    zookeeper.crash();
    let revive = || Call { r#type: Some(call::Type::Revive.into()), ..Default::default() };
    session.call(revive()).await.unwrap();
    let (again, _events) = subscribe(&options).await;
    assert_eq!(again.master(), &first.authority);
    assert!(timeout(Duration::ZERO, session.superseded()).await.is_err(), "nobody else leads");

    // What changes after its return is seen.
    zookeeper.start_again();
    let election = Election::at(&zookeeper).await;
    election.stands_in_json(&second.authority).await;
    election.resigns(&one).await;
    timeout(PATIENCE, session.superseded()).await.unwrap();
    assert_eq!(subscribe(&options).await.0.master(), &second.authority);
}

#[tokio::test]
async fn without_a_leader_the_reason_is_said() {
    let zookeeper = ZooKeeper::start();
    let election = Election::at(&zookeeper).await;
    let mut options = options(&zookeeper);
    options.subscribe_deadline = Duration::from_secs(8);
    let refused = async |options: &Options| {
        let framework = v1::FrameworkInfo::default();
        let error = connect(options.clone()).unwrap().subscribe(framework, vec![]).await.unwrap_err();
        assert!(matches!(error, ClientError::Deadline { .. }), "{error}");
        error.to_string()
    };
    election.open().await;
    let error = refused(&options).await;
    assert!(error.contains("no master stands for election below /mesos"), "{error}");

    let node = election.stands("json.info_", b"{}", &everybodys()).await;
    let error = refused(&options).await;
    assert!(error.contains(&format!("{node} is malformed")), "{error}");
}

#[tokio::test]
async fn a_password_opens_what_is_closed_to_others() {
    let zookeeper = ZooKeeper::start();
    let client = Client::connector().with_auth("digest", b"mesos:secret").connect(&zookeeper.address()).await.unwrap();
    let election = Election { client };
    let private = |mode: CreateMode| mode.with_acls(Acls::creator_all());
    election.client.create("/mesos", b"", &private(CreateMode::Persistent)).await.unwrap();
    let leader = willing_master().await;
    election.stands("json.info_", &json(&leader.authority), &private(CreateMode::PersistentSequential)).await;

    let address =
        |digest: &str| -> MasterAddress { format!("zk://{digest}{}/mesos", zookeeper.address()).parse().unwrap() };
    let with = |digest| Options { subscribe_deadline: Duration::from_secs(8), ..Options::new(address(digest)) };
    assert_eq!(subscribe(&with("mesos:secret@")).await.0.master(), &leader.authority);
    for wrong in ["", "mesos:wrong@"] {
        let framework = v1::FrameworkInfo::default();
        let error = connect(with(wrong)).unwrap().subscribe(framework, vec![]).await.unwrap_err().to_string();
        assert!(error.contains("not authorized") && !error.contains("wrong"), "{error}");
    }
}
