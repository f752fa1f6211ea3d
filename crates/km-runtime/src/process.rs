//! Processes that may not be our children, named by pid and start time so that a reused pid is never mistaken.

use std::{fs, io, os::fd::OwnedFd};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process that was seen alive once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRef {
    pub pid: i32,
    /// Clock ticks from boot to its start: field 22 of `/proc/<pid>/stat`.
    pub start_ticks: u64,
}

impl ProcessRef {
    /// `None` when there is no such process or when it has ended and only waits to be reaped.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (state, start_ticks) = state_and_start(&stat)?;
        (state != 'Z' && state != 'X').then_some(Self { pid, start_ticks })
    }

    /// A handle on this very process; `None` when it has ended.
    pub fn open(self) -> io::Result<Option<OwnedFd>> {
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(None) };
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // Compared after the handle was taken: from here on the handle cannot mean another process.
        Ok((Self::of(self.pid) == Some(self)).then_some(handle))
    }

    /// Signalling a process that has ended succeeds.
    pub fn signal(self, signal: i32) -> io::Result<()> {
        let signal = Signal::from_named_raw(signal)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("no signal has the number {signal}")))?;
        let Some(handle) = self.open()? else { return Ok(()) };
        match pidfd_send_signal(&handle, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The program's name stands in parentheses and may hold blanks and parentheses itself.
fn state_and_start(stat: &str) -> Option<(char, u64)> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    Some((fields.first()?.chars().next()?, fields.get(19)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "42 (a) (b) S 1 42 42 0 -1 4194304 9 0 0 0 1 2 0 0 20 0 1 0 777 1000 5";
        assert_eq!(state_and_start(stat), Some(('S', 777)));
        assert_eq!(state_and_start(""), None);
        assert_eq!(state_and_start("42 (a) S 1"), None);
    }

    #[test]
    fn the_own_process_is_found_and_another_start_time_is_not() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let own = ProcessRef::of(pid).unwrap();
        assert!(own.open().unwrap().is_some());
        let reused = ProcessRef { start_ticks: own.start_ticks + 1, ..own };
        assert!(reused.open().unwrap().is_none());
        reused.signal(9).unwrap();
    }
}
