//! Jobs and cron jobs.

use super::at::{At, Errors};
use super::workload::template;

pub(super) fn job(root: &At<'_>, errors: &mut Errors) {
    job_spec(&root.field("spec"), errors);
}

fn job_spec(spec: &At<'_>, errors: &mut Errors) {
    for name in ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"] {
        spec.field(name).at_least(0, errors);
    }
    spec.field("completionMode").one_of(&["NonIndexed", "Indexed"], errors);
    spec.field("podReplacementPolicy").one_of(&["Failed", "TerminatingOrFailed"], errors);
    if spec.field("completionMode").text() == "Indexed" && !spec.field("completions").is_set() {
        errors.push(spec.field("completions").required("when completion mode is Indexed"));
    }
    if spec.field("template").need(errors) {
        template(&spec.field("template"), &["OnFailure", "Never"], errors);
    }
}

pub(super) fn job_update(root: &At<'_>, before: &At<'_>, errors: &mut Errors) {
    let (spec, old) = (root.field("spec"), before.field("spec"));
    spec.field("selector").immutable(&old.field("selector"), errors);
    spec.field("completionMode").immutable(&old.field("completionMode"), errors);
    // A job that never started may still get scheduling directives.
    let started = before.down("status.startTime").is_set();
    if started || !old.field("suspend").is_true() {
        spec.field("template").immutable(&old.field("template"), errors);
    }
    if spec.field("completionMode").text() != "Indexed" {
        spec.field("completions").immutable(&old.field("completions"), errors);
    }
}

pub(super) fn cron_job(root: &At<'_>, errors: &mut Errors) {
    let spec = root.field("spec");
    let schedule = spec.field("schedule");
    if schedule.need(errors) {
        let fields = schedule.text().split_whitespace().count();
        if !schedule.text().starts_with('@') && fields != 5 {
            errors.push(schedule.invalid(&format!("expected exactly 5 fields, found {fields}")));
        }
        if schedule.text().contains("TZ=") {
            errors.push(schedule.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead"));
        }
    }
    spec.field("concurrencyPolicy").one_of(&["Allow", "Forbid", "Replace"], errors);
    for name in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        spec.field(name).at_least(0, errors);
    }
    job_spec(&spec.down("jobTemplate.spec"), errors);
}
