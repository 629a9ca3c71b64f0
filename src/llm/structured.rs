//! Output schemas on the wire and back: envelopes, strict dialects, instructions.
//!
//! A [`Request`] carries the type's plain schema. Providers that have native structured output make their dialect of it
//! here ([`strict`]); others get [`instructions`]. [`decode`] undoes both and is the same for every provider.

use serde_json::{Map, Value, json};

use super::parse::{ParseError, parse_reply_json};
use super::provider::Llm;
use super::reply::Reply;
use super::request::{Message, OutputMode, OutputSchema, Part, Request, Role, ToolSpec};

/// The key of the envelope around values whose schema is no object's.
pub const ENVELOPE_KEY: &str = "value";

/// Whether values of `schema` travel inside `{"value": …}`: wires want an object at the root, and no union.
pub fn is_wrapped(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) != Some("object")
}

/// Puts `value` of `schema` into the envelope where one is wanted.
pub fn wrap(schema: &Value, value: Value) -> Value {
    if is_wrapped(schema) { json!({ ENVELOPE_KEY: value }) } else { value }
}

/// Takes `value` out of the envelope where one is wanted and there; a model that left it out is understood too.
pub fn unwrap(schema: &Value, value: Value) -> Value {
    match value {
        Value::Object(mut object) if is_wrapped(schema) && object.len() == 1 && object.contains_key(ENVELOPE_KEY) => {
            object.swap_remove(ENVELOPE_KEY).unwrap_or(Value::Null)
        }
        other => other,
    }
}

/// Decides how `request.output` reaches the model, and appends the instructions to the last user message when the model
/// or the wire cannot say the schema natively. Call it once for each request, before it is shown or sent.
pub fn place_output(llm: &dyn Llm, request: &mut Request) {
    let Some(output) = &mut request.output else { return };
    output.mode = llm.output_mode(&request.model, &output.schema);
    if output.mode == OutputMode::Native {
        return;
    }
    let text = instructions(output);
    let Some(message) = request.messages.iter_mut().rev().find(|message| message.role == Role::User) else {
        request.messages.push(Message::user(text));
        return;
    };
    match message.parts.iter_mut().rev().find_map(|part| if let Part::Text { text } = part { Some(text) } else { None })
    {
        Some(prompt) => prompt.push_str(&format!("\n\n{text}")),
        None => message.parts.push(Part::text(text)),
    }
}

/// The text that asks a model without native structured output for JSON.
pub fn instructions(output: &OutputSchema) -> String {
    let schema = serde_json::to_string_pretty(&output.schema).unwrap_or_default();
    format!(
        "Answer with one JSON value that matches this JSON Schema of `{}`, and with nothing else: no explanation, no code fence.\n{schema}",
        output.name
    )
}

/// Reads the value out of a reply: finds the JSON, takes it out of its envelope, drops nulls that mean "absent".
///
/// Where the schema allows only text, a reply that is no JSON is that text.
pub fn decode(output: &OutputSchema, reply: &Reply) -> Result<Value, ParseError> {
    let (schema, text) = (&output.schema, reply.text());
    let value = match parse_reply_json(&text) {
        Ok(value) => unwrap(schema, value),
        Err(ParseError::Invalid { .. } | ParseError::Ambiguous { .. }) if is_text_only(schema) => {
            Value::String(text.trim().to_string())
        }
        Err(error) => return Err(error),
    };
    let mut value = value;
    drop_absent(schema, schema, &mut value, 0);
    Ok(value)
}

/// Drops the nulls that mean "absent" from the arguments of calls: strict dialects make every parameter required.
pub(crate) fn settle_arguments(tools: &[ToolSpec], parts: &mut [Part]) {
    for part in parts {
        if let Part::ToolCall { name, arguments, .. } = part
            && let Some(tool) = tools.iter().find(|tool| tool.name == *name)
        {
            drop_absent(&tool.parameters, &tool.parameters, arguments, 0);
        }
    }
}

