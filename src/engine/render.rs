//! `render`: the exact request that an action's first LLM call would send (cli.md 3).

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use crate::action::context::PromptCall;
use crate::llm::{Message, Part, Request, Role, picture_shown};
use crate::process::references::refer;
use crate::process::run::Given;
use crate::process::tool_loop::ToolLoop;
use crate::process::{ActionContext, Core, Scope, llm_call, supervisor};
use crate::program::{Agent, PlannerKind};
use crate::reference::Reach;
use crate::value::Shape;

use super::{Engine, Input, RunOptions, StartError, inputs};

/// The document of `render --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RenderDocument {
    /// The action.
    pub action: String,
    /// `provider/id`; null when none is chosen.
    pub model: Option<String>,
    /// Settings of the call that are set.
    pub options: Value,
    /// The messages, the system message first.
    pub messages: Vec<MessageDocument>,
    /// The tools offered: `{name, description, parameters}`.
    pub tools: Vec<Value>,
    /// The form that the reply must have; null for text.
    pub output_schema: Option<Value>,
    /// About how many tokens are sent: a quarter of the bytes.
    pub input_tokens_estimate: u64,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MessageDocument {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// The text; an image shows as `<image/png, 12,345 bytes, sha256 …>`.
    pub content: String,
    /// About how many tokens it has: a quarter of the bytes.
    pub tokens_estimate: u64,
}

impl Engine {
    /// The request of an action's LLM call on the given inputs; under `sample` missing ones are made up from their types.
    ///
    /// # Errors
    /// A wrong action or input, a missing one, a template that fails, no such provider.
    pub async fn render(
        &self,
        agent: &str,
        action: &str,
        given: Vec<Input>,
        sample: bool,
        run: RunOptions,
    ) -> Result<RenderDocument, StartError> {
        Ok(RenderDocument::of(&self.request(agent, action, given, sample, run).await?))
    }

    /// The same as the request itself.
    ///
    /// # Errors
    /// As [`Engine::render`].
    pub async fn request(
        &self,
        agent: &str,
        action: &str,
        given: Vec<Input>,
        sample: bool,
        run: RunOptions,
    ) -> Result<Request, StartError> {
        let agent = self.agent(Some(agent))?;
        let is_supervised = run.planner.unwrap_or(agent.planner) == PlannerKind::Supervisor;
        if action == supervisor::NAME && is_supervised && agent.actions.iter().all(|own| own.name != action) {
            return self.supervisor_request(&agent, given, sample, run);
        }
        let Some(declared) = agent.actions.iter().find(|declared| declared.name == action) else {
            let names = agent.actions.iter().map(|action| action.name.as_str());
            let help = crate::diag::suggest::near_or_all(action, names, "its actions");
            return Err(StartError::BadOption(format!("the agent `{}` has no action `{action}`; {help}", agent.name)));
        };
        let mut objects = inputs::given(&agent, given, self.inner().world.as_ref())?;
        if sample {
            add_samples(&agent, &declared.inputs, &mut objects)?;
            let entered =
                |given: &Given| declared.state.is_none_or(|state| agent.types.is_subtype(given.type_id, state));
            if let Some(state) = declared.state.filter(|_| !objects.iter().any(entered)) {
                add_samples(&agent, &[as_input(&agent, state)], &mut objects)?;
            }
            self.add_required(&agent, declared, &mut objects).await?;
        }
        let mut process = self.process(&agent, objects, run)?;
        process.hear_given();
        let in_its_state = |state| process.blackboard().count(state) > 0;
        if let Some(state) = declared.state.filter(|state| !in_its_state(*state)) {
            let missing = as_input(&agent, state);
            return Err(StartError::MissingInputs(vec![inputs::describe(&agent, &missing.name, state)]));
        }
        let Some(bound) = process.blackboard().bind(&declared.inputs) else {
            let missing = declared.inputs.iter().filter(|input| !input.optional);
            let missing = missing.filter(|input| process.blackboard().count(input.type_id) == 0);
            return Err(StartError::MissingInputs(
                missing.map(|input| inputs::describe(&agent, &input.name, input.type_id)).collect(),
            ));
        };
        let scope = process.scope().for_action(declared).with_inputs(&declared.inputs, &bound);
        let core = process.core();
        let cx = ActionContext::detached(core.clone(), action, scope.clone(), declared.output.clone());
        let wrong = |failure: crate::action::Failure| StartError::BadOption(failure.message);
        let Some(call) = declared.body.prompt(&cx).map_err(wrong)? else {
            let kind = declared.body.kind();
            return Err(StartError::BadOption(format!("the action `{action}` asks no model; its body is `{kind}`")));
        };
        // Nothing is fetched either: of what is outside, what is kept of it is shown.
        let referred = refer(&cx, &call.settings, Reach::Kept).await.map_err(wrong)?;
        let tools = match referred.offer {
            Some(offer) => ToolLoop::begin(&cx, offer).await.map_err(wrong)?.specs(),
            None => Vec::new(),
        };
        let around = llm_call::Around { notes: referred.notes, is_foreign: referred.is_foreign, tools };
        first_request(core, &scope, &call, &around).map_err(wrong)
    }

