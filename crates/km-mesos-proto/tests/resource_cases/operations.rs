//! One branch per operation of the cases.

use std::{collections::BTreeMap, fmt::Debug};

use km_mesos_proto::{
    json,
    resources::{Limits, ParsedValue, Quantities, ResourceError, Resources, Scalar, attributes, overlaps, validate},
    v1::{
        self,
        offer::{Operation, operation},
    },
};
use serde_json::{Value, json};

use crate::notation::{number, ranges, resource, resources, scalar};

/// `Err` says what differs in which case.
pub fn run(case: &Value) -> Result<(), String> {
    check(case).map_err(|difference| format!("{} {}: {difference}", case["id"], case["op"]))
}

fn check(case: &Value) -> Result<(), String> {
    let (a, b, expect) = (&case["a"], &case["b"], &case["expect"]);
    let role = b.as_str().unwrap_or_default();
    match case["op"].as_str().unwrap() {
        "parse_value" => outcome(ParsedValue::parse(a.as_str().unwrap()), expect, |value| parsed(&value)),
        "ranges_coalesce" => same(&ranges(a), &ranges(expect)),
        "ranges_insert" => {
            let mut all = ranges(a);
            all.insert(number(&b[0])..=number(&b[1]));
            same(&all, &ranges(expect))
        }
        "ranges_add" => {
            let mut all = ranges(a);
            all.add(&ranges(b));
            same(&all, &ranges(expect))
        }
        "ranges_subtract" => {
            let mut rest = ranges(a);
            rest.subtract(&ranges(b));
            same(&rest, &ranges(expect))
        }
        "set_subtract" => {
            let set = |text: &Value| match text.as_str().unwrap() {
                "{}" => Resources::new(),
                text => resources(&json!(format!("s:{text}"))),
            };
            same(&(set(a) - set(b)), &set(expect))
        }
        "parse_resources" | "parse_resources_json" => {
            parsed_resources(Resources::parse(a.as_str().unwrap(), b.as_str().unwrap_or("*")), expect)
        }
        "equals" => same(&json!(resources(a) == resources(b)), expect),
        "contains" => same(&json!(resources(a).contains(&resources(b))), expect),
        "add" => same(&(resources(a) + resources(b)), &resources(expect)),
        "subtract" => same(&(resources(a) - resources(b)), &resources(expect)),
        "add_chain" => same(&chain(resources(a), b), &resources(expect)),
        "total" => same(&resources(a).get_scalar(role), &(!expect.is_null()).then(|| scalar(expect))),
        "size" => same(&json!(resources(a).len()), expect),
        "count" => same(&json!(resources(a).count(&resource(b))), expect),
        "reserved" if b.is_null() => same(&resources(a).all_reserved(), &resources(expect)),
        "reserved" => same(&resources(a).reserved(role), &resources(expect)),
        "unreserved" => same(&resources(a).unreserved(), &resources(expect)),
        "allocatable_to" => same(&resources(a).allocatable_to(role), &resources(expect)),
        "to_unreserved" => same(&resources(a).to_unreserved(), &resources(expect)),
        "get" => same(&resources(a).get(role), &resources(expect)),
        "names" => same(&json!(resources(a).names()), expect),
        "find" => same(&resources(a).find(&resources(b)), &(!expect.is_null()).then(|| resources(expect))),
        "revocable" => same(&resources(a).revocable(), &resources(expect)),
        "non_revocable" => same(&resources(a).non_revocable(), &resources(expect)),
        "shared" => same(&resources(a).shared(), &resources(expect)),
        "persistent_volumes" => same(&resources(a).persistent_volumes(), &resources(expect)),
        "reservation_ancestor" => {
            let ancestor = resource(&a[0]).reservation_ancestor(&resource(&b[0]));
            same(&Resources::from(ancestor), &resources(expect))
        }
        "contains_quantities" => same(&json!(resources(a).contains_quantities(&quantities(b))), expect),
        "shrink_to_quantities" => same(&resources(a).shrink_to_quantities(&quantities(b)), &resources(expect)),
        "shrink_to_limits" => same(&resources(a).shrink_to_limits(&limits(b)), &resources(expect)),
        "apply" => parsed_resources(resources(a).apply(&operation(b)), expect),
        "validate" => check_validation(a, expect),
        "print" => same(&json!(resources(a).to_string()), expect),
        "overlaps" => {
            let parts: Vec<Resources> = a.as_array().unwrap().iter().map(resources).collect();
            same(&json!(overlaps(&parts)), expect)
        }
        "quantities_parse" => outcome(Quantities::parse(a.as_str().unwrap()), expect, |all| amounts(all.iter())),
        "quantities_of" => same(&amounts(Quantities::of(&resources(a)).iter()), &normal(expect)),
        "quantities_add" => {
            let mut sum = quantities(a);
            sum.add_all(&quantities(b));
            same(&sum, &quantities(expect))
        }
        "quantities_subtract" => {
            let mut rest = quantities(a);
            rest.subtract_all(&quantities(b));
            same(&rest, &quantities(expect))
        }
        "quantities_contains" => same(&json!(quantities(a).contains(&quantities(b))), expect),
        "quantities_print" => same(&json!(quantities(a).to_string()), expect),
        "limits_parse" => outcome(Limits::parse(a.as_str().unwrap()), expect, |all| amounts(all.iter())),
        "limits_contains" => same(&json!(limits(a).contains(&limits(b))), expect),
        "limits_subtract_quantities" => {
            let mut rest = limits(a);
            rest.subtract(&quantities(b));
            same(&rest, &limits(expect))
        }
        "parse_attributes" => {
            let shown = |all: Vec<v1::Attribute>| Value::Array(all.iter().map(attribute).collect());
            outcome(attributes::parse(a.as_str().unwrap()), expect, shown)
        }
        "attributes_equal" => {
            let parse = |text: &Value| attributes::parse(text.as_str().unwrap()).unwrap();
            same(&json!(attributes::same(&parse(a), &parse(b))), expect)
        }
        unknown => Err(format!("the operation {unknown} is unknown")),
    }
}

