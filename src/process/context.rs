//! The process as a body sees it.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::time::Instant;
use tracing::Instrument;

use crate::action::context::{Branch, Progress, PromptCall, Question, QuestionKind, Seen, ServerCall, is_yes};
use crate::action::{Body, Context, Failure, FailureKind, lasting};
use crate::program::Input;
use crate::program::guardrail::GuardrailCheck as Check;
use crate::prompt::{MapVars, Over, Templates, Truth, Vars, from_json, shaped_value};
use crate::tool::group::NAME_CHARS_MAX;
use crate::tool::mcp;
use crate::tool::offer::Offered;
use crate::tool::{Confirm, Tool};
use crate::value::{Output, OutputKind, RuleEval, Shape, ShapeKind, Tags, TypeId, Types, Validators};
use crate::world::World;

use super::core::Core;
use super::document::{LlmNote, Status, ToolNote};
use super::event::What;
use super::guard::{self, Guard, Place, Turn};
use super::journal::not_kept;
use super::ledger::Ledger;
use super::llm_call::{self, At, millis};
use super::person;
use super::run::{Given, Process, Start};
use super::scope::Scope;
use super::steps::{Done, Path};
use super::tool_offer;
use super::trace;

/// What the calls of one action left behind.
#[derive(Clone, Debug, Default)]
pub(super) struct CallLog {
    /// Calls to models, in order.
    pub(super) llm: Vec<LlmNote>,
    /// Calls to tools, in order.
    pub(super) tools: Vec<ToolNote>,
    /// Objects that tools published, for the blackboard.
    pub(super) published: Vec<(TypeId, Value)>,
}

impl CallLog {
    /// Puts what a step left behind after what there is.
    pub(super) fn append(&mut self, other: CallLog) {
        self.llm.extend(other.llm);
        self.tools.extend(other.tools);
        self.published.extend(other.published);
    }
}

/// The process around the body of one action, or of a tool that it calls.
#[derive(Clone)]
pub struct ActionContext {
    pub(super) core: Arc<Core>,
    /// The action's full name.
    pub(super) action: Arc<str>,
    pub(super) scope: Scope,
    pub(super) output: Output,
    pub(super) log: Arc<Mutex<CallLog>>,
    pub(super) deadline: Option<Instant>,
    /// The tool whose body is performed; `None` in an action's own body.
    pub(super) tool: Option<Arc<InTool>>,
    /// Where in the process this is.
    pub(super) path: Path,
}

/// A tool whose body is performed.
#[derive(Debug)]
pub(super) struct InTool {
    /// The name that it was called by.
    name: String,
    /// The name that it was declared by.
    own_name: String,
    /// Its arguments.
    arguments: Map<String, Value>,
    /// The groups that it and the tools around it come from.
    groups: Vec<Arc<str>>,
    /// How many tools stand around it.
    depth: usize,
}

/// How many tools may call one another in a row.
const TOOL_DEPTH_MAX: usize = 8;

/// How many complaints about arguments are given, and how many characters of each.
const COMPLAINTS_MAX: usize = 20;
const COMPLAINT_CHARS_MAX: usize = 500;

fn shortened(complaint: String) -> String {
    match complaint.char_indices().nth(COMPLAINT_CHARS_MAX) {
        None => complaint,
        Some((end, _)) => format!("{}…", &complaint[..end]),
    }
}

impl ActionContext {
    /// A context that nothing is recorded of, as `render` wants it.
    pub fn detached(core: Arc<Core>, action: &str, scope: Scope, output: Output) -> ActionContext {
        ActionContext::at(core, action, scope, output, Path::of_action(action, 1, 1))
    }

    /// The context of a call to a model that stands at a place of its own.
    pub(super) fn at(core: Arc<Core>, action: &str, scope: Scope, output: Output, path: Path) -> ActionContext {
        ActionContext {
            core,
            action: Arc::from(action),
            scope,
            output,
            log: Arc::default(),
            deadline: None,
            tool: None,
            path,
        }
    }

