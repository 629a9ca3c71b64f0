//! What the engine is to its processes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use arc_swap::{ArcSwap, ArcSwapOption};

use futures::future::BoxFuture;
use indexmap::IndexMap;
use serde_json::{Value, json};

use crate::action::context::{Question, QuestionKind, ServerCall};
use crate::action::{Failure, FailureKind};
use crate::llm::{Catalog, Cooldowns, Llm, Past, ResponseCache, Script};
use crate::process::{AgentIndex, Host, Newer, Refused, RunSettings};
use crate::program::{Agent, Program};
use crate::store::Store;
use crate::tool::mcp::Progress;
use crate::tool::mcp::ServerTools;
use crate::world::World;

use super::Person;
use super::grant::{Grant, decide, decide_tool};
use super::responses::Responses;
use super::servers::Servers;

/// The program in force, which is swapped as a whole.
pub(super) struct Current {
    pub(super) inner: ArcSwap<Inner>,
    /// Why the files as they are now are not in force.
    refused: ArcSwapOption<Refused>,
    /// Programs and refusals so far.
    count: AtomicU64,
    /// Processes that were started and are kept.
    starts: AtomicU64,
}

impl Current {
    pub(super) fn new(program: Arc<Program>, world: Arc<dyn World>, person: Option<Arc<dyn Person>>) -> Arc<Current> {
        Arc::new_cyclic(|current| {
            let inner = Inner::new(program, world, person, current.clone());
            Current {
                inner: ArcSwap::from_pointee(inner),
                refused: ArcSwapOption::empty(),
                count: AtomicU64::new(1),
                starts: AtomicU64::new(0),
            }
        })
    }

    /// How many kept processes were started before this one.
    pub(super) fn starts(&self) -> u64 {
        self.starts.fetch_add(1, Ordering::Relaxed)
    }

    /// Puts another program in force: whoever looks from now on sees it whole.
    pub(super) fn swap(&self, program: Arc<Program>) {
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        let next = self.inner.load().under(program, number);
        self.inner.store(Arc::new(next));
        self.refused.store(None);
    }

    /// Takes down that the files as they are now were refused, or that they say again what is in force.
    pub(super) fn refuse(&self, reasons: Option<Vec<String>>) {
        let number = || self.count.fetch_add(1, Ordering::SeqCst) + 1;
        self.refused.store(reasons.map(|reasons| Arc::new(Refused { number: number(), reasons })));
    }
}

/// The shared inside of an engine: one program with what was made for it.
pub(super) struct Inner {
    pub(super) program: Arc<Program>,
    pub(super) world: Arc<dyn World>,
    person: Option<Arc<dyn Person>>,
    /// Which program of the engine it is, from 1.
    number: u64,
    /// The engine, which may have a newer program.
    current: Weak<Current>,
    /// Tables of the agents, in the program's order.
    indexes: Vec<OnceLock<Arc<AgentIndex>>>,
    /// Providers that were built.
    providers: Mutex<IndexMap<String, Arc<dyn Llm>>>,
    /// Replies to requests that may be answered again (`cache: true`).
    responses: Arc<dyn ResponseCache>,
    /// Models that failed a moment ago.
    cooldowns: Cooldowns,
    /// What a person has agreed to: permission and subject.
    granted: Arc<Mutex<BTreeSet<(String, String)>>>,
    /// MCP servers, those that run among them.
    pub(super) servers: Servers,
    /// Held while a person is asked.
    asking: Arc<tokio::sync::Mutex<()>>,
    /// What was told of once.
    told: Arc<Mutex<BTreeSet<String>>>,
    /// Processes that scripts of the project have answered in this program.
    answered: Arc<Mutex<BTreeSet<String>>>,
    /// Where processes are kept.
    pub(super) store: Arc<OnceLock<Arc<dyn Store>>>,
}

impl Inner {
    fn new(
        program: Arc<Program>,
        world: Arc<dyn World>,
        person: Option<Arc<dyn Person>>,
        current: Weak<Current>,
    ) -> Inner {
        let indexes = program.agents.iter().map(|_| OnceLock::new()).collect();
        let root = world.root().map(std::path::Path::to_owned).unwrap_or_default();
        let servers = Servers::new(program.clone(), root);
        let store: Arc<OnceLock<Arc<dyn Store>>> = Arc::default();
        Inner {
            program,
            person,
            number: 1,
            current,
            indexes,
            providers: Mutex::default(),
            granted: Arc::default(),
            servers,
            asking: Arc::default(),
            told: Arc::default(),
            responses: Arc::new(Responses::new(store.clone(), world.clone())),
            cooldowns: Cooldowns::default(),
            answered: Arc::default(),
            store,
            world,
        }
    }