/// How many members that are not required the objects of `schema` have together.
pub(crate) fn optional_members(schema: &Value) -> usize {
    match schema {
        Value::Object(keys) => {
            let members = keys.get("properties").and_then(Value::as_object).map_or(0, Map::len);
            let inner: usize = keys.values().map(optional_members).sum();
            members.saturating_sub(list(schema, "required").count()) + inner
        }
        Value::Array(items) => items.iter().map(optional_members).sum(),
        _ => 0,
    }
}

/// The system message of a wire that cannot say the output's form beside tools: the instructions stand at its end.
pub(crate) fn instructed_system(request: &Request, output: &OutputSchema) -> String {
    let own = request.system.as_deref().unwrap_or_default();
    format!("{own}\n\nWhen you need no further tool: {}", instructions(output)).trim_start().to_string()
}

/// Whether the schema's values are texts, or texts and null.
fn is_text_only(schema: &Value) -> bool {
    let is_text = |schema: &Value| match (schema.get("type"), schema.get("enum").and_then(Value::as_array)) {
        (Some(Value::String(kind)), _) => kind == "string",
        (Some(Value::Array(kinds)), _) => kinds.iter().all(|kind| kind == "string" || kind == "null"),
        (None, Some(words)) => words.iter().all(Value::is_string),
        _ => false,
    };
    let branches = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array);
    let is_null = |schema: &Value| schema.get("type").and_then(Value::as_str) == Some("null");
    match branches {
        Some(branches) => {
            branches.iter().any(is_text) && branches.iter().all(|branch| is_text(branch) || is_null(branch))
        }
        None => is_text(schema),
    }
}

/// Removes null members that the schema does not ask for: strict dialects make every member required, and null for an
/// optional member is the same as absent (language.md 3).
fn drop_absent(root: &Value, schema: &Value, value: &mut Value, depth: usize) {
    if depth > SCHEMA_DEPTH_MAX {
        return;
    }
    let Some(schema) = branch_for(root, schema, value, depth) else { return };
    match value {
        Value::Object(object) => {
            let required: Vec<&str> = list(schema, "required").filter_map(Value::as_str).collect();
            let properties = schema.get("properties").and_then(Value::as_object);
            object.retain(|key, member| {
                let optional =
                    properties.and_then(|properties| properties.get(key)).filter(|_| !required.contains(&key.as_str()));
                !(member.is_null() && optional.is_some_and(|property| !accepts_null(root, property, 0)))
            });
            for (key, member) in object.iter_mut() {
                let property = properties.and_then(|properties| properties.get(key));
                if let Some(property) = property.or_else(|| schema.get("additionalProperties")) {
                    drop_absent(root, property, member, depth + 1);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| drop_absent(root, schema, item, depth + 1));
            }
        }
        _ => {}
    }
}

/// The schema that `value` is meant for: references followed, the branch of a union chosen by what tells them apart.
fn branch_for<'a>(root: &'a Value, schema: &'a Value, value: &Value, depth: usize) -> Option<&'a Value> {
    if depth > SCHEMA_DEPTH_MAX {
        return None;
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        return branch_for(root, resolve(root, target)?, value, depth + 1);
    }
    let Some(branches) = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) else {
        return Some(schema);
    };
    branches
        .iter()
        .filter_map(|branch| branch_for(root, branch, value, depth + 1))
        .find(|branch| is_plausible(branch, value))
}

