//! Properties of generated type tables: schema, validation and samples agree with each other.

use super::fixture::{fields, integer, string};
use super::types::{Field, ObjectDef, Open, Shape, ShapeKind, TypeDef, TypeId, TypeKind, Types};
use super::{NoRules, Validators, member, sample, schema_of, view};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

const TYPES: u32 = 5;

fn leaf() -> impl Strategy<Value = Shape> {
    let kind = |kind: ShapeKind| Just(Shape::new(kind));
    prop_oneof![
        Just(string()),
        (0..4_u64, 4..30_u64).prop_map(|(least, most)| string().with("minLength", least).with("maxLength", most)),
        prop_oneof![Just("^[a-c]{2,4}-\\d+$"), Just("x|yz"), Just("^(ab)+[^q]$")]
            .prop_map(|pattern| string().with("pattern", pattern)),
        Just(integer()),
        (-5..5_i64, 0..9_i64).prop_map(|(least, more)| integer().with("minimum", least).with("maximum", least + more)),
        (1..5_i64).prop_map(|step| integer().with("multipleOf", step)),
        Just(Shape::new(ShapeKind::Number).with("exclusiveMinimum", 0).with("maximum", 1)),
        kind(ShapeKind::Boolean),
        kind(ShapeKind::Any),
        kind(ShapeKind::Null),
        kind(ShapeKind::Date),
        kind(ShapeKind::DateTime),
        kind(ShapeKind::Uri),
        kind(ShapeKind::Email),
        kind(ShapeKind::Enum(vec![json!("a"), json!("b"), json!(3)])),
        (0..TYPES).prop_map(|id| Shape::named(TypeId(id))),
    ]
}

fn shape() -> impl Strategy<Value = Shape> {
    leaf().prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(Shape::list),
            (inner.clone(), 0..3_u64).prop_map(|(element, least)| Shape::list(element).with("minItems", least)),
            inner.clone().prop_map(|element| Shape::new(ShapeKind::Map(Box::new(element)))),
            prop::collection::vec(inner.clone(), 1..4).prop_map(|shapes| Shape::new(ShapeKind::OneOf(shapes))),
            object(inner).prop_map(|object| Shape::new(ShapeKind::Object(Box::new(object)))),
        ]
    })
}

fn object(inner: impl Strategy<Value = Shape> + Clone) -> impl Strategy<Value = ObjectDef> {
    let field = (inner.clone(), any::<bool>()).prop_map(|(shape, required)| Field { shape, required });
    let open = prop_oneof![3 => Just(Open::Closed), 1 => Just(Open::Any), 1 => inner.prop_map(|shape| Open::Of(Box::new(shape)))];
    (prop::collection::btree_map("[a-e]", field, 0..4), open).prop_map(|(fields, open)| ObjectDef {
        fields: fields.into_iter().collect(),
        open,
        ..ObjectDef::default()
    })
}

fn kind() -> impl Strategy<Value = TypeKind> {
    prop_oneof![
        6 => object(shape().boxed()).prop_map(TypeKind::Object),
        1 => Just(TypeKind::Alias(string().with("minLength", 2))),
        1 => shape().prop_map(|shape| TypeKind::Alias(Shape::list(shape))),
        1 => Just(TypeKind::Enum(vec![json!("low"), json!("high")])),
        1 => prop::collection::btree_set(0..TYPES, 1..3).prop_map(|ids| TypeKind::Union(ids.into_iter().map(TypeId).collect())),
        1 => Just(TypeKind::Schema(json!({
            "type": "object",
            "properties": {"n": {"$ref": "#/$defs/n"}},
            "required": ["n"],
            "$defs": {"n": {"type": "integer", "minimum": 2}},
        }))),
    ]
}

