//! The process as a body sees it.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::action::context::{Branch, Progress, PromptCall, Seen, ServerCall};
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
use super::llm_call::{self, millis};
use super::run::{Given, Process, Start};
use super::scope::Scope;

/// What the calls of one action left behind.
#[derive(Debug, Default)]
pub(super) struct CallLog {
    /// Calls to models, in order.
    pub(super) llm: Vec<LlmNote>,
    /// Calls to tools, in order.
    pub(super) tools: Vec<ToolNote>,
    /// Objects that tools published, for the blackboard.
    pub(super) published: Vec<(TypeId, Value)>,
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
}

impl ActionContext {
    /// A context that nothing is recorded of, as `render` wants it.
    pub fn detached(core: Arc<Core>, action: &str, scope: Scope, output: Output) -> ActionContext {
        ActionContext {
            core,
            action: Arc::from(action),
            scope,
            output,
            log: Arc::default(),
            deadline: None,
            arguments: None,
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

    /// The context of a tool's body: its strings see the arguments.
    fn inside(&self, tool: &Tool, arguments: &Value) -> ActionContext {
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
            log: self.log.clone(),
            deadline: Some(self.deadline.map_or(deadline, |outer| outer.min(deadline))),
            arguments: arguments.as_object().cloned().map(Arc::new),
        }
    }

    /// Asks a person where the tool wants that.
    fn confirm(&self, tool: &Tool, inside: &ActionContext) -> Result<(), Failure> {
        let Some(Confirm { when, ask: question }) = &tool.confirm else { return Ok(()) };
        let templates = &self.scope.agent.templates;
        if when.is_some_and(|when| templates.truth(when, &inside.scope) != Truth::True) {
            return Ok(());
        }
        let question = match question {
            Some(question) => templates.render(*question, &inside.scope)?,
            None => format!("Call the tool `{}`?", tool.name),
        };
        self.core.host.confirm(&question, &self.core.run)
    }

    async fn perform_tool(&self, tool: &Tool, arguments: Value) -> Result<Value, Failure> {
        if let Some(stubbed) = self.core.run.stubs.as_ref().and_then(|stubs| stubs.tool(&tool.name, &arguments)) {
            return self.published(tool, stubbed?);
        }
        let Some(body) = &tool.body else {
            return Err(Failure::new(FailureKind::Tool, format!("not supported yet: the tool `{}`", tool.name)));
        };
        let inside = self.inside(tool, &arguments);
        self.confirm(tool, &inside)?;
        let result = match tokio::time::timeout(tool.timeout, guarded(&**body, &inside)).await {
            Ok(result) => result?,
            Err(_) => {
                let message = format!("the tool `{}` did not answer within {}", tool.name, lasting(tool.timeout));
                return Err(Failure::new(FailureKind::Timeout, message));
            }
        };
        self.published(tool, result)
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

    async fn ask_model(
        &self,
        call: PromptCall,
        accept: &(dyn Fn(Value) -> Result<Value, Vec<String>> + Send + Sync),
    ) -> Result<Value, Failure> {
        llm_call::ask(&self.core, &self.scope, &call, accept, &self.log).await
    }

    async fn run_agent(&self, agent: &str, inputs: Option<Map<String, Value>>) -> Result<Value, Failure> {
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
        let mut process = Process::new(core, Start { given, ..Start::default() })?;
        process.run().await;
        result_of(&process)
    }

    async fn call_tool(&self, tool: &str, arguments: Map<String, Value>) -> Result<Value, Failure> {
        let Some(tool) = self.scope.agent.tools.get(tool).cloned() else {
            return Err(Failure::new(FailureKind::Tool, format!("there is no tool `{tool}`")));
        };
        let arguments = self.arguments(&tool, arguments)?;
        self.core.emit(|| What::ToolCalled {
            action: self.action.to_string(),
            tool: tool.name.clone(),
            arguments: arguments.clone(),
        });
        self.core.ledger.charge_tool();
        let started = Instant::now();
        let result = self.perform_tool(&tool, arguments).await;
        let ms = millis(started.elapsed());
        let status = if result.is_ok() { "ok" } else { "error" };
        self.note(|log| log.tools.push(ToolNote { name: tool.name.clone(), status: status.to_owned(), ms }));
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
