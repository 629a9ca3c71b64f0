//! What a body sees of the declarations around it when it is lowered. `compile` implements it.

use std::sync::Arc;

use serde_json::Value;

use crate::decl::models::LlmChoice;
use crate::decl::{Data as WrittenData, Expr, Name, Template};
use crate::diag::Diagnostic;
use crate::llm::Secret;
use crate::prompt::{Data, ExprId, TemplateId, Ty};
use crate::value::{ObjectDef, Output, Shape, Types};

use super::context::CallSettings;
pub use super::nested::NestedSettings;

/// Variables that a body adds to those of its action: name and static type.
pub type Extra<'a> = &'a [(String, Ty)];

/// The declarations around a body. Every method that can find a mistake reports it with its place and returns `None`.
pub trait LowerCx {
    /// The types of the agent.
    fn types(&self) -> &Types;
    /// What the action outputs.
    fn output(&self) -> &Output;
    /// The settings (model, persona, references, …) that hold for the body's prompts.
    fn settings(&self) -> Arc<CallSettings>;
    /// Checks and registers a template.
    fn template(&mut self, text: &Template, extra: Extra<'_>) -> Option<TemplateId>;
    /// Checks and registers a template file, by its name without `.jinja` (`star-news/find_news`).
    fn template_file(&mut self, name: &Name, extra: Extra<'_>) -> Option<TemplateId>;
    /// Checks and registers an expr.
    fn expr(&mut self, expr: &Expr, extra: Extra<'_>) -> Option<ExprId>;
    /// The static type of an expr, `Any` where it cannot be known.
    fn expr_ty(&mut self, expr: &Expr, extra: Extra<'_>) -> Ty;
    /// Checks and registers data in a data position, against the shape it has to fit when there is one.
    fn data(&mut self, data: &WrittenData, expected: Option<&Shape>, extra: Extra<'_>) -> Option<Data>;
    /// Checks and registers data that becomes the action's output.
    fn output_data(&mut self, data: &WrittenData, extra: Extra<'_>) -> Option<Data>;
    /// From here on, until [`LowerCx::forget`], `test` is known to hold (or not) where the body's strings are used.
    fn assume(&mut self, test: &Expr, holds: bool);
    /// Forgets what was assumed.
    fn forget(&mut self);
    /// Resolves a declared type by name.
    fn type_named(&mut self, name: &Name) -> Option<crate::value::TypeId>;
    /// Resolves another agent by name; the index is into `Program::agents`.
    fn agent(&mut self, name: &Name) -> Option<AgentRef>;
    /// Resolves a declared tool by name.
    fn tool(&mut self, name: &Name) -> Option<ToolRef>;
    /// Checks a model, role or `llm` record and gives the settings of the action with it in force.
    fn llm(&mut self, choice: &LlmChoice) -> Option<Arc<CallSettings>>;
    /// The settings of a body inside a body: its own over `base`, those of the body around it.
    fn settings_under(&mut self, own: &NestedSettings, base: &CallSettings) -> Arc<CallSettings>;
    /// Reads a data file of the project (an image, say), so that it is watched and known to exist.
    fn file(&mut self, path: &Name) -> Option<Arc<str>>;
    /// Resolves every `${env:NAME}` and `${env:NAME:-default}` of a text, as written and as it is; a variable that is
    /// not set and has no default is a finding. Only `http.headers` and `exec.env` may ask (language.md 2).
    fn environment(&mut self, text: &Template) -> Option<Vec<(String, Secret)>>;
    /// Reports a name that a variable cannot have; `what` is "a loop variable".
    fn check_variable(&mut self, name: &Name, what: &str);
    /// Reports a finding.
    fn report(&mut self, diagnostic: Diagnostic);
}

/// Another agent of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentRef {
    /// Its name.
    pub name: String,
    /// Its declared inputs: name, type's name, required.
    pub inputs: Vec<(String, String, bool)>,
    /// Names of the types its goals output.
    pub outputs: Vec<String>,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its inputs: an object's, with a member for each.
    pub input_schema: Value,
}

/// A declared tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolRef {
    /// Its name in the agent's table of tools.
    pub name: String,
    /// Its parameters.
    pub parameters: ObjectDef,
    /// What calling it touches.
    pub needs: Needs,
}

/// What performing a body touches (runtime.md 8).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Needs {
    /// Permissions such as `internet`, `exec`, `files:read`, `mcp:brave`.
    pub permissions: Vec<String>,
    /// Endpoints and programs, as far as they are known before the run.
    pub endpoints: Vec<String>,
    /// Other agents of the program that it runs, by name.
    pub agents: Vec<String>,
}