/// Whether `value` may be meant for `schema`: its type fits, constants are equal, no member is unknown, none is missing.
fn is_plausible(schema: &Value, value: &Value) -> bool {
    let kind = kind_of(value);
    let fits = |name: &str| name == kind || (name == "number" && kind == "integer");
    let type_fits = match schema.get("type") {
        Some(Value::String(name)) => fits(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(fits),
        _ => true,
    };
    let Some(object) = value.as_object() else { return type_fits };
    let properties = schema.get("properties").and_then(Value::as_object);
    let member_fits = |(key, member): (&String, &Value)| match properties.and_then(|properties| properties.get(key)) {
        Some(property) => property.get("const").is_none_or(|wanted| wanted == member),
        None => schema.get("additionalProperties") != Some(&Value::Bool(false)),
    };
    let whole = list(schema, "required").filter_map(Value::as_str).all(|key| object.contains_key(key));
    type_fits && whole && object.iter().all(member_fits)
}

fn accepts_null(root: &Value, schema: &Value, depth: usize) -> bool {
    if depth > SCHEMA_DEPTH_MAX {
        return false;
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        return resolve(root, target).is_some_and(|schema| accepts_null(root, schema, depth + 1));
    }
    let by_type = match schema.get("type") {
        Some(Value::String(name)) => name == "null",
        Some(Value::Array(names)) => names.iter().any(|name| name == "null"),
        _ => false,
    };
    let by_value = schema.get("const").is_some_and(Value::is_null) || list(schema, "enum").any(Value::is_null);
    let mut branches = list(schema, "anyOf").chain(list(schema, "oneOf"));
    by_type || by_value || branches.any(|branch| accepts_null(root, branch, depth + 1))
}

fn resolve<'a>(root: &'a Value, target: &str) -> Option<&'a Value> {
    root.pointer(target.strip_prefix('#')?)
}

/// The elements of the list at `key`; none when there is no list.
fn list<'a>(schema: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    schema.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// How deep schemas are followed.
const SCHEMA_DEPTH_MAX: usize = 64;

/// The plain schema with its root in the envelope where one is wanted; `$defs` stay at the root.
pub fn enveloped(schema: &Value) -> Value {
    if !is_wrapped(schema) {
        return schema.clone();
    }
    let mut inner = schema.clone();
    let definitions = inner.as_object_mut().and_then(|object| object.shift_remove("$defs"));
    if let Some(object) = inner.as_object_mut() {
        object.shift_remove("$schema");
    }
    let mut outer = json!({
        "type": "object", "properties": { ENVELOPE_KEY: inner }, "required": [ENVELOPE_KEY], "additionalProperties": false,
    });
    if let Some(definitions) = definitions {
        outer["$defs"] = definitions;
    }
    outer
}

/// What a provider's strict mode can say.
#[derive(Debug, Clone, Copy)]
pub struct SchemaDialect {
    /// Whether every member must be required (optional ones then become nullable).
    pub all_required: bool,
    /// Whether a type may hold itself.
    pub recursion: bool,
    /// The limits that may be said; others move into the description.
    pub limits: &'static [&'static str],
    /// The values of `format` that may be said.
    pub formats: &'static [&'static str],
}

impl SchemaDialect {
    /// OpenAI's `strict: true`.
    pub const OPENAI: SchemaDialect = SchemaDialect {
        all_required: true,
        recursion: true,
        limits: &[
            "pattern",
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "minItems",
            "maxItems",
        ],
        formats: &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"],
    };

    /// Anthropic's `output_config.format`.
    pub const ANTHROPIC: SchemaDialect = SchemaDialect {
        all_required: false,
        recursion: false,
        limits: &[],
        formats: &["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"],
    };
}

