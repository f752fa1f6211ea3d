//! The last step inside the container: the exec of its program, with a precise report when that fails.

use std::{
    ffi::CString,
    io::Write,
    os::fd::{FromRawFd, RawFd},
};

use libcontainer::workload::{Executor, ExecutorError, ExecutorValidationError};
use nix::errno::Errno;
use serde::{Deserialize, Serialize};

/// Why the program could not be started. Exit codes are those of a shell, as Docker has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecFailure {
    pub exit_code: i32,
    pub message: String,
}

impl ExecFailure {
    pub fn new(program: &str, error: Errno) -> Self {
        let (exit_code, cause) = match error {
            Errno::ENOENT if !program.contains('/') => (127, "executable file not found in $PATH".to_owned()),
            Errno::ENOENT => (127, "no such file or directory".to_owned()),
            Errno::EACCES => (126, "permission denied".to_owned()),
            Errno::ENOEXEC => (126, "exec format error (is the image for another architecture?)".to_owned()),
            other => (128, other.desc().to_owned()),
        };
        Self { exit_code, message: format!("exec: {program:?}: {cause}") }
    }
}

/// `report` is the writing end of a pipe. It is closed by a successful exec, so the reader sees either nothing or an
/// [`ExecFailure`].
#[derive(Clone)]
pub struct ReportingExecutor {
    pub report: RawFd,
}

impl Executor for ReportingExecutor {
    fn exec(&self, spec: &oci_spec::runtime::Spec) -> Result<(), ExecutorError> {
        let args = spec.process().as_ref().and_then(|process| process.args().as_ref()).filter(|args| !args.is_empty());
        let args = args.ok_or(ExecutorError::InvalidArg)?;
        let words: Vec<CString> = args
            .iter()
            .map(|arg| CString::new(arg.as_bytes()))
            .collect::<Result<_, _>>()
            .map_err(|_nul| ExecutorError::InvalidArg)?;
        let Err(error) = nix::unistd::execvp(&words[0], &words);
        let failure = ExecFailure::new(&args[0], error);
        // SAFETY: the descriptor was opened by the shim for this purpose, lives until exec, and this process, which
        // ends right after, has no other owner of it.
        let mut report = unsafe { std::fs::File::from_raw_fd(self.report) };
        // When even this fails the reader sees an early end of the process instead.
        let _nobody_reads = report.write_all(&serde_json::to_vec(&failure).unwrap_or_default());
        std::process::exit(failure.exit_code)
    }

    /// Nothing is checked before exec: exec itself tells the truth.
    fn validate(&self, _spec: &oci_spec::runtime::Spec) -> Result<(), ExecutorValidationError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_the_codes_of_a_shell() {
        for (program, error, code, text) in [
            ("foo", Errno::ENOENT, 127, "exec: \"foo\": executable file not found in $PATH"),
            ("/foo", Errno::ENOENT, 127, "exec: \"/foo\": no such file or directory"),
            ("/etc", Errno::EACCES, 126, "exec: \"/etc\": permission denied"),
            ("/x", Errno::E2BIG, 128, "exec: \"/x\": Argument list too long"),
        ] {
            let failure = ExecFailure::new(program, error);
            assert_eq!((failure.exit_code, failure.message.as_str()), (code, text));
        }
    }
}
