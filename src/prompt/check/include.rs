//! Files that a template draws in: `include`, `extends`, `import`.

use super::{BlockBody, Checker, Frame, finding_of};
use crate::prompt::ast::{self, Expr, Span, Stmt, StmtKind};
use crate::prompt::scope::Ty;
use crate::prompt::uses::NamePattern;
use indexmap::IndexMap;
use std::sync::Arc;

impl<'a> Checker<'a> {
    /// Checks the files that `{% include %}` may come to, where it stands.
    pub(super) fn include(&mut self, name: &Expr, ignore_missing: bool) {
        self.used(name);
        for file in self.files_of(name, ignore_missing, "included") {
            self.enter(&file, name, "included here", |checker, stmts| {
                // An include sees the variables around it; what it sets stays in it.
                checker.framed(Frame::default(), |checker| checker.root(stmts));
            });
        }
    }

    /// Checks the parent of a template with the blocks of this one.
    pub(super) fn extends(&mut self, name: &Expr) {
        self.used(name);
        for file in self.files_of(name, false, "extended") {
            self.enter(&file, name, "extended here", |checker, stmts| checker.root(stmts));
        }
    }

    /// Checks an imported file; gives its macros and variables.
    pub(super) fn import(&mut self, name: &Expr) -> Option<Arc<IndexMap<String, Ty>>> {
        self.used(name);
        let files = self.files_of(name, false, "imported");
        let [file] = files.as_slice() else {
            for file in &files {
                self.enter(file, name, "imported here", |checker, stmts| {
                    checker.framed(Frame::default(), |checker| checker.root(stmts));
                });
            }
            return None;
        };
        let mut exports = None;
        self.enter(&file.clone(), name, "imported here", |checker, stmts| {
            let facts = checker.facts.len();
            checker.frames.push(Frame::default());
            checker.root(stmts);
            exports = checker.frames.pop().map(|frame| Arc::new(frame.vars));
            checker.facts.truncate(facts);
        });
        exports
    }

    /// The files that a name may come to; reports when there is none.
    fn files_of(&mut self, name: &Expr, ignore_missing: bool, how: &str) -> Vec<String> {
        let patterns = NamePattern::of(name);
        let several = patterns.len() > 1;
        let mut found: Vec<String> = Vec::new();
        for pattern in &patterns {
            let matches = pattern.matches(self.files);
            // Another file may be the one that is meant, once it is there.
            self.out.looks_around |= matches.is_empty() || !matches!(pattern, NamePattern::Exact(_));
            for file in matches {
                if !found.iter().any(|seen| seen == file) {
                    found.push(file.to_owned());
                }
            }
        }
        if !found.is_empty() || ignore_missing {
            // Of a list the first that exists is taken; of a choice all must exist.
            let choice = several && !matches!(name.kind, ast::ExprKind::List(_) | ast::ExprKind::Tuple(_));
            if choice && !ignore_missing {
                for pattern in &patterns {
                    if pattern.matches(self.files).is_empty() {
                        self.unknown_template(name, pattern, how);
                    }
                }
            }
            return found;
        }
        if let Some(pattern) = patterns.first() {
            self.unknown_template(name, pattern, how);
        }
        found
    }

    fn unknown_template(&mut self, name: &Expr, pattern: &NamePattern, how: &str) {
        let files = self.files;
        let is_literal = crate::prompt::uses::literal(name).is_some();
        let span = if is_literal { super::filter::inside(&name.span) } else { name.span.clone() };
        match pattern {
            NamePattern::Exact(exact) => {
                let with_ending = format!("{exact}.jinja");
                let report = self.error(
                    "unknown-template",
                    &span,
                    format!("there is no template `{exact}` under `prompts/` that could be {how}"),
                );
                if files.get(&with_ending).is_some() {
                    report.help(format!("did you mean `{with_ending}`?")).fix(&with_ending);
                } else {
                    let stem = exact.strip_prefix("prompts/").unwrap_or(exact);
                    if files.get(stem).is_some() {
                        report.help("names begin below `prompts/`").fix(stem);
                    } else {
                        report.suggest(exact, files.names());
                    }
                }
            }
            NamePattern::Computed { prefix, suffix } => {
                let message = format!("no template under `prompts/` has a name like `{prefix}…{suffix}`");
                let near: Vec<&str> = files.names().take(5).collect();
                let report = self.error("unknown-template", &name.span, message);
                if !near.is_empty() {
                    report.help(format!("there are `{}`", near.join("`, `")));
                }
            }
        }
    }

