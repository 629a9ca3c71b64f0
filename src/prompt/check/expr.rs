//! Expressions: variables, operators, literals.

use super::{Checker, path_of};
use crate::prompt::ast::{Arg, Expr, ExprKind, MathOp, Span};
use crate::prompt::scope::{Position, Ty};
use crate::value::snake_case;
use indexmap::IndexMap;
use minijinja::Value;
use minijinja::value::ValueKind;
use serde_json::Value as Json;
use std::sync::Arc;

impl<'a> Checker<'a> {
    /// The type of an expression whose value is needed: what may be absent is reported.
    pub(super) fn used(&mut self, expr: &Expr) -> Ty {
        match &expr.kind {
            // The branches are what may be absent.
            ExprKind::If { test, then, otherwise: Some(otherwise) } => {
                self.truth(test);
                let yes = self.assuming(test, true, |checker| checker.used(then));
                let no = self.assuming(test, false, |checker| checker.used(otherwise));
                Ty::union([yes, no])
            }
            ExprKind::Or(a, b) => {
                let left = self.ty_within(a, true).defined();
                let right = self.assuming(a, false, |checker| checker.used(b));
                if left == Ty::Null { right } else { Ty::union([left, right]) }
            }
            _ => {
                let ty = self.ty(expr);
                self.needed(expr, ty)
            }
        }
    }

    /// Reports a value that may be absent; gives the type it has when it is there.
    pub(super) fn needed(&mut self, expr: &Expr, ty: Ty) -> Ty {
        let Ty::Optional(inner) = ty else { return ty };
        match path_of(expr) {
            Some(path) => {
                let is_type = matches!(&expr.kind, ExprKind::Var(name) if self.is_type_name(name));
                let message = if is_type {
                    let ty = inner.describe(self.types);
                    format!("there may be no `{ty}` yet: `{path}` may be undefined")
                } else {
                    format!("`{path}` may be absent")
                };
                self.warning("optional-unguarded", &expr.span, message)
                    .help(format!(
                        "guard it: `{{% if {path} is defined %}}…{{% endif %}}`, in an expr `{path} is defined and …`"
                    ))
                    .help(format!("or give a default: `{path} | default(…)`"));
                // Once is enough: what follows in this part of the text is the same mistake.
                self.facts.push(super::Fact::Defined(path));
            }
            None => {
                let message = match &expr.kind {
                    ExprKind::If { otherwise: None, .. } => "the value is undefined where the condition does not hold",
                    _ => "the value may be absent",
                };
                let report = self.warning("optional-unguarded", &expr.span, message);
                match &expr.kind {
                    ExprKind::If { otherwise: None, .. } => report.help("add `else …`"),
                    _ => report.help("give a default: `… | default(…)`"),
                };
            }
        }
        *inner
    }

    /// The type of a condition: what may be absent is looked at as false, or makes the condition unknown.
    pub(super) fn truth(&mut self, expr: &Expr) -> Ty {
        match &expr.kind {
            ExprKind::And(a, b) => {
                self.truth(a);
                self.assuming(a, true, |checker| checker.truth(b));
            }
            ExprKind::Or(a, b) => {
                self.truth(a);
                self.assuming(a, false, |checker| checker.truth(b));
            }
            ExprKind::Not(inner) => drop(self.truth(inner)),
            _ => {
                let ty = self.ty_within(expr, self.scope.position != Position::Truth);
                if let Ty::Callable(callable) = &ty {
                    let message = format!("`{}` is a function, which is always true", callable.name);
                    self.error("type-mismatch", &expr.span, message).help("call it with `()`");
                }
            }
        }
        Ty::Bool
    }

    /// The type of an expression, perhaps absent.
    pub(super) fn ty(&mut self, expr: &Expr) -> Ty {
        self.ty_within(expr, false)
    }

