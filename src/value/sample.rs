//! Made-up values of types, for `render --sample`, forms and tests: the same type always gives the same value.

use super::import::view;
use super::position::{Alternative, alternatives, of_type};
use super::types::{ObjectDef, Shape, ShapeKind, TypeId, TypeKind, Types};
use super::validate::{NoRules, Validators};
use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::{Map, Value, json};

/// After this many parts a sample leaves out whatever may be left out.
const PARTS_MAX: usize = 2_000;
/// The most elements made for `minItems`, and characters for `minLength`.
const LENGTH_MAX: u64 = 10_000;

/// A value of the shape that validates against it, rules apart. Defaults and examples are used where they are given;
/// optional fields are filled in; recursion ends as soon as it may; patterns are followed where they need no look-around.
///
/// # Errors
/// Says why no value could be made up.
pub fn sample(validators: &Validators, shape: &Shape) -> Result<Value, String> {
    let types = validators.types();
    let mut why = String::new();
    // The full sample first; a sparse one where the full one misses what cannot be seen in the shape.
    for sparse in [false, true] {
        let mut sampler = Sampler { types, sparse, parts: 0, variant: 0, within: Vec::new() };
        match sampler.shape(shape, "text") {
            Err(error) => why = error,
            Ok(value) => match validators.validate(shape, value, &NoRules) {
                Ok(valid) => return Ok(valid.value),
                Err(violations) => {
                    why = violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                }
            },
        }
    }
    Err(format!("no sample value could be made up: {why}"))
}

struct Sampler<'a> {
    types: &'a Types,
    /// Leave out optional fields and elements.
    sparse: bool,
    /// How many values were made.
    parts: usize,
    /// Which of several like values is made, so that unique items differ.
    variant: usize,
    /// The types that the value being made is inside of.
    within: Vec<TypeId>,
}

