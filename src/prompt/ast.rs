//! The syntax trees of templates and exprs, with exact byte ranges.
//!
//! The one place that knows minijinja's own trees: their spans begin at odd tokens (the operator before a comparison,
//! the dot of the second attribute), so they are rebuilt here with ranges that can be shown under carets.

use super::syntax::{self, SyntaxFault};
use minijinja::Value;
use minijinja::machinery::{self, ast as mj};
use minijinja::syntax::SyntaxConfig;
use std::ops::Range;
use std::sync::OnceLock;

/// Byte offsets in the text.
pub type Span = Range<usize>;

/// An expression and where it stands. Parentheses around the whole are not part of the range.
#[derive(Clone, Debug)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where it stands.
    pub span: Span,
}

/// The kinds of expression.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// A variable.
    Var(String),
    /// A literal.
    Const(Value),
    /// `[a, b]`.
    List(Vec<Expr>),
    /// `(a, b)`.
    Tuple(Vec<Expr>),
    /// `{k: v}`.
    Map(Vec<(Expr, Expr)>),
    /// `not x`.
    Not(Box<Expr>),
    /// `-x`.
    Neg(Box<Expr>),
    /// `a and b`.
    And(Box<Expr>, Box<Expr>),
    /// `a or b`.
    Or(Box<Expr>, Box<Expr>),
    /// `a + b` and the like.
    Math(MathOp, Box<Expr>, Box<Expr>),
    /// `a < b`, `a < b < c`, `a in b`.
    Compare(Box<Expr>, Vec<(CompareOp, Expr)>),
    /// `a if test else b`.
    If {
        /// The condition.
        test: Box<Expr>,
        /// The value where it holds.
        then: Box<Expr>,
        /// The value where it does not.
        otherwise: Option<Box<Expr>>,
    },
    /// `x | name(args)`; `of` is absent at the start of a `{% filter %}`.
    Filter {
        /// What is filtered.
        of: Option<Box<Expr>>,
        /// The filter.
        name: Name,
        /// Its further arguments.
        args: Vec<Arg>,
    },
    /// `x is name(args)`.
    Test {
        /// What is tested.
        of: Box<Expr>,
        /// The test.
        name: Name,
        /// Its further arguments.
        args: Vec<Arg>,
    },
    /// `x.name`.
    Attr(Box<Expr>, Name),
    /// `x[index]`.
    Item(Box<Expr>, Box<Expr>),
    /// `x[a:b:c]`.
    Slice(Box<Expr>, [Option<Box<Expr>>; 3]),
    /// `f(args)`.
    Call(Box<Expr>, Vec<Arg>),
}

/// A name and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// An argument of a call, filter or test.
#[derive(Clone, Debug)]
pub enum Arg {
    /// By position.
    Pos(Expr),
    /// By name.
    Named(Name, Expr),
    /// `*list` or `**map`.
    Splat(Expr),
}

impl Arg {
    /// The value that is given.
    pub fn value(&self) -> &Expr {
        match self {
            Arg::Pos(expr) | Arg::Named(_, expr) | Arg::Splat(expr) => expr,
        }
    }
}

/// Operators on numbers and text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MathOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `//`
    FloorDiv,
    /// `%`
    Rem,
    /// `**`
    Pow,
    /// `~`
    Concat,
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareOp {
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `in`
    In,
    /// `not in`
    NotIn,
}

/// A statement and where it stands.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// What it is.
    pub kind: StmtKind,
    /// Where it stands; of blocks, from the keyword to the end.
    pub span: Span,
}

