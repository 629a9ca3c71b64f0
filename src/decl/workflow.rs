//! What a workflow declares beside types and tools: actions with their inputs and outputs, conditions, goals, states,
//! planner, chat and limits (language.md 4 to 7).

use serde_json::{Value, json};

use crate::diag::Diagnostic;
use crate::source::{Node, NodeKind, Spanned, Text};
use crate::{record, words};

use super::basic::{Count, Data, Duration, Expr, List, Name, Place, Table, Template};
use super::body::{ACTION_BODIES, BodyNode, read_body};
use super::models::LlmChoice;
use super::read::{Defs, Read, ReadCx, refuse_unknown_keys};
use super::tools::ToolUse;
use super::types::TypeDecl;

/// One thing an action takes, or a run starts from.
#[derive(Clone, Debug, PartialEq)]
pub struct InputDecl {
    /// Its own name; without one the default name of its type holds.
    pub name: Option<Name>,
    /// Its type.
    pub of: TypeMention,
    /// Also bound under its own name (`named: true`).
    pub named: bool,
}

/// A type mentioned as an input or output: `T`, `T?`, `list<T>`, `list<T>?`.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeMention {
    /// The type's name.
    pub name: Name,
    /// `list<T>`.
    pub list: bool,
    /// The `?` behind it.
    pub optional: bool,
    /// Where the whole was written.
    pub place: Place,
}

/// The inputs of an action or agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inputs(pub Vec<InputDecl>);

/// What an action puts on the blackboard.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputDecl {
    /// One type, or the members of a some-of.
    pub types: Vec<TypeMention>,
    /// Written in brackets with more than one element: some of them.
    pub some_of: bool,
    /// Bound under this name (`{type: T, name: x}`).
    pub name: Option<Name>,
    /// Where it was written.
    pub place: Place,
}

/// Reports an output `list<T>?`: a list that comes out empty has brought nothing already, as an optional object does.
fn refuse_optional_list(of: &TypeMention, cx: &mut ReadCx) {
    if of.list && of.optional {
        let right = format!("list<{}>", of.name.value);
        cx.report(
            Diagnostic::error("bad-type", of.place.0, "an output that is a list cannot be optional: it may be empty")
                .help(format!("write `{right}`"))
                .fix(of.place.0, right),
        );
    }
}

impl TypeMention {
    fn parse(text: &Text, what: &str, cx: &mut ReadCx) -> Option<TypeMention> {
        let lead = text.value.len() - text.value.trim_start().len();
        let whole = text.value.trim();
        let span = text.span_of(lead..lead + whole.len());
        let (core, optional) = whole.strip_suffix('?').map_or((whole, false), |core| (core, true));
        let (name, list) = match core.strip_prefix("list<").and_then(|rest| rest.strip_suffix('>')) {
            Some(name) => (name.trim(), true),
            None => (core, false),
        };
        let at = whole.find(name).unwrap_or(0) + lead;
        let name_span = text.span_of(at..at + name.len());
        if let Some(element) = name.strip_suffix("[]") {
            cx.report(
                Diagnostic::error("list-brackets", span, "square brackets after a name are not part of the language")
                    .help(format!("write `list<{element}>`"))
                    .fix(span, format!("list<{element}>")),
            );
            return None;
        }
        if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
            cx.report(
                Diagnostic::error("bad-type", span, format!("`{whole}` is not {what}"))
                    .help("expected the name of a declared type, as `T`, `T?` or `list<T>`"),
            );
            return None;
        }
        let name = Spanned { value: name.to_owned(), span: name_span };
        Some(TypeMention { name, list, optional, place: Place(span) })
    }

    fn read(node: &Node, what: &str, cx: &mut ReadCx) -> Option<TypeMention> {
        match &node.kind {
            NodeKind::Text(text) => TypeMention::parse(text, what, cx),
            _ => {
                cx.wrong_shape(node, &format!("{what}: a type's name as `T`, `T?` or `list<T>`"));
                None
            }
        }
    }
}

