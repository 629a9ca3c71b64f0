//! The host of processes: one program with its models, permissions and world.
//!
//! An [`Engine`] is cheap to clone and serves any number of processes at once; what they share (providers, tables of
//! agents) is built once, when first needed.

mod grant;
mod host;
mod inputs;
mod keep;
mod plan;
mod rank;
mod references;
mod reload;
mod render;
mod responses;
mod tools;
mod servers;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use indexmap::{IndexMap, IndexSet};
use serde_json::{Map, Value};

use crate::action::Failure;
pub use crate::action::context::{Question, QuestionKind};
use crate::decl::workflow::PlannerKind;
use crate::llm::{Llm, Options as LlmSettings, Script, Scripted};
use crate::process::journal::Spent;
use crate::process::{AgentIndex, Core, Host, Kill, Observer, Process, RunSettings, Stubs, WrapLlm, run};
use crate::program::{Agent, Limits, Program};
use crate::world::World;

pub use crate::process::ReloadPolicy;
pub use inputs::{Input, MissingInput};
pub use keep::{ResumeError, end_stored, stored_entry};
pub use plan::{
    AlternativeDocument, CandidateDocument, GoalDocument, MissingDocument, Need, PlanDocument, PlanOptions,
    StepDocument,
};
pub use rank::{Candidate, Ranked};
pub use references::{Asking, KeptDocument, ReferenceDocument};
pub use reload::{Reload, Reloader};
pub use render::{MessageDocument, RenderDocument};
pub use tools::ToolNode;

use host::{Current, Inner};

/// Someone who can be asked.
pub trait Person: Send + Sync {
    /// Whether they agree. May block.
    fn confirm(&self, question: &str) -> bool;

    /// The data that they are asked for. May block. `None`: not now, and the process waits.
    fn answer(&self, _question: &Question) -> Option<Value> {
        None
    }
}

/// A program that processes run on.
#[derive(Clone)]
pub struct Engine {
    current: Arc<Current>,
}

/// What a run sets.
#[derive(Clone, Default)]
pub struct RunOptions {
    /// The one goal to reach.
    pub goal: Option<String>,
    /// The type of the result.
    pub returns: Option<String>,
    /// The planner, instead of the agent's.
    pub planner: Option<PlannerKind>,
    /// Limits, instead of the agent's.
    pub limits: LimitOptions,
    /// Models by role; `default` is the role of what names none.
    pub models: IndexMap<String, String>,
    /// Entries of `config`, by key; `a.b` is the entry `b` of the mapping `a`.
    pub config: IndexMap<String, Value>,
    /// What would write, send or execute shows its arguments and returns a stub.
    pub dry_run: bool,
    /// Confirmations are given.
    pub yes: bool,
    /// Answers for all models.
    pub script: Option<Script>,
    /// Stands around every model that is asked, such as a recorder.
    pub wrap_llm: Option<WrapLlm>,
    /// Answers for all models, where there is no `script`.
    pub model: Option<Arc<dyn Llm>>,
    /// Settings of every call to a model that go before those of the action.
    pub llm_options: Option<LlmSettings>,
    /// Stands in for tools and actions.
    pub stubs: Option<Arc<dyn Stubs>>,
    /// Replies come in pieces, as events.
    pub stream: bool,
    /// The system message does not say which day it is (tests).
    pub no_date_line: bool,
    /// Hears of everything that happens.
    pub observer: Option<Observer>,
    /// What the process does when the program changes, where its agent does not say.
    pub reload: ReloadPolicy,
    /// Ends the process.
    pub kill: Kill,
    /// What was asked to be run, relative to the project; kept with the process, so that it can be resumed.
    pub target: String,
    /// The context whose objects the process starts with and leaves behind.
    pub context: Option<String>,
    /// For an agent that was put together for a goal: the agent that the goal belongs to, and the goal. Kept with the
    /// process, so that it can be put together again.
    pub open: Option<(String, String)>,
}

