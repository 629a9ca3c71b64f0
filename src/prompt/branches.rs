//! Which templates are rendered and which of their branches are taken, for the coverage of tests.
//!
//! Templates that are watched are compiled once more in an environment of their own, with a note at each test of an
//! `if` and each list of a `for`; those that are not have no trace of it.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;

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
    /// Its number among those of the template; the two of a loop that chooses its elements have the same.
    id: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PointKind {
    /// A test of `if`.
    Test,
    /// The list of a `for`; whether it has an `else`.
    Loop(bool),
    /// The `if` of a `for`.
    Filter,
    /// The list of a `for` with `if` and `else`: here it begins.
    Begin,
    /// The `if` of a `for` with `else`.
    Choice,
}

impl Point {
    /// What is put before and after it; `first` is the number of the template's first point.
    pub(super) fn around(&self, first: usize) -> (Span, &'static str, String) {
        let number = first + self.id;
        let (open, close) = match self.kind {
            PointKind::Test => ("((", format!(") and {number} is {HELD}) or {number} is {FAILED}")),
            PointKind::Loop(_) => ("(", format!(")|{LOOPED}({number})")),
            PointKind::Filter => ("(", format!(") and {number} is {HELD}")),
            PointKind::Begin => ("(", format!(")|{BEGUN}({number})")),
            PointKind::Choice => ("(", format!(") and {number} is {CHOSEN}")),
        };
        (self.range.clone(), open, close)
    }

    fn arms(&self) -> &'static [(Arm, usize)] {
        match self.kind {
            PointKind::Test => &[(Arm::Holds, 0), (Arm::Fails, 1)],
            PointKind::Begin => &[],
            PointKind::Loop(true) | PointKind::Choice => &[(Arm::Element, 0), (Arm::Empty, 1)],
            PointKind::Loop(false) | PointKind::Filter => &[(Arm::Element, 0)],
        }
    }
}

const HELD: &str = "held__";
const FAILED: &str = "failed__";
const LOOPED: &str = "looped__";
const BEGUN: &str = "begun__";
const CHOSEN: &str = "chosen__";