impl Read for Inputs {
    fn expected() -> String {
        "inputs: `T`, `[A, B]` or `{name: T}`".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<Inputs> {
        let unnamed = |node: &Node, cx: &mut ReadCx| {
            if let NodeKind::Map(map) = &node.kind {
                return map.entries.iter().filter_map(|entry| read_named_input(&entry.key, &entry.value, cx)).collect();
            }
            let of = TypeMention::read(node, "an input", cx);
            if let Some(of) = of.as_ref().filter(|of| of.list) {
                cx.report(Diagnostic::error("unnamed-list", of.place.0, "a list input needs a name of its own").help(
                    format!("write `{{{}s: list<{}>}}`", crate::value::snake_case(&of.name.value), of.name.value),
                ));
                return Vec::new();
            }
            of.map(|of| vec![InputDecl { name: None, of, named: false }]).unwrap_or_default()
        };
        match &node.kind {
            NodeKind::List(items) => Some(Inputs(items.iter().flat_map(|item| unnamed(item, cx)).collect())),
            NodeKind::Map(_) | NodeKind::Text(_) => Some(Inputs(unnamed(node, cx))),
            _ => {
                cx.wrong_shape(node, &Self::expected());
                None
            }
        }
    }

    fn schema(defs: &mut Defs) -> Value {
        defs.reference("Inputs", |_| {
            let named = json!({"type": "object", "additionalProperties": {"anyOf": [
                {"type": "string"},
                {"type": "object", "properties": {"type": {"type": "string"}, "named": {"type": "boolean"}},
                 "required": ["type"], "additionalProperties": false},
            ]}});
            json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"anyOf": [{"type": "string"}, named]}}, named]})
        })
    }
}

fn read_named_input(key: &Name, node: &Node, cx: &mut ReadCx) -> Option<InputDecl> {
    if let Some(name) = key.value.strip_suffix('?') {
        let found = match &node.kind {
            NodeKind::Text(text) => text.value.clone(),
            _ => "T".to_owned(),
        };
        cx.report(
            Diagnostic::error(
                "misplaced-question-mark",
                key.span,
                "the `?` of an optional input stands on its type, not on its name",
            )
            .help(format!("write `{name}: {found}?`")),
        );
        return None;
    }
    let NodeKind::Map(map) = &node.kind else {
        let of = TypeMention::read(node, "an input", cx)?;
        return Some(InputDecl { name: Some(key.clone()), of, named: false });
    };
    let map = &*refuse_unknown_keys(map, &["type", "named"], "an input", cx);
    let Some(of) = map.get("type") else {
        super::read::missing_key(node.span, "type", "an input", cx);
        return None;
    };
    let of = TypeMention::read(&of.value, "an input", cx)?;
    let named = super::read::field(map, "named", cx).unwrap_or(false);
    Some(InputDecl { name: Some(key.clone()), of, named })
}

impl Read for OutputDecl {
    fn expected() -> String {
        "an output: `T`, `T?`, `list<T>`, `[A, B]` or `{type: T, name: x}`".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<OutputDecl> {
        let place = Place(node.span);
        match &node.kind {
            NodeKind::Text(_) => {
                let of = TypeMention::read(node, "an output", cx)?;
                refuse_optional_list(&of, cx);
                Some(OutputDecl { types: vec![of], some_of: false, name: None, place })
            }
            NodeKind::List(items) => {
                let types: Vec<TypeMention> =
                    items.iter().filter_map(|item| TypeMention::read(item, "an output", cx)).collect();
                if types.is_empty() {
                    if items.is_empty() {
                        cx.wrong_shape(node, &Self::expected());
                    }
                    return None;
                }
                for of in types.iter().filter(|of| items.len() > 1 && (of.list || of.optional)) {
                    cx.report(
                        Diagnostic::error(
                            "bad-type",
                            of.place.0,
                            "each member of a some-of output is optional already",
                        )
                        .help(format!("write `{}`", of.name.value)),
                    );
                }
                if let [of] = types.as_slice() {
                    refuse_optional_list(of, cx);
                }
                Some(OutputDecl { some_of: items.len() > 1, types, name: None, place })
            }
            NodeKind::Map(map) => {
                let map = &*refuse_unknown_keys(map, &["type", "name"], "an output", cx);
                let Some(of) = map.get("type") else {
                    super::read::missing_key(node.span, "type", "an output", cx);
                    return None;
                };
                let of = TypeMention::read(&of.value, "an output", cx)?;
                refuse_optional_list(&of, cx);
                Some(OutputDecl { types: vec![of], some_of: false, name: super::read::field(map, "name", cx), place })
            }
            _ => {
                cx.wrong_shape(node, &Self::expected());
                None
            }
        }
    }

    fn schema(_: &mut Defs) -> Value {
        json!({"anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            {"type": "object", "properties": {"type": {"type": "string"}, "name": {"type": "string"}},
             "required": ["type"], "additionalProperties": false},
        ]})
    }
}