impl Sampler<'_> {
    fn shape(&mut self, shape: &Shape, name: &str) -> Result<Value, String> {
        self.parts += 1;
        let constraints = &shape.constraints;
        if let Some(value) = self.given(shape) {
            return Ok(value);
        }
        let keywords = &constraints.keywords;
        match &shape.kind {
            ShapeKind::Any => Ok(Value::from(self.text(name, keywords))),
            ShapeKind::Null => Ok(Value::Null),
            ShapeKind::String => Ok(Value::from(self.text(name, keywords))),
            ShapeKind::Integer => Ok(number(keywords, true, self.variant)),
            ShapeKind::Number => Ok(number(keywords, false, self.variant)),
            ShapeKind::Boolean => Ok(Value::Bool(self.variant.is_multiple_of(2))),
            ShapeKind::Date => Ok(self.format("date")),
            ShapeKind::DateTime => Ok(self.format("date-time")),
            ShapeKind::Uri => Ok(self.format("uri")),
            ShapeKind::Email => Ok(self.format("email")),
            ShapeKind::Named(id) => self.named(*id, name),
            ShapeKind::List(element) => self.list(element, keywords, name),
            ShapeKind::Map(element) => self.map(element, keywords, name),
            ShapeKind::Enum(values) => {
                values.get(self.variant % values.len().max(1)).cloned().ok_or("an enum has no values".to_owned())
            }
            ShapeKind::OneOf(_) => self.choice(&alternatives(self.types, &shape.kind).unwrap_or_default(), name),
            ShapeKind::Object(object) => self.object(object),
        }
    }

    /// What the author gives: `const`, the default, an example, a value of `enum`.
    fn given(&self, shape: &Shape) -> Option<Value> {
        let keywords = &shape.constraints.keywords;
        let listed = |keyword: &str| {
            let values = keywords.get(keyword)?.as_array()?;
            values.get(self.variant % values.len().max(1)).cloned()
        };
        let default = shape.constraints.default.clone().filter(|_| self.variant == 0);
        keywords.get("const").cloned().or(default).or_else(|| listed("examples")).or_else(|| listed("enum"))
    }

    fn named(&mut self, id: TypeId, name: &str) -> Result<Value, String> {
        if self.within.contains(&id) {
            return Err(format!("`{}` contains itself without end", self.types.name(id)));
        }
        self.within.push(id);
        let made = match of_type(self.types, id) {
            Some(alternatives) => self.choice(&alternatives, name),
            None => self.own(id, name),
        };
        self.within.pop();
        made
    }

    fn own(&mut self, id: TypeId, name: &str) -> Result<Value, String> {
        let def = self.types.get(id);
        match &def.kind {
            TypeKind::Object(object) => self.object(object),
            TypeKind::Alias(shape) => self.shape(shape, name),
            TypeKind::Enum(values) => self.shape(&Shape::new(ShapeKind::Enum(values.clone())), name),
            TypeKind::Schema(schema) => self.shape(&view(schema), name),
            TypeKind::Union(_) => Err(format!("no value is a `{}`", def.name)),
        }
    }

    fn choice(&mut self, choices: &[Alternative<'_>], name: &str) -> Result<Value, String> {
        let mut why = "the type is abstract and has no subtype that a value could be of".to_owned();
        for choice in choices {
            let made = match choice {
                Alternative::Inline(shape) => self.shape(shape, name),
                Alternative::Type(id) => self.chosen(*id, name),
                Alternative::Tagged { discriminator, id } => self.tagged(discriminator, *id, name),
            };
            match made {
                Ok(value) => return Ok(value),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    fn tagged(&mut self, discriminator: &str, id: TypeId, name: &str) -> Result<Value, String> {
        let made = self.chosen(id, name)?;
        let mut object = Map::from_iter([(discriminator.to_owned(), Value::from(self.types.name(id)))]);
        if let Value::Object(map) = made {
            object.extend(map);
        }
        Ok(Value::Object(object))
    }

    /// A value of one of the alternatives of a place.
    fn chosen(&mut self, id: TypeId, name: &str) -> Result<Value, String> {
        // The place itself may be of this type; anything deeper is a recursion.
        let depth = self.within.iter().filter(|within| **within == id).count();
        if depth > 1 || (depth == 1 && self.within.last() != Some(&id)) {
            return Err(format!("`{}` contains itself without end", self.types.name(id)));
        }
        self.within.push(id);
        let made = self.own(id, name);
        self.within.pop();
        made
    }

    fn object(&mut self, object: &ObjectDef) -> Result<Value, String> {
        let mut made = Map::new();
        for (name, field) in &object.fields {
            if !field.required && self.is_sparse() {
                continue;
            }
            match self.shape(&field.shape, name) {
                Ok(value) => drop(made.insert(name.clone(), value)),
                Err(error) if field.required => return Err(format!("`{name}`: {error}")),
                Err(_) => {}
            }
        }
        Ok(Value::Object(made))
    }

    fn is_sparse(&self) -> bool {
        self.sparse || self.parts > PARTS_MAX
    }

    /// How many parts a list or map gets.
    fn count(&self, keywords: &Map<String, Value>, least: &str, most: &str) -> u64 {
        let least = keywords.get(least).and_then(Value::as_u64).unwrap_or(0);
        let most = keywords.get(most).and_then(Value::as_u64).unwrap_or(u64::MAX);
        let wanted = if self.is_sparse() { least } else { least.max(1) };
        wanted.min(most).min(LENGTH_MAX)
    }

    fn list(&mut self, element: &Shape, keywords: &Map<String, Value>, name: &str) -> Result<Value, String> {
        let count = self.count(keywords, "minItems", "maxItems");
        let singular = name.strip_suffix('s').filter(|short| short.len() > 2).unwrap_or(name).to_owned();
        let parts = self.parts(element, count, &singular);
        match parts {
            Ok(parts) => Ok(Value::Array(parts)),
            Err(_) if !keywords.contains_key("minItems") => Ok(Value::Array(Vec::new())),
            Err(error) => Err(error),
        }
    }

    fn map(&mut self, element: &Shape, keywords: &Map<String, Value>, name: &str) -> Result<Value, String> {
        let count = self.count(keywords, "minProperties", "maxProperties");
        let key = |index: usize| if index == 0 { "key".to_owned() } else { format!("key_{}", index + 1) };
        match self.parts(element, count, name) {
            Ok(parts) => {
                Ok(Value::Object(parts.into_iter().enumerate().map(|(index, part)| (key(index), part)).collect()))
            }
            Err(_) if !keywords.contains_key("minProperties") => Ok(json!({})),
            Err(error) => Err(error),
        }
    }

    fn parts(&mut self, element: &Shape, count: u64, name: &str) -> Result<Vec<Value>, String> {
        let before = self.variant;
        let mut parts = Vec::new();
        for index in 0..usize::try_from(count).unwrap_or(usize::MAX) {
            self.variant = before + index;
            let part = self.shape(element, name);
            self.variant = before;
            parts.push(part?);
        }
        Ok(parts)
    }

    fn format(&self, format: &str) -> Value {
        let day = 1 + self.variant % 28;
        let number = if self.variant == 0 { String::new() } else { (self.variant + 1).to_string() };
        Value::from(match format {
            "date" => format!("2026-01-{day:02}"),
            "date-time" => format!("2026-01-{day:02}T12:00:00Z"),
            "time" => "12:00:00Z".to_owned(),
            "uri" | "uri-reference" | "iri" | "url" => format!("https://example.com/{number}"),
            "email" | "idn-email" => format!("person{number}@example.com"),
            "hostname" | "idn-hostname" => "example.com".to_owned(),
            "ipv4" => "192.0.2.1".to_owned(),
            "ipv6" => "2001:db8::1".to_owned(),
            "uuid" => format!("00000000-0000-4000-8000-{:012}", self.variant),
            "duration" => "P1D".to_owned(),
            "json-pointer" => "/a".to_owned(),
            "regex" => "a".to_owned(),
            _ => return Value::Null,
        })
    }

    fn text(&self, name: &str, keywords: &Map<String, Value>) -> String {
        let limit = |keyword: &str| keywords.get(keyword).and_then(Value::as_u64);
        let least = limit("minLength").unwrap_or(0).min(LENGTH_MAX) as usize;
        let most = limit("maxLength").unwrap_or(u64::MAX).min(LENGTH_MAX) as usize;
        if let Some(pattern) = keywords.get("pattern").and_then(Value::as_str)
            && let Some(text) = matching(pattern, least, most, self.variant)
        {
            return text;
        }
        if let Some(Value::String(text)) = keywords.get("format").and_then(Value::as_str).map(|name| self.format(name))
        {
            return text;
        }
        let words = name.replace(['_', '-'], " ");
        let mut text = match self.variant {
            0 => format!("sample {words}"),
            variant => format!("sample {words} {}", variant + 1),
        };
        while text.chars().count() < least {
            text.push_str(" and more");
        }
        // The end is kept, because it is where variants differ.
        let skipped = text.chars().count().saturating_sub(most);
        text.chars().skip(skipped).collect()
    }
}

/// A number within its limits: the middle of two, else near the one there is; the next ones for further variants, from
/// the start again where they run out.
fn number(keywords: &Map<String, Value>, whole: bool, variant: usize) -> Value {
    let limit = |keyword: &str| keywords.get(keyword).and_then(Value::as_f64);
    let nudge = if whole { 1.0 } else { 0.001 };
    let least = limit("minimum").or_else(|| limit("exclusiveMinimum").map(|least| least + nudge));
    let most = limit("maximum").or_else(|| limit("exclusiveMaximum").map(|most| most - nudge));
    let unit = limit("multipleOf").filter(|unit| *unit > 0.0);
    let start = match (least, most) {
        (Some(least), Some(most)) if !whole && unit.is_none() => (least + most) / 2.0,
        (Some(least), _) => least,
        (None, Some(most)) if most < 1.0 => most - unit.unwrap_or(1.0),
        (None, _) => 1.0,
    };
    let start = match unit {
        Some(unit) => (start / unit).ceil() * unit,
        None if whole => start.ceil(),
        None => start,
    };
    let step = unit.unwrap_or(if whole { 1.0 } else { 0.01 });
    let room = most.map_or(f64::INFINITY, |most| ((most - start) / step).floor().max(0.0));
    let value = start + step * (variant as f64 % (room + 1.0));
    if value.fract() == 0.0 && value.abs() < 9e15 { Value::from(value as i64) } else { Value::from(value) }
}

/// Text that a pattern matches, when it is one without look-around and back-references.
fn matching(pattern: &str, least: usize, most: usize, variant: usize) -> Option<String> {
    let hir = regex_syntax::Parser::new().parse(pattern).ok()?;
    // Ever more repetitions until the text is long enough.
    [0_u32, 1, 2, 3, 4, 8, 16, 32, 64, 128].into_iter().find_map(|repeat| {
        let mut text = String::new();
        write_match(&hir, repeat, variant, &mut text)?;
        let length = text.chars().count();
        (length >= least && length <= most).then_some(text)
    })
}

fn write_match(hir: &Hir, repeat: u32, variant: usize, out: &mut String) -> Option<()> {
    if out.len() as u64 > LENGTH_MAX {
        return None;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => out.push_str(std::str::from_utf8(&literal.0).ok()?),
        HirKind::Class(class) => out.push(pick(class, variant)?),
        HirKind::Repetition(repetition) => {
            let times = repeat.max(repetition.min).min(repetition.max.unwrap_or(u32::MAX));
            for _ in 0..times {
                write_match(&repetition.sub, repeat, variant, out)?;
            }
        }
        HirKind::Capture(capture) => write_match(&capture.sub, repeat, variant, out)?,
        HirKind::Concat(parts) => {
            for part in parts {
                write_match(part, repeat, variant, out)?;
            }
        }
        HirKind::Alternation(choices) => {
            write_match(choices.get(variant % choices.len().max(1))?, repeat, variant, out)?;
        }
    }
    Some(())
}

/// A readable character of a class; another one for each variant while there are some.
fn pick(class: &Class, variant: usize) -> Option<char> {
    let contains = |c: &char| match class {
        Class::Unicode(class) => class.ranges().iter().any(|range| range.start() <= *c && *c <= range.end()),
        Class::Bytes(class) => {
            c.is_ascii() && class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&(*c as u8)))
        }
    };
    let readable: Vec<char> =
        ('a'..='z').chain('A'..='Z').chain('1'..='9').chain(" 0-_.,:!".chars()).filter(contains).collect();
    match (readable.get(variant % readable.len().max(1)), class) {
        (Some(c), _) => Some(*c),
        (None, Class::Unicode(class)) => class.ranges().first().map(|range| range.start()),
        (None, Class::Bytes(class)) => class.ranges().first().map(|range| range.start() as char),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{animals, integer, object, of_kind, string};
    use super::*;
    use std::sync::Arc;

    fn made(types: Types, shape: &Shape) -> Result<Value, String> {
        sample(&Validators::new(Arc::new(types)), shape)
    }

    #[test]
    fn samples_use_what_the_author_gives_and_keep_to_limits() {
        let mut types = Types::default();
        let mut tone = string();
        tone.constraints.default = Some(json!("dry"));
        let id = object(
            &mut types,
            "Ticket",
            vec![
                ("id", string().with("pattern", "^T-\\d{3,}$")),
                ("severity", integer().with("minimum", 2).with("maximum", 5)),
                ("tags", Shape::list(string()).with("minItems", 2).with("uniqueItems", true)),
                ("due?", Shape::new(ShapeKind::Date)),
                ("tone?", tone),
                ("city", string().with("examples", json!(["Oslo"]))),
                ("short", string().with("maxLength", 4)),
            ],
        );
        assert_eq!(
            made(types, &Shape::named(id)),
            Ok(json!({
                "id": "T-111", "severity": 2, "tags": ["sample tag", "sample tag 2"], "due": "2026-01-01",
                "tone": "dry", "city": "Oslo", "short": "hort",
            }))
        );
    }

    #[test]
    fn recursion_ends_where_it_may_and_says_so_where_it_may_not() {
        let mut types = Types::default();
        let node = object(&mut types, "Node", vec![]);
        object(&mut types, "Node", vec![("next?", Shape::named(node)), ("all", Shape::list(Shape::named(node)))]);
        assert_eq!(made(types.clone(), &Shape::named(node)), Ok(json!({"all": []})));
        object(&mut types, "Node", vec![("next", Shape::named(node))]);
        let error = made(types, &Shape::named(node)).err().unwrap_or_default();
        assert!(error.ends_with("`next`: `Node` contains itself without end"), "{error}");
    }

    #[test]
    fn recursion_through_inline_unions_ends() {
        let mut types = Types::default();
        let tree = of_kind(&mut types, "Tree", TypeKind::Alias(string()));
        let either = Shape::new(ShapeKind::OneOf(vec![Shape::named(tree), integer()]));
        of_kind(&mut types, "Tree", TypeKind::Alias(Shape::list(either)));
        assert_eq!(made(types, &Shape::named(tree)), Ok(json!([[1]])));
    }

    #[test]
    fn supertypes_take_the_first_concrete_type() {
        let mut types = Types::default();
        let (animal, ..) = animals(&mut types);
        assert_eq!(made(types, &Shape::named(animal)), Ok(json!({"type": "Frog", "name": "sample name", "jumps": 1})));
    }

    #[test]
    fn authors_schemas_are_followed_as_far_as_they_are_seen() {
        let mut types = Types::default();
        let raw = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "minimum": 7}}});
        let invoice = of_kind(&mut types, "Invoice", TypeKind::Schema(raw));
        assert_eq!(made(types, &Shape::named(invoice)), Ok(json!({"n": 7})));
    }

    #[test]
    fn the_impossible_is_explained() {
        let shape = string().with("pattern", "^(?=a)b$");
        let error = made(Types::default(), &shape).err().unwrap_or_default();
        assert!(error.starts_with("no sample value could be made up: expected text that matches"), "{error}");
    }
}
