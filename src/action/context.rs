//! What a body sees of the process that performs it. `process` implements it.

use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::llm::{Auto, Message, Options, OutputSchema};
use crate::prompt::{ExprId, TemplateId, Templates, Vars};
use crate::value::{Output, RuleEval, TypeId, Types, Validators};
use crate::world::World;

/// Why an action failed; `kind` is what `run --json` shows (cli.md 2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Which kind of failure.
    pub kind: FailureKind,
    /// What went wrong, for a person.
    pub message: String,
}

/// Kinds of failure (cli.md 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A model could not be asked.
    Llm,
    /// A value does not fit its type.
    Validation,
    /// A tool failed.
    Tool,
    /// An HTTP request failed.
    Http,
    /// A program failed.
    Exec,
    /// A guardrail blocked.
    Guardrail,
    /// Something was not permitted.
    Permission,
    /// It took too long.
    Timeout,
    /// A limit of the process was reached; the process is terminated.
    Limit,
    /// The model refused.
    Refusal,
    /// No plan was left.
    Stuck,
    /// Anything else: a template, an expr, a file.
    Error,
    /// The process was killed meanwhile.
    Killed,
    /// A person has to answer first. Not a failure of anything: whoever gets it hands it on as it is, no model sees it,
    /// nothing is tried again for it. The process waits, and the action is performed again once there is an answer.
    Waiting,
    /// No failure: a tool ended the action so that the process plans again (`replan`).
    Replan,
    /// The process's journal cannot be kept. The process stops; what was kept stays, and it can be resumed from there.
    Store,
}

impl FailureKind {
    /// The word of cli.md 2.
    pub fn word(self) -> &'static str {
        match self {
            FailureKind::Llm => "llm",
            FailureKind::Validation => "validation",
            FailureKind::Tool => "tool",
            FailureKind::Http => "http",
            FailureKind::Exec => "exec",
            FailureKind::Guardrail => "guardrail",
            FailureKind::Permission => "permission",
            FailureKind::Timeout => "timeout",
            FailureKind::Limit => "limit",
            FailureKind::Refusal => "refusal",
            FailureKind::Stuck => "stuck",
            FailureKind::Error => "error",
            FailureKind::Killed => "killed",
            FailureKind::Waiting => "waiting",
            FailureKind::Replan => "replan",
            FailureKind::Store => "error",
        }
    }
}

impl Failure {
    /// A failure of a kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into() }
    }

    /// Whether a person has to answer first, so that this is no failure at all.
    pub fn is_waiting(&self) -> bool {
        self.kind == FailureKind::Waiting
    }
}

/// What a person is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The action that asks; the context fills it in.
    pub action: String,
    /// What the person reads.
    pub prompt: String,
    /// The JSON Schema of the answer.
    pub form: Value,
    /// How the fields of the form are called, by name; fields without one go by their name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub labels: IndexMap<String, String>,
    /// What the question is about.
    pub kind: QuestionKind,
    /// How long the answer is waited for; then the step fails with `timeout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// What a question is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum QuestionKind {
    /// Data that the person gives.
    Ask,
    /// The next message of a chat.
    Message,
    /// Whether an action may go on.
    ConfirmAction,
    /// Whether a tool may be called.
    ConfirmTool {
        /// The tool.
        tool: String,
        /// Its arguments.
        arguments: Value,
    },
}

impl Question {
    /// A question for data that fits a JSON Schema.
    pub fn ask(prompt: impl Into<String>, form: Value) -> Question {
        Question {
            action: String::new(),
            prompt: prompt.into(),
            form,
            labels: IndexMap::new(),
            kind: QuestionKind::Ask,
            timeout: None,
        }
    }

    /// A question for agreement: its form is `{"confirm": true}`.
    pub fn confirm(prompt: impl Into<String>, kind: QuestionKind) -> Question {
        let form = json!({
            "type": "object",
            "properties": {"confirm": {"type": "boolean", "description": "Whether you agree"}},
            "required": ["confirm"],
            "additionalProperties": false,
        });
        Question { kind, ..Question::ask(prompt, form) }
    }
}

/// Whether the answer to a [`Question::confirm`] is yes.
pub fn is_yes(answer: &Value) -> bool {
    answer["confirm"] == Value::Bool(true)
}

/// How the prompts of a body are asked: `defaults` and the action's own settings, resolved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallSettings {
    /// The models to try: a position in the agent's table, [`Agent::models`](crate::program::Agent::models). The first is
    /// what holds for calls that do not say otherwise.
    pub models: usize,
    /// The persona's lines, as templates in order.
    pub persona: Vec<TemplateId>,
    /// Free text that joins the system message: when, text.
    pub contributors: Vec<(Option<ExprId>, TemplateId)>,
    /// The references that are offered: positions in the agent's table.
    pub references: Vec<usize>,
    /// Text of guardrails.
    pub guardrail_text: Vec<TemplateId>,
    /// The guardrails that hold: positions in the agent's table.
    pub guardrails: Vec<usize>,
    /// What is said is told to no one: a judge reads what others shall not.
    pub private: bool,
    /// Tools offered to the model.
    pub tools: Option<OfferId>,
    /// Turns of a tool loop at most.
    pub max_turns: u32,
}

/// What a prompt offers to its model: a position in the agent's table of offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferId(pub usize);

/// One model that may be asked.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelChoice {
    /// The roles it was named by, the outermost first; `run --llm ROLE=MODEL` replaces it. The model that nothing says
    /// otherwise about has the role `default`.
    pub roles: Vec<String>,
    /// `provider/id`; empty where no default is declared.
    pub model: String,
    /// What decides where no model is named: the cheapest, best or fastest that can do what the call needs.
    pub auto: Option<Auto>,
    /// How it is asked.
    pub options: Options,
    /// Further tries at the provider; `None` is the default policy.
    pub retries: Option<u32>,
}