record! {
    /// How often and how soon a failed action is tried again.
    pub struct Retry = "a retry policy" {
        /// Tries in all, the first one included.
        def attempts: Count = Count::MIN,
        /// Pause before the second try.
        def backoff: Duration = Duration::millis(1_000),
        /// By what each further pause grows.
        def multiplier: f64 = 2.0,
        /// Longest pause.
        def max: Duration = Duration::millis(60_000),
    }
}

words! {
    /// What happens when an action has failed for good, when it is a word.
    pub enum OnErrorWord = "an `on_error`" {
        /// The action is out and another way to the goal is sought.
        Replan = "replan",
        /// The process fails.
        Fail = "fail",
    }
}

/// What happens when an action has failed for good.
#[derive(Clone, Debug, PartialEq)]
pub enum OnError {
    /// `replan` or `fail`.
    Word(OnErrorWord),
    /// `{output: data}`: this is the output instead.
    Output(Data),
}

impl Read for OnError {
    fn expected() -> String {
        "`replan`, `fail` or `{output: data}`".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<OnError> {
        match &node.kind {
            NodeKind::Map(map) => {
                let map = &*refuse_unknown_keys(map, &["output"], "`on_error`", cx);
                super::read::field(map, "output", cx).map(OnError::Output)
            }
            _ => OnErrorWord::read(node, cx).map(OnError::Word),
        }
    }

    fn schema(defs: &mut Defs) -> Value {
        json!({"anyOf": [OnErrorWord::schema(defs),
            {"type": "object", "properties": {"output": {}}, "required": ["output"], "additionalProperties": false}]})
    }
}

record! {
    /// A goal named as the action, reached when the action ran and its output came.
    pub struct Achieves = "a goal" [short: description] {
        /// What is achieved.
        opt description: Template,
        /// What it is worth.
        opt value: Expr,
        /// Published to other programs.
        opt export: Export,
        /// Inputs for which the goal is right, for ranking.
        opt examples: List<Name>,
    }
}

record! {
    /// How a goal is published to other programs.
    pub struct ExportRecord = "an export" {
        /// The name it is published under.
        opt name: Name,
        /// What a caller gives.
        opt inputs: Inputs,
        /// What it does, for the caller.
        opt description: Template,
    }
}

/// `export: true` or `{name, inputs, description}`.
#[derive(Clone, Debug, PartialEq)]
pub enum Export {
    /// Published, or not, under its own name.
    Flag(bool),
    /// Published as said.
    Record(ExportRecord),
}

impl Read for Export {
    fn expected() -> String {
        "`true` or `{name, inputs, description}`".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<Export> {
        match node.kind {
            NodeKind::Bool(flag) => Some(Export::Flag(flag)),
            _ => ExportRecord::read(node, cx).map(Export::Record),
        }
    }

    fn schema(defs: &mut Defs) -> Value {
        json!({"anyOf": [{"type": "boolean"}, ExportRecord::schema(defs)]})
    }
}

record! {
    /// Free text that joins the prompts.
    pub struct Contributor = "a contributor" [short: text] {
        /// What is added to the system message.
        req text: Template,
        /// Added only when this holds.
        opt when: Expr,
    }
}

record! {
    /// Settings for LLM calls and failures, of one action or as defaults of all.
    pub struct Settings = "settings" {
        /// Which model, and how it is asked.
        opt llm: LlmChoice,
        /// Who the model is.
        opt persona: Name,
        /// Tools that the model may call.
        opt tools: List<ToolUse>,
        /// References that the model sees.
        opt references: List<Name>,
        /// Free text that joins the prompts.
        opt contributors: List<Contributor>,
        /// Further guardrails, of those declared with `scope: named`.
        opt guardrails: List<Name>,
        /// How often a failed action is tried again.
        opt retry: Retry,
        /// How long an action may take.
        opt timeout: Duration,
        /// How many turns a tool loop may take.
        opt max_turns: Count,
    }
}

record! {
    /// What an action declares beside its body and its settings.
    pub struct ActionHead = "an action" {
        /// What it does, for people and models.
        opt description: Template,
        /// What it takes from the blackboard, matched by type.
        def inputs: Inputs = Inputs::default(),
        /// What it puts on the blackboard.
        opt output: OutputDecl,
        /// Exprs that must hold for it to run.
        def pre: List<Expr> = List::default(),
        /// Conditions it makes true, or false with `not`, beyond what types show.
        def post: List<Expr> = List::default(),
        /// What it costs, for the planner.
        opt cost: Expr,
        /// What it is worth, for the planner.
        opt value: Expr,
        /// It may run again in the same process.
        opt can_rerun: bool,
        /// It runs once for each new object of this type, while that is the newest.
        opt trigger: Name,
        /// Afterwards only its output, `keep` types and the conversation remain.
        def clear_blackboard: bool = false,
        /// Names of its inputs that are hidden afterwards.
        def hide: List<Name> = List::default(),
        /// The goal that it achieves.
        opt achieves: Achieves,
        /// Pause before it runs.
        opt delay: Duration,
        /// What happens when it has failed for good.
        opt on_error: OnError,
    }
}

/// An action: its head, its settings, and exactly one body.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// Where it was written.
    pub place: Place,
    /// What it declares beside body and settings.
    pub head: ActionHead,
    /// Settings for the prompts in its body, retries and timeout.
    pub settings: Settings,
    /// Its body; `None` after a finding.
    pub body: Option<BodyNode>,
}

impl Action {
    /// Every key that an action may have.
    pub fn keys() -> Vec<&'static str> {
        [ActionHead::KEYS, Settings::KEYS, ACTION_BODIES].concat()
    }
}