/// The points of a template, inner ones first.
pub(super) fn points(text: &str, stmts: &[Stmt]) -> Vec<Point> {
    let mut found: Vec<Point> = Vec::new();
    let mut id = 0;
    let mut add = |expr: &Expr, kind: PointKind| {
        if let Some(range) = whole(text, &expr.span) {
            found.push(Point { range, kind, id });
            // What begins is chosen from next.
            id += usize::from(kind != PointKind::Begin);
        }
    };
    ast::walk(stmts, &mut |node| match node {
        Node::Expr(expr) => tests_in(expr, &mut add),
        Node::Stmt(Stmt { kind: StmtKind::If { test, .. }, .. }) => add(test, PointKind::Test),
        Node::Stmt(Stmt { kind: StmtKind::For { iter, filter: Some(filter), otherwise, .. }, .. }) => {
            if otherwise.is_empty() || whole(text, &iter.span).is_none() {
                add(filter, PointKind::Filter);
            } else if whole(text, &filter.span).is_some() {
                add(iter, PointKind::Begin);
                add(filter, PointKind::Choice);
            }
        }
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

/// What is noted.
#[derive(Debug, Default)]
struct Notes {
    /// For each point, one way and the other.
    ways: Vec<[AtomicBool; 2]>,
    loops: Mutex<Loops>,
}

/// Loops that choose their elements: whether one had none shows only when it is over, of which nothing tells.
#[derive(Debug, Default)]
struct Loops {
    /// Whether the latest loop of a thread at a point has an element.
    latest: HashMap<(ThreadId, usize), bool>,
    /// How many loops at a point had none so far.
    without: HashMap<usize, usize>,
}

impl Notes {
    fn take(&self, point: usize, way: usize) {
        if let Some(taken) = self.ways.get(point).and_then(|ways| ways.get(way)) {
            taken.store(true, Ordering::Relaxed);
        }
    }

    fn taken(&self, point: usize, way: usize) -> bool {
        let without = || self.loops.lock().unwrap_or_else(PoisonError::into_inner).without.get(&point).copied();
        self.ways.get(point).and_then(|ways| ways.get(way)).is_some_and(|taken| taken.load(Ordering::Relaxed))
            || way == 1 && without().is_some_and(|loops| loops > 0)
    }

    fn begin(&self, point: usize) {
        let mut loops = self.loops.lock().unwrap_or_else(PoisonError::into_inner);
        *loops.without.entry(point).or_default() += 1;
        loops.latest.insert((std::thread::current().id(), point), false);
    }

    fn choose(&self, point: usize) {
        self.take(point, 0);
        let mut loops = self.loops.lock().unwrap_or_else(PoisonError::into_inner);
        if loops.latest.insert((std::thread::current().id(), point), true) == Some(false)
            && let Some(without) = loops.without.get_mut(&point)
        {
            *without -= 1;
        }
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
            let count = points.iter().map(|point| point.id + 1).max().unwrap_or(0);
            templates.push(Watched { name, source, points, first });
            first += count;
        }
        let notes = Arc::new(Notes { ways: (0..first).map(|_| Default::default()).collect(), ..Notes::default() });
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
        let begun = Arc::clone(&notes);
        env.add_filter(BEGUN, move |list: Value, point: usize| {
            begun.begin(point);
            list
        });
        let chosen = Arc::clone(&notes);
        env.add_test(CHOSEN, move |point: usize| {
            chosen.choose(point);
            true
        });
        Watch { env, insertions, templates, notes, rendered }
    }

    /// What was rendered so far.
    pub(super) fn reached(&self) -> Vec<Reach> {
        let rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        let reach = |template: &Watched| {
            let branches = template.points.iter().flat_map(|point| {
                let number = template.first + point.id;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::value::from_json;
    use crate::prompt::{MapVars, Templates, TemplatesBuilder};

    fn watched(text: &str, renderings: &[serde_json::Value]) -> (Vec<String>, Vec<String>, Arc<Templates>) {
        let mut builder = TemplatesBuilder::new(Arc::default());
        let id = builder.template(text).unwrap();
        let (plain, noted) = (builder.build(), {
            let mut builder = TemplatesBuilder::new(Arc::default());
            builder.template(text).unwrap();
            builder.build()
        });
        noted.watch();
        let mut texts = Vec::new();
        for vars in renderings {
            let vars = vars.as_object().unwrap().iter();
            let vars = MapVars(vars.map(|(k, v)| (k.clone(), from_json(v))).collect());
            let (a, b) = (plain.render(id, &vars), noted.render(id, &vars));
            assert_eq!(a.as_ref().map_err(|e| (&e.excerpt, &e.range)), b.as_ref().map_err(|e| (&e.excerpt, &e.range)));
            texts.extend(b.ok());
        }
        let reach = noted.reached().remove(0);
        let missed = reach.branches.iter().filter(|branch| !branch.taken);
        let missed = missed.map(|branch| format!("{:?} {}", branch.arm, &text[branch.range.clone()])).collect();
        (missed, texts, plain)
    }

    #[test]
    fn branches_that_no_rendering_takes_are_told() {
        let text = "{% if (a) or (b ~ '' == 'x') %}1{% elif c is defined %}2{% endif %}{{ 'p' if not a }}\
            {% for x in xs %}{{ x }}{% else %}none{% endfor %}{% for x in xs if x > 1 %}!{% endfor %}";
        let (missed, texts, _) = watched(text, &[serde_json::json!({"a": false, "b": "x", "xs": [1]})]);
        assert_eq!(texts, ["1p1"]);
        assert_eq!(
            missed,
            [
                "Fails (a) or (b ~ '' == 'x')",
                "Holds c is defined",
                "Fails c is defined",
                "Fails not a",
                "Empty xs",
                "Element x > 1"
            ]
        );
        let rest = [
            serde_json::json!({"a": false, "b": "x", "xs": [2]}),
            serde_json::json!({"a": true, "b": "y", "xs": []}),
            serde_json::json!({"a": false, "b": "y", "c": 1, "xs": []}),
            serde_json::json!({"a": false, "b": "y", "xs": []}),
        ];
        assert_eq!(watched(text, &rest).0, Vec::<String>::new());
    }

    #[test]
    fn a_loop_that_chooses_its_elements_and_has_none_is_told_from_one_that_has() {
        let text = "{% for x in (xs) if x.a or x.b -%} {{ x.a }} {%- else -%} none {%- endfor %}";
        let some = serde_json::json!({"xs": [{"a": false, "b": 0}, {"a": 1, "b": 0}, {"a": 2, "b": 0}]});
        let none = serde_json::json!({"xs": [{"a": false, "b": 0}]});
        let (missed, texts, _) = watched(text, std::slice::from_ref(&some));
        assert_eq!((missed, texts), (vec!["Empty x.a or x.b".to_owned()], vec!["12".to_owned()]));
        let (missed, texts, _) = watched(text, std::slice::from_ref(&none));
        assert_eq!((missed, texts), (vec!["Element x.a or x.b".to_owned()], vec!["none".to_owned()]));
        let empty = serde_json::json!({"xs": []});
        assert_eq!(watched(text, &[empty, some]).0, Vec::<String>::new());
        // What is no list is the mistake that it is without being watched.
        assert_eq!(watched(text, &[serde_json::json!({"xs": 5})]).1, Vec::<String>::new());
    }

    #[test]
    fn errors_and_trimmed_lines_are_as_without() {
        let text = "a\n  {%- if a.b.c > 1 -%}\n  x\n{% endif %}\n {% for x in a.list if x %}\n  {{ x }}\n {% endfor +%}\nz {{ gone }}";
        let (_, texts, _) = watched(
            text,
            &[
                serde_json::json!({"a": {"b": {"c": 2}, "list": [1]}}),
                serde_json::json!({"a": {"b": {"c": 2}, "list": [1]}, "gone": 1}),
                serde_json::json!({"a": {}}),
            ],
        );
        assert_eq!(texts.len(), 1);
    }
}
