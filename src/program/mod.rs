//! The immutable compiled artefact that processes run on.
//!
//! Everything in it is resolved: types are ids, strings are compiled templates, conditions are facts of a planning
//! domain. It is shared by `Arc` among processes and swapped as a whole.

pub mod diff;
pub mod fact;
pub mod graph;
pub mod guardrail;
mod reach;
mod start;
pub mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::action::Body;
use crate::action::context::{CallSettings, ModelChoice};
use crate::decl::Module;
use crate::llm::{Catalog, ProviderConfig};
use crate::planning;
use crate::prompt::{Data, ExprId, TemplateId, Templates};
use crate::reference::Reference;
use crate::tool::Tool;
use crate::tool::group::Group;
use crate::tool::mcp::ServerConfig;
use crate::tool::offer::Offer;
use crate::value::Output;
use crate::value::Validators;
use crate::value::{TypeId, Types};

pub use diff::Change;
pub use fact::Fact;
pub use guardrail::Guardrail;

/// A compiled project, or the part of it that a command asked for.
#[derive(Debug)]
pub struct Program {
    /// The agents, the one that was asked for first.
    pub agents: Vec<Arc<Agent>>,
    /// Where models answer, by provider name.
    pub providers: IndexMap<String, ProviderConfig>,
    /// Scripts of `kind: scripted` providers, by provider name, as data (cli.md 6).
    pub scripts: IndexMap<String, Value>,
    /// Prices, cutoffs and abilities of models.
    pub catalog: Arc<Catalog>,
    /// MCP servers by name; started when they are first needed.
    pub mcp_servers: IndexMap<String, ServerConfig>,
    /// What tools and actions may touch.
    pub permissions: Permissions,
    /// How sure a choice of agent or goal must be.
    pub autonomy: Autonomy,
    /// In whose words progress is told; `None` in plain ones.
    pub voice: Option<Voice>,
    /// Environment variables without value or default that some setting needs.
    pub missing_env: Vec<MissingEnv>,
    /// The project file as it is written, when there is one.
    pub project: Option<Arc<Module>>,
}

/// In whose words progress is told beside the facts.
#[derive(Clone, Debug, PartialEq)]
pub enum Voice {
    /// One that the program knows.
    Known(crate::decl::module::Personality),
    /// A theme file of the project.
    Theme(Arc<crate::decl::theme::Theme>),
}

/// How sure a model must be of its choice for a run that names no file (cli.md `run`); each from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Autonomy {
    /// Least confidence in an agent.
    pub agent_cut_off: f64,
    /// Least confidence in a goal.
    pub goal_cut_off: f64,
}

impl Default for Autonomy {
    fn default() -> Autonomy {
        Autonomy { agent_cut_off: 0.6, goal_cut_off: 0.6 }
    }
}

/// An environment variable that a setting of the project needs and that is not set. It is an error only when the
/// setting is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingEnv {
    /// The section of the project file, such as `providers`; `agent` for a body of an agent.
    pub section: String,
    /// The name within the section, such as `openai`; the agent's name.
    pub name: String,
    /// The variable.
    pub variable: String,
    /// Where it is named: `file:line:column`.
    pub place: String,
}

impl Program {
    /// Whether two programs mean the same: places, comments and white space do not count.
    pub fn same_as(&self, other: &Program) -> bool {
        let secrets = |program: &Program| -> Vec<(String, String)> { format_providers(program) };
        let lacks = |program: &Program| -> Vec<[String; 3]> {
            let lacks = program.missing_env.iter();
            lacks.map(|env| [env.section.clone(), env.name.clone(), env.variable.clone()]).collect()
        };
        self.agents.len() == other.agents.len()
            && self.agents.iter().zip(&other.agents).all(|(a, b)| Arc::ptr_eq(a, b) || a.same_as(b))
            && self.permissions == other.permissions
            && self.mcp_servers == other.mcp_servers
            && self.scripts == other.scripts
            && self.catalog == other.catalog
            && self.autonomy == other.autonomy
            && lacks(self) == lacks(other)
            && self.voice == other.voice
            && self.project == other.project
            && secrets(self) == secrets(other)
    }

    /// Whether there is something to reach a provider with; what its settings name in the environment is set.
    pub fn can_ask(&self, provider: &str) -> bool {
        let unset = |missing: &MissingEnv| missing.section == "providers" && missing.name == provider;
        let config = self.providers.get(provider);
        config.is_some_and(crate::llm::ProviderConfig::is_usable) && !self.missing_env.iter().any(unset)
    }