/// Limits of a run; what is `None` is the agent's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LimitOptions {
    /// Actions, replans counted.
    pub actions: Option<u64>,
    /// US dollars.
    pub cost: Option<f64>,
    /// Tokens, input and output together.
    pub tokens: Option<u64>,
    /// Time since the process was created.
    pub time: Option<Duration>,
}

/// Why a run, plan or rendering was not begun; the command line is wrong (exit 2).
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StartError {
    /// There is no such agent.
    #[error("there is no agent `{name}`; {help}")]
    UnknownAgent {
        /// What was asked for.
        name: String,
        /// The nearest, or all.
        help: String,
    },
    /// The agent uses what this version reads and checks, but does not run.
    #[error("{}", .0.join("\n       "))]
    Unsupported(Vec<String>),
    /// Required inputs are missing.
    #[error("{}", inputs::missing_message(.0))]
    MissingInputs(Vec<MissingInput>),
    /// An input is wrong.
    #[error("{0}")]
    BadInput(String),
    /// An option is wrong: a goal, a type, a config key.
    #[error("{0}")]
    BadOption(String),
}

impl Engine {
    /// The host of a program in a world.
    pub fn new(program: Arc<Program>, world: Arc<dyn World>) -> Engine {
        Engine { current: Current::new(program, world, None) }
    }

    /// The host of a program in a world, with someone who can be asked.
    pub fn with_person(program: Arc<Program>, world: Arc<dyn World>, person: Arc<dyn Person>) -> Engine {
        Engine { current: Current::new(program, world, Some(person)) }
    }

    /// Where the project is on this machine; `None` for a world that is not on disk.
    pub fn world_root(&self) -> Option<std::path::PathBuf> {
        self.inner().world.root().map(std::path::Path::to_owned)
    }

    /// The program in force.
    pub fn program(&self) -> Arc<Program> {
        self.inner().program.clone()
    }

    /// The program in force, with what was made for it.
    fn inner(&self) -> Arc<Inner> {
        self.current.inner.load_full()
    }

    /// Puts another program in force. New processes run on it; those that run take it at their next planning step, or
    /// keep theirs (runtime.md 6).
    pub fn swap(&self, program: Arc<Program>) {
        self.current.swap(program);
    }

    /// Lets the scripts of `kind: scripted` providers begin anew, as they do in another program: a run that is told to
    /// begin again is asked what the one before was asked.
    pub fn rewind_scripts(&self) {
        self.inner().rewind_scripts();
    }

    /// Asks the MCP servers that were started to end, and waits a moment for them. An engine that is dropped without
    /// this kills them.
    pub async fn close(&self) {
        self.inner().servers.close().await;
    }

    /// The agent of this name; the program's first without one.
    ///
    /// # Errors
    /// [`StartError::UnknownAgent`].
    pub fn agent(&self, name: Option<&str>) -> Result<Arc<Agent>, StartError> {
        let program = self.program();
        let found = match name {
            Some(name) => program.agent(name),
            None => program.agents.first(),
        };
        found.cloned().ok_or_else(|| {
            let name = name.unwrap_or_default();
            let names: Vec<&str> = program.agents.iter().map(|agent| agent.name.as_str()).collect();
            let help = crate::diag::suggest::near_or_all(name, names, "the agents");
            StartError::UnknownAgent { name: name.to_owned(), help }
        })
    }

    /// A process of an agent with its inputs on the blackboard; nothing is done yet. [`Process::run`] runs it to its end.
    ///
    /// # Errors
    /// Why it cannot begin: unsupported parts, missing or wrong inputs, wrong options.
    pub fn start(&self, agent: &str, inputs: Vec<Input>, options: RunOptions) -> Result<Process, StartError> {
        let agent = self.agent(Some(agent))?;
        let unsupported = self.unsupported(&agent);
        if !unsupported.is_empty() {
            return Err(StartError::Unsupported(unsupported));
        }
        let given = inputs::given(&agent, inputs, self.inner().world.as_ref())?;
        inputs::refuse_missing(&agent, &given)?;
        let given = match &options.context {
            Some(context) => [self.context_objects(&agent, context)?, given].concat(),
            None => given,
        };
        self.process(&agent, given, options)
    }

