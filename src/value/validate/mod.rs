//! Validation and normalisation of values against types (runtime.md 4).
//!
//! Objects, discriminators and unions are walked by ourselves, so that the errors name fields and types as the author
//! does; limits on single values and the author's own schemas are left to `jsonschema`.

mod form;
mod limits;
mod violation;
mod walk;

use super::output::{Output, OutputKind};
use super::position::{self, Alternative};
use super::schema::some_of;
use super::types::{Shape, TypeId, TypeKind, Types, snake_case};
use limits::Limits;
use serde_json::Value;
use std::sync::{Arc, OnceLock};
use walk::Walk;

pub use form::form_violations;
pub(super) use limits::compile;
pub use violation::Violation;

/// The deepest nesting of a value that is looked at; deeper ones are refused.
pub const VALUE_DEPTH_MAX: usize = 128;

/// Evaluates the `rules` of types, which are exprs and so belong to a higher layer.
pub trait RuleEval {
    /// Whether the expr holds over the fields of the object.
    ///
    /// # Errors
    /// Says why the expr could not be evaluated.
    fn check(&self, expr: &str, object: &Value) -> Result<bool, String>;
}

/// Holds every rule to be true.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRules;

impl RuleEval for NoRules {
    fn check(&self, _expr: &str, _object: &Value) -> Result<bool, String> {
        Ok(true)
    }
}

/// Whether an object in the place of a supertype or union must say what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tags {
    /// It must: the discriminator is required, as in the JSON Schema.
    #[default]
    Required,
    /// It may leave that out where it fits exactly one of the types. For values that the author's own data makes of
    /// objects (`set`, `with`), which may come from places where their type was plain.
    Inferred,
}

/// A value that was validated, in its normal form: keys in declared order, defaults filled in at every level, optional
/// nulls dropped, a discriminator first where a supertype or union was expected and nowhere else.
#[derive(Clone, Debug, PartialEq)]
pub struct Valid {
    /// The value in its normal form.
    pub value: Value,
    /// The concrete type, when a declared type was expected.
    pub type_id: Option<TypeId>,
}

/// The validators of one type table: built when first needed, kept, and shared between threads.
#[derive(Debug)]
pub struct Validators {
    types: Arc<Types>,
    limits: Limits,
    /// By type: what an object expected to be of that type may be; none when only its own values may be there.
    choices: Vec<OnceLock<Option<Vec<TypeId>>>>,
    /// By type: the compiled schema of a type that is the author's own JSON Schema.
    schemas: Vec<OnceLock<Result<jsonschema::Validator, String>>>,
}