impl SchemaDialect {
    /// Gemini's `responseSchema`, before it is put into its own words.
    pub const GEMINI: SchemaDialect = SchemaDialect {
        all_required: false,
        recursion: false,
        limits: &["minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "pattern"],
        formats: &["date-time"],
    };

    /// Grammars made of a JSON Schema by a local server: everything that shapes a value may be said.
    pub const GRAMMAR: SchemaDialect =
        SchemaDialect { all_required: false, recursion: true, limits: &["minItems", "maxItems"], formats: &[] };
}

/// Limits that a description can say when the dialect cannot.
const LIMITS: &[&str] = &[
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "default",
    "examples",
];
/// Keywords that shape values in ways that no strict dialect says.
const UNSAYABLE: &[&str] = &[
    "patternProperties",
    "prefixItems",
    "not",
    "if",
    "dependentSchemas",
    "propertyNames",
    "unevaluatedProperties",
    "$dynamicRef",
];

/// Returns `schema` (its root in the envelope where needed) in the dialect; `None` when the dialect cannot say it: open
/// objects and maps, `any`, tuples, and, where `recursion` is not allowed, types that hold themselves.
pub fn strict(schema: &Value, dialect: &SchemaDialect) -> Option<Value> {
    let wrapped = enveloped(schema);
    if is_wrapped(schema) && mentions_root(&wrapped) {
        return None;
    }
    if !dialect.recursion && is_recursive(&wrapped) {
        return None;
    }
    let mut converted = convert(&wrapped, dialect, 0)?;
    if let Some(definitions) = wrapped.get("$defs").and_then(Value::as_object) {
        let convert = |(name, schema): (&String, &Value)| Some((name.clone(), convert(schema, dialect, 0)?));
        converted["$defs"] = Value::Object(definitions.iter().map(convert).collect::<Option<_>>()?);
    }
    Some(converted)
}

/// Why the parameters of a tool cannot be said in the dialect, for their author; `None` when they can.
pub fn why_not_strict(schema: &Value, dialect: &SchemaDialect) -> Option<String> {
    if is_wrapped(schema) {
        return Some("it is no plain object".to_owned());
    }
    if strict(schema, dialect).is_some() {
        return None;
    }
    if !dialect.recursion && is_recursive(&enveloped(schema)) {
        return Some("a type holds itself".to_owned());
    }
    let definitions = schema.get("$defs").and_then(Value::as_object);
    let among = definitions.into_iter().flatten().find_map(|(name, schema)| obstacle(schema, dialect, name, 0));
    let found = obstacle(schema, dialect, "", 0).or(among);
    Some(found.unwrap_or_else(|| "a part of it has no strict form".to_owned()))
}

/// The innermost part of a schema that the dialect cannot say.
fn obstacle(schema: &Value, dialect: &SchemaDialect, place: &str, depth: usize) -> Option<String> {
    if convert(schema, dialect, depth).is_some() {
        return None;
    }
    let below = |key: &str| if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") };
    let keys = schema.as_object();
    let get = |key: &str| keys.and_then(|keys| keys.get(key));
    let own = UNSAYABLE.iter().find(|key| get(key).is_some());
    let members = get("properties").and_then(Value::as_object).into_iter().flatten();
    let members = members.map(|(name, schema)| (below(name), schema));
    let items = get("items").map(|items| (format!("{place}[]"), items));
    let branches = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|key| get(key)?.as_array()).flatten();
    let mut inner = members.chain(items).chain(branches.map(|branch| (place.to_owned(), branch)));
    if depth <= SCHEMA_DEPTH_MAX
        && own.is_none()
        && let Some(found) = inner.find_map(|(place, schema)| obstacle(schema, dialect, &place, depth + 1))
    {
        return Some(found);
    }
    let what = if place.is_empty() { "it".to_owned() } else { format!("`{place}`") };
    Some(match own {
        Some(key) => format!("{what} has `{key}`"),
        None if get("type").is_some_and(|kind| kind == "object") => format!("{what} has keys of its own choice"),
        None if get("type").is_some_and(|kind| kind == "array") => format!("{what} is a list of anything"),
        None if keys.is_none_or(|keys| {
            !["type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const"].iter().any(|key| keys.contains_key(*key))
        }) =>
        {
            format!("{what} may be anything")
        }
        None => format!("{what} has no strict form"),
    })
}

