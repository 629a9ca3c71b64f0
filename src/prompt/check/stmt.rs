//! Statements: loops, conditions, assignments, macros.

use super::call::callable;
use super::filter::element;
use super::{Checker, Frame, MacroDecl};
use crate::prompt::ast::{Expr, ExprKind, Macro, Name, Stmt, StmtKind};
use crate::prompt::scope::{Callable, Ty};
use indexmap::IndexMap;
use serde_json::Value as Json;
use std::sync::Arc;

impl<'a> Checker<'a> {
    /// Checks a whole text: its statements, then, when it extends another, that one with its blocks.
    pub(super) fn root(&mut self, stmts: &'a [Stmt]) {
        let parent = stmts.iter().find_map(|stmt| match &stmt.kind {
            StmtKind::Extends(name) => Some(name),
            _ => None,
        });
        self.collect_blocks(stmts);
        match parent {
            None => self.stmts(stmts),
            Some(name) => {
                // Text of a template that extends another is not shown; its macros and variables are there.
                for stmt in stmts {
                    if !matches!(stmt.kind, StmtKind::Block(..) | StmtKind::Extends(_)) {
                        self.stmt(stmt);
                    }
                }
                self.later_macros();
                if let Some(known) = self.parent_blocks(name, 0)
                    && !known.is_empty()
                {
                    self.unknown_blocks(stmts, &known);
                }
                self.extends(name);
            }
        }
    }