    fn note(&self, change: impl FnOnce(&mut CallLog)) {
        change(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The arguments of a tool, validated and defaulted.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub(super) fn arguments_for(
        &self,
        tool: &Tool,
        arguments: Map<String, Value>,
    ) -> Result<Map<String, Value>, Vec<String>> {
        let valid = if let Some(schema) = &tool.schema {
            schema.validate(Value::Object(arguments))
        } else {
            let shape = Shape::new(ShapeKind::Object(Box::new(tool.parameters.clone())));
            let valid = self.validators().validate_with(&shape, Value::Object(arguments), self.rules(), Tags::Inferred);
            valid
                .map(|valid| valid.value)
                .map_err(|violations| violations.iter().map(ToString::to_string).collect::<Vec<String>>())
        };
        // A complaint may show the whole of a value that the model made up.
        let complaints = |wrong: Vec<String>| wrong.into_iter().take(COMPLAINTS_MAX).map(shortened).collect::<Vec<_>>();
        match valid.map_err(complaints)? {
            Value::Object(arguments) => Ok(arguments),
            _ => Ok(Map::new()),
        }
    }

    /// What the strings of a tool see: its arguments, and `self`.
    pub(super) fn tool_scope(&self, offered: &Offered, arguments: &Map<String, Value>) -> Scope {
        let (tool, templates) = (&offered.tool, &self.scope.agent.templates);
        let views = arguments.iter().map(|(name, value)| {
            let any = Shape::new(ShapeKind::Any);
            let shape = tool.parameters.fields.get(name).map_or(&any, |field| &field.shape);
            (name.clone(), shaped_value(templates, shape, value))
        });
        let this = offered.this.iter().map(|this| ("self".to_owned(), this.clone()));
        self.scope.with_arguments(views.chain(this).collect())
    }

    /// The context of a tool's body: its strings see the arguments, its steps stand below the call's.
    fn inside(
        &self,
        offered: &Offered,
        arguments: &Map<String, Value>,
        path: Path,
        log: Arc<Mutex<CallLog>>,
    ) -> Result<ActionContext, Failure> {
        let tool = &offered.tool;
        let depth = self.tool.as_ref().map_or(0, |outer| outer.depth) + 1;
        if depth > TOOL_DEPTH_MAX {
            let message = format!("tools call one another deeper than {TOOL_DEPTH_MAX} levels, last `{}`", tool.name);
            return Err(Failure::new(FailureKind::Tool, message));
        }
        let kind = tool.publish.map_or(OutputKind::None, OutputKind::One);
        let deadline = Instant::now() + tool.timeout;
        let outer = self.tool.iter().flat_map(|outer| outer.groups.iter().cloned());
        let groups = offered.group.iter().cloned().chain(outer).collect();
        let name = offered.name().to_owned();
        Ok(ActionContext {
            core: self.core.clone(),
            action: self.action.clone(),
            scope: self.tool_scope(offered, arguments),
            output: Output::new(kind),
            log,
            path,
            deadline: Some(self.deadline.map_or(deadline, |outer| outer.min(deadline))),
            tool: Some(Arc::new(InTool {
                name,
                own_name: tool.name.clone(),
                arguments: arguments.clone(),
                groups,
                depth,
            })),
        })
    }

    /// Asks a person where the tool wants that, and where the call may have been made already.
    async fn may_call(
        &self,
        offered: &Offered,
        inside: &ActionContext,
        arguments: &Map<String, Value>,
        step: &str,
    ) -> Result<(), Failure> {
        let name = offered.name();
        let templates = &self.scope.agent.templates;
        if let Some(Confirm { when, ask: question }) = &offered.tool.confirm
            && when.is_none_or(|when| templates.truth(when, &inside.scope) == Truth::True)
        {
            let question = match question {
                Some(question) => templates.render(*question, &inside.scope)?,
                None => format!("Call the tool `{name}`?"),
            };
            self.agree(question, name, arguments, format!("{step}/confirm")).await?;
        }
        let again = format!("{step}/again");
        if self.core.steps.was_begun(step) || self.core.steps.done(&again).is_some() {
            let question = format!(
                "The tool `{name}` was being called when the program ended, and may have done its work. Call it again?"
            );
            self.agree(question, name, arguments, again).await?;
        }
        Ok(())
    }

    /// A person's agreement to a call.
    async fn agree(
        &self,
        prompt: String,
        tool: &str,
        arguments: &Map<String, Value>,
        step: String,
    ) -> Result<(), Failure> {
        let arguments = Value::Object(arguments.clone());
        let kind = QuestionKind::ConfirmTool { tool: tool.to_owned(), arguments };
        let question = Question { action: self.action.to_string(), ..Question::confirm(prompt, kind) };
        // What a person says leaves nothing behind.
        match is_yes(&person::ask(&self.core, step, question, &Mutex::default()).await?) {
            true => Ok(()),
            false => Err(Failure::new(FailureKind::Permission, "refused by the person")),
        }
    }

    /// One call of a tool with validated arguments: agreed to, performed, told.
    async fn perform_tool(
        &self,
        offered: &Offered,
        arguments: &Map<String, Value>,
        step: &str,
        log: &Arc<Mutex<CallLog>>,
    ) -> Result<Value, Failure> {
        let (tool, name) = (&offered.tool, offered.name());
        let holding = guard::of_action(&self.scope, &self.action);
        let guard = Guard::new(&self.core, &self.scope, &holding, &self.action);
        let place = |check| Place { check, tool: name, step, log };
        let arguments = &self.guarded_arguments(&guard, offered, arguments, place(Check::ToolArguments)).await?;
        let inside = self.inside(offered, arguments, Path::new(step), log.clone())?;
        // What stands in for a tool does nothing that a person would have to agree to.
        let (names, may_be_stubbed) = ([name, tool.name.as_str()], self.core.run.stubs.is_some());
        let agreed = match self.core.host.permit_tool(&names, !may_be_stubbed, &self.core.run) {
            Ok(()) => self.may_call(offered, &inside, arguments, step).await,
            Err(refused) => Err(refused),
        };
        if !agreed.as_ref().is_err_and(Failure::is_waiting) {
            self.tell_call(name, || Value::Object(arguments.clone()));
        }
        agreed?;
        if let Some(stubs) = &self.core.run.stubs
            && let Some(stubbed) = stubs.tool(name, &Value::Object(arguments.clone()))
        {
            return inside.published(tool, guard.result(stubbed, place(Check::ToolResult)).await?);
        }
        if may_be_stubbed {
            self.core.host.permit_tool(&names, true, &self.core.run)?;
        }
        let Some(body) = &tool.body else {
            // A facade that a body, not a model, calls; the tools of the interaction itself never come here.
            let message = format!("the tool `{name}` only reveals other tools to a model; call one of them");
            return Err(Failure::new(FailureKind::Tool, message));
        };
        let keeps = !tool.idempotent && !self.core.run.dry_run;
        if keeps {
            self.core.begin_step(step).await?;
        }
        let result = match tokio::time::timeout(tool.timeout, guarded(&**body, &inside)).await {
            Ok(result) => result,
            Err(_) => {
                let message = format!("the tool `{name}` did not answer within {}", lasting(tool.timeout));
                Err(Failure::new(FailureKind::Timeout, message))
            }
        };
        if keeps && result.as_ref().is_err_and(Failure::is_waiting) {
            self.core.withdraw_step(step);
        }
        let result = guard.result(result, place(Check::ToolResult)).await;
        inside.published(tool, result?)
    }

    /// The arguments of a call as they may go on.
    async fn guarded_arguments(
        &self,
        guard: &Guard<'_>,
        offered: &Offered,
        arguments: &Map<String, Value>,
        place: Place<'_>,
    ) -> Result<Map<String, Value>, Failure> {
        if !guard.looks_at(place.check) {
            return Ok(arguments.clone());
        }
        let passed = match guard.pass_value(Value::Object(arguments.clone()), place, Turn::Both).await {
            Ok(Value::Object(passed)) => passed,
            Ok(_) => Map::new(),
            Err(failure) => {
                // What was blocked is told to no one; that there was a call, is.
                if !failure.is_waiting() {
                    self.tell_call(offered.name(), || Value::Null);
                }
                return Err(failure);
            }
        };
        if passed == *arguments {
            return Ok(passed);
        }
        self.arguments_for(&offered.tool, passed).map_err(|wrong| {
            let message = format!("with what guardrails redact, the arguments do not fit: {}", wrong.join("; "));
            Failure::new(FailureKind::Tool, message)
        })
    }

    fn tell_call(&self, name: &str, arguments: impl FnOnce() -> Value) {
        self.core.emit(|| What::ToolCalled {
            action: self.action.to_string(),
            tool: name.to_owned(),
            arguments: arguments(),
        });
    }

    /// Takes note of a tool's result where it goes on the blackboard.
    fn published(&self, tool: &Tool, result: Value) -> Result<Value, Failure> {
        let Some(publish) = tool.publish else { return Ok(result) };
        let valid = self.validators().validate_type(publish, result, self.rules()).map_err(|violations| {
            let listed: Vec<String> = violations.iter().map(ToString::to_string).collect();
            Failure::new(FailureKind::Validation, format!("the result of `{}`: {}", tool.name, listed.join("; ")))
        })?;
        let of = valid.type_id.unwrap_or(publish);
        self.note(|log| log.published.push((of, valid.value.clone())));
        Ok(valid.value)
    }

    /// Calls a tool with arguments that were validated: the one way in which a body, a model and the command line do.
    pub(super) async fn run_tool(
        &self,
        offered: &Offered,
        arguments: &Map<String, Value>,
        step: &str,
    ) -> Result<Value, Failure> {
        let called = |log: Arc<Mutex<CallLog>>| async move {
            let started = Instant::now();
            let span = trace::tool(&self.core, offered.name(), &offered.tool.description, arguments);
            let result = self.perform_tool(offered, arguments, step, &log).instrument(span.clone()).await;
            trace::called(&span, &self.core, &result);
            if !result.as_ref().is_err_and(Failure::is_waiting) {
                self.told(offered.name(), &result, millis(started.elapsed()), &log);
            }
            result
        };
        let result = self.core.step(step, &self.log, called).await?;
        // A person is asked about the result once it is kept: the call is not made again for the answer.
        let holding = guard::of_action(&self.scope, &self.action);
        let guard = Guard::new(&self.core, &self.scope, &holding, &self.action);
        let place = Place { check: Check::ToolResult, tool: offered.name(), step, log: &self.log };
        guard.pass_value(result, place, Turn::Asks).await
    }

    /// Calls a tool with arguments as they come.
    ///
    /// # Errors
    /// Arguments that do not fit, or what the call ends with.
    pub async fn call_offered(&self, offered: &Offered, arguments: Map<String, Value>) -> Result<Value, Failure> {
        let step = self.tool_step(offered.name());
        let arguments = self.arguments_for(&offered.tool, arguments).map_err(|wrong| {
            let message = format!("the tool `{}` does not take this: {}", offered.name(), wrong.join("; "));
            Failure::new(FailureKind::Tool, message)
        })?;
        let result = self.run_tool(offered, &arguments, &step).await?;
        match self.replans(offered, &arguments, &result) {
            true => Err(replan(offered.name())),
            false => Ok(result),
        }
    }

    /// The path of the next call of a tool.
    pub(super) fn tool_step(&self, name: &str) -> String {
        // A model may call any name; none may look like another step's path.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
        let name: String = name.chars().take(NAME_CHARS_MAX).map(|c| if is_plain(c) { c } else { '_' }).collect();
        self.path.next(&format!("tool:{name}#"))
    }

    /// Takes note of what a call of a tool gave.
    fn told(&self, name: &str, result: &Result<Value, Failure>, ms: u64, log: &Mutex<CallLog>) {
        self.core.ledger.charge_tool();
        let status = if result.is_ok() { "ok" } else { "error" };
        let note = ToolNote { name: name.to_owned(), status: status.to_owned(), ms };
        log.lock().unwrap_or_else(PoisonError::into_inner).tools.push(note);
        self.core.emit(|| What::ToolResult {
            action: self.action.to_string(),
            tool: name.to_owned(),
            ok: result.is_ok(),
            result: match result {
                Ok(value) => value.clone(),
                Err(failure) => Value::from(failure.message.clone()),
            },
            ms,
        });
    }

    /// A call that is answered without any effect: it is told once, as a step is.
    pub(super) async fn answered(
        &self,
        name: &str,
        arguments: &Value,
        result: &Result<Value, Failure>,
        step: &str,
    ) -> Result<Value, Failure> {
        let effect = |log: Arc<Mutex<CallLog>>| async move {
            self.tell_call(name, || arguments.clone());
            self.told(name, result, 0, &log);
            result.clone()
        };
        self.core.step(step, &self.log, effect).await
    }

    /// Whether a tool's result ends the action so that the process plans again.
    pub(super) fn replans(&self, offered: &Offered, arguments: &Map<String, Value>, result: &Value) -> bool {
        let Some(replan) = offered.tool.replan else { return false };
        let vars = MapVars::default().with("result", from_json(result));
        let scope = self.tool_scope(offered, arguments);
        self.scope.agent.templates.truth(replan, &Over { vars, below: &scope }) == Truth::True
    }

    /// The objects that tools have published since the action began.
    pub(super) fn published_objects(&self) -> Vec<(TypeId, Value)> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).published.clone()
    }

