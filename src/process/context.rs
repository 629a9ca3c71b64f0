//! The process as a body sees it.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::action::context::{Branch, Progress, PromptCall, Question, QuestionKind, Seen, ServerCall, is_yes};
use crate::action::{Body, Context, Failure, FailureKind, lasting};
use crate::program::Input;
use crate::prompt::{Templates, Truth, Vars, shaped_value};
use crate::tool::mcp;
use crate::tool::{Confirm, Tool};
use crate::value::{Output, OutputKind, RuleEval, Shape, ShapeKind, Tags, TypeId, Types, Validators};
use crate::world::World;

use super::core::Core;
use super::document::{LlmNote, Status, ToolNote};
use super::event::What;
use super::ledger::Ledger;
use super::llm_call::{self, At, millis};
use super::person;
use super::run::{Given, Process, Start};
use super::scope::Scope;
use super::steps::{Done, Path};

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
    /// The arguments of the tool whose body is performed.
    pub(super) arguments: Option<Arc<Map<String, Value>>>,
    /// Where in the process this is.
    pub(super) path: Path,
}

impl ActionContext {
    /// A context that nothing is recorded of, as `render` wants it.
    pub fn detached(core: Arc<Core>, action: &str, scope: Scope, output: Output) -> ActionContext {
        let path = Path::of_action(action, 1, 1);
        ActionContext {
            core,
            action: Arc::from(action),
            scope,
            output,
            log: Arc::default(),
            deadline: None,
            arguments: None,
            path,
        }
    }