fn convert(schema: &Value, dialect: &SchemaDialect, depth: usize) -> Option<Value> {
    let keys = schema.as_object()?;
    if depth > SCHEMA_DEPTH_MAX || UNSAYABLE.iter().any(|key| keys.contains_key(*key)) {
        return None;
    }
    if let Some(target) = keys.get("$ref").and_then(Value::as_str) {
        // No neighbours are allowed beside a reference, not even a description.
        return (target == "#" || target.starts_with("#/$defs/")).then(|| json!({ "$ref": target }));
    }
    let mut out = Map::new();
    if let Some(branches) = keys.get("anyOf").or_else(|| keys.get("oneOf")).and_then(Value::as_array) {
        if keys.contains_key("properties") || keys.contains_key("allOf") {
            return None;
        }
        let branches = branches.iter().map(|branch| convert(branch, dialect, depth + 1)).collect::<Option<Vec<_>>>()?;
        out.insert("anyOf".into(), Value::Array(branches));
        return Some(described(out, keys, dialect));
    }
    if let Some(parts) = keys.get("allOf").and_then(Value::as_array) {
        return match &parts[..] {
            [only] if !keys.contains_key("properties") => convert(only, dialect, depth + 1),
            _ => None,
        };
    }
    match keys.get("type") {
        Some(Value::String(kind)) => {
            return convert_typed(kind, keys, dialect, depth).map(|out| described(out, keys, dialect));
        }
        Some(Value::Array(kinds)) => {
            let branch = |kind: &Value| {
                let mut alone = keys.clone();
                alone.insert("type".into(), kind.clone());
                alone.shift_remove("description");
                if let Some(Value::Array(values)) = alone.get_mut("enum") {
                    values.retain(|value| kind_of(value) == kind || (kind_of(value) == "integer" && kind == "number"));
                }
                if kind == "null" {
                    alone.shift_remove("enum");
                }
                convert(&Value::Object(alone), dialect, depth + 1)
            };
            out.insert("anyOf".into(), Value::Array(kinds.iter().map(branch).collect::<Option<_>>()?));
            // The limits stand in the branches.
            out.extend(keys.get("description").map(|text| ("description".to_string(), text.clone())));
            return Some(Value::Object(out));
        }
        _ => match (keys.get("enum"), keys.get("const")) {
            (Some(Value::Array(values)), _) => {
                let mut kinds: Vec<&str> = values.iter().map(kind_of).collect();
                kinds.sort_unstable();
                kinds.dedup();
                if kinds.iter().any(|kind| matches!(*kind, "array" | "object")) {
                    return None;
                }
                let mut typed = keys.clone();
                typed.insert("type".into(), if let [kind] = kinds[..] { json!(kind) } else { json!(kinds) });
                return convert(&Value::Object(typed), dialect, depth + 1);
            }
            (_, Some(value)) => {
                out.insert("type".into(), json!(kind_of(value)));
                out.insert("const".into(), value.clone());
            }
            _ => return None,
        },
    }
    Some(described(out, keys, dialect))
}

/// A schema with one type.
fn convert_typed(
    kind: &str,
    keys: &Map<String, Value>,
    dialect: &SchemaDialect,
    depth: usize,
) -> Option<Map<String, Value>> {
    let mut out = Map::new();
    out.insert("type".into(), json!(kind));
    match kind {
        "object" => {
            let closed = keys.get("additionalProperties") == Some(&Value::Bool(false));
            let properties = keys.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
            if !closed && (keys.contains_key("additionalProperties") || properties.is_empty()) {
                return None;
            }
            let listed: Vec<&str> = keys
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let mut members = Map::new();
            let mut required = Vec::new();
            for (name, property) in &properties {
                let mut member = convert(property, dialect, depth + 1)?;
                let is_listed = listed.contains(&name.as_str());
                if !is_listed && dialect.all_required {
                    member = nullable(member);
                }
                if is_listed || dialect.all_required {
                    required.push(json!(name));
                }
                members.insert(name.clone(), member);
            }
            out.insert("properties".into(), Value::Object(members));
            out.insert("required".into(), Value::Array(required));
            out.insert("additionalProperties".into(), json!(false));
        }
        "array" => {
            out.insert("items".into(), convert(keys.get("items")?, dialect, depth + 1)?);
        }
        "string" | "number" | "integer" | "boolean" | "null" => {
            let values =
                ["enum", "const"].into_iter().filter_map(|key| Some((key.to_string(), keys.get(key)?.clone())));
            out.extend(values);
        }
        _ => return None,
    }
    Some(out)
}

