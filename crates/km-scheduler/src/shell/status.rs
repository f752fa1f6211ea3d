//! What the HTTP port shows, and the way from it to the core.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::mpsc;

use super::inspect::Question;
use crate::core::{Event, OfferLine, PodLine, QueueLine, TaskLine};

/// The state of the scheduler as others see it.
#[derive(Default)]
pub struct Status {
    shown: Mutex<Shown>,
    post: Mutex<Post>,
    caches: AtomicBool,
}

/// A look at the core; empty while there is none.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    pub subscribed: bool,
    pub synced: bool,
    pub tasks: Vec<TaskLine>,
    pub queue: Vec<QueueLine>,
    pub offers: Vec<OfferLine>,
    pub pods: Vec<PodLine>,
    /// Agents and their executors.
    pub executors: Vec<(String, String)>,
}

/// Whether we lead, and how to speak with the core if so.
#[derive(Default)]
struct Post {
    inbox: Option<(mpsc::Sender<Event>, mpsc::Sender<Question>)>,
    /// Whether we lead and who does, where there is an election.
    elected: Option<(bool, String)>,
}

impl Status {
    pub fn lock(&self) -> MutexGuard<'_, Shown> {
        whole(&self.shown)
    }

    /// A term begins: its core takes events and questions there.
    pub fn open(&self, events: mpsc::Sender<Event>, questions: mpsc::Sender<Question>) {
        whole(&self.post).inbox = Some((events, questions));
    }

    /// The term is over.
    pub fn close(&self) {
        whole(&self.post).inbox = None;
        *self.lock() = Shown::default();
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
        if self.stands_by() { self.caches.load(Ordering::Relaxed) } else { self.lock().synced }
    }

    /// Tells the core something. False when there is none.
    pub async fn tell(&self, event: Event) -> bool {
        let inbox = whole(&self.post).inbox.clone();
        match inbox {
            Some((events, _)) => events.send(event).await.is_ok(),
            None => false,
        }
    }

    /// Asks the core something. False when there is none.
    pub async fn ask(&self, question: Question) -> bool {
        let inbox = whole(&self.post).inbox.clone();
        match inbox {
            Some((_, questions)) => questions.send(question).await.is_ok(),
            None => false,
        }
    }
}

/// Nothing panics while it holds one of these locks, and the values are whole at any time.
fn whole<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
