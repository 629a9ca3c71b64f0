//! An OpenAPI document (3.0 and 3.1, JSON or YAML) as operations.
//!
//! References within the document are followed where a parameter, a body or a path item is one; schemas keep theirs, so
//! that circles in them do no harm. What is wrong with one operation leaves the others usable.

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use crate::source::{self, Sources};
use crate::value::at_pointer;

use super::multipart::{self, Part};

/// The most operations of a document.
const OPERATIONS_MAX: usize = 10_000;
/// How many references may lead on to one another.
const REFERENCES_MAX: usize = 32;
/// The most schemas that are told with one operation.
const SCHEMAS_MAX: usize = 60;
/// Deepest nesting that is walked.
const DEPTH_MAX: usize = 100;
/// The methods that a path item may have.
const METHODS: &[&str] = &["get", "put", "post", "delete", "options", "head", "patch", "trace"];
/// Headers that a document does not declare: they are the client's own matter.
const OWN_HEADERS: &[&str] = &["accept", "content-type", "authorization"];

/// A document, read.
#[derive(Debug)]
pub struct Api {
    /// Its title.
    pub title: String,
    /// Operations by their id.
    pub operations: IndexMap<String, Operation>,
    /// The first server that it names, its variables filled in.
    pub server: Option<String>,
    /// What schemas refer to, in the words of JSON Schema 2020-12.
    components: Map<String, Value>,
}

/// One operation.
#[derive(Debug)]
pub struct Operation {
    /// Its id, or one made of method and path.
    pub id: String,
    /// `GET`, `POST`, …
    pub method: String,
    /// The path with its parameters in braces.
    pub path: String,
    /// In one line.
    pub summary: String,
    description: String,
    tags: Vec<String>,
    is_deprecated: bool,
    /// What is sent beside the body.
    pub parameters: Vec<Parameter>,
    /// What is sent as the body.
    pub body: Option<Sent>,
    responses: Map<String, Value>,
    /// The server of this operation alone.
    pub server: Option<String>,
}

/// A parameter.
#[derive(Debug)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// The name by which a call gives it: its name, or `place.name` where two have one name.
    pub key: String,
    /// Where it stands.
    pub place: Place,
    /// Whether it must be given.
    pub is_required: bool,
    /// Its schema.
    schema: Value,
    description: String,
    /// How lists and objects are written.
    pub style: String,
    /// Whether each element stands on its own.
    pub explode: bool,
}

/// Where a parameter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the path.
    Path,
    /// In the query.
    Query,
    /// In a header.
    Header,
    /// In a cookie.
    Cookie,
}

impl Place {
    fn of(word: &str) -> Option<Place> {
        [Place::Path, Place::Query, Place::Header, Place::Cookie].into_iter().find(|place| place.word() == word)
    }

    fn word(self) -> &'static str {
        match self {
            Place::Path => "path",
            Place::Query => "query",
            Place::Header => "header",
            Place::Cookie => "cookie",
        }
    }
}

/// The body of a request.
#[derive(Debug)]
pub struct Sent {
    /// Its kind, such as `application/json`.
    pub kind: String,
    /// Whether it must be given.
    pub is_required: bool,
    schema: Value,
    /// What is said of the parts of a `multipart/form-data`.
    pub parts: IndexMap<String, Part>,
}

impl Api {
    /// Reads a document; `path` names it in messages. Documents that it refers to are none of it.
    ///
    /// # Errors
    /// What is wrong with it and where, for a person.
    pub fn read(path: &str, text: &str) -> Result<Api, String> {
        Api::of(path, tree(path, text)?)
    }

