//! What a master's refusals mean, and what their reader can do. The texts are those of Apache Mesos 1.11.

/// Whether the master says that the framework id can never be used again.
pub fn is_removal(message: &str) -> bool {
    message.contains("has been removed") || message.contains("completed framework")
}

/// Whether the master says that another scheduler subscribed with our framework id.
pub fn is_taken_over(message: &str) -> bool {
    message.contains("failed over")
}

/// What helps when a framework's user, principal or checkpointing differs from the one that was registered first.
pub const WHAT_STAYS: &str = "Mesos keeps --mesos-user, --checkpoint and the principal of a framework's first \
    registration: set the flags back, or choose another --framework-name for a new framework and tear this one down, \
    which ends its pods";

/// Whether the master refuses an UPDATE_FRAMEWORK as it would change something of [`WHAT_STAYS`].
pub fn is_about_what_stays(message: &str) -> bool {
    ["FrameworkInfo.user", "FrameworkInfo.checkpoint", "framework's principal"].iter().any(|one| message.contains(one))
}

/// Whether a master of that version knows the call UPDATE_FRAMEWORK and says what it doesn't change: tried with 1.11.
pub fn updates_frameworks(version: Option<&str>) -> bool {
    let mut numbers = version.unwrap_or_default().split('.').map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(1), Some(11))
}

/// What helps against an HTTP status of the subscription; none when waiting is all that helps.
pub fn advice(status: Option<u16>, authenticated: bool) -> Option<&'static str> {
    match (status?, authenticated) {
        (401, false) => Some(
            "the master asks who we are: set --mesos-authentication-principal and --mesos-authentication-secret-file",
        ),
        (401, true) => Some(
            "the master doesn't know the principal or its secret: check --mesos-authentication-principal and \
             --mesos-authentication-secret-file against the master's --credentials",
        ),
        (403, _) => Some(
            "the master's ACLs don't allow it: check --mesos-authentication-principal, --mesos-framework-roles and \
             --mesos-user against them",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart() {
        assert!(is_removal("Framework has been removed") && !is_removal("Framework failed over"));
        assert!(is_taken_over("Framework failed over") && !is_taken_over("Framework has been removed"));
    }

    #[test]
    fn what_a_master_never_changes_is_told_apart_from_other_refusals() {
        for kept in [
            "FrameworkInfo update is not valid: Updating 'FrameworkInfo.user' is unsupported; attempted to update from 'a' to 'b'",
            "FrameworkInfo update is not valid: Updating 'FrameworkInfo.checkpoint' is unsupported",
            "FrameworkInfo update is not valid: Changing framework's principal is not allowed.",
        ] {
            assert!(is_about_what_stays(kept), "{kept}");
        }
        assert!(!is_about_what_stays(
            "Supplied FrameworkInfo is not valid: Role 'x' is not present in the master's --roles"
        ));
    }

    #[test]
    fn only_masters_that_know_the_call_are_asked() {
        let cases = [
            (Some("1.11.0"), true),
            (Some("1.11"), true),
            (Some("2.0.0-rc1"), true),
            (Some("1.9.0"), false),
            (Some("1"), false),
            (Some("x"), false),
            (None, false),
        ];
        for (version, knows) in cases {
            assert_eq!(updates_frameworks(version), knows, "{version:?}");
        }
    }

    #[test]
    fn advice_names_flags() {
        let cases = [
            (Some(401), false, Some("set --mesos-authentication-principal")),
            (Some(401), true, Some("check --mesos-authentication-principal and --mesos-authentication-secret-file")),
            (Some(403), true, Some("--mesos-framework-roles")),
            (Some(403), false, Some("--mesos-user")),
            (Some(503), false, None),
            (None, false, None),
        ];
        for (status, authenticated, expected) in cases {
            match (advice(status, authenticated), expected) {
                (Some(advice), Some(part)) => assert!(advice.contains(part), "{advice}"),
                (advice, expected) => assert_eq!(advice, expected, "{status:?}"),
            }
        }
    }
}
