//! `$(NAME)` in commands, arguments and environment values.
//!
//! `$(NAME)` of a known name gives its value, of an unknown one stays as it is; `$$` gives `$`, so that `$$(NAME)` is
//! a way to write `$(NAME)` itself. (Kubernetes API reference, `Container.command`.)

/// Expands `text` with the values that `lookup` knows.
pub fn expand<'a>(text: &str, lookup: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(tail) = after.strip_prefix('$') {
            out.push('$');
            rest = tail;
        } else if let Some((name, tail)) = after.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match lookup(name) {
                Some(value) => out.push_str(value),
                None => {
                    out.push_str("$(");
                    out.push_str(name);
                    out.push(')');
                }
            }
            rest = tail;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn follows_the_table() {
        let lookup = |name: &str| match name {
            "A" => Some("a"),
            "B" => Some("$(A)"),
            "EMPTY" => Some(""),
            _ => None,
        };
        for (text, expected) in [
            ("plain", "plain"),
            ("$(A)", "a"),
            ("x$(A)y$(A)", "xaya"),
            ("$(B)", "$(A)"),
            ("$(EMPTY)", ""),
            ("$(NONE)", "$(NONE)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$a"),
            ("$$$$(A)", "$$(A)"),
            ("$A", "$A"),
            ("$(A", "$(A"),
            ("$", "$"),
            ("$$", "$"),
            ("ü$(A)ü", "üaü"),
            ("$()", "$()"),
        ] {
            assert_eq!(expand(text, lookup), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_without_dollars_is_left_alone(text in "[^$]*") {
            prop_assert_eq!(expand(&text, |_| Some("x")), text);
        }

        #[test]
        fn never_panics(text in "[$()A-C ü]{0,12}") {
            expand(&text, |name| (name == "A").then_some("$"));
        }
    }
}
