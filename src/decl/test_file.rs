//! Test files (cli.md 5): cases that run a workflow on a scripted model, and what is expected of them.

use serde_json::{Value, json};

use crate::source::{Map, Node, NodeKind, Span};
use crate::{record, words};

use super::basic::{Count, Expr, Json, List, Name, Table, Template, mapping};
use super::models::LlmRecord;
use super::read::{Defs, Read, ReadCx, properties_of, refuse_unknown_keys};
use super::record::object_schema;

record! {
    /// Cases that run a workflow on a scripted model.
    pub struct TestFile = "a test file" {
        /// Test files whose `fixtures` and `defaults` hold here too, relative to this one.
        def import: List<Name> = List::default(),
        /// The workflow, relative to this file.
        opt workflow: Name,
        /// What holds for all cases.
        opt defaults: Fixture,
        /// Parts that cases take in by `use`.
        def fixtures: Table<Fixture> = Table::default(),
        /// Cases by name.
        def cases: Table<CaseEntry> = Table::default(),
    }
}

record! {
    /// A part of cases: what goes in, and who answers.
    pub struct Fixture = "a fixture" {
        /// Text that becomes a `UserInput`.
        opt input: Json,
        /// Objects on the blackboard, by type or by the name of an input; several of one type are a list.
        opt inputs: Objects,
        /// Where the clock stands.
        opt now: Name,
        /// Values that replace those of the workflow's `config`.
        opt config: Objects,
        /// Settings of every call to a model, before those of the workflow.
        opt llm: LlmRecord,
        /// What the model answers, by action: data, a step, or `{turns: […]}`; or `sampled`: made up from the types.
        opt replies: Replies,
        /// What tools give, by name: data, `{error: text}`, or `{turns: […]}`.
        opt tools: Objects,
        /// What actions give without being performed, by name: data, `{error: text}`, or `{turns: […]}`.
        opt actions: Objects,
        /// What people answer, by action; in order when a list.
        opt answers: Objects,
        /// Tools and actions without a stub are really performed.
        opt live: bool,
    }
}

record! {
    /// One run, and what is expected of it, without what a fixture has too.
    pub struct CaseHead = "a case" {
        /// What the case shows.
        opt description: Name,
        /// Why the case is not run.
        opt skip: Name,
        /// Fixtures that are taken in, the later over the earlier.
        def r#use: List<Name> = List::default(),
        /// Parameters: the case is run once for each row, whose values its strings see as `{{ name }}`.
        opt each: Rows,
        /// The only goal that counts.
        opt goal: Name,
        /// The type of the result.
        opt returns: Name,
        /// What must come of the run; without it, that a goal is reached.
        opt expect: Expect,
    }
}

/// One run, and what is expected of it.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseDecl {
    /// What only a case has.
    pub head: CaseHead,
    /// What a fixture could have.
    pub own: Fixture,
}

