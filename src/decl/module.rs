//! A module: a file of the language, with every section of language.md 1.

use serde_json::{Value, json};

use crate::source::{Node, NodeKind};
use crate::{record, words};

use super::basic::{Count, Expr, Json, List, Name, Table, Template};
use super::models::{Models, Provider};
use super::read::{Defs, Read, ReadCx};
use super::tools::{McpServer, Tool, ToolGroup};
use super::types::TypeDecl;
use super::workflow::{Action, Chat, Condition, Goal, Inputs, Limits, Planner, Reload, Settings, States};

record! {
    /// Who the model is: `role goal backstory`, or `name persona voice objective`.
    pub struct Persona = "a persona" {
        /// `Role: …`.
        opt role: Template,
        /// `Goal: …`.
        opt goal: Template,
        /// `Backstory: …`.
        opt backstory: Template,
        /// `You are ….`
        opt name: Template,
        /// `Your persona: ….`
        opt persona: Template,
        /// `Your voice: ….`
        opt voice: Template,
        /// `Your objective is ….`
        opt objective: Template,
    }
}

words! {
    /// How a reference reaches the model.
    pub enum ReferenceMode = "a reference mode" {
        /// As text in the prompt.
        Prompt = "prompt",
        /// As tools.
        Tools = "tools",
        /// By size.
        Auto = "auto",
    }
}

record! {
    /// Material that is offered to a model; one of its sources is given.
    pub struct Reference = "a reference" {
        /// What it is, for the model.
        opt description: Template,
        /// How it is used, for the model.
        opt usage_notes: Template,
        /// As text, as tools, or by size.
        opt mode: ReferenceMode,
        /// The text itself.
        opt text: Template,
        /// A file.
        opt file: Name,
        /// A web page.
        opt web_page: Name,
        /// A git repository.
        opt git: Name,
        /// The branch, tag or commit of `git`.
        opt r#ref: Name,
        /// Files taken, as patterns.
        opt include: List<Name>,
        /// Files left out, as patterns.
        opt exclude: List<Name>,
        /// A directory.
        opt directory: Name,
        /// One facade reveals its tools.
        opt unfold: bool,
        /// An OpenAPI document.
        opt openapi: Name,
        /// Where the operations of `openapi` are, instead of the servers that it names.
        opt base_url: Name,
        /// Headers of what is sent for `openapi` and `web_page`; `${env:NAME}` is allowed here.
        def headers: Table<Template> = Table::default(),
        /// A directory of skills.
        opt skills: Name,
        /// Documents to search.
        opt rag: Json,
    }
}

words! {
    /// What a guardrail looks at.
    pub enum GuardrailCheck = "a guardrail check" {
        /// What a person typed.
        UserInput = "user_input",
        /// The rendered messages.
        Prompt = "prompt",
        /// The model's reply.
        Reply = "reply",
        /// What a tool is called with.
        ToolArguments = "tool_arguments",
        /// What a tool gave.
        ToolResult = "tool_result",
    }
}

words! {
    /// What a guardrail does.
    pub enum GuardrailAction = "a guardrail action" {
        /// The action fails.
        Block = "block",
        /// The match becomes `[redacted]`.
        Redact = "redact",
        /// A warning.
        Warn = "warn",
        /// A person is asked.
        Ask = "ask",
    }
}

words! {
    /// For which calls a guardrail holds.
    pub enum GuardrailScope = "a guardrail scope" {
        /// Every LLM call.
        All = "all",
        /// Actions that name it.
        Named = "named",
    }
}

record! {
    /// A rule over what goes to and comes from models.
    pub struct Guardrail = "a guardrail" {
        /// What it looks at.
        def check: List<GuardrailCheck> = List::default(),
        /// A regular expression that must not match.
        opt pattern: Name,
        /// An expr that must hold.
        opt expr: Expr,
        /// A question to a model.
        opt prompt: Template,
        /// A JSON Schema that must hold.
        opt schema: Json,
        /// What happens.
        opt action: GuardrailAction,
        /// Text added to the system message.
        opt instruct: Template,
        /// For which calls it holds.
        opt scope: GuardrailScope,
    }
}

record! {
    /// Names and places of the project.
    pub struct Project = "the project" {
        /// The project's name.
        opt name: Name,
        /// Where agents are (`workflows`).
        opt workflows: Name,
        /// Where templates are (`prompts`).
        opt prompts: Name,
        /// Where reference sets are (`references`).
        opt references: Name,
        /// Where JSON Schemas are (`schemas`).
        opt schemas: Name,
        /// Where test files and snapshots are (`tests`).
        opt tests: Name,
    }
}