    /// The document of a tree.
    ///
    /// # Errors
    /// What is wrong with it, for a person.
    pub fn of(path: &str, root: Value) -> Result<Api, String> {
        let Value::Object(members) = &root else {
            return Err(format!("`{path}` is no OpenAPI document: it is no mapping"));
        };
        match members.get("openapi").and_then(Value::as_str) {
            Some(version) if version.starts_with("3.") => {}
            Some(version) => {
                return Err(format!("`{path}` is of OpenAPI {version}; documents of 3.0 and 3.1 are read"));
            }
            None if members.contains_key("swagger") => {
                return Err(format!("`{path}` is of Swagger 2.0; convert it to OpenAPI 3.0 or 3.1"));
            }
            None => return Err(format!("`{path}` is no OpenAPI document: it has no `openapi: 3.…`")),
        }
        let mut api = Api {
            title: root.pointer("/info/title").and_then(Value::as_str).unwrap_or_default().to_owned(),
            operations: IndexMap::new(),
            server: server(&root),
            components: Map::new(),
        };
        let empty = Map::new();
        for (path_template, item) in members.get("paths").and_then(Value::as_object).unwrap_or(&empty) {
            let item = resolved(&root, item).map_err(|why| format!("`{path}`: the path `{path_template}`: {why}"))?;
            for method in METHODS {
                let Some(operation) = item.get(*method).filter(|operation| operation.is_object()) else { continue };
                if api.operations.len() >= OPERATIONS_MAX {
                    return Err(format!("`{path}` has more than {OPERATIONS_MAX} operations"));
                }
                let mut read = Operation::read(&root, method, path_template, item, operation)
                    .map_err(|why| format!("`{path}`: {} {path_template}: {why}", method.to_uppercase()))?;
                let mut number = 2;
                let id = read.id.clone();
                while api.operations.contains_key(&read.id) {
                    read.id = format!("{id}_{number}");
                    number += 1;
                }
                api.operations.insert(read.id.clone(), read);
            }
        }
        if api.operations.is_empty() {
            return Err(format!("`{path}` has no operations under `paths`"));
        }
        if let Some(components) = members.get("components").and_then(Value::as_object) {
            api.components = components.clone();
            for schema in api.components.get_mut("schemas").and_then(Value::as_object_mut).into_iter().flatten() {
                to_2020(schema.1, 0);
            }
        }
        Ok(api)
    }

    /// The operations that have all words of `query` somewhere and the tag, those named so first; a line each.
    pub fn list(&self, query: &str, tag: &str) -> Vec<String> {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let mut found: Vec<(usize, &Operation)> = Vec::new();
        for operation in self.operations.values() {
            if !tag.is_empty() && !operation.tags.iter().any(|own| own.eq_ignore_ascii_case(tag)) {
                continue;
            }
            let name = format!("{} {} {}", operation.id, operation.path, operation.summary).to_lowercase();
            let about = format!("{name} {} {}", operation.description, operation.tags.join(" ")).to_lowercase();
            if words.iter().all(|word| about.contains(word)) {
                let in_name = words.iter().filter(|word| name.contains(*word)).count();
                found.push((words.len() - in_name, operation));
            }
        }
        found.sort_by_key(|(rank, _)| *rank);
        found.into_iter().map(|(_, operation)| operation.line()).collect()
    }

    /// All tags, in order.
    pub fn tags(&self) -> Vec<&str> {
        let mut tags: Vec<&str> = Vec::new();
        for tag in self.operations.values().flat_map(|operation| &operation.tags) {
            if !tags.contains(&tag.as_str()) {
                tags.push(tag);
            }
        }
        tags
    }

    /// Everything about one operation, with the schemas that it refers to.
    pub fn describe(&self, operation: &Operation) -> Value {
        let mut told = Map::new();
        told.insert("operation".into(), json!(operation.id));
        told.insert("request".into(), json!(format!("{} {}", operation.method, operation.path)));
        for (key, text) in [("summary", &operation.summary), ("description", &operation.description)] {
            if !text.is_empty() {
                told.insert(key.into(), json!(text));
            }
        }
        if operation.is_deprecated {
            told.insert("deprecated".into(), json!(true));
        }
        let parameters = operation.parameters.iter().map(|parameter| {
            let mut about =
                json!({"in": parameter.place.word(), "required": parameter.is_required, "schema": parameter.schema});
            if !parameter.description.is_empty() {
                about["description"] = json!(parameter.description);
            }
            (parameter.key.clone(), about)
        });
        told.insert("parameters".into(), Value::Object(parameters.collect()));
        if let Some(body) = &operation.body {
            let mut about = json!({"content_type": body.kind, "required": body.is_required, "schema": body.schema});
            if body.parts.values().any(|part| part.is_file) {
                about["note"] = json!(multipart::NOTE);
            }
            told.insert("body".into(), about);
        }
        told.insert("responses".into(), Value::Object(operation.responses.clone()));
        let mut told = Value::Object(told);
        let schemas = self.reached(&told);
        if !schemas.is_empty() {
            told["schemas"] = Value::Object(schemas);
        }
        told
    }

