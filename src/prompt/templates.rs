//! The run-time half: all templates and exprs of a program, compiled once, rendered and evaluated by id.

use super::ast::{self, Stmt};
use super::branches::{Reach, Watch};
use super::concat::{self, Insertions};
use super::error::RenderError;
use super::files::Files;
use super::filters;
use super::resolved;
use super::syntax::SyntaxFault;
use super::text;
use super::truth::{self, Kleene, Truth};
use super::uses::{self, Uses};
use super::value::{list_value, to_json};
use super::vars::{Var, Vars};
use crate::value::{TypeId, TypeKind, Types};
use indexmap::IndexMap;
use minijinja::value::{Object, ObjectRepr, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior};
use serde_json::Value as Json;
use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// How many instructions one rendering may take.
const FUEL: u64 = 2_000_000;
/// The longest text that a rendering may give, in bytes.
const OUTPUT_MAX: usize = 16 << 20;
/// How deep includes, macros and blocks may call one another.
const RECURSION_MAX: usize = 60;
/// Names of templates made from exprs begin so; no file is named so.
const EXPR: char = '\u{1}';
/// Names of templates that are not files begin so.
const TEXT: char = '\u{2}';

thread_local! {
    /// Where the formatter leaves the value of an expr; taken right after its evaluation.
    static RESULT: RefCell<Option<Value>> = const { RefCell::new(None) };
}

/// A compiled template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TemplateId(u32);

/// A compiled expr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExprId(u32);

#[derive(Debug)]
struct Template {
    /// Its name in the environment.
    name: String,
    source: String,
    uses: Uses,
}

#[derive(Debug)]
struct Expr {
    name: String,
    source: String,
    uses: Uses,
    /// The leaves of `and`, `or`, `not` when there are some.
    kleene: Option<Kleene<ExprId>>,
}

/// All templates and exprs of one program; immutable, shared between threads.
#[derive(Debug)]
pub struct Templates {
    env: Environment<'static>,
    types: Arc<Types>,
    files: Files,
    templates: Vec<Template>,
    exprs: Vec<Expr>,
    computed: IndexMap<(TypeId, String), ExprId>,
    /// What was put into the texts before they were compiled, by their names in the environment.
    insertions: IndexMap<String, Insertions>,
    /// Set when renderings are watched.
    watch: OnceLock<Box<Watch>>,
}

/// An expr, and the leaves of its `and`, `or`, `not` when there are some.
type Parsed = (ast::Expr, Option<Kleene<ExprId>>);

/// Collects what a program's texts need, then [`TemplatesBuilder::build`]s them.
///
/// Every text is parsed once here, so that mistakes show; minijinja compiles it when it is first rendered, because a
/// run, and all the more a check, needs few of a program's texts.
pub struct TemplatesBuilder {
    /// What minijinja compiles, by name.
    sources: IndexMap<String, String>,
    types: Arc<Types>,
    files: Files,
    templates: IndexMap<String, Vec<Stmt>>,
    exprs: IndexMap<String, Parsed>,
    computed: IndexMap<(TypeId, String), ExprId>,
    insertions: IndexMap<String, Insertions>,
}

impl TemplatesBuilder {
    /// Begins; the computed members of all types are compiled too. Those that do not parse are never defined.
    pub fn new(types: Arc<Types>) -> TemplatesBuilder {
        let mut builder = TemplatesBuilder {
            sources: IndexMap::new(),
            types: Arc::clone(&types),
            files: Files::new(),
            templates: IndexMap::new(),
            exprs: IndexMap::new(),
            computed: IndexMap::new(),
            insertions: IndexMap::new(),
        };
        for (id, def) in types.iter() {
            let TypeKind::Object(object) = &def.kind else { continue };
            for (name, source) in &object.computed {
                if let Ok(expr) = builder.expr(source) {
                    builder.computed.insert((id, name.clone()), expr);
                }
            }
        }
        builder
    }

    /// Adds a file under `prompts/`, such as `star-news/find_news.jinja`. A file that does not parse is left out; a
    /// template that draws it in fails when it is rendered (the static check has reported it).
    pub fn file(&mut self, name: &str, source: &str) {
        self.files.insert(name, source);
        if let Ok(stmts) = ast::parse_template(source) {
            // It parses, so it can be added; a name can be any text.
            self.add(name.to_owned(), concat::template(source, &stmts));
        }
    }

    fn add(&mut self, name: String, (source, insertions): (String, Insertions)) {
        self.insertions.insert(name.clone(), insertions);
        self.sources.insert(name, source);
    }

