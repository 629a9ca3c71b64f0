//! A document and those that it refers to, as one: what stands elsewhere is taken in among the schemas, once, and
//! references lead there. Circles between documents stay circles of references.

use std::collections::{HashMap, HashSet, VecDeque};

use indexmap::IndexMap;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

/// The most documents of one reference.
pub const DOCUMENTS_MAX: usize = 200;
/// The most values that are taken in from other documents.
const TAKEN_MAX: usize = 1_000_000;
/// Deepest nesting that is walked.
const DEPTH_MAX: usize = 200;
/// Keys whose values are data, in which `$ref` means nothing.
const DATA: &[&str] = &["example", "examples", "default", "enum", "const"];

/// Finds the name of a document from the name of one that refers to it and what is written there.
pub type Join<'a> = &'a dyn Fn(&str, &str) -> Result<String, String>;

/// Documents by their names: paths, or URLs.
#[derive(Debug)]
pub struct Bundle {
    main: String,
    trees: IndexMap<String, Value>,
}

impl Bundle {
    /// A document alone.
    pub fn new(main: &str, tree: Value) -> Bundle {
        Bundle { main: main.to_owned(), trees: IndexMap::from([(main.to_owned(), tree)]) }
    }

    /// Adds a document.
    pub fn add(&mut self, name: &str, tree: Value) {
        self.trees.insert(name.to_owned(), tree);
    }

    /// Names of the documents that those which are here refer to, and that are not.
    ///
    /// # Errors
    /// A reference that leads to no document that may be read, or too many documents.
    pub fn missing(&self, join: Join<'_>) -> Result<Vec<String>, String> {
        let mut names: Vec<String> = Vec::new();
        for (of, tree) in &self.trees {
            let mut targets = Vec::new();
            outside(tree, 0, &mut targets);
            for target in targets {
                let name = join(of, target).map_err(|why| format!("`{of}` refers to `{target}`: {why}"))?;
                if !self.trees.contains_key(&name) && !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        if self.trees.len() + names.len() > DOCUMENTS_MAX {
            return Err(format!("`{}` refers to more than {DOCUMENTS_MAX} documents", self.main));
        }
        Ok(names)
    }

    /// One document of all of them.
    ///
    /// # Errors
    /// A reference to what is not there, or more than can be taken in.
    pub fn whole(self, join: Join<'_>) -> Result<Value, String> {
        let main = self.main.clone();
        let mut whole = self.trees.get(&main).cloned().unwrap_or_default();
        if self.trees.len() == 1 {
            return Ok(whole);
        }
        let known = whole.pointer("/components/schemas").and_then(Value::as_object);
        let known: HashSet<String> = known.into_iter().flat_map(|schemas| schemas.keys().cloned()).collect();
        let mut taking = Taking { main: &main, join, names: HashMap::new(), used: known, due: VecDeque::new() };
        taking.turn(&mut whole, &main, 0)?;
        let (mut taken, mut count) = (Map::new(), 0);
        while let Some((name, of, pointer)) = taking.due.pop_front() {
            let found = self.trees.get(&of).and_then(|tree| tree.pointer(&pointer)).cloned();
            let mut found = found.ok_or_else(|| format!("`{of}` has no `#{pointer}`, which is referred to"))?;
            count += size(&found, 0);
            if count > TAKEN_MAX {
                return Err(format!("`{main}` takes in more than {TAKEN_MAX} values from other documents"));
            }
            taking.turn(&mut found, &of, 0)?;
            taken.insert(name, found);
        }
        let Value::Object(members) = &mut whole else { return Ok(whole) };
        let components = members.entry("components").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(components) = components {
            let schemas = components.entry("schemas").or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(schemas) = schemas {
                schemas.extend(taken);
            }
        }
        Ok(whole)
    }
}

/// What is taken in from other documents.
struct Taking<'a> {
    main: &'a str,
    join: Join<'a>,
    /// The names that places of other documents have among the schemas.
    names: HashMap<(String, String), String>,
    used: HashSet<String>,
    /// What is still to be taken in: its name, its document and its place there.
    due: VecDeque<(String, String, String)>,
}

impl Taking<'_> {
    /// Turns the references in a value of a document to where they lead now.
    fn turn(&mut self, value: &mut Value, of: &str, depth: usize) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("`{of}` is nested deeper than {DEPTH_MAX}"));
        }
        match value {
            Value::Object(members) => {
                if let Some(Value::String(target)) = members.get_mut("$ref") {
                    let (document, pointer) = parts(target);
                    let document = match document {
                        "" => of.to_owned(),
                        written => (self.join)(of, written).map_err(|why| format!("`{of}`: {why}"))?,
                    };
                    *target = match document == self.main {
                        true => format!("#{pointer}"),
                        // A fragment of a URI.
                        false => self.name(document, &percent_decode_str(pointer).decode_utf8_lossy()),
                    };
                }
                members
                    .iter_mut()
                    .filter(|(key, _)| !is_data(key))
                    .try_for_each(|(key, member)| self.turn_member(key, member, of, depth))
            }
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.turn(item, of, depth + 1)),
            _ => Ok(()),
        }
    }

    fn turn_member(&mut self, key: &str, member: &mut Value, of: &str, depth: usize) -> Result<(), String> {
        match member {
            // The keys are names there, whatever they look like.
            Value::Object(named) if names_its_members(key) => {
                named.values_mut().try_for_each(|value| self.turn(value, of, depth + 2))
            }
            member => self.turn(member, of, depth + 1),
        }
    }

    /// Where a place of another document is found among the schemas.
    fn name(&mut self, document: String, pointer: &str) -> String {
        let key = (document, pointer.to_owned());
        let name = match self.names.get(&key) {
            Some(name) => name.clone(),
            None => {
                let last = pointer.rsplit('/').next().filter(|last| !last.is_empty());
                let file = || key.0.rsplit('/').next().unwrap_or_default().split('.').next().unwrap_or_default();
                let wanted: String = last.unwrap_or_else(file).chars().filter(|c| !"~/%#".contains(*c)).collect();
                let wanted = if wanted.is_empty() { "schema".to_owned() } else { wanted };
                let mut name = wanted.clone();
                let mut number = 2;
                while !self.used.insert(name.clone()) {
                    name = format!("{wanted}_{number}");
                    number += 1;
                }
                self.due.push_back((name.clone(), key.0.clone(), key.1.clone()));
                self.names.insert(key, name.clone());
                name
            }
        };
        format!("#/components/schemas/{name}")
    }
}