record! {
    /// What tools and actions may touch; deny comes first.
    pub struct Permissions = "permissions" {
        /// Allowed without asking.
        def allow: List<Name> = List::default(),
        /// Asked for at a terminal.
        def ask: List<Name> = List::default(),
        /// Never allowed.
        def deny: List<Name> = List::default(),
    }
}

record! {
    /// Where processes are kept.
    pub struct Store = "a store" {
        /// A PostgreSQL URL; without it SQLite under `.agent-run/`.
        opt postgres: Name,
        /// Another place for the SQLite file.
        opt sqlite: Name,
        /// How many ended processes are kept.
        opt keep: Count,
    }
}

record! {
    /// The server's addresses and keys.
    pub struct Server = "a server" {
        /// Address to listen on.
        opt listen: Name,
        /// Key that clients must send.
        opt api_key: Name,
        /// Origins that browsers may call from.
        opt origins: List<Name>,
    }
}

words! {
    /// Whose words the log speaks.
    pub enum Personality = "a personality" {
        /// Plain words.
        None = "none",
        /// A galaxy far away.
        Starwars = "starwars",
        /// The severed floor.
        Severance = "severance",
        /// The Forbin project.
        Colossus = "colossus",
        /// Don't panic.
        Hitchhiker = "hitchhiker",
        /// Something completely different.
        Montypython = "montypython",
    }
}

impl Personality {
    /// All of them.
    pub const ALL: &'static [Personality] = &[
        Personality::None,
        Personality::Starwars,
        Personality::Severance,
        Personality::Colossus,
        Personality::Hitchhiker,
        Personality::Montypython,
    ];
}

record! {
    /// How progress is told.
    pub struct Logging = "logging" {
        /// Whose words it speaks: one of the known ones, or the path of a theme file.
        opt personality: Name,
    }
}

record! {
    /// How sure a choice of agent or goal must be.
    pub struct Autonomy = "autonomy" {
        /// Least confidence in an agent, from 0 to 1.
        opt agent_cut_off: f64,
        /// Least confidence in a goal, from 0 to 1.
        opt goal_cut_off: f64,
    }
}

/// `import:`: paths relative to the importing file, or the word `platform`.
pub type Imports = List<Name>;

record! {
    /// Every section that a file of the language may have.
    pub struct Module = "a module" {
        /// The agent's name; makes the file a workflow file.
        opt agent: Name,
        /// What the agent does.
        opt description: Template,
        /// The agent's version; quote it.
        opt version: Version,
        /// Files whose declarations are visible here, or `platform`.
        def import: Imports = List::default(),
        /// What a run starts from.
        opt inputs: Inputs,
        /// Values that templates and exprs see as `config`.
        def config: Table<Json> = Table::default(),
        /// The domain's types.
        def types: Table<TypeDecl> = Table::default(),
        /// Named conditions.
        def conditions: Table<Condition> = Table::default(),
        /// The actions.
        def actions: Table<Action> = Table::default(),
        /// The goals.
        def goals: Table<Goal> = Table::default(),
        /// States: types whose objects own actions.
        def states: States = Table::default(),
        /// Which planner runs the agent.
        opt planner: Planner,
        /// Settings of every action that does not say otherwise.
        opt defaults: Settings,
        /// What a process may use up.
        opt limits: Limits,
        /// Independent steps of a plan that run at one time.
        opt concurrency: Count,
        /// Types whose objects stay when the blackboard is cleared.
        def keep: List<Name> = List::default(),
        /// Actions tried, each once, when no plan exists.
        def on_stuck: Table<Action> = Table::default(),
        /// Makes the agent a chat.
        opt chat: Chat,
        /// What a running process does when files change.
        opt reload: Reload,
        /// Who the model is, by name.
        def personas: Table<Persona> = Table::default(),
        /// Tools by name.
        def tools: Table<Tool> = Table::default(),
        /// Roles for tools.
        def tool_groups: Table<ToolGroup> = Table::default(),
        /// Material offered to models.
        def references: Table<Reference> = Table::default(),
        /// Rules over what goes to and comes from models.
        def guardrails: Table<Guardrail> = Table::default(),
        /// Which models are used.
        opt models: Models,
        /// Names and places of the project.
        opt project: Project,
        /// Where models answer.
        def providers: Table<Provider> = Table::default(),
        /// MCP servers.
        def mcp_servers: Table<McpServer> = Table::default(),
        /// What tools and actions may touch.
        opt permissions: Permissions,
        /// Where processes are kept.
        opt store: Store,
        /// The server's addresses and keys.
        opt server: Server,
        /// How progress is told.
        opt logging: Logging,
        /// How sure a choice must be.
        opt autonomy: Autonomy,
    }
}