impl Read for CaseDecl {
    fn expected() -> String {
        CaseHead::expected()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<CaseDecl> {
        let Some(map) = node.as_map() else {
            CaseHead::read(node, cx);
            return None;
        };
        let keys = [CaseHead::KEYS, Fixture::KEYS].concat();
        let map = &*refuse_unknown_keys(map, &keys, "a case", cx);
        let head = CaseHead::read_fields(map, node.span, cx)?;
        Some(CaseDecl { head, own: Fixture::read_fields(map, node.span, cx)? })
    }

    fn schema(defs: &mut Defs) -> Value {
        defs.reference("CaseDecl", |defs| {
            let mut properties = serde_json::Map::new();
            for part in [CaseHead::schema(defs), Fixture::schema(defs)] {
                properties.extend(properties_of(&part, defs));
            }
            object_schema(&["One run, and what is expected of it."], properties, &[], Vec::new())
        })
    }
}

record! {
    /// What must come of a run.
    pub struct Expect = "what is expected" {
        /// How the process ends; `completed` without this or `failure`.
        opt status: StatusWord,
        /// The goal that is reached.
        opt goal: Name,
        /// The actions that ran, in order.
        opt ran: Names,
        /// The first plan.
        opt plan: Names,
        /// The result, or a part of it.
        opt output: OutputExpect,
        /// How it fails, or a part of that: `action`, `kind`, `message` (a part of the text).
        opt failure: FailureExpect,
        /// Exprs that must hold, and questions to a judge.
        def checks: List<Check> = List::default(),
        /// Every rendered prompt is compared with its snapshot; a list names the actions whose prompts are.
        opt prompts: Prompts,
        /// How many calls to models are made.
        opt llm_calls: Amount,
        /// How many calls to tools are made, in all or by tool.
        opt tool_calls: ToolCalls,
        /// Events that come in this order, others between them; each is a part of the event.
        def events: List<Json> = List::default(),
        /// US dollars: at most so many, or bounds.
        opt cost: Amount,
    }
}

words! {
    /// How a process ends.
    pub enum StatusWord = "a status" {
        /// A goal holds.
        Completed = "completed",
        /// An action failed for good and no other way was left.
        Failed = "failed",
        /// A limit was reached.
        Terminated = "terminated",
        /// Someone ended it.
        Killed = "killed",
        /// No plan leads to a goal.
        Stuck = "stuck",
        /// It waits for a person.
        Waiting = "waiting",
        /// Someone paused it.
        Paused = "paused",
    }
}

record! {
    /// The result, or a part of it.
    pub struct OutputExpect = "an expected output" {
        /// The type's name.
        opt r#type: Name,
        /// The value; of objects only the members that are named here count.
        opt value: Json,
    }
}

record! {
    /// How a run fails.
    pub struct FailureExpect = "an expected failure" {
        /// The action that fails.
        opt action: Name,
        /// The kind of failure.
        opt kind: Name,
        /// A text that the message contains.
        opt message: Name,
    }
}

record! {
    /// A number, or bounds.
    pub struct Amount = "a number or bounds" [short: exactly] {
        /// The number.
        opt exactly: f64,
        /// Not less.
        opt at_least: f64,
        /// Not more.
        opt at_most: f64,
    }
}

record! {
    /// A question to a model about the run; asked only where a model for it is configured.
    pub struct Judge = "a judge" {
        /// What the model is asked; it sees what `checks` see.
        req prompt: Template,
        /// The model, as `provider/id`.
        opt llm: Name,
        /// The least score, 0 to 1.
        def at_least: f64 = 0.5,
        /// How often it is asked; the mean of the scores counts.
        def samples: Count = Count::MIN,
    }
}

record! {
    /// A check by a model.
    pub struct JudgeCheck = "a check" {
        /// The question.
        req judge: Judge,
    }
}

/// A case as it stands in its file: one with `each` is read once for each of its rows.
#[derive(Clone, Debug, PartialEq)]
pub enum CaseEntry {
    /// One run.
    One(Box<CaseDecl>),
    /// One run for each row.
    Each {
        /// The rows.
        rows: Rows,
        /// The whole case, its strings being templates.
        node: Node,
    },
}

impl Read for CaseEntry {
    fn expected() -> String {
        CaseDecl::expected()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<CaseEntry> {
        let rows = node.as_map().and_then(|map| map.get("each"));
        match rows.map(|rows| &rows.value) {
            None => CaseDecl::read(node, cx).map(|case| CaseEntry::One(Box::new(case))),
            Some(rows) => Some(CaseEntry::Each { rows: Rows::read(rows, cx)?, node: node.clone() }),
        }
    }

    fn schema(defs: &mut Defs) -> Value {
        CaseDecl::schema(defs)
    }
}

/// One of `checks`.
#[derive(Clone, Debug, PartialEq)]
pub enum Check {
    /// An expr that must hold.
    Expr(Expr),
    /// A question to a model.
    Judge(Judge),
}

impl Read for Check {
    fn expected() -> String {
        "an expr such as `output.text | length < 500`, or `{judge: {prompt: …}}`".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<Check> {
        match node.kind {
            NodeKind::Map(_) => JudgeCheck::read(node, cx).map(|check| Check::Judge(check.judge)),
            _ => Expr::read(node, cx).map(Check::Expr),
        }
    }

    fn schema(defs: &mut Defs) -> Value {
        json!({"anyOf": [Expr::schema(defs), JudgeCheck::schema(defs)]})
    }
}

/// Names in order: always a list when more than one; unlike [`List`], an empty one is something that was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Names {
    /// The names.
    pub names: Vec<Name>,
    /// Where they stand.
    pub span: Span,
}

impl Read for Names {
    fn expected() -> String {
        "a list of names".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<Names> {
        Some(Names { names: List::<Name>::read(node, cx)?.0, span: node.span })
    }

    fn schema(defs: &mut Defs) -> Value {
        List::<Name>::schema(defs)
    }
}

/// `prompts: snapshot`, or the actions whose prompts are.
#[derive(Clone, Debug, PartialEq)]
pub enum Prompts {
    /// All.
    All,
    /// Those of these actions.
    Of(Vec<Name>),
}

impl Read for Prompts {
    fn expected() -> String {
        "`snapshot`, or a list of actions".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<Prompts> {
        match &node.kind {
            NodeKind::Text(text) if text.value == "snapshot" => Some(Prompts::All),
            NodeKind::List(_) => Some(Prompts::Of(List::<Name>::read(node, cx)?.0)),
            _ => {
                cx.wrong_shape(node, &Self::expected());
                None
            }
        }
    }

    fn schema(_: &mut Defs) -> Value {
        json!({"anyOf": [{"enum": ["snapshot"]}, {"type": "array", "items": {"type": "string"}}]})
    }
}

/// `replies:` of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Replies {
    /// Made up from the types.
    Sampled,
    /// By action.
    By(Objects),
}

impl Read for Replies {
    fn expected() -> String {
        "`sampled`, or a mapping from actions to replies".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<Replies> {
        match &node.kind {
            NodeKind::Text(text) if text.value == "sampled" => Some(Replies::Sampled),
            NodeKind::Map(_) => Objects::read(node, cx).map(Replies::By),
            _ => {
                cx.wrong_shape(node, &Self::expected());
                None
            }
        }
    }

    fn schema(_: &mut Defs) -> Value {
        json!({"anyOf": [{"enum": ["sampled"]}, {"type": "object"}]})
    }
}

/// A mapping from names to data.
#[derive(Clone, Debug, PartialEq)]
pub struct Objects(pub Node);

impl Objects {
    /// The entries.
    pub fn map(&self) -> Map {
        self.0.as_map().cloned().unwrap_or_default()
    }
}

impl Read for Objects {
    fn expected() -> String {
        "a mapping from names to data".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<Objects> {
        mapping(node, &Self::expected(), cx)?;
        Some(Objects(node.clone()))
    }

    fn schema(_: &mut Defs) -> Value {
        json!({"type": "object"})
    }
}

/// `tool_calls:` of what is expected.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolCalls {
    /// In all.
    All(Amount),
    /// By tool.
    By(Table<Amount>),
}

impl Read for ToolCalls {
    fn expected() -> String {
        "a number, bounds, or a mapping from tools to those".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<ToolCalls> {
        match &node.kind {
            NodeKind::Map(map) if !map.keys().any(|key| Amount::KEYS.contains(&key)) => {
                Table::read(node, cx).map(ToolCalls::By)
            }
            _ => Amount::read(node, cx).map(ToolCalls::All),
        }
    }

    fn schema(defs: &mut Defs) -> Value {
        let amount = Amount::schema(defs);
        json!({"anyOf": [amount.clone(), {"type": "object", "additionalProperties": amount}]})
    }
}

/// `each:`: rows of parameters, labelled by their number or by a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows(pub Vec<(Name, Node)>);

impl Read for Rows {
    fn expected() -> String {
        "a list of mappings from parameters to values, or such a mapping for each name".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<Rows> {
        let rows: Vec<(Name, Node)> = match &node.kind {
            NodeKind::List(items) => {
                let named = items.iter().enumerate();
                named.map(|(at, row)| (Name::new((at + 1).to_string(), row.span), row.clone())).collect()
            }
            NodeKind::Map(map) => map.iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect(),
            _ => {
                cx.wrong_shape(node, &Self::expected());
                return None;
            }
        };
        let whole = |(_, row): &(Name, Node)| mapping(row, "a mapping from parameters to values", cx).is_some();
        Some(Rows(rows.into_iter().filter(whole).collect()))
    }

    fn schema(_: &mut Defs) -> Value {
        json!({"anyOf": [
            {"type": "array", "items": {"type": "object"}},
            {"type": "object", "additionalProperties": {"type": "object"}},
        ]})
    }
}
