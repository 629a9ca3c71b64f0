//! The static type check of templates and exprs against declared types (language.md 2).
//!
//! One walk over the syntax tree keeps, beside the variables, what conditions on the way have shown of paths such as
//! `order.days` (`narrow`). Files that are included are checked where they are included, macros with the types they
//! are called with; what cannot be known is [`Ty::Any`] and never a finding.

mod attribute;
mod call;
mod compare;
mod expr;
mod filter;
mod include;
mod method;
mod narrow;
mod stmt;

use super::ast::{self, Expr, ExprKind, Span, Stmt, StmtKind};
use super::data;
use super::files::Files;
use super::finding::{Checked, Finding, Place};
use super::scope::{Position, Scope, Ty};
use super::syntax::SyntaxFault;
use crate::diag::{Severity, suggest};
use crate::value::Types;
use indexmap::IndexMap;
use narrow::Fact;

/// How deep includes and macro calls are followed.
const DEPTH_MAX: usize = 24;
/// How many files and macro calls one check looks into.
const VISITS_MAX: usize = 2_000;

/// Checks a template and the files it draws in.
pub fn check_template(files: &Files, types: &Types, scope: &Scope, text: &str) -> Checked {
    check_text(files, types, scope, scope.position, text)
}

/// Checks a string in a data position: one that is exactly one `{{ … }}` is a value, which may be null.
pub fn check_data(files: &Files, types: &Types, scope: &Scope, text: &str) -> Checked {
    check_text(files, types, scope, Position::Data, text)
}

fn check_text(files: &Files, types: &Types, scope: &Scope, position: Position, text: &str) -> Checked {
    // Plain text is most of all strings.
    if !text.contains("{{") && !text.contains("{%") && !text.contains("{#") {
        return Checked::default();
    }
    let stmts = match ast::parse_template(text) {
        Ok(stmts) => stmts,
        Err(fault) => return Checked { findings: vec![finding_of(None, &fault)], ..Checked::default() },
    };
    let mut checker = Checker::new(files, types, scope);
    if position == Position::Data
        && let Some(expr) = single(text, &stmts)
    {
        let ty = checker.used(expr);
        return checker.finish(Some(ty));
    }
    checker.root(&stmts);
    let ty = single(text, &stmts).map(|expr| {
        // The first walk has reported what is wrong with it.
        let mut quiet = Checker::new(files, types, scope);
        quiet.ty(expr).defined()
    });
    checker.finish(ty)
}

/// Checks a bare expr.
pub fn check_expr(types: &Types, scope: &Scope, text: &str) -> Checked {
    let expr = match ast::parse_expr(text) {
        Ok(expr) => expr,
        Err(fault) => return Checked { findings: vec![finding_of(None, &fault)], ..Checked::default() },
    };
    let files = Files::new();
    let mut checker = Checker::new(&files, types, scope);
    let ty = match scope.position {
        Position::Truth => checker.truth(&expr),
        Position::Value | Position::Data => checker.used(&expr),
    };
    checker.finish(Some(ty))
}

/// The expression of a text that is, trimmed, exactly one `{{ … }}`.
fn single<'a>(text: &str, stmts: &'a [Stmt]) -> Option<&'a Expr> {
    data::single_expr(text)?;
    stmts.iter().find_map(|stmt| match &stmt.kind {
        StmtKind::Emit(expr) => Some(expr),
        _ => None,
    })
}

fn finding_of(file: Option<&str>, fault: &SyntaxFault) -> Finding {
    let place = |range: &Span| Place { file: file.map(str::to_owned), range: range.clone() };
    Finding {
        code: fault.code,
        severity: Severity::Error,
        place: place(&fault.range),
        message: fault.message.clone(),
        help: fault.help.clone(),
        related: fault.related.iter().map(|(range, message)| (place(range), message.clone())).collect(),
        fix: fault.fix.clone(),
    }
}

/// Local variables of a `for`, `with`, macro, block or file.
#[derive(Clone, Debug, Default)]
struct Frame {
    vars: IndexMap<String, Ty>,
    /// It is that of a `for … recursive`.
    recursive: bool,
}

