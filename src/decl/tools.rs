//! Tools, tool groups and MCP servers as written (language.md 8 and 9).

use serde_json::{Value, json};

use crate::source::{Node, NodeKind, Spanned};
use crate::{record, words};

use super::basic::{Count, Duration, Expr, Json, List, Name, Place, Table, Template, mapping};
use super::body::{BodyNode, TOOL_BODIES, read_body};
use super::read::{Defs, Read, ReadCx, properties_of, refuse_unknown_keys};
use super::types::{FieldExpr, TypeExpr, read_fields};

/// The parameters of a tool: fields as of an object type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters(pub Vec<FieldExpr>);

impl Read for Parameters {
    fn expected() -> String {
        "a mapping from parameter names to types".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<Parameters> {
        read_fields(node, cx).map(Parameters)
    }

    fn schema(defs: &mut Defs) -> Value {
        json!({"type": "object", "additionalProperties": TypeExpr::schema(defs)})
    }
}

words! {
    /// How a long result can be queried.
    pub enum Returns = "a kind of result" {
        /// Lines of text.
        Text = "text",
        /// A JSON document.
        Json = "json",
        /// Headings and sections.
        Markdown = "markdown",
    }
}

words! {
    /// Which of two tools of one name is offered.
    pub enum OnCollision = "an `on_collision`" {
        /// The other one.
        Keep = "keep",
        /// This one.
        Replace = "replace",
        /// Neither: it is an error.
        Throw = "throw",
    }
}

record! {
    /// When a person must agree to a call, and what they are asked.
    pub struct ConfirmRecord = "a confirmation" {
        /// Asked only when this holds.
        opt when: Expr,
        /// The question.
        opt ask: Template,
    }
}

/// `confirm:`: a template, or `{when, ask}`.
#[derive(Clone, Debug, PartialEq)]
pub enum Confirm {
    /// Always asked, with this question.
    Ask(Template),
    /// Asked as said.
    Record(ConfirmRecord),
}

impl Read for Confirm {
    fn expected() -> String {
        "a question, or `{when, ask}`".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<Confirm> {
        match node.kind {
            NodeKind::Map(_) => ConfirmRecord::read(node, cx).map(Confirm::Record),
            _ => Template::read(node, cx).map(Confirm::Ask),
        }
    }

    fn schema(defs: &mut Defs) -> Value {
        json!({"anyOf": [{"type": "string"}, ConfirmRecord::schema(defs)]})
    }
}

record! {
    /// What a tool declares beside its body.
    pub struct ToolHead = "a tool" {
        /// What it does, for the model.
        opt description: Template,
        /// Its parameters.
        def parameters: Parameters = Parameters::default(),
        /// How a long result can be queried.
        opt returns: Returns,
        /// Its output is the author's or operator's word, not third-party data.
        def trusted: bool = false,
        /// A person must agree first.
        opt confirm: Confirm,
        /// Offered only while such objects are on the blackboard.
        def requires: List<Name> = List::default(),
        /// The result is validated as this type and goes on the blackboard too.
        opt publish: Name,
        /// The loop ends and the process plans again when this holds; `result` is the result.
        opt replan: Expr,
        /// The result ends the model's turn.
        def return_direct: bool = false,
        /// Callable once in an interaction.
        def once: bool = false,
        /// Safe to repeat after a crash.
        def idempotent: bool = true,
        /// How long a call may take.
        def timeout: Duration = Duration::millis(60_000),
        /// Free data, not sent.
        opt meta: Json,
        /// Results over so many bytes are kept as artifacts.
        def spool_over: u64 = 8 * 1024,
        /// Which of two tools of one name is offered.
        opt on_collision: OnCollision,
    }
}

/// A tool: its head and exactly one body.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Where it was written.
    pub place: Place,
    /// What it declares beside its body.
    pub head: ToolHead,
    /// Its body; `None` after a finding.
    pub body: Option<BodyNode>,
}

impl Read for Tool {
    fn expected() -> String {
        "a tool: a mapping with exactly one body".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<Tool> {
        let owner = Spanned { value: "the tool".to_owned(), span: node.span };
        Self::read_named(&owner, node, cx)
    }

    fn read_named(name: &Name, node: &Node, cx: &mut ReadCx) -> Option<Tool> {
        let map = mapping(node, &Self::expected(), cx)?;
        let map = &*refuse_unknown_keys(map, &[ToolHead::KEYS, TOOL_BODIES].concat(), "a tool", cx);
        let head = ToolHead::read_fields(map, node.span, cx)?;
        let owner = Spanned { value: format!("the tool `{}`", name.value), span: name.span };
        let body = read_body(map, TOOL_BODIES, &owner, cx);
        Some(Tool { place: Place(node.span), head, body })
    }

    fn schema(defs: &mut Defs) -> Value {
        defs.reference("Tool", |defs| {
            let head = ToolHead::schema(defs);
            let mut properties = properties_of(&head, defs);
            for kind in TOOL_BODIES {
                properties.insert((*kind).to_owned(), json!({"$ref": format!("#/definitions/tool.{kind}")}));
            }
            let bodies: Vec<Value> = TOOL_BODIES.iter().map(|kind| json!({"required": [kind]})).collect();
            json!({"type": "object", "properties": properties, "additionalProperties": false, "oneOf": bodies})
        })
    }
}

record! {
    /// A tool derived from another one.
    pub struct DerivedTool = "a derived tool" {
        /// The tool it is derived from.
        req tool: Name,
        /// Its own name.
        opt name: Name,
        /// Its own description.
        opt description: Template,
        /// What is added to the description.
        opt note: Template,
    }
}

/// An element of a list of `tools`.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolUse {
    /// A tool, a group, `group.tool`, a type, an input's name, an agent or a built-in.
    Name(Name),
    /// `{tool, name, description, note}`.
    Derived(DerivedTool),
    /// A tool declared in place (`{name, description, unfold: …}`), as in an unfolding hierarchy.
    Inline(Name, Box<Tool>),
}

impl Read for ToolUse {
    fn expected() -> String {
        "a tool's name, `group.tool`, `builtin:name` or `{tool: name, …}`".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<ToolUse> {
        let NodeKind::Map(map) = &node.kind else {
            return Name::read(node, cx).map(ToolUse::Name);
        };
        if map.get("tool").is_some() {
            return DerivedTool::read(node, cx).map(ToolUse::Derived);
        }
        let Some(name) = super::read::field::<Name>(map, "name", cx) else {
            super::read::missing_key(node.span, "tool", "a derived tool", cx);
            return None;
        };
        let mut without_name = map.clone();
        without_name.entries.retain(|entry| entry.key.value != "name");
        let rest = Node::new(NodeKind::Map(without_name), node.span);
        Tool::read_named(&name, &rest, cx).map(|tool| ToolUse::Inline(name, Box::new(tool)))
    }

    fn schema(defs: &mut Defs) -> Value {
        json!({"anyOf": [{"type": "string"}, DerivedTool::schema(defs),
            {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
             "not": {"required": ["tool"]}}]})
    }
}

record! {
    /// One source of a group's tools.
    pub struct GroupSource = "a source of tools" {
        /// An MCP server of the project file.
        opt mcp: Name,
        /// Tools of this project.
        opt tools: List<ToolUse>,
        /// Names or patterns of the tools taken.
        def include: List<Name> = List::default(),
        /// Names or patterns of the tools left out.
        def exclude: List<Name> = List::default(),
        /// Put before each tool's name.
        opt prefix: Name,
    }
}

record! {
    /// A role for tools, resolved per environment.
    pub struct ToolGroup = "a tool group" [short: from] {
        /// What its tools are for.
        opt description: Template,
        /// Who provides them.
        opt provider: Name,
        /// An upper bound on what its tools may do.
        opt permissions: List<Name>,
        /// Where its tools come from.
        req from: List<GroupSource>,
    }
}

record! {
    /// An MCP server: a program that is started, or a URL.
    pub struct McpServer = "an MCP server" {
        /// The program and its arguments.
        opt command: List<Name>,
        /// Environment of the program.
        def env: Table<Name> = Table::default(),
        /// Working directory of the program.
        opt cwd: Name,
        /// Where the server answers.
        opt url: Name,
        /// Headers sent to it.
        def headers: Table<Name> = Table::default(),
        /// How long a call may take.
        opt timeout: Duration,
        /// Further starts after failures.
        opt restarts: Count,
    }
}

record! {
    /// One line of a playbook: a tool and what unlocks it.
    pub struct PlaybookEntry = "a playbook entry" {
        /// The tool.
        req tool: Name,
        /// Tools that must have been called before.
        def after: List<Name> = List::default(),
        /// It is unlocked while this holds.
        opt when: Expr,
        /// It is unlocked once an object of this type is there.
        opt needs: Name,
    }
}

record! {
    /// A tool that a state offers, and where calling it leads.
    pub struct Transition = "a transition" [short: tool] {
        /// The tool.
        req tool: Name,
        /// The state after a call; without it the state stays.
        opt to: Name,
    }
}

record! {
    /// States of an inner loop, each with the tools that it offers.
    pub struct StateMachine = "a state machine" {
        /// The first state.
        req start: Name,
        /// The tools of each state.
        req states: Table<List<Transition>>,
        /// Tools that every state offers.
        def everywhere: List<Transition> = List::default(),
    }
}