    /// Whether the provider of this name is the same in both: settings, script and prices.
    pub fn has_same_provider(&self, other: &Program, name: &str) -> bool {
        let text = |program: &Program| format_providers(program).into_iter().find(|(of, _)| of == name);
        text(self) == text(other) && self.scripts.get(name) == other.scripts.get(name) && self.catalog == other.catalog
    }

    /// The agent of this name.
    pub fn agent(&self, name: &str) -> Option<&Arc<Agent>> {
        self.agents.iter().find(|agent| agent.name == name)
    }
}

/// Providers as text that differs where they differ; used for comparing only, it holds keys.
fn format_providers(program: &Program) -> Vec<(String, String)> {
    provider_texts(&program.providers)
}

/// Providers as texts that differ when their settings do; secrets are in them.
pub(crate) fn provider_texts(providers: &IndexMap<String, ProviderConfig>) -> Vec<(String, String)> {
    let text = |config: &ProviderConfig| {
        let key = config.api_key.as_ref().map(|key| key.expose().to_owned());
        let headers = config.headers.iter().map(|(name, value)| (name, value.expose()));
        let headers: Vec<_> = headers.collect();
        let signing = [&config.access_key_id, &config.secret_access_key, &config.session_token]
            .map(|secret| secret.as_ref().map(|secret| secret.expose()));
        let places = (&config.base_url, &config.api, &config.api_version, &config.organization, &config.region);
        format!("{} {places:?} {key:?} {signing:?} {headers:?} {:?} {:?}", config.kind, config.timeout, config.rate)
    };
    providers.iter().map(|(name, config)| (name.clone(), text(config))).collect()
}

/// What tools and actions may touch; deny comes first (runtime.md 8).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Permissions {
    /// False until `permissions` is written: then the defaults of runtime.md 8 hold.
    pub declared: bool,
    /// Allowed without asking.
    pub allow: Vec<String>,
    /// Asked for at a terminal.
    pub ask: Vec<String>,
    /// Never allowed.
    pub deny: Vec<String>,
}

/// One compiled agent. A copy shares what was compiled with it.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// The file that declares it, relative to the project root.
    pub file: String,
    /// The types it sees.
    pub types: Arc<Types>,
    /// Validators of its types.
    pub validators: Arc<Validators>,
    /// Its templates and exprs, compiled.
    pub templates: Arc<Templates>,
    /// The exprs of the types' `rules`, by their text.
    pub rules: IndexMap<String, ExprId>,
    /// `config`, as exprs and templates see it.
    pub config: Map<String, Value>,
    /// What a run starts from: as declared, or every type that some action requires and none outputs, each optional.
    pub inputs: Vec<Input>,
    /// True when `inputs` is written.
    pub inputs_declared: bool,
    /// Its actions in declaration order.
    pub actions: Vec<Action>,
    /// Its goals in declaration order: declared ones, then those of `achieves`, as the domain lists them.
    pub goals: Vec<Goal>,
    /// Its named conditions.
    pub conditions: Vec<Condition>,
    /// The models that its calls try, each list in order: the chosen one and its fallbacks; [`CallSettings::models`] is a
    /// position in it. The first list is for calls that do not say otherwise.
    pub models: Vec<Vec<ModelChoice>>,
    /// The model that makes vectors of texts, `provider/id`; nothing but what searches by meaning asks it.
    pub embedding: Option<String>,
    /// What makes it a chat.
    pub chat: Option<Chat>,
    /// Its tools by name.
    pub tools: IndexMap<String, Arc<Tool>>,
    /// Its tool groups by name.
    pub tool_groups: IndexMap<String, Group>,
    /// Tools of the objects of a type.
    pub object_tools: BTreeMap<TypeId, Vec<Arc<Tool>>>,
    /// What its prompts offer; [`CallSettings::tools`] is a position in it.
    pub offers: Vec<Offer>,
    /// Its guardrails; [`CallSettings::guardrails`] are positions in it.
    pub guardrails: Arc<[Guardrail]>,
    /// The references that its prompts name; [`CallSettings::references`] are positions in it. `None` where one could
    /// not be made, which was reported.
    pub references: Vec<Option<Arc<Reference>>>,
    /// Which planner runs it.
    pub planner: PlannerKind,
    /// How a supervisor is asked, and for how many turns at most.
    pub supervisor: Arc<CallSettings>,
    /// What a process may use up.
    pub limits: Limits,
    /// Independent steps that run at one time.
    pub concurrency: u32,
    /// Types whose objects stay when the blackboard is cleared.
    pub keep: Vec<TypeId>,
    /// What each fact of the domain means; indexed by `planning::FactId`.
    pub facts: Vec<Fact>,
    /// The planning domain: operators, goals, facts by name.
    pub domain: Arc<planning::Compiled>,
    /// For each operator of the domain, the action it stands for (an action with counted outputs has several).
    pub operators: Vec<usize>,
    /// What was read and checked but cannot be run by this version: text with `file:line:column`.
    pub unsupported: Vec<String>,
    /// What it was compiled from.
    pub written: Written,
}

