//! Laws of the algebra that hold for any resources.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use km_mesos_proto::resources::{
    Quantities, Reservation, ReservationKind, Resource, Resources, Scalar, Value, attributes,
};
use proptest::prelude::*;

fn value() -> impl Strategy<Value = (&'static str, Value)> {
    prop_oneof![
        (1i64..5000).prop_map(|milli| ("cpus", Value::Scalar(Scalar(milli)))),
        (1i64..5000).prop_map(|milli| ("mem", Value::Scalar(Scalar(milli)))),
        prop::collection::vec((0u64..40, 0u64..5), 1..4).prop_map(|ranges| {
            let ranges = ranges.into_iter().map(|(begin, length)| begin..=begin + length).collect();
            ("ports", Value::Ranges(ranges))
        }),
        prop::collection::btree_set("[a-d]", 1..4).prop_map(|items| ("zones", Value::Set(items))),
    ]
}

fn reservations() -> impl Strategy<Value = Vec<Reservation>> {
    let reservation = |kind, role: &str| Reservation { kind, role: role.into(), principal: None, labels: None };
    prop_oneof![
        Just(vec![]),
        Just(vec![reservation(ReservationKind::Static, "a")]),
        Just(vec![reservation(ReservationKind::Dynamic, "a")]),
        Just(vec![reservation(ReservationKind::Static, "a"), reservation(ReservationKind::Dynamic, "a/b")]),
    ]
}

fn resources() -> impl Strategy<Value = Resources> {
    let resource = (value(), reservations(), prop::option::of("[xy]"), any::<bool>());
    prop::collection::vec(resource, 0..8).prop_map(|all| {
        let build = |((name, value), reservations, allocation, revocable)| {
            let mut resource = Resource::new(name, value);
            (resource.reservations, resource.allocation, resource.revocable) = (reservations, allocation, revocable);
            resource
        };
        all.into_iter().map(build).collect()
    })
}

proptest! {
    #[test]
    fn sums_contain_their_parts_and_do_not_mind_order(a in resources(), b in resources()) {
        let sum = a.clone() + &b;
        prop_assert!(sum.contains(&a) && sum.contains(&b));
        prop_assert_eq!(&sum, &(b.clone() + &a));
        prop_assert!(a.contains(&(a.clone() - &b)));
        prop_assert!((sum.clone() - &a - &b).is_empty());
    }

    #[test]
    fn what_is_contained_can_be_taken_and_given_back(a in resources(), b in resources()) {
        let whole = a + &b;
        prop_assert_eq!(whole.clone() - &b + &b, whole);
    }

    #[test]
    fn reservations_split_resources_without_loss(a in resources()) {
        prop_assert_eq!(a.all_reserved() + a.unreserved(), a.clone());
        prop_assert_eq!(a.revocable() + a.non_revocable(), a.clone());
        prop_assert_eq!(a.allocated("r").allocations().remove("r").unwrap_or_default(), a.allocated("r"));
        prop_assert!(a.find(&a).is_some());
    }

    #[test]
    fn messages_and_back(a in resources()) {
        prop_assert_eq!(Resources::from_protos(&a.to_protos()).unwrap(), a.clone());
        if let Ok(old) = a.to_protos_without_refinement() {
            prop_assert_eq!(Resources::from_protos(&old).unwrap(), a);
        }
    }

    #[test]
    fn shrinking_stays_within(a in resources(), milli in 0i64..6000) {
        let mut wanted = Quantities::default();
        for name in ["cpus", "ports", "zones"] {
            wanted.add(name, Scalar(milli));
        }
        let shrunk = a.shrink_to_quantities(&wanted);
        prop_assert!(a.contains(&shrunk));
        prop_assert!(wanted.contains(&Quantities::of(&shrunk)), "{} exceeds {}", shrunk, wanted);
    }

    #[test]
    fn no_text_breaks_the_parsers(text in "[ a-c0-9:;,.()\\[\\]{}*/\"n-]{0,30}") {
        if let Ok(parsed) = Resources::parse(&text, "*") {
            prop_assert!(parsed.iter().all(|resource| !resource.is_empty()));
        }
        if let Ok(parsed) = attributes::parse(&text) {
            prop_assert!(parsed.iter().all(|attribute| !attribute.name.is_empty()));
        }
    }
}
