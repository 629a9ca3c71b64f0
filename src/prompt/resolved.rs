//! The canonical form of an expr, by which two exprs are the same fact (runtime.md 1).

use super::ast::{self, Arg, CompareOp, Expr, ExprKind, MathOp};
use super::scope::{Scope, Ty};
use super::text;
use super::truth;
use crate::value::{TypeId, Types, snake_case};
use std::fmt::Write;
use std::ops::Range;

/// The canonical text of an expr: variables are replaced by the type they stand for (`Order`, or `customer:Person`
/// where a binding has a name of its own), spacing, quotes and parentheses are made alike. The text itself where it does
/// not parse.
pub fn resolved_form(types: &Types, scope: &Scope, expr: &str) -> String {
    match ast::parse_expr(expr) {
        Ok(parsed) => {
            let mut form = Form { types, scope, out: String::with_capacity(expr.len() + 8) };
            form.expr(&parsed, 0);
            form.out
        }
        Err(_) => expr.trim().to_owned(),
    }
}

/// Strips `not`: whether what is left must hold (`true`) or must not (`false`), and its range. `not x` and `not (…)`
/// give `false`, `not not x` gives `true`.
pub fn split_not(expr: &str) -> (bool, Range<usize>) {
    truth::polarity(expr)
}

/// The words of a text that may be variables.
pub(super) fn names_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

struct Form<'a> {
    types: &'a Types,
    scope: &'a Scope,
    out: String,
}

/// How tight an operator binds; a part that binds less than its place asks for is put in parentheses.
fn binding(expr: &Expr) -> u8 {
    match &expr.kind {
        ExprKind::If { .. } => 0,
        ExprKind::Or(..) => 1,
        ExprKind::And(..) => 2,
        ExprKind::Not(_) => 3,
        ExprKind::Compare(..) => 4,
        ExprKind::Math(MathOp::Add | MathOp::Sub, ..) => 5,
        ExprKind::Math(MathOp::Concat, ..) => 6,
        ExprKind::Math(MathOp::Pow, ..) => 8,
        ExprKind::Math(..) => 7,
        ExprKind::Neg(_) | ExprKind::Filter { .. } | ExprKind::Test { .. } => 9,
        _ => 10,
    }
}

impl Form<'_> {
    fn text(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn expr(&mut self, expr: &Expr, least: u8) {
        let own = binding(expr);
        if own < least {
            self.text("(");
            self.bare(expr, own);
            self.text(")");
        } else {
            self.bare(expr, own);
        }
    }

    fn bare(&mut self, expr: &Expr, own: u8) {
        match &expr.kind {
            ExprKind::Var(name) => self.variable(name),
            ExprKind::Const(value) => {
                let mut literal = String::new();
                if text::write_json(&mut literal, value, 0).is_ok() {
                    self.text(if value.is_none() { "none" } else { &literal });
                }
            }
            ExprKind::List(items) => self.items("[", items, "]"),
            ExprKind::Tuple(items) => self.items("(", items, ",)"),
            ExprKind::Map(pairs) => {
                self.text("{");
                for (index, (key, value)) in pairs.iter().enumerate() {
                    self.text(if index == 0 { "" } else { ", " });
                    self.expr(key, 0);
                    self.text(": ");
                    self.expr(value, 0);
                }
                self.text("}");
            }
            ExprKind::Not(inner) => {
                self.text("not ");
                self.expr(inner, own);
            }
            ExprKind::Neg(inner) => {
                self.text("-");
                self.expr(inner, own);
            }
            ExprKind::And(a, b) => self.infix(a, " and ", b, own),
            ExprKind::Or(a, b) => self.infix(a, " or ", b, own),
            ExprKind::Math(op, a, b) => self.infix(a, math(*op), b, own),
            ExprKind::Compare(first, rest) => {
                self.expr(first, own + 1);
                for (op, right) in rest {
                    self.text(compare(*op));
                    self.expr(right, own + 1);
                }
            }
            ExprKind::If { test, then, otherwise } => {
                self.expr(then, 1);
                self.text(" if ");
                self.expr(test, 1);
                if let Some(otherwise) = otherwise {
                    self.text(" else ");
                    self.expr(otherwise, 0);
                }
            }
            ExprKind::Filter { of, name, args } => {
                of.iter().for_each(|of| self.expr(of, own));
                self.text(" | ");
                self.text(&name.text);
                self.args(args);
            }
            ExprKind::Test { of, name, args } => {
                self.expr(of, own);
                self.text(" is ");
                self.text(&name.text);
                self.args(args);
            }
            ExprKind::Attr(of, name) => {
                self.expr(of, 10);
                self.text(".");
                self.text(&name.text);
            }
            ExprKind::Item(of, index) => {
                self.expr(of, 10);
                // `x["name"]` is `x.name`.
                match super::uses::literal(index).filter(|key| is_name(key)) {
                    Some(key) => {
                        self.text(".");
                        self.text(key);
                    }
                    None => self.items("[", std::slice::from_ref(index), "]"),
                }
            }
            ExprKind::Slice(of, bounds) => {
                self.expr(of, 10);
                for (index, bound) in bounds.iter().enumerate() {
                    self.text(if index == 0 { "[" } else { ":" });
                    bound.iter().for_each(|bound| self.expr(bound, 0));
                }
                self.text("]");
            }
            ExprKind::Call(callee, args) => self.call(callee, args),
        }
    }

    fn call(&mut self, callee: &Expr, args: &[Arg]) {
        // `last("Order")` is what `order` stands for.
        if let (ExprKind::Var(name), [Arg::Pos(argument)]) = (&callee.kind, args)
            && name == "last"
            && self.scope.functions
            && let Some(id) = super::uses::literal(argument).and_then(|name| self.types.id(name))
        {
            self.text(self.types.name(id));
            return;
        }
        match &callee.kind {
            ExprKind::Var(name) => self.text(name),
            _ => self.expr(callee, 10),
        }
        if args.is_empty() {
            self.text("()");
        }
        self.args(args);
    }

    fn variable(&mut self, name: &str) {
        if let Some(ty) = self.scope.vars.get(name) {
            return match named(ty) {
                Some(id) if snake_case(self.types.name(id)) == name => self.text(self.types.name(id)),
                Some(id) => {
                    let _ = write!(self.out, "{name}:{}", self.types.name(id));
                }
                None => self.text(name),
            };
        }
        let ty = self.scope.type_names.as_ref().and_then(|names| names.get(name));
        match ty {
            Some(id) if !self.scope.conditions.contains(name) => self.text(self.types.name(*id)),
            _ => self.text(name),
        }
    }

    fn infix(&mut self, a: &Expr, sign: &str, b: &Expr, own: u8) {
        self.expr(a, own);
        self.text(sign);
        self.expr(b, own + 1);
    }

    fn items(&mut self, open: &str, items: &[Expr], close: &str) {
        self.text(open);
        for (index, item) in items.iter().enumerate() {
            self.text(if index == 0 { "" } else { ", " });
            self.expr(item, 0);
        }
        self.text(close);
    }

    fn args(&mut self, args: &[Arg]) {
        if args.is_empty() {
            return;
        }
        self.text("(");
        for (index, arg) in args.iter().enumerate() {
            self.text(if index == 0 { "" } else { ", " });
            match arg {
                Arg::Pos(_) => {}
                Arg::Named(name, _) => {
                    self.text(&name.text);
                    self.text("=");
                }
                Arg::Splat(_) => self.text("*"),
            }
            self.expr(arg.value(), 0);
        }
        self.text(")");
    }
}