/// What an agent was compiled from. Two are equal when nothing but places, comments and white space differs.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// The modules that it sees: its own, what it imports, and of the project file what it is made of.
    pub modules: Vec<Arc<Module>>,
    /// The template files that it draws in, by name.
    pub templates: BTreeMap<String, Arc<str>>,
    /// The JSON Schemas of its types, by the type's name.
    pub schemas: BTreeMap<String, Value>,
    /// The references that it names, by name.
    pub references: BTreeMap<String, WrittenReference>,
}

impl PartialEq for Written {
    fn eq(&self, other: &Written) -> bool {
        // Most modules are the very ones: after a reload all agents are compared.
        let is_same = |(one, other): (&Arc<Module>, &Arc<Module>)| Arc::ptr_eq(one, other) || one == other;
        self.modules.len() == other.modules.len()
            && self.modules.iter().zip(&other.modules).all(is_same)
            && self.templates == other.templates
            && self.schemas == other.schemas
            && self.references == other.references
    }
}

/// What a reference was compiled from.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenReference {
    /// Its declaration.
    pub decl: crate::decl::module::Reference,
    /// The text of its file, where it is one.
    pub text: Option<Arc<str>>,
}

impl Agent {
    /// Whether two agents mean the same: places, comments and white space do not count.
    pub fn same_as(&self, other: &Agent) -> bool {
        self.name == other.name && self.file == other.file && self.written == other.written
    }

    /// The models that calls with these settings try, in order.
    pub fn models_of(&self, settings: &CallSettings) -> &[ModelChoice] {
        self.models.get(settings.models).map_or(&[], Vec::as_slice)
    }

    /// The models that its calls may ask, fallbacks too: of prompts, also inside other bodies, in tools, conditions and
    /// guardrails, and of a supervisor.
    pub fn asked_models(&self) -> Vec<&ModelChoice> {
        let of_kind = |action: &&Action| matches!(action.body.kind(), "prompt" | "repeat_until" | "scatter_gather");
        let mut asking: BTreeSet<usize> = self.actions.iter().filter(of_kind).map(|of| of.settings.models).collect();
        asking.extend(self.conditions.iter().filter_map(|condition| match &condition.kind {
            ConditionKind::Prompt(_, _, settings, _) => Some(settings.models),
            _ => None,
        }));
        asking.extend((self.planner == PlannerKind::Supervisor).then_some(self.supervisor.models));
        // A list that is of no action was made for something inside one, a tool or a guardrail; the first is the default.
        let of_actions: BTreeSet<usize> = self.actions.iter().map(|action| action.settings.models).collect();
        let is_asked = |at: &usize| asking.contains(at) || (*at > 0 && !of_actions.contains(at));
        let lists = self.models.iter().enumerate().filter(|(at, _)| is_asked(at));
        lists.flat_map(|(_, list)| list).collect()
    }

    /// What its processes do when the program changes, where the author says so.
    pub fn reload(&self) -> Option<Reload> {
        self.written.modules.first().and_then(|own| own.reload)
    }
}

/// Kinds of planner (language.md 6).
pub use crate::decl::workflow::{PlannerKind, Reload};

/// One thing an action takes, or a run starts from.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// The variable's name.
    pub name: String,
    /// Its type.
    pub type_id: TypeId,
    /// All of them, oldest first.
    pub list: bool,
    /// Absent is fine.
    pub optional: bool,
    /// Also bound (and looked up) under its name.
    pub named: bool,
}

