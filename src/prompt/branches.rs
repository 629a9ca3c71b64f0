//! Which templates are rendered and which of their branches are taken, for the coverage of tests.
//!
//! Templates that are watched are compiled once more in an environment of their own, with a note at each test of an
//! `if` and each list of a `for`; those that are not have no trace of it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use indexmap::IndexMap;
use minijinja::{Environment, Value};

use super::ast::{self, Expr, ExprKind, Node, Span, Stmt, StmtKind};
use super::concat::{self, Insertions};

/// What a place where a template parts can come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// The test of an `if` holds.
    Holds,
    /// It does not.
    Fails,
    /// A `for` has an element.
    Element,
    /// It has none, and has an `else` for that.
    Empty,
}

/// One branch of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Where the test, or what is looped over, stands in the text.
    pub range: Span,
    /// Which way.
    pub arm: Arm,
    /// Whether a rendering went there.
    pub taken: bool,
}

/// What was rendered of one template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Its text.
    pub source: String,
    /// Whether it was rendered at all.
    pub rendered: bool,
    /// Its branches in the order of the text.
    pub branches: Vec<Branch>,
}

/// A place where a template parts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    range: Span,
    kind: PointKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PointKind {
    /// A test of `if`.
    Test,
    /// The list of a `for`; whether it has an `else`.
    Loop(bool),
    /// The `if` of a `for`.
    Filter,
}

impl Point {
    /// What is put before and after it; `number` is that of the point.
    pub(super) fn around(&self, number: usize) -> (Span, &'static str, String) {
        let (open, close) = match self.kind {
            PointKind::Test => ("((", format!(") and {number} is {HELD}) or {number} is {FAILED}")),
            PointKind::Loop(_) => ("(", format!(")|{LOOPED}({number})")),
            PointKind::Filter => ("(", format!(") and {number} is {HELD}")),
        };
        (self.range.clone(), open, close)
    }

    fn arms(&self) -> &'static [(Arm, usize)] {
        match self.kind {
            PointKind::Test => &[(Arm::Holds, 0), (Arm::Fails, 1)],
            PointKind::Loop(true) => &[(Arm::Element, 0), (Arm::Empty, 1)],
            PointKind::Loop(false) | PointKind::Filter => &[(Arm::Element, 0)],
        }
    }
}

const HELD: &str = "held__";
const FAILED: &str = "failed__";
const LOOPED: &str = "looped__";

/// The points of a template, inner ones first.
pub(super) fn points(text: &str, stmts: &[Stmt]) -> Vec<Point> {
    let mut found = Vec::new();
    let mut add = |expr: &Expr, kind: PointKind| {
        if let Some(range) = whole(text, &expr.span) {
            found.push(Point { range, kind });
        }
    };
    ast::walk(stmts, &mut |node| match node {
        Node::Expr(expr) => tests_in(expr, &mut add),
        Node::Stmt(Stmt { kind: StmtKind::If { test, .. }, .. }) => add(test, PointKind::Test),
        Node::Stmt(Stmt { kind: StmtKind::For { filter: Some(filter), .. }, .. }) => add(filter, PointKind::Filter),
        Node::Stmt(Stmt { kind: StmtKind::For { iter, otherwise, .. }, .. }) => {
            add(iter, PointKind::Loop(!otherwise.is_empty()));
        }
        Node::Stmt(_) => {}
    });
    // Where two end at one place, the inner one is closed first.
    found.sort_by_key(|point| point.range.len());
    found
}

fn tests_in(expr: &Expr, add: &mut dyn FnMut(&Expr, PointKind)) {
    if let ExprKind::If { test, .. } = &expr.kind {
        add(test, PointKind::Test);
    }
    ast::parts(expr, &mut |part| tests_in(part, add));
}

