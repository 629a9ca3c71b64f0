//! Python's methods on strings, lists and maps.

use super::Checker;
use super::filter::{arity, element};
use crate::prompt::ast::{Arg, Expr, Name};
use crate::prompt::scope::Ty;

/// Methods of strings with the fewest and most arguments.
const OF_STRINGS: &[(&str, usize, Option<usize>)] = &[
    ("capitalize", 0, Some(0)),
    ("count", 1, Some(1)),
    ("endswith", 1, Some(1)),
    ("find", 1, Some(1)),
    ("format", 0, None),
    ("isalnum", 0, Some(0)),
    ("isalpha", 0, Some(0)),
    ("isascii", 0, Some(0)),
    ("isdigit", 0, Some(0)),
    ("islower", 0, Some(0)),
    ("isnumeric", 0, Some(0)),
    ("isspace", 0, Some(0)),
    ("isupper", 0, Some(0)),
    ("join", 1, Some(1)),
    ("lower", 0, Some(0)),
    ("lstrip", 0, Some(1)),
    ("replace", 2, Some(3)),
    ("rfind", 1, Some(1)),
    ("rstrip", 0, Some(1)),
    ("split", 0, Some(2)),
    ("splitlines", 0, Some(1)),
    ("startswith", 1, Some(1)),
    ("strip", 0, Some(1)),
    ("title", 0, Some(0)),
    ("upper", 0, Some(0)),
];
const OF_LISTS: &[(&str, usize, Option<usize>)] = &[("count", 1, Some(1))];
const OF_MAPS: &[(&str, usize, Option<usize>)] =
    &[("get", 1, Some(2)), ("items", 0, Some(0)), ("keys", 0, Some(0)), ("values", 0, Some(0))];

/// The methods that values of a type have.
pub(super) fn names(ty: &Ty) -> Vec<&'static str> {
    table(ty).map(|table| table.iter().map(|(name, ..)| *name).collect()).unwrap_or_default()
}

fn table(ty: &Ty) -> Option<&'static [(&'static str, usize, Option<usize>)]> {
    match ty {
        Ty::Str | Ty::Enum(_) => Some(OF_STRINGS),
        Ty::List(_) => Some(OF_LISTS),
        Ty::Map(_) | Ty::Record(_) | Ty::Named(_) | Ty::Object(_) => Some(OF_MAPS),
        Ty::Null | Ty::Bool | Ty::Int | Ty::Number | Ty::Tuple(_) => Some(&[]),
        Ty::Any | Ty::Union(_) | Ty::Optional(_) | Ty::Callable(_) | Ty::Module(_) => None,
    }
}

impl<'a> Checker<'a> {
    /// The type of `of.name(args)`.
    pub(super) fn method(&mut self, of: &Expr, name: &Name, args: &[Arg]) -> Ty {
        let base = self.used(of);
        if let Ty::Module(names) = &base {
            let found = names.get(&name.text).cloned();
            return match found {
                Some(ty) => self.call_value(ty, name, args),
                None => {
                    self.member_of(&base, of, &name.text, &name.span);
                    self.arguments(args);
                    Ty::Any
                }
            };
        }
        // A record may hold functions (`loop.cycle`).
        if let Ty::Record(fields) = &base
            && let Some(ty @ Ty::Callable(_)) = fields.get(&name.text).cloned()
        {
            return self.call_value(ty, name, args);
        }
        let types = self.arguments(args);
        let Some(table) = table(&base) else { return Ty::Any };
        let shown = &name.text;
        let Some((_, least, most)) = table.iter().find(|(known, ..)| known == shown) else {
            self.unknown_method(&base, name, table);
            return Ty::Any;
        };
        if let super::attribute::Found::Ty(_) = self.find_member(&base, shown)
            && matches!(base, Ty::Named(_) | Ty::Object(_) | Ty::Record(_))
        {
            let message = format!("`{shown}` is a field of {}, not a function", self.named(&base));
            self.error("unknown-function", &name.span, message).help("leave out `()`");
            return Ty::Any;
        }
        arity(self, "method", name, args, *least, *most);
        self.method_result(&base, shown, types)
    }

    fn method_result(&self, base: &Ty, name: &str, types: Vec<Ty>) -> Ty {
        match (base, name) {
            (Ty::Str | Ty::Enum(_), _) => match name {
                "split" | "splitlines" => Ty::List(Box::new(Ty::Str)),
                "count" | "find" | "rfind" => Ty::Int,
                "endswith" | "startswith" => Ty::Bool,
                name if name.starts_with("is") => Ty::Bool,
                _ => Ty::Str,
            },
            (Ty::List(_), _) => Ty::Int,
            (_, "keys") => Ty::List(Box::new(Ty::Str)),
            (Ty::Map(value), "values") => Ty::List(value.clone()),
            (Ty::Map(value), "items") => Ty::List(Box::new(Ty::Tuple(vec![Ty::Str, (**value).clone()]))),
            (Ty::Map(value), "get") => match types.into_iter().nth(1) {
                Some(default) => Ty::union([(**value).clone(), super::stmt::widened(default)]),
                None => (**value).clone().optional_unless_any(),
            },
            (_, "items") => Ty::List(Box::new(Ty::Tuple(vec![element(base), Ty::Any]))),
            (_, "values") => Ty::List(Box::new(Ty::Any)),
            _ => Ty::Any,
        }
    }

    fn unknown_method(&mut self, base: &Ty, name: &Name, table: &[(&'static str, usize, Option<usize>)]) {
        let what = self.named(base);
        let shown = &name.text;
        let is_field = matches!(self.find_member(base, shown), super::attribute::Found::Ty(_));
        if is_field {
            let message = format!("`{shown}` is a field of {what}, not a function");
            self.error("unknown-function", &name.span, message).help("leave out `()`");
            return;
        }
        let is_filter = super::filter::FILTERS.iter().any(|(filter, ..)| filter == shown);
        let fields = match self.find_member(base, shown) {
            super::attribute::Found::Unknown(fields) => fields,
            _ => Vec::new(),
        };
        let report = self.error("unknown-function", &name.span, format!("{what} has no method `{shown}`"));
        let other = match shown.as_str() {
            "toUpperCase" => Some("upper"),
            "toLowerCase" => Some("lower"),
            "trim" => Some("strip"),
            "startsWith" => Some("startswith"),
            "endsWith" => Some("endswith"),
            _ => None,
        };
        match other.filter(|other| table.iter().any(|(name, ..)| name == other)) {
            Some(other) => drop(report.help(format!("did you mean `{other}`?")).fix(other)),
            None if is_filter => drop(report.help(format!("it is a filter: `… | {shown}`"))),
            None => {
                let known = table.iter().map(|(name, ..)| *name).chain(fields.iter().map(String::as_str));
                report.suggest(shown, known);
            }
        }
    }
}