    /// A sub-process of an agent: the one that this step has started before, or a new one.
    async fn sub_process(
        &self,
        agent: &str,
        inputs: Option<Map<String, Value>>,
        step: &str,
    ) -> Result<Process, Failure> {
        if let Some(parked) = self.core.steps.unpark(step) {
            return Ok(*parked);
        }
        let known = self.core.steps.child(step);
        let left = match (&known, &self.core.run.journal) {
            (Some(id), Some(journal)) => journal.left(id).await.map_err(not_kept)?,
            _ => None,
        };
        let Some((agent, index)) = self.core.host.agent(agent) else {
            return Err(Failure::new(FailureKind::Error, format!("there is no agent `{agent}`")));
        };
        if let Some(what) = agent.unsupported.first() {
            return Err(Failure::new(FailureKind::Error, format!("the agent `{}`: {what}", agent.name)));
        }
        let depth = self.core.depth + 1;
        if depth > self.core.ledger.limits().depth {
            let most = self.core.ledger.limits().depth;
            return Err(Failure::new(FailureKind::Limit, format!("the limit of {most} nested processes is reached")));
        }
        let (host, run, kill) = (self.core.host.clone(), self.core.run.clone(), self.core.kill.clone());
        let limits = agent.limits;
        let parent = Some(self.core.ledger.clone());
        if let (Some(id), Some(left)) = (known.clone(), left) {
            let ledger = Arc::new(Ledger::again(limits, parent, left.spent()));
            let core = Core::new(id, host, agent, index, run, ledger, kill).inside(&self.core.id, depth);
            return Process::restore(core, left)
                .map_err(|why| Failure::new(FailureKind::Store, format!("a sub-process cannot go on: {why}")));
        }
        let id = match known {
            Some(id) => id,
            None => {
                let id = host.new_id()?;
                self.core.start_child(step, &id).await?;
                id
            }
        };
        let core = Core::new(id, host, agent, index, run, Arc::new(Ledger::new(limits, parent)), kill);
        let core = core.inside(&self.core.id, depth);
        let given = inherited(&self.scope, &core, inputs)?;
        Process::new(core, Start { given, ..Start::default() })
    }

