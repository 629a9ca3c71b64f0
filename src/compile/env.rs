//! `${env:NAME}` and `${env:NAME:-default}`: where they may stand, and their values (language.md 2).

use crate::decl::ReadCx;
use crate::diag::Diagnostic;
use crate::source::{Node, NodeKind, Source, Text};
use crate::world::World;

/// How a reference to an environment variable begins.
const OPEN: &str = "${env:";

/// Sections of the project file in which environment variables may be named.
const SECTIONS: &[&str] = &["providers", "mcp_servers", "store", "server"];

/// Mappings inside bodies in which environment variables may be named: the body's key and the key in it.
const IN_BODIES: &[(&str, &str)] = &[("http", "headers"), ("exec", "env")];

/// Deepest nesting that is walked; deeper trees were refused when they were read.
const DEPTH_MAX: usize = 80;

/// A string whose environment variables were looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The text with the values put in; variables without a value are left out.
    pub value: String,
    /// Whether a value of the environment is part of it, so that it is a secret.
    pub is_secret: bool,
    /// Variables that have neither a value nor a default.
    pub missing: Vec<String>,
}

/// Puts the values of environment variables into a string.
pub fn resolve(text: &str, world: &dyn World) -> Resolved {
    let mut resolved = Resolved { value: String::new(), is_secret: false, missing: Vec::new() };
    let mut rest = text;
    while let Some(at) = rest.find(OPEN) {
        resolved.value.push_str(&rest[..at]);
        let inside = &rest[at + OPEN.len()..];
        let Some(end) = inside.find('}') else {
            resolved.value.push_str(&rest[at..]);
            return resolved;
        };
        let (name, default) = match inside[..end].split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (&inside[..end], None),
        };
        match world.env(name).filter(|value| default.is_none() || !value.is_empty()) {
            Some(value) => {
                resolved.is_secret = true;
                resolved.value.push_str(&value);
            }
            None => match default {
                Some(default) => resolved.value.push_str(default),
                None if is_name(name) => resolved.missing.push(name.to_owned()),
                // What is no name was reported where it stands.
                None => {}
            },
        }
        rest = &inside[end + 1..];
    }
    resolved.value.push_str(rest);
    resolved
}

/// The references in a string as they are written, such as `${env:NAME}`, each once.
pub fn references(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for part in text.split(OPEN).skip(1) {
        if let Some((inside, _)) = part.split_once('}') {
            let written = format!("{OPEN}{inside}}}");
            if !found.contains(&written) {
                found.push(written);
            }
        }
    }
    found
}

/// The variables that a string names, in order.
pub fn variables(text: &str) -> Vec<String> {
    let after = text.split(OPEN).skip(1);
    after.filter_map(|part| part.split('}').next()?.split(":-").next().map(str::to_owned)).collect()
}

/// Reports environment variables where they may not stand and those that are written wrongly.
pub(crate) fn check_places(root: &Node, source: &Source, cx: &mut ReadCx) {
    if !source.text().contains(OPEN) {
        return;
    }
    let is_project = super::load::PROJECT_FILES.contains(&source.path());
    let Some(map) = root.as_map() else { return };
    for entry in map {
        let allowed = is_project && SECTIONS.contains(&entry.key.value.as_str());
        if let ("references", Some(references)) = (entry.key.value.as_str(), entry.value.as_map()) {
            let keys = references.iter().filter_map(|reference| reference.value.as_map()).flatten();
            keys.for_each(|key| walk(&key.value, &key.key.value, "", key.key.value == "headers", 0, cx));
            continue;
        }
        walk(&entry.value, &entry.key.value, "", allowed, 0, cx);
    }
}

fn walk(node: &Node, key: &str, parent: &str, allowed: bool, depth: usize, cx: &mut ReadCx) {
    if depth > DEPTH_MAX {
        return;
    }
    let allowed = allowed || IN_BODIES.contains(&(parent, key));
    match &node.kind {
        NodeKind::Text(text) => check_text(text, allowed, cx),
        NodeKind::List(items) => items.iter().for_each(|item| walk(item, key, parent, allowed, depth + 1, cx)),
        NodeKind::Map(map) => {
            map.iter().for_each(|entry| walk(&entry.value, &entry.key.value, key, allowed, depth + 1, cx));
        }
        NodeKind::Null | NodeKind::Bool(_) | NodeKind::Int(_) | NodeKind::Float(_) | NodeKind::Hole => {}
    }
}

fn check_text(text: &Text, allowed: bool, cx: &mut ReadCx) {
    let mut from = 0;
    while let Some(at) = text.value[from..].find(OPEN).map(|at| from + at) {
        let end = text.value[at..].find('}').map(|end| at + end + 1);
        let span = text.span_of(at..end.unwrap_or(text.value.len()));
        if !allowed {
            cx.report(Diagnostic::error("misplaced-env", span, "environment variables cannot be used here").help(
                "they are resolved in the project file's `providers`, `mcp_servers`, `store` and `server`, in \
                     `http.headers`, in `exec.env` and in the `headers` of references",
            ));
        } else if end.is_none_or(|end| !is_name(&text.value[at + OPEN.len()..end - 1])) {
            cx.report(
                Diagnostic::error("bad-env", span, "expected `${env:NAME}` or `${env:NAME:-default}`")
                    .help("a name has letters, digits and `_`, and does not begin with a digit"),
            );
        }
        from = end.unwrap_or(text.value.len());
    }
}

fn is_name(inside: &str) -> bool {
    let name = inside.split(":-").next().unwrap_or(inside);
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::MemoryWorld;

    #[test]
    fn values_defaults_and_missing_variables() {
        let mut world = MemoryWorld::new();
        world.set_env("KEY", "abc");
        let found = resolve("Bearer ${env:KEY} ${env:NO:-x} ${env:GONE}!", &world);
        assert_eq!(found.value, "Bearer abc x !");
        assert!(found.is_secret);
        assert_eq!(found.missing, ["GONE"]);
        assert_eq!(variables("${env:A} ${env:B:-c}"), ["A", "B"]);
    }
}