/// A macro that was seen.
#[derive(Clone)]
struct MacroDecl<'a> {
    decl: &'a ast::Macro,
    file: Option<String>,
    /// The variables it encloses.
    frames: Vec<Frame>,
    /// The types it was already checked with.
    seen: Vec<Vec<Ty>>,
}

/// A body of a block, and the file it stands in.
#[derive(Clone)]
struct BlockBody<'a> {
    file: Option<String>,
    body: &'a [Stmt],
}

struct Checker<'a> {
    files: &'a Files,
    types: &'a Types,
    scope: &'a Scope,
    /// The file whose text is looked at; `None`: the checked text.
    file: Option<String>,
    /// The files that are open, outermost first.
    open: Vec<String>,
    /// How one came here: includes and macro calls, outermost first.
    via: Vec<(Place, String)>,
    frames: Vec<Frame>,
    /// What is known of paths; later facts count more.
    facts: Vec<Fact>,
    macros: Vec<MacroDecl<'a>>,
    /// Bodies of blocks, most derived first.
    blocks: IndexMap<String, Vec<BlockBody<'a>>>,
    /// The block that is looked at, and which of its bodies.
    block: Option<(String, usize)>,
    /// What is looked at may not happen: it stands in a condition or loop.
    conditional: usize,
    /// Unknown variables are not reported: a macro sees names that come later.
    lenient: bool,
    visits: usize,
    out: Checked,
}