    /// `guarded`: the expression itself may be absent without harm.
    pub(super) fn ty_within(&mut self, expr: &Expr, guarded: bool) -> Ty {
        let ty = match &expr.kind {
            ExprKind::Var(name) => self.variable(name, expr, guarded),
            ExprKind::Const(value) => constant(value),
            ExprKind::List(items) => Ty::List(Box::new(self.elements(items))),
            ExprKind::Tuple(items) => Ty::Tuple(items.iter().map(|item| self.used(item)).collect()),
            ExprKind::Map(pairs) => self.map(pairs),
            ExprKind::Not(inner) => {
                self.truth(inner);
                Ty::Bool
            }
            ExprKind::Neg(inner) => {
                let ty = self.used(inner);
                self.number(&ty, &inner.span, "-");
                if ty == Ty::Int { Ty::Int } else { Ty::Number }
            }
            ExprKind::And(a, b) => {
                let left = self.ty_within(a, true);
                let right = self.assuming(a, true, |checker| checker.ty(b));
                if left == Ty::Bool && right == Ty::Bool { Ty::Bool } else { Ty::union([left, right]) }
            }
            ExprKind::Or(a, b) => {
                let left = self.ty_within(a, true).defined();
                let right = self.assuming(a, false, |checker| checker.ty(b));
                if left == Ty::Null { right } else { Ty::union([left, right]) }
            }
            ExprKind::Math(op, a, b) => self.math(*op, a, b, expr),
            ExprKind::Compare(first, rest) => {
                self.compare(first, rest);
                Ty::Bool
            }
            ExprKind::If { test, then, otherwise } => {
                self.truth(test);
                let yes = self.assuming(test, true, |checker| checker.ty(then));
                match otherwise {
                    Some(otherwise) => {
                        let no = self.assuming(test, false, |checker| checker.ty(otherwise));
                        Ty::union([yes, no])
                    }
                    None => yes.optional_unless_any(),
                }
            }
            ExprKind::Filter { of, name, args } => match of {
                Some(of) => self.filter(of, name, args),
                None => self.filter_of(Ty::Str, None, name, args),
            },
            ExprKind::Test { of, name, args } => {
                self.test(of, name, args);
                Ty::Bool
            }
            ExprKind::Attr(of, name) => {
                let ty = self.attribute(of, name);
                self.narrowed(expr, ty)
            }
            ExprKind::Item(of, index) => {
                let ty = self.item(of, index);
                self.narrowed(expr, ty)
            }
            ExprKind::Slice(of, bounds) => {
                for bound in bounds.iter().flatten() {
                    let ty = self.used(bound);
                    if !matches!(ty, Ty::Null) {
                        self.number(&ty, &bound.span, ":");
                    }
                }
                let ty = self.used(of);
                match ty {
                    Ty::Tuple(parts) => Ty::List(Box::new(Ty::union(parts))),
                    Ty::Enum(_) => Ty::Str,
                    Ty::Bool | Ty::Int | Ty::Number | Ty::Named(_) | Ty::Object(_) | Ty::Record(_) | Ty::Map(_) => {
                        let what = self.named(&ty);
                        self.error("type-mismatch", &of.span, format!("{what} cannot be sliced"));
                        Ty::Any
                    }
                    other => other,
                }
            }
            ExprKind::Call(callee, args) => {
                let ty = self.call(callee, args, expr);
                self.last_call(expr, ty, guarded)
            }
        };
        if guarded {
            self.facts_for_guarded(expr);
        }
        ty
    }

    /// `last("T")` needs a `T`, unless a guard has looked for one.
    fn last_call(&mut self, expr: &Expr, ty: Ty, guarded: bool) -> Ty {
        let Some(name) = super::last_call(expr) else { return ty };
        let path = path_of(expr).unwrap_or_default();
        let known = self.facts.contains(&super::Fact::Defined(path));
        if !guarded && !known && self.types.id(name).is_some() {
            self.out.needs.insert(name.to_owned());
        }
        self.narrowed(expr, ty)
    }

    /// Records a guarded look at a variable.
    fn facts_for_guarded(&mut self, expr: &Expr) {
        if let ExprKind::Var(name) = &expr.kind
            && self.local(name).is_none()
            && self.is_root(name)
        {
            self.out.guarded.insert(name.clone());
        }
    }

    fn is_root(&self, name: &str) -> bool {
        self.scope.vars.contains_key(name) || self.scope.conditions.contains(name) || self.is_type_name(name)
    }

    pub(super) fn is_type_name(&self, name: &str) -> bool {
        self.local(name).is_none()
            && !self.scope.vars.contains_key(name)
            && !self.scope.conditions.contains(name)
            && self.scope.type_names.as_ref().is_some_and(|names| names.contains_key(name))
    }

