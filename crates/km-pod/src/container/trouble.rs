//! Why there is no container, as the status says it.

use std::time::Duration;

use super::{State, Unit};

/// How long `ErrImagePull` is shown before it turns into `ImagePullBackOff`.
pub(super) const ERROR_SHOWN: Duration = Duration::from_secs(1);

impl Unit {
    /// Reason and message of having no container, after a try that made none and while the next one is under way.
    pub fn trouble(&self, now: Duration) -> Option<(&'static str, String)> {
        match &self.state {
            State::NoImage { reason: "ErrImagePull", message, failed_at, .. }
                if now.saturating_sub(*failed_at) >= ERROR_SHOWN =>
            {
                let message = format!("Back-off pulling image {:?}: ErrImagePull: {message}", self.image());
                Some(("ImagePullBackOff", message))
            }
            State::NoImage { reason, message, .. } | State::NotStarted { reason, message, .. } => {
                Some((reason, message.clone()))
            }
            State::Checking | State::Pulling | State::Starting => self.trouble.clone(),
            _ => None,
        }
    }
}
