//! The connection to the Mesos master: subscription, events, calls.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context;
use futures::{FutureExt, StreamExt};
use km_mesos_client::{
    ClientError, Credentials, Encoding, Masters, OperatorClient, SchedulerClient,
    scheduler::{EventStream, Options, Session, connect},
};
use km_mesos_proto::v1::{
    self,
    scheduler::{Call, call as calls, event},
};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{
    identity::{Identity, jitter},
    refusals,
};
use crate::{
    core::{Action, CallOutcome, Event},
    wire::{call, seen, translate},
};

/// The first and the longest pause before the next subscription.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));
/// A subscription that held so long was a sound one: what ended it is none of the trouble before.
const STEADY: Duration = Duration::from_secs(30);
/// How often the operator API is asked for the agents.
const AGENTS_INTERVAL: Duration = Duration::from_secs(5);

/// What the driver sends calls through.
#[derive(Clone)]
pub struct Link {
    client: SchedulerClient,
    masters: Masters,
    session: Arc<watch::Sender<Option<Session>>>,
    /// Told when a call failed: master and scheduler may disagree on the offers, so the subscription is renewed.
    broken: Arc<Notify>,
    /// Whether the next subscription may begin without offers.
    quiet: Arc<AtomicBool>,
}

impl Link {
    pub fn new(masters: Masters, credentials: Option<&Credentials>) -> anyhow::Result<Self> {
        let mut options = Options::with_masters(masters.clone());
        options.credentials = credentials.cloned();
        let client = connect(options).context("--mesos-master")?;
        Ok(Self { client, masters, session: Arc::default(), broken: Arc::default(), quiet: Arc::default() })
    }

    /// Says whether nobody waits for offers.
    pub fn set_quiet(&self, quiet: bool) {
        self.quiet.store(quiet, Ordering::Release);
    }

    /// Sends a call in the present subscription and says what is known of its outcome.
    pub async fn send(&self, action: Action) -> CallOutcome {
        let mut sessions = self.session.subscribe();
        let session = sessions.borrow_and_update().clone();
        let (Some(session), Some(call)) = (session, call(action)) else { return CallOutcome::Refused };
        let kind = call.r#type();
        let answer = tokio::select! {
            answer = session.call(call) => answer,
            // No answer to it matters any more; whether it arrives, nobody knows. A master that died would hold up
            // the calls to the next one.
            _ended = sessions.changed() => return CallOutcome::InDoubt,
        };
        match answer {
            Ok(()) => CallOutcome::Accepted,
            Err(error) => {
                tracing::warn!(call = kind.as_str_name(), %error, "call failed");
                if kind != calls::Type::Acknowledge {
                    self.broken.notify_one();
                }
                if error.may_have_had_effect() { CallOutcome::InDoubt } else { CallOutcome::Refused }
            }
        }
    }
}

/// Another scheduler took the framework over.
#[derive(Debug, thiserror::Error)]
#[error("another scheduler subscribed with this framework's id")]
pub struct TakenOver;

/// Subscribes, again and again. Ends with the error [`TakenOver`] when another scheduler took the framework over.
pub async fn subscribe_for_ever(
    link: Link,
    framework: v1::FrameworkInfo,
    credentials: Option<Credentials>,
    identity: Arc<Identity>,
    events: mpsc::Sender<Event>,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let operator =
        OperatorClient::new(link.masters.clone(), Encoding::default(), credentials.as_ref(), Duration::from_secs(10))?;
    let mut pause = PAUSES.0;
    while !stop.is_cancelled() {
        let mut framework = framework.clone();
        framework.id = identity.id().map(v1::FrameworkId::from);
        // Who waits by the time that we are subscribed asks for offers then.
        let quiet = link.quiet.load(Ordering::Acquire);
        let suppressed = if quiet { framework.roles.clone() } else { Vec::new() };
        match link.client.subscribe(framework.clone(), suppressed).await {
            Ok((session, stream)) => {
                let begun = Instant::now();
                let end = follow(&link, (session, stream, quiet), framework, &identity, &events, &operator).await;
                if begun.elapsed() >= STEADY {
                    pause = PAUSES.0;
                }
                link.session.send_replace(None);
                events.send(Event::Disconnected).await?;
                match end {
                    End::Removed => forget(&identity, &events).await?,
                    End::TakenOver => return Err(TakenOver.into()),
                    End::Broken => {}
                }
            }
            Err(ClientError::Refused(message)) if refusals::is_removal(&message) => {
                tracing::warn!(message, "the master removed the framework");
                forget(&identity, &events).await?;
            }
            Err(error) => {
                let advice = refusals::advice(error.status(), credentials.is_some());
                tracing::warn!(%error, advice, "can't subscribe yet");
            }
        }
        tokio::time::sleep(pause + jitter(pause)).await;
        pause = (pause * 2).min(PAUSES.1);
    }
    Ok(())
}

