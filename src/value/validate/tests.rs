use super::super::fixture::{animals, fields, integer, object, of_kind, string, subtype};
use super::super::types::{ObjectDef, Open, Rule, ShapeKind, TypeDef};
use super::*;
use serde_json::json;

fn validators(types: Types) -> Validators {
    Validators::new(Arc::new(types))
}

fn normal(validators: &Validators, id: TypeId, value: Value) -> Result<Value, Vec<String>> {
    let valid = validators.validate_type(id, value, &NoRules);
    valid.map(|valid| valid.value).map_err(|violations| violations.iter().map(ToString::to_string).collect())
}

fn stories() -> (Validators, TypeId) {
    let mut types = Types::default();
    let story = object(&mut types, "Story", vec![("title", string()), ("pages?", integer().with("minimum", 1))]);
    let mut tone = string();
    tone.constraints.default = Some(json!("dry"));
    let list = Shape::list(Shape::named(story));
    let report = object(&mut types, "Report", vec![("tone?", tone), ("stories", list)]);
    (validators(types), report)
}

#[test]
fn the_normal_form_has_declared_order_defaults_and_no_optional_nulls() {
    let (validators, report) = stories();
    let value = json!({"stories": [{"pages": null, "title": "a"}, {"pages": 2.0, "title": "b"}]});
    let expected = r#"{"tone":"dry","stories":[{"title":"a"},{"title":"b","pages":2}]}"#;
    assert_eq!(normal(&validators, report, value).map(|value| value.to_string()), Ok(expected.to_owned()));
}

#[test]
fn every_violation_is_reported_with_its_place() {
    let (validators, report) = stories();
    let value = json!({"tone": 3, "stories": [{"titel": "a"}, {"title": "b", "pages": 0}, 7]});
    assert_eq!(
        normal(&validators, report, value),
        Err(vec![
            "`tone`: expected a string, found the number 3".to_owned(),
            "`stories[0]`: missing field `title`, expected string".to_owned(),
            "`stories[0].titel`: unknown field `titel`, did you mean `title`".to_owned(),
            "`stories[1].pages`: expected at least 1, found the number 0".to_owned(),
            "`stories[2]`: expected `Story` (an object), found the number 7".to_owned(),
        ])
    );
    let violations = validators.validate_type(report, json!({"stories": [{}]}), &NoRules).err().unwrap_or_default();
    assert_eq!(violations.first().map(|violation| violation.path.as_str()), Some("/stories/0"));
}