    /// What an agent, or one that it runs as a sub-process, uses that this version does not run.
    fn unsupported(&self, agent: &Arc<Agent>) -> Vec<String> {
        let mut reached = vec![agent.clone()];
        let program = self.program();
        let mut next = 0;
        while let Some(current) = reached.get(next).cloned() {
            next += 1;
            let by_actions = current.actions.iter().flat_map(|action| action.body.needs().agents);
            for name in by_actions.chain(current.handed_to()) {
                let other = program.agent(&name);
                reached.extend(other.filter(|other| !reached.iter().any(|known| known.name == other.name)).cloned());
            }
        }
        reached.iter().flat_map(|agent| agent.unsupported.iter().cloned()).collect()
    }

    /// A process on objects that are validated already.
    fn process(&self, agent: &Arc<Agent>, given: Vec<run::Given>, options: RunOptions) -> Result<Process, StartError> {
        let returns = match &options.returns {
            Some(name) => Some(type_named(agent, name)?),
            None => None,
        };
        let start = run::Start { given, goal: options.goal.clone(), returns, planner: options.planner };
        let core = self.core(agent, options)?;
        self.registered(&core);
        Process::new(core, start).map_err(|failure: Failure| StartError::BadOption(failure.message))
    }

    fn core(&self, agent: &Arc<Agent>, options: RunOptions) -> Result<Core, StartError> {
        self.core_of(agent, options, None)
    }

    /// The core of a new process, or of one that was left: its id, and what it has used.
    fn core_of(
        &self,
        agent: &Arc<Agent>,
        options: RunOptions,
        left: Option<(String, Spent)>,
    ) -> Result<Core, StartError> {
        let inner = self.inner();
        if options.script.is_none() && options.model.is_none() {
            self.check_models(agent, &options.models)?;
        }
        let index = match options.config.is_empty() {
            true => inner.index(agent),
            false => Arc::new(AgentIndex::with_config(agent, &config_with(agent, &options.config)?)),
        };
        let limits = options.limits.over(agent.limits);
        let kept = if inner.store.get().is_some() { keep::settings(&options) } else { Value::Null };
        let journal = inner.store.get().map(|store| {
            Arc::new(keep::Keeper::new(store.clone(), &options, left.is_some()))
                as Arc<dyn crate::process::journal::Journal>
        });
        let run = RunSettings {
            dry_run: options.dry_run,
            yes: options.yes,
            script: options.script.map(|script| Arc::new(Scripted::new(script)) as Arc<dyn Llm>).or(options.model),
            wrap_llm: options.wrap_llm,
            llm_options: options.llm_options,
            stubs: options.stubs,
            models: options.models,
            stream: options.stream,
            date_line: !options.no_date_line,
            observer: options.observer,
            config: options.config,
            reload: options.reload,
            journal,
            kept,
        };
        let (id, spent) = match left {
            Some((id, spent)) => (id, Some(spent)),
            None => {
                let id = Host::new_id(&*inner).map_err(|failure| StartError::BadOption(failure.message))?;
                (id, None)
            }
        };
        let ledger = Arc::new(Engine::ledger(limits, spent));
        Ok(Core::new(id, inner, agent.clone(), index, Arc::new(run), ledger, options.kill))
    }
}

