//! The model of a case: answers from the case's replies, or made up from the types, and remembers what was asked.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::llm::{
    Capabilities, DeltaSink, Llm, LlmError, LlmErrorKind, Outcome, OutputMode, Part, Reply, Request, Rule, Script,
    Scripted, Step, ToolSpec,
};
use crate::process::supervisor;
use crate::value::{Types, Validators, sample, view};

/// One call to a model.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    /// What was sent.
    pub(super) request: Request,
    /// What came back; `None`: an error.
    pub(super) reply: Option<Reply>,
}

/// The model of one case.
pub(super) struct CaseModel {
    script: Scripted,
    sampled: bool,
    exchanges: Mutex<Vec<Exchange>>,
    /// Calls that nothing answers: the request and what was said of it.
    unanswered: Mutex<Vec<(Request, String)>>,
}

impl CaseModel {
    pub(super) fn new(script: Script, sampled: bool) -> CaseModel {
        let script = Scripted::new(script);
        CaseModel { script, sampled, exchanges: Mutex::default(), unanswered: Mutex::default() }
    }

    /// What was asked and answered, in order; taken out.
    pub(super) fn take(&self) -> Vec<Exchange> {
        std::mem::take(&mut *self.exchanges.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Calls that nothing answered.
    pub(super) fn unanswered(&self) -> Vec<(Request, String)> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// For each rule of the script how many of its steps were used.
    pub(super) fn used(&self) -> Vec<u64> {
        self.script.used()
    }
}

/// A reply that a request could get: data made up from the schema of its output.
fn sampled(request: &Request) -> Result<Value, String> {
    match &request.output {
        None => Ok(Value::from(format!("A reply to {}", request.name))),
        Some(output) => made_up(&output.schema),
    }
}

/// Data that fits a schema.
pub(super) fn made_up(schema: &Value) -> Result<Value, String> {
    sample(&Validators::new(Arc::new(Types::with_built_ins())), &view(schema))
}

/// A reply that a request could get, as a test file says it: data, or the next call of a supervisor.
pub(super) fn suggested(request: &Request) -> Result<Value, String> {
    match next_call(request) {
        Some((tool, arguments)) => Ok(json!({"call": {"tool": tool, "with": arguments}})),
        None => sampled(request),
    }
}

/// The next call of a made-up supervisor: what is ready and was not called before, the way to a goal first.
fn next_call(request: &Request) -> Option<(String, Value)> {
    if request.name != supervisor::NAME {
        return None;
    }
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    let called = |name: &str| parts.clone().any(|part| matches!(part, Part::ToolCall { name: of, .. } if of == name));
    let says = |tool: &ToolSpec, begins: &str| tool.description.lines().any(|line| line.starts_with(begins));
    let rank = |tool: &&ToolSpec| (!says(tool, supervisor::READY), !says(tool, supervisor::LEADS));
    let next = request.tools.iter().filter(|tool| !called(&tool.name)).min_by_key(rank)?;
    let arguments = made_up(&next.parameters).ok()?;
    Some((next.name.clone(), arguments))
}

#[async_trait]
impl Llm for CaseModel {
    fn capabilities(&self, model: &str) -> Capabilities {
        self.script.capabilities(model)
    }

    async fn call(&self, request: &Request, sink: &dyn DeltaSink) -> Result<Reply, LlmError> {
        let mut reply = self.script.call(request, sink).await;
        if let Err(error) = &reply
            && error.kind == LlmErrorKind::NoRule
        {
            let made_up = match next_call(request) {
                Some(call) => Some(Outcome::Call(vec![call])),
                None => sampled(request).ok().map(Outcome::Reply),
            };
            match made_up.filter(|_| self.sampled) {
                Some(outcome) => {
                    let rule = Rule { steps: vec![Step::of(outcome)], ..Rule::default() };
                    reply = Scripted::new(Script { rules: vec![rule] }).call(request, sink).await;
                }
                None => {
                    let mut unanswered = self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
                    unanswered.push((request.clone(), error.message.clone()));
                }
            }
        }
        let exchange = Exchange { request: request.clone(), reply: reply.as_ref().ok().cloned() };
        self.exchanges.lock().unwrap_or_else(PoisonError::into_inner).push(exchange);
        reply
    }

    fn wire(&self, request: &Request) -> Value {
        self.script.wire(request)
    }

    fn output_mode(&self, model: &str, schema: &Value) -> OutputMode {
        self.script.output_mode(model, schema)
    }
}