    /// The same around another program: what a person has granted stays granted; providers and servers whose
    /// declaration is the same stay as they are.
    fn under(&self, program: Arc<Program>, number: u64) -> Inner {
        let mut providers = lock(&self.providers).clone();
        providers.retain(|name, _| program.has_same_provider(&self.program, name));
        Inner {
            world: self.world.clone(),
            person: self.person.clone(),
            number,
            current: self.current.clone(),
            indexes: program.agents.iter().map(|_| OnceLock::new()).collect(),
            providers: Mutex::new(providers),
            granted: self.granted.clone(),
            servers: self.servers.under(program.clone()),
            asking: self.asking.clone(),
            told: self.told.clone(),
            responses: self.responses.clone(),
            cooldowns: Cooldowns::default(),
            answered: self.answered.clone(),
            store: self.store.clone(),
            program,
        }
    }

    /// The tables of an agent of the program.
    pub(super) fn index(&self, agent: &Arc<Agent>) -> Arc<AgentIndex> {
        let at = self.program.agents.iter().position(|other| Arc::ptr_eq(other, agent));
        match at.and_then(|at| self.indexes.get(at)) {
            Some(index) => index.get_or_init(|| Arc::new(AgentIndex::new(agent))).clone(),
            None => Arc::new(AgentIndex::new(agent)),
        }
    }

    /// A person's agreement, once for each `key`; `no_one` is what is told where there is no one to ask.
    fn ask_for(&self, key: (String, String), what: &str, no_one: String, run: &RunSettings) -> Result<(), Failure> {
        if run.yes || lock(&self.granted).contains(&key) {
            return Ok(());
        }
        let Some(person) = &self.person else { return refuse(no_one) };
        if !person.confirm(&format!("Allow {what}?")) {
            return refuse(format!("the person refused {what}"));
        }
        lock(&self.granted).insert(key);
        Ok(())
    }

    /// Whether this program is the first time concerned with a process that scripts of the project may answer.
    pub(super) fn is_new(&self, process: &str) -> bool {
        !self.program.scripts.is_empty() && lock(&self.answered).insert(process.to_owned())
    }

    /// Tells the scripts of the project what they have answered a process before, in another program.
    pub(super) fn recall(&self, past: &[Past]) {
        for name in self.program.scripts.keys() {
            let own = past.iter().filter(|past| past.model.split('/').next() == Some(name) || past.model.is_empty());
            let own: Vec<Past> = own.cloned().collect();
            if let (false, Ok(script)) = (own.is_empty(), self.provider(name)) {
                script.recall(&own);
            }
        }
    }

    /// Lets the scripts of the project begin anew: what is asked next gets their first answers.
    pub(super) fn rewind_scripts(&self) {
        lock(&self.providers).retain(|name, _| !self.program.scripts.contains_key(name));
    }

    fn build(&self, name: &str) -> Result<Arc<dyn Llm>, String> {
        let Some(config) = self.program.providers.get(name) else {
            let names = self.program.providers.keys().map(String::as_str);
            let help = crate::diag::suggest::near_or_all(name, names, "the providers");
            return Err(format!("there is no provider `{name}`; {help}"));
        };
        let unset =
            self.program.missing_env.iter().find(|missing| missing.section == "providers" && missing.name == name);
        if let Some(missing) = unset {
            return Err(format!(
                "the provider `{name}` needs the environment variable `{}`, which is not set ({})",
                missing.variable, missing.place
            ));
        }
        let mut config = config.clone();
        if let (None, Some(script)) = (&config.script, self.program.scripts.get(name)) {
            let script = Script::from_value(script).map_err(|errors| {
                let listed: Vec<String> = errors.iter().map(ToString::to_string).collect();
                format!("the script of the provider `{name}`: {}", listed.join("; "))
            })?;
            config.script = Some(script);
        }
        let built = crate::llm::build(name, &config, self.program.catalog.clone())?;
        Ok(crate::llm::cached(built, Arc::clone(&self.responses)))
    }
}

