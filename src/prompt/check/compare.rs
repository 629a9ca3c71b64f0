//! Comparisons and tests: what can never be equal, what has no order.

use super::Checker;
use super::expr::Class;
use super::filter::{arity, inside};
use crate::prompt::ast::{Arg, CompareOp, Expr, ExprKind, Name};
use crate::prompt::scope::Ty;
use crate::prompt::uses;
use serde_json::Value as Json;

/// Tests with the fewest and most arguments they take.
pub(super) const TESTS: &[(&str, usize, usize)] = &[
    ("defined", 0, 0),
    ("undefined", 0, 0),
    ("none", 0, 0),
    ("safe", 0, 0),
    ("escaped", 0, 0),
    ("boolean", 0, 0),
    ("odd", 0, 0),
    ("even", 0, 0),
    ("divisibleby", 1, 1),
    ("number", 0, 0),
    ("integer", 0, 0),
    ("int", 0, 0),
    ("float", 0, 0),
    ("string", 0, 0),
    ("sequence", 0, 0),
    ("iterable", 0, 0),
    ("mapping", 0, 0),
    ("startingwith", 1, 1),
    ("endingwith", 1, 1),
    ("lower", 0, 0),
    ("upper", 0, 0),
    ("sameas", 1, 1),
    ("eq", 1, 1),
    ("equalto", 1, 1),
    ("==", 1, 1),
    ("ne", 1, 1),
    ("!=", 1, 1),
    ("lt", 1, 1),
    ("lessthan", 1, 1),
    ("<", 1, 1),
    ("le", 1, 1),
    ("<=", 1, 1),
    ("gt", 1, 1),
    ("greaterthan", 1, 1),
    (">", 1, 1),
    ("ge", 1, 1),
    (">=", 1, 1),
    ("in", 1, 1),
    ("true", 0, 0),
    ("false", 0, 0),
    ("filter", 0, 0),
    ("test", 0, 0),
];

/// Tests that may look at what is absent.
const GUARDS: &[&str] = &[
    "defined",
    "undefined",
    "none",
    "boolean",
    "number",
    "integer",
    "int",
    "float",
    "string",
    "sequence",
    "iterable",
    "mapping",
    "true",
    "false",
];

impl<'a> Checker<'a> {
    /// Checks a chain of comparisons.
    pub(super) fn compare(&mut self, first: &Expr, rest: &[(CompareOp, Expr)]) {
        let mut left_expr = first;
        for (op, right_expr) in rest {
            let none = |expr: &Expr| matches!(&expr.kind, ExprKind::Const(value) if value.is_none());
            if matches!(op, CompareOp::Eq | CompareOp::Ne) && (none(right_expr) || none(left_expr)) {
                let other = if none(right_expr) { left_expr } else { right_expr };
                self.compared_with_none(other);
            } else {
                let (left, right) = (self.used(left_expr), self.used(right_expr));
                self.comparable(*op, (left_expr, &left), (right_expr, &right));
            }
            left_expr = right_expr;
        }
    }

    /// `x == none` fails where `x` is absent; `x is none` does not.
    fn compared_with_none(&mut self, expr: &Expr) {
        if let Ty::Optional(_) = self.ty_within(expr, false) {
            let path = super::path_of(expr).unwrap_or_else(|| "x".to_owned());
            self.warning("optional-unguarded", &expr.span, format!("`{path}` may be absent, which cannot be compared"))
                .help(format!("write `{path} is none`, which holds for what is absent too"));
        }
    }

    fn comparable(&mut self, op: CompareOp, left: (&Expr, &Ty), right: (&Expr, &Ty)) {
        match op {
            CompareOp::Eq | CompareOp::Ne => self.equal(left, right),
            CompareOp::In | CompareOp::NotIn => self.contained(left, right),
            CompareOp::Lt | CompareOp::Le | CompareOp::Gt | CompareOp::Ge => self.ordered(left, right),
        }
    }

    fn equal(&mut self, (left_expr, left): (&Expr, &Ty), (right_expr, right): (&Expr, &Ty)) {
        let (Some(l), Some(r)) = (Class::of(left), Class::of(right)) else { return };
        if l != r {
            let (a, b) = (self.named(left), self.named(right));
            let span = left_expr.span.start..right_expr.span.end;
            let report = self.error("impossible-comparison", &span, format!("{a} is never equal to {b}"));
            let literal_number =
                |expr: &Expr| uses::literal(expr).filter(|text| text.parse::<f64>().is_ok()).map(str::to_owned);
            match (l, r) {
                (Class::Number, Class::Text) | (Class::Text, Class::Number) => {
                    match literal_number(right_expr).or_else(|| literal_number(left_expr)) {
                        Some(number) => report.help(format!("write the number without quotes: `{number}`")),
                        None => report,
                    };
                }
                (Class::Bool, Class::Text) | (Class::Text, Class::Bool) => {
                    report.help("write `true` and `false` without quotes");
                }
                (Class::List, _) | (_, Class::List) => {
                    report.help("to look into a list, write `x in list`");
                }
                _ => {}
            }
            return;
        }
        let (Some(a), Some(b)) = (values(left), values(right)) else { return };
        if a.iter().any(|value| b.contains(value)) {
            return;
        }
        // The literal is what is wrong, and what is corrected.
        let (literal_expr, literal, allowed, other) = match (uses::literal(right_expr), uses::literal(left_expr)) {
            (Some(text), _) => (right_expr, text, a, left),
            (None, Some(text)) => (left_expr, text, b, right),
            (None, None) => {
                let (a, b) = (self.named(left), self.named(right));
                let span = left_expr.span.start..right_expr.span.end;
                self.error("impossible-comparison", &span, format!("{a} is never {b}"));
                return;
            }
        };
        self.not_a_value(literal_expr, literal, &allowed, other);
    }