/// One call to a model as a body wants it, before a model is chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptCall {
    /// Name of the call: the action's or condition's.
    pub name: String,
    /// The author's own system text.
    pub system: Option<String>,
    /// User messages (and examples, conversation) in order.
    pub messages: Vec<Message>,
    /// The schema the reply has to fit; `None` for plain text.
    pub output: Option<OutputSchema>,
    /// How it is asked.
    pub settings: Arc<CallSettings>,
    /// How many replies are tried before the action fails.
    pub attempts: u32,
}

/// An object of the blackboard, as tools may see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Its concrete type.
    pub type_id: TypeId,
    /// The name it is bound under, when it has one.
    pub name: Option<Arc<str>>,
    /// Its value.
    pub value: Arc<Value>,
}

/// What a body inside a body is performed with.
#[derive(Clone, Debug)]
pub struct Branch {
    /// Its place inside the body around it, such as `part3`; the same each time the action is performed.
    pub path: String,
    /// Variables that it sees beside those of the body around it; they cover those of the same name.
    pub vars: Vec<(String, minijinja::Value)>,
    /// What it gives.
    pub output: Output,
    /// How long it may take.
    pub timeout: Option<Duration>,
}

/// How far a body with parts or attempts has come.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// What has ended, such as `part 3` or `attempt 2`.
    pub part: String,
    /// How many have ended, this one too.
    pub done: usize,
    /// How many there are at most.
    pub total: usize,
    /// What there is to say of it: why it failed, or how it was judged.
    pub message: Option<String>,
    /// Whether it did what it should.
    pub ok: bool,
}

/// A call of a tool of an MCP server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerCall {
    /// The server, of `mcp_servers`.
    pub server: String,
    /// The tool, as the server calls it.
    pub tool: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// Whether it may be repeated when the server ended before it answered.
    pub idempotent: bool,
    /// How long it may take, the start of the server included.
    pub within: Option<Duration>,
}

/// The process around a body.
#[async_trait::async_trait]
pub trait Context: Send + Sync {
    /// The action's full name.
    fn action(&self) -> &str;
    /// The types of the agent.
    fn types(&self) -> &Arc<Types>;
    /// Validators of the agent's types.
    fn validators(&self) -> &Validators;
    /// What decides the `rules` of types.
    fn rules(&self) -> &(dyn RuleEval + Sync);
    /// Templates and exprs of the agent.
    fn templates(&self) -> &Arc<Templates>;
    /// The variables that the action's strings see.
    fn vars(&self) -> &dyn Vars;
    /// The arguments of the tool whose body is performed, validated and defaulted; `None` in an action's own body.
    fn arguments(&self) -> Option<&Map<String, Value>> {
        None
    }
    /// What the action outputs.
    fn output(&self) -> &Output;
    /// Files, clock and ids.
    fn world(&self) -> &dyn World;
    /// True under `--dry-run`: what would write, send or execute shows its arguments and returns a stub.
    fn dry_run(&self) -> bool;
    /// Refuses unless a permission such as `internet` or `exec` is granted for `subject` (a URL, a program).
    fn permit(&self, permission: &str, subject: &str) -> Result<(), Failure>;
    /// Whether a permission is granted without asking anyone.
    fn is_allowed(&self, permission: &str, subject: &str) -> bool;
    /// Tells the person something that they should know, once in a run for each `key`.
    fn notice(&self, key: &'static str, message: &str);
    /// Asks a model until `accept` takes a reply: it gets the reply's value and answers the value or what is wrong with
    /// it, which goes back to the model. Chooses the model, retries, falls back, counts usage and keeps the limits.
    async fn ask_model(
        &self,
        call: PromptCall,
        accept: &(dyn Fn(Value) -> Result<Value, Vec<String>> + Send + Sync),
    ) -> Result<Value, Failure>;
    /// Runs another agent as a sub-process to its goal and gives its output.
    async fn run_agent(&self, agent: &str, inputs: Option<Map<String, Value>>) -> Result<Value, Failure>;
    /// Calls a tool with arguments, as the process rather than a model does it.
    async fn call_tool(&self, tool: &str, arguments: Map<String, Value>) -> Result<Value, Failure>;
    /// The visible objects of the blackboard, oldest first.
    fn objects(&self) -> Vec<Seen>;
    /// The process as a document: what it is, what it has used and what is left of its limits.
    fn process_status(&self) -> Value;
    /// What the process has done so far, as a list of documents, the first action first.
    fn process_history(&self) -> Value;
    /// The process as a body inside this one sees it.
    fn branch(&self, branch: Branch) -> Box<dyn Context>;
    /// Tells whoever watches how far the body has come.
    fn progress(&self, progress: Progress);
    /// Calls a tool of an MCP server of the project, as the body of a tool does it.
    async fn call_server(&self, call: ServerCall) -> Result<Value, Failure>;
    /// Performs an effect on the outside (a request, a program) as a step: when the action is performed again after a
    /// crash or a wait, the effect is not, and gives what it gave. `kind` is a word such as `http`. Failures that the
    /// effect ends with are results too, but those of kind `waiting`, `killed` and `limit`.
    async fn effect(
        &self,
        kind: &str,
        effect: futures::future::BoxFuture<'_, Result<Value, Failure>>,
    ) -> Result<Value, Failure>;
    /// Asks a person, now or later: where no one can answer now this is a failure of kind `waiting`, which is handed on
    /// untouched. The answer fits the question's form.
    async fn ask_person(&self, question: Question) -> Result<Value, Failure>;
    /// Time left before the action's timeout, when it has one.
    fn time_left(&self) -> Option<Duration>;
}