    /// Runs a sub-process until it ends, or waits for a person.
    async fn run_sub_process(&self, mut process: Process, step: &str) -> Result<Value, Failure> {
        loop {
            Box::pin(process.run()).await;
            let Some(pending) = process.waiting().cloned() else { break };
            // The answer is this process's step; the question's own path keeps answers to several apart.
            let answer = format!("{step}/answer:{}", pending.path);
            match self.core.steps.done(&answer) {
                Some(Done { result, .. }) => process.settle(result).await,
                None => {
                    self.core.steps.ask_for_child(answer, pending);
                    self.core.steps.park(step, process);
                    return Err(Failure::new(FailureKind::Waiting, "a sub-process waits for a person"));
                }
            }
        }
        result_of(&process)
    }
}

/// What ends an action so that the process plans again.
pub(super) fn replan(tool: &str) -> Failure {
    Failure::new(FailureKind::Replan, format!("the result of `{tool}` made the process plan again"))
}

/// Performs a body; a panic in it is a failure of its own.
pub(super) async fn guarded(body: &dyn Body, cx: &ActionContext) -> Result<Value, Failure> {
    match AssertUnwindSafe(body.perform(cx)).catch_unwind().await {
        Ok(result) => result,
        Err(panic) => {
            let words = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let words = words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            Err(Failure::new(FailureKind::Error, format!("a bug in `{}` of `{}`: {words}", body.kind(), cx.action)))
        }
    }
}