    fn note(&self, change: impl FnOnce(&mut CallLog)) {
        change(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The arguments of a tool, validated and defaulted.
    fn arguments(&self, tool: &Tool, arguments: Map<String, Value>) -> Result<Value, Failure> {
        let refused = |listed: Vec<String>| {
            let message = format!("the tool `{}` does not take this: {}", tool.name, listed.join("; "));
            Failure::new(FailureKind::Tool, message)
        };
        if let Some(schema) = &tool.schema {
            return schema.validate(Value::Object(arguments)).map_err(refused);
        }
        let shape = Shape::new(ShapeKind::Object(Box::new(tool.parameters.clone())));
        let valid = self.validators().validate_with(&shape, Value::Object(arguments), self.rules(), Tags::Inferred);
        valid
            .map(|valid| valid.value)
            .map_err(|violations| refused(violations.iter().map(ToString::to_string).collect()))
    }

    /// The context of a tool's body: its strings see the arguments, its steps stand below the call's.
    fn inside(&self, tool: &Tool, arguments: &Value, path: Path, log: Arc<Mutex<CallLog>>) -> ActionContext {
        let templates = &self.scope.agent.templates;
        let fields = arguments.as_object().into_iter().flatten();
        let views = fields.map(|(name, value)| {
            let any = Shape::new(ShapeKind::Any);
            let shape = tool.parameters.fields.get(name).map_or(&any, |field| &field.shape);
            (name.clone(), shaped_value(templates, shape, value))
        });
        let kind = tool.publish.map_or(OutputKind::None, OutputKind::One);
        let deadline = Instant::now() + tool.timeout;
        ActionContext {
            core: self.core.clone(),
            action: self.action.clone(),
            scope: self.scope.with_arguments(views.collect()),
            output: Output::new(kind),
            log,
            path,
            deadline: Some(self.deadline.map_or(deadline, |outer| outer.min(deadline))),
            arguments: arguments.as_object().cloned().map(Arc::new),
        }
    }

    /// Asks a person where the tool wants that, and where the call may have been made already.
    async fn may_call(
        &self,
        tool: &Tool,
        inside: &ActionContext,
        arguments: &Value,
        step: &str,
    ) -> Result<(), Failure> {
        let templates = &self.scope.agent.templates;
        if let Some(Confirm { when, ask: question }) = &tool.confirm
            && when.is_none_or(|when| templates.truth(when, &inside.scope) == Truth::True)
        {
            let question = match question {
                Some(question) => templates.render(*question, &inside.scope)?,
                None => format!("Call the tool `{}`?", tool.name),
            };
            self.agree(question, tool, arguments, format!("{step}/confirm")).await?;
        }
        let again = format!("{step}/again");
        if self.core.steps.was_begun(step) || self.core.steps.done(&again).is_some() {
            let name = &tool.name;
            let question = format!(
                "The tool `{name}` was being called when the program ended, and may have done its work. Call it again?"
            );
            self.agree(question, tool, arguments, again).await?;
        }
        Ok(())
    }

    /// A person's agreement to a call.
    async fn agree(&self, prompt: String, tool: &Tool, arguments: &Value, step: String) -> Result<(), Failure> {
        let kind = QuestionKind::ConfirmTool { tool: tool.name.clone(), arguments: arguments.clone() };
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
        tool: &Tool,
        arguments: &Value,
        step: &str,
        log: &Arc<Mutex<CallLog>>,
    ) -> Result<Value, Failure> {
        let tell = || {
            self.core.emit(|| What::ToolCalled {
                action: self.action.to_string(),
                tool: tool.name.clone(),
                arguments: arguments.clone(),
            });
        };
        let inside = self.inside(tool, arguments, Path::new(step), log.clone());
        if let Some(stubbed) = self.core.run.stubs.as_ref().and_then(|stubs| stubs.tool(&tool.name, arguments)) {
            tell();
            return inside.published(tool, stubbed?);
        }
        let Some(body) = &tool.body else {
            return Err(Failure::new(FailureKind::Tool, format!("not supported yet: the tool `{}`", tool.name)));
        };
        let agreed = self.may_call(tool, &inside, arguments, step).await;
        if !agreed.as_ref().is_err_and(Failure::is_waiting) {
            tell();
        }
        agreed?;
        let keeps = !tool.idempotent && !self.core.run.dry_run;
        if keeps {
            self.core.begin_step(step).await?;
        }
        let result = match tokio::time::timeout(tool.timeout, guarded(&**body, &inside)).await {
            Ok(result) => result,
            Err(_) => {
                let message = format!("the tool `{}` did not answer within {}", tool.name, lasting(tool.timeout));
                Err(Failure::new(FailureKind::Timeout, message))
            }
        };
        if keeps && result.as_ref().is_err_and(Failure::is_waiting) {
            self.core.withdraw_step(step);
        }
        inside.published(tool, result?)
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

    /// A call of a tool that was not completed before.
    async fn called(
        &self,
        tool: &Tool,
        arguments: Value,
        step: &str,
        log: &Arc<Mutex<CallLog>>,
    ) -> Result<Value, Failure> {
        let started = Instant::now();
        let result = self.perform_tool(tool, &arguments, step, log).await;
        if result.as_ref().is_err_and(Failure::is_waiting) {
            return result;
        }
        self.core.ledger.charge_tool();
        let ms = millis(started.elapsed());
        let status = if result.is_ok() { "ok" } else { "error" };
        let note = ToolNote { name: tool.name.clone(), status: status.to_owned(), ms };
        log.lock().unwrap_or_else(PoisonError::into_inner).tools.push(note);
        self.core.emit(|| What::ToolResult {
            action: self.action.to_string(),
            tool: tool.name.clone(),
            ok: result.is_ok(),
            result: match &result {
                Ok(value) => value.clone(),
                Err(failure) => Value::from(failure.message.clone()),
            },
            ms,
        });
        result
    }

    /// A sub-process of an agent: the one that this step has started before, or a new one.
    fn sub_process(&self, agent: &str, inputs: Option<Map<String, Value>>, step: &str) -> Result<Process, Failure> {
        if let Some(parked) = self.core.steps.unpark(step) {
            return Ok(*parked);
        }
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
        let ledger = Arc::new(Ledger::new(agent.limits, Some(self.core.ledger.clone())));
        let (host, run, kill) = (self.core.host.clone(), self.core.run.clone(), self.core.kill.clone());
        let core = Core::new(host, agent, index, run, ledger, kill);
        let core = core.inside(&self.core.id, depth);
        let given = inherited(&self.scope, &core, inputs)?;
        Process::new(core, Start { given, ..Start::default() })
    }

    /// Runs a sub-process until it ends, or waits for a person.
    async fn run_sub_process(&self, mut process: Process, step: &str) -> Result<Value, Failure> {
        loop {
            process.run().await;
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
        self.arguments.as_deref()
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
        self.core.host.permit(permission, subject, &self.core.run)
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
        call: PromptCall,
        accept: &(dyn Fn(Value) -> Result<Value, Vec<String>> + Send + Sync),
    ) -> Result<Value, Failure> {
        llm_call::ask(&self.core, &self.scope, &call, accept, At { path: &self.path, log: &self.log }).await
    }

    async fn run_agent(&self, agent: &str, inputs: Option<Map<String, Value>>) -> Result<Value, Failure> {
        let step = self.path.next(&format!("agent:{agent}#"));
        self.core
            .step(&step, &self.log, |_| async {
                let process = self.sub_process(agent, inputs, &step)?;
                self.run_sub_process(process, &step).await
            })
            .await
    }

    async fn call_tool(&self, tool: &str, arguments: Map<String, Value>) -> Result<Value, Failure> {
        let step = self.path.next(&format!("tool:{tool}#"));
        let Some(tool) = self.scope.agent.tools.get(tool).cloned() else {
            return Err(Failure::new(FailureKind::Tool, format!("there is no tool `{tool}`")));
        };
        let arguments = self.arguments(&tool, arguments)?;
        let (cx, tool, at) = (self, &tool, step.as_str());
        self.core.step(at, &self.log, |log| async move { cx.called(tool, arguments, at, &log).await }).await
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
            self.core.emit(|| What::ToolProgress {
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