    fn not_a_value(&mut self, literal_expr: &Expr, literal: &str, allowed: &[Json], other: &Ty) {
        let what = self.named(other);
        let names: Vec<&str> = allowed.iter().filter_map(Json::as_str).collect();
        let message = format!("`{literal}` is not {what}");
        let report = self.error("impossible-comparison", &inside(&literal_expr.span), message);
        report.suggest(literal, names.iter().copied());
    }

    fn contained(&mut self, (left_expr, left): (&Expr, &Ty), (right_expr, right): (&Expr, &Ty)) {
        if let ExprKind::List(items) | ExprKind::Tuple(items) = &right_expr.kind {
            let Some(allowed) = values(left) else {
                if let Some(l) = Class::of(left) {
                    for item in items {
                        let ty = self.ty(item);
                        if Class::of(&ty).is_some_and(|class| class != l) {
                            let (a, b) = (self.named(left), self.named(&ty));
                            self.error("impossible-comparison", &item.span, format!("{a} is never equal to {b}"));
                        }
                    }
                }
                return;
            };
            if uses::literal(left_expr).is_some() {
                return;
            }
            for item in items {
                if let Some(text) = uses::literal(item)
                    && !allowed.contains(&Json::from(text))
                {
                    self.not_a_value(item, text, &allowed, left);
                }
            }
            return;
        }
        match right {
            Ty::List(element) => {
                if let (Some(l), Some(r)) = (Class::of(left), Class::of(element)) {
                    if l != r {
                        let (a, b) = (self.named(left), self.named(right));
                        let span = left_expr.span.start..right_expr.span.end;
                        self.error("impossible-comparison", &span, format!("{a} is never in {b}"));
                    } else if let (Some(text), Some(allowed)) = (uses::literal(left_expr), values(element))
                        && !allowed.contains(&Json::from(text))
                    {
                        self.not_a_value(left_expr, text, &allowed, element);
                    }
                }
            }
            Ty::Str | Ty::Enum(_) if Class::of(left).is_some_and(|class| class != Class::Text) => {
                let a = self.named(left);
                let message = format!("only text can be in text, and this is {a}");
                self.error("type-mismatch", &left_expr.span, message);
            }
            Ty::Bool | Ty::Int | Ty::Number => {
                let b = self.named(right);
                self.error("type-mismatch", &right_expr.span, format!("{b} contains nothing"))
                    .help("write `==` to compare");
            }
            _ => {}
        }
    }

    fn ordered(&mut self, (left_expr, left): (&Expr, &Ty), (right_expr, right): (&Expr, &Ty)) {
        let (Some(l), Some(r)) = (Class::of(left), Class::of(right)) else { return };
        let span = left_expr.span.start..right_expr.span.end;
        if l != r {
            let (a, b) = (self.named(left), self.named(right));
            let report = self.error("type-mismatch", &span, format!("{a} and {b} have no order"));
            match (l, r) {
                (Class::List, Class::Number) | (Class::Number, Class::List) => {
                    report.help("compare the length: `list | length > …`");
                }
                (Class::Text, Class::Number) | (Class::Number, Class::Text) => {
                    report.help("turn text into a number with `| int` or `| float`");
                }
                _ => {}
            }
        } else if matches!(l, Class::Object | Class::Other) {
            let a = self.named(left);
            self.error("type-mismatch", &span, format!("values of {a} have no order")).help("compare a field of it");
        }
    }

    /// Checks `of is name(args)`.
    pub(super) fn test(&mut self, of: &Expr, name: &Name, args: &[Arg]) {
        let known = TESTS.iter().find(|(known, _, _)| *known == name.text);
        // What an unknown test would say of an absent value is not known either.
        let guards = known.is_none() || GUARDS.contains(&name.text.as_str());
        let ty = if guards { self.ty_within(of, true) } else { self.used(of) };
        let types = self.arguments(args);
        let Some((_, least, most)) = known else {
            let shown = &name.text;
            let report = self.error("unknown-test", &name.span, format!("there is no test `{shown}`"));
            let names = TESTS.iter().map(|(name, _, _)| *name);
            match shown.as_str() {
                "null" | "nil" => report.help("write `none`").fix("none"),
                "empty" => report.help("write `x | length == 0`"),
                "list" | "array" => report.help("write `sequence`").fix("sequence"),
                "dict" | "object" => report.help("write `mapping`").fix("mapping"),
                _ => report.suggest(shown, names),
            };
            return;
        };
        arity(self, "test", name, args, *least, Some(*most));
        if let (Some(arg), [right, ..]) = (args.first(), types.as_slice()) {
            let op = match name.text.as_str() {
                "eq" | "equalto" | "==" => CompareOp::Eq,
                "ne" | "!=" => CompareOp::Ne,
                "lt" | "lessthan" | "<" => CompareOp::Lt,
                "le" | "<=" => CompareOp::Le,
                "gt" | "greaterthan" | ">" => CompareOp::Gt,
                "ge" | ">=" => CompareOp::Ge,
                "in" => CompareOp::In,
                _ => return,
            };
            self.comparable(op, (of, &ty.defined()), (arg.value(), right));
        }
    }
}

/// The values that a type has, where they are known.
fn values(ty: &Ty) -> Option<Vec<Json>> {
    match ty {
        Ty::Enum(values) => Some(values.to_vec()),
        Ty::Union(members) => {
            let mut all = Vec::new();
            for member in members {
                all.extend(values(member)?);
            }
            Some(all)
        }
        _ => None,
    }
}
