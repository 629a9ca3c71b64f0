//! The model of a case: answers from the case's replies, or made up from the types, and remembers what was asked.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::Value;

use crate::llm::{
    Capabilities, DeltaSink, Llm, LlmError, LlmErrorKind, Outcome, OutputMode, Reply, Request, Rule, Script, Scripted,
    Step,
};
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
pub(super) fn sampled(request: &Request) -> Result<Value, String> {
    match &request.output {
        None => Ok(Value::from(format!("A reply to {}", request.name))),
        Some(output) => made_up(&output.schema),
    }
}

/// Data that fits a schema.
pub(super) fn made_up(schema: &Value) -> Result<Value, String> {
    sample(&Validators::new(Arc::new(Types::with_built_ins())), &view(schema))
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
            match sampled(request).ok().filter(|_| self.sampled) {
                Some(value) => {
                    let rule = Rule { steps: vec![Step::of(Outcome::Reply(value))], ..Rule::default() };
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
