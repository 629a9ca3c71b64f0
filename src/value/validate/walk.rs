//! The walk over a value along its shape: it checks and normalises in one pass and collects every violation.

use super::super::describe::{describe, values_text};
use super::super::output::has_field;
use super::super::position::{Alternative, DISCRIMINATOR, alternatives, carries_tag};
use super::super::types::{Field, ObjectDef, Open, Shape, ShapeKind, TypeId, TypeKind};
use super::violation::{Step, complaint, format_name, found, place, pointer, steps};
use super::{RuleEval, Tags, Valid, Validators, Violation, limits};
use crate::diag::suggest::did_you_mean;
use serde_json::{Map, Value};

/// The deepest nesting of shapes: values are at most 128 deep, the rest is for names of names.
const SHAPE_DEPTH_MAX: usize = 200;
/// The most defaults that one value may have filled in.
const DEFAULTS_MAX: usize = 10_000;
/// The most steps inside alternatives of alternatives, which may be tried again and again.
const TRIES_MAX: usize = 1_000_000;

/// One walk. Its functions return the value in normal form; what they return after a violation means nothing.
pub(super) struct Walk<'a> {
    validators: &'a Validators,
    rules: &'a dyn RuleEval,
    tags: Tags,
    path: Vec<Step>,
    violations: Vec<Violation>,
    /// The concrete type of the value that was walked last, when it is of a declared type.
    concrete: Option<TypeId>,
    depth: usize,
    defaults: usize,
    trying: usize,
    tries: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(validators: &'a Validators, rules: &'a dyn RuleEval, tags: Tags) -> Walk<'a> {
        Walk {
            validators,
            rules,
            tags,
            path: Vec::new(),
            violations: Vec::new(),
            concrete: None,
            depth: 0,
            defaults: 0,
            trying: 0,
            tries: 0,
        }
    }

    pub(super) fn enter_index(&mut self, index: usize) {
        self.path.push(Step::Index(index));
    }

    pub(super) fn enter_key(&mut self, key: &str) {
        self.path.push(Step::Key(key.to_owned()));
    }

    /// Runs the walk and gives its outcome.
    pub(super) fn finish(mut self, walk: impl FnOnce(&mut Self) -> Value) -> Result<Valid, Vec<Violation>> {
        let value = walk(&mut self);
        if self.violations.is_empty() { Ok(Valid { value, type_id: self.concrete }) } else { Err(self.violations) }
    }

    /// Walks a value along a shape.
    pub(super) fn shape(&mut self, shape: &Shape, value: Value) -> Value {
        self.concrete = None;
        if self.depth >= SHAPE_DEPTH_MAX || self.tries > TRIES_MAX {
            self.wrong("the value is too deeply nested or too ambiguous to be checked".to_owned(), None);
            return value;
        }
        self.tries += usize::from(self.trying > 1);
        self.depth += 1;
        let limits = self.limits(shape, &value);
        let before = self.violations.len();
        let value = self.kind(shape, value);
        if self.violations.len() == before {
            self.violations.extend(limits);
        }
        self.depth -= 1;
        value
    }

    fn kind(&mut self, shape: &Shape, value: Value) -> Value {
        match &shape.kind {
            ShapeKind::Any => value,
            ShapeKind::Null => self.simple(shape, value.is_null(), value),
            ShapeKind::String => self.simple(shape, value.is_string(), value),
            ShapeKind::Integer => self.integer(shape, value),
            ShapeKind::Number => self.simple(shape, value.is_number(), value),
            ShapeKind::Boolean => self.simple(shape, value.is_boolean(), value),
            ShapeKind::Date => self.format(shape, "date", value),
            ShapeKind::DateTime => self.format(shape, "date-time", value),
            ShapeKind::Uri => self.format(shape, "uri", value),
            ShapeKind::Email => self.format(shape, "email", value),
            ShapeKind::Named(id) => self.named(*id, value),
            ShapeKind::List(element) => self.list(shape, element, value),
            ShapeKind::Map(element) => self.map(shape, element, value),
            ShapeKind::Enum(values) => self.enumeration(values, value),
            ShapeKind::OneOf(_) => {
                let types = &self.validators.types;
                self.choice(shape, &alternatives(types, &shape.kind).unwrap_or_default(), value)
            }
            ShapeKind::Object(object) => self.object(shape, object, None, value),
        }
    }

    fn limits(&self, shape: &Shape, value: &Value) -> Vec<Violation> {
        let keywords = &shape.constraints.keywords;
        if keywords.is_empty() {
            return Vec::new();
        }
        match self.validators.limits.get(keywords) {
            None => Vec::new(),
            Some(Ok(validator)) => self.complaints(&validator, value),
            Some(Err(error)) => vec![self.violation(format!("the limits of the type cannot be used: {error}"), None)],
        }
    }

    fn complaints(&self, validator: &jsonschema::Validator, value: &Value) -> Vec<Violation> {
        if validator.is_valid(value) {
            return Vec::new();
        }
        let of = |error: jsonschema::ValidationError<'_>| {
            let mut path = self.path.clone();
            path.extend(steps(&error));
            Violation { path: pointer(&path), place: place(&path), message: complaint(&error), expected: None }
        };
        validator.iter_errors(value).map(of).collect()
    }

    fn simple(&mut self, shape: &Shape, fits: bool, value: Value) -> Value {
        if !fits {
            self.mismatch(shape, &value);
        }
        value
    }

    fn integer(&mut self, shape: &Shape, value: Value) -> Value {
        if value.is_i64() || value.is_u64() {
            return value;
        }
        // JSON Schema counts 3.0 among the integers; 2^53 is where floats stop telling integers apart.
        match value.as_f64() {
            Some(float) if float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0 => Value::from(float as i64),
            Some(float) if float.fract() == 0.0 => value,
            _ => self.simple(shape, false, value),
        }
    }

    fn format(&mut self, shape: &Shape, format: &str, value: Value) -> Value {
        if !value.is_string() {
            self.mismatch(shape, &value);
        } else if limits::format(format).is_some_and(|validator| !validator.is_valid(&value)) {
            let message = format!("expected {}, found {}", format_name(format), found(&value));
            self.wrong(message, Some(describe(&self.validators.types, shape)));
        }
        value
    }

    fn list(&mut self, shape: &Shape, element: &Shape, value: Value) -> Value {
        let Value::Array(items) = value else {
            self.mismatch(shape, &value);
            return value;
        };
        let walked = items.into_iter().enumerate().map(|(index, item)| {
            self.path.push(Step::Index(index));
            let item = self.shape(element, item);
            self.path.pop();
            item
        });
        let walked = Value::Array(walked.collect());
        self.concrete = None;
        walked
    }

    fn map(&mut self, shape: &Shape, element: &Shape, value: Value) -> Value {
        let Value::Object(members) = value else {
            self.mismatch(shape, &value);
            return value;
        };
        let walked = members.into_iter().map(|(key, item)| {
            let item = self.member(&key, element, item);
            (key, item)
        });
        let walked = Value::Object(walked.collect());
        self.concrete = None;
        walked
    }

    fn member(&mut self, key: &str, shape: &Shape, value: Value) -> Value {
        self.path.push(Step::Key(key.to_owned()));
        let value = self.shape(shape, value);
        self.path.pop();
        value
    }

    fn enumeration(&mut self, values: &[Value], value: Value) -> Value {
        if let Some(known) = values.iter().find(|known| same(known, &value)) {
            return known.clone();
        }
        let names = values.iter().filter_map(Value::as_str);
        let hint = value.as_str().and_then(|text| did_you_mean(text, names));
        let message = format!("expected one of {}, found {}", values_text(values), found(&value));
        self.wrong(with_hint(message, hint), Some(format!("one of {}", values_text(values))));
        value
    }

    fn named(&mut self, id: TypeId, value: Value) -> Value {
        let validators = self.validators;
        let Some(choices) = validators.choices(id) else { return self.own(id, None, value) };
        let types = &validators.types;
        let discriminator = types.get(id).discriminator.as_str();
        let alternatives: Vec<Alternative> = choices
            .iter()
            .map(|&id| match carries_tag(types.get(id)) {
                true => Alternative::Tagged { discriminator, id },
                false => Alternative::Type(id),
            })
            .collect();
        self.choice(&Shape::named(id), &alternatives, value)
    }

    /// A value of the type itself, subtypes apart.
    fn own(&mut self, id: TypeId, tag: Option<&str>, value: Value) -> Value {
        let validators = self.validators;
        let def = validators.types.get(id);
        let value = match &def.kind {
            TypeKind::Object(object) => self.object(&Shape::named(id), object, Some(Own { id, tag }), value),
            TypeKind::Alias(shape) => self.shape(shape, value),
            TypeKind::Enum(values) => self.enumeration(values, value),
            TypeKind::Schema(_) => self.own_schema(id, tag, value),
            TypeKind::Union(_) => {
                self.wrong(format!("no value is a `{}`", def.name), None);
                value
            }
        };
        self.concrete = Some(id);
        value
    }

    fn own_schema(&mut self, id: TypeId, tag: Option<&str>, mut value: Value) -> Value {
        let validators = self.validators;
        let mut tagged = Map::new();
        if let (Some(member), Value::Object(map)) = (tag, &mut value) {
            tagged.extend(map.shift_remove_entry(member));
        }
        match validators.schema(id) {
            Ok(validator) => {
                let complaints = self.complaints(validator, &value);
                self.violations.extend(complaints);
            }
            Err(error) => {
                let name = validators.types.name(id);
                self.wrong(format!("the schema of `{name}` cannot be used: {error}"), None);
            }
        }
        match value {
            Value::Object(map) if !tagged.is_empty() => {
                tagged.extend(map);
                Value::Object(tagged)
            }
            other => other,
        }
    }

    fn object(&mut self, shape: &Shape, object: &ObjectDef, own: Option<Own<'_>>, value: Value) -> Value {
        let Value::Object(mut members) = value else {
            self.mismatch(shape, &value);
            return value;
        };
        let before = self.violations.len();
        let mut normal = Map::new();
        if let Some(Own { tag: Some(tag), .. }) = own {
            normal.extend(members.shift_remove_entry(tag));
        }
        for (name, field) in &object.fields {
            let found = members.shift_remove(name);
            if let Some(value) = self.field(name, field, found) {
                normal.insert(name.clone(), value);
            }
        }
        for (name, value) in members {
            if let Some(value) = self.further(object, own, &name, value) {
                normal.insert(name, value);
            }
        }
        let normal = Value::Object(normal);
        if self.violations.len() == before {
            self.rules(object, &normal);
        }
        self.concrete = None;
        normal
    }

    /// A declared field, or none where it is absent and may be.
    fn field(&mut self, name: &str, field: &Field, value: Option<Value>) -> Option<Value> {
        let default = &field.shape.constraints.default;
        match value {
            Some(Value::Null) if !field.required => {}
            Some(value) => return Some(self.member(name, &field.shape, value)),
            None => {}
        }
        if let Some(default) = default {
            return self.default(name, &field.shape, default);
        }
        if field.required {
            let expected = describe(&self.validators.types, &field.shape);
            self.wrong(format!("missing field `{name}`, expected {expected}"), Some(expected));
        }
        None
    }

    /// A default in normal form, so that defaults within it are filled in too.
    fn default(&mut self, name: &str, shape: &Shape, default: &Value) -> Option<Value> {
        self.defaults += 1;
        if self.defaults > DEFAULTS_MAX {
            return None;
        }
        let walked = self.attempt(|walk| walk.member(name, shape, default.clone()));
        Some(walked.unwrap_or_else(|_| default.clone()))
    }

    /// A member that is not a declared field, or none where it is to be left out.
    fn further(&mut self, object: &ObjectDef, own: Option<Own<'_>>, name: &str, value: Value) -> Option<Value> {
        if own.is_some_and(|own| self.is_stray_tag(own.id, name, &value, object.open == Open::Closed)) {
            return None;
        }
        match &object.open {
            Open::Any => Some(value),
            Open::Of(shape) => Some(self.member(name, shape, value)),
            Open::Closed => {
                let mut known: Vec<&str> = object.fields.keys().map(String::as_str).collect();
                let hint = did_you_mean(name, known.iter().copied());
                known.extend(own.and_then(|own| own.tag));
                let known = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                let message = match (hint, known.is_empty()) {
                    (hint @ Some(_), _) => with_hint(format!("unknown field `{name}`"), hint),
                    (None, true) => format!("unknown field `{name}`, expected no fields"),
                    (None, false) => format!("unknown field `{name}`, expected {known}"),
                };
                self.path.push(Step::Key(name.to_owned()));
                self.wrong(message, (!known.is_empty()).then_some(known));
                self.path.pop();
                None
            }
        }
    }

    /// True for a discriminator that an object brought from a place where a supertype or union was expected.
    fn is_stray_tag(&self, id: TypeId, name: &str, value: &Value, closed: bool) -> bool {
        let types = &self.validators.types;
        let is_its_name = value.as_str() == Some(types.name(id)) && !has_field(types, id, name);
        let is_tag = |id: TypeId| types.get(id).discriminator == name;
        is_its_name && ((closed && name == DISCRIMINATOR) || is_tag(id) || types.supertypes(id).into_iter().any(is_tag))
    }

    fn rules(&mut self, object: &ObjectDef, value: &Value) {
        for rule in &object.rules {
            let message = match self.rules.check(&rule.check, value) {
                Ok(true) => continue,
                Ok(false) => match &rule.message {
                    Some(message) => message.clone(),
                    None => format!("the rule `{}` does not hold", rule.check),
                },
                Err(error) => format!("the rule `{}` could not be checked: {error}", rule.check),
            };
            self.wrong(message, Some(rule.check.clone()));
        }
    }

    fn choice(&mut self, shape: &Shape, alternatives: &[Alternative<'_>], value: Value) -> Value {
        let said = value.as_object().and_then(|map| self.tagged(alternatives, map));
        let mut of_said = None;
        if let Some((tag, id)) = said {
            if alternatives.iter().all(|alternative| matches!(alternative, Alternative::Tagged { .. })) {
                return self.own(id, Some(tag), value);
            }
            match self.attempt(|walk| walk.own(id, Some(tag), value.clone())) {
                Ok(value) => return value,
                Err(violations) => of_said = Some(violations),
            }
        }
        let untagged: Vec<&Alternative> =
            alternatives.iter().filter(|alternative| !matches!(alternative, Alternative::Tagged { .. })).collect();
        let mut complaints = Vec::new();
        for alternative in &untagged {
            let outcome = self.attempt(|walk| match alternative {
                Alternative::Inline(shape) => walk.shape(shape, value.clone()),
                Alternative::Type(id) | Alternative::Tagged { id, .. } => walk.own(*id, None, value.clone()),
            });
            match outcome {
                Ok(value) => return value,
                Err(violations) if self.is_of_kind(alternative, &value) => complaints.push(violations),
                Err(_) => {}
            }
        }
        if let Some(violations) = of_said {
            self.violations.extend(violations);
            return value;
        }
        match value {
            Value::Object(map) if untagged.len() < alternatives.len() => self.untagged(alternatives, map),
            value if complaints.len() == 1 => {
                self.violations.extend(complaints.into_iter().flatten());
                value
            }
            value => {
                self.mismatch(shape, &value);
                value
            }
        }
    }

    /// The alternative that an object says it is.
    fn tagged<'b>(&self, alternatives: &[Alternative<'b>], map: &Map<String, Value>) -> Option<(&'b str, TypeId)> {
        alternatives.iter().find_map(|alternative| match *alternative {
            Alternative::Tagged { discriminator, id }
                if map.get(discriminator).and_then(Value::as_str) == Some(self.validators.types.name(id)) =>
            {
                Some((discriminator, id))
            }
            Alternative::Tagged { .. } | Alternative::Type(_) | Alternative::Inline(_) => None,
        })
    }

    /// An object whose discriminator is missing or names none of the alternatives.
    fn untagged(&mut self, alternatives: &[Alternative<'_>], map: Map<String, Value>) -> Value {
        let types = &self.validators.types;
        let tagged: Vec<(&str, TypeId)> = alternatives
            .iter()
            .filter_map(|alternative| match *alternative {
                Alternative::Tagged { discriminator, id } => Some((discriminator, id)),
                Alternative::Type(_) | Alternative::Inline(_) => None,
            })
            .collect();
        let written = tagged.iter().find_map(|(tag, _)| Some((*tag, map.get(*tag)?)));
        if self.tags == Tags::Inferred && written.is_none() {
            let mut fits = Vec::new();
            for (tag, id) in &tagged {
                let mut object = Map::from_iter([((*tag).to_owned(), Value::from(types.name(*id)))]);
                object.extend(map.clone());
                if let Ok(value) = self.attempt(|walk| walk.own(*id, Some(tag), Value::Object(object))) {
                    fits.push((value, *id));
                }
            }
            if fits.len() == 1
                && let Some((value, id)) = fits.pop()
            {
                self.concrete = Some(id);
                return value;
            }
        }
        let names: Vec<Value> = tagged.iter().map(|(_, id)| Value::from(types.name(*id))).collect();
        let expected = format!("one of {}", values_text(&names));
        match written {
            Some((tag, value)) => {
                let hint = value.as_str().and_then(|text| did_you_mean(text, names.iter().filter_map(Value::as_str)));
                let written = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let written = super::violation::shortened(&written, 60);
                self.path.push(Step::Key(tag.to_owned()));
                self.wrong(with_hint(format!("`{tag}` is `{written}`, expected {expected}"), hint), Some(expected));
                self.path.pop();
            }
            None => {
                let tag = tagged.first().map_or(DISCRIMINATOR, |(tag, _)| *tag);
                self.wrong(format!("missing field `{tag}`, expected {expected}"), Some(expected));
            }
        }
        Value::Object(map)
    }

    /// True when an alternative is of the value's kind, so that its complaints are worth showing.
    fn is_of_kind(&self, alternative: &Alternative<'_>, value: &Value) -> bool {
        match alternative {
            Alternative::Tagged { .. } => value.is_object(),
            Alternative::Type(id) => self.type_is_of_kind(*id, value, 0),
            Alternative::Inline(shape) => self.shape_is_of_kind(shape, value, 0),
        }
    }

    fn type_is_of_kind(&self, id: TypeId, value: &Value, depth: usize) -> bool {
        match &self.validators.types.get(id).kind {
            TypeKind::Object(_) => value.is_object(),
            TypeKind::Alias(shape) => self.shape_is_of_kind(shape, value, depth + 1),
            TypeKind::Enum(values) => values.iter().any(|known| same_kind(known, value)),
            TypeKind::Union(members) => {
                depth < 8 && members.iter().any(|id| self.type_is_of_kind(*id, value, depth + 1))
            }
            TypeKind::Schema(_) => true,
        }
    }

    fn shape_is_of_kind(&self, shape: &Shape, value: &Value, depth: usize) -> bool {
        match &shape.kind {
            ShapeKind::Any => true,
            ShapeKind::Null => value.is_null(),
            ShapeKind::String | ShapeKind::Date | ShapeKind::DateTime | ShapeKind::Uri | ShapeKind::Email => {
                value.is_string()
            }
            ShapeKind::Integer | ShapeKind::Number => value.is_number(),
            ShapeKind::Boolean => value.is_boolean(),
            ShapeKind::List(_) => value.is_array(),
            ShapeKind::Map(_) | ShapeKind::Object(_) => value.is_object(),
            ShapeKind::Enum(values) => values.iter().any(|known| same_kind(known, value)),
            ShapeKind::Named(id) => depth < 8 && self.type_is_of_kind(*id, value, depth + 1),
            ShapeKind::OneOf(shapes) => {
                depth < 8 && shapes.iter().any(|shape| self.shape_is_of_kind(shape, value, depth + 1))
            }
        }
    }

    /// Walks without keeping the violations.
    fn attempt(&mut self, walk: impl FnOnce(&mut Self) -> Value) -> Result<Value, Vec<Violation>> {
        let before = self.violations.len();
        self.trying += 1;
        let value = walk(self);
        self.trying -= 1;
        let violations = self.violations.split_off(before);
        if violations.is_empty() { Ok(value) } else { Err(violations) }
    }

    fn mismatch(&mut self, shape: &Shape, value: &Value) {
        let types = &self.validators.types;
        let expected = describe(types, shape);
        let is_abstract = match shape.kind {
            ShapeKind::Named(id) => self.validators.choices(id).is_some_and(<[TypeId]>::is_empty),
            _ => false,
        };
        if is_abstract {
            return self.wrong(format!("`{expected}` is abstract and has no subtype that a value could be of"), None);
        }
        let noun = match shape.kind {
            ShapeKind::Named(id) if carries_tag(types.get(id)) || self.validators.choices(id).is_some() => {
                format!("`{expected}` (an object)")
            }
            _ => noun(shape, &expected),
        };
        self.wrong(format!("expected {noun}, found {}", found(value)), Some(expected));
    }

    fn wrong(&mut self, message: String, expected: Option<String>) {
        let violation = self.violation(message, expected);
        self.violations.push(violation);
    }

    fn violation(&self, message: String, expected: Option<String>) -> Violation {
        Violation { path: pointer(&self.path), place: place(&self.path), message, expected }
    }
}