    /// Adds several files.
    pub fn files(&mut self, files: &Files) {
        for name in files.names().map(str::to_owned).collect::<Vec<_>>() {
            let source = files.source(&name).unwrap_or_default();
            self.file(&name, source);
        }
    }

    /// Compiles a template; equal texts have one id.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn template(&mut self, source: &str) -> Result<TemplateId, SyntaxFault> {
        if let Some(index) = self.templates.get_index_of(source) {
            return Ok(TemplateId(index as u32));
        }
        let stmts = ast::parse_template(source)?;
        let name = format!("{TEXT}{}", self.templates.len());
        self.add(name, concat::template(source, &stmts));
        let (index, _) = self.templates.insert_full(source.to_owned(), stmts);
        Ok(TemplateId(index as u32))
    }

    /// Compiles an expr; equal texts have one id.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn expr(&mut self, source: &str) -> Result<ExprId, SyntaxFault> {
        self.expr_at(source, 0..source.len())
    }

    /// Compiles the expr that is a part of a text; faults are told in offsets of the whole.
    pub(super) fn expr_at(&mut self, text: &str, range: Range<usize>) -> Result<ExprId, SyntaxFault> {
        let source = &text[range.clone()];
        let moved = |mut fault: SyntaxFault| {
            fault.range = fault.range.start + range.start..fault.range.end + range.start;
            fault
        };
        if let Some(index) = self.exprs.get_index_of(source) {
            return Ok(ExprId(index as u32));
        }
        let parsed = ast::parse_expr(source).map_err(moved)?;
        let kleene = match truth::split(source) {
            // Parentheses may have gone.
            Kleene::Leaf(_) => None,
            split => Some(self.leaves(source, &split).map_err(moved)?),
        };
        let (text, insertions) = concat::expr(source, &parsed);
        let (index, _) = self.exprs.insert_full(source.to_owned(), (parsed, kleene));
        self.add(format!("{EXPR}{index}"), (format!("{{{{ {text} }}}}"), insertions));
        Ok(ExprId(index as u32))
    }

    fn leaves(&mut self, source: &str, node: &Kleene<Range<usize>>) -> Result<Kleene<ExprId>, SyntaxFault> {
        let mut all = |parts: &[Kleene<Range<usize>>]| {
            parts.iter().map(|part| self.leaves(source, part)).collect::<Result<Vec<_>, _>>()
        };
        Ok(match node {
            Kleene::And(parts) => Kleene::And(all(parts)?),
            Kleene::Or(parts) => Kleene::Or(all(parts)?),
            Kleene::Not(inner) => Kleene::Not(Box::new(self.leaves(source, inner)?)),
            Kleene::Leaf(span) => Kleene::Leaf(self.expr_at(source, span.clone())?),
        })
    }

    /// Ends; nothing can be added from here on.
    pub fn build(self) -> Arc<Templates> {
        let files = self.files;
        let template = |(index, (source, stmts)): (usize, (String, Vec<Stmt>))| {
            let uses = uses::of_template(&files, &stmts);
            Template { name: format!("{TEXT}{index}"), source, uses }
        };
        let expr = |(index, (source, (parsed, kleene))): (usize, (String, Parsed))| Expr {
            name: format!("{EXPR}{index}"),
            source,
            uses: uses::of_expr(&parsed),
            kleene,
        };
        let templates = self.templates.into_iter().enumerate().map(template).collect();
        let exprs = self.exprs.into_iter().enumerate().map(expr).collect();
        let (types, computed, insertions) = (self.types, self.computed, self.insertions);
        let (mut env, sources) = (environment(), self.sources);
        env.set_loader(move |name| Ok(sources.get(name).cloned()));
        let watch = OnceLock::new();
        Arc::new(Templates { env, types, files, templates, exprs, computed, insertions, watch })
    }
}

fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    env.set_syntax(ast::syntax_config());
    env.set_fuel(Some(FUEL));
    env.set_recursion_limit(RECURSION_MAX);
    env.set_debug(false);
    env.set_formatter(|out, state, value| {
        if state.name().starts_with(EXPR) {
            RESULT.with(|result| *result.borrow_mut() = Some(value.clone()));
            return Ok(());
        }
        // `{{ "x" if y }}` gives a silent undefined where `y` does not hold: nothing was asked for.
        if value.is_undefined() { Ok(()) } else { text::write_text(out, value) }
    });
    filters::register(&mut env);
    env
}