/// A member that may be null, its description kept outside where models look for it.
fn nullable(mut member: Value) -> Value {
    if accepts_null(&Value::Null, &member, 0) {
        return member;
    }
    let description = member.as_object_mut().and_then(|object| object.shift_remove("description"));
    let mut out = json!({"anyOf": [member, {"type": "null"}]});
    if let Some(description) = description {
        out["description"] = description;
    }
    out
}

/// Adds the description, and the limits: as keywords where the dialect has them, else as words.
fn described(mut out: Map<String, Value>, keys: &Map<String, Value>, dialect: &SchemaDialect) -> Value {
    let mut words = Vec::new();
    let is_null = out.get("type").is_some_and(|kind| kind == "null");
    for (key, value) in keys.iter().filter(|(key, _)| !is_null && LIMITS.contains(&key.as_str())) {
        let known_format = key == "format" && value.as_str().is_some_and(|format| dialect.formats.contains(&format));
        let typed = out.contains_key("type");
        if typed && (known_format || dialect.limits.contains(&key.as_str())) {
            out.insert(key.clone(), value.clone());
        } else {
            words.push(match value {
                Value::String(text) => format!("{key}: {text}"),
                value => format!("{key}: {value}"),
            });
        }
    }
    let description = keys.get("description").and_then(Value::as_str).map(str::to_string);
    let words = (!words.is_empty()).then(|| format!("({})", words.join("; ")));
    let text: Vec<String> = description.into_iter().chain(words).collect();
    if !text.is_empty() {
        out.insert("description".into(), json!(text.join(" ")));
    }
    Value::Object(out)
}

/// The name of a value's type, as schemas have it.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Whether some reference means the whole schema, which an envelope would change.
fn mentions_root(schema: &Value) -> bool {
    references(schema).iter().any(|target| target == "#")
}

/// Whether a definition leads back to itself.
fn is_recursive(root: &Value) -> bool {
    let Some(definitions) = root.get("$defs").and_then(Value::as_object) else { return mentions_root(root) };
    // Take away, again and again, what refers only to what is gone: what stays goes round in circles.
    let mut left: Vec<(&String, Vec<String>)> =
        definitions.iter().map(|(name, schema)| (name, references(schema))).collect();
    loop {
        let names: Vec<String> = left.iter().map(|(name, _)| format!("#/$defs/{name}")).collect();
        let before = left.len();
        left.retain(|(_, targets)| targets.iter().any(|target| target == "#" || names.contains(target)));
        if left.len() == before {
            return before > 0 || mentions_root(root);
        }
    }
}

