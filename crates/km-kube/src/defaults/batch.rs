//! Defaults of jobs.

use super::field::{child, default, default_text, existing, missing};
use super::pod::template;
use serde_json::Value;

pub(super) fn job(object: &mut Value) {
    let spec = child(object, "spec");
    if missing(spec, "completions") && missing(spec, "parallelism") {
        default(spec, "completions", 1);
    }
    default(spec, "parallelism", 1);
    let per_index = !missing(spec, "backoffLimitPerIndex");
    default(spec, "backoffLimit", if per_index { i64::from(i32::MAX) } else { 6 });
    default_text(spec, "completionMode", "NonIndexed");
    default(spec, "suspend", false);
    default(spec, "manualSelector", false);
    let policy = if missing(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
    default_text(spec, "podReplacementPolicy", policy);
    template(spec);
    let labels = spec.pointer("/template/metadata/labels").cloned().unwrap_or_default();
    if !labels.is_null() {
        default(child(object, "metadata"), "labels", labels);
    }
}

pub(super) fn cron_job(object: &mut Value) {
    let spec = child(object, "spec");
    default_text(spec, "concurrencyPolicy", "Allow");
    default(spec, "suspend", false);
    default(spec, "successfulJobsHistoryLimit", 3);
    default(spec, "failedJobsHistoryLimit", 1);
    if let Some(job) = existing(spec, "jobTemplate") {
        child(job, "metadata");
        template(child(job, "spec"));
    }
}
