//! Where templates and exprs get their variables from at run time.

use indexmap::IndexMap;
use minijinja::Value;

/// The answer to a lookup of a variable.
#[derive(Clone, Debug)]
pub enum Var {
    /// It is there.
    Value(Value),
    /// There is no such variable, or it has no value (an optional input that is absent, a type without an object).
    Undefined,
    /// It is a condition whose truth is unknown.
    Unknown,
}

impl From<Value> for Var {
    fn from(value: Value) -> Var {
        if value.is_undefined() { Var::Undefined } else { Var::Value(value) }
    }
}

impl From<Option<Value>> for Var {
    fn from(value: Option<Value>) -> Var {
        value.map_or(Var::Undefined, Var::from)
    }
}

/// The variables and functions of language.md 2, as one process, state or action sees them.
///
/// Names are looked up once per rendering, before it starts; so a lookup may be costly but must not have effects.
pub trait Vars {
    /// The variable of a name: inputs, `inputs`, `config`, `process`, state fields, `self`, conditions, types by their
    /// default name.
    fn get(&self, name: &str) -> Var;

    /// `last("Type")`: the newest visible object of the type.
    fn last(&self, type_name: &str) -> Var {
        let _ = type_name;
        Var::Undefined
    }

    /// `all("Type")`: all visible objects of the type, oldest first.
    fn all(&self, type_name: &str) -> Vec<Value> {
        let _ = type_name;
        Vec::new()
    }

    /// `count("Type")`: how many visible objects of the type there are.
    fn count(&self, type_name: &str) -> usize {
        self.all(type_name).len()
    }

    /// `has("Type")`: whether there is one.
    fn has(&self, type_name: &str) -> bool {
        self.count(type_name) > 0
    }

    /// `ran("action")`: whether the action has completed.
    fn ran(&self, action: &str) -> bool {
        let _ = action;
        false
    }

    /// `now()`: date and time, RFC 3339.
    fn now(&self) -> String {
        String::new()
    }
}

/// Variables in a map, for positions that see no blackboard (rules, computed members, `select` over a response).
#[derive(Clone, Debug, Default)]
pub struct MapVars(pub IndexMap<String, Value>);

impl MapVars {
    /// The same variables and one more.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> MapVars {
        self.0.insert(name.to_owned(), value.into());
        self
    }
}

impl Vars for MapVars {
    fn get(&self, name: &str) -> Var {
        self.0.get(name).cloned().into()
    }
}

/// Variables that cover those of another [`Vars`]: tool arguments over the blackboard, `result` over inputs.
pub struct Over<'a> {
    /// Looked at first.
    pub vars: MapVars,
    /// Everything else, and the functions.
    pub below: &'a dyn Vars,
}

impl Vars for Over<'_> {
    fn get(&self, name: &str) -> Var {
        match self.vars.0.get(name) {
            Some(value) => value.clone().into(),
            None => self.below.get(name),
        }
    }
    fn last(&self, type_name: &str) -> Var {
        self.below.last(type_name)
    }
    fn all(&self, type_name: &str) -> Vec<Value> {
        self.below.all(type_name)
    }
    fn count(&self, type_name: &str) -> usize {
        self.below.count(type_name)
    }
    fn has(&self, type_name: &str) -> bool {
        self.below.has(type_name)
    }
    fn ran(&self, action: &str) -> bool {
        self.below.ran(action)
    }
    fn now(&self) -> String {
        self.below.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_variables_cover_lower_ones() {
        let below = MapVars::default().with("a", 1).with("b", 2);
        let over = Over { vars: MapVars::default().with("a", 3), below: &below };
        let number = |name: &str| match over.get(name) {
            Var::Value(value) => value.as_i64(),
            Var::Undefined | Var::Unknown => None,
        };
        assert_eq!((number("a"), number("b"), number("c")), (Some(3), Some(2), None));
    }
}
