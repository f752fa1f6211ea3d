//! Several schedulers, one of which leads: the loop around the election.

use std::{pin::pin, time::Instant};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    lease::{Lease, next_vacancy},
    term::{End, Office},
};
use crate::{
    election::{Action, Election, Event, Timing, Why},
    flags::ElectionFlags,
};

/// How long the end of the process may be held up by giving the Lease back.
const FAREWELL: std::time::Duration = std::time::Duration::from_secs(3);

/// Leads whenever elected, until `stop`. The Lease is given back at the end, so that another one leads at once.
pub async fn run(
    office: &Office,
    flags: &ElectionFlags,
    handover: &mut mpsc::Receiver<()>,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let timing = flags.timing();
    let me = candidate();
    // Two requests fit into the renew deadline.
    let patience = timing.renew / 2;
    let lease = Lease::new(
        office.client.clone(),
        &flags.leader_elect_resource_namespace,
        &flags.leader_elect_resource_name,
        patience,
    );
    tracing::info!(candidate = me, lease = flags.leader_elect_resource_name, "standing by");
    let mut vacancies = pin!(lease.vacancies());
    let (answers, mut answered) = mpsc::channel::<Event>(4);
    let election = Election::new(me, stagger(timing));
    let mut campaign = Campaign { election, lease: lease.clone(), answers, start: Instant::now() };
    let mut term: Option<Term> = None;
    campaign.handle(Event::Tick, office, &mut term).await;
    loop {
        let pause = campaign.election.next_wakeup().saturating_sub(campaign.start.elapsed());
        let event = tokio::select! {
            event = answered.recv() => event.unwrap_or(Event::Tick),
            () = next_vacancy(&mut vacancies) => Event::Changed,
            () = tokio::time::sleep(pause) => Event::Tick,
            end = ended(&mut term) => match end? {
                End::Stopped => Event::Tick,
                // Mesos lets another scheduler act for the framework, whatever the Lease says.
                End::TakenOver => Event::HandOver,
            },
            Some(()) = handover.recv() => {
                tracing::info!("asked to let another scheduler lead");
                Event::HandOver
            }
            () = stop.cancelled() => break,
        };
        campaign.handle(event, office, &mut term).await;
    }
    campaign.handle(Event::HandOver, office, &mut term).await;
    let farewell = async {
        while !campaign.election.is_at_rest() {
            let Some(event) = answered.recv().await else { return };
            campaign.handle(event, office, &mut term).await;
        }
    };
    if tokio::time::timeout(FAREWELL, farewell).await.is_err() {
        tracing::warn!("the lease could not be given back: another scheduler leads once it lapses");
    }
    Ok(())
}

/// A time as the leader.
struct Term {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<anyhow::Result<End>>,
}

struct Campaign {
    election: Election,
    lease: Lease,
    answers: mpsc::Sender<Event>,
    start: Instant,
}

impl Campaign {
    async fn handle(&mut self, event: Event, office: &Office, term: &mut Option<Term>) {
        let mut actions = self.election.handle(self.start.elapsed(), event);
        while !actions.is_empty() {
            let mut following = Vec::new();
            for action in std::mem::take(&mut actions) {
                if self.carry_out(action, office, term).await {
                    following.extend(self.election.handle(self.start.elapsed(), Event::Stopped));
                }
            }
            actions = following;
        }
        office.status.set_leader(term.is_some(), self.election.holder());
    }

    /// Says whether the work of a leader has stopped by it.
    async fn carry_out(&self, action: Action, office: &Office, term: &mut Option<Term>) -> bool {
        let (lease, answers) = (self.lease.clone(), self.answers.clone());
        match action {
            Action::Read => {
                tokio::spawn(async move { answers.send(lease.read().await).await });
            }
            Action::Write(draft) => {
                tokio::spawn(async move { answers.send(lease.write(draft).await).await });
            }
            Action::Lead => {
                tracing::info!("elected: this scheduler leads");
                let stop = CancellationToken::new();
                let (office, token) = (office.clone(), stop.clone());
                *term = Some(Term { stop, task: tokio::spawn(async move { office.serve(&token).await }) });
            }
            Action::StandBy(why) => {
                match why {
                    Why::HandedOver => tracing::info!("this scheduler leads no more"),
                    Why::NotRenewed => {
                        tracing::warn!("the lease was not renewed in time: this scheduler leads no more")
                    }
                    Why::TakenOver(other) => tracing::warn!(other, "another scheduler leads"),
                }
                if let Some(term) = term.take() {
                    term.stop.cancel();
                    match term.task.await {
                        Ok(Ok(_)) => {}
                        Ok(Err(error)) => tracing::warn!(%error, "the work of the leader ended with an error"),
                        Err(error) => tracing::error!(%error, "the work of the leader ended abnormally"),
                    }
                }
                return true;
            }
        }
        false
    }
}

/// The end of the present term, when it ends by itself.
async fn ended(term: &mut Option<Term>) -> anyhow::Result<End> {
    match term {
        Some(running) => {
            let end = (&mut running.task).await;
            *term = None;
            end?
        }
        None => std::future::pending().await,
    }
}

/// Who we are: the host's name for people, the rest because it must never be used twice.
fn candidate() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}_{}", host.trim(), uuid::Uuid::new_v4())
}

/// Candidates that ask at different times meet less often.
fn stagger(timing: Timing) -> Timing {
    let retry = timing.retry.mul_f64(1.0 + rand::random::<f64>() / 5.0);
    Timing { retry: retry.min(timing.renew / 2), ..timing }
}