impl<'a> Checker<'a> {
    fn new(files: &'a Files, types: &'a Types, scope: &'a Scope) -> Checker<'a> {
        let mut checker = Checker {
            files,
            types,
            scope,
            file: None,
            open: Vec::new(),
            via: Vec::new(),
            frames: vec![Frame::default()],
            facts: Vec::new(),
            macros: Vec::new(),
            blocks: IndexMap::new(),
            block: None,
            conditional: 0,
            lenient: false,
            visits: 0,
            out: Checked::default(),
        };
        for (text, holds) in &scope.assumed {
            // A text that is no expr was reported where it stands.
            if let Ok(test) = ast::parse_expr(text) {
                checker.assume(&test, *holds);
            }
        }
        checker
    }

    fn finish(mut self, ty: Option<Ty>) -> Checked {
        let mentions = &self.out.mentions;
        self.out.guarded.retain(|name| !mentions.contains(name));
        self.out.findings.sort_by(|a, b| {
            let key = |finding: &Finding| (finding.place.file.clone(), finding.place.range.start);
            key(a).cmp(&key(b))
        });
        self.out.ty = ty;
        self.out
    }

    fn place(&self, span: &Span) -> Place {
        Place { file: self.file.clone(), range: span.clone() }
    }

    /// Reports an error, unless the same was already reported there.
    fn error(&mut self, code: &'static str, span: &Span, message: impl Into<String>) -> Report<'_> {
        self.report(code, Severity::Error, span, message.into())
    }

    fn warning(&mut self, code: &'static str, span: &Span, message: impl Into<String>) -> Report<'_> {
        self.report(code, Severity::Warning, span, message.into())
    }

    fn report(&mut self, code: &'static str, severity: Severity, span: &Span, message: String) -> Report<'_> {
        let place = self.place(span);
        let seen = self
            .out
            .findings
            .iter()
            .any(|finding| finding.code == code && finding.place == place && finding.message == message);
        if seen {
            return Report { finding: None };
        }
        let related = self.via.iter().rev().take(3).cloned().collect();
        self.out.findings.push(Finding { code, severity, place, message, help: Vec::new(), related, fix: None });
        Report { finding: self.out.findings.last_mut() }
    }

    /// The type as a message names it.
    fn named(&self, ty: &Ty) -> String {
        match ty {
            Ty::Enum(values) if values.len() == 1 => format!("`{}`", values[0]),
            Ty::Enum(_) | Ty::Callable(_) | Ty::Module(_) => ty.describe(self.types),
            _ => format!("`{}`", ty.describe(self.types).replace('`', "")),
        }
    }

    /// The variable of a name, local ones first.
    fn local(&self, name: &str) -> Option<&Ty> {
        self.frames.iter().rev().find_map(|frame| frame.vars.get(name))
    }

    /// Sets a local variable; what was known of the name is forgotten.
    fn assign(&mut self, name: &str, ty: Ty) {
        self.facts.push(Fact::Forget(name.to_owned()));
        if let Some(frame) = self.frames.last_mut() {
            frame.vars.insert(name.to_owned(), ty);
        }
    }

    /// Looks at something in a frame of its own; facts learnt in it do not last.
    fn framed<T>(&mut self, frame: Frame, look: impl FnOnce(&mut Self) -> T) -> T {
        let facts = self.facts.len();
        self.frames.push(frame);
        let result = look(self);
        self.frames.pop();
        self.facts.truncate(facts);
        result
    }

    /// Looks at something that stands in another file, reached from `span`.
    fn elsewhere<T>(
        &mut self,
        file: Option<String>,
        span: &Span,
        how: String,
        look: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        if self.via.len() >= DEPTH_MAX || self.visits >= VISITS_MAX {
            return None;
        }
        self.visits += 1;
        self.via.push((self.place(span), how));
        let before = std::mem::replace(&mut self.file, file);
        let result = look(self);
        self.file = before;
        self.via.pop();
        Some(result)
    }
}

/// A finding that was just made; empty when it had been made before.
struct Report<'f> {
    finding: Option<&'f mut Finding>,
}

impl Report<'_> {
    fn help(self, help: impl Into<String>) -> Self {
        if let Some(finding) = self.finding {
            finding.help.push(help.into());
            return Report { finding: Some(finding) };
        }
        self
    }

    /// Offers the nearest name, and takes it as the fix when it is the only one.
    fn suggest<'c>(self, name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Self {
        let Some(finding) = self.finding else { return self };
        let names = suggest::nearest(name, candidates);
        let listed = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
        if let Some((last, before)) = listed.split_last() {
            let list = if before.is_empty() { last.clone() } else { format!("{} or {last}", before.join(", ")) };
            finding.help.push(format!("did you mean {list}?"));
        }
        if let [only] = names.as_slice() {
            finding.fix = Some(only.clone());
        }
        Report { finding: Some(finding) }
    }

    fn fix(self, fix: &str) -> Self {
        if let Some(finding) = self.finding {
            finding.fix = Some(fix.to_owned());
            return Report { finding: Some(finding) };
        }
        self
    }
}

/// The text of a path such as `order.home.city`, for messages and facts.
fn path_of(expr: &Expr) -> Option<String> {
    match &expr.kind {
        ExprKind::Var(name) => Some(name.clone()),
        ExprKind::Attr(of, name) => Some(format!("{}.{}", path_of(of)?, name.text)),
        ExprKind::Call(..) => last_call(expr).map(|name| format!("last(\"{name}\")")),
        ExprKind::Item(of, index) => match &index.kind {
            ExprKind::Const(value) => match value.as_str() {
                Some(key) => Some(format!("{}.{key}", path_of(of)?)),
                None => Some(format!("{}[{value}]", path_of(of)?)),
            },
            _ => None,
        },
        _ => None,
    }
}

/// The type in `last("Type")`.
fn last_call(expr: &Expr) -> Option<&str> {
    let ExprKind::Call(callee, args) = &expr.kind else { return None };
    match (&callee.kind, args.as_slice()) {
        (ExprKind::Var(name), [ast::Arg::Pos(argument)]) if name == "last" => super::uses::literal(argument),
        _ => None,
    }
}

/// The variable that a path begins with.
fn root_of(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Var(name) => Some(name),
        ExprKind::Call(..) => last_call(expr).map(|_| "last"),
        ExprKind::Attr(of, _) | ExprKind::Item(of, _) => root_of(of),
        _ => None,
    }
}

#[cfg(test)]
pub(in crate::prompt) mod tests;
