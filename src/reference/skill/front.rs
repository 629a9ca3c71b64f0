//! The front matter of a `SKILL.md`: reading and judging it.
//!
//! The format is that of the public specification (agentskills.io), and the verdict on a file is the one of its
//! reference validator, whose YAML is a part of YAML: blocks only, no anchors, no tags, every value a text.

use std::ops::Range;

use crate::diag::{Diagnostic, Fix, Related, suggest};
use crate::source::{FileId, Map, Node, NodeKind, Source, Span, Style, SyntaxError, read};

use super::name;

/// The longest description, in characters.
pub const DESCRIPTION_CHARS_MAX: usize = 1024;
/// The longest note on what a skill needs, in characters.
pub const COMPATIBILITY_CHARS_MAX: usize = 500;
/// The keys of front matter.
pub const FIELDS: [&str; 6] = ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];

/// What a `SKILL.md` says of its skill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Front {
    /// Its name, composed (NFKC).
    pub name: String,
    /// What it does and when it is of use.
    pub description: String,
    /// The license, when one is named.
    pub license: Option<String>,
    /// What it needs of its surroundings.
    pub compatibility: Option<String>,
    /// Further keys and values, nested ones as they are written.
    pub metadata: Vec<(String, String)>,
    /// The tools that may be called while it is in use; `None` when it names none, and all may.
    pub allowed_tools: Option<Vec<String>>,
    /// The instructions: what follows the front matter, trimmed.
    pub body: String,
}

/// Something that is wrong with a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule that is broken, such as `name-lowercase`.
    pub rule: &'static str,
    /// What is said of it, with its place. Its code is `bad-skill` or one of the YAML reader's.
    pub diagnostic: Diagnostic,
}

/// Reads and judges a `SKILL.md` that stands in a directory of the name `dir`. The skill is there when nothing is wrong.
pub fn check(file: FileId, source: &Source, dir: &str) -> (Option<Front>, Vec<Finding>) {
    let mut judge = Judge { file, source, findings: Vec::new() };
    let front = judge.file(dir);
    let front = front.filter(|_| judge.findings.is_empty());
    (front, judge.findings)
}

struct Judge<'a> {
    file: FileId,
    source: &'a Source,
    findings: Vec<Finding>,
}

/// What opens and closes front matter.
const FENCE: &str = "---";