    fn variable(&mut self, name: &str, expr: &Expr, guarded: bool) -> Ty {
        if let Some(ty) = self.local(name) {
            let ty = ty.clone();
            return self.narrowed(expr, ty);
        }
        let guarded = guarded || self.is_guarded(name);
        let found = if let Some(ty) = self.scope.vars.get(name) {
            Some(ty.clone())
        } else if self.scope.conditions.contains(name) {
            self.out.conditions.insert(name.to_owned());
            Some(Ty::Bool)
        } else if let Some(id) = self.scope.type_names.as_ref().and_then(|names| names.get(name)).copied() {
            self.out.types.insert(self.types.name(id).to_owned());
            if !guarded {
                self.out.needs.insert(self.types.name(id).to_owned());
            }
            let ty = Ty::named(self.types, id);
            // A condition that mentions a missing object is unknown, which is no mistake.
            let harmless = self.scope.position == Position::Truth;
            Some(if harmless { ty } else { ty.optional_unless_any() })
        } else {
            None
        };
        if let Some(ty) = found {
            let set = if guarded { &mut self.out.guarded } else { &mut self.out.mentions };
            if !set.contains(name) {
                set.insert(name.to_owned());
            }
            return self.narrowed(expr, ty);
        }
        if let Some(ty) = self.function_value(name) {
            return ty;
        }
        if !guarded && !self.lenient {
            self.unknown_variable(name, &expr.span);
        }
        Ty::Any
    }

    fn unknown_variable(&mut self, name: &str, span: &Span) {
        let literal = match name {
            "null" | "nil" | "Null" | "NULL" | "undefined" => Some("none"),
            "TRUE" => Some("true"),
            "FALSE" => Some("false"),
            "AND" | "And" => Some("and"),
            "OR" | "Or" => Some("or"),
            "NOT" | "Not" => Some("not"),
            _ => None,
        };
        if let Some(literal) = literal {
            let message = format!("`{name}` is written `{literal}` here");
            self.error("unknown-variable", span, message).help(format!("write `{literal}`")).fix(literal);
            return;
        }
        let mut names: Vec<String> = Vec::new();
        for frame in self.frames.iter().rev() {
            names.extend(frame.vars.keys().cloned());
        }
        names.extend(self.scope.vars.keys().cloned());
        names.extend(self.scope.conditions.iter().cloned());
        if let Some(types) = &self.scope.type_names {
            names.extend(types.keys().cloned());
        }
        let snake = snake_case(name);
        let message = format!("there is no variable `{name}` here");
        let mut once = indexmap::IndexSet::new();
        once.extend(names.iter());
        let listed = once.iter().take(10).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let is_env = matches!(name, "env" | "environ" | "environment");
        let report = self.error("unknown-variable", span, message);
        let report = if names.contains(&snake) {
            report.help(format!("did you mean `{snake}`?")).fix(&snake)
        } else {
            report.suggest(name, names.iter().map(String::as_str))
        };
        if let Some(finding) = report.finding {
            if is_env {
                finding
                    .help
                    .push("environment variables are not visible to templates; put the value in `config`".to_owned());
            } else if finding.help.is_empty() && !listed.is_empty() {
                finding.help.push(format!("visible here: {listed}"));
            }
        }
    }

    fn elements(&mut self, items: &[Expr]) -> Ty {
        if items.is_empty() {
            return Ty::Any;
        }
        let tys = items.iter().map(|item| self.used(item)).collect::<Vec<_>>();
        Ty::union(tys)
    }

    fn map(&mut self, pairs: &[(Expr, Expr)]) -> Ty {
        let mut fields: IndexMap<String, Ty> = IndexMap::new();
        let mut free = false;
        for (key, value) in pairs {
            self.used(key);
            let ty = self.used(value);
            match crate::prompt::uses::literal(key) {
                Some(name) => drop(fields.insert(name.to_owned(), ty)),
                None => free = true,
            }
        }
        if free { Ty::Map(Box::new(Ty::Any)) } else { Ty::Record(Arc::new(fields)) }
    }

    fn math(&mut self, op: MathOp, a: &Expr, b: &Expr, whole: &Expr) -> Ty {
        let (left, right) = (self.used(a), self.used(b));
        if op == MathOp::Concat {
            for (ty, expr) in [(&left, a), (&right, b)] {
                self.has_text(ty, expr);
            }
            return Ty::Str;
        }
        let (l, r) = (Class::of(&left), Class::of(&right));
        let (Some(l), Some(r)) = (l, r) else { return Ty::Any };
        let both_int = left == Ty::Int && right == Ty::Int;
        match (op, l, r) {
            (MathOp::Add, Class::Text, Class::Text) => return Ty::Str,
            (MathOp::Add, Class::List, Class::List) => return Ty::List(Box::new(element_union(&left, &right))),
            (MathOp::Mul, Class::Text, Class::Number) | (MathOp::Mul, Class::Number, Class::Text) => return Ty::Str,
            (MathOp::Mul, Class::List, Class::Number) => return left,
            (MathOp::Div, Class::Number, Class::Number) => return Ty::Number,
            (_, Class::Number, Class::Number) => return if both_int { Ty::Int } else { Ty::Number },
            _ => {}
        }
        let (left, right) = (self.named(&left), self.named(&right));
        let sign = sign(op);
        let message = format!("`{sign}` cannot combine {left} and {right}");
        let report = self.error("type-mismatch", &whole.span, message);
        if op == MathOp::Add && (l == Class::Text || r == Class::Text) {
            report.help("join text with `~`");
        } else if l == Class::Text || r == Class::Text {
            report.help("turn text into a number with `| int` or `| float`");
        }
        Ty::Any
    }