fn types() -> impl Strategy<Value = Types> {
    let one = (kind(), prop::option::of(0..TYPES), any::<bool>());
    prop::collection::vec(one, TYPES as usize).prop_map(|defs| {
        let mut types = Types::default();
        for (index, (kind, sup, is_abstract)) in defs.into_iter().enumerate() {
            let is_object = matches!(kind, TypeKind::Object(_));
            let sup = sup.filter(|sup| (*sup as usize) < index && is_object).map(TypeId);
            types.insert(TypeDef {
                supertypes: sup.into_iter().collect(),
                is_abstract: is_abstract && is_object && index == 0,
                kind,
                ..TypeDef::object(&format!("T{index}"), ObjectDef::default())
            });
        }
        types
    })
}

/// Replaces, removes or adds something at the place that `pick` leads to.
fn mutate(value: &mut Value, pick: &mut impl Iterator<Item = usize>, new: &Value) {
    let next = pick.next().unwrap_or(0);
    match value {
        Value::Array(items) if !items.is_empty() && !next.is_multiple_of(4) => {
            let index = next % items.len();
            mutate(&mut items[index], pick, new);
        }
        Value::Object(map) if !map.is_empty() && !next.is_multiple_of(4) => {
            let key = map.keys().nth(next % map.len()).cloned().unwrap_or_default();
            match next % 3 {
                0 => drop(map.shift_remove(&key)),
                1 => drop(map.insert("zz".to_owned(), new.clone())),
                _ => mutate(map.entry(key).or_insert(Value::Null), pick, new),
            }
        }
        other => *other = new.clone(),
    }
}

fn news() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        Just(json!(1.5)),
        Just(json!(7)),
        Just(json!(2.0)),
        Just(json!("")),
        Just(json!("abcdef")),
        Just(json!("a")),
        Just(json!("T3")),
        Just(json!([])),
        Just(json!({})),
        Just(json!([null, 1])),
        Just(json!(true)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn samples_validate_and_normal_forms_stay(types in types(), shape in shape()) {
        let validators = Validators::new(Arc::new(types));
        let schema = schema_of(validators.types(), &shape);
        match sample(&validators, &shape) {
            Ok(value) => {
                let again = validators.validate(&shape, value.clone(), &NoRules).map(|valid| valid.value);
                prop_assert_eq!(again.map(|again| again.to_string()), Ok(value.to_string()));
                let oracle = jsonschema::validator_for(&schema).map_err(|error| TestCaseError::fail(error.to_string()))?;
                prop_assert!(oracle.is_valid(&value), "{value} against {schema}");
            }
            Err(error) => prop_assert!(
                ["without end", "abstract", "no value is"].iter().any(|why| error.contains(why)), "{}", error
            ),
        }
    }

    #[test]
    fn the_schema_accepts_what_validation_accepts(
        types in types(),
        shape in shape(),
        picks in prop::collection::vec(prop::collection::vec(0..50_usize, 6), 8),
        new in news(),
    ) {
        let validators = Validators::new(Arc::new(types));
        let schema = schema_of(validators.types(), &shape);
        let oracle = super::validate::compile(&schema).map_err(TestCaseError::fail)?;
        let Ok(value) = sample(&validators, &shape) else { return Ok(()) };
        for pick in picks {
            let mut mutant = value.clone();
            mutate(&mut mutant, &mut pick.into_iter(), &new);
            let ours = validators.validate(&shape, mutant.clone(), &NoRules);
            prop_assert_eq!(ours.is_ok(), oracle.is_valid(&mutant), "{} against {}: {:?}", mutant, schema, ours);
            if let Ok(valid) = ours {
                let again = validators.validate(&shape, valid.value.clone(), &NoRules).map(|valid| valid.value);
                prop_assert_eq!(again, Ok(valid.value));
            }
        }
    }

    #[test]
    fn views_and_members_never_fail(types in types(), shape in shape()) {
        let seen = view(&schema_of(&types, &shape));
        for name in ["a", "type", "zz"] {
            let _ = (member(&types, &seen, name), member(&types, &shape, name));
        }
    }
}

#[test]
fn a_view_of_a_lowered_object_has_its_fields() {
    let shape = Shape::new(ShapeKind::Object(Box::new(fields(vec![("a", string()), ("b", Shape::list(integer()))]))));
    assert_eq!(view(&schema_of(&Types::default(), &shape)), shape);
}
