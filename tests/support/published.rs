//! The schemas that providers publish, as `tests/providers/published/` keeps them.

use jsonschema::Validator;
use serde_json::{Value, json};

/// The schemas of one wire.
pub(crate) struct Published {
    wire: String,
    file: Value,
}

impl Published {
    /// Reads the schemas of a wire: `anthropic`, `bedrock`, `gemini`, `ollama`, `openai` or `responses`.
    pub(crate) fn of(wire: &str) -> Published {
        let path = super::root().join("tests/providers/published").join(format!("{wire}.json"));
        let file = serde_json::from_str(&super::text(&path));
        Published { wire: wire.into(), file: file.unwrap_or_else(|error| panic!("{}: {error}", path.display())) }
    }

    /// The validator of one of `roots`: `request`, `reply`, `event`, …
    pub(crate) fn root(&self, root: &str) -> Validator {
        let name = self.file["roots"][root].as_str().unwrap_or_else(|| panic!("{}: no root `{root}`", self.wire));
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$ref": format!("#/$defs/{name}"),
            "$defs": self.file["$defs"],
        });
        jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{} {root}: {error}", self.wire))
    }

    /// The validator of requests, of which some wires have two kinds.
    pub(crate) fn request(&self, stream: bool) -> Validator {
        let streamed = stream && self.file["roots"].get("request, streamed").is_some();
        self.root(if streamed { "request, streamed" } else { "request" })
    }

    /// One event of a stream, in the form that cassettes have, as the schema has it.
    pub(crate) fn event(&self, event: &Value) -> Value {
        match event[":event-type"].as_str() {
            Some(kind) => json!({ kind: event["payload"] }),
            None => event.clone(),
        }
    }
}

/// What is wrong with `value`, down to the branches of a union that came nearest.
pub(crate) fn complaints(validator: &Validator, value: &Value) -> Vec<String> {
    validator.iter_errors(value).map(|error| told(&error)).collect()
}

fn told(error: &jsonschema::ValidationError<'_>) -> String {
    use jsonschema::error::ValidationErrorKind::{AnyOf, OneOfNotValid};
    let place = error.instance_path().to_string();
    let (AnyOf { context } | OneOfNotValid { context }) = error.kind() else {
        return format!("{} at {place}", cut(&error.to_string()));
    };
    // The branch that was meant is the one whose tag fits, else the one whose complaints are deepest.
    let rank = |branch: &Vec<jsonschema::ValidationError<'_>>| {
        let places = || branch.iter().map(|error| error.instance_path().to_string());
        let tags = places().filter(|at| at.ends_with("/type") || at.ends_with("/role")).count();
        (std::cmp::Reverse(tags), places().map(|at| at.matches('/').count()).max())
    };
    match context.iter().max_by_key(|branch| rank(branch)) {
        Some(branch) => branch.iter().map(told).collect::<Vec<String>>().join("; "),
        None => format!("nothing fits at {place}"),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth_back(300) {
        Some((at, _)) => format!("…{}", &text[at..]),
        None => text.to_owned(),
    }
}