impl Engine {
    /// Refuses models for roles that nothing uses, and models without a provider.
    fn check_models(&self, agent: &Agent, models: &IndexMap<String, String>) -> Result<(), StartError> {
        let program = self.program();
        let modules = agent.written.modules.iter().chain(&program.project).filter_map(|module| module.models.as_ref());
        let declared = modules.flat_map(|models| models.roles.iter().map(|(name, _)| name.value.as_str()));
        let roles: IndexSet<&str> = std::iter::once("default").chain(declared).collect();
        let providers: Vec<&str> = program.providers.keys().map(String::as_str).collect();
        for (role, model) in models {
            if !roles.contains(role.as_str()) {
                let help = crate::diag::suggest::near_or_all(role, roles.iter().copied(), "the roles");
                return Err(StartError::BadOption(format!("there is no role `{role}` of models; {help}")));
            }
            let Some((provider, _)) = model.split_once('/') else {
                let message = format!("`{model}` names no model; write `provider/id`, such as `openai/gpt-4.1-mini`");
                return Err(StartError::BadOption(message));
            };
            if !providers.contains(&provider) {
                let help = crate::diag::suggest::near_or_all(provider, providers.iter().copied(), "the providers");
                return Err(StartError::BadOption(format!("there is no provider `{provider}`; {help}")));
            }
        }
        Ok(())
    }
}

impl LimitOptions {
    /// These limits over others.
    pub fn over(self, limits: Limits) -> Limits {
        Limits {
            actions: self.actions.unwrap_or(limits.actions),
            cost: self.cost.unwrap_or(limits.cost),
            tokens: self.tokens.unwrap_or(limits.tokens),
            time: self.time.or(limits.time),
            ..limits
        }
    }
}

/// The type of this name.
fn type_named(agent: &Agent, name: &str) -> Result<crate::value::TypeId, StartError> {
    agent.types.id(name).ok_or_else(|| {
        let help = crate::diag::suggest::near_or_all(name, agent.types.names(), "its types");
        StartError::BadOption(format!("the agent `{}` has no type `{name}`; {help}", agent.name))
    })
}

/// A value for an entry of `config`: of the kind that the author gave it, because templates were checked against that.
fn in_place_of(declared: &Value, value: &Value, key: &str) -> Result<Value, StartError> {
    let fits = match declared {
        // What looks like a number may be meant as text: `--set version=2`.
        Value::String(_) if !value.is_string() && !value.is_null() => return Ok(Value::from(value.to_string())),
        Value::Null => true,
        Value::Number(number) if number.is_f64() => value.is_number(),
        Value::Number(_) => value.is_i64() || value.is_u64(),
        Value::Bool(_) => value.is_boolean(),
        Value::String(_) => value.is_string(),
        Value::Array(_) => value.is_array(),
        Value::Object(_) => value.is_object(),
    };
    if fits {
        return Ok(value.clone());
    }
    let kind = match declared {
        Value::Number(number) if number.is_f64() => "a number",
        Value::Number(_) => "an integer",
        Value::Bool(_) => "true or false",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
        Value::String(_) | Value::Null => "a text",
    };
    Err(StartError::BadOption(format!("the `config` entry `{key}` is {kind}, such as `{declared}`; found `{value}`")))
}

/// The agent's `config` with entries replaced.
fn config_with(agent: &Agent, entries: &IndexMap<String, Value>) -> Result<Map<String, Value>, StartError> {
    let mut config = agent.config.clone();
    for (key, value) in entries {
        let mut path = key.split('.');
        let first = path.next().unwrap_or_default();
        let mut place = config.get_mut(first);
        for part in path {
            place = place.and_then(|place| place.get_mut(part));
        }
        match place {
            Some(place) => *place = in_place_of(place, value, key)?,
            None => {
                let names = agent.config.keys().map(String::as_str);
                let help = crate::diag::suggest::near_or_all(first, names, "its entries");
                let message = format!("the `config` of the agent `{}` has no entry `{key}`; {help}", agent.name);
                return Err(StartError::BadOption(message));
            }
        }
    }
    Ok(config)
}