fn named(ty: &Ty) -> Option<TypeId> {
    match ty {
        Ty::Named(id) => Some(*id),
        Ty::Optional(inner) => named(inner),
        _ => None,
    }
}

fn is_name(key: &str) -> bool {
    !key.is_empty()
        && !key.starts_with(|c: char| c.is_ascii_digit())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn math(op: MathOp) -> &'static str {
    match op {
        MathOp::Add => " + ",
        MathOp::Sub => " - ",
        MathOp::Mul => " * ",
        MathOp::Div => " / ",
        MathOp::FloorDiv => " // ",
        MathOp::Rem => " % ",
        MathOp::Pow => " ** ",
        MathOp::Concat => " ~ ",
    }
}

fn compare(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Eq => " == ",
        CompareOp::Ne => " != ",
        CompareOp::Lt => " < ",
        CompareOp::Le => " <= ",
        CompareOp::Gt => " > ",
        CompareOp::Ge => " >= ",
        CompareOp::In => " in ",
        CompareOp::NotIn => " not in ",
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::tests::{scope, types};
    use super::*;

    #[test]
    fn equal_exprs_have_one_form() {
        let types = types();
        let any = Scope { type_names: Some(Scope::type_names(&types)), functions: true, ..Scope::default() };
        let form = |text: &str| resolved_form(&types, &any, text);
        assert_eq!(form("order.days>30"), "Order.days > 30");
        assert_eq!(form("(order . days) > 30"), form("last('Order')[\"days\"] > 30"));
        assert_eq!(resolved_form(&types, &scope(&types), "order.days > 30"), form("order.days > 30"));
        assert_eq!(resolved_form(&types, &scope(&types), "draft.title == 'x'"), "draft:Story.title == \"x\"");
        assert_eq!(form("not (a or b) and c|length>1"), "not (a or b) and c | length > 1");
        assert_eq!(form("a - (b - c)"), "a - (b - c)");
        assert_ne!(form("a - (b - c)"), form("a - b - c"));
        assert_ne!(form("order.tags[1:]"), form("order.tags[:1:1]"));
        assert_eq!(form("a is not none"), "not a is none");
        assert_eq!(form("urgent && x"), "urgent && x");
    }

    #[test]
    fn not_is_stripped() {
        let split = |text: &'static str| {
            let (holds, range) = split_not(text);
            (holds, &text[range])
        };
        assert_eq!(split("not urgent"), (false, "urgent"));
        assert_eq!(split(" not (a or b) "), (false, "a or b"));
        assert_eq!(split("(not a)"), (false, "a"));
        assert_eq!(split("not not a"), (true, "a"));
        assert_eq!(split("not a and b"), (true, "not a and b"));
        assert_eq!(split("a not in b"), (true, "a not in b"));
        assert_eq!(split("urgent"), (true, "urgent"));
        assert_eq!(split("(a) and (b)"), (true, "(a) and (b)"));
    }
}
