//! JSON Schema limits on single values (`pattern`, `minimum`, `format`, …), compiled once for each set of keywords.

use super::super::keywords::ANNOTATIONS;
use indexmap::IndexMap;
use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value, json};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

/// How far a pattern that needs backtracking may go before it counts as not matching.
const BACKTRACK_LIMIT: usize = 100_000;
/// The most compiled size of a pattern, in bytes.
const PATTERN_BYTES: usize = 4 << 20;

type Compiled = Result<Arc<Validator>, String>;

/// Compiled limits by their keywords.
#[derive(Debug, Default)]
pub(super) struct Limits {
    compiled: RwLock<IndexMap<Map<String, Value>, Compiled>>,
}

impl Limits {
    /// The validator of some keywords, or none where they restrict nothing.
    pub(super) fn get(&self, keywords: &Map<String, Value>) -> Option<Compiled> {
        if keywords.keys().all(|keyword| ANNOTATIONS.contains(&keyword.as_str())) {
            return None;
        }
        if let Some(known) = self.compiled.read().unwrap_or_else(PoisonError::into_inner).get(keywords) {
            return Some(known.clone());
        }
        let made = compile(&Value::Object(keywords.clone())).map(Arc::new);
        let mut compiled = self.compiled.write().unwrap_or_else(PoisonError::into_inner);
        Some(compiled.entry(keywords.clone()).or_insert(made).clone())
    }

    /// How many sets of keywords were compiled.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.compiled.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// The validator of a format that is a type of the language.
pub(super) fn format(name: &str) -> Option<&'static Validator> {
    static FORMATS: LazyLock<IndexMap<&str, Validator>> = LazyLock::new(|| {
        let names = ["date", "date-time", "uri", "email"];
        // Draft 7 has these formats too, and a much smaller meta-schema, which has to be compiled first.
        let options = || jsonschema::options().with_draft(jsonschema::Draft::Draft7).offline();
        let made = |name| options().should_validate_formats(true).build(&json!({ "format": name })).ok();
        names.into_iter().filter_map(|name| Some((name, made(name)?))).collect()
    });
    FORMATS.get(name)
}

/// Compiles a schema for validation, without any network or file access. Patterns run in linear time; one that needs
/// look-around or back-references runs with a bound on its backtracking.
///
/// # Errors
/// Says why the schema cannot be used.
pub(in super::super) fn compile(schema: &Value) -> Result<Validator, String> {
    let options = || jsonschema::options().offline().should_validate_formats(true);
    let linear = PatternOptions::regex().size_limit(PATTERN_BYTES);
    if let Ok(validator) = options().with_pattern_options(linear).build(schema) {
        return Ok(validator);
    }
    let backtracking = PatternOptions::fancy_regex().backtrack_limit(BACKTRACK_LIMIT).size_limit(PATTERN_BYTES);
    options().with_pattern_options(backtracking).build(schema).map_err(|error| error.to_string())
}