impl Read for Action {
    fn expected() -> String {
        "an action: a mapping with exactly one body".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<Action> {
        let owner = Spanned { value: "the action".to_owned(), span: node.span };
        Self::read_named(&owner, node, cx)
    }

    fn read_named(name: &Name, node: &Node, cx: &mut ReadCx) -> Option<Action> {
        let map = super::basic::mapping(node, &Self::expected(), cx)?;
        let map = &*refuse_unknown_keys(map, &Action::keys(), "an action", cx);
        let head = ActionHead::read_fields(map, node.span, cx)?;
        let settings = Settings::read_fields(map, node.span, cx)?;
        let owner = Spanned { value: format!("the action `{}`", name.value), span: name.span };
        let body = read_body(map, ACTION_BODIES, &owner, cx);
        Some(Action { place: Place(node.span), head, settings, body })
    }

    fn schema(defs: &mut Defs) -> Value {
        defs.reference("Action", |defs| {
            let mut properties = serde_json::Map::new();
            let (head, settings) = (ActionHead::schema(defs), Settings::schema(defs));
            for part in [head, settings] {
                properties.extend(super::read::properties_of(&part, defs));
            }
            for kind in ACTION_BODIES {
                properties.insert((*kind).to_owned(), json!({"$ref": format!("#/definitions/action.{kind}")}));
            }
            let bodies: Vec<Value> = ACTION_BODIES.iter().map(|kind| json!({"required": [kind]})).collect();
            json!({"type": "object", "properties": properties, "additionalProperties": false, "oneOf": bodies})
        })
    }
}

record! {
    /// A condition with its inputs named, answered by an expr or by a model.
    pub struct ConditionRecord = "a condition" {
        /// What it reads, by name; without it types are mentioned by their default names.
        opt inputs: Inputs,
        /// The expr that decides it.
        opt expr: Expr,
        /// The question to a model that decides it.
        opt prompt: Template,
        /// The model that is asked.
        opt llm: LlmChoice,
        /// Below this the answer counts as unknown; from 0 to 1.
        opt confidence: f64,
        /// What it means, for people and models.
        opt description: Template,
        /// The value it has before anything changes it, for a condition that only `post` changes.
        opt initial: bool,
    }
}

/// A condition as written: an expr, or a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// `urgent: assessment.urgency > 0.5`.
    Expr(Expr),
    /// `{inputs, expr}` or `{inputs, prompt, llm, confidence}`.
    Record(Box<ConditionRecord>),
}

