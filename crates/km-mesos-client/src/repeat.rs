//! Which calls may be sent again when nobody knows whether the first one arrived.

use km_mesos_proto::v1;

/// May this scheduler call be sent twice?
///
/// Not ACCEPT: its offers are used up the second time, and the master would report the tasks, which run, as lost. Not
/// MESSAGE: executors would get it twice. All others say what shall be, or repeat an acknowledgement.
pub(crate) fn scheduler_call(kind: v1::scheduler::call::Type) -> bool {
    use v1::scheduler::call::Type;
    !matches!(kind, Type::Unknown | Type::Accept | Type::AcceptInverseOffers | Type::Message)
}

/// May this executor call be sent twice? Updates carry a uuid, by which the agent knows them again.
pub(crate) fn executor_call(kind: v1::executor::call::Type) -> bool {
    use v1::executor::call::Type;
    !matches!(kind, Type::Unknown | Type::Message)
}

/// May this operator call be sent twice? Those that only read.
pub(crate) fn operator_call(kind: v1::master::call::Type) -> bool {
    let name = kind.as_str_name();
    ["GET_", "LIST_", "READ_"].iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_harmless_calls_are_repeated() {
        use v1::{executor::call::Type as Executor, master::call::Type as Master, scheduler::call::Type as Scheduler};
        assert!(scheduler_call(Scheduler::Acknowledge) && scheduler_call(Scheduler::Kill));
        assert!(!scheduler_call(Scheduler::Accept) && !scheduler_call(Scheduler::Message));
        assert!(executor_call(Executor::Update) && !executor_call(Executor::Message));
        assert!(operator_call(Master::GetState) && !operator_call(Master::Teardown));
    }
}