/// How a subscription ended.
enum End {
    Broken,
    Removed,
    TakenOver,
}

async fn follow(
    link: &Link,
    (session, mut stream, suppressed): (Session, EventStream, bool),
    framework: v1::FrameworkInfo,
    identity: &Identity,
    events: &mpsc::Sender<Event>,
    operator: &OperatorClient,
) -> End {
    let id = session.framework_id().value.clone();
    tracing::info!(framework = id, master = %session.master(), "subscribed");
    // Stored before anything can be launched under it.
    while let Err(error) = identity.keep(&id).await {
        tracing::warn!(%error, "the framework id can't be stored yet");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    // A failure of the subscription before is none of this one.
    let _stale = link.broken.notified().now_or_never();
    link.session.send_replace(Some(session.clone()));
    if events.send(Event::Subscribed { framework_id: id, suppressed }).await.is_err() {
        return End::Broken;
    }
    tokio::select! {
        end = pump(&mut stream, events) => end,
        () = watch_agents(operator, events) => End::Broken,
        // The call says anew which roles are suppressed; where that matters, it was made in an earlier subscription.
        () = say_what_stays(&session, framework), if !suppressed => End::Broken,
        () = link.broken.notified() => End::Broken,
        () = session.superseded() => {
            tracing::info!(master = %session.master(), "another master leads now");
            End::Broken
        }
    }
}

/// A master takes a changed framework on subscription, but keeps, without a word, what it never changes. This makes it
/// say so, once; then it never ends.
async fn say_what_stays(session: &Session, framework_info: v1::FrameworkInfo) {
    let asks = framework_info.id.is_some() && refusals::updates_frameworks(session.master_version());
    if asks {
        let update = calls::UpdateFramework { framework_info, ..calls::UpdateFramework::default() };
        let kind = Some(calls::Type::UpdateFramework as i32);
        let call = Call { r#type: kind, update_framework: Some(update), ..Call::default() };
        match session.call(call).await {
            Err(error) if error.status() == Some(400) => {
                tracing::error!(%error, advice = refusals::WHAT_STAYS, "the framework isn't what the flags say");
            }
            Err(error) => tracing::debug!(%error, "the master can't be asked to update the framework"),
            Ok(()) => {}
        }
    }
    std::future::pending().await
}

async fn pump(stream: &mut EventStream, events: &mpsc::Sender<Event>) -> End {
    while let Some(event) = stream.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                tracing::warn!(%error, "the event stream broke");
                return End::Broken;
            }
        };
        if event.r#type() == event::Type::Error {
            let message = event.error.map(|error| error.message).unwrap_or_default();
            tracing::warn!(message, "the master ended the subscription");
            return match () {
                () if refusals::is_removal(&message) => End::Removed,
                () if refusals::is_taken_over(&message) => End::TakenOver,
                () => End::Broken,
            };
        }
        if let Some(event) = translate(event)
            && events.send(event).await.is_err()
        {
            return End::Broken;
        }
    }
    End::Broken
}

/// Tells the core of all agents, as long as the master lets us know. Ends when nobody listens.
async fn watch_agents(operator: &OperatorClient, events: &mpsc::Sender<Event>) {
    loop {
        let schedule = operator.get_maintenance_schedule().await;
        let schedule =
            schedule.inspect_err(|error| tracing::debug!(%error, "the master doesn't tell its schedule")).ok();
        match operator.get_agents().await {
            Ok(answer) => {
                let agents = answer.agents.into_iter().filter_map(|agent| seen(agent, schedule.as_ref()));
                if events.send(Event::Agents(agents.collect())).await.is_err() {
                    return;
                }
            }
            Err(error) => tracing::debug!(%error, "the master doesn't tell its agents"),
        }
        tokio::time::sleep(AGENTS_INTERVAL).await;
    }
}

async fn forget(identity: &Identity, events: &mpsc::Sender<Event>) -> anyhow::Result<()> {
    while let Err(error) = identity.forget().await {
        tracing::warn!(%error, "the framework id can't be forgotten yet");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    events.send(Event::FrameworkRemoved).await?;
    Ok(())
}
