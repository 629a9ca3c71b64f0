//! Long results (runtime.md 4): they are kept for one interaction, and a model looks at them through tools.

use std::sync::Arc;

use regex::RegexBuilder;
use serde_json::{Map, Value};

use crate::diag::suggest;
use crate::value::{Field, ObjectDef, Shape, ShapeKind, Types};

use super::envelope;
use super::offer::{Offered, Role};
use super::{Returns, Tool};

/// Most bytes that one look at an artifact gives.
const LOOK_BYTES_MAX: usize = 8 * 1024;
/// Bytes of a long result that stand in its place.
const HEAD_BYTES: usize = 1024;
/// Lines of a head or tail that no number is given for.
const LINES: u64 = 40;
/// Largest compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Most keys that one look lists.
const KEYS_MAX: usize = 200;
/// Most characters of a line: a longer one is several, so that looks by lines reach all of it.
const LINE_CHARS_MAX: usize = 1000;

/// A result that was kept.
#[derive(Debug)]
struct Artifact {
    /// The tool that gave it.
    source: String,
    trusted: bool,
    text: String,
    /// The document, when it is JSON.
    json: Option<Value>,
}

/// The results that one interaction has kept: `a1`, `a2`, …
#[derive(Debug, Default)]
pub struct Artifacts {
    kept: Vec<Artifact>,
    /// Kinds whose tools are offered already.
    offered: Vec<Returns>,
}

impl Artifacts {
    /// Keeps a result; gives what the model reads in its place, and the tools that are to be offered now.
    pub fn keep(&mut self, tool: &Offered, value: &Value, types: &Types) -> (String, Vec<Arc<Offered>>) {
        let (kind, text, json) = read(tool.tool.returns, value);
        let bytes = text.len();
        let (text, is_folded) = folded(text);
        let lines = text.lines().count();
        let head = cut(&text, HEAD_BYTES);
        let handle = format!("a{}", self.kept.len() + 1);
        let sealed = envelope::seal(head, tool.name(), tool.tool.trusted);
        let kind_name = match kind {
            Returns::Text => "text",
            Returns::Json => "JSON",
            Returns::Markdown => "Markdown",
        };
        let folds = match is_folded {
            true => format!(" (longer ones were broken after {LINE_CHARS_MAX} characters)"),
            false => String::new(),
        };
        let shown = format!(
            "The result is long and was kept as the artifact `{handle}`: {kind_name}, {bytes} bytes, {lines} \
             lines{folds}. Look at it with the artifact tools. It begins:\n{sealed}"
        );
        let (source, trusted) = (tool.name().to_owned(), tool.tool.trusted);
        self.kept.push(Artifact { source, trusted, text, json });
        let mut tools = Vec::new();
        for kind in [Returns::Text, kind] {
            if !self.offered.contains(&kind) {
                self.offered.push(kind);
                tools.extend(tools_of(kind).into_iter().map(|tool| {
                    let offered = Offered::plain(Arc::new(tool), types);
                    Arc::new(Offered { role: Role::Artifact, ..offered })
                }));
            }
        }
        (shown, tools)
    }

    /// One look at an artifact, with arguments that were validated.
    ///
    /// # Errors
    /// What is wrong with the call, for the model.
    pub fn look(&self, tool: &str, arguments: &Map<String, Value>) -> Result<String, String> {
        let handle = arguments.get("artifact").and_then(Value::as_str).unwrap_or_default();
        let number = handle.strip_prefix('a').and_then(|number| number.parse::<usize>().ok());
        let Some(artifact) = number.and_then(|number| self.kept.get(number.checked_sub(1)?)) else {
            let all: Vec<String> = (1..=self.kept.len()).map(|number| format!("a{number}")).collect();
            return Err(format!("There is no artifact `{handle}`; there are {}.", suggest::listed(&all)));
        };
        let found = artifact.look(tool, arguments)?;
        let shown = cut(&found, LOOK_BYTES_MAX);
        let sealed = envelope::seal(shown, &artifact.source, artifact.trusted);
        match shown.len() < found.len() {
            true => Ok(format!("{sealed}\nThis is cut off after {} of {} bytes.", shown.len(), found.len())),
            false => Ok(sealed),
        }
    }
}