impl Templates {
    /// The types that values are made of.
    pub fn types(&self) -> &Types {
        &self.types
    }

    /// The template files.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// From now on, what is rendered is noted: see [`Templates::reached`].
    pub fn watch(&self) {
        self.watch.get_or_init(|| {
            let own = self.templates.iter().map(|template| (template.name.clone(), template.source.clone()));
            let file = |name: &str| (name.to_owned(), self.files.source(name).unwrap_or_default().to_owned());
            Box::new(Watch::new(environment(), own.chain(self.files.names().map(file))))
        });
    }

    /// Which templates were rendered and which of their branches taken since [`Templates::watch`]; none without.
    pub fn reached(&self) -> Vec<Reach> {
        self.watch.get().map(|watch| watch.reached()).unwrap_or_default()
    }

    /// The text of a template.
    pub fn template_source(&self, id: TemplateId) -> &str {
        self.templates.get(id.0 as usize).map_or("", |template| &template.source)
    }

    /// The text of an expr.
    pub fn expr_source(&self, id: ExprId) -> &str {
        self.exprs.get(id.0 as usize).map_or("", |expr| &expr.source)
    }

    /// Renders a template.
    ///
    /// # Errors
    /// An undefined or null value in text, a wrong type, too much output or too many steps.
    pub fn render(&self, id: TemplateId, vars: &dyn Vars) -> Result<String, RenderError> {
        let Some(template) = self.templates.get(id.0 as usize) else {
            return Err(RenderError::new("the template belongs to another program"));
        };
        let context = self.context(&template.uses, vars);
        let mut out = Output::default();
        let done =
            self.watch.get().map_or(&self.env, |watch| &watch.env).get_template(&template.name).and_then(|compiled| {
                compiled.render_captured_to(Value::from_dyn_object(Arc::clone(&context)), &mut out)
            });
        match done.map(drop) {
            Ok(()) => String::from_utf8(out.bytes).map_err(|_| RenderError::new("the text is not UTF-8")),
            Err(error) => Err(self.error(&error, &template.source, 0, &context, out.is_full)),
        }
    }

    /// Evaluates an expr to JSON.
    ///
    /// # Errors
    /// An undefined value, also as the result; a wrong type; a value without JSON.
    pub fn eval(&self, id: ExprId, vars: &dyn Vars) -> Result<Json, RenderError> {
        let value = self.value(id, vars)?;
        to_json(&value).map_err(RenderError::new)
    }

    /// Evaluates an expr to a value.
    ///
    /// # Errors
    /// As [`Templates::eval`].
    pub fn value(&self, id: ExprId, vars: &dyn Vars) -> Result<Value, RenderError> {
        let Some(expr) = self.exprs.get(id.0 as usize) else {
            return Err(RenderError::new("the expr belongs to another program"));
        };
        self.value_in(expr, &self.context(&expr.uses, vars))
    }

    fn value_in(&self, expr: &Expr, context: &Arc<Context>) -> Result<Value, RenderError> {
        let outcome = self.env.get_template(&expr.name).and_then(|compiled| {
            compiled.render_captured_to(Value::from_dyn_object(Arc::clone(context)), io::sink()).map(drop)
        });
        let value = RESULT.with(|result| result.borrow_mut().take());
        match (outcome, value) {
            (Err(error), _) => Err(self.error(&error, &expr.source, 3, context, false)),
            (Ok(()), Some(value)) if !value.is_undefined() => Ok(value),
            (Ok(()), _) => {
                let mut error = RenderError::new("the value is undefined");
                error.is_undefined = true;
                error.excerpt = Some(expr.source.clone());
                error.range = Some(0..expr.source.len());
                error.values = context.shown().into();
                Err(error)
            }
        }
    }

    /// The truth of a condition: unknown where a leaf of its `and`, `or` and `not` mentions what is missing.
    pub fn truth(&self, id: ExprId, vars: &dyn Vars) -> Truth {
        self.truth_explained(id, vars).0
    }

    /// The truth of a condition, and for an unknown one the first cause.
    pub fn truth_explained(&self, id: ExprId, vars: &dyn Vars) -> (Truth, Option<RenderError>) {
        let Some(expr) = self.exprs.get(id.0 as usize) else {
            return (Truth::Unknown, Some(RenderError::new("the expr belongs to another program")));
        };
        let context = self.context(&expr.uses, vars);
        let mut cause = None;
        let truth = match &expr.kleene {
            Some(node) => self.truth_of(node, &context, &mut cause),
            None => self.leaf_truth(expr, &context, &mut cause),
        };
        (truth, cause.filter(|_| truth == Truth::Unknown))
    }