impl Judge<'_> {
    fn file(&mut self, dir: &str) -> Option<Front> {
        let text = self.source.text();
        let start_help = "begin the file with a line `---`, then `name` and `description`, then a line `---`";
        if !text.starts_with(FENCE) {
            let end = text.find('\n').unwrap_or(text.len());
            let message = "a `SKILL.md` begins with front matter between two lines `---`, at its very first character";
            self.add("front-matter", 0..end, message, start_help);
            return None;
        }
        // The end is the next `---` wherever it stands, as the reference validator has it.
        let Some(end) = text[FENCE.len()..].find(FENCE).map(|at| at + FENCE.len()) else {
            self.add("front-matter", 0..FENCE.len(), "the front matter is not closed", "close it with a line `---`");
            return None;
        };
        let yaml = &text[FENCE.len()..end];
        let body = text[end + FENCE.len()..].trim();
        let part = Source::new(self.source.path(), yaml);
        let (node, errors) = read(self.file, &part);
        // Every value and every key is a text here, also those that the language reads as numbers or nothing.
        let is_text = |error: &SyntaxError| {
            let no_key = error.span.is_empty() && yaml[error.span.range().start..].starts_with(':');
            matches!(error.code, "non-finite-number" | "non-string-key") || (error.code == "syntax" && no_key)
        };
        let (texts, errors): (Vec<_>, Vec<_>) = errors.into_iter().partition(is_text);
        for error in errors {
            let diagnostic = self.moved(error.into());
            self.findings.push(Finding { rule: "front-matter", diagnostic });
        }
        if self.findings.is_empty() {
            self.strict(&part, node.as_ref());
        }
        if !self.findings.is_empty() {
            return None;
        }
        let map = match node.map(|node| node.kind) {
            Some(NodeKind::Map(map)) if !map.is_empty() || map.incomplete => map,
            _ => {
                let message = "the front matter is a mapping with `name` and `description`";
                self.add("front-matter", FENCE.len()..end, message, start_help);
                return None;
            }
        };
        if let Some(error) = texts.into_iter().find(|error| map.incomplete && error.code != "non-finite-number") {
            let message = "this is no key of a skill's front matter";
            self.add("unknown-field", shifted(error.span), message, "delete it, or put it under `metadata`");
        }
        let mut front = self.fields(&part, &map, dir);
        front.body = body.to_owned();
        Some(front)
    }

    /// Judges the keys and values.
    fn fields(&mut self, part: &Source, map: &Map, dir: &str) -> Front {
        let mut front = Front::default();
        for entry in map {
            if !FIELDS.contains(&entry.key.as_str()) {
                let help = suggest::did_you_mean(&entry.key.value, FIELDS);
                let help = help.unwrap_or_else(|| format!("put `{}` under `metadata`", entry.key.value));
                let message = format!("`{}` is no key of a skill's front matter", entry.key.value);
                self.add("unknown-field", shifted(entry.key.span), message, help);
            }
        }
        front.name = self.name(part, map, dir);
        front.description = self.required(part, map, "description", "say what the skill does and when to use it");
        let length = front.description.chars().count();
        if let Some(entry) = map.get("description").filter(|_| length > DESCRIPTION_CHARS_MAX) {
            let message =
                format!("a description has at most {DESCRIPTION_CHARS_MAX} characters, and this has {length}");
            self.add("description-long", shifted(entry.value.span), message, "move the detail into the text below");
        }
        front.description = front.description.trim().to_owned();
        if let Some(entry) = map.get("compatibility") {
            match scalar(&entry.value, part) {
                None => {
                    let message = format!("`compatibility` is a text, not {}", entry.value.kind_name());
                    self.add("compatibility-text", shifted(entry.value.span), message, "write it in one text");
                }
                Some(text) if text.chars().count() > COMPATIBILITY_CHARS_MAX => {
                    let message = format!(
                        "`compatibility` has at most {COMPATIBILITY_CHARS_MAX} characters, and this has {}",
                        text.chars().count()
                    );
                    let help = "move the detail into the text below";
                    self.add("compatibility-long", shifted(entry.value.span), message, help);
                }
                Some(text) => front.compatibility = Some(text.trim().to_owned()),
            }
        }
        front.license = map.get("license").and_then(|entry| scalar(&entry.value, part));
        if let Some(Node { kind: NodeKind::Map(metadata), .. }) = map.get("metadata").map(|entry| &entry.value) {
            let value = |node: &Node| scalar(node, part).unwrap_or_else(|| node.spelling(part).to_owned());
            front.metadata = metadata.iter().map(|entry| (entry.key.value.clone(), value(&entry.value))).collect();
        }
        front.allowed_tools = map.get("allowed-tools").and_then(|entry| allowed_tools(&entry.value, part));
        front
    }

    fn name(&mut self, part: &Source, map: &Map, dir: &str) -> String {
        let help = format!("`name: {}`", name::suggested(dir));
        let written = self.required(part, map, "name", &help);
        let Some(entry) = map.get("name").filter(|_| !written.trim().is_empty()) else { return String::new() };
        let at = shifted(entry.value.span);
        for (rule, message) in name::broken_rules(&written) {
            let near = name::suggested(&written);
            let help =
                if near.is_empty() { "write a name such as `pdf-tools`".to_owned() } else { format!("write `{near}`") };
            self.add(rule, at.clone(), message, help);
        }
        let composed = name::composed(written.trim()).into_owned();
        if name::composed(dir) != composed {
            let message =
                format!("the skill `{composed}` stands in the directory `{dir}`; the two names must be equal");
            self.add("name-directory", at, message, format!("rename the directory, or write `name: {dir}`"));
        }
        composed
    }

    /// The text of a key that must be there and not be empty; empty when it is wrong.
    fn required(&mut self, part: &Source, map: &Map, key: &'static str, help: &str) -> String {
        let (missing, empty) = match key {
            "name" => ("missing-name", "name-empty"),
            _ => ("missing-description", "description-empty"),
        };
        let Some(entry) = map.get(key) else {
            self.add(missing, 0..FENCE.len(), format!("the front matter has no `{key}`"), help);
            return String::new();
        };
        match scalar(&entry.value, part).filter(|text| !text.trim().is_empty()) {
            Some(text) => text,
            None => {
                let at = if entry.value.span.is_empty() { entry.key.span } else { entry.value.span };
                self.add(empty, shifted(at), format!("`{key}` is a text that is not empty"), help);
                String::new()
            }
        }
    }

    /// What the format leaves out of YAML: collections in brackets, anchors, aliases, tabs between words.
    fn strict(&mut self, part: &Source, node: Option<&Node>) {
        let mut scalars: Vec<Range<usize>> = Vec::new();
        if let Some(node) = node {
            collect(node, &mut scalars);
        }
        scalars.sort_by_key(|range| range.start);
        let text = part.text();
        for range in &scalars {
            let tab =
                text[range.clone()].find('\t').filter(|_| !text[range.start..].starts_with(['"', '\'', '|', '>']));
            if let Some(at) = tab.map(|at| FENCE.len() + range.start + at) {
                return self.add(
                    "front-matter",
                    at..at + 1,
                    "a tab is not read in front matter",
                    "write a space, or put the text into quotes",
                );
            }
        }
        let mut at = 0;
        let mut inside = scalars.into_iter().peekable();
        let mut in_comment = false;
        while let Some(c) = text[at..].chars().next() {
            if let Some(range) = inside.next_if(|range| range.start <= at) {
                at = at.max(range.end);
                continue;
            }
            if in_comment {
                in_comment = c != '\n';
            } else {
                let (what, help) = match c {
                    '#' => ("", ""),
                    '{' => ("a mapping in braces", "write it in lines, indented below its key"),
                    '[' => ("a list in brackets", "write it in lines that begin with `- `, or as one text"),
                    '&' => ("an anchor", "delete it; a text that begins with `&` is put into quotes"),
                    '*' => ("an alias", "write the value out; a text that begins with `*` is put into quotes"),
                    '\t' => ("a tab", "write spaces"),
                    _ => ("", ""),
                };
                in_comment = c == '#';
                if !what.is_empty() {
                    let place = FENCE.len() + at..FENCE.len() + at + c.len_utf8();
                    self.add("front-matter", place, format!("{what} is not read in front matter"), help);
                    return;
                }
            }
            at += c.len_utf8();
        }
    }

    fn add(&mut self, rule: &'static str, at: Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        let span = Span::new(self.file, at.start as u32, at.end as u32);
        let diagnostic = Diagnostic::error("bad-skill", span, message).help(help.into());
        self.findings.push(Finding { rule, diagnostic });
    }

    /// A diagnostic of the part between the fences, at its place in the file.
    fn moved(&self, mut diagnostic: Diagnostic) -> Diagnostic {
        let moved = |span: Span| {
            let range = shifted(span);
            Span::new(self.file, range.start as u32, range.end as u32)
        };
        diagnostic.span = diagnostic.span.map(moved);
        diagnostic.related =
            diagnostic.related.into_iter().map(|other| Related { span: moved(other.span), ..other }).collect();
        diagnostic.fix = diagnostic.fix.map(|fix| Fix { span: moved(fix.span), ..fix });
        diagnostic
    }
}