fn references(schema: &Value) -> Vec<String> {
    match schema {
        Value::Object(keys) => {
            let own = keys.get("$ref").and_then(Value::as_str).map(str::to_string);
            own.into_iter().chain(keys.values().flat_map(references)).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::{Finish, Script, Scripted, Usage};

    fn reply(text: &str) -> Reply {
        Reply {
            parts: vec![Part::text(text)],
            finish: Finish::Stop,
            usage: Usage::default(),
            model: "m".into(),
            from_cache: false,
        }
    }

    fn decoded(schema: Value, text: &str) -> Result<Value, ParseError> {
        decode(&OutputSchema::native("T", schema), &reply(text))
    }

    fn ticket() -> Value {
        json!({
            "type": "object",
            "properties": {
                "id": {"type": "string", "minLength": 3, "description": "The id"},
                "severity": {"type": "integer", "minimum": 1, "maximum": 5},
                "address": {"$ref": "#/$defs/Address", "description": "Where"},
                "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
                "due": {"type": ["string", "null"], "format": "uri"},
                "kind": {"enum": ["a", "b"]},
            },
            "required": ["id"],
            "additionalProperties": false,
            "$defs": {"Address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
                "required": ["street"], "additionalProperties": false}},
        })
    }

    #[test]
    fn openai_gets_every_member_required_and_unsayable_limits_as_words() {
        assert_eq!(
            strict(&ticket(), &SchemaDialect::OPENAI),
            Some(json!({
                "type": "object",
                "properties": {
                    "id": {"type": "string", "description": "The id (minLength: 3)"},
                    "severity": {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 5}, {"type": "null"}]},
                    "address": {"anyOf": [{"$ref": "#/$defs/Address"}, {"type": "null"}]},
                    "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}, "minItems": 1}, {"type": "null"}]},
                    "due": {"anyOf": [{"type": "string", "description": "(format: uri)"}, {"type": "null"}]},
                "kind": {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}]},
                },
                "required": ["id", "severity", "address", "tags", "due", "kind"],
                "additionalProperties": false,
                "$defs": {"Address": {"type": "object",
                    "properties": {"street": {"type": "string"}, "city": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
                    "required": ["street", "city"], "additionalProperties": false}},
            }))
        );
    }

    #[test]
    fn anthropic_keeps_optional_members_and_says_limits_as_words() {
        let strict = strict(&ticket(), &SchemaDialect::ANTHROPIC).unwrap();
        assert_eq!(strict["required"], json!(["id"]));
        assert_eq!(
            strict["properties"]["severity"],
            json!({"type": "integer", "description": "(minimum: 1; maximum: 5)"})
        );
    }

    #[test]
    fn unions_lists_and_scalars_travel_in_an_envelope() {
        let union = json!({"oneOf": [{"$ref": "#/$defs/A"}, {"type": "null"}],
            "$defs": {"A": {"type": "object", "properties": {"type": {"const": "A"}}, "required": ["type"], "additionalProperties": false}}});
        assert_eq!(
            strict(&union, &SchemaDialect::OPENAI),
            Some(json!({
                "type": "object",
                "properties": {"value": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}},
                "required": ["value"],
                "additionalProperties": false,
                "$defs": {"A": {"type": "object", "properties": {"type": {"type": "string", "const": "A"}}, "required": ["type"], "additionalProperties": false}},
            }))
        );
        let list = json!({"type": "array", "items": {"type": "integer"}});
        assert_eq!(decoded(list.clone(), r#"{"value": [1]}"#), Ok(json!([1])));
        assert_eq!(decoded(list.clone(), "[1]"), Ok(json!([1])), "a model that left the envelope out");
        assert_eq!(unwrap(&list, wrap(&list, json!([1]))), json!([1]));
        let nothing = json!({"anyOf": [{"type": "object"}, {"type": "null"}]});
        assert_eq!(decoded(nothing, r#"{"value": null}"#), Ok(Value::Null));
    }

    #[test]
    fn what_no_strict_mode_says_is_left_to_the_caller() {
        let open = json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": true});
        let map = json!({"type": "object", "additionalProperties": {"type": "integer"}});
        let any = json!({"type": "object", "properties": {"a": {}}, "additionalProperties": false});
        let tuple = json!({"type": "array", "prefixItems": [{"type": "string"}]});
        for schema in [open, map, any, tuple, json!(true), json!({"type": "array"})] {
            assert_eq!(strict(&schema, &SchemaDialect::OPENAI), None, "{schema}");
        }
        let tree = json!({"type": "object", "properties": {"next": {"$ref": "#/$defs/T"}}, "required": [], "additionalProperties": false,
            "$defs": {"T": {"type": "object", "properties": {"next": {"$ref": "#/$defs/T"}}, "additionalProperties": false}}});
        assert!(strict(&tree, &SchemaDialect::OPENAI).is_some());
        assert_eq!(strict(&tree, &SchemaDialect::ANTHROPIC), None);
    }

    #[test]
    fn values_of_several_types_become_one_branch_for_each() {
        let schema = |sign: Value| json!({"type": "object", "properties": {"sign": sign}, "required": ["sign"], "additionalProperties": false});
        let sign = |sign: Value| {
            strict(&schema(sign), &SchemaDialect::OPENAI).map(|strict| strict["properties"]["sign"].clone())
        };
        assert_eq!(
            sign(json!({"type": ["string", "null"], "enum": ["leo", "virgo", null], "description": "Sun sign"})),
            Some(
                json!({"anyOf": [{"type": "string", "enum": ["leo", "virgo"]}, {"type": "null"}], "description": "Sun sign"})
            )
        );
        assert_eq!(
            sign(json!({"enum": ["leo", 3]})),
            Some(json!({"anyOf": [{"type": "integer", "enum": [3]}, {"type": "string", "enum": ["leo"]}]}))
        );
        assert_eq!(sign(json!({"enum": [[1]]})), None);
        assert_eq!(sign(json!({"enum": ["leo"]})), Some(json!({"type": "string", "enum": ["leo"]})));
    }

    #[test]
    fn nulls_that_mean_absent_are_dropped_and_others_stay() {
        let text = r#"{"id": "x", "severity": null, "address": {"street": "s", "city": null}, "tags": null, "due": null, "kind": "a"}"#;
        assert_eq!(
            decoded(ticket(), text),
            Ok(json!({"id": "x", "address": {"street": "s"}, "due": null, "kind": "a"}))
        );
        let union = json!({"type": "array", "items": {"anyOf": [
            {"type": "object", "properties": {"type": {"const": "A"}, "x": {"type": ["string", "null"]}}, "required": ["type"], "additionalProperties": false},
            {"type": "object", "properties": {"type": {"const": "B"}, "x": {"type": "string"}}, "required": ["type"], "additionalProperties": false},
        ]}});
        let text = r#"[{"type": "A", "x": null}, {"type": "B", "x": null}]"#;
        assert_eq!(decoded(union, text), Ok(json!([{"type": "A", "x": null}, {"type": "B"}])));
    }

    #[test]
    fn a_text_type_takes_a_reply_that_is_no_json() {
        let optional = json!({"anyOf": [{"type": "string"}, {"type": "null"}]});
        assert_eq!(decoded(optional.clone(), "Once upon a time\n"), Ok(json!("Once upon a time")));
        assert_eq!(decoded(optional.clone(), r#"{"value": "x"}"#), Ok(json!("x")));
        assert_eq!(decoded(optional, "null"), Ok(Value::Null));
        assert_eq!(decoded(json!({"enum": ["low", "high"]}), "low"), Ok(json!("low")));
        assert!(decoded(json!({"type": "object"}), "Once upon a time").is_err());
    }

    #[test]
    fn instructions_stand_at_the_end_of_the_prompt_only_where_they_are_needed() {
        struct Plain;
        #[async_trait::async_trait]
        impl Llm for Plain {
            fn capabilities(&self, _: &str) -> crate::llm::Capabilities {
                crate::llm::Capabilities::default()
            }
            async fn call(&self, _: &Request, _: &dyn crate::llm::DeltaSink) -> Result<Reply, crate::llm::LlmError> {
                Ok(reply(""))
            }
            fn wire(&self, _: &Request) -> Value {
                Value::Null
            }
        }
        let output = OutputSchema::native("Stars", json!({"type": "object"}));
        let mut request = Request { messages: vec![Message::user("Go")], output: Some(output), ..Request::default() };
        place_output(&Scripted::new(Script::default()), &mut request);
        assert_eq!(request.messages[0].text(), "Go");
        place_output(&Plain, &mut request);
        assert_eq!(request.output.as_ref().map(|output| output.mode), Some(OutputMode::Instructions));
        let prompt = request.messages[0].text();
        assert!(prompt.starts_with("Go\n\nAnswer with one JSON value") && prompt.contains("`Stars`"), "{prompt}");
    }
}
