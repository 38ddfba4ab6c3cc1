//! The published schema describes what is printed: all of it, and nothing that is wrong.

use adieu_drill::report::{Fate, Group, MarkKind, Report, SCHEMA};
use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Value, json};

use crate::{behind, jobs, rollout, sample};

fn schema() -> Value {
    serde_json::from_str(SCHEMA).expect("the schema is JSON")
}

struct Validator {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Validator {
    /// Holds the schema against its draft first.
    fn new(schema: Value) -> Self {
        let address = schema["$id"].as_str().expect("an address").to_owned();
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.add_resource(&address, schema).expect("a resource");
        let index = compiler.compile(&address, &mut schemas);
        let index = index.unwrap_or_else(|error| panic!("{error:#}"));
        Self { schemas, index }
    }

    fn complaint(&self, value: &Value) -> Option<String> {
        let held = self.schemas.validate(value, self.index);
        held.err().map(|error| error.to_string())
    }
}

/// Refuses every field that it does not describe.
fn strict(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.values_mut().for_each(strict);
            if fields.contains_key("properties") && fields.get("type") == Some(&json!("object")) {
                fields.insert("additionalProperties".to_owned(), json!(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(strict),
        _ => {}
    }
}

fn reports() -> Vec<Report> {
    vec![
        sample::passing(),
        sample::failing(),
        sample::failing().slim(),
        rollout::sample(),
        behind::sample(),
        jobs::sample(),
    ]
}

fn value(report: &Report) -> Value {
    serde_json::from_str(&report.to_json()).expect("JSON")
}

#[track_caller]
fn fits(validator: &Validator, value: &Value) {
    assert_eq!(validator.complaint(value), None);
}

#[test]
fn every_field_that_is_printed_is_in_the_schema() {
    let mut strict_schema = schema();
    strict(&mut strict_schema);
    // By itself, so that a complaint names the field.
    strict_schema["anyOf"] = json!([{ "$ref": "#/$defs/report" }]);
    let (strict, plain) = (Validator::new(strict_schema), Validator::new(schema()));
    for report in reports() {
        fits(&strict, &value(&report));
        fits(&plain, &value(&report));
    }
    let several = json!({
        "version": 1,
        "verdict": "failed",
        "checks": [],
        "reports": reports().iter().map(value).collect::<Vec<_>>(),
        "errors": [{ "target": "web", "error": "it did not start" }],
    });
    fits(&plain, &several);
}

#[test]
fn what_is_no_report_is_refused() {
    let validator = Validator::new(schema());
    let report = value(&sample::failing());
    let mut wrong = vec![json!({}), json!([]), json!(null)];
    for (field, value) in [
        ("version", json!(2)),
        ("verdict", json!("good")),
        ("seed", json!("7")),
        ("checks", json!([{}])),
        ("target", json!({ "name": "web" })),
        ("duration_ms", json!(-1)),
        ("rollout", json!({})),
    ] {
        let mut changed = report.clone();
        changed[field] = value;
        wrong.push(changed);
    }
    for field in ["version", "verdict", "target", "checks", "definition"] {
        let mut without = report.clone();
        without.as_object_mut().expect("an object").remove(field);
        wrong.push(without);
    }
    for wrong in wrong {
        assert!(validator.complaint(&wrong).is_some(), "{wrong:#}");
    }
}

/// A value that is added to the code is added to the schema.
#[test]
fn the_lists_of_the_schema_are_those_of_the_code() {
    let schema = schema();
    let listed = |path: &str| schema.pointer(path).expect(path).clone();
    let groups: Vec<_> = Group::ALL.iter().map(|group| group.name()).collect();
    assert_eq!(listed("/$defs/check/properties/group/enum"), json!(groups));
    let fates = listed("/$defs/stop/properties/requests/items/properties/fate/enum");
    let mut fates: Vec<Fate> = serde_json::from_value(fates).expect("fates");
    fates.dedup();
    assert_eq!(fates.len(), Fate::ALL.len());
    let kinds = listed("/$defs/stop/properties/marks/items/properties/kind/enum");
    let kinds: Vec<MarkKind> = serde_json::from_value(kinds).expect("kinds");
    assert!(kinds.contains(&MarkKind::Steady));
}