    /// The schemas that a value refers to, those that they refer to as well, each once and by its name.
    fn reached(&self, from: &Value) -> Map<String, Value> {
        let mut names: Vec<String> = Vec::new();
        references(from, 0, &mut names);
        let mut found = Map::new();
        let mut next = 0;
        while let Some(name) = names.get(next).cloned() {
            next += 1;
            if found.len() >= SCHEMAS_MAX {
                break;
            }
            let Some(schema) = self.components.get("schemas").and_then(|schemas| schemas.get(&name)) else { continue };
            references(schema, 0, &mut names);
            found.insert(name, schema.clone());
        }
        found
    }

    /// The JSON Schema of what a call of an operation gives: `parameters` by their keys, and `body`.
    pub fn schema(&self, operation: &Operation) -> Value {
        let parameters: Map<String, Value> =
            operation.parameters.iter().map(|one| (one.key.clone(), one.schema.clone())).collect();
        let required: Vec<&str> =
            operation.parameters.iter().filter(|one| one.is_required).map(|one| one.key.as_str()).collect();
        let mut properties = Map::new();
        properties.insert(
            "parameters".into(),
            json!({"type": "object", "properties": parameters, "required": required, "additionalProperties": false}),
        );
        let mut needed = vec!["parameters"];
        if let Some(body) = &operation.body {
            properties.insert("body".into(), body.schema.clone());
            needed.extend(body.is_required.then_some("body"));
        }
        json!({
            "type": "object", "properties": properties, "required": needed, "additionalProperties": false,
            "components": {"schemas": self.components.get("schemas").cloned().unwrap_or_else(|| json!({}))},
        })
    }
}

impl Operation {
    fn read(root: &Value, method: &str, path: &str, item: &Value, of: &Value) -> Result<Operation, String> {
        let text = |key: &str| of.get(key).and_then(Value::as_str).unwrap_or_default().trim().to_owned();
        let mut parameters: Vec<Parameter> = Vec::new();
        for list in [item.get("parameters"), of.get("parameters")].into_iter().flatten() {
            for parameter in list.as_array().into_iter().flatten() {
                let Some(read) = Parameter::read(root, parameter)? else { continue };
                // An operation's own takes the place of the path's.
                parameters.retain(|known| (&known.name, known.place) != (&read.name, read.place));
                parameters.push(read);
            }
        }
        for at in 0..parameters.len() {
            let is_twice = |one: &Parameter| one.name == parameters[at].name;
            if parameters.iter().filter(|one| is_twice(one)).count() > 1 {
                parameters[at].key = format!("{}.{}", parameters[at].place.word(), parameters[at].name);
            }
        }
        let body = of.get("requestBody").map(|body| Sent::read(root, body)).transpose()?.flatten();
        let mut responses = Map::new();
        for (status, response) in of.get("responses").and_then(Value::as_object).into_iter().flatten() {
            // One that cannot be followed is not told; the others are.
            let Ok(response) = resolved(root, response) else { continue };
            let mut told = Map::new();
            told.extend(response.get("description").map(|about| ("description".to_owned(), about.clone())));
            if let Some(mut schema) = content(response).and_then(|(_, content)| content.get("schema").cloned()) {
                to_2020(&mut schema, 0);
                told.insert("schema".into(), schema);
            }
            responses.insert(status.clone(), Value::Object(told));
        }
        let tags = of.get("tags").and_then(Value::as_array).into_iter().flatten();
        let id = text("operationId");
        let description = text("description");
        let summary = text("summary");
        Ok(Operation {
            id: if id.is_empty() { made_up(method, path) } else { id },
            method: method.to_uppercase(),
            path: path.to_owned(),
            summary: if summary.is_empty() {
                first_line(&description).to_owned()
            } else {
                first_line(&summary).to_owned()
            },
            description,
            tags: tags.filter_map(Value::as_str).map(str::to_owned).collect(),
            is_deprecated: of.get("deprecated") == Some(&Value::Bool(true)),
            parameters,
            body,
            responses,
            server: server(of).or_else(|| server(item)),
        })
    }

