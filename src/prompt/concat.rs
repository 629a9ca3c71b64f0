//! `~` joins texts as they print: `true`, `null` refused, `{"a": 1}`. minijinja's operator would write `True` and
//! `None`, so operands that might be such values pass through the filter `string` before a text is compiled. Places of
//! errors are mapped back.

use super::ast::{self, Expr, ExprKind, MathOp, Node, Span, Stmt};

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
    let mut operands = Vec::new();
    if text.contains('~') {
        ast::walk(stmts, &mut |node| {
            if let Node::Expr(expr) = node {
                collect(text, expr, &mut operands);
            }
        });
    }
    rewritten(text, operands)
}

/// An expr as it is compiled.
pub(super) fn expr(text: &str, expr: &Expr) -> (String, Insertions) {
    let mut operands = Vec::new();
    if text.contains('~') {
        collect(text, expr, &mut operands);
    }
    rewritten(text, operands)
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

fn rewritten(text: &str, operands: Vec<Span>) -> (String, Insertions) {
    let mut points: Vec<(usize, &str)> = Vec::new();
    for span in operands {
        points.push((span.start, OPEN));
        points.push((span.end, CLOSE));
    }
    // At one place, what ends there closes before what begins there opens.
    points.sort_by_key(|(at, what)| (*at, *what == OPEN));
    let mut out = String::with_capacity(text.len() + points.len() * CLOSE.len());
    let mut from = 0;
    for (at, what) in &points {
        out.push_str(&text[from..*at]);
        out.push_str(what);
        from = *at;
    }
    out.push_str(&text[from..]);
    (out, Insertions(points.into_iter().map(|(at, what)| (at, what.len())).collect()))
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