impl Validators {
    /// The validators of a table; nothing is compiled yet.
    pub fn new(types: Arc<Types>) -> Validators {
        let count = types.iter().count();
        Validators {
            types,
            limits: Limits::default(),
            choices: (0..count).map(|_| OnceLock::new()).collect(),
            schemas: (0..count).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The table they are of.
    pub fn types(&self) -> &Arc<Types> {
        &self.types
    }

    /// Validates a value against a shape and brings it into normal form.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the value.
    pub fn validate(&self, shape: &Shape, value: Value, rules: &dyn RuleEval) -> Result<Valid, Vec<Violation>> {
        self.validate_with(shape, value, rules, Tags::Required)
    }

    /// [`validate`](Validators::validate) with a choice of what is asked of discriminators.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the value.
    pub fn validate_with(
        &self,
        shape: &Shape,
        value: Value,
        rules: &dyn RuleEval,
        tags: Tags,
    ) -> Result<Valid, Vec<Violation>> {
        refuse_deep(&value)?;
        Walk::new(self, rules, tags).finish(|walk| walk.shape(shape, value))
    }

    /// Validates a value against a declared type.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the value.
    pub fn validate_type(&self, id: TypeId, value: Value, rules: &dyn RuleEval) -> Result<Valid, Vec<Violation>> {
        self.validate(&Shape::named(id), value, rules)
    }

    /// Validates the value of an action's body and splits it into the objects for the blackboard, in order: none where
    /// null means that nothing came.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the value.
    pub fn validate_output(
        &self,
        output: &Output,
        value: Value,
        rules: &dyn RuleEval,
        tags: Tags,
    ) -> Result<Vec<Valid>, Vec<Violation>> {
        refuse_deep(&value)?;
        let one = |id: TypeId, value: Value, at: Place| {
            let mut walk = Walk::new(self, rules, tags);
            match at {
                Place::Root => {}
                Place::Index(index) => walk.enter_index(index),
                Place::Key(key) => walk.enter_key(&key),
            }
            walk.finish(|walk| walk.shape(&Shape::named(id), value))
        };
        let parts: Vec<Result<Valid, Vec<Violation>>> = match (&output.kind, value) {
            (OutputKind::One(id), value) => vec![one(*id, value, Place::Root)],
            (OutputKind::Optional(_) | OutputKind::SomeOf(_), Value::Null) => Vec::new(),
            (OutputKind::Optional(id), value) => vec![one(*id, value, Place::Root)],
            (OutputKind::List(id), Value::Array(items)) => {
                items.into_iter().enumerate().map(|(index, item)| one(*id, item, Place::Index(index))).collect()
            }
            (OutputKind::SomeOf(ids), Value::Object(mut members)) => {
                let came = ids.iter().filter_map(|id| {
                    let key = snake_case(self.types.name(*id));
                    let value = members.shift_remove(&key).filter(|value| !value.is_null())?;
                    Some(one(*id, value, Place::Key(key)))
                });
                let mut parts: Vec<_> = came.collect();
                if !members.values().all(Value::is_null) || members.keys().any(|key| !self.is_member(ids, key)) {
                    // The walk over the whole object says what is wrong with the members that are left.
                    members.retain(|_, value| !value.is_null());
                    let rest = self.validate_with(&some_of(&self.types, ids), Value::Object(members), rules, tags);
                    parts.extend(rest.err().map(Err));
                }
                parts
            }
            (OutputKind::None, _) => Vec::new(),
            (OutputKind::List(_) | OutputKind::SomeOf(_), value) => {
                return self.validate_with(&output.shape(&self.types), value, rules, tags).map(|_| Vec::new());
            }
        };
        let mut objects = Vec::new();
        let mut violations = Vec::new();
        for part in parts {
            match part {
                Ok(valid) => objects.push(valid),
                Err(more) => violations.extend(more),
            }
        }
        if violations.is_empty() { Ok(objects) } else { Err(violations) }
    }

    /// The candidates that a value validates as, in their order (`--input JSON` without a type).
    pub fn matching(&self, candidates: &[TypeId], value: &Value, rules: &dyn RuleEval) -> Vec<TypeId> {
        let fits = |id: &&TypeId| self.validate_type(**id, value.clone(), rules).is_ok();
        candidates.iter().filter(fits).copied().collect()
    }

    fn is_member(&self, ids: &[TypeId], key: &str) -> bool {
        ids.iter().any(|id| snake_case(self.types.name(*id)) == key)
    }

    /// The types that may stand for `id`, or none when only its own values may.
    fn choices(&self, id: TypeId) -> Option<&[TypeId]> {
        let compute = || {
            let alternatives = position::of_type(&self.types, id)?;
            let types = alternatives.iter().filter_map(|alternative| match alternative {
                Alternative::Tagged { id, .. } | Alternative::Type(id) => Some(*id),
                Alternative::Inline(_) => None,
            });
            Some(types.collect())
        };
        self.choices[id.0 as usize].get_or_init(compute).as_deref()
    }

    /// The compiled schema of a type that is the author's own.
    fn schema(&self, id: TypeId) -> Result<&jsonschema::Validator, &String> {
        let compute = || match &self.types.get(id).kind {
            TypeKind::Schema(schema) => compile(schema),
            TypeKind::Object(_) | TypeKind::Alias(_) | TypeKind::Enum(_) | TypeKind::Union(_) => {
                Err(format!("`{}` is not a JSON Schema", self.types.name(id)))
            }
        };
        self.schemas[id.0 as usize].get_or_init(compute).as_ref()
    }
}

/// Where a part of an output stands in the whole.
enum Place {
    Root,
    Index(usize),
    Key(String),
}

fn refuse_deep(value: &Value) -> Result<(), Vec<Violation>> {
    if depth_at_most(value, VALUE_DEPTH_MAX) {
        return Ok(());
    }
    let message = format!("the value is nested deeper than {VALUE_DEPTH_MAX} levels");
    Err(vec![Violation { path: String::new(), place: String::new(), message, expected: None }])
}

/// True when a value is nested at most `most` levels deep; takes no stack for it.
pub fn depth_at_most(value: &Value, most: usize) -> bool {
    let mut left = vec![(value, 1)];
    while let Some((value, depth)) = left.pop() {
        if depth > most + 1 {
            return false;
        }
        match value {
            Value::Array(items) => left.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(map) => left.extend(map.values().map(|item| (item, depth + 1))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    true
}

#[cfg(test)]
mod tests;