    fn truth_of(&self, node: &Kleene<ExprId>, context: &Arc<Context>, cause: &mut Option<RenderError>) -> Truth {
        match node {
            Kleene::And(parts) => {
                let mut truth = Truth::True;
                for part in parts {
                    truth = truth.and(self.truth_of(part, context, cause));
                    if truth == Truth::False {
                        break;
                    }
                }
                truth
            }
            Kleene::Or(parts) => {
                let mut truth = Truth::False;
                for part in parts {
                    truth = truth.or(self.truth_of(part, context, cause));
                    if truth == Truth::True {
                        break;
                    }
                }
                truth
            }
            Kleene::Not(inner) => !self.truth_of(inner, context, cause),
            Kleene::Leaf(id) => match self.exprs.get(id.0 as usize) {
                Some(expr) => self.leaf_truth(expr, context, cause),
                None => Truth::Unknown,
            },
        }
    }

    fn leaf_truth(&self, expr: &Expr, context: &Arc<Context>, cause: &mut Option<RenderError>) -> Truth {
        if let Some(name) = expr.uses.vars.iter().find(|name| context.is_unknown(name)) {
            cause.get_or_insert_with(|| RenderError::new(format!("the condition `{name}` is unknown")));
            return Truth::Unknown;
        }
        match self.value_in(expr, context) {
            Ok(value) => Truth::from(value.is_true()),
            Err(error) => {
                cause.get_or_insert(error);
                Truth::Unknown
            }
        }
    }

    /// A computed member of an object; an error in it is an invalid value, which fails where it is used.
    pub(super) fn computed(&self, id: TypeId, name: &str, object: &Value) -> Option<Value> {
        let expr = self.computed.get(&(id, name.to_owned())).and_then(|id| self.exprs.get(id.0 as usize))?;
        let Some(_depth) = Depth::enter() else {
            let message = format!("computed member `{name}` of `{}` refers to itself", self.types.name(id));
            return Some(Value::from(Error::new(ErrorKind::InvalidOperation, message)));
        };
        let context = self.context(&expr.uses, &Fields { object });
        match self.value_in(expr, &context) {
            Ok(value) => Some(value),
            Err(error) if error.is_undefined => None,
            Err(error) => {
                let message = format!("computed member `{name}` of `{}`: {error}", self.types.name(id));
                Some(Value::from(Error::new(ErrorKind::InvalidOperation, message)))
            }
        }
    }

    fn context(&self, uses: &Uses, vars: &dyn Vars) -> Arc<Context> {
        let mut context = Context::default();
        for (name, argument) in &uses.calls {
            context.functions.push(Answer {
                name: name.clone(),
                argument: argument.clone(),
                value: answer(name, argument.as_deref(), vars),
            });
        }
        for name in &uses.vars {
            match vars.get(name) {
                Var::Value(value) => drop(context.vars.insert(name.clone(), value)),
                Var::Unknown => context.unknown.push(name.clone()),
                Var::Undefined => {}
            }
        }
        Arc::new(context)
    }

    fn error(&self, error: &Error, source: &str, offset: usize, context: &Context, is_full: bool) -> RenderError {
        let mut cause = error;
        while let Some(inner) = std::error::Error::source(cause).and_then(|source| source.downcast_ref::<Error>()) {
            cause = inner;
        }
        let mut out = RenderError::new(if is_full {
            format!("the text is longer than {OUTPUT_MAX} bytes")
        } else {
            message(cause)
        });
        out.is_undefined = cause.kind() == ErrorKind::UndefinedError;
        let name = cause.name().or(error.name()).unwrap_or_default();
        let is_own = name.starts_with([EXPR, TEXT]);
        let text = if is_own { source } else { self.files.source(name).unwrap_or_default() };
        if !is_own && !name.is_empty() {
            out.file = Some(name.to_owned());
        }
        let offset = if is_own { offset } else { 0 };
        if let Some(range) = cause.range().or_else(|| error.range()) {
            let range = range.start.saturating_sub(offset)..range.end.saturating_sub(offset);
            let noted = self.watch.get().and_then(|watch| watch.insertions.get(name));
            let insertions = noted.or_else(|| self.insertions.get(name));
            let range = insertions.map_or(range.clone(), |insertions| insertions.original(range));
            let range = range.start.min(text.len())..range.end.min(text.len());
            let range = ast::whole(text, &range, offset > 0);
            if let Some(excerpt) = text.get(range.clone()) {
                out.excerpt = Some(excerpt.to_owned()).filter(|excerpt| !excerpt.trim().is_empty());
                out.range = Some(range);
            }
        }
        // The values that mattered are those of the variables named where it failed.
        let mut values = context.shown();
        if let Some(excerpt) = &out.excerpt {
            values.retain(|(name, _)| resolved::names_in(excerpt).any(|word| word == *name));
        }
        out.values = values.into();
        out
    }
}

