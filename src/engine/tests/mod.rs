//! Processes of compiled workflows in a world in memory, on scripted models.

mod acting;
mod asking;
mod bodies;
mod models;
mod nesting;
mod chat;
mod keeping;
mod guardrails;
mod system;
mod traces;
mod planning;
mod reloading;
mod replay;
mod starting;
mod supervising;
mod utility;
mod waiting;

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{Engine, Input, RunOptions, StartError};
use crate::compile::{Entry, compile};
use crate::diag::Severity;
use crate::llm::Script;
use crate::process::{Document, Event};
use crate::program::Program;
use crate::world::MemoryWorld;

/// A workflow with its script and options, run to its end.
pub(super) struct Case {
    files: Vec<(String, String)>,
    pub(super) inputs: Vec<Input>,
    pub(super) options: RunOptions,
}

impl Case {
    /// The workflow of this text, run on the text "hello".
    pub(super) fn new(workflow: &str) -> Case {
        let files = vec![
            ("workflows/test.yaml".to_owned(), workflow.to_owned()),
            ("agent-run.yaml".to_owned(), "models: {default: openai/gpt-4.1-mini}\n".to_owned()),
        ];
        let options = RunOptions { no_date_line: true, ..RunOptions::default() };
        Case { files, inputs: vec![Input::Text("hello".to_owned())], options }
    }

    /// A further file.
    pub(super) fn file(mut self, path: &str, text: &str) -> Case {
        self.files.retain(|(other, _)| other != path);
        self.files.push((path.to_owned(), text.to_owned()));
        self
    }

    /// The scripted model's rules.
    pub(super) fn script(mut self, rules: Value) -> Case {
        self.options.script = Some(Script::from_value(&json!({ "replies": rules })).expect("a script"));
        self
    }

    pub(super) fn inputs(mut self, inputs: Vec<Input>) -> Case {
        self.inputs = inputs;
        self
    }

    pub(super) fn options(mut self, change: impl FnOnce(&mut RunOptions)) -> Case {
        change(&mut self.options);
        self
    }

    /// The engine of the compiled files, and the name of its first agent.
    pub(super) fn engine(&self) -> (Engine, String) {
        let program = self.program();
        let name = program.agents[0].name.clone();
        (Engine::new(program, Arc::new(self.world())), name)
    }

    pub(super) fn world(&self) -> MemoryWorld {
        MemoryWorld::with_files(self.files.iter().map(|(path, text)| (path.as_str(), text.as_str())))
    }

    /// The compiled files.
    pub(super) fn program(&self) -> Arc<Program> {
        let world = self.world();
        let compiled = compile(&world, Entry::File("workflows/test.yaml".into()));
        let errors: Vec<String> = compiled
            .diagnostics
            .iter()
            .filter(|found| found.severity == Severity::Error)
            .map(|found| format!("{}: {}", found.code, found.message))
            .collect();
        compiled.program.unwrap_or_else(|| panic!("does not compile: {errors:#?}"))
    }

    /// Runs to the end.
    pub(super) async fn run(self) -> Document {
        self.try_run().await.expect("the run begins")
    }

    pub(super) async fn try_run(self) -> Result<Document, StartError> {
        let (engine, name) = self.engine();
        let mut process = engine.start(&name, self.inputs, self.options)?;
        process.run().await;
        Ok(process.document())
    }

    /// Runs to the end and gives all events too.
    pub(super) async fn observed(mut self) -> (Document, Vec<Event>) {
        let events: Arc<Mutex<Vec<Event>>> = Arc::default();
        let heard = events.clone();
        self.options.observer = Some(Arc::new(move |event: &Event| heard.lock().unwrap().push(event.clone())));
        let document = self.run().await;
        let events = std::mem::take(&mut *events.lock().unwrap());
        (document, events)
    }
}

/// Names of the actions of the history, with their status where that is not `succeeded`.
pub(super) fn ran(document: &Document) -> Vec<String> {
    let shown = document.history.iter().map(|entry| match entry.status.word() {
        "succeeded" => entry.action.clone(),
        other => format!("{} {other}", entry.action),
    });
    shown.collect()
}

/// The value of the result.
pub(super) fn output(document: &Document) -> Value {
    match &document.output {
        Some(typed) => typed.value.clone(),
        None => panic!("no output: {:?} {:?}", document.status, document.failure),
    }
}

/// Kind and message of the failure.
pub(super) fn failure(document: &Document) -> (String, String) {
    let failure = document.failure.as_ref().expect("a failure");
    (failure.kind.clone(), failure.message.clone())
}