fn same<T: PartialEq + Debug>(actual: &T, expected: &T) -> Result<(), String> {
    if actual == expected { Ok(()) } else { Err(format!("expected {expected:?}, got {actual:?}")) }
}

fn outcome<T>(result: Result<T, ResourceError>, expect: &Value, show: impl Fn(T) -> Value) -> Result<(), String> {
    match result {
        Ok(value) => same(&normal(&show(value)), &normal(expect)),
        Err(_) if expect == "error" => Ok(()),
        Err(error) => Err(format!("expected {expect}, got the error: {error}")),
    }
}

fn parsed_resources(result: Result<Resources, ResourceError>, expect: &Value) -> Result<(), String> {
    match result {
        Ok(actual) if expect == "error" => Err(format!("expected an error, got {actual}")),
        Ok(actual) => same(&actual, &resources(expect)),
        Err(_) if expect == "error" => Ok(()),
        Err(error) => Err(format!("expected {expect}, got the error: {error}")),
    }
}

fn check_validation(message: &Value, expect: &Value) -> Result<(), String> {
    let result = json::from_value(message).map_err(|error| error.to_string()).and_then(|message| validate(&message));
    match (result, expect.as_str()) {
        (Err(_), Some("error")) => Ok(()),
        (Err(reason), Some(expected)) => same(&reason.as_str(), &expected),
        (result, None) => same(&result, &Ok(())),
        (Ok(()), Some(expected)) => Err(format!("expected '{expected}', got no error")),
    }
}

/// Numbers compare by value: 1 is 1.0.
fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(normal).collect(),
        Value::Object(items) => items.iter().map(|(key, value)| (key.clone(), normal(value))).collect(),
        other => other.clone(),
    }
}

fn parsed(value: &ParsedValue) -> Value {
    match value {
        ParsedValue::Scalar(number) => json!({"type": "SCALAR", "scalar": number}),
        ParsedValue::Ranges(ranges) => {
            let pairs: Vec<_> = ranges.ranges().map(|range| [*range.start(), *range.end()]).collect();
            json!({"type": "RANGES", "ranges": pairs})
        }
        ParsedValue::Set(items) => json!({"type": "SET", "set": items}),
        ParsedValue::Text(text) => json!({"type": "TEXT", "text": text}),
    }
}

fn attribute(attribute: &v1::Attribute) -> Value {
    let value = match (&attribute.scalar, &attribute.ranges, &attribute.text) {
        (Some(scalar), ..) => json!(scalar.value),
        (_, Some(ranges), _) => ranges.range.iter().map(|range| json!([range.begin, range.end])).collect(),
        (.., text) => json!(text.as_ref().map(|text| &text.value)),
    };
    json!([attribute.name, attribute.r#type().as_str_name(), value])
}

fn chain(mut sum: Resources, steps: &Value) -> Resources {
    let operand = resources(&steps["operand"]);
    for _ in 0..number(&steps["repeat"]) {
        for step in steps["steps"].as_array().unwrap() {
            match step.as_str().unwrap() {
                "+" => sum += &operand,
                _ => sum -= &operand,
            }
        }
    }
    for _ in 0..steps["then_minus"].as_u64().unwrap_or(0) {
        sum -= &operand;
    }
    sum
}

fn quantities(text: &Value) -> Quantities {
    Quantities::parse(text.as_str().unwrap()).unwrap()
}

fn limits(text: &Value) -> Limits {
    Limits::parse(text.as_str().unwrap()).unwrap()
}

fn amounts<'a>(items: impl Iterator<Item = (&'a str, Scalar)>) -> Value {
    json!(items.map(|(name, amount)| (name, amount.to_f64())).collect::<BTreeMap<_, _>>())
}

fn operation(description: &Value) -> Operation {
    let resources = resources(&description["resources"]).to_protos();
    let mut operation = Operation::default();
    match description["op"].as_str().unwrap() {
        "RESERVE" => {
            operation.set_type(operation::Type::Reserve);
            operation.reserve = Some(operation::Reserve { resources, source: Vec::new() });
        }
        "UNRESERVE" => {
            operation.set_type(operation::Type::Unreserve);
            operation.unreserve = Some(operation::Unreserve { resources });
        }
        "CREATE" => {
            operation.set_type(operation::Type::Create);
            operation.create = Some(operation::Create { volumes: resources });
        }
        "DESTROY" => {
            operation.set_type(operation::Type::Destroy);
            operation.destroy = Some(operation::Destroy { volumes: resources });
        }
        other => panic!("unknown operation {other}"),
    }
    operation
}