/// The range with the parentheses that belong to it: that of `(a) or (b)` may begin behind the first.
fn whole(text: &str, range: &Span) -> Option<Span> {
    let mut range = range.clone();
    for _ in 0..8 {
        let part = text.get(range.clone())?;
        if ast::parse_expr(part).is_ok() {
            return Some(range);
        }
        let open = text.get(..range.start)?.trim_end().strip_suffix('(').map(str::len);
        let rest = text.get(range.end..)?;
        let close = rest.trim_start().starts_with(')').then(|| range.end + rest.len() - rest.trim_start().len() + 1);
        if part.matches(')').count() > part.matches('(').count() {
            range.start = open?;
        } else {
            range.end = close?;
        }
    }
    None
}

/// A template that is watched.
#[derive(Debug)]
struct Watched {
    name: String,
    source: String,
    points: Vec<Point>,
    /// The number of its first point.
    first: usize,
}

/// What is noted: for each point, one way and the other.
#[derive(Debug, Default)]
struct Notes(Vec<[AtomicBool; 2]>);

impl Notes {
    fn take(&self, point: usize, way: usize) {
        if let Some(taken) = self.0.get(point).and_then(|ways| ways.get(way)) {
            taken.store(true, Ordering::Relaxed);
        }
    }

    fn taken(&self, point: usize, way: usize) -> bool {
        self.0.get(point).and_then(|ways| ways.get(way)).is_some_and(|taken| taken.load(Ordering::Relaxed))
    }
}

/// Templates that are watched.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) env: Environment<'static>,
    pub(super) insertions: IndexMap<String, Insertions>,
    templates: Vec<Watched>,
    notes: Arc<Notes>,
    rendered: Arc<Mutex<BTreeSet<String>>>,
}

impl Watch {
    /// Watches templates, given by their names and texts, in an environment without a loader.
    pub(super) fn new(mut env: Environment<'static>, texts: impl Iterator<Item = (String, String)>) -> Watch {
        let (mut templates, mut sources, mut insertions) = (Vec::new(), IndexMap::new(), IndexMap::new());
        let mut first = 0;
        for (name, source) in texts {
            let Ok(stmts) = ast::parse_template(&source) else { continue };
            let mut points = points(&source, &stmts);
            let mut noted = concat::watched(&source, &stmts, &points, first);
            if ast::parse_template(&noted.0).is_err() {
                points.clear();
                noted = concat::template(&source, &stmts);
            }
            sources.insert(name.clone(), noted.0);
            insertions.insert(name.clone(), noted.1);
            let count = points.len();
            templates.push(Watched { name, source, points, first });
            first += count;
        }
        let notes = Arc::new(Notes((0..first).map(|_| Default::default()).collect()));
        let rendered: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        // A template is loaded when it is rendered or drawn in for the first time.
        let seen = Arc::clone(&rendered);
        env.set_loader(move |name| {
            seen.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
            Ok(sources.get(name).cloned())
        });
        let held = Arc::clone(&notes);
        env.add_test(HELD, move |point: usize| {
            held.take(point, 0);
            true
        });
        let failed = Arc::clone(&notes);
        env.add_test(FAILED, move |point: usize| {
            failed.take(point, 1);
            false
        });
        let looped = Arc::clone(&notes);
        env.add_filter(LOOPED, move |list: Value, point: usize| {
            looped.take(point, usize::from(list.len() == Some(0)));
            list
        });
        Watch { env, insertions, templates, notes, rendered }
    }

    /// What was rendered so far.
    pub(super) fn reached(&self) -> Vec<Reach> {
        let rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        let reach = |template: &Watched| {
            let branches = template.points.iter().enumerate().flat_map(|(at, point)| {
                let number = template.first + at;
                let arm = move |(arm, way): &(Arm, usize)| Branch {
                    range: point.range.clone(),
                    arm: *arm,
                    taken: self.notes.taken(number, *way),
                };
                point.arms().iter().map(arm)
            });
            let mut branches: Vec<Branch> = branches.collect();
            branches.sort_by_key(|branch| branch.range.start);
            Reach { source: template.source.clone(), rendered: rendered.contains(&template.name), branches }
        };
        self.templates.iter().map(reach).collect()
    }
}