    /// `GET /pets listPets: All pets`.
    fn line(&self) -> String {
        let summary = if self.summary.is_empty() { String::new() } else { format!(": {}", self.summary) };
        let old = if self.is_deprecated { " (deprecated)" } else { "" };
        format!("{}  {} {}{summary}{old}", self.id, self.method, self.path)
    }
}

impl Parameter {
    fn read(root: &Value, written: &Value) -> Result<Option<Parameter>, String> {
        let written = resolved(root, written)?;
        let text = |key: &str| written.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = text("name");
        let Some(place) = Place::of(&text("in")) else {
            return Err(format!(
                "the parameter `{name}` is in `{}`; expected path, query, header or cookie",
                text("in")
            ));
        };
        if place == Place::Header && OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            return Ok(None);
        }
        let mut schema = match written.get("schema").or_else(|| content(written)?.1.get("schema")) {
            Some(schema) => schema.clone(),
            None => json!({}),
        };
        to_2020(&mut schema, 0);
        let style = match (text("style").as_str(), place) {
            ("", Place::Query | Place::Cookie) => "form".to_owned(),
            ("", Place::Path | Place::Header) => "simple".to_owned(),
            (style, _) => style.to_owned(),
        };
        let explode = written.get("explode").and_then(Value::as_bool).unwrap_or(style == "form");
        let is_required = place == Place::Path || written.get("required") == Some(&Value::Bool(true));
        let (key, description) = (name.clone(), text("description").trim().to_owned());
        Ok(Some(Parameter { name, key, place, is_required, schema, description, style, explode }))
    }
}

impl Sent {
    fn read(root: &Value, written: &Value) -> Result<Option<Sent>, String> {
        let written = resolved(root, written)?;
        let Some((kind, content)) = content(written) else { return Ok(None) };
        let mut schema = content.get("schema").cloned().unwrap_or_else(|| json!({}));
        to_2020(&mut schema, 0);
        let is_required = written.get("required") == Some(&Value::Bool(true));
        let parts = if kind.starts_with("multipart/") { parts(root, content)? } else { IndexMap::new() };
        Ok(Some(Sent { kind: kind.to_owned(), is_required, schema, parts }))
    }
}

/// What a document says of the parts of a body: which are files, and their content types.
fn parts(root: &Value, content: &Value) -> Result<IndexMap<String, Part>, String> {
    let mut parts: IndexMap<String, Part> = IndexMap::new();
    let schema = content.get("schema").map(|schema| resolved(root, schema)).transpose()?;
    let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let property = resolved(root, property)?;
        let one = match property.get("items") {
            Some(items) => resolved(root, items)?,
            None => property,
        };
        let is_file = one.get("format").and_then(Value::as_str) == Some("binary")
            || one.get("contentMediaType").is_some()
            || one.get("contentEncoding").is_some();
        let kind = one.get("contentMediaType").and_then(Value::as_str).map(str::to_owned);
        parts.insert(name.clone(), Part { is_file, kind });
    }
    for (name, encoding) in content.get("encoding").and_then(Value::as_object).into_iter().flatten() {
        // Of several kinds the first is sent; a pattern of them says nothing.
        let kind = encoding.get("contentType").and_then(Value::as_str).and_then(|kinds| kinds.split(',').next());
        if let Some(kind) = kind.map(str::trim).filter(|kind| !kind.contains('*')) {
            parts.entry(name.clone()).or_default().kind = Some(kind.to_owned());
        }
    }
    Ok(parts)
}

/// The content that is sent or told: JSON where there is some, else a form, else the first.
fn content(of: &Value) -> Option<(&str, &Value)> {
    let all = of.get("content")?.as_object()?;
    let is_json = |kind: &str| kind.starts_with("application/json") || kind.ends_with("+json");
    let json = all.iter().find(|(kind, _)| is_json(kind));
    let form = || all.iter().find(|(kind, _)| kind.starts_with("application/x-www-form-urlencoded"));
    let form = || form().or_else(|| all.iter().find(|(kind, _)| kind.starts_with("multipart/form-data")));
    json.or_else(form).or_else(|| all.iter().next()).map(|(kind, content)| (kind.as_str(), content))
}