#[test]
fn a_polymorphic_object_goes_by_its_discriminator() {
    let mut types = Types::default();
    let (animal, frog, _) = animals(&mut types);
    let validators = validators(types);
    let valid = validators.validate_type(animal, json!({"name": "Kermit", "type": "Frog"}), &NoRules);
    let valid = valid.map(|valid| (valid.value.to_string(), valid.type_id));
    assert_eq!(valid, Ok((r#"{"type":"Frog","name":"Kermit"}"#.to_owned(), Some(frog))));
    assert_eq!(
        normal(&validators, animal, json!({"type": "Foog", "name": "x"})),
        Err(vec!["`type`: `type` is `Foog`, expected one of `Frog`, `Dog`, did you mean `Frog`".to_owned()])
    );
    assert_eq!(
        normal(&validators, animal, json!({"name": "x"})),
        Err(vec!["missing field `type`, expected one of `Frog`, `Dog`".to_owned()])
    );
    assert_eq!(
        normal(&validators, animal, json!({"type": "Dog", "name": "x", "jumps": 1})),
        Err(vec!["`jumps`: unknown field `jumps`, expected `name`, `barks`, `type`".to_owned()])
    );
    assert_eq!(
        normal(&validators, animal, json!("Frog")),
        Err(vec!["expected `Animal` (an object), found the string \"Frog\"".to_owned()])
    );
}

#[test]
fn a_discriminator_that_is_not_asked_for_is_dropped() {
    let mut types = Types::default();
    let (_, frog, _) = animals(&mut types);
    let validators = validators(types);
    assert_eq!(normal(&validators, frog, json!({"type": "Frog", "name": "x"})), Ok(json!({"name": "x"})));
    assert!(normal(&validators, frog, json!({"type": "Dog", "name": "x"})).is_err());
}

#[test]
fn a_missing_discriminator_is_inferred_only_where_that_is_allowed_and_clear() {
    let mut types = Types::default();
    let (animal, frog, _) = animals(&mut types);
    let validators = validators(types);
    let infer = |value: Value| {
        let valid = validators.validate_with(&Shape::named(animal), value, &NoRules, Tags::Inferred);
        valid.ok().map(|valid| (valid.value, valid.type_id))
    };
    let made = infer(json!({"name": "x", "jumps": 2}));
    assert_eq!(made, Some((json!({"type": "Frog", "name": "x", "jumps": 2}), Some(frog))));
    assert_eq!(infer(json!({"name": "x"})), None);
}

#[test]
fn abstract_types_without_subtypes_say_so() {
    let mut types = Types::default();
    let intent = types.insert(TypeDef { is_abstract: true, ..TypeDef::object("Intent", ObjectDef::default()) });
    let message = "`Intent` is abstract and has no subtype that a value could be of".to_owned();
    assert_eq!(normal(&validators(types), intent, json!({})), Err(vec![message]));
}

struct Never;

impl RuleEval for Never {
    fn check(&self, expr: &str, object: &Value) -> Result<bool, String> {
        if expr == "broken" { Err("no such thing".to_owned()) } else { Ok(object.get("ok") == Some(&json!(true))) }
    }
}

#[test]
fn rules_are_checked_on_objects_that_fit_at_every_level() {
    let mut types = Types::default();
    let mut part = fields(vec![("ok?", Shape::new(ShapeKind::Boolean))]);
    part.rules = vec![Rule { check: "ok".to_owned(), message: Some("must be ok".to_owned()) }];
    let part = types.insert(TypeDef::object("Part", part));
    let mut whole = fields(vec![("part", Shape::named(part))]);
    whole.rules = vec![Rule { check: "broken".to_owned(), message: None }];
    let whole = types.insert(TypeDef::object("Whole", whole));
    let validators = validators(types);
    let errors = |value: Value| {
        let errors = validators.validate_type(whole, value, &Never).err().unwrap_or_default();
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(errors(json!({"part": {"ok": false}})), ["`part`: must be ok"]);
    assert_eq!(errors(json!({"part": {"ok": true}})), ["the rule `broken` could not be checked: no such thing"]);
    assert_eq!(errors(json!({"part": 1})).len(), 1);
}

#[test]
fn alternatives_are_tried_and_the_nearest_complains() {
    let mut types = Types::default();
    let story = object(&mut types, "Story", vec![("title", string())]);
    let null = Shape::new(ShapeKind::Null);
    let nullable = Shape::new(ShapeKind::OneOf(vec![Shape::named(story), null]));
    let either = Shape::new(ShapeKind::OneOf(vec![string().with("minLength", 3), integer()]));
    let validators = validators(types);
    let errors = |shape: &Shape, value: Value| {
        let errors = validators.validate(shape, value, &NoRules).err().unwrap_or_default();
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(errors(&nullable, json!(null)).is_empty());
    assert_eq!(errors(&nullable, json!({})), ["missing field `title`, expected string"]);
    assert_eq!(errors(&either, json!("ab")), ["expected at least 3 characters, found 2"]);
    assert_eq!(errors(&either, json!(true)), ["expected string or integer, found true"]);
}

#[test]
fn enums_formats_and_authors_schemas_complain_in_words() {
    let mut types = Types::default();
    let priority = of_kind(&mut types, "Priority", TypeKind::Enum(vec![json!("low"), json!("high")]));
    let raw = json!({"type": "object", "properties": {"a": {"items": {"type": "integer"}}}, "required": ["b"]});
    let invoice = of_kind(&mut types, "Invoice", TypeKind::Schema(raw));
    let day = of_kind(&mut types, "Day", TypeKind::Alias(Shape::new(ShapeKind::Date)));
    let validators = validators(types);
    assert_eq!(
        normal(&validators, priority, json!("hihg")),
        Err(vec!["expected one of `low`, `high`, found the string \"hihg\", did you mean `high`".to_owned()])
    );
    assert_eq!(
        normal(&validators, day, json!("31.1.2026")),
        Err(vec!["expected a date such as `2026-01-31`, found the string \"31.1.2026\"".to_owned()])
    );
    let errors = normal(&validators, invoice, json!({"a": [1, "x"]})).err().unwrap_or_default();
    assert!(errors.contains(&"missing field `b`".to_owned()), "{errors:?}");
    assert!(errors.iter().any(|error| error.starts_with("`a[1]`: ")), "{errors:?}");
}

#[test]
fn outputs_are_split_into_objects() {
    let mut types = Types::default();
    let (animal, frog, dog) = animals(&mut types);
    let validators = validators(types);
    let split = |kind: OutputKind, value: Value| {
        let objects = validators.validate_output(&Output::new(kind), value, &NoRules, Tags::Required);
        objects
            .map(|objects| objects.into_iter().filter_map(|valid| valid.type_id).collect::<Vec<_>>())
            .map_err(|violations| violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    };
    let two = json!([{"type": "Dog", "name": "a"}, {"type": "Frog", "name": "b"}]);
    assert_eq!(split(OutputKind::List(animal), two), Ok(vec![dog, frog]));
    assert_eq!(split(OutputKind::Optional(frog), Value::Null), Ok(vec![]));
    assert!(split(OutputKind::One(frog), Value::Null).is_err());
    let some = || OutputKind::SomeOf(vec![frog, dog]);
    assert_eq!(split(some(), json!({"dog": {"name": "a"}, "frog": null})), Ok(vec![dog]));
    assert_eq!(split(some(), Value::Null), Ok(vec![]));
    assert_eq!(split(some(), json!({"dog": {}})), Err("`dog`: missing field `name`, expected string".to_owned()));
    assert_eq!(
        split(some(), json!({"dgo": {"name": "a"}})),
        Err("`dgo`: unknown field `dgo`, did you mean `dog`".to_owned())
    );
    assert_eq!(
        split(OutputKind::List(frog), json!([{"name": "a"}, {"name": 1}])),
        Err("`[1].name`: expected a string, found the number 1".to_owned())
    );
}

#[test]
fn input_without_a_type_goes_to_what_it_validates_as() {
    let mut types = Types::default();
    let (_, frog, dog) = animals(&mut types);
    let validators = validators(types);
    assert_eq!(validators.matching(&[frog, dog], &json!({"name": "x", "barks": true}), &NoRules), [dog]);
    assert_eq!(validators.matching(&[frog, dog], &json!({"name": "x"}), &NoRules), [frog, dog]);
}

#[test]
fn deep_values_and_endless_defaults_are_bounded() {
    let mut types = Types::default();
    let node = object(&mut types, "Node", vec![]);
    let mut child = Shape::named(node);
    child.constraints.default = Some(json!({}));
    object(&mut types, "Node", vec![("left?", child.clone()), ("right?", child), ("any?", Shape::new(ShapeKind::Any))]);
    let validators = validators(types);
    let mut deep = json!(1);
    for _ in 0..VALUE_DEPTH_MAX {
        deep = json!([deep]);
    }
    assert!(depth_at_most(&deep, VALUE_DEPTH_MAX));
    assert!(normal(&validators, node, json!({ "any": deep })).is_err());
    // Defaults without end are a mistake of the author that must not hang.
    let _ = normal(&validators, node, json!({}));
}

#[test]
fn the_deepest_value_that_is_looked_at_fits_the_stack() {
    let mut types = Types::default();
    let (animal, frog, _) = animals(&mut types);
    let either = Shape::new(ShapeKind::OneOf(vec![Shape::named(animal), string()]));
    subtype(&mut types, "Frog", animal, vec![("eats?", Shape::list(either))]);
    let validators = validators(types);
    let mut value = json!({"type": "Frog"});
    for _ in 0..VALUE_DEPTH_MAX / 2 - 1 {
        value = json!({"type": "Frog", "eats": [value]});
    }
    let valid = validators.validate_type(animal, value, &NoRules);
    assert_eq!(valid.map(|valid| valid.type_id), Ok(Some(frog)));
}

#[test]
fn open_objects_take_further_members() {
    let mut types = Types::default();
    let mut open = fields(vec![("a", string())]);
    open.open = Open::Of(Box::new(integer()));
    let open = types.insert(TypeDef::object("Bag", open));
    let sub = subtype(&mut types, "SubBag", open, vec![("a", string())]);
    let validators = validators(types);
    let wrong = normal(&validators, open, json!({"type": "Bag", "a": "x", "b": "y"}));
    assert_eq!(wrong, Err(vec!["`b`: expected an integer, found the string \"y\"".to_owned()]));
    assert_eq!(normal(&validators, sub, json!({"type": "SubBag", "a": "x"})), Ok(json!({"a": "x"})));
}

#[test]
fn limits_are_compiled_once() {
    let (validators, report) = stories();
    for pages in 1..50 {
        assert!(normal(&validators, report, json!({"stories": [{"title": "a", "pages": pages}]})).is_ok());
    }
    assert_eq!(validators.limits.len(), 1);
}

#[test]
fn validators_are_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Validators>();
}
