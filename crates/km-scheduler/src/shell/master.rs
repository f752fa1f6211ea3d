//! The connection to the Mesos master: subscription and events.

mod link;

pub use link::Link;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::StreamExt;
use km_mesos_client::{
    ClientError, Credentials, Encoding, OperatorClient,
    scheduler::{EventStream, Session},
};
use km_mesos_proto::v1::{
    self,
    scheduler::{call as calls, event},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    identity::{Identity, jitter},
    refusals,
};
use crate::{
    core::{Event, Subscription},
    wire::{seen, some_constraints, translate},
};
use link::Wishes;

/// The first and the longest pause before the next subscription.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));
/// A subscription that held so long was a sound one: what ended it is none of the trouble before.
const STEADY: Duration = Duration::from_secs(30);
/// How often the operator API is asked for the agents.
const AGENTS_INTERVAL: Duration = Duration::from_secs(5);

/// Another scheduler took the framework over.
#[derive(Debug, thiserror::Error)]
#[error("another scheduler subscribed with this framework's id")]
pub struct TakenOver;

/// Subscribes, again and again. Ends with the error [`TakenOver`] when another scheduler took the framework over.
pub async fn subscribe_for_ever(
    link: Link,
    credentials: Option<Credentials>,
    identity: Arc<Identity>,
    events: mpsc::Sender<Event>,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let operator =
        OperatorClient::new(link.masters(), Encoding::default(), credentials.as_ref(), Duration::from_secs(10))?;
    let mut pause = PAUSES.0;
    while !stop.is_cancelled() {
        // Who waits by the time that we are subscribed asks for offers then.
        let wishes = link.wishes();
        let framework = Arc::clone(&wishes.framework);
        let subscribe = subscribe(&wishes, identity.id());
        match link.client.subscribe_as(subscribe).await {
            Ok((session, stream)) => {
                let begun = Instant::now();
                let subscription = Subscription {
                    framework_id: session.framework_id().value.clone(),
                    suppressed: wishes.quiet,
                    framework,
                    updates: refusals::updates_frameworks(session.master_version()),
                };
                let end = follow(&link, (session, stream), subscription, &identity, &events, &operator).await;
                if begun.elapsed() >= STEADY {
                    pause = PAUSES.0;
                }
                link.end();
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
                if let ClientError::Refused(message) = &error {
                    events.send(Event::SubscriptionRefused(message.clone())).await?;
                }
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
    (session, mut stream): (Session, EventStream),
    subscription: Subscription,
    identity: &Identity,
    events: &mpsc::Sender<Event>,
    operator: &OperatorClient,
) -> End {
    let id = &subscription.framework_id;
    tracing::info!(framework = id, master = %session.master(), "subscribed");
    // Stored before anything can be launched under it.
    while let Err(error) = identity.keep(id).await {
        tracing::warn!(%error, "the framework id can't be stored yet");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    link.begin(&session);
    if events.send(Event::Subscribed(Box::new(subscription))).await.is_err() {
        return End::Broken;
    }
    tokio::select! {
        end = pump(&mut stream, events) => end,
        () = watch_agents(operator, events) => End::Broken,
        () = link.is_broken() => End::Broken,
        () = session.superseded() => {
            tracing::info!(master = %session.master(), "another master leads now");
            End::Broken
        }
    }
}

/// What a subscription is to say.
fn subscribe(wishes: &Wishes, id: Option<String>) -> calls::Subscribe {
    let framework_info = v1::FrameworkInfo { id: id.map(v1::FrameworkId::from), ..wishes.framework.info.clone() };
    calls::Subscribe {
        suppressed_roles: if wishes.quiet { framework_info.roles.clone() } else { Vec::new() },
        offer_constraints: some_constraints(wishes.framework.constraints.clone()),
        framework_info,
    }
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