    /// The first request of a supervisor.
    fn supervisor_request(
        &self,
        agent: &Arc<Agent>,
        given: Vec<Input>,
        sample: bool,
        run: RunOptions,
    ) -> Result<Request, StartError> {
        let mut objects = inputs::given(agent, given, self.inner().world.as_ref())?;
        match sample {
            true => add_samples(agent, &agent.inputs, &mut objects)?,
            false => inputs::refuse_missing(agent, &objects)?,
        }
        let mut process = self.process(agent, objects, run)?;
        process.hear_given();
        let wrong = |failure: crate::action::Failure| StartError::BadOption(failure.message);
        let (call, tools) = process.supervisor_request().map_err(wrong)?;
        let around = llm_call::Around { tools, ..llm_call::Around::default() };
        first_request(process.core(), &process.scope(), &call, &around).map_err(wrong)
    }
}

/// The request of a call to the first of its models. Nothing is sent, so one without a model can be rendered too.
fn first_request(
    core: &Core,
    scope: &Scope,
    call: &PromptCall,
    around: &llm_call::Around,
) -> Result<Request, crate::action::Failure> {
    let choice = scope.agent.models_of(&call.settings).first();
    match choice.filter(|choice| choice.auto.is_some() || !llm_call::model_of(core, choice).is_empty()) {
        // What `auto` would choose, where there is something to choose from.
        Some(choice) if choice.auto.is_some() => llm_call::request(core, scope, call, choice, around)
            .map(|(_, request)| request)
            .or_else(|_| llm_call::draft(core, scope, call, None, around)),
        Some(choice) => llm_call::request(core, scope, call, choice, around).map(|(_, request)| request),
        None => llm_call::draft(core, scope, call, None, around),
    }
}

/// A type as an input, for an action that is rendered on its own.
pub(super) fn as_input(agent: &crate::program::Agent, type_id: crate::value::TypeId) -> crate::program::Input {
    let name = crate::value::snake_case(agent.types.name(type_id));
    crate::program::Input { name, type_id, list: false, optional: false, named: false }
}

/// Makes up what an action's inputs lack.
pub(super) fn add_samples(
    agent: &crate::program::Agent,
    wanted: &[crate::program::Input],
    objects: &mut Vec<Given>,
) -> Result<(), StartError> {
    let mut free: Vec<_> = objects.iter().map(|object| object.type_id).collect();
    for input in wanted {
        if let Some(at) = free.iter().position(|id| agent.types.is_subtype(*id, input.type_id)) {
            free.remove(at);
            continue;
        }
        let concrete = agent.types.concrete(input.type_id).first().copied().unwrap_or(input.type_id);
        let value = crate::value::sample(&agent.validators, &Shape::named(concrete))
            .map_err(|why| StartError::BadInput(format!("the input `{}`: {why}", input.name)))?;
        objects.push(Given { type_id: concrete, name: input.named.then(|| input.name.clone()), value });
    }
    Ok(())
}

impl RenderDocument {
    /// The document of a request.
    pub fn of(request: &Request) -> RenderDocument {
        let mut options = json!(request.options);
        if let Value::Object(options) = &mut options {
            options.remove("stream");
        }
        let system = request.system.iter().map(|text| message_document("system", text.clone()));
        let messages: Vec<MessageDocument> = system.chain(request.messages.iter().map(message)).collect();
        let schema = request.output.as_ref().map(|output| output.schema.clone());
        let sent: usize = messages.iter().map(|message| message.content.len()).sum();
        let native = request.output.as_ref().is_some_and(|output| output.mode == crate::llm::OutputMode::Native);
        let schema_bytes = schema.as_ref().filter(|_| native).map_or(0, |schema| schema.to_string().len());
        let tools: Vec<Value> = request.tools.iter().map(|tool| json!(tool)).collect();
        let tool_bytes: usize = tools.iter().map(|tool| tool.to_string().len()).sum();
        RenderDocument {
            action: request.name.clone(),
            model: (!request.model.is_empty()).then(|| request.full_model()),
            options,
            messages,
            tools,
            output_schema: schema,
            input_tokens_estimate: (sent + schema_bytes + tool_bytes).div_ceil(4) as u64,
        }
    }
}

fn message_document(role: &str, content: String) -> MessageDocument {
    let tokens_estimate = content.len().div_ceil(4) as u64;
    MessageDocument { role: role.to_owned(), content, tokens_estimate }
}

fn message(message: &Message) -> MessageDocument {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let shown = message.parts.iter().map(|part| match part {
        Part::Text { text } | Part::Thinking { text, .. } => text.clone(),
        Part::Image { mime, source } => picture_shown(mime, source),
        Part::ToolCall { name, arguments, .. } => format!("[call {name} {arguments}]"),
        Part::ToolResult { name, content, .. } => format!("[result of {name}] {content}"),
    });
    message_document(role, shown.collect::<Vec<_>>().join("\n"))
}
