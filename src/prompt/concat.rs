//! `~` joins texts as they print: `true`, `null` refused, `{"a": 1}`. minijinja's operator would write `True` and
//! `None`, so operands that might be such values pass through the filter `string` before a text is compiled. Places of
//! errors are mapped back.

use std::borrow::Cow;

use super::ast::{self, Expr, ExprKind, MathOp, Node, Span, Stmt};
use super::branches::Point;

/// What was put into a text: where in the original, and how many bytes, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Insertions(Vec<(usize, usize)>);

const OPEN: &str = "(";
const CLOSE: &str = ")|string";

impl Insertions {
    /// The range of the original for a range of the text with insertions.
    pub(super) fn original(&self, range: Span) -> Span {
        let start = self.offset(range.start);
        start..self.offset(range.end).max(start)
    }

    fn offset(&self, at: usize) -> usize {
        let mut shift = 0;
        for (inserted, len) in &self.0 {
            let here = inserted + shift;
            if at <= here {
                break;
            }
            if at < here + len {
                return *inserted;
            }
            shift += len;
        }
        at - shift
    }
}

/// A template as it is compiled.
pub(super) fn template(text: &str, stmts: &[Stmt]) -> (String, Insertions) {
    rewritten(text, operands(text, stmts), &[], 0)
}

/// A template that notes which way it goes at each point; the first has the number `first`.
pub(super) fn watched(text: &str, stmts: &[Stmt], points: &[Point], first: usize) -> (String, Insertions) {
    rewritten(text, operands(text, stmts), points, first)
}

/// The operands of `~` in a template that are made text.
fn operands(text: &str, stmts: &[Stmt]) -> Vec<Span> {
    let mut operands = Vec::new();
    if text.contains('~') {
        ast::walk(stmts, &mut |node| {
            if let Node::Expr(expr) = node {
                collect(text, expr, &mut operands);
            }
        });
    }
    operands
}

/// An expr as it is compiled.
pub(super) fn expr(text: &str, expr: &Expr) -> (String, Insertions) {
    let mut operands = Vec::new();
    if text.contains('~') {
        collect(text, expr, &mut operands);
    }
    rewritten(text, operands, &[], 0)
}

fn collect(text: &str, expr: &Expr, operands: &mut Vec<Span>) {
    if let ExprKind::Math(MathOp::Concat, a, b) = &expr.kind {
        for operand in [a, b] {
            if may_not_be_text(operand)
                && text.get(operand.span.clone()).is_some_and(|part| ast::parse_expr(part).is_ok())
            {
                operands.push(operand.span.clone());
            }
        }
    }
    ast::parts(expr, &mut |part| collect(text, part, operands));
}

/// Literals and results of operators print alike either way; `"x" if y` gives nothing where `y` does not hold.
fn may_not_be_text(expr: &Expr) -> bool {
    matches!(
        &expr.kind,
        ExprKind::Var(_)
            | ExprKind::Attr(..)
            | ExprKind::Item(..)
            | ExprKind::Call(..)
            | ExprKind::Filter { .. }
            | ExprKind::Test { .. }
            | ExprKind::Compare(..)
            | ExprKind::Not(_)
            | ExprKind::And(..)
            | ExprKind::Or(..)
            | ExprKind::List(_)
            | ExprKind::Map(_)
            | ExprKind::If { otherwise: Some(_), .. }
    ) || matches!(&expr.kind, ExprKind::Const(value) if value.as_str().is_none() && !value.is_number())
}

fn rewritten(text: &str, operands: Vec<Span>, points: &[Point], first: usize) -> (String, Insertions) {
    let mut inserted: Vec<(usize, bool, Cow<'static, str>)> = Vec::new();
    for span in operands {
        inserted.push((span.start, true, OPEN.into()));
        inserted.push((span.end, false, CLOSE.into()));
    }
    for point in points {
        let (range, open, close) = point.around(first);
        inserted.push((range.start, true, open.into()));
        inserted.push((range.end, false, close.into()));
    }
    // At one place, what ends there closes before what begins there opens.
    inserted.sort_by_key(|(at, opens, _)| (*at, *opens));
    let mut out = String::with_capacity(text.len() + inserted.len() * CLOSE.len());
    let mut from = 0;
    for (at, _, what) in &inserted {
        out.push_str(&text[from..*at]);
        out.push_str(what);
        from = *at;
    }
    out.push_str(&text[from..]);
    (out, Insertions(inserted.into_iter().map(|(at, _, what)| (at, what.len())).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> (String, Insertions) {
        expr(text, &ast::parse_expr(text).unwrap())
    }

    #[test]
    fn operands_are_made_text_and_places_lead_back() {
        let (text, insertions) = shown("a ~ 'x' ~ b.c | upper");
        assert_eq!(text, "(a)|string ~ 'x' ~ (b.c | upper)|string");
        let at = text.find("b.c").unwrap();
        assert_eq!(insertions.original(at..at + 3), 10..13);
        assert_eq!(insertions.original(0..text.len()), 0..21);
        assert_eq!(shown("1 ~ 'x' ~ (1 + 2)").0, "1 ~ 'x' ~ (1 + 2)");
        assert_eq!(shown("(a) ~ f(b ~ c)").0, "((a)|string) ~ (f((b)|string ~ (c)|string))|string");
        assert_eq!(shown("a ~ ('b' if c)").0, "(a)|string ~ ('b' if c)");
    }
}