/// The kinds of statement.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// `{{ x }}`.
    Emit(Expr),
    /// Text between tags.
    Raw {
        /// Whether it is only white space.
        blank: bool,
    },
    /// `{% for %}`.
    For {
        /// The loop variables.
        target: Expr,
        /// What is looped over.
        iter: Expr,
        /// The `if` behind it.
        filter: Option<Expr>,
        /// `recursive`.
        recursive: bool,
        /// What is repeated.
        body: Vec<Stmt>,
        /// What stands for no element at all.
        otherwise: Vec<Stmt>,
    },
    /// `{% if %}`.
    If {
        /// The condition.
        test: Expr,
        /// Where it holds.
        then: Vec<Stmt>,
        /// Where it does not.
        otherwise: Vec<Stmt>,
    },
    /// `{% with %}`.
    With(Vec<(Expr, Expr)>, Vec<Stmt>),
    /// `{% set x = … %}`.
    Set(Expr, Expr),
    /// `{% set x %}…{% endset %}`, perhaps with a filter.
    SetBlock(Expr, Option<Expr>, Vec<Stmt>),
    /// `{% filter %}`.
    Filter(Expr, Vec<Stmt>),
    /// `{% autoescape %}`.
    AutoEscape(Expr, Vec<Stmt>),
    /// `{% block %}`.
    Block(Name, Vec<Stmt>),
    /// `{% extends %}`.
    Extends(Expr),
    /// `{% include %}`.
    Include(Expr, bool),
    /// `{% import x as y %}`.
    Import(Expr, Expr),
    /// `{% from x import y as z %}`.
    FromImport(Expr, Vec<(Expr, Option<Expr>)>),
    /// `{% macro %}`.
    Macro(Macro),
    /// `{% call %}`: the call and the block as its `caller`.
    Call(Expr, Macro),
    /// `{% do %}`.
    Do(Expr),
    /// `{% break %}` and `{% continue %}`.
    Jump,
}

/// A declared macro, or the block of a `{% call %}`.
#[derive(Clone, Debug)]
pub struct Macro {
    /// Its name.
    pub name: Name,
    /// Parameters with their defaults.
    pub parameters: Vec<(Name, Option<Expr>)>,
    /// What it renders.
    pub body: Vec<Stmt>,
}

/// The syntax that all templates share: Jinja's, with `trim_blocks` and `lstrip_blocks`.
pub(super) fn syntax_config() -> SyntaxConfig {
    static CONFIG: OnceLock<SyntaxConfig> = OnceLock::new();
    let build = || SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().unwrap_or_default();
    CONFIG.get_or_init(build).clone()
}

/// Parses a template.
///
/// # Errors
/// The place and likely cure of the first mistake.
pub fn parse_template(text: &str) -> Result<Vec<Stmt>, SyntaxFault> {
    syntax::check_depth(text, false)?;
    let root = parse_with_whitespace(text).map_err(|error| syntax::fault(text, &error, false))?;
    let mj::Stmt::Template(template) = &root else { return Ok(Vec::new()) };
    let stmts = Convert { text }.stmts(&template.children);
    if text.contains("cycle") || text.contains("import") {
        refuse_panics(text, &stmts)?;
    }
    Ok(stmts)
}

/// Refuses what minijinja's parser lets through and its compiler or its loops panic at.
fn refuse_panics(text: &str, stmts: &[Stmt]) -> Result<(), SyntaxFault> {
    let mut found = None;
    walk(stmts, &mut |node| {
        let fault = || match node {
            Node::Expr(expr) => empty_cycle(expr).map(|span| syntax::empty_cycle(text, span)),
            Node::Stmt(Stmt { kind: StmtKind::Import(_, name), .. }) if !matches!(name.kind, ExprKind::Var(_)) => {
                Some(syntax::import_target(text, name.span.clone()))
            }
            Node::Stmt(_) => None,
        };
        found = found.take().or_else(fault);
    });
    found.map_or(Ok(()), Err)
}

/// A `loop.cycle()` without a value: minijinja divides by their number.
fn empty_cycle(expr: &Expr) -> Option<Span> {
    if let ExprKind::Call(callee, args) = &expr.kind
        && matches!(&callee.kind, ExprKind::Attr(_, name) if name.text == "cycle")
        && !args.iter().any(|arg| matches!(arg, Arg::Pos(_)))
    {
        return Some(expr.span.clone());
    }
    let mut found = None;
    parts(expr, &mut |part| found = found.take().or_else(|| empty_cycle(part)));
    found
}

