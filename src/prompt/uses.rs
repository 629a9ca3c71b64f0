//! What a text may look up at run time: its variables, its blackboard functions, the files it draws in.

use super::ast::{self, Arg, Expr, ExprKind, MathOp, Node, Stmt, StmtKind};
use super::files::Files;
use indexmap::IndexSet;

/// The blackboard functions of language.md 2.
pub const FUNCTIONS: &[&str] = &["last", "all", "count", "has", "ran", "now"];

/// What a text, with the files it draws in, may look up.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Uses {
    /// Names that are read, local ones included.
    pub(super) vars: IndexSet<String>,
    /// Calls of blackboard functions with a literal argument, or none.
    pub(super) calls: IndexSet<(String, Option<String>)>,
    /// Files drawn in.
    files: IndexSet<String>,
}

/// What a template uses.
pub(super) fn of_template(files: &Files, stmts: &[Stmt]) -> Uses {
    let mut uses = Uses::default();
    uses.add_template(files, stmts);
    uses
}

/// What an expr uses.
pub(super) fn of_expr(expr: &Expr) -> Uses {
    let mut uses = Uses::default();
    uses.add_expr(expr);
    uses
}

impl Uses {
    fn add_template(&mut self, files: &Files, stmts: &[Stmt]) {
        let mut names: Vec<String> = Vec::new();
        ast::walk(stmts, &mut |node| match node {
            Node::Expr(expr) => self.add_expr(expr),
            Node::Stmt(stmt) => match &stmt.kind {
                StmtKind::Include(name, _)
                | StmtKind::Extends(name)
                | StmtKind::Import(name, _)
                | StmtKind::FromImport(name, _) => {
                    for pattern in NamePattern::of(name) {
                        names.extend(pattern.matches(files).into_iter().map(str::to_owned));
                    }
                }
                // `{% set ns.x = … %}` reads `ns`.
                StmtKind::Set(target, _) => self.add_expr(target),
                _ => {}
            },
        });
        for name in names {
            if self.files.insert(name.clone())
                && let Some(Ok(stmts)) = files.get(&name).map(|file| file.parsed())
            {
                self.add_template(files, stmts);
            }
        }
    }

    fn add_expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Var(name) => {
                self.vars.insert(name.clone());
            }
            ExprKind::Call(callee, args) => {
                if let ExprKind::Var(name) = &callee.kind
                    && FUNCTIONS.contains(&name.as_str())
                {
                    let literal = args.first().and_then(|arg| match arg {
                        Arg::Pos(value) => literal(value),
                        Arg::Named(..) | Arg::Splat(_) => None,
                    });
                    self.calls.insert((name.clone(), literal.map(str::to_owned)));
                }
            }
            _ => {}
        }
        ast::parts(expr, &mut |part| self.add_expr(part));
    }
}

/// The text of a string literal.
pub(super) fn literal(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Const(value) => value.as_str(),
        _ => None,
    }
}

/// What is known of the name in an `include`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NamePattern {
    /// It is this name.
    Exact(String),
    /// It begins and ends so.
    Computed {
        /// What it begins with.
        prefix: String,
        /// What it ends with.
        suffix: String,
    },
}

impl NamePattern {
    /// What the name may be; several for a list or a choice.
    pub(super) fn of(expr: &Expr) -> Vec<NamePattern> {
        match &expr.kind {
            ExprKind::List(items) | ExprKind::Tuple(items) => items.iter().flat_map(NamePattern::of).collect(),
            ExprKind::If { then, otherwise, .. } => {
                let mut patterns = NamePattern::of(then);
                patterns.extend(otherwise.iter().flat_map(|expr| NamePattern::of(expr)));
                patterns
            }
            _ => {
                let (prefix, suffix, whole) = ends(expr);
                if whole { vec![NamePattern::Exact(prefix)] } else { vec![NamePattern::Computed { prefix, suffix }] }
            }
        }
    }

    /// The files that it may come to.
    pub(super) fn matches<'a>(&'a self, files: &'a Files) -> Vec<&'a str> {
        match self {
            NamePattern::Exact(name) => files.names().filter(|file| file == name).collect(),
            NamePattern::Computed { prefix, suffix } => files.matching(prefix, suffix).collect(),
        }
    }
}

/// What a text surely begins and ends with, and whether that is all of it.
fn ends(expr: &Expr) -> (String, String, bool) {
    match &expr.kind {
        ExprKind::Const(value) => {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (text.clone(), text, true)
        }
        ExprKind::Math(MathOp::Add | MathOp::Concat, left, right) => {
            let (left_prefix, left_suffix, left_whole) = ends(left);
            let (right_prefix, right_suffix, right_whole) = ends(right);
            let prefix = if left_whole { left_prefix.clone() + &right_prefix } else { left_prefix };
            let suffix = if right_whole { left_suffix + &right_suffix } else { right_suffix };
            (prefix, suffix, left_whole && right_whole)
        }
        _ => (String::new(), String::new(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_reach_into_included_files() {
        let mut files = Files::new();
        files.insert("p/a.jinja", "{{ deep }}{% include 'p/a.jinja' %}{{ last('Story') }}");
        files.insert("p/b.jinja", "{{ other }}");
        let stmts = ast::parse_template("{{ x }}{% include 'p/' ~ kind ~ '.jinja' %}{{ now() }}").unwrap();
        let uses = of_template(&files, &stmts);
        assert_eq!(uses.vars.iter().collect::<Vec<_>>(), ["x", "kind", "now", "deep", "last", "other"]);
        let story = ("last".to_owned(), Some("Story".to_owned()));
        assert!(uses.calls.contains(&story) && uses.calls.contains(&("now".to_owned(), None)));
    }
}