#[async_trait::async_trait]
impl Context for ActionContext {
    fn action(&self) -> &str {
        &self.action
    }
    fn types(&self) -> &Arc<Types> {
        &self.scope.agent.types
    }
    fn validators(&self) -> &Validators {
        &self.scope.agent.validators
    }
    fn rules(&self) -> &(dyn RuleEval + Sync) {
        &*self.scope.agent
    }
    fn templates(&self) -> &Arc<Templates> {
        &self.scope.agent.templates
    }
    fn vars(&self) -> &dyn Vars {
        &self.scope
    }
    fn arguments(&self) -> Option<&Map<String, Value>> {
        self.tool.as_ref().map(|tool| &tool.arguments)
    }
    fn output(&self) -> &Output {
        &self.output
    }
    fn world(&self) -> &dyn World {
        self.core.host.world()
    }
    fn dry_run(&self) -> bool {
        self.core.run.dry_run
    }

    fn permit(&self, permission: &str, subject: &str) -> Result<(), Failure> {
        for group in self.tool.iter().flat_map(|tool| &tool.groups) {
            if self.scope.agent.tool_groups.get(&**group).is_some_and(|group| !group.allows(permission)) {
                let message = format!(
                    "the tool group `{group}` does not allow `{permission}`, which `{subject}` needs; its \
                     `permissions` are the upper bound of what its tools may do"
                );
                return Err(Failure::new(FailureKind::Permission, message));
            }
        }
        let tools: Vec<&str> = self.tool.iter().flat_map(|tool| [&*tool.name, &*tool.own_name]).collect();
        self.core.host.permit(permission, subject, &tools, &self.core.run)
    }