/// What a reference leads to; anything else is itself.
fn resolved<'a>(root: &'a Value, value: &'a Value) -> Result<&'a Value, String> {
    let mut at = value;
    for _ in 0..REFERENCES_MAX {
        let Some(target) = at.get("$ref").and_then(Value::as_str) else { return Ok(at) };
        let Some(pointer) = target.strip_prefix('#') else {
            return Err(format!("it refers to `{target}`; only references within the document are followed"));
        };
        at = at_pointer(root, pointer).ok_or_else(|| format!("it refers to `{target}`, which is not there"))?;
    }
    Err("its references lead in a circle".to_owned())
}

/// Names of the schemas that a value refers to; those that are known are not added again.
fn references(value: &Value, depth: usize, names: &mut Vec<String>) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(members) => {
            let target = members.get("$ref").and_then(Value::as_str);
            let name = target.and_then(|target| target.strip_prefix("#/components/schemas/"));
            if let Some(name) =
                name.map(|name| name.replace("~1", "/").replace("~0", "~")).filter(|name| !names.contains(name))
            {
                names.push(name);
            }
            members.values().for_each(|member| references(member, depth + 1, names));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, depth + 1, names)),
        _ => {}
    }
}

/// Says in the words of JSON Schema 2020-12 what OpenAPI 3.0 says in its own: `nullable`, exclusive limits as flags.
fn to_2020(schema: &mut Value, depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    match schema {
        Value::Object(members) => {
            if members.remove("nullable") == Some(Value::Bool(true)) {
                match members.get_mut("type") {
                    Some(of @ Value::String(_)) => *of = json!([of.clone(), "null"]),
                    Some(_) => {}
                    None => {
                        let rest = Value::Object(std::mem::take(members));
                        members.insert("anyOf".into(), json!([rest, {"type": "null"}]));
                    }
                }
                if let Some(Value::Array(values)) = members.get_mut("enum")
                    && !values.contains(&Value::Null)
                {
                    values.push(Value::Null);
                }
            }
            for (flag, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
                if let Some(Value::Bool(is_exclusive)) = members.get(flag).cloned() {
                    members.remove(flag);
                    if let Some(limit) = is_exclusive.then(|| members.remove(limit)).flatten() {
                        members.insert(flag.to_owned(), limit);
                    }
                }
            }
            members.values_mut().for_each(|member| to_2020(member, depth + 1));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| to_2020(item, depth + 1)),
        _ => {}
    }
}

/// The first server of a document, path or operation, its variables filled in with their defaults.
fn server(of: &Value) -> Option<String> {
    let server = of.get("servers")?.get(0)?;
    let mut url = server.get("url")?.as_str()?.to_owned();
    for (name, variable) in server.get("variables").and_then(Value::as_object).into_iter().flatten() {
        let default = variable.get("default").and_then(Value::as_str).unwrap_or_default();
        url = url.replace(&format!("{{{name}}}"), default);
    }
    Some(url)
}

/// An id of method and path: `get_pets_id`.
fn made_up(method: &str, path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(method).chain(words).collect::<Vec<_>>().join("_")
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim()
}

