//! The node object while the executor lives.

use std::{sync::Arc, time::Duration};

use km_mesos_proto::v1;
use tokio_util::sync::CancellationToken;

use super::api::FakeApi;
use crate::node::{self, Description, Pace};

/// The status is not written by itself as long as the test lasts.
const PACE: Pace = Pace { renewal: Duration::from_millis(10), status: Duration::from_secs(3600) };

#[tokio::test]
async fn a_node_that_was_deleted_comes_back_whole() {
    let api = FakeApi::default();
    let agent = v1::AgentInfo { hostname: "n".into(), ..Default::default() };
    let executor = v1::ExecutorInfo { executor_id: "e".into(), ..Default::default() };
    let description = Description::new("n", &agent, &executor, None, 10250, 110).unwrap();
    let stop = CancellationToken::new();
    let keeper = tokio::spawn(node::keep(Arc::new(api.clone()), Arc::new(description), PACE, stop.clone()));
    let count = |lines: &[String], text: &str| lines.iter().filter(|line| *line == text).count();
    for (made_by_others, times) in [(None, 1), (None, 2), (Some("of-the-scheduler"), 3)] {
        if times > 1 {
            api.replace_node(made_by_others);
        }
        let told = |lines: &[String]| {
            let renewed = lines.iter().rev().take_while(|line| *line == "lease n").count() > 2;
            (count(lines, "node n"), count(lines, "node status 10250")) == (times, times) && renewed
        };
        api.journal.wait_for(&format!("registered {times} times"), told).await;
    }
    assert_eq!(api.lease_owner(), api.node(), "the lease belongs to the node that is there");
    stop.cancel();
    keeper.await.unwrap();
}