/// Sections of any module.
pub const SHARED_SECTIONS: &[&str] = &[
    "import",
    "types",
    "config",
    "conditions",
    "personas",
    "tools",
    "tool_groups",
    "references",
    "guardrails",
    "models",
];
/// Sections of a workflow file beside the shared ones.
pub const WORKFLOW_SECTIONS: &[&str] = &[
    "agent",
    "description",
    "version",
    "inputs",
    "planner",
    "defaults",
    "limits",
    "concurrency",
    "keep",
    "actions",
    "goals",
    "states",
    "on_stuck",
    "chat",
    "reload",
];
/// Sections of the project file beside the shared ones.
pub const PROJECT_SECTIONS: &[&str] = &[
    "project",
    "providers",
    "mcp_servers",
    "permissions",
    "store",
    "server",
    "logging",
    "autonomy",
    "limits",
    "defaults",
];
/// Sections that a module without `agent:` may have beside the shared ones: platform actions.
pub const PLATFORM_SECTIONS: &[&str] = &["actions", "goals", "conditions"];

/// An agent's version: a string, because `1.10` as a number is `1.1`.
#[derive(Clone, Debug, PartialEq)]
pub struct Version(pub Name);

impl Read for Version {
    fn expected() -> String {
        "a version in quotes such as `\"1.10\"`".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<Version> {
        if matches!(node.kind, NodeKind::Int(_) | NodeKind::Float(_)) {
            cx.report(
                crate::diag::Diagnostic::error(
                    "yaml-trap",
                    node.span,
                    "an unquoted version is read as a number, and `1.10` becomes `1.1`",
                )
                .help("put the version in quotes"),
            );
            return None;
        }
        Name::read(node, cx).map(Version)
    }

    fn schema(_: &mut Defs) -> Value {
        json!({"type": "string"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Sources, read};

    fn module(text: &str) -> (Option<Module>, Vec<String>) {
        let mut sources = Sources::new();
        let id = sources.add("workflows/x.yaml", text);
        let (node, errors) = read(id, sources.get(id));
        assert!(errors.is_empty(), "{errors:?}");
        let mut cx = ReadCx::default();
        let module = Module::read(&node.expect("a tree"), &mut cx);
        let line = |d: &crate::diag::Diagnostic| {
            let at = d.span.map(|span| sources.slice(span).lines().next().unwrap_or("").to_owned());
            format!("{} at {:?}: {} {:?}", d.code, at.unwrap_or_default(), d.message, d.help)
        };
        (module, cx.diagnostics.iter().map(line).collect())
    }

    #[test]
    fn a_workflow_is_read_whole() {
        let (module, findings) = module(
            "agent: a\ntypes:\n  P: {name: string, age?: integer, tags: list<string>}\n  S: {scalar: string, maxLength: 5}\n\
             actions:\n  go:\n    inputs: [P, {xs: list<S>}]\n    output: S?\n    retry: {attempts: 3}\n    prompt: hi\n\
             goals: {done: S}\nplanner: utility\n",
        );
        assert_eq!(findings, Vec::<String>::new());
        let module = module.expect("read");
        assert_eq!(module.types.names().collect::<Vec<_>>(), ["P", "S"]);
        let action = module.actions.get("go").expect("the action");
        assert_eq!(action.head.inputs.0.len(), 2);
        assert!(action.head.inputs.0[1].of.list && action.head.output.as_ref().is_some_and(|o| o.types[0].optional));
        assert_eq!(action.body.as_ref().map(|body| body.kind.value.as_str()), Some("prompt"));
    }

    #[test]
    fn every_mistake_is_found_in_one_pass() {
        let (_, findings) = module(
            "agent: a\nactionz: {}\nactions:\n  one:\n    inputs: P[]\n    promt: x\n  two: {output: A}\n  three: {set: 1, prompt: x}\n  \
             four: {prompt: x, timeout: 30, on_error: explode}\n  five: {inputs: {a?: P}, set: 1}\n",
        );
        let codes: Vec<&str> = findings.iter().filter_map(|f| f.split(' ').next()).collect();
        assert_eq!(
            codes,
            [
                "unknown-key",
                "unknown-key",
                "list-brackets",
                "missing-body",
                "two-bodies",
                "unknown-word",
                "bad-duration",
                "misplaced-question-mark"
            ],
            "{findings:#?}"
        );
        assert!(findings[0].contains("did you mean `actions`?") && findings[3].contains("at \"two\""), "{findings:#?}");
    }
}