/// One compiled action.
#[derive(Clone, Debug)]
pub struct Action {
    /// Its full name; a state's action is `State.action`.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// What it takes.
    pub inputs: Vec<Input>,
    /// What it puts on the blackboard.
    pub output: Output,
    /// What it costs: evaluated once per planning round when it is an expr.
    pub cost: Number,
    /// What it is worth.
    pub value: Number,
    /// It may run again in the same process.
    pub can_rerun: bool,
    /// It runs once for each new object of this type, while that is the newest.
    pub trigger: Option<TypeId>,
    /// Afterwards only its output, `keep` types and the conversation remain.
    pub clear_blackboard: bool,
    /// Indexes of its inputs that are hidden afterwards.
    pub hide: Vec<usize>,
    /// Conditions it sets: index into `Agent::conditions`, value.
    pub post: Vec<(usize, bool)>,
    /// How it is tried again.
    pub retry: Retry,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// Pause before it runs.
    pub delay: Option<Duration>,
    /// What happens when it has failed for good.
    pub on_error: OnError,
    /// Settings of its prompts.
    pub settings: Arc<CallSettings>,
    /// The state whose action it is: it runs only while the process is in it.
    pub state: Option<TypeId>,
    /// It is tried, once, when there is no plan, and never planned with.
    pub on_stuck: bool,
    /// What it does.
    pub body: Arc<dyn Body>,
}

/// A number that is given, or computed on the blackboard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Given.
    Fixed(f64),
    /// Computed once per planning round.
    Expr(ExprId),
}

/// How often and how soon a failed action is tried again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// Tries in all.
    pub attempts: u32,
    /// Pause before the second try.
    pub backoff: Duration,
    /// By what each further pause grows.
    pub multiplier: f64,
    /// Longest pause.
    pub max: Duration,
}

impl Default for Retry {
    fn default() -> Retry {
        let (backoff, max) = (Duration::from_secs(1), Duration::from_secs(60));
        Retry { attempts: 1, backoff, multiplier: 2.0, max }
    }
}

/// What happens when an action has failed for good.
#[derive(Clone, Debug, PartialEq)]
pub enum OnError {
    /// The action is out and another way to the goal is sought.
    Replan,
    /// The process fails.
    Fail,
    /// This is the output instead; checked when compiled.
    Output(Data),
}

/// A long-lived process that talks with a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Chat {
    /// What it says first.
    pub greeting: Option<TemplateId>,
    /// Messages that the conversation keeps; older ones are dropped.
    pub max_messages: Option<u32>,
    /// The chat ends when this holds.
    pub end: Option<ExprId>,
    /// The goal that a message is answered: it ends the work on a message, not the chat.
    pub reply: Option<usize>,
}

/// One compiled goal.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// Its name.
    pub name: String,
    /// What reaching it means.
    pub description: Option<String>,
    /// What the run's output is.
    pub output: Output,
    /// The action that achieves it, when it comes from `achieves`.
    pub action: Option<usize>,
    /// What it is worth.
    pub value: Number,
    /// Published to other programs.
    pub export: bool,
}

/// One compiled condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Its name.
    pub name: String,
    /// What decides it.
    pub kind: ConditionKind,
    /// Types it mentions, directly or through other conditions.
    pub mentions: Vec<TypeId>,
    /// Other conditions that it names, directly or through others: indexes into `Agent::conditions`.
    pub names: Vec<usize>,
}

/// What decides a condition.
#[derive(Clone, Debug, PartialEq)]
pub enum ConditionKind {
    /// An expr; its inputs are bound by name first, when it declares any.
    Expr(Vec<Input>, ExprId),
    /// Only `post` changes it; this is its first value.
    Flag(bool),
    /// What is not there in this environment, such as the tools of a group: it never holds, for this reason.
    Never(String),
    /// A question to a model.
    Prompt(Vec<Input>, TemplateId, Arc<CallSettings>, f64),
}

/// What a process may use up (runtime.md 3); the defaults are there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Actions, replans counted.
    pub actions: u64,
    /// US dollars.
    pub cost: f64,
    /// Tokens, input and output together.
    pub tokens: u64,
    /// LLM calls.
    pub llm_calls: Option<u64>,
    /// Time since the process was created.
    pub time: Option<Duration>,
    /// Nesting of sub-processes.
    pub depth: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { actions: 50, cost: 2.0, tokens: 1_000_000, llm_calls: None, time: None, depth: 8 }
    }
}