/// The document as data: JSON where it begins with a brace, else YAML.
///
/// # Errors
/// Where it cannot be read, for a person.
pub fn tree(path: &str, text: &str) -> Result<Value, String> {
    if text.trim_start().starts_with('{') {
        let wrong = match serde_json::from_str(text) {
            Ok(value) => return Ok(value),
            Err(wrong) => wrong,
        };
        if path.ends_with(".json") {
            return Err(format!("`{path}` is no JSON: {wrong}"));
        }
    }
    let mut sources = Sources::new();
    let id = sources.add(path, text);
    let (node, errors) = source::read(id, sources.get(id));
    // Statuses of responses are written as numbers by nearly everyone; their texts are taken.
    if let Some(error) = errors.iter().find(|error| error.code != "non-string-key") {
        let (line, column) = sources.get(id).line_column(error.span.start);
        return Err(format!("{path}:{line}:{column}: {}", error.message));
    }
    node.map(|node| node.to_json()).ok_or_else(|| format!("`{path}` is empty"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PETS: &str = include_str!("../../../tests/samples/openapi/pets.yaml");

    fn pets() -> Api {
        Api::read("pets.yaml", PETS).expect("a sound document")
    }

    #[test]
    fn operations_are_found_by_words_and_tags_those_named_so_first() {
        let api = pets();
        assert_eq!(api.title, "Pets");
        assert_eq!(
            api.list("", ""),
            [
                "listPets  GET /pets: All pets",
                "addPet  POST /pets: Take a pet in",
                "getPet  GET /pets/{id}: One pet",
                "delete_pets_id  DELETE /pets/{id} (deprecated)",
            ]
        );
        assert_eq!(api.list("one PET", ""), ["getPet  GET /pets/{id}: One pet"]);
        // Only its description speaks of toys.
        assert_eq!(api.list("toys", ""), ["addPet  POST /pets: Take a pet in"]);
        assert_eq!(api.list("", "Shelter"), ["addPet  POST /pets: Take a pet in"]);
        assert_eq!(api.tags(), ["shelter"]);
    }

    #[test]
    fn an_operation_is_told_with_its_schemas_each_once_though_they_lead_in_circles() {
        let api = pets();
        let told = api.describe(&api.operations["addPet"]);
        assert_eq!(told["request"], "POST /pets");
        assert_eq!(told["body"]["schema"]["$ref"], "#/components/schemas/Pet");
        let names: Vec<&String> = told["schemas"].as_object().expect("schemas").keys().collect();
        assert_eq!(names, ["Pet", "Owner"]);
        // What OpenAPI 3.0 says in words of its own is said in those of JSON Schema.
        assert_eq!(
            told["schemas"]["Pet"]["properties"]["age"],
            json!({"type": ["integer", "null"], "exclusiveMinimum": 0})
        );
        let get = api.describe(&api.operations["getPet"]);
        assert_eq!(get["parameters"]["id"]["in"], "path");
        assert_eq!(get["parameters"]["trace"]["in"], "header");
        assert_eq!(get["responses"]["200"]["schema"]["$ref"], "#/components/schemas/Pet");
        assert!(get["parameters"].get("Authorization").is_none(), "the author's headers are none of the model's");
    }

    #[test]
    fn what_is_no_document_is_told_with_its_place() {
        let wrong = |text: &str| Api::read("x.yaml", text).map(|api| api.title).expect_err("it is wrong");
        assert!(wrong("swagger: '2.0'\n").contains("Swagger 2.0"));
        assert!(wrong("openapi: 4.0.0\n").contains("OpenAPI 4.0.0"));
        assert!(wrong("a: 1\n").contains("no OpenAPI document"));
        assert!(wrong("openapi: 3.0.0\npaths: {}\n").contains("no operations"));
        assert!(
            wrong("openapi: 3.0.0\npaths: [\n").starts_with("x.yaml:2:8: "),
            "{}",
            wrong("openapi: 3.0.0\npaths: [\n")
        );
        let circle = "openapi: 3.0.0\npaths:\n  /a: {$ref: '#/components/pathItems/a'}\ncomponents: {pathItems: {a: {$ref: '#/components/pathItems/a'}}}\n";
        assert!(wrong(circle).contains("lead in a circle"));
        let other = "openapi: 3.0.0\npaths: {/a: {get: {parameters: [{$ref: 'other.yaml#/p'}]}}}\n";
        // Without the file, as `Api::read` has it.
        assert!(wrong(other).contains("GET /a: it refers to `other.yaml#/p`; only references within"));
    }

    #[test]
    fn a_reference_is_the_fragment_of_a_uri() {
        let text =
            "openapi: 3.0.0\npaths:\n  '/a/{id}': {get: {operationId: one}}\n  /b: {$ref: '#/paths/~1a~1%7Bid%7D'}\n";
        let api = Api::read("x.yaml", text).expect("a document");
        assert_eq!(api.operations.len(), 2);
    }

    #[test]
    fn no_text_makes_the_reader_panic() {
        for end in (0..PETS.len()).step_by(37).filter(|end| PETS.is_char_boundary(*end)) {
            let _ = Api::read("cut.yaml", &PETS[..end]);
        }
    }
}
