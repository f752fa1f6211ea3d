//! Tables and properties of `quantity`.

use super::*;
use proptest::prelude::*;

fn canonical(text: &str) -> String {
    Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).to_string()
}

#[test]
fn canonical_forms() {
    for (text, want) in [
        ("0", "0"),
        ("0Ki", "0"),
        ("-0", "0"),
        ("1", "1"),
        ("+1", "1"),
        ("1000", "1k"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("1.", "1"),
        ("1.5G", "1500M"),
        ("100m", "100m"),
        ("0.1m", "100u"),
        ("1Ki", "1Ki"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("1000Ki", "1000Ki"),
        ("0.5Ki", "512"),
        ("1.1Ki", "1126400m"),
        ("12E", "12E"),
        ("12e3", "12e3"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("1e4", "10e3"),
        ("1e-3", "1e-3"),
        ("1e0", "1"),
        ("-1500m", "-1500m"),
        ("-1Gi", "-1Gi"),
        ("0.0000000001", "1n"),
        ("0.1n", "1n"),
        ("1.0000000001", "1000000001n"),
        ("100E", "100E"),
        ("-100E", "-100E"),
        ("1e100", "1e27"),
        ("1e-100", "1e-9"),
        ("8Ei", "8Ei"),
        ("7Ei", "7Ei"),
        ("123456789012", "123456789012"),
        ("64Mi", "64Mi"),
        ("65000Ki", "65000Ki"),
        ("250m", "250m"),
    ] {
        assert_eq!(canonical(text), want, "{text}");
    }
}

#[test]
fn refused() {
    for text in
        ["", "m", "abc", "1.2.3", "1x", "1ki", "1K", "1mi", "1e", "1e1.5", " 1", "1 ", "1Kii", "--1", "+-1", "."]
    {
        assert!(Quantity::parse(text).is_err(), "{text:?} must be refused");
    }
}

#[test]
fn rounds_up() {
    for (text, value, milli) in [
        ("100m", 1, 100),
        ("1", 1, 1000),
        ("1001m", 2, 1001),
        ("1u", 1, 1),
        ("1500u", 1, 2),
        ("-1500m", -1, -1500),
        ("1Ki", 1024, 1_024_000),
        ("0.5Gi", 536_870_912, 536_870_912_000),
        ("8E", 8_000_000_000_000_000_000, i64::MAX),
    ] {
        let quantity = Quantity::parse(text).unwrap();
        assert_eq!((quantity.value(), quantity.milli()), (value, milli), "{text}");
    }
}

#[test]
fn arithmetic_keeps_the_left_family() {
    let add = |a: &str, b: &str| (Quantity::parse(a).unwrap() + Quantity::parse(b).unwrap()).to_string();
    assert_eq!(add("1Gi", "1G"), "2073741824");
    assert_eq!(add("0", "1Gi"), "1Gi");
    assert_eq!(add("250m", "250m"), "500m");
    assert_eq!((Quantity::parse("1Gi").unwrap() - Quantity::parse("512Mi").unwrap()).to_string(), "512Mi");
    assert_eq!((Quantity::parse("100m").unwrap() * 3).to_string(), "300m");
}

#[test]
fn json_numbers_are_read() {
    assert_eq!(serde_json::from_str::<Quantity>("2").unwrap(), Quantity::from_value(2));
    assert_eq!(serde_json::from_str::<Quantity>("0.5").unwrap(), Quantity::from_milli(500));
    assert_eq!(serde_json::to_string(&Quantity::parse("0.5").unwrap()).unwrap(), "\"500m\"");
    assert!(serde_json::from_str::<Quantity>("true").is_err());
}

proptest! {
    #[test]
    fn printed_form_is_read_back_as_the_same_value(number in -1_000_000_000_i64..1_000_000_000, suffix in
        prop::sample::select(vec!["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E-3"])) {
        let quantity = Quantity::parse(&format!("{number}{suffix}")).unwrap();
        let printed = quantity.to_string();
        let again = Quantity::parse(&printed).unwrap();
        prop_assert_eq!(quantity, again);
        prop_assert_eq!(printed, again.to_string());
    }

    #[test]
    fn value_is_the_ceiling(nanos in -1_000_000_000_000_000_000_i64..1_000_000_000_000_000_000) {
        let quantity = Quantity::parse(&format!("{nanos}n")).unwrap();
        let value = i128::from(quantity.value()) * NANO;
        prop_assert!(value >= i128::from(nanos) && value - NANO < i128::from(nanos));
        let milli = i128::from(quantity.milli()) * 1_000_000;
        prop_assert!(milli >= i128::from(nanos) && milli - 1_000_000 < i128::from(nanos));
    }

    #[test]
    fn sum_and_difference_undo_each_other(a in any::<i32>(), b in any::<i32>()) {
        let (a, b) = (Quantity::from_milli(i64::from(a)), Quantity::from_bytes(i64::from(b)));
        prop_assert_eq!(a + b - b, a);
        prop_assert_eq!((a < b, a == b), (a.nanos() < b.nanos(), a.nanos() == b.nanos()));
    }

    #[test]
    fn any_text_is_answered_without_panic(text in "[0-9.eEinumkKMGTP+-]{0,60}") {
        if let Ok(quantity) = Quantity::parse(&text) {
            prop_assert!(quantity.nanos().abs() <= MAX_NANOS);
        }
    }
}
