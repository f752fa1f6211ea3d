//! The way of calls to the master, and what the core wants of the next subscription.

use std::sync::Arc;

use anyhow::Context;
use futures::FutureExt;
use km_mesos_client::{
    ClientError, Credentials, Masters, SchedulerClient,
    scheduler::{Options, Session, connect},
};
use km_mesos_proto::v1::scheduler::call;
use tokio::sync::{Notify, watch};

use super::refusals;
use crate::{
    core::{Action, CallOutcome, Core, Framework, FrameworkAnswer},
    wire,
};

/// What the driver sends calls through.
#[derive(Clone)]
pub struct Link {
    pub(super) client: SchedulerClient,
    masters: Masters,
    session: Arc<watch::Sender<Option<Session>>>,
    /// Told when a call failed: master and scheduler may disagree on the offers, so the subscription is renewed.
    broken: Arc<Notify>,
    wishes: Arc<watch::Sender<Wishes>>,
}

/// What the core wants of the next subscription.
#[derive(Clone, Debug)]
pub struct Wishes {
    pub framework: Arc<Framework>,
    /// Whether it may begin without offers.
    pub quiet: bool,
}

impl Link {
    pub fn new(masters: Masters, credentials: Option<&Credentials>, framework: Arc<Framework>) -> anyhow::Result<Self> {
        let mut options = Options::with_masters(masters.clone());
        options.credentials = credentials.cloned();
        let client = connect(options).context("--mesos-master")?;
        let wishes = Arc::new(watch::Sender::new(Wishes { framework, quiet: false }));
        Ok(Self { client, masters, session: Arc::default(), broken: Arc::default(), wishes })
    }

    pub fn masters(&self) -> Masters {
        self.masters.clone()
    }

    /// Takes over what the core wants.
    pub fn wish(&self, core: &Core) {
        let (framework, quiet) = (core.framework(), core.wants_no_offers());
        self.wishes.send_if_modified(|wishes| {
            let same = Arc::ptr_eq(&wishes.framework, framework) && wishes.quiet == quiet;
            if !same {
                *wishes = Wishes { framework: Arc::clone(framework), quiet };
            }
            !same
        });
    }

    pub(super) fn wishes(&self) -> Wishes {
        self.wishes.borrow().clone()
    }

    /// A subscription begins: calls go there.
    pub(super) fn begin(&self, session: &Session) {
        // A failure of the subscription before is none of this one.
        let _stale = self.broken.notified().now_or_never();
        self.session.send_replace(Some(session.clone()));
    }

    pub(super) fn end(&self) {
        self.session.send_replace(None);
    }

    /// Waits until the subscription is to be renewed.
    pub(super) async fn is_broken(&self) {
        self.broken.notified().await;
    }

    /// Ends the present subscription; the next one follows.
    pub fn resubscribe(&self) {
        if self.session.borrow().is_some() {
            self.broken.notify_one();
        }
    }

    /// Sends a call in the present subscription and says what is known of its outcome.
    pub async fn send(&self, action: Action) -> CallOutcome {
        let Some(answer) = self.attempt(action).await else { return CallOutcome::Refused };
        match answer {
            Ok(()) => CallOutcome::Accepted,
            Err(Failure::Ended) => CallOutcome::InDoubt,
            Err(Failure::Call(kind, error)) => {
                tracing::warn!(call = kind.as_str_name(), %error, "call failed");
                if kind != call::Type::Acknowledge {
                    self.broken.notify_one();
                }
                if error.may_have_had_effect() { CallOutcome::InDoubt } else { CallOutcome::Refused }
            }
        }
    }

    /// Sends an UPDATE_FRAMEWORK. None when nobody knows whether it arrived: the subscription is renewed then, which says
    /// the same.
    pub async fn update(&self, action: Action) -> Option<FrameworkAnswer> {
        match self.attempt(action).await? {
            Ok(()) => Some(FrameworkAnswer::Accepted),
            Err(Failure::Ended) => None,
            Err(Failure::Call(_, error)) if matches!(error.status(), Some(400 | 403)) => {
                let reason = error.to_string();
                let keeps = refusals::is_about_what_stays(&reason);
                if keeps {
                    tracing::error!(reason, advice = refusals::WHAT_STAYS, "the framework isn't what the flags say");
                } else {
                    tracing::warn!(reason, "the master doesn't update the framework");
                }
                Some(FrameworkAnswer::Refused { reason, keeps })
            }
            Err(Failure::Call(_, error)) => {
                tracing::warn!(%error, "the master can't be asked to update the framework");
                self.broken.notify_one();
                None
            }
        }
    }

    /// None when there is no subscription, or nothing to send.
    async fn attempt(&self, action: Action) -> Option<Result<(), Failure>> {
        let mut sessions = self.session.subscribe();
        let session = sessions.borrow_and_update().clone()?;
        let call = wire::call(action)?;
        let kind = call.r#type();
        tokio::select! {
            answer = session.call(call) => Some(answer.map_err(|error| Failure::Call(kind, error))),
            // No answer to it matters any more; whether it arrives, nobody knows. A master that died would hold up
            // the calls to the next one.
            _ended = sessions.changed() => Some(Err(Failure::Ended)),
        }
    }
}

/// Why a call has no good answer.
enum Failure {
    /// The subscription ended first.
    Ended,
    Call(call::Type, ClientError),
}