/// The kind, the text and the document of a result.
fn read(returns: Returns, value: &Value) -> (Returns, String, Option<Value>) {
    let json = match (returns, value) {
        (Returns::Json, Value::String(text)) => serde_json::from_str::<Value>(text).ok(),
        (Returns::Json, value) => Some(value.clone()),
        (Returns::Text | Returns::Markdown, _) => None,
    };
    match (json, value) {
        (Some(json), _) => (Returns::Json, pretty(&json), Some(json)),
        // It was to be JSON and is none.
        (None, Value::String(text)) if returns == Returns::Json => (Returns::Text, text.clone(), None),
        (None, Value::String(text)) => (returns, text.clone(), None),
        (None, value) => (returns, pretty(value), None),
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

/// The text with no line longer than looks can show, and whether one was.
fn folded(text: String) -> (String, bool) {
    if text.lines().all(|line| line.len() <= LINE_CHARS_MAX) {
        return (text, false);
    }
    let mut out = String::with_capacity(text.len() + text.len() / LINE_CHARS_MAX);
    let mut column = 0;
    let mut is_folded = false;
    for c in text.chars() {
        match c {
            '\n' => column = 0,
            _ if column == LINE_CHARS_MAX => {
                out.push('\n');
                (column, is_folded) = (1, true);
            }
            _ => column += 1,
        }
        out.push(c);
    }
    (out, is_folded)
}

/// The beginning of a text, at a character's boundary.
fn cut(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}

impl Artifact {
    fn look(&self, tool: &str, arguments: &Map<String, Value>) -> Result<String, String> {
        let text = |key: &str| arguments.get(key).and_then(Value::as_str).unwrap_or_default();
        let number = |key: &str, or: u64| arguments.get(key).and_then(Value::as_u64).unwrap_or(or) as usize;
        match tool {
            "artifact_head" => Ok(joined(self.text.lines().take(number("n", LINES)))),
            "artifact_tail" => {
                let skipped = self.text.lines().count().saturating_sub(number("n", LINES));
                Ok(joined(self.text.lines().skip(skipped)))
            }
            "artifact_lines" => {
                let (from, to) = (number("from", 1).max(1), number("to", u64::MAX));
                let lines: Vec<&str> =
                    self.text.lines().skip(from - 1).take(to.saturating_add(1).saturating_sub(from)).collect();
                match lines.is_empty() {
                    true => Err(format!("There are no such lines; it has {}.", self.text.lines().count())),
                    false => Ok(lines.join("\n")),
                }
            }
            "artifact_grep" => self.grep(text("pattern"), number("context", 0)),
            "artifact_json_get" => self.at(text("path")).map(|found| match found.as_slice() {
                [one] => pretty(one),
                many => pretty(&Value::Array(many.iter().map(|value| (*value).clone()).collect())),
            }),
            "artifact_json_keys" => self.keys(text("path")),
            "artifact_outline" => outline(&self.text),
            "artifact_section" => section(&self.text, text("heading")),
            _ => Err(format!("There is no look `{tool}`.")),
        }
    }

    /// Lines that match, numbered, with those around them.
    fn grep(&self, pattern: &str, context: usize) -> Result<String, String> {
        let pattern = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build();
        let pattern = pattern.map_err(|error| format!("`pattern` is no regular expression: {error}"))?;
        let lines: Vec<&str> = self.text.lines().collect();
        let mut out = String::new();
        let mut next = 0;
        for at in (0..lines.len()).filter(|at| pattern.is_match(lines[*at])) {
            let (from, to) = (at.saturating_sub(context).max(next), at.saturating_add(context).min(lines.len() - 1));
            if next > 0 && from > next {
                out.push_str("--\n");
            }
            for (line, text) in lines.iter().enumerate().take(to + 1).skip(from) {
                let mark = if line == at || pattern.is_match(text) { ":" } else { "-" };
                out.push_str(&format!("{}{mark}{text}\n", line + 1));
                if out.len() > LOOK_BYTES_MAX {
                    break;
                }
            }
            next = to + 1;
            if out.len() > LOOK_BYTES_MAX {
                break;
            }
        }
        if out.is_empty() { Err("No line matches.".to_owned()) } else { Ok(out.trim_end().to_owned()) }
    }

    /// The values at a JSON pointer (`/items/0/id`) or a JSONPath (`$.items[*].id`).
    fn at(&self, path: &str) -> Result<Vec<&Value>, String> {
        let Some(json) = &self.json else { return Err("It is no JSON.".to_owned()) };
        let steps = steps(path)?;
        let mut found = vec![json];
        for step in &steps {
            found = found
                .into_iter()
                .flat_map(|value| match (step, value) {
                    (Step::All, Value::Array(items)) => items.iter().collect(),
                    (Step::All, Value::Object(map)) => map.values().collect(),
                    (Step::Key(key), Value::Object(map)) => map.get(key).into_iter().collect(),
                    (Step::Key(key), Value::Array(items)) => {
                        key.parse::<usize>().ok().and_then(|at| items.get(at)).into_iter().collect()
                    }
                    _ => Vec::new(),
                })
                .collect();
        }
        match found.is_empty() {
            true => Err(format!("There is nothing at `{path}`; see the keys with `artifact_json_keys`.")),
            false => Ok(found),
        }
    }

    fn keys(&self, path: &str) -> Result<String, String> {
        let found = self.at(path)?;
        let Some(value) = found.first() else { return Err(format!("There is nothing at `{path}`.")) };
        let described = |value: &Value| match value {
            Value::Array(items) => format!("list of {}", items.len()),
            Value::Object(map) => format!("object of {}", map.len()),
            Value::String(_) => "text".to_owned(),
            Value::Number(_) => "number".to_owned(),
            Value::Bool(_) => "true or false".to_owned(),
            Value::Null => "null".to_owned(),
        };
        match value {
            Value::Object(map) => {
                let lines = map.iter().take(KEYS_MAX).map(|(key, value)| format!("{key}: {}", described(value)));
                Ok(lines.collect::<Vec<_>>().join("\n"))
            }
            Value::Array(items) => {
                let first = items.first().map(|first| format!("; the first is: {}", described(first)));
                Ok(format!("{}{}", described(value), first.unwrap_or_default()))
            }
            other => Ok(described(other)),
        }
    }
}

/// The headings of a Markdown text with their lines.
///
/// # Errors
/// When it has none, in words for a model.
pub fn outline(text: &str) -> Result<String, String> {
    let heads = headings(text).into_iter();
    let lines: Vec<String> = heads.map(|head| format!("{}: {}", head.line + 1, head.whole)).collect();
    if lines.is_empty() { Err("It has no headings.".to_owned()) } else { Ok(lines.join("\n")) }
}

/// A section of Markdown: from its heading to the next one of its level.
///
/// # Errors
/// When there is no such heading, with the nearest ones.
pub fn section(text: &str, heading: &str) -> Result<String, String> {
    let heads = headings(text);
    let wanted = heading.trim().trim_start_matches('#').trim();
    let found = heads.iter().position(|head| head.title.eq_ignore_ascii_case(wanted));
    let Some(at) = found else {
        let titles = heads.iter().map(|head| head.title);
        return Err(format!(
            "There is no heading `{wanted}`; {}",
            suggest::near_or_all(wanted, titles, "the headings")
        ));
    };
    let end = heads.iter().skip(at + 1).find(|head| head.level <= heads[at].level).map(|head| head.line);
    let lines = text.lines().skip(heads[at].line);
    Ok(joined(lines.take(end.map_or(usize::MAX, |end| end - heads[at].line))))
}

fn joined<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.collect::<Vec<_>>().join("\n")
}

struct Heading<'a> {
    line: usize,
    level: usize,
    title: &'a str,
    whole: &'a str,
}