    fn is_allowed(&self, permission: &str, subject: &str) -> bool {
        self.core.host.is_allowed(permission, subject)
    }

    fn notice(&self, key: &'static str, message: &str) {
        if self.core.host.is_first(key) {
            self.core.emit(|| What::Notice { key: key.to_owned(), message: message.to_owned() });
        }
    }

    async fn ask_model(
        &self,
        mut call: PromptCall,
        accept: &(dyn Fn(Value) -> Result<Value, Vec<String>> + Send + Sync),
    ) -> Result<Value, Failure> {
        if let Some(tool) = &self.tool {
            call.name = tool.name.clone();
        }
        let at = At { path: &self.path, log: &self.log };
        llm_call::ask(&self.core, &self.scope, &call, accept, at, Some(self)).await
    }

    async fn run_agent(&self, agent: &str, inputs: Option<Map<String, Value>>) -> Result<Value, Failure> {
        let step = self.path.next(&format!("agent:{agent}#"));
        self.core
            .step(&step, &self.log, |_| async {
                let process = self.sub_process(agent, inputs, &step).await?;
                self.run_sub_process(process, &step).await
            })
            .await
    }

    async fn call_tool(&self, tool: &str, arguments: Map<String, Value>) -> Result<Value, Failure> {
        let Some(tool) = self.scope.agent.tools.get(tool).cloned() else {
            return Err(Failure::new(FailureKind::Tool, format!("there is no tool `{tool}`")));
        };
        let tool = tool_offer::described(self, &tool).await?;
        self.call_offered(&Offered::plain(tool, &self.scope.agent.types), arguments).await
    }

    async fn effect(&self, kind: &str, effect: BoxFuture<'_, Result<Value, Failure>>) -> Result<Value, Failure> {
        self.core.step(&self.path.next(kind), &self.log, |_| effect).await
    }

    async fn ask_person(&self, question: Question) -> Result<Value, Failure> {
        let question = Question { action: self.action.to_string(), ..question };
        person::ask(&self.core, self.path.next("ask"), question, &self.log).await
    }

    fn objects(&self) -> Vec<Seen> {
        super::view::objects(&self.scope)
    }

    fn process_status(&self) -> Value {
        super::view::status(&self.core, &self.action)
    }

    fn process_history(&self) -> Value {
        super::view::history(&self.scope)
    }

    fn branch(&self, branch: Branch) -> Box<dyn Context> {
        let deadline = branch.timeout.map(|timeout| Instant::now() + timeout);
        Box::new(ActionContext {
            scope: self.scope.with_variables(branch.vars),
            output: branch.output,
            path: self.path.branch(&branch.path),
            deadline: match (self.deadline, deadline) {
                (Some(outer), Some(own)) => Some(outer.min(own)),
                (outer, own) => outer.or(own),
            },
            ..self.clone()
        })
    }

