//! Which task goes on which offer: the part that a program may replace.

use std::collections::BTreeMap;

use km_mesos_proto::v1;

use super::PodTask;

/// An agent that has made an offer at some time, and the offers it has made that are free now.
#[derive(Clone, Debug, PartialEq)]
pub struct Slave<'a> {
    pub hostname: &'a str,
    /// By their ids.
    pub offers: BTreeMap<&'a str, &'a v1::Offer>,
}

/// All agents by their ids.
pub type Slaves<'a> = BTreeMap<&'a str, Slave<'a>>;

/// Decides where tasks go. It is asked again until it places nothing more, whenever an offer or a pod comes.
///
/// `tasks` are those without a machine, first come first. For each task that it places, the policy calls
/// [`PodTask::fill_task_info`], puts the host name into [`PodTask::selected_machine`], and returns the task's id. An
/// offer serves one task. What breaks these rules is undone and logged.
///
/// A closure of the same form is a policy, too. It is called with the scheduler locked: it must not call it.
pub trait Policy: Send {
    /// The ids of the tasks placed in this call.
    fn place(&mut self, slaves: &Slaves<'_>, tasks: &mut [&mut PodTask]) -> Vec<String>;
}

impl<F> Policy for F
where
    F: FnMut(&Slaves<'_>, &mut [&mut PodTask]) -> Vec<String> + Send,
{
    fn place(&mut self, slaves: &Slaves<'_>, tasks: &mut [&mut PodTask]) -> Vec<String> {
        self(slaves, tasks)
    }
}

/// First come, first served: the first task that fits any offer of one of its machines. Places at most one a call.
pub fn fcfs(slaves: &Slaves<'_>, tasks: &mut [&mut PodTask]) -> Vec<String> {
    for task in tasks {
        let allowed = slaves.values().filter(|slave| task.machines.iter().any(|machine| machine == slave.hostname));
        let found = allowed.flat_map(|slave| slave.offers.values().map(move |offer| (slave.hostname, *offer)));
        let Some((hostname, offer)) = found.into_iter().find(|(_, offer)| task.accept_offer(offer)) else { continue };
        if let Err(error) = task.fill_task_info(offer) {
            tracing::error!(task = task.id, %error, "the task can't be placed");
            continue;
        }
        if task.selected_machine.put(hostname.to_owned()).is_ok() {
            return vec![task.id.clone()];
        }
    }
    Vec::new()
}