    /// Checks statements in order.
    pub(super) fn stmts(&mut self, stmts: &'a [Stmt]) {
        for stmt in stmts {
            self.stmt(stmt);
        }
        self.later_macros();
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Raw { .. } | StmtKind::Jump => {}
            StmtKind::Emit(expr) => self.emit(expr),
            StmtKind::For { target, iter, filter, recursive, body, otherwise } => {
                self.for_loop(target, iter, filter.as_ref(), *recursive, body, otherwise);
            }
            StmtKind::If { test, then, otherwise } => self.if_stmt(test, then, otherwise),
            StmtKind::With(pairs, body) => {
                self.framed(Frame::default(), |checker| {
                    for (target, expr) in pairs {
                        let ty = widened(checker.ty(expr));
                        checker.bind(target, ty);
                    }
                    checker.stmts(body);
                });
            }
            StmtKind::Set(target, expr) => {
                let ty = widened(self.ty(expr));
                self.bind(target, ty);
            }
            StmtKind::SetBlock(target, filter, body) => {
                self.framed(Frame::default(), |checker| checker.stmts(body));
                let ty = filter.as_ref().map_or(Ty::Str, |filter| self.ty(filter));
                self.bind(target, ty);
            }
            StmtKind::Filter(filter, body) => {
                self.ty(filter);
                self.framed(Frame::default(), |checker| checker.stmts(body));
            }
            StmtKind::AutoEscape(expr, body) => {
                self.used(expr);
                self.framed(Frame::default(), |checker| checker.stmts(body));
            }
            StmtKind::Block(name, body) => self.block(&name.text, &name.span, body),
            // Looked at by `root`.
            StmtKind::Extends(_) => {}
            StmtKind::Include(name, ignore_missing) => self.include(name, *ignore_missing),
            StmtKind::Import(file, name) => {
                let ty = self.import(file).map_or(Ty::Any, Ty::Module);
                self.bind(name, ty);
            }
            StmtKind::FromImport(file, names) => self.import_names(file, names),
            StmtKind::Macro(decl) => self.declare(decl),
            StmtKind::Call(call, decl) => {
                let returns = self.ty(call);
                let _ = returns;
                let types = decl.parameters.iter().map(|_| Ty::Any).collect();
                self.parameters_and_body(decl, types);
            }
            StmtKind::Do(expr) => drop(self.ty(expr)),
        }
    }

    /// Text: null and what may be absent are reported. `{{ "x" if y }}` shows nothing where `y` does not hold.
    fn emit(&mut self, expr: &Expr) {
        if let ExprKind::If { test, then, otherwise: None } = &expr.kind {
            self.truth(test);
            self.assuming(test, true, |checker| checker.emit(then));
            return;
        }
        let ty = self.used(expr);
        self.has_text(&ty, expr);
    }

    fn if_stmt(&mut self, test: &Expr, then: &'a [Stmt], otherwise: &'a [Stmt]) {
        self.truth(test);
        self.conditional += 1;
        let before = self.frames.last().cloned().unwrap_or_default();
        self.assuming(test, true, |checker| checker.stmts(then));
        let yes = self.frames.last().cloned().unwrap_or_default();
        if let Some(frame) = self.frames.last_mut() {
            *frame = before;
        }
        self.assuming(test, false, |checker| checker.stmts(otherwise));
        self.conditional -= 1;
        self.merge(yes);
    }

    /// Joins the variables that one branch set with those of the other.
    fn merge(&mut self, yes: Frame) {
        let depth = self.frames.len().saturating_sub(1);
        let Some(no) = self.frames.last() else { return };
        let mut merged: IndexMap<String, Ty> = IndexMap::new();
        for name in yes.vars.keys().chain(no.vars.keys()) {
            if merged.contains_key(name) {
                continue;
            }
            let outer = || {
                let local = self.frames[..depth].iter().rev().find_map(|frame| frame.vars.get(name));
                local.or_else(|| self.scope.vars.get(name)).cloned()
            };
            let ty = match (yes.vars.get(name), no.vars.get(name)) {
                (Some(a), Some(b)) if a == b => a.clone(),
                (Some(a), Some(b)) => Ty::union([a.clone(), b.clone()]),
                (Some(one), None) | (None, Some(one)) => match outer() {
                    Some(other) => Ty::union([one.clone(), other]),
                    None => one.clone().optional_unless_any(),
                },
                (None, None) => continue,
            };
            merged.insert(name.clone(), ty);
        }
        if let Some(frame) = self.frames.last_mut() {
            frame.vars = merged;
        }
    }

    fn for_loop(
        &mut self,
        target: &Expr,
        iter: &Expr,
        filter: Option<&Expr>,
        recursive: bool,
        body: &'a [Stmt],
        otherwise: &'a [Stmt],
    ) {
        let over = self.used(iter);
        if let Ty::Bool | Ty::Int | Ty::Number | Ty::Null | Ty::Callable(_) | Ty::Module(_) = &over {
            let what = self.named(&over);
            let report = self.error("type-mismatch", &iter.span, format!("{what} cannot be looped over"));
            if over == Ty::Int {
                report.help("to count, loop over `range(…)`");
            }
        }
        let item = match &over {
            Ty::Named(_) => Ty::Str,
            other => element(other),
        };
        self.conditional += 1;
        let frame = Frame { vars: [("loop".to_owned(), loop_variable(&item))].into(), recursive };
        self.framed(frame, |checker| {
            let pairs = matches!(over, Ty::Map(_) | Ty::Record(_) | Ty::Named(_) | Ty::Object(_));
            if pairs && matches!(&target.kind, ExprKind::List(names) if names.len() == 2) {
                let path = super::path_of(iter).unwrap_or_else(|| "x".to_owned());
                checker
                    .error("type-mismatch", &iter.span, "a loop over a map sees its keys only")
                    .help(format!("write `{path} | items`"));
                checker.bind(target, Ty::Any);
            } else {
                checker.bind(target, item);
            }
            if let Some(filter) = filter {
                checker.truth(filter);
                checker.assume(filter, true);
            }
            checker.stmts(body);
        });
        self.framed(Frame::default(), |checker| checker.stmts(otherwise));
        self.conditional -= 1;
    }

    /// Gives names the parts of a value.
    fn bind(&mut self, target: &Expr, ty: Ty) {
        match &target.kind {
            ExprKind::Var(name) => {
                if name == "_" {
                    return;
                }
                self.assign(name, ty);
            }
            // `{% set ns.x = … %}`.
            ExprKind::Attr(of, _) => {
                let base = self.ty(of);
                if !matches!(base, Ty::Any) {
                    let path = super::path_of(of).unwrap_or_default();
                    self.error("type-mismatch", &target.span, format!("`{path}` cannot be changed"))
                        .help("only a namespace can: `{% set ns = namespace(…) %}`");
                }
            }
            ExprKind::List(targets) | ExprKind::Tuple(targets) => {
                let parts: Vec<Ty> = match ty.clone().defined() {
                    Ty::Tuple(parts) if parts.len() == targets.len() => parts,
                    Ty::Tuple(parts) => {
                        let message = format!("{} values cannot be given {} names", parts.len(), targets.len());
                        self.error("type-mismatch", &target.span, message);
                        vec![Ty::Any; targets.len()]
                    }
                    Ty::List(element) => vec![*element; targets.len()],
                    Ty::Any => vec![Ty::Any; targets.len()],
                    Ty::Union(_) => vec![Ty::Any; targets.len()],
                    other => {
                        let what = self.named(&other);
                        let message = format!("{what} cannot be taken apart into {} names", targets.len());
                        let report = self.error("type-mismatch", &target.span, message);
                        if matches!(other, Ty::Named(_) | Ty::Object(_)) {
                            report.help("give it one name, and use its fields");
                        }
                        vec![Ty::Any; targets.len()]
                    }
                };
                for (target, part) in targets.iter().zip(parts) {
                    self.bind(target, part);
                }
            }
            _ => {}
        }
    }

    fn import_names(&mut self, file: &Expr, names: &[(Expr, Option<Expr>)]) {
        let exports = self.import(file);
        for (name, alias) in names {
            let ExprKind::Var(text) = &name.kind else { continue };
            let ty = match &exports {
                None => Ty::Any,
                Some(exports) => match exports.get(text) {
                    Some(ty) => ty.clone(),
                    None => {
                        let known: Vec<String> = exports.keys().cloned().collect();
                        let message = format!("the imported file has no macro or variable `{text}`");
                        self.error("unknown-macro", &name.span, message)
                            .suggest(text, known.iter().map(String::as_str));
                        Ty::Any
                    }
                },
            };
            self.bind(alias.as_ref().unwrap_or(name), ty);
        }
    }

    fn declare(&mut self, decl: &'a Macro) {
        let id = self.macros.len();
        let parameters: Vec<String> = decl.parameters.iter().map(|(name, _)| name.text.clone()).collect();
        for (_, default) in &decl.parameters {
            if let Some(default) = default {
                self.ty(default);
            }
        }
        // Parameters without default, unless the body looks whether they are there.
        let needed = decl
            .parameters
            .iter()
            .take_while(|(name, default)| default.is_none() && !looks_whether(&decl.body, &name.text))
            .count();
        let ty = Ty::Callable(Arc::new(Callable {
            name: decl.name.text.clone(),
            parameters: Some(parameters),
            required: needed,
            returns: Ty::Str,
            id: Some(id),
        }));
        self.assign(&decl.name.text, ty);
        self.macros.push(MacroDecl { decl, file: self.file.clone(), frames: self.frames.clone(), seen: Vec::new() });
    }

    /// Checks the bodies of macros of this text that were not looked at yet, with arguments of which nothing is known:
    /// by now everything that they may see has been declared.
    fn later_macros(&mut self) {
        let mut at = 0;
        while at < self.macros.len() {
            let found = &self.macros[at];
            let here = found.file == self.file && found.frames.len() == self.frames.len();
            let any: Vec<Ty> = found.decl.parameters.iter().map(|_| Ty::Any).collect();
            if here && !found.seen.contains(&any) {
                let decl = found.decl;
                self.macros[at].seen.push(any.clone());
                self.parameters_and_body(decl, any);
            }
            at += 1;
        }
    }
}