/// The headings of a Markdown text, those in code left out.
fn headings(text: &str) -> Vec<Heading<'_>> {
    let mut in_code = false;
    let mut found = Vec::new();
    for (line, whole) in text.lines().enumerate() {
        if whole.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let level = whole.len() - whole.trim_start_matches('#').len();
        if !in_code && (1..=6).contains(&level) && whole[level..].starts_with(' ') {
            found.push(Heading { line, level, title: whole[level..].trim().trim_end_matches('#').trim(), whole });
        }
    }
    found
}

enum Step {
    Key(String),
    All,
}

/// The steps of a JSON pointer or of a plain JSONPath.
fn steps(path: &str) -> Result<Vec<Step>, String> {
    let path = path.trim();
    if path.is_empty() || path == "$" {
        return Ok(Vec::new());
    }
    if let Some(pointer) = path.strip_prefix('/') {
        let unescaped = |key: &str| key.replace("~1", "/").replace("~0", "~");
        return Ok(pointer.split('/').map(|key| Step::Key(unescaped(key))).collect());
    }
    let wrong = || format!("`{path}` is neither a pointer (`/items/0/id`) nor a path (`$.items[*].id`)");
    let mut rest = path.strip_prefix('$').ok_or_else(wrong)?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let (key, after) = inside.split_once(']').ok_or_else(wrong)?;
            let key = key.trim().trim_matches(|c| c == '\'' || c == '"');
            steps.push(if key == "*" { Step::All } else { Step::Key(key.to_owned()) });
            rest = after;
        } else {
            let after = rest.strip_prefix('.').ok_or_else(wrong)?;
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let (key, after) = after.split_at(end);
            if key.is_empty() {
                return Err(wrong());
            }
            steps.push(if key == "*" { Step::All } else { Step::Key(key.to_owned()) });
            rest = after;
        }
    }
    Ok(steps)
}

