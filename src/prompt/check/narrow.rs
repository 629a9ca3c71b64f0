//! What a condition shows of the paths that it looks at.

use super::{Checker, path_of};
use crate::prompt::ast::{Arg, CompareOp, Expr, ExprKind};
use crate::prompt::scope::Ty;
use crate::value::TypeKind;

/// Something known of a path while a part of a text is looked at.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fact {
    /// It has a value that is not null.
    Defined(String),
    /// It has none.
    Absent(String),
    /// Its value has this type.
    Is(String, Ty),
    /// The variable is another one now: what was known of it counts no more.
    Forget(String),
}

impl<'a> Checker<'a> {
    /// Applies what is known of a path to its type.
    pub(super) fn narrowed(&self, expr: &Expr, ty: Ty) -> Ty {
        if self.facts.is_empty() {
            return ty;
        }
        let (Some(path), Some(root)) = (path_of(expr), super::root_of(expr)) else { return ty };
        let mut defined = None;
        let mut ty = ty;
        for fact in self.facts.iter().rev() {
            match fact {
                Fact::Forget(name) if name == root => break,
                Fact::Defined(known) if *known == path => defined = defined.or(Some(true)),
                Fact::Absent(known) if *known == path => defined = defined.or(Some(false)),
                Fact::Is(known, narrow) if *known == path => {
                    ty = narrow.clone();
                    defined = defined.or(Some(true));
                }
                _ => {}
            }
        }
        match defined {
            Some(true) => ty.defined(),
            Some(false) if ty == Ty::Any => ty,
            Some(false) => Ty::Optional(Box::new(ty.defined())),
            None => ty,
        }
    }

    /// Whether a guard on the way here has looked at the path.
    pub(super) fn is_guarded(&self, name: &str) -> bool {
        for fact in self.facts.iter().rev() {
            match fact {
                Fact::Forget(forgotten) if forgotten == name => return false,
                Fact::Defined(known) | Fact::Absent(known) if known == name => return true,
                _ => {}
            }
        }
        false
    }

    /// Adds what holds where a condition is true (or false).
    pub(super) fn assume(&mut self, test: &Expr, holds: bool) {
        match &test.kind {
            ExprKind::Not(inner) => self.assume(inner, !holds),
            ExprKind::And(a, b) if holds => {
                self.assume(a, true);
                self.assume(b, true);
            }
            ExprKind::Or(a, b) if !holds => {
                self.assume(a, false);
                self.assume(b, false);
            }
            ExprKind::Var(_) | ExprKind::Attr(..) | ExprKind::Item(..) if holds => self.assume_defined(test, true),
            ExprKind::Test { of, name, args } => match name.text.as_str() {
                "defined" => self.assume_defined(of, holds),
                "undefined" | "none" => self.assume_defined(of, !holds),
                // A test that does not exist is reported; what it was to show is not doubted too.
                unknown if !super::compare::TESTS.iter().any(|(name, ..)| *name == unknown) => {
                    self.assume_defined(of, holds);
                }
                "eq" | "equalto" | "==" if holds => {
                    if let [arg] = args.as_slice() {
                        self.assume_equal(of, arg.value());
                    }
                    self.assume_defined(of, true);
                }
                "true" | "string" | "number" | "integer" | "int" | "float" | "boolean" | "sequence" | "iterable"
                | "mapping" | "in" | "startingwith" | "endingwith"
                    if holds =>
                {
                    self.assume_defined(of, true);
                }
                _ => {}
            },
            ExprKind::Compare(first, rest) => {
                if let [(op, other)] = rest.as_slice() {
                    self.assume_compared(first, *op, other, holds);
                }
            }
            // `has("T")` shows that there is a newest one.
            ExprKind::Call(callee, args) if holds => {
                if let (ExprKind::Var(name), [Arg::Pos(argument)]) = (&callee.kind, args.as_slice())
                    && name == "has"
                {
                    self.assume_there(argument);
                }
            }
            // `x | length > 0` and the like look at `x`; `x | default(…)` does not show that it is there.
            ExprKind::Filter { of: Some(of), name, .. } if holds && !matches!(name.text.as_str(), "default" | "d") => {
                self.assume(of, true);
            }
            _ => {}
        }
    }

    fn assume_compared(&mut self, first: &Expr, op: CompareOp, other: &Expr, holds: bool) {
        let none = |expr: &Expr| matches!(&expr.kind, ExprKind::Const(value) if value.is_none());
        // `count("T") > 0`.
        if let ExprKind::Call(callee, args) = &first.kind
            && matches!(&callee.kind, ExprKind::Var(name) if name == "count")
            && matches!((op, holds), (CompareOp::Gt | CompareOp::Ge | CompareOp::Ne, true) | (CompareOp::Eq, false))
            && let [Arg::Pos(argument)] = args.as_slice()
        {
            self.assume_there(argument);
        }
        match (op, none(other)) {
            (CompareOp::Eq, true) => self.assume_defined(first, !holds),
            (CompareOp::Ne, true) => self.assume_defined(first, holds),
            (CompareOp::Eq, false) if holds => {
                self.assume_equal(first, other);
                self.assume_equal(other, first);
                self.assume_defined(first, true);
            }
            (CompareOp::Ne, false) if !holds => self.assume_equal(first, other),
            _ => {}
        }
    }

    fn assume_there(&mut self, argument: &Expr) {
        if let Some(name) = crate::prompt::uses::literal(argument) {
            self.facts.push(Fact::Defined(format!("last(\"{name}\")")));
            let snake = crate::value::snake_case(name);
            if self.is_type_name(&snake) {
                self.facts.push(Fact::Defined(snake));
            }
        }
    }

    fn assume_defined(&mut self, expr: &Expr, defined: bool) {
        if let Some(path) = path_of(expr) {
            self.facts.push(if defined { Fact::Defined(path) } else { Fact::Absent(path) });
        }
    }

    /// `x.type == "Frog"` shows that `x` is a `Frog`.
    fn assume_equal(&mut self, path: &Expr, value: &Expr) {
        let ExprKind::Attr(of, name) = &path.kind else { return };
        let (Some(text), Some(object)) = (crate::prompt::uses::literal(value), path_of(of)) else { return };
        let Some(id) = self.types.id(text) else { return };
        let is_tag = |sup| self.types.get(sup).discriminator == name.text;
        let subtype = self.types.supertypes(id).into_iter().chain([id]).any(is_tag);
        if subtype && matches!(self.types.get(id).kind, TypeKind::Object(_)) {
            self.facts.push(Fact::Is(object, Ty::Named(id)));
        }
    }

    /// Looks at something where a condition holds, or does not.
    pub(super) fn assuming<T>(&mut self, test: &Expr, holds: bool, look: impl FnOnce(&mut Self) -> T) -> T {
        let facts = self.facts.len();
        self.assume(test, holds);
        let result = look(self);
        self.facts.truncate(facts);
        result
    }
}