fn parse_with_whitespace(text: &str) -> Result<mj::Stmt<'_>, minijinja::Error> {
    machinery::parse(text, "", syntax_config())
}

/// Parses a bare expression.
///
/// # Errors
/// The place and likely cure of the first mistake.
pub fn parse_expr(text: &str) -> Result<Expr, SyntaxFault> {
    syntax::check_depth(text, true)?;
    let root = machinery::parse_expr(text).map_err(|error| syntax::fault(text, &error, true))?;
    Ok(Convert { text }.expr(&root))
}

/// Rebuilds minijinja's tree of a text.
struct Convert<'t> {
    text: &'t str,
}

fn range(span: machinery::Span) -> Span {
    span.start_offset as usize..span.end_offset as usize
}

impl Convert<'_> {
    fn stmts(&self, stmts: &[mj::Stmt<'_>]) -> Vec<Stmt> {
        stmts.iter().map(|stmt| self.stmt(stmt)).collect()
    }

    fn stmt(&self, stmt: &mj::Stmt<'_>) -> Stmt {
        let (kind, span) = match stmt {
            mj::Stmt::Template(s) => (StmtKind::With(Vec::new(), self.stmts(&s.children)), s.span()),
            mj::Stmt::EmitExpr(s) => (StmtKind::Emit(self.expr(&s.expr)), s.span()),
            mj::Stmt::EmitRaw(s) => (StmtKind::Raw { blank: s.raw.trim().is_empty() }, s.span()),
            mj::Stmt::ForLoop(s) => {
                let kind = StmtKind::For {
                    target: self.expr(&s.target),
                    iter: self.expr(&s.iter),
                    filter: s.filter_expr.as_ref().map(|expr| self.expr(expr)),
                    recursive: s.recursive,
                    body: self.stmts(&s.body),
                    otherwise: self.stmts(&s.else_body),
                };
                (kind, s.span())
            }
            mj::Stmt::IfCond(s) => {
                let test = self.expr(&s.expr);
                let (then, otherwise) = (self.stmts(&s.true_body), self.stmts(&s.false_body));
                (StmtKind::If { test, then, otherwise }, s.span())
            }
            mj::Stmt::WithBlock(s) => {
                let pairs = s.assignments.iter().map(|(target, expr)| (self.expr(target), self.expr(expr))).collect();
                (StmtKind::With(pairs, self.stmts(&s.body)), s.span())
            }
            mj::Stmt::Set(s) => (StmtKind::Set(self.expr(&s.target), self.expr(&s.expr)), s.span()),
            mj::Stmt::SetBlock(s) => {
                let filter = s.filter.as_ref().map(|filter| self.expr(filter));
                (StmtKind::SetBlock(self.expr(&s.target), filter, self.stmts(&s.body)), s.span())
            }
            mj::Stmt::AutoEscape(s) => (StmtKind::AutoEscape(self.expr(&s.enabled), self.stmts(&s.body)), s.span()),
            mj::Stmt::FilterBlock(s) => (StmtKind::Filter(self.expr(&s.filter), self.stmts(&s.body)), s.span()),
            mj::Stmt::Block(s) => {
                (StmtKind::Block(self.name_after(s.name, range(s.span()).start), self.stmts(&s.body)), s.span())
            }
            mj::Stmt::Import(s) => (StmtKind::Import(self.expr(&s.expr), self.expr(&s.name)), s.span()),
            mj::Stmt::FromImport(s) => {
                let name = |(name, alias): &(mj::Expr<'_>, Option<mj::Expr<'_>>)| {
                    (self.expr(name), alias.as_ref().map(|alias| self.expr(alias)))
                };
                (StmtKind::FromImport(self.expr(&s.expr), s.names.iter().map(name).collect()), s.span())
            }
            mj::Stmt::Extends(s) => (StmtKind::Extends(self.expr(&s.name)), s.span()),
            mj::Stmt::Include(s) => (StmtKind::Include(self.expr(&s.name), s.ignore_missing), s.span()),
            mj::Stmt::Macro(s) => (StmtKind::Macro(self.macro_decl(s, range(s.span()).start)), s.span()),
            mj::Stmt::CallBlock(s) => {
                let call = self.call(&s.call);
                (StmtKind::Call(call, self.macro_decl(&s.macro_decl, range(s.span()).start)), s.span())
            }
            mj::Stmt::Do(s) => (StmtKind::Do(self.call(&s.call)), s.span()),
            mj::Stmt::Continue(s) => (StmtKind::Jump, s.span()),
            mj::Stmt::Break(s) => (StmtKind::Jump, s.span()),
        };
        Stmt { kind, span: range(span) }
    }

    fn macro_decl(&self, decl: &mj::Macro<'_>, from: usize) -> Macro {
        let without = decl.args.len().saturating_sub(decl.defaults.len());
        let parameters = decl.args.iter().enumerate().map(|(index, arg)| {
            let text = if let mj::Expr::Var(var) = arg { var.id.to_owned() } else { String::new() };
            let default = index.checked_sub(without).and_then(|index| decl.defaults.get(index));
            (Name { text, span: range(arg.span()) }, default.map(|expr| self.expr(expr)))
        });
        Macro { name: self.name_after(decl.name, from), parameters: parameters.collect(), body: self.stmts(&decl.body) }
    }

    /// A name that stands somewhere behind its keyword, which begins at `from`.
    fn name_after(&self, name: &str, from: usize) -> Name {
        let behind = self
            .text
            .get(from..)
            .map_or(0, |rest| rest.len() - rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').len());
        let at = self.text.get(from + behind..).and_then(|rest| rest.find(name)).map(|at| from + behind + at);
        let start = at.unwrap_or(from);
        Name { text: name.to_owned(), span: start..(start + name.len()).min(self.text.len()) }
    }

    fn boxed(&self, expr: &mj::Expr<'_>) -> Box<Expr> {
        Box::new(self.expr(expr))
    }

    fn exprs(&self, exprs: &[mj::Expr<'_>]) -> Vec<Expr> {
        exprs.iter().map(|expr| self.expr(expr)).collect()
    }

    fn expr(&self, expr: &mj::Expr<'_>) -> Expr {
        let given = range(expr.span());
        let (kind, start) = match expr {
            mj::Expr::Var(e) => (ExprKind::Var(e.id.to_owned()), given.start),
            mj::Expr::Const(e) => (ExprKind::Const(e.value.clone()), given.start),
            mj::Expr::List(e) => (ExprKind::List(self.exprs(&e.items)), given.start),
            mj::Expr::Tuple(e) => (ExprKind::Tuple(self.exprs(&e.items)), given.start),
            mj::Expr::Map(e) => {
                let pairs = e.keys.iter().zip(&e.values).map(|(key, value)| (self.expr(key), self.expr(value)));
                (ExprKind::Map(pairs.collect()), given.start)
            }
            mj::Expr::UnaryOp(e) => {
                let inner = self.boxed(&e.expr);
                match e.op {
                    // `x not in y` and `x is not y` begin with `x`; `not x` begins with its keyword.
                    mj::UnaryOpKind::Not => {
                        let prefix = self.text.get(given.start..).is_some_and(|rest| rest.starts_with("not"))
                            && given.start < inner.span.start;
                        let start = if prefix { given.start } else { inner.span.start };
                        (ExprKind::Not(inner), start)
                    }
                    mj::UnaryOpKind::Neg => (ExprKind::Neg(inner), given.start),
                }
            }
            mj::Expr::BinOp(e) => return self.binary(e, given.end),
            mj::Expr::Compare(e) => {
                let first = self.boxed(&e.expr);
                let start = first.span.start;
                let rest = e.ops.iter().map(|op| (compare_op(op.op), self.expr(&op.expr))).collect();
                (ExprKind::Compare(first, rest), start)
            }
            mj::Expr::IfExpr(e) => {
                let then = self.boxed(&e.true_expr);
                let start = then.span.start;
                let otherwise = e.false_expr.as_ref().map(|expr| self.boxed(expr));
                (ExprKind::If { test: self.boxed(&e.test_expr), then, otherwise }, start)
            }
            mj::Expr::Filter(e) => {
                let of = e.expr.as_ref().map(|expr| self.boxed(expr));
                let start = of.as_ref().map_or(given.start, |of| of.span.start);
                let name = Name { text: e.name.to_owned(), span: given.start..given.start + e.name.len() };
                (ExprKind::Filter { of, name, args: self.args(&e.args) }, start)
            }
            mj::Expr::Test(e) => {
                let of = self.boxed(&e.expr);
                let start = of.span.start;
                let name = Name { text: e.name.to_owned(), span: given.start..given.start + e.name.len() };
                (ExprKind::Test { of, name, args: self.args(&e.args) }, start)
            }
            mj::Expr::GetAttr(e) => {
                let of = self.boxed(&e.expr);
                let start = of.span.start;
                let name = Name { text: e.name.to_owned(), span: given.end.saturating_sub(e.name.len())..given.end };
                (ExprKind::Attr(of, name), start)
            }
            mj::Expr::GetItem(e) => {
                let of = self.boxed(&e.expr);
                let start = of.span.start;
                (ExprKind::Item(of, self.boxed(&e.subscript_expr)), start)
            }
            mj::Expr::Slice(e) => {
                let of = self.boxed(&e.expr);
                let start = of.span.start;
                let bounds = [&e.start, &e.stop, &e.step].map(|bound| bound.as_ref().map(|expr| self.boxed(expr)));
                (ExprKind::Slice(of, bounds), start)
            }
            mj::Expr::Call(e) => return self.call(e),
        };
        Expr { kind, span: start..given.end }
    }

    fn call(&self, call: &mj::Spanned<mj::Call<'_>>) -> Expr {
        let callee = self.boxed(&call.expr);
        let span = callee.span.start..range(call.span()).end;
        Expr { kind: ExprKind::Call(callee, self.args(&call.args)), span }
    }

    fn binary(&self, e: &mj::BinOp<'_>, end: usize) -> Expr {
        let (left, right) = (self.boxed(&e.left), self.boxed(&e.right));
        let span = left.span.start..end;
        let compare = |op, left, right: Box<Expr>| ExprKind::Compare(left, vec![(op, *right)]);
        let kind = match e.op {
            mj::BinOpKind::ScAnd => ExprKind::And(left, right),
            mj::BinOpKind::ScOr => ExprKind::Or(left, right),
            mj::BinOpKind::Eq => compare(CompareOp::Eq, left, right),
            mj::BinOpKind::Ne => compare(CompareOp::Ne, left, right),
            mj::BinOpKind::Lt => compare(CompareOp::Lt, left, right),
            mj::BinOpKind::Lte => compare(CompareOp::Le, left, right),
            mj::BinOpKind::Gt => compare(CompareOp::Gt, left, right),
            mj::BinOpKind::Gte => compare(CompareOp::Ge, left, right),
            mj::BinOpKind::In => compare(CompareOp::In, left, right),
            mj::BinOpKind::Add => ExprKind::Math(MathOp::Add, left, right),
            mj::BinOpKind::Sub => ExprKind::Math(MathOp::Sub, left, right),
            mj::BinOpKind::Mul => ExprKind::Math(MathOp::Mul, left, right),
            mj::BinOpKind::Div => ExprKind::Math(MathOp::Div, left, right),
            mj::BinOpKind::FloorDiv => ExprKind::Math(MathOp::FloorDiv, left, right),
            mj::BinOpKind::Rem => ExprKind::Math(MathOp::Rem, left, right),
            mj::BinOpKind::Pow => ExprKind::Math(MathOp::Pow, left, right),
            mj::BinOpKind::Concat => ExprKind::Math(MathOp::Concat, left, right),
        };
        Expr { kind, span }
    }

    fn args(&self, args: &[mj::CallArg<'_>]) -> Vec<Arg> {
        let arg = |arg: &mj::CallArg<'_>| match arg {
            mj::CallArg::Pos(expr) => Arg::Pos(self.expr(expr)),
            mj::CallArg::Kwarg(name, expr) => {
                let value = self.expr(expr);
                let start = self.text.get(..value.span.start).and_then(|before| before.rfind(name)).unwrap_or(0);
                Arg::Named(Name { text: (*name).to_owned(), span: start..start + name.len() }, value)
            }
            mj::CallArg::PosSplat(expr) | mj::CallArg::KwargSplat(expr) => Arg::Splat(self.expr(expr)),
        };
        args.iter().map(arg).collect()
    }
}

fn compare_op(op: mj::CompareOpKind) -> CompareOp {
    match op {
        mj::CompareOpKind::Eq => CompareOp::Eq,
        mj::CompareOpKind::Ne => CompareOp::Ne,
        mj::CompareOpKind::Lt => CompareOp::Lt,
        mj::CompareOpKind::Lte => CompareOp::Le,
        mj::CompareOpKind::Gt => CompareOp::Gt,
        mj::CompareOpKind::Gte => CompareOp::Ge,
        mj::CompareOpKind::In => CompareOp::In,
        mj::CompareOpKind::NotIn => CompareOp::NotIn,
    }
}

/// Calls `visit` on every direct part of an expression.
pub fn parts<'a>(expr: &'a Expr, visit: &mut dyn FnMut(&'a Expr)) {
    match &expr.kind {
        ExprKind::Var(_) | ExprKind::Const(_) => {}
        ExprKind::List(items) | ExprKind::Tuple(items) => items.iter().for_each(visit),
        ExprKind::Map(pairs) => pairs.iter().for_each(|(key, value)| {
            visit(key);
            visit(value);
        }),
        ExprKind::Not(inner) | ExprKind::Neg(inner) | ExprKind::Attr(inner, _) => visit(inner),
        ExprKind::And(a, b) | ExprKind::Or(a, b) | ExprKind::Math(_, a, b) | ExprKind::Item(a, b) => {
            visit(a);
            visit(b);
        }
        ExprKind::Compare(first, rest) => {
            visit(first);
            rest.iter().for_each(|(_, expr)| visit(expr));
        }
        ExprKind::If { test, then, otherwise } => {
            visit(test);
            visit(then);
            otherwise.iter().for_each(|expr| visit(expr));
        }
        ExprKind::Filter { of, args, .. } => {
            of.iter().for_each(|expr| visit(expr));
            args.iter().for_each(|arg| visit(arg.value()));
        }
        ExprKind::Test { of, args, .. } | ExprKind::Call(of, args) => {
            visit(of);
            args.iter().for_each(|arg| visit(arg.value()));
        }
        ExprKind::Slice(of, bounds) => {
            visit(of);
            bounds.iter().flatten().for_each(|bound| visit(bound));
        }
    }
}

/// Calls `visit` on every expression of a template and every statement list in it, outermost first.
pub fn walk<'a>(stmts: &'a [Stmt], visit: &mut dyn FnMut(Node<'a>)) {
    for stmt in stmts {
        visit(Node::Stmt(stmt));
        let mut expr = |expr: &'a Expr| visit(Node::Expr(expr));
        match &stmt.kind {
            StmtKind::Raw { .. } | StmtKind::Jump => {}
            StmtKind::Emit(e) | StmtKind::Extends(e) | StmtKind::Include(e, _) | StmtKind::Do(e) => expr(e),
            StmtKind::Import(e, _) | StmtKind::FromImport(e, _) => expr(e),
            StmtKind::Set(_, e) => expr(e),
            StmtKind::For { iter, filter, body, otherwise, .. } => {
                expr(iter);
                filter.iter().for_each(&mut expr);
                walk(body, visit);
                walk(otherwise, visit);
            }
            StmtKind::If { test, then, otherwise } => {
                expr(test);
                walk(then, visit);
                walk(otherwise, visit);
            }
            StmtKind::With(pairs, body) => {
                pairs.iter().for_each(|(_, e)| expr(e));
                walk(body, visit);
            }
            StmtKind::SetBlock(_, filter, body) => {
                filter.iter().for_each(&mut expr);
                walk(body, visit);
            }
            StmtKind::Filter(e, body) | StmtKind::AutoEscape(e, body) => {
                expr(e);
                walk(body, visit);
            }
            StmtKind::Block(_, body) => walk(body, visit),
            StmtKind::Macro(decl) => {
                decl.parameters.iter().filter_map(|(_, default)| default.as_ref()).for_each(&mut expr);
                walk(&decl.body, visit);
            }
            StmtKind::Call(call, decl) => {
                expr(call);
                decl.parameters.iter().filter_map(|(_, default)| default.as_ref()).for_each(&mut expr);
                walk(&decl.body, visit);
            }
        }
    }
}

/// The expression of a template or expr that ends where `range` does and begins at or before it: minijinja's places of
/// errors begin in the middle of `a.b.c`.
pub(super) fn whole(text: &str, range: &Span, in_expr: bool) -> Span {
    fn look(expr: &Expr, range: &Span, best: &mut Option<Span>) {
        let fits = expr.span.end == range.end && expr.span.start <= range.start;
        if fits && best.as_ref().is_none_or(|best| best.start <= expr.span.start) {
            *best = Some(expr.span.clone());
        }
        parts(expr, &mut |part| look(part, range, best));
    }
    let mut best = None;
    if in_expr {
        if let Ok(expr) = parse_expr(text) {
            look(&expr, range, &mut best);
        }
    } else if let Ok(stmts) = parse_template(text) {
        walk(&stmts, &mut |node| {
            if let Node::Expr(expr) = node {
                look(expr, range, &mut best);
            }
        });
    }
    best.unwrap_or_else(|| range.clone())
}

/// What [`walk`] comes to.
#[derive(Clone, Copy, Debug)]
pub enum Node<'a> {
    /// A statement, before its parts.
    Stmt(&'a Stmt),
    /// A whole expression; its parts are not visited.
    Expr(&'a Expr),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text under every attribute, filter, test, comparison and argument name.
    fn places(text: &str) -> Vec<String> {
        fn visit(text: &str, expr: &Expr, out: &mut Vec<String>) {
            match &expr.kind {
                ExprKind::Attr(_, name) | ExprKind::Filter { name, .. } | ExprKind::Test { name, .. } => {
                    assert_eq!(text[name.span.clone()], name.text);
                }
                _ => {}
            }
            out.push(text[expr.span.clone()].to_owned());
            parts(expr, &mut |part| visit(text, part, out));
        }
        let mut out = Vec::new();
        visit(text, &parse_expr(text).unwrap(), &mut out);
        out
    }

    #[test]
    fn ranges_are_exact() {
        assert_eq!(places("x and y.a.b > 1"), ["x and y.a.b > 1", "x", "y.a.b > 1", "y.a.b", "y.a", "y", "1"]);
        assert_eq!(places("not a.b|upper(c=d) is defined")[1], "a.b|upper(c=d) is defined");
        assert_eq!(places("a not in b"), ["a not in b", "a not in b", "a", "b"]);
        assert_eq!(places("a is not none"), ["a is not none", "a is not none", "a"]);
        assert_eq!(places("1 + f(x.y)[0].z if c else -d")[1], "c");
    }
}
