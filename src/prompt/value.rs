//! JSON and minijinja values: typed objects with their computed members, and back to JSON.

use super::templates::Templates;
use super::text;
use crate::value::{Field, ObjectDef, Open, Shape, ShapeKind, TypeId, TypeKind};
use indexmap::IndexMap;
use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use serde_json::{Map, Number, Value as Json};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Values nested deeper than this are refused on the way to JSON or text.
pub(super) const DEPTH_MAX: usize = 128;

/// An object of a declared type as templates see it: its fields, then its `computed` members, evaluated when asked
/// for. An optional field that is null is as absent. It prints as JSON with its fields in declared order.
///
/// The value shares nothing with `json`; make it once per object and clone it.
pub fn object_value(templates: &Arc<Templates>, id: TypeId, json: &Arc<Json>) -> Value {
    named_value(templates, id, json)
}

/// A value of a shape as templates see it; objects of declared types within it are typed.
pub fn shaped_value(templates: &Arc<Templates>, shape: &Shape, json: &Json) -> Value {
    match (&shape.kind, json) {
        (ShapeKind::Named(id), _) => named_value(templates, *id, json),
        (ShapeKind::List(element), Json::Array(items)) => {
            list(items.iter().map(|item| shaped_value(templates, element, item)).collect())
        }
        (ShapeKind::Map(value), Json::Object(map)) => {
            record(map.iter().map(|(key, item)| (key.as_str().into(), shaped_value(templates, value, item))).collect())
        }
        (ShapeKind::Object(object), Json::Object(map)) => object_of(templates, None, object, map),
        (ShapeKind::OneOf(shapes), _) => {
            let named = shapes.iter().find(|shape| fits(templates, shape, json));
            named.map_or_else(|| from_json(json), |shape| shaped_value(templates, shape, json))
        }
        _ => from_json(json),
    }
}

/// Whether the value may be of this alternative, by its discriminator or required fields.
fn fits(templates: &Templates, shape: &Shape, json: &Json) -> bool {
    match (&shape.kind, json) {
        (ShapeKind::Named(id), Json::Object(map)) => match &templates.types().get(*id).kind {
            TypeKind::Object(_) | TypeKind::Union(_) => concrete(templates, *id, map).is_some_and(|(object, _)| {
                object.fields.iter().all(|(name, field)| !field.required || map.contains_key(name))
                    && (object.open != Open::Closed
                        || map.keys().all(|key| object.fields.contains_key(key) || tagged(templates, map, key)))
            }),
            _ => true,
        },
        (ShapeKind::Named(id), Json::Array(_)) => {
            matches!(&templates.types().get(*id).kind, TypeKind::Alias(shape) if fits(templates, shape, json))
        }
        (ShapeKind::List(_), Json::Array(_))
        | (ShapeKind::Map(_) | ShapeKind::Object(_), Json::Object(_))
        | (ShapeKind::Null, Json::Null) => true,
        _ => false,
    }
}

fn tagged(templates: &Templates, map: &Map<String, Json>, key: &str) -> bool {
    map.get(key).and_then(Json::as_str).is_some_and(|name| templates.types().id(name).is_some())
}

fn named_value(templates: &Arc<Templates>, id: TypeId, json: &Json) -> Value {
    let def = templates.types().get(id);
    match (&def.kind, json) {
        (TypeKind::Alias(shape), _) if !matches!(shape.kind, ShapeKind::Named(inner) if inner == id) => {
            shaped_value(templates, shape, json)
        }
        (TypeKind::Object(_) | TypeKind::Union(_), Json::Object(map)) => match concrete(templates, id, map) {
            Some((object, concrete)) => object_of(templates, Some(concrete), object, map),
            None => from_json(json),
        },
        _ => from_json(json),
    }
}

/// The type of an object that is expected to be `id`: what its discriminator says, else `id`.
fn concrete<'t>(templates: &'t Templates, id: TypeId, map: &Map<String, Json>) -> Option<(&'t ObjectDef, TypeId)> {
    let types = templates.types();
    let def = types.get(id);
    let told = map.get(&def.discriminator).and_then(Json::as_str).and_then(|name| types.id(name));
    let told = told.filter(|told| *told != id && types.is_subtype(*told, id));
    for id in told.into_iter().chain([id]) {
        if let TypeKind::Object(object) = &types.get(id).kind {
            return Some((object, id));
        }
    }
    None
}

fn object_of(templates: &Arc<Templates>, id: Option<TypeId>, object: &ObjectDef, map: &Map<String, Json>) -> Value {
    let mut fields: IndexMap<Arc<str>, Value> = IndexMap::with_capacity(map.len());
    let undeclared = map.iter().filter(|(key, _)| !object.fields.contains_key(key.as_str()));
    // A discriminator is written before the fields.
    let extra = match &object.open {
        Open::Of(shape) => Some(shape.as_ref()),
        Open::Closed | Open::Any => None,
    };
    for (key, value) in undeclared {
        let value = extra.map_or_else(|| from_json(value), |shape| shaped_value(templates, shape, value));
        fields.insert(key.as_str().into(), value);
    }
    for (name, Field { shape, required }) in &object.fields {
        match map.get(name) {
            None => {}
            Some(Json::Null) if !required => {}
            Some(value) => {
                fields.insert(name.as_str().into(), shaped_value(templates, shape, value));
            }
        }
    }
    let computed = id.filter(|_| !object.computed.is_empty()).map(|id| (Arc::clone(templates), id));
    Value::from_object(Record { fields, computed })
}

