//! Agent attributes as text.

use std::collections::BTreeSet;

/// The value of an attribute (or of the host name or fault domain) of an agent, as constraints compare it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    text: String,
    number: bool,
}

impl Attribute {
    pub fn text(text: &str) -> Self {
        Self { text: text.to_owned(), number: false }
    }

    /// A Mesos scalar: three decimals at most, without trailing zeros. Ties go to the even digit, judged on the exact
    /// binary value, which is what formatting does.
    pub fn number(value: f64) -> Self {
        Self { text: number_text(value), number: true }
    }

    /// Sorted by their begin: `[a-b,c-d]`.
    pub fn ranges(ranges: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let sorted: BTreeSet<(u64, u64)> = ranges.into_iter().collect();
        let parts: Vec<String> = sorted.iter().map(|(begin, end)| format!("{begin}-{end}")).collect();
        Self { text: format!("[{}]", parts.join(",")), number: false }
    }

    /// Sorted: `{a,b}`.
    pub fn set(items: impl IntoIterator<Item = String>) -> Self {
        let sorted: BTreeSet<String> = items.into_iter().collect();
        let parts: Vec<String> = sorted.into_iter().collect();
        Self { text: format!("{{{}}}", parts.join(",")), number: false }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is that text, or that number after rounding.
    pub(super) fn is(&self, wanted: &str) -> bool {
        match wanted.parse::<f64>() {
            Ok(number) if self.number => number_text(number) == self.text,
            _ => self.text == wanted,
        }
    }
}

fn number_text(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}