/// The document and the place in it that a reference names; both may be empty.
fn parts(target: &str) -> (&str, &str) {
    target.split_once('#').unwrap_or((target, ""))
}

fn is_data(key: &str) -> bool {
    DATA.contains(&key) || key.starts_with("x-")
}

fn names_its_members(key: &str) -> bool {
    matches!(key, "properties" | "patternProperties" | "$defs" | "definitions" | "schemas" | "paths" | "responses")
}

/// The documents that the references of a value name, as they are written.
fn outside<'a>(value: &'a Value, depth: usize, found: &mut Vec<&'a str>) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(members) => {
            let target = members.get("$ref").and_then(Value::as_str).map(|target| parts(target).0);
            found.extend(target.filter(|document| !document.is_empty() && !found.contains(document)));
            for (key, member) in members.iter().filter(|(key, _)| !is_data(key)) {
                match member {
                    Value::Object(named) if names_its_members(key) => {
                        named.values().for_each(|value| outside(value, depth + 2, found));
                    }
                    member => outside(member, depth + 1, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| outside(item, depth + 1, found)),
        _ => {}
    }
}

/// How many values a value holds.
fn size(value: &Value, depth: usize) -> usize {
    if depth > DEPTH_MAX {
        return 1;
    }
    1 + match value {
        Value::Object(members) => members.values().map(|member| size(member, depth + 1)).sum(),
        Value::Array(items) => items.iter().map(|item| size(item, depth + 1)).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Names are paths; `..` is not followed.
    fn join(_: &str, written: &str) -> Result<String, String> {
        match written.starts_with("http") {
            true => Err("it is elsewhere".to_owned()),
            false => Ok(written.to_owned()),
        }
    }

    #[test]
    fn what_stands_elsewhere_is_taken_in_once_and_circles_stay_references() {
        let main = json!({"paths": {"/a": {"$ref": "paths.yaml#/%61"}}, "components": {"schemas": {"Pet": {"type": "string"}}}});
        let mut bundle = Bundle::new("main.yaml", main);
        assert_eq!(bundle.missing(&join), Ok(vec!["paths.yaml".to_owned()]));
        bundle.add(
            "paths.yaml",
            json!({"a": {"get": {"schema": {"$ref": "types.yaml#/Pet"}, "example": {"$ref": "none.yaml"}}},
                "Owner": {"properties": {"example": {"$ref": "types.yaml#/Pet"}, "own": {"$ref": "#/Owner"}}}}),
        );
        assert_eq!(bundle.missing(&join), Ok(vec!["types.yaml".to_owned()]));
        bundle.add("types.yaml", json!({"Pet": {"owner": {"$ref": "paths.yaml#/Owner"}, "own": {"$ref": "main.yaml#/components/schemas/Pet"}}}));
        assert_eq!(bundle.missing(&join), Ok(Vec::new()));
        let whole = bundle.whole(&join).expect("one document");
        assert_eq!(whole["paths"]["/a"]["$ref"], "#/components/schemas/a");
        let schemas = &whole["components"]["schemas"];
        assert_eq!(schemas["a"]["get"]["schema"]["$ref"], "#/components/schemas/Pet_2");
        assert_eq!(schemas["a"]["get"]["example"]["$ref"], "none.yaml");
        assert_eq!(schemas["Pet_2"]["owner"]["$ref"], "#/components/schemas/Owner");
        assert_eq!(schemas["Pet_2"]["own"]["$ref"], "#/components/schemas/Pet");
        assert_eq!(schemas["Owner"]["properties"]["example"]["$ref"], "#/components/schemas/Pet_2");
        assert_eq!(schemas["Owner"]["properties"]["own"]["$ref"], "#/components/schemas/Owner");
        assert_eq!(schemas["Pet"], json!({"type": "string"}));
    }

    #[test]
    fn references_to_nothing_and_out_of_what_may_be_read_are_told() {
        let refers = |to: &str| Bundle::new("main.yaml", json!({"a": {"$ref": to}}));
        let wrong = refers("https://example.com/x.yaml#/a").missing(&join).expect_err("it may not be read");
        assert_eq!(wrong, "`main.yaml` refers to `https://example.com/x.yaml`: it is elsewhere");
        let mut bundle = refers("other.yaml#/a/b");
        bundle.add("other.yaml", json!({"a": {}}));
        assert_eq!(
            bundle.whole(&join).expect_err("nothing is there"),
            "`other.yaml` has no `#/a/b`, which is referred to"
        );
    }
}