/// Plain JSON as templates see it.
pub fn from_json(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(*value),
        Json::Number(number) => number_value(number),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => list(items.iter().map(from_json).collect()),
        Json::Object(map) => record(map.iter().map(|(key, value)| (key.as_str().into(), from_json(value))).collect()),
    }
}

fn number_value(number: &Number) -> Value {
    if let Some(value) = number.as_i64() {
        Value::from(value)
    } else if let Some(value) = number.as_u64() {
        Value::from(value)
    } else {
        Value::from(number.as_f64().unwrap_or(f64::NAN))
    }
}

fn list(items: Vec<Value>) -> Value {
    Value::from_object(Items(items))
}

fn record(fields: IndexMap<Arc<str>, Value>) -> Value {
    Value::from_object(Record { fields, computed: None })
}

/// A map of variables as one value (`inputs`, `config`), printing as JSON.
pub fn map_value(vars: impl IntoIterator<Item = (String, Value)>) -> Value {
    record(vars.into_iter().map(|(key, value)| (key.into(), value)).collect())
}

/// A list of values as one value, printing as JSON.
pub fn list_value(items: Vec<Value>) -> Value {
    list(items)
}

/// The JSON of a value; computed members are left out.
///
/// # Errors
/// Names what has no JSON: an undefined value, a function, a number that is not finite, a value nested too deep.
pub fn to_json(value: &Value) -> Result<Json, String> {
    json_within(value, 0)
}

fn json_within(value: &Value, depth: usize) -> Result<Json, String> {
    if depth > DEPTH_MAX {
        return Err(format!("the value is nested deeper than {DEPTH_MAX} levels"));
    }
    match value.kind() {
        ValueKind::Undefined => Err("a value in it is undefined".to_owned()),
        ValueKind::None => Ok(Json::Null),
        ValueKind::Bool => Ok(Json::Bool(value.is_true())),
        ValueKind::Number => number_json(value),
        ValueKind::String => Ok(Json::String(value.as_str().unwrap_or_default().to_owned())),
        ValueKind::Bytes => {
            Ok(Json::String(String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned()))
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter().map_err(|error| error.to_string())?;
            items.map(|item| json_within(&item, depth + 1)).collect::<Result<Vec<_>, _>>().map(Json::Array)
        }
        ValueKind::Map => {
            let mut map = Map::new();
            for key in value.try_iter().map_err(|error| error.to_string())? {
                let item = value.get_item(&key).map_err(|error| error.to_string())?;
                map.insert(text::key(&key), json_within(&item, depth + 1)?);
            }
            Ok(Json::Object(map))
        }
        ValueKind::Plain | ValueKind::Invalid => Err("a function has no value".to_owned()),
        _ => Err("it has no JSON".to_owned()),
    }
}

fn number_json(value: &Value) -> Result<Json, String> {
    if value.is_integer() {
        if let Some(number) = value.as_i64() {
            return Ok(Json::from(number));
        }
        if let Ok(number) = u64::try_from(value.clone()) {
            return Ok(Json::from(number));
        }
    }
    let number = f64::try_from(value.clone()).map_err(|error| error.to_string())?;
    Number::from_f64(number).map(Json::Number).ok_or_else(|| format!("`{number}` is not a number in JSON"))
}

/// A list that prints as JSON, also inside `~`.
#[derive(Debug)]
struct Items(Vec<Value>);

impl Object for Items {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_usize()?).cloned()
    }
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }
    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.0.len())
    }
    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write_json(f, &Value::from_dyn_object(Arc::clone(self)), 0).map_err(|_| fmt::Error)
    }
}

/// An object that prints as JSON, with computed members when its type has some.
struct Record {
    fields: IndexMap<Arc<str>, Value>,
    computed: Option<(Arc<Templates>, TypeId)>,
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(&self.fields).finish()
    }
}

impl Object for Record {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }
    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        if let Some(value) = self.fields.get(key) {
            return Some(value.clone());
        }
        let (templates, id) = self.computed.as_ref()?;
        templates.computed(*id, key, &Value::from_dyn_object(Arc::clone(self)))
    }
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.fields.keys().map(|key| Value::from(Arc::clone(key))).collect())
    }
    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.fields.len())
    }
    fn is_true(self: &Arc<Self>) -> bool {
        // An object of a type is there even when it has no field.
        self.computed.is_some() || !self.fields.is_empty()
    }
    fn call_method(self: &Arc<Self>, _: &mut State<'_, '_>, method: &str, _: &[Value]) -> Result<Value, Error> {
        if self.fields.contains_key(method) {
            return Err(Error::new(ErrorKind::InvalidOperation, format!("`{method}` is a field, not a function")));
        }
        // The environment then tries the methods of Python's dict.
        Err(Error::from(ErrorKind::UnknownMethod))
    }
    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<Ordering> {
        let other = other.downcast_ref::<Record>()?;
        let sorted = |record: &Record| {
            let mut fields =
                record.fields.iter().map(|(key, value)| (Arc::clone(key), value.clone())).collect::<Vec<_>>();
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            fields
        };
        Some(sorted(self).cmp(&sorted(other)))
    }
    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write_json(f, &Value::from_dyn_object(Arc::clone(self)), 0).map_err(|_| fmt::Error)
    }
}