/// A place of the part after the opening fence, in the file.
fn shifted(span: Span) -> Range<usize> {
    span.start as usize + FENCE.len()..span.end as usize + FENCE.len()
}

/// The text of a scalar: every one is a text, as it is spelled. `None` for lists and mappings.
fn scalar(node: &Node, part: &Source) -> Option<String> {
    match &node.kind {
        NodeKind::List(_) | NodeKind::Map(_) => None,
        // Words of an old YAML for merging and for the value of a mapping itself.
        NodeKind::Text(text) if text.style == Style::Plain && matches!(text.value.as_str(), "<<" | "=") => None,
        NodeKind::Text(text) => Some(text.value.clone()),
        _ => Some(node.spelling(part).trim().to_owned()),
    }
}

/// The names of a text between white space, or of a list; what stands in parentheses belongs to its name.
fn allowed_tools(node: &Node, part: &Source) -> Option<Vec<String>> {
    let texts: Vec<String> = match &node.kind {
        NodeKind::List(items) => items.iter().filter_map(|item| scalar(item, part)).collect(),
        _ => vec![scalar(node, part)?],
    };
    let mut names = Vec::new();
    for text in texts {
        let (mut name, mut depth) = (String::new(), 0_usize);
        for c in text.chars().chain([' ']) {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 && (c.is_whitespace() || c == ',') {
                if !name.is_empty() {
                    names.push(std::mem::take(&mut name));
                }
            } else {
                name.push(c);
            }
        }
        // A parenthesis that is never closed.
        if !name.trim().is_empty() {
            names.push(name.trim().to_owned());
        }
    }
    (!names.is_empty()).then_some(names)
}

/// The places of all scalars, keys included. What an alias stands for is at its anchor and is found there twice.
fn collect(node: &Node, scalars: &mut Vec<Range<usize>>) {
    match &node.kind {
        NodeKind::List(items) => items.iter().for_each(|item| collect(item, scalars)),
        NodeKind::Map(map) => {
            for entry in map {
                scalars.push(entry.key.span.range());
                collect(&entry.value, scalars);
            }
        }
        _ if node.span.is_empty() => {}
        _ => scalars.push(node.span.range()),
    }
}