/// Whether statements test if a variable is there.
fn looks_whether(stmts: &[Stmt], name: &str) -> bool {
    use crate::prompt::ast::{Node, parts, walk};
    fn in_expr(expr: &Expr, wanted: &str) -> bool {
        let is_it = |expr: &Expr| matches!(&expr.kind, ExprKind::Var(name) if name == wanted);
        let here = match &expr.kind {
            ExprKind::Test { of, .. } => is_it(of),
            ExprKind::Filter { of: Some(of), name: Name { text, .. }, .. } => {
                is_it(of) && matches!(text.as_str(), "default" | "d")
            }
            ExprKind::If { test, .. } => is_it(test),
            ExprKind::And(a, _) | ExprKind::Or(a, _) | ExprKind::Not(a) => is_it(a),
            _ => false,
        };
        let mut found = here;
        parts(expr, &mut |part| found = found || in_expr(part, wanted));
        found
    }
    let mut found = false;
    walk(stmts, &mut |node| match node {
        Node::Expr(expr) => found = found || in_expr(expr, name),
        Node::Stmt(Stmt { kind: StmtKind::If { test, .. }, .. }) => {
            found = found || matches!(&test.kind, ExprKind::Var(var) if var == name);
        }
        Node::Stmt(_) => {}
    });
    found
}

/// The `loop` of a `for`.
fn loop_variable(item: &Ty) -> Ty {
    let mut fields: IndexMap<String, Ty> = IndexMap::with_capacity(13);
    for name in ["index", "index0", "length", "revindex", "revindex0", "depth", "depth0"] {
        fields.insert(name.to_owned(), Ty::Int);
    }
    for name in ["first", "last"] {
        fields.insert(name.to_owned(), Ty::Bool);
    }
    for name in ["previtem", "nextitem"] {
        fields.insert(name.to_owned(), item.clone().optional_unless_any());
    }
    fields.insert("cycle".to_owned(), callable("cycle", Ty::Any));
    fields.insert("changed".to_owned(), callable("changed", Ty::Bool));
    Ty::Record(Arc::new(fields))
}

/// The type of a variable that a literal was given to: it may be given others.
pub(super) fn widened(ty: Ty) -> Ty {
    match ty {
        Ty::Enum(values) if values.len() == 1 && matches!(values[0], Json::String(_)) => Ty::Str,
        Ty::Optional(inner) => widened(*inner).optional(),
        Ty::Union(members) => Ty::union(members.into_iter().map(widened)),
        other => other,
    }
}