    fn number(&mut self, ty: &Ty, span: &Span, sign: &str) {
        if let Some(class) = Class::of(ty)
            && class != Class::Number
        {
            let what = self.named(ty);
            self.error("type-mismatch", span, format!("`{sign}` wants a number, and this is {what}"));
        }
    }

    /// Reports a value that cannot be written as text.
    pub(super) fn has_text(&mut self, ty: &Ty, expr: &Expr) {
        match ty {
            Ty::Null => {
                self.error("type-mismatch", &expr.span, "null has no text")
                    .help("give a default: `… | default(\"…\")`");
            }
            ty if ty.is_nullable() => {
                let path = path_of(expr).unwrap_or_else(|| "the value".to_owned());
                self.warning("optional-unguarded", &expr.span, format!("`{path}` may be null, which has no text"))
                    .help(format!("guard it: `{{% if {path} is not none %}}…{{% endif %}}`"))
                    .help(format!("or give a default: `{path} | default(…)`"));
            }
            Ty::Callable(callable) => {
                let message = format!("`{}` is a function, which has no text", callable.name);
                self.error("type-mismatch", &expr.span, message).help(format!("call it: `{}(…)`", callable.name));
            }
            Ty::Module(_) => {
                self.error("type-mismatch", &expr.span, "an imported file has no text")
                    .help("call one of its macros: `name.macro(…)`");
            }
            _ => {}
        }
    }

    /// Checks the values of arguments.
    pub(super) fn arguments(&mut self, args: &[Arg]) -> Vec<Ty> {
        args.iter().map(|arg| self.used(arg.value())).collect()
    }
}

/// The type of a literal.
pub(super) fn constant(value: &Value) -> Ty {
    match value.kind() {
        ValueKind::None => Ty::Null,
        ValueKind::Bool => Ty::Bool,
        ValueKind::Number if value.is_integer() => Ty::Int,
        ValueKind::Number => Ty::Number,
        ValueKind::String => Ty::Enum(Arc::new(vec![Json::from(value.as_str().unwrap_or_default())])),
        _ => Ty::Any,
    }
}

fn element_union(left: &Ty, right: &Ty) -> Ty {
    let element = |ty: &Ty| match ty {
        Ty::List(element) => (**element).clone(),
        Ty::Tuple(parts) => Ty::union(parts.iter().cloned()),
        _ => Ty::Any,
    };
    Ty::union([element(left), element(right)])
}

fn sign(op: MathOp) -> &'static str {
    match op {
        MathOp::Add => "+",
        MathOp::Sub => "-",
        MathOp::Mul => "*",
        MathOp::Div => "/",
        MathOp::FloorDiv => "//",
        MathOp::Rem => "%",
        MathOp::Pow => "**",
        MathOp::Concat => "~",
    }
}

/// The kinds of value that operators tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Number,
    Text,
    Bool,
    List,
    Object,
    Other,
}

impl Class {
    /// The class of all values of a type, where they have one in common and it is known.
    pub(super) fn of(ty: &Ty) -> Option<Class> {
        match ty {
            Ty::Any | Ty::Null => None,
            Ty::Bool => Some(Class::Bool),
            Ty::Int | Ty::Number => Some(Class::Number),
            Ty::Str => Some(Class::Text),
            Ty::Enum(values) => {
                let class = |value: &Json| match value {
                    Json::String(_) => Some(Class::Text),
                    Json::Number(_) => Some(Class::Number),
                    Json::Bool(_) => Some(Class::Bool),
                    Json::Array(_) => Some(Class::List),
                    Json::Object(_) => Some(Class::Object),
                    Json::Null => None,
                };
                let first = class(values.first()?)?;
                values.iter().all(|value| class(value) == Some(first)).then_some(first)
            }
            Ty::Named(_) | Ty::Object(_) | Ty::Map(_) | Ty::Record(_) => Some(Class::Object),
            Ty::List(_) | Ty::Tuple(_) => Some(Class::List),
            Ty::Union(members) => {
                let first = Class::of(members.first()?)?;
                members.iter().all(|ty| Class::of(ty) == Some(first)).then_some(first)
            }
            Ty::Optional(inner) => Class::of(inner),
            Ty::Callable(_) | Ty::Module(_) => Some(Class::Other),
        }
    }
}
