//! Tools that narrow what may be called: once one of them was called with a value, as a skill is activated by its name,
//! only the calls that the value allows are made.

use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::diag::suggest::listed;

use super::group::matches;

/// The calls that a value allows; `None` for a value that narrows nothing.
pub type Allows = Arc<dyn Fn(&str) -> Option<Vec<Allowed>> + Send + Sync>;

/// What a tool allows once it was called.
#[derive(Clone)]
pub struct Narrowing {
    /// What the values are, for messages, such as `the skill`.
    pub what: String,
    /// The parameter whose value decides.
    pub by: String,
    /// What each value allows.
    pub allows: Allows,
    /// Names of tools that may always be called.
    pub always: Vec<String>,
}

impl fmt::Debug for Narrowing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Narrowing").field("by", &self.by).field("always", &self.always).finish_non_exhaustive()
    }
}

/// Calls that are allowed: those of a tool, and perhaps only some of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// As it was written.
    pub written: String,
    /// The tool's name; `*` is any text.
    tool: String,
    /// What its first text argument must be; `*` is any text, and `git:*` is `git` alone or with words after it.
    argument: Option<String>,
}

impl Allowed {
    /// Reads `tool`, `tool*` or `tool(argument)`.
    pub fn read(written: &str) -> Allowed {
        let (tool, argument) = match written.strip_suffix(')').and_then(|rest| rest.split_once('(')) {
            Some((tool, argument)) => (tool, Some(argument.trim().to_owned())),
            None => (written, None),
        };
        Allowed { written: written.to_owned(), tool: tool.trim().to_owned(), argument }
    }

    fn fits(&self, names: &[&str], arguments: &Map<String, Value>) -> bool {
        if !names.iter().any(|name| matches(&self.tool, name)) {
            return false;
        }
        let Some(wanted) = &self.argument else { return true };
        let Some(given) = arguments.values().find_map(Value::as_str).map(str::trim) else { return false };
        match wanted.strip_suffix(":*") {
            Some(word) => given == word || given.strip_prefix(word).is_some_and(|rest| rest.starts_with(' ')),
            None => matches(wanted, given),
        }
    }
}

/// What was called, and what may be called since.
#[derive(Clone, Debug, Default)]
pub struct Narrowed {
    what: String,
    active: IndexMap<String, Vec<Allowed>>,
    always: Vec<String>,
}

impl Narrowed {
    /// Takes note of a call that has succeeded.
    pub fn called(&mut self, narrowing: &Narrowing, arguments: &Map<String, Value>) {
        let value = arguments.get(&narrowing.by).and_then(Value::as_str).unwrap_or_default();
        if let Some(allowed) = (narrowing.allows)(value) {
            self.what.clone_from(&narrowing.what);
            self.active.insert(value.to_owned(), allowed);
            self.always.extend(
                narrowing.always.iter().filter(|name| !self.always.contains(name)).cloned().collect::<Vec<_>>(),
            );
        }
    }

    /// Why a tool of these names may not be called with these arguments, for the model; `None` when it may.
    pub fn locked(&self, names: &[&str], arguments: &Map<String, Value>) -> Option<String> {
        let is_always = || self.always.iter().any(|always| names.contains(&always.as_str()));
        if self.active.is_empty() || is_always() {
            return None;
        }
        let allowed: Vec<&Allowed> = self.active.values().flatten().collect();
        if allowed.iter().any(|allowed| allowed.fits(names, arguments)) {
            return None;
        }
        let mut written: Vec<&str> = allowed.iter().map(|allowed| allowed.written.as_str()).collect();
        written.dedup();
        Some(format!(
            "This call of `{}` is not allowed while {} {} is in use, which allows {}, and its own tools {}.",
            names.first().copied().unwrap_or_default(),
            self.what,
            listed(&self.active.keys().collect::<Vec<_>>()),
            listed(&written),
            listed(&self.always),
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    fn narrowing() -> Narrowing {
        let allows = |value: &str| {
            let names: &[&str] = match value {
                "pay" => &["find_*", "run(git:*)"],
                "mail" => &["send"],
                _ => return None,
            };
            Some(names.iter().map(|name| Allowed::read(name)).collect::<Vec<_>>())
        };
        Narrowing {
            what: "the skill".into(),
            by: "name".into(),
            allows: Arc::new(allows),
            always: vec!["skills_activate".into()],
        }
    }

    #[test]
    fn what_is_in_use_allows_its_calls_and_no_others() {
        let (narrowing, none) = (narrowing(), Map::new());
        let mut narrowed = Narrowed::default();
        assert_eq!(narrowed.locked(&["send"], &none), None);
        narrowed.called(&narrowing, &arguments(json!({"name": "another"})));
        assert_eq!(narrowed.locked(&["send"], &none), None);
        narrowed.called(&narrowing, &arguments(json!({"name": "pay"})));
        let why = narrowed.locked(&["send"], &none).expect("it is locked");
        for part in ["`send`", "the skill `pay`", "`find_*`", "`run(git:*)`", "`skills_activate`"] {
            assert!(why.contains(part), "{part}: {why}");
        }
        assert_eq!(narrowed.locked(&["skills_activate"], &none), None);
        assert_eq!(narrowed.locked(&["web_find", "find_order"], &none), None, "by either name");
        narrowed.called(&narrowing, &arguments(json!({"name": "mail"})));
        assert_eq!(narrowed.locked(&["send"], &none), None, "what one of them allows may be called");
    }

    #[test]
    fn a_pattern_in_parentheses_is_about_the_first_text_argument() {
        let mut narrowed = Narrowed::default();
        narrowed.called(&narrowing(), &arguments(json!({"name": "pay"})));
        let may = |command: Value| narrowed.locked(&["run"], &arguments(json!({"n": 1, "command": command}))).is_none();
        assert!(may(json!("git")) && may(json!("git log")));
        assert!(!may(json!("gitk")) && !may(json!("rm -r git")) && !may(json!(3)));
    }
}