impl Read for Condition {
    fn expected() -> String {
        "a condition: an expr, or `{inputs, expr}`, or `{inputs, prompt}`".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<Condition> {
        if !matches!(node.kind, NodeKind::Map(_)) {
            return Expr::read(node, cx).map(Condition::Expr);
        }
        let record = ConditionRecord::read(node, cx)?;
        match (&record.expr, &record.prompt) {
            (Some(_), None) | (None, Some(_)) => Some(Condition::Record(Box::new(record))),
            (None, None) => {
                cx.report(
                    Diagnostic::error("missing-key", node.span, "a condition needs `expr` or `prompt`")
                        .help("add `expr: …` for an expr, or `prompt: …` for a question to a model"),
                );
                None
            }
            (Some(_), Some(prompt)) => {
                cx.report(Diagnostic::error(
                    "two-forms",
                    prompt.0.span,
                    "a condition has `expr` or `prompt`, not both",
                ));
                None
            }
        }
    }

    fn schema(defs: &mut Defs) -> Value {
        json!({"anyOf": [Expr::schema(defs), ConditionRecord::schema(defs)]})
    }
}

record! {
    /// A goal: it holds when an object of `output` is visible and `when` holds.
    pub struct Goal = "a goal" [short: output] {
        /// The type whose object is the run's result.
        req output: OutputDecl,
        /// Must hold too.
        def when: List<Expr> = List::default(),
        /// What it is worth.
        opt value: Expr,
        /// What reaching it means.
        opt description: Template,
        /// Published to other programs.
        opt export: Export,
        /// Inputs for which the goal is right, for ranking.
        opt examples: List<Name>,
    }
}

words! {
    /// Kinds of planner (language.md 6).
    pub enum PlannerKind = "a planner" {
        /// The cheapest plan to a goal.
        Goap = "goap",
        /// The best action now.
        Utility = "utility",
        /// A plan where a goal is reachable, else the best action.
        Hybrid = "hybrid",
        /// A model chooses among the actions.
        Supervisor = "supervisor",
    }
}

record! {
    /// Which planner runs the agent.
    pub struct Planner = "a planner" [short: r#type] {
        /// Its kind.
        req r#type: PlannerKind,
        /// The model of a supervisor.
        opt llm: LlmChoice,
        /// How many turns a supervisor may take.
        opt max_turns: Count,
    }
}

record! {
    /// What a process may use up before it is terminated.
    pub struct Limits = "limits" {
        /// Actions.
        opt actions: Count,
        /// Cost in US dollars.
        opt cost: f64,
        /// Tokens, input and output together.
        opt tokens: u64,
        /// LLM calls.
        opt llm_calls: u64,
        /// Time since the process was created.
        opt time: Duration,
        /// Nesting of sub-processes.
        opt depth: u64,
    }
}

record! {
    /// How much of a conversation is kept.
    pub struct ChatHistory = "a chat history" {
        /// Messages kept; older ones are dropped.
        opt max_messages: Count,
    }
}

record! {
    /// A long-lived process that talks with a person.
    pub struct Chat = "a chat" {
        /// What it says first.
        opt greeting: Template,
        /// How much is kept.
        opt history: ChatHistory,
        /// The chat ends when this holds.
        opt end: Expr,
    }
}

words! {
    /// What a running process does when the program changes.
    pub enum Reload = "a reload policy" {
        /// It takes the new program at its next planning step.
        Adopt = "adopt",
        /// It keeps the program it started with.
        Pin = "pin",
    }
}

/// States: types whose objects own actions.
pub type States = Table<TypeDecl>;
