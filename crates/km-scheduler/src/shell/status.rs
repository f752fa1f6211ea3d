//! What the HTTP port shows, and the way from it to the core.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};

use crate::core::{Core, Event};

/// A look at the core between two events, with its time.
pub type Question = Box<dyn FnOnce(&mut Core, Duration) + Send>;

/// The state of the scheduler as others see it.
#[derive(Default)]
pub struct Status {
    post: Mutex<Post>,
    /// Of the core; false while there is none.
    subscribed: AtomicBool,
    synced: AtomicBool,
    caches: AtomicBool,
}

/// Whether we lead, and how to speak with the core if so.
#[derive(Default)]
struct Post {
    inbox: Option<(mpsc::Sender<Event>, mpsc::Sender<Question>)>,
    /// Whether we lead and who does, where there is an election.
    elected: Option<(bool, String)>,
}

impl Status {
    /// What the core says after an event.
    pub fn set(&self, subscribed: bool, synced: bool) {
        self.subscribed.store(subscribed, Ordering::Relaxed);
        self.synced.store(synced, Ordering::Relaxed);
    }

    pub fn is_subscribed(&self) -> bool {
        self.subscribed.load(Ordering::Relaxed)
    }

    /// A term begins: its core takes events and questions there.
    pub fn open(&self, events: mpsc::Sender<Event>, questions: mpsc::Sender<Question>) {
        whole(&self.post).inbox = Some((events, questions));
    }

    /// The term is over.
    pub fn close(&self) {
        whole(&self.post).inbox = None;
        self.set(false, false);
    }

    pub fn set_leader(&self, leads: bool, holder: Option<&str>) {
        whole(&self.post).elected = Some((leads, holder.unwrap_or("nobody").to_owned()));
    }

    pub fn set_caches_synced(&self) {
        self.caches.store(true, Ordering::Relaxed);
    }

    /// Whether this scheduler waits for its election: it is subscribed to nothing, and that is right.
    pub fn stands_by(&self) -> bool {
        matches!(whole(&self.post).elected, Some((false, _)))
    }

    /// In words: `leader`, or `standby` and who leads.
    pub fn role(&self) -> String {
        match &whole(&self.post).elected {
            None => "leader (without election)".to_owned(),
            Some((true, _)) => "leader".to_owned(),
            Some((false, holder)) => format!("standby, led by {holder}"),
        }
    }

    /// Whether pods and nodes are known, by the core or, while standing by, to the one that will lead.
    pub fn is_synced(&self) -> bool {
        if self.stands_by() { self.caches.load(Ordering::Relaxed) } else { self.synced.load(Ordering::Relaxed) }
    }

    /// Tells the core something. False when there is none.
    pub async fn tell(&self, event: Event) -> bool {
        let inbox = whole(&self.post).inbox.clone();
        match inbox {
            Some((events, _)) => events.send(event).await.is_ok(),
            None => false,
        }
    }

    /// Looks at the core. None when there is none.
    pub async fn look<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Core, Duration) -> T + Send + 'static,
    ) -> Option<T> {
        let (_, questions) = whole(&self.post).inbox.clone()?;
        let (answer, answered) = oneshot::channel();
        let question: Question = Box::new(move |core, now| {
            // Who asked may have gone.
            let _gone = answer.send(question(core, now));
        });
        questions.send(question).await.ok()?;
        answered.await.ok()
    }
}

/// Nothing panics while it holds one of these locks, and the values are whole at any time.
fn whole<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