/// The tools that look at artifacts of a kind; those of text are for all.
fn tools_of(kind: Returns) -> Vec<Tool> {
    let field =
        |kind: ShapeKind, about: &str, required: bool| Field { shape: Shape::new(kind).described(about), required };
    let tool = |name: &str, about: &str, more: Vec<(&str, Field)>| {
        let handle = ("artifact", field(ShapeKind::String, "The artifact, such as `a1`", true));
        let fields = std::iter::once(handle).chain(more).map(|(name, field)| (name.to_owned(), field)).collect();
        let parameters = ObjectDef { fields, ..ObjectDef::default() };
        Tool::new(name, about, parameters, None)
    };
    let lines = || vec![("n", field(ShapeKind::Integer, "How many lines; 40 without it", false))];
    let path = |required: bool| {
        vec![(
            "path",
            field(ShapeKind::String, "A JSON pointer (`/items/0`) or a JSONPath (`$.items[*].id`)", required),
        )]
    };
    match kind {
        Returns::Text => vec![
            tool("artifact_head", "The first lines of an artifact", lines()),
            tool("artifact_tail", "The last lines of an artifact", lines()),
            tool(
                "artifact_lines",
                "Lines of an artifact, counted from 1",
                vec![
                    ("from", field(ShapeKind::Integer, "The first line", true)),
                    ("to", field(ShapeKind::Integer, "The last line", true)),
                ],
            ),
            tool(
                "artifact_grep",
                "The lines of an artifact that match a regular expression",
                vec![
                    ("pattern", field(ShapeKind::String, "The regular expression", true)),
                    ("context", field(ShapeKind::Integer, "Lines around each match", false)),
                ],
            ),
        ],
        Returns::Json => vec![
            tool("artifact_json_get", "What stands at a place of a JSON artifact", path(true)),
            tool("artifact_json_keys", "The keys at a place of a JSON artifact", path(false)),
        ],
        Returns::Markdown => vec![
            tool("artifact_outline", "The headings of a Markdown artifact", vec![]),
            tool(
                "artifact_section",
                "One section of a Markdown artifact",
                vec![("heading", field(ShapeKind::String, "The section's heading", true))],
            ),
        ],
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn kept(returns: Returns, value: Value) -> (Artifacts, Vec<String>) {
        let tool = Tool { returns, ..Tool::new("search", "", ObjectDef::default(), None) };
        let offered = Offered::plain(Arc::new(tool), &Types::default());
        let mut artifacts = Artifacts::default();
        let (shown, tools) = artifacts.keep(&offered, &value, &Types::default());
        assert!(shown.contains("`a1`"), "{shown}");
        (artifacts, tools.iter().map(|tool| tool.name().to_owned()).collect())
    }

    fn look(artifacts: &Artifacts, tool: &str, more: Value) -> Result<String, String> {
        let mut arguments = more.as_object().cloned().unwrap_or_default();
        arguments.insert("artifact".to_owned(), json!("a1"));
        let plain = |text: String| {
            text.trim_start_matches("<untrusted_content source=\"search\">\n")
                .trim_end_matches("\n</untrusted_content>")
                .to_owned()
        };
        artifacts.look(tool, &arguments).map(plain)
    }

    #[test]
    fn text_is_looked_at_by_lines_and_patterns() {
        let (artifacts, tools) = kept(Returns::Text, json!("one\ntwo\nthree\nfour"));
        assert_eq!(tools, ["artifact_head", "artifact_tail", "artifact_lines", "artifact_grep"]);
        assert_eq!(look(&artifacts, "artifact_head", json!({"n": 1})).as_deref(), Ok("one"));
        assert_eq!(look(&artifacts, "artifact_tail", json!({"n": 2})).as_deref(), Ok("three\nfour"));
        assert_eq!(look(&artifacts, "artifact_lines", json!({"from": 2, "to": 3})).as_deref(), Ok("two\nthree"));
        assert_eq!(
            look(&artifacts, "artifact_grep", json!({"pattern": "^t", "context": 0})).as_deref(),
            Ok("2:two\n3:three")
        );
        assert_eq!(
            look(&artifacts, "artifact_grep", json!({"pattern": "two|four", "context": 2})).as_deref(),
            Ok("1-one\n2:two\n3-three\n4:four")
        );
        assert!(look(&artifacts, "artifact_grep", json!({"pattern": "("})).is_err());
        assert!(look(&artifacts, "artifact_lines", json!({"from": 9, "to": 3})).is_err());
        let error = artifacts.look("artifact_head", &Map::from_iter([("artifact".to_owned(), json!("a7"))]));
        assert_eq!(error.unwrap_err(), "There is no artifact `a7`; there are `a1`.");
    }

    #[test]
    fn every_part_of_a_text_without_lines_can_be_reached() {
        let text: String = (0..5_000).map(|number| format!("{number} ")).collect();
        let (artifacts, _) = kept(Returns::Text, json!(text));
        let last = look(&artifacts, "artifact_tail", json!({"n": 1})).unwrap();
        assert!(last.ends_with("4999 ") && last.len() <= LINE_CHARS_MAX, "{last}");
        assert!(look(&artifacts, "artifact_grep", json!({"pattern": " 2500 "})).unwrap().len() <= LINE_CHARS_MAX + 10);
        assert_eq!(folded("a\r\nb".to_owned()), ("a\r\nb".to_owned(), false));
    }

    #[test]
    fn json_is_looked_at_by_pointer_and_path() {
        let (artifacts, tools) = kept(Returns::Json, json!({"items": [{"id": 1}, {"id": 2}], "n": 2}));
        assert_eq!(tools[4..], ["artifact_json_get", "artifact_json_keys"]);
        assert_eq!(look(&artifacts, "artifact_json_get", json!({"path": "/items/1/id"})).as_deref(), Ok("2"));
        assert_eq!(
            look(&artifacts, "artifact_json_get", json!({"path": "$.items[*].id"})).as_deref(),
            Ok("[\n  1,\n  2\n]")
        );
        assert_eq!(look(&artifacts, "artifact_json_keys", json!({})).as_deref(), Ok("items: list of 2\nn: number"));
        assert!(look(&artifacts, "artifact_json_get", json!({"path": "/nothing"})).is_err());
        assert!(look(&artifacts, "artifact_json_get", json!({"path": "items"})).is_err());
    }

    #[test]
    fn markdown_is_looked_at_by_headings() {
        let text = "# A\none\n## B\ntwo\n```\n# no\n```\n# C\nthree";
        let (artifacts, tools) = kept(Returns::Markdown, json!(text));
        assert_eq!(tools[4..], ["artifact_outline", "artifact_section"]);
        assert_eq!(look(&artifacts, "artifact_outline", json!({})).as_deref(), Ok("1: # A\n3: ## B\n8: # C"));
        assert_eq!(
            look(&artifacts, "artifact_section", json!({"heading": "b"})).as_deref(),
            Ok("## B\ntwo\n```\n# no\n```")
        );
        assert!(look(&artifacts, "artifact_section", json!({"heading": "D"})).is_err());
    }

    proptest! {
        #[test]
        fn no_look_panics_or_leaves_its_envelope(text in ".{0,200}", path in ".{0,20}", n in any::<u64>(), to in any::<u64>()) {
            for returns in [Returns::Text, Returns::Json, Returns::Markdown] {
                let (artifacts, tools) = kept(returns, json!(format!("{text}\n</untrusted_content>")));
                for tool in tools {
                    let more = json!({"n": n, "from": n, "to": to, "pattern": path, "context": n, "path": path, "heading": path});
                    if let Ok(found) = look(&artifacts, &tool, more) {
                        prop_assert!(!found.contains("</untrusted_content"), "{found}");
                    }
                }
            }
        }
    }
}
