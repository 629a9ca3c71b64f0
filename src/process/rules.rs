//! The `rules` of types: exprs over the fields of an object.

use serde_json::Value;

use crate::program::Agent;
use crate::prompt::{MapVars, Truth, from_json};
use crate::value::RuleEval;

impl RuleEval for Agent {
    /// A rule that mentions an optional field which is absent is not broken.
    fn check(&self, expr: &str, object: &Value) -> Result<bool, String> {
        let Some(id) = self.rules.get(expr) else { return Err(format!("the rule `{expr}` is not compiled")) };
        let fields = object.as_object().into_iter().flatten();
        let vars = fields.fold(MapVars::default(), |vars, (name, value)| vars.with(name, from_json(value)));
        match self.templates.truth_explained(*id, &vars) {
            (Truth::True, _) => Ok(true),
            (Truth::False, _) => Ok(false),
            (Truth::Unknown, cause) => match cause {
                Some(cause) if !cause.is_undefined => Err(cause.to_string()),
                _ => Ok(true),
            },
        }
    }
}