    fn enter(&mut self, file: &str, name: &Expr, how: &str, look: impl FnOnce(&mut Self, &'a [Stmt])) {
        if let Some(at) = self.open.iter().position(|open| open == file) {
            // A file may draw itself in where that ends: behind a condition or in a loop.
            if self.conditional == 0 {
                let chain = self.open[at..].iter().chain([&file.to_owned()]).cloned().collect::<Vec<_>>().join("` → `");
                self.error("template-cycle", &name.span, format!("the template draws itself in: `{chain}`"));
            }
            return;
        }
        self.out.files.insert(file.to_owned());
        let files = self.files;
        let Some(found) = files.get(file) else { return };
        match found.parsed() {
            Ok(stmts) => {
                self.open.push(file.to_owned());
                self.elsewhere(Some(file.to_owned()), &name.span, how.to_owned(), |checker| look(checker, stmts));
                self.open.pop();
            }
            Err(fault) => {
                let mut finding = finding_of(Some(file), fault);
                finding.related.push((self.place(&name.span), how.to_owned()));
                if !self.out.findings.iter().any(|seen| seen.place == finding.place && seen.code == finding.code) {
                    self.out.findings.push(finding);
                }
            }
        }
    }

    /// Takes the blocks of a template that extends another.
    pub(super) fn collect_blocks(&mut self, stmts: &'a [Stmt]) {
        let file = self.file.clone();
        ast::walk(stmts, &mut |node| {
            if let ast::Node::Stmt(Stmt { kind: StmtKind::Block(name, body), .. }) = node {
                let bodies = self.blocks.entry(name.text.clone()).or_default();
                if !bodies.iter().any(|known| std::ptr::eq(known.body, body.as_slice())) {
                    bodies.push(BlockBody { file: file.clone(), body });
                }
            }
        });
    }

    /// Checks a block where the outermost template has it, with its most derived body.
    pub(super) fn block(&mut self, name: &str, span: &Span, own: &'a [Stmt]) {
        let body = self.blocks.get(name).and_then(|bodies| bodies.first()).cloned();
        let before = self.block.replace((name.to_owned(), 0));
        match body {
            Some(body) if !std::ptr::eq(body.body, own) => {
                let how = format!("the block `{name}` stands here");
                self.elsewhere(body.file, span, how, |checker| {
                    checker.framed(Frame::default(), |checker| checker.stmts(body.body));
                });
            }
            _ => self.framed(Frame::default(), |checker| checker.stmts(own)),
        }
        self.block = before;
    }

    /// Reports blocks of a template that none of the templates it extends has.
    pub(super) fn unknown_blocks(&mut self, stmts: &'a [Stmt], known: &[String]) {
        for stmt in stmts {
            if let StmtKind::Block(name, _) = &stmt.kind
                && !known.contains(&name.text)
            {
                let message = format!("the extended template has no block `{}`; it is never shown", name.text);
                self.warning("unknown-block", &name.span, message)
                    .suggest(&name.text, known.iter().map(String::as_str));
            }
        }
    }

    /// The blocks of the files that a template extends, all the way up.
    pub(super) fn parent_blocks(&self, name: &Expr, depth: usize) -> Option<Vec<String>> {
        let mut names = Vec::new();
        if depth > super::DEPTH_MAX {
            return Some(names);
        }
        for pattern in NamePattern::of(name) {
            for file in pattern.matches(self.files) {
                let stmts = self.files.get(file)?.parsed().ok()?;
                let mut above = None;
                ast::walk(stmts, &mut |node| match node {
                    ast::Node::Stmt(Stmt { kind: StmtKind::Block(name, _), .. }) => names.push(name.text.clone()),
                    ast::Node::Stmt(Stmt { kind: StmtKind::Extends(parent), .. }) => above = Some(parent),
                    _ => {}
                });
                if let Some(parent) = above {
                    names.extend(self.parent_blocks(parent, depth + 1)?);
                }
            }
        }
        Some(names)
    }
}
