//! Replays the sorter's call sequences of `data/sorter.json` (M096 to M106, X026, X027).

use km_mesos_core::allocator::sorter::Sorter;
use km_mesos_proto::resources::Quantities;
use serde_json::Value;

fn quantities(text: &str) -> Quantities {
    Quantities::parse(text).expect("quantities")
}

fn text<'a>(step: &'a Value, key: &str) -> &'a str {
    step[key].as_str().unwrap_or_else(|| panic!("{key} missing in {step}"))
}

fn play(sorter: &mut Sorter, step: &Value) -> Result<(), String> {
    if let Some(order) = step.get("expect_order") {
        let expected: Vec<&str> = order.as_array().expect("array").iter().filter_map(Value::as_str).collect();
        let order = sorter.sort();
        return if order == expected { Ok(()) } else { Err(format!("order {order:?} instead of {expected:?}")) };
    }
    if let Some(count) = step.get("expect_count") {
        let clients = sorter.count() as u64;
        return if Some(clients) == count.as_u64() { Ok(()) } else { Err(format!("{clients} clients, not {count}")) };
    }
    if step.get("expect_client").is_some() {
        let known = sorter.contains(text(step, "expect_client"));
        return if Some(known) == step["is"].as_bool() { Ok(()) } else { Err(format!("wrong: {step}")) };
    }
    match text(step, "do") {
        "add_agent" => sorter.add_agent(text(step, "agent"), quantities(text(step, "total"))),
        "remove_agent" => sorter.remove_agent(text(step, "agent")),
        "add" => sorter.add(text(step, "client")),
        "remove" => sorter.remove(text(step, "client")),
        "activate" => sorter.activate(text(step, "client")),
        "deactivate" => sorter.deactivate(text(step, "client")),
        "allocated" => sorter.allocated(text(step, "client"), &quantities(text(step, "resources"))),
        "unallocated" => sorter.unallocated(text(step, "client"), &quantities(text(step, "resources"))),
        "replace" => {
            sorter.replace(text(step, "client"), &quantities(text(step, "old")), &quantities(text(step, "new")));
        }
        "weight" => sorter.set_weight(text(step, "path"), step["weight"].as_f64().expect("number")),
        other => return Err(format!("unknown step {other}")),
    }
    Ok(())
}

#[test]
fn sorter_orders_clients_as_mesos_does() {
    let data: Value = serde_json::from_str(include_str!("data/sorter.json")).expect("data is JSON");
    let cases = data["cases"].as_array().expect("cases");
    let mut failures = Vec::new();
    for case in cases {
        let mut sorter = Sorter::default();
        for (place, step) in case["steps"].as_array().expect("steps").iter().enumerate() {
            if let Err(problem) = play(&mut sorter, step) {
                failures.push(format!("{} step {place}: {problem}", case["id"]));
            }
        }
    }
    assert!(cases.len() >= 15, "data is there");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