/// The type whose own object is walked, and the member that names it there.
#[derive(Clone, Copy)]
struct Own<'a> {
    id: TypeId,
    tag: Option<&'a str>,
}

fn with_hint(message: String, hint: Option<String>) -> String {
    match hint {
        Some(hint) => format!("{message}, {}", hint.trim_end_matches('?')),
        None => message,
    }
}

/// What is expected, as a noun.
fn noun(shape: &Shape, expected: &str) -> String {
    match &shape.kind {
        ShapeKind::Integer => "an integer".to_owned(),
        ShapeKind::Date | ShapeKind::DateTime | ShapeKind::Uri | ShapeKind::Email => format!("a string ({expected})"),
        ShapeKind::String | ShapeKind::Number | ShapeKind::Boolean => format!("a {expected}"),
        ShapeKind::Named(_) | ShapeKind::Map(_) | ShapeKind::List(_) => format!("`{expected}`"),
        ShapeKind::Any | ShapeKind::Null | ShapeKind::Enum(_) | ShapeKind::OneOf(_) | ShapeKind::Object(_) => {
            expected.to_owned()
        }
    }
}

/// Equality of JSON values as JSON Schema has it: 1 and 1.0 are one number.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}

fn same_kind(one: &Value, other: &Value) -> bool {
    std::mem::discriminant(one) == std::mem::discriminant(other)
}