fn refuse(message: String) -> Result<(), Failure> {
    Err(Failure::new(FailureKind::Permission, message))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Host for Inner {
    fn provider(&self, name: &str) -> Result<Arc<dyn Llm>, String> {
        let mut providers = lock(&self.providers);
        if let Some(provider) = providers.get(name) {
            return Ok(provider.clone());
        }
        let built = self.build(name)?;
        providers.insert(name.to_owned(), built.clone());
        Ok(built)
    }

    fn agent(&self, name: &str) -> Option<(Arc<Agent>, Arc<AgentIndex>)> {
        let agent = self.program.agent(name)?;
        Some((agent.clone(), self.index(agent)))
    }

    fn newer(&self, agent: &str, run: &RunSettings, is_top: bool) -> Option<Result<Newer, Refused>> {
        let current = self.current.upgrade()?;
        let newest = current.inner.load_full();
        if newest.number == self.number {
            return current.refused.load_full().map(|refused| Err((*refused).clone()));
        }
        let number = newest.number;
        let refuse = |reason: String| Some(Err(Refused { number, reasons: vec![reason] }));
        let Some(found) = newest.program.agent(agent).cloned() else {
            return refuse(format!("the changed files have no agent `{agent}`"));
        };
        let index = if is_top && !run.config.is_empty() {
            match super::config_with(&found, &run.config) {
                Ok(config) => Arc::new(AgentIndex::with_config(&found, &config)),
                Err(error) => return refuse(error.to_string()),
            }
        } else {
            newest.index(&found)
        };
        Some(Ok(Newer { host: newest, agent: found, index, number }))
    }

    fn catalog(&self) -> &Catalog {
        &self.program.catalog
    }

    fn can_ask(&self, provider: &str) -> bool {
        self.program.can_ask(provider)
    }

    fn cooldowns(&self) -> &Cooldowns {
        &self.cooldowns
    }

    fn world(&self) -> &dyn World {
        self.world.as_ref()
    }

    fn mcp_tools<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Arc<ServerTools>, Failure>> {
        Box::pin(self.servers.tools(server))
    }

    fn call_server<'a>(
        &'a self,
        call: &'a ServerCall,
        on_progress: &'a (dyn Fn(Progress) + Send + Sync),
    ) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(self.servers.call(call, on_progress))
    }

    fn new_id(&self) -> Result<String, Failure> {
        match self.store.get() {
            Some(store) if self.world.numbers_ids() => match store.next_number() {
                Ok(number) => Ok(format!("P{number}")),
                Err(error) => Err(Failure::new(FailureKind::Store, error.to_string())),
            },
            _ => Ok(self.world.new_id()),
        }
    }

    fn permit(&self, permission: &str, subject: &str, tools: &[&str], run: &RunSettings) -> Result<(), Failure> {
        match decide(&self.program.permissions, permission, subject, tools) {
            Grant::Allowed => Ok(()),
            Grant::Denied => refuse(format!("the project denies `{permission}`, which `{subject}` needs")),
            Grant::Asked => {
                let or_tool =
                    tools.first().map(|tool| format!(", or `[{tool}]` for this tool alone,")).unwrap_or_default();
                let no_one = format!(
                    "`{subject}` needs the permission `{permission}` and there is no one to ask; write \
                     `permissions: {{allow: [{permission}]}}`{or_tool} in the project file, or give `--yes`"
                );
                let what = format!("`{permission}` for `{subject}`");
                self.ask_for((permission.to_owned(), subject.to_owned()), &what, no_one, run)
            }
        }
    }

    fn permit_tool(&self, tools: &[&str], asks: bool, run: &RunSettings) -> Result<(), Failure> {
        let tool = tools.first().copied().unwrap_or_default();
        match decide_tool(&self.program.permissions, tools) {
            Grant::Allowed => Ok(()),
            Grant::Denied => refuse(format!("the project denies the tool `{tool}`")),
            Grant::Asked if !asks => Ok(()),
            Grant::Asked => {
                let no_one = format!(
                    "the project wants a person asked before the tool `{tool}` is called, and there is no one to ask; \
                     take it out of `permissions: {{ask: …}}` in the project file, or give `--yes`"
                );
                self.ask_for(("tool".to_owned(), tool.to_owned()), &format!("the tool `{tool}`"), no_one, run)
            }
        }
    }

    fn is_allowed(&self, permission: &str, subject: &str) -> bool {
        decide(&self.program.permissions, permission, subject, &[]) == Grant::Allowed
    }

    fn is_first(&self, key: &str) -> bool {
        lock(&self.told).insert(key.to_owned())
    }

    fn answer<'a>(&'a self, question: &'a Question, run: &'a RunSettings) -> BoxFuture<'a, Option<Value>> {
        if let Some(stubs) = &run.stubs {
            return Box::pin(std::future::ready(stubs.answer(question)));
        }
        let confirms = !matches!(question.kind, QuestionKind::Ask | QuestionKind::Message);
        if confirms && run.yes {
            return Box::pin(std::future::ready(Some(json!({"confirm": true}))));
        }
        let Some(person) = self.person.clone() else { return Box::pin(std::future::ready(None)) };
        Box::pin(async move {
            // One question at a time; whatever else the process does goes on meanwhile.
            let _turn = self.asking.lock().await;
            let question = question.clone();
            let answered = tokio::task::spawn_blocking(move || match question.kind {
                QuestionKind::Ask | QuestionKind::Message => person.answer(&question),
                _ => Some(json!({"confirm": person.confirm(&question.prompt)})),
            });
            answered.await.ok().flatten()
        })
    }
}