    fn progress(&self, progress: Progress) {
        if !self.core.steps.is_news(format!("{}:{}", self.path.text(), progress.part)) {
            return;
        }
        self.core.emit(|| What::PartFinished {
            action: self.action.to_string(),
            part: progress.part,
            done: progress.done,
            total: progress.total,
            ok: progress.ok,
            message: progress.message,
        });
    }

    async fn call_server(&self, call: ServerCall) -> Result<Value, Failure> {
        let on_progress = |at: mcp::Progress| {
            self.core.tell(|| What::ToolProgress {
                action: self.action.to_string(),
                tool: call.tool.clone(),
                progress: at.progress,
                total: at.total,
                message: at.message,
            });
        };
        self.core.host.call_server(&call, &on_progress).await
    }

    fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }
}

/// What a sub-process starts from: the parent's visible objects whose types the agent knows by name, and what `with`
/// gives. Of types that the agent itself makes and does not ask for, none are taken over: they would be results already.
fn inherited(parent: &Scope, core: &Core, with: Option<Map<String, Value>>) -> Result<Vec<Given>, Failure> {
    let agent = &core.agent;
    let asks_for = |id: TypeId| agent.inputs.iter().any(|input| agent.types.is_subtype(id, input.type_id));
    let makes = |id: TypeId| {
        let outputs = agent.actions.iter().flat_map(|action| action.output.types());
        outputs.copied().any(|output| agent.types.is_subtype(id, output) || agent.types.is_subtype(output, id))
    };
    let mut given = Vec::new();
    for (_, object) in parent.board.visible() {
        let Some(id) = agent.types.id(parent.agent.types.name(object.type_id)) else { continue };
        if makes(id) && !asks_for(id) {
            continue;
        }
        let value =
            agent.validators.validate_with(&Shape::named(id), (*object.value).clone(), &**agent, Tags::Inferred);
        if let Ok(valid) = value {
            let name = object.name.as_deref().map(str::to_owned);
            given.push(Given { type_id: valid.type_id.unwrap_or(id), name, value: valid.value });
        }
    }
    for (name, value) in with.into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        given.extend(given_input(core, &name, value)?);
    }
    Ok(given)
}

/// One entry of `with`: an input by its name, or any type by its name; a list input takes a list.
fn given_input(core: &Core, name: &str, value: Value) -> Result<Vec<Given>, Failure> {
    let agent = &core.agent;
    let input: Option<&Input> = agent.inputs.iter().find(|input| input.name == name);
    let Some(id) = input.map(|input| input.type_id).or_else(|| agent.types.id(name)) else {
        let message = format!("the agent `{}` has no input `{name}`", agent.name);
        return Err(Failure::new(FailureKind::Validation, message));
    };
    let values = match (input.is_some_and(|input| input.list), value) {
        (true, Value::Array(items)) => items,
        (_, value) => vec![value],
    };
    let one = |value: Value| {
        let valid = agent.validators.validate_with(&Shape::named(id), value, &**agent, Tags::Inferred);
        valid.map_err(|violations| {
            let listed: Vec<String> = violations.iter().map(ToString::to_string).collect();
            let message = format!("the input `{name}` of the agent `{}`: {}", agent.name, listed.join("; "));
            Failure::new(FailureKind::Validation, message)
        })
    };
    let given = |value: Value| {
        one(value).map(|valid| Given {
            type_id: valid.type_id.unwrap_or(id),
            name: input.map(|input| input.name.clone()),
            value: valid.value,
        })
    };
    values.into_iter().map(given).collect()
}

/// The result of a sub-process, or its failure as one of the action that ran it.
fn result_of(process: &Process) -> Result<Value, Failure> {
    let agent = &process.core().agent.name;
    if process.status() == Status::Completed {
        return Ok(process.result().map(|typed| typed.value.clone()).unwrap_or_default());
    }
    let (kind, why) = match process.failure() {
        Some((_, failure)) => (failure.kind, failure.message.clone()),
        None => (FailureKind::Error, format!("it is {}", process.status().word())),
    };
    Err(Failure::new(kind, format!("the agent `{agent}`: {why}")))
}