/// What minijinja says, in our words.
fn message(error: &Error) -> String {
    let detail = error.detail().unwrap_or_default();
    match error.kind() {
        ErrorKind::UndefinedError if detail.is_empty() => "the value is undefined".to_owned(),
        ErrorKind::OutOfFuel => "the template takes too many steps; is a loop too long?".to_owned(),
        ErrorKind::UndefinedError => format!("undefined value: {detail}"),
        kind if detail.is_empty() => kind.to_string(),
        _ => detail.to_owned(),
    }
}

/// The answer of a blackboard function.
fn answer(name: &str, argument: Option<&str>, vars: &dyn Vars) -> Value {
    let of = |var: Var| match var {
        Var::Value(value) => value,
        Var::Undefined | Var::Unknown => Value::UNDEFINED,
    };
    match (name, argument) {
        ("last", Some(ty)) => of(vars.last(ty)),
        ("all", Some(ty)) => list_value(vars.all(ty)),
        ("count", Some(ty)) => Value::from(vars.count(ty)),
        ("has", Some(ty)) => Value::from(vars.has(ty)),
        ("ran", Some(action)) => Value::from(vars.ran(action)),
        ("now", None) => Value::from(vars.now()),
        _ => Value::UNDEFINED,
    }
}

/// The variables of one rendering.
#[derive(Debug, Default)]
struct Context {
    vars: IndexMap<String, Value>,
    unknown: Vec<String>,
    functions: Vec<Answer>,
}

#[derive(Clone, Debug)]
struct Answer {
    name: String,
    argument: Option<String>,
    value: Value,
}

impl Context {
    fn is_unknown(&self, name: &str) -> bool {
        self.unknown.iter().any(|unknown| unknown == name)
    }

    /// The variables with their values, cut short.
    fn shown(&self) -> Vec<(String, String)> {
        self.vars.iter().map(|(name, value)| (name.clone(), text::short(value))).collect()
    }
}

impl Object for Context {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }
    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        if let Some(value) = self.vars.get(key) {
            return Some(value.clone());
        }
        if self.functions.iter().any(|answer| answer.name == key) {
            return Some(Value::from_object(Function { name: key.to_owned(), context: Arc::clone(self) }));
        }
        None
    }
}

/// A blackboard function, with its answers.
#[derive(Debug)]
struct Function {
    name: String,
    context: Arc<Context>,
}

impl Object for Function {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
    fn call(self: &Arc<Self>, _: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        let argument = args.first().and_then(Value::as_str);
        let answers = &self.context.functions;
        match answers.iter().find(|answer| answer.name == self.name && answer.argument.as_deref() == argument) {
            Some(answer) => Ok(answer.value.clone()),
            None => {
                let message = format!("the argument of `{}` must be a name in quotes", self.name);
                Err(Error::new(ErrorKind::InvalidOperation, message))
            }
        }
    }
}

/// The fields of an object as variables, for its computed members.
struct Fields<'v> {
    object: &'v Value,
}

impl Vars for Fields<'_> {
    fn get(&self, name: &str) -> Var {
        if name == "self" {
            return Var::Value(self.object.clone());
        }
        self.object.get_attr(name).ok().into()
    }
}

thread_local! {
    static COMPUTED_DEPTH: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts how deep computed members stand within one another.
struct Depth;

impl Depth {
    const MAX: usize = 12;

    fn enter() -> Option<Depth> {
        COMPUTED_DEPTH.with(|depth| {
            if depth.get() >= Depth::MAX {
                return None;
            }
            depth.set(depth.get() + 1);
            Some(Depth)
        })
    }
}

impl Drop for Depth {
    fn drop(&mut self) {
        COMPUTED_DEPTH.with(|depth| depth.set(depth.get().saturating_sub(1)));
    }
}

/// A buffer that takes [`OUTPUT_MAX`] bytes.
#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
    is_full: bool,
}

impl io::Write for Output {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + text.len() > OUTPUT_MAX {
            self.is_full = true;
            return Err(io::Error::other("too long"));
        }
        self.bytes.extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
