//! Placement: the syntax of Marathon's constraints.

use km_placement::{
    Attribute, Placed,
    constraint::{Operator, parse, scale_down},
};

use crate::text;

/// The first line is the annotation, the second an agent's value: any constraint that is read can be judged.
pub fn constraints(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let (annotation, value) = text.split_once('\n').unwrap_or((text, "rack-1"));
    let Ok(constraints) = parse(annotation) else { return };
    let value = Attribute::text(value);
    for constraint in &constraints {
        let counts = |here| Placed { all: 3, here, groups: 2, smallest: 1, over_share: 1 };
        let unused = constraint.accepts(Some(&value), &counts(0), 3);
        let used = constraint.accepts(Some(&value), &counts(u32::MAX), u32::MAX);
        let gathers = matches!(constraint.operator, Operator::Cluster(None));
        assert!(unused || !used || gathers, "{constraint:?} prefers a value that is in use");
        let running = [("a".to_owned(), u32::MAX), ("b".to_owned(), 1)].into();
        let gone = scale_down(constraint, &running, 3);
        assert!(gone.values().sum::<u32>() <= 3 && gone.keys().all(|name| running.contains_key(name)));
    }
}
