//! Bodies inside bodies (`scatter_gather`, `repeat_until`): one body with its own settings, seen with further variables
//! and an output of its own.

use std::sync::Arc;

use minijinja::Value as View;
use serde_json::{Value, json};

use crate::decl::basic::mapping;
use crate::decl::body::{BodyNode, read_body};
use crate::decl::models::LlmChoice;
use crate::decl::read::{Read, properties_of, refuse_unknown_keys};
use crate::decl::tools::ToolUse;
use crate::decl::{ACTION_BODIES, Data as WrittenData, Defs, Duration, Expr, List, Name, ReadCx, Template};
use crate::diag::Diagnostic;
use crate::llm::Secret;
use crate::prompt::{Data, ExprId, TemplateId, Ty, from_json, shaped_value};
use crate::record;
use crate::source::{Node, Span, Spanned};
use crate::value::{Output, OutputKind, Shape, Tags, TypeId, Types, Valid, present, snake_case};

use super::context::{Branch, CallSettings, Context, Failure, FailureKind, PromptCall};
use super::lower::{AgentRef, Extra, LowerCx, Needs, ToolRef};
use super::shared::lasting;
use super::{Body, Written};

/// How deep bodies may stand in bodies.
const NESTING_MAX: usize = 8;

record! {
    /// What a body inside a body may say beside its kind.
    pub struct NestedSettings = "a body" {
        /// Which model, and how it is asked.
        opt llm: LlmChoice,
        /// Tools that the model may call.
        opt tools: List<ToolUse>,
        /// Who the model is.
        opt persona: Name,
        /// References that the model sees.
        opt references: List<Name>,
        /// How long it may take.
        opt timeout: Duration,
    }
}

/// A body inside a body, as written.
#[derive(Clone, Debug)]
pub(super) struct NestedDecl {
    settings: NestedSettings,
    node: BodyNode,
    body: Arc<dyn Written>,
}

impl PartialEq for NestedDecl {
    fn eq(&self, other: &NestedDecl) -> bool {
        self.settings == other.settings && self.node == other.node
    }
}

impl Read for NestedDecl {
    fn expected() -> String {
        "a body such as `{prompt: …}`".to_owned()
    }

    fn read(node: &Node, cx: &mut ReadCx) -> Option<NestedDecl> {
        if cx.depth >= NESTING_MAX {
            let message = format!("bodies are nested deeper than {NESTING_MAX} levels");
            cx.report(Diagnostic::error("nested-too-deep", node.span, message));
            return None;
        }
        let map = mapping(node, &Self::expected(), cx)?;
        let map = &*refuse_unknown_keys(map, &[NestedSettings::KEYS, ACTION_BODIES].concat(), "a body", cx);
        let settings = NestedSettings::read_fields(map, node.span, cx)?;
        let owner = Spanned { value: "the body".to_owned(), span: node.span };
        let node = read_body(map, ACTION_BODIES, &owner, cx)?;
        cx.depth += 1;
        let body = super::read_body(&node, cx);
        cx.depth -= 1;
        Some(NestedDecl { settings, node, body: body? })
    }

    fn schema(defs: &mut Defs) -> Value {
        defs.reference("Body", |defs| {
            let settings = NestedSettings::schema(defs);
            let mut properties = properties_of(&settings, defs);
            for kind in ACTION_BODIES {
                properties.insert((*kind).to_owned(), json!({"$ref": format!("#/definitions/action.{kind}")}));
            }
            let bodies: Vec<Value> = ACTION_BODIES.iter().map(|kind| json!({"required": [kind]})).collect();
            json!({"type": "object", "properties": properties, "additionalProperties": false, "oneOf": bodies})
        })
    }
}

impl NestedDecl {
    /// Lowers the body with further variables and its own output.
    pub(super) fn lower(&self, output: Output, extra: Extra<'_>, cx: &mut dyn LowerCx) -> Option<Nested> {
        let base = cx.settings();
        self.lower_on(&base, output, extra, cx)
    }

    /// The same, asked of a model of its own.
    pub(super) fn lower_for(
        &self,
        llm: &LlmChoice,
        output: Output,
        extra: Extra<'_>,
        cx: &mut dyn LowerCx,
    ) -> Option<Nested> {
        let base = cx.llm(llm)?;
        self.lower_on(&base, output, extra, cx)
    }

    fn lower_on(&self, base: &CallSettings, output: Output, extra: Extra<'_>, cx: &mut dyn LowerCx) -> Option<Nested> {
        let settings = cx.settings_under(&self.settings, base);
        let inside = &mut Inside { cx, output: output.clone(), extra: extra.to_vec(), settings };
        let body = self.body.lower(inside)?;
        Some(Nested { body, output, timeout: self.settings.timeout.map(|timeout| timeout.0) })
    }

    /// Where it is written.
    pub(super) fn place(&self) -> Span {
        self.settings.place.0
    }

    /// Whether the body chooses its own model.
    pub(super) fn has_llm(&self) -> bool {
        self.settings.llm.is_some()
    }
}

/// A body inside a body that can be performed.
#[derive(Debug)]
pub(super) struct Nested {
    body: Arc<dyn Body>,
    /// What it gives; `None` where any value will do.
    output: Output,
    timeout: Option<std::time::Duration>,
}

impl Nested {
    fn branch(&self, path: &str, vars: Vec<(String, View)>) -> Branch {
        Branch { path: path.to_owned(), vars, output: self.output.clone(), timeout: self.timeout }
    }

    /// Performs it with further variables and validates what it gives. `None`: nothing came.
    pub(super) async fn perform(
        &self,
        cx: &dyn Context,
        path: &str,
        vars: Vec<(String, View)>,
    ) -> Result<Option<Value>, Failure> {
        let inside = cx.branch(self.branch(path, vars));
        let performed = self.body.perform(&*inside);
        let value = match self.timeout {
            None => performed.await?,
            Some(timeout) => tokio::time::timeout(timeout, performed).await.unwrap_or_else(|_| {
                let message = format!("`{}` did not end within {}", self.body.kind(), lasting(timeout));
                Err(Failure::new(FailureKind::Timeout, message))
            })?,
        };
        if value.is_null() {
            return Ok(None);
        }
        validated(cx, &self.output, value).map(Some)
    }

    /// The call to a model that it would make first.
    pub(super) fn prompt(&self, cx: &dyn Context, vars: Vec<(String, View)>) -> Result<Option<PromptCall>, Failure> {
        self.body.prompt(&*cx.branch(self.branch("", vars)))
    }

    /// What performing it touches.
    pub(super) fn needs(&self) -> Needs {
        self.body.needs()
    }

    /// A value as strings see it where this body's result is a variable.
    pub(super) fn view(&self, cx: &dyn Context, value: &Value) -> View {
        match self.output.kind {
            OutputKind::None => from_json(value),
            _ => shaped_value(cx.templates(), &self.output.shape(cx.types()), value),
        }
    }
}

/// What several bodies touch together.
pub(super) fn needs_of<'a>(bodies: impl Iterator<Item = &'a Nested>) -> Needs {
    let mut all = Needs::default();
    for needs in bodies.map(Nested::needs) {
        for (list, more) in [
            (&mut all.permissions, needs.permissions),
            (&mut all.endpoints, needs.endpoints),
            (&mut all.agents, needs.agents),
        ] {
            for one in more {
                if !list.contains(&one) {
                    list.push(one);
                }
            }
        }
    }
    all
}

/// A value as it is on the blackboard later: validated, with defaults, each object with its type's name where that is
/// needed.
fn validated(cx: &dyn Context, output: &Output, value: Value) -> Result<Value, Failure> {
    if output.kind == OutputKind::None {
        return Ok(value);
    }
    let types = cx.types();
    let valid = cx.validators().validate_output(output, value, cx.rules(), Tags::Inferred);
    let valid = valid.map_err(|violations| {
        let listed: Vec<String> = violations.iter().map(ToString::to_string).collect();
        Failure::new(
            FailureKind::Validation,
            format!("the result is no `{}`: {}", output.describe(types), listed.join("; ")),
        )
    })?;
    let shown = |declared: TypeId, object: Valid| {
        let id = object.type_id.unwrap_or(declared);
        present(types, declared, id, object.value)
    };
    let mut objects = valid.into_iter();
    Ok(match &output.kind {
        OutputKind::One(id) | OutputKind::Optional(id) => {
            objects.next().map_or(Value::Null, |object| shown(*id, object))
        }
        OutputKind::List(id) => objects.map(|object| shown(*id, object)).collect(),
        OutputKind::SomeOf(ids) => {
            let member = |object: Valid| {
                let id = object.type_id?;
                let declared = *ids.iter().find(|declared| types.is_subtype(id, **declared))?;
                Some((snake_case(types.name(declared)), shown(declared, object)))
            };
            Value::Object(objects.filter_map(member).collect())
        }
        OutputKind::None => Value::Null,
    })
}

/// The declarations around a body, with further variables and another output.
struct Inside<'a> {
    cx: &'a mut dyn LowerCx,
    output: Output,
    extra: Vec<(String, Ty)>,
    settings: Arc<CallSettings>,
}

impl Inside<'_> {
    /// The variables of this place, then those that the body itself adds.
    fn all(&self, extra: Extra<'_>) -> Vec<(String, Ty)> {
        self.extra.iter().chain(extra).cloned().collect()
    }
}

impl LowerCx for Inside<'_> {
    fn types(&self) -> &Types {
        self.cx.types()
    }
    fn output(&self) -> &Output {
        &self.output
    }
    fn settings(&self) -> Arc<CallSettings> {
        Arc::clone(&self.settings)
    }
    fn template(&mut self, text: &Template, extra: Extra<'_>) -> Option<TemplateId> {
        let extra = self.all(extra);
        self.cx.template(text, &extra)
    }
    fn template_file(&mut self, name: &Name, extra: Extra<'_>) -> Option<TemplateId> {
        let extra = self.all(extra);
        self.cx.template_file(name, &extra)
    }
    fn expr(&mut self, expr: &Expr, extra: Extra<'_>) -> Option<ExprId> {
        let extra = self.all(extra);
        self.cx.expr(expr, &extra)
    }
    fn expr_ty(&mut self, expr: &Expr, extra: Extra<'_>) -> Ty {
        let extra = self.all(extra);
        self.cx.expr_ty(expr, &extra)
    }
    fn data(&mut self, data: &WrittenData, expected: Option<&Shape>, extra: Extra<'_>) -> Option<Data> {
        let extra = self.all(extra);
        self.cx.data(data, expected, &extra)
    }
    fn assume(&mut self, test: &Expr, holds: bool) {
        self.cx.assume(test, holds);
    }

    fn forget(&mut self) {
        self.cx.forget();
    }

    fn output_data(&mut self, data: &WrittenData, extra: Extra<'_>) -> Option<Data> {
        let extra = self.all(extra);
        let is_free = self.output.kind == crate::value::OutputKind::None;
        let shape = self.output.shape(self.cx.types());
        self.cx.data(data, (!is_free).then_some(&shape), &extra)
    }
    fn type_named(&mut self, name: &Name) -> Option<TypeId> {
        self.cx.type_named(name)
    }
    fn agent(&mut self, name: &Name) -> Option<AgentRef> {
        self.cx.agent(name)
    }
    fn tool(&mut self, name: &Name) -> Option<ToolRef> {
        self.cx.tool(name)
    }
    fn llm(&mut self, choice: &LlmChoice) -> Option<Arc<CallSettings>> {
        let models = self.cx.llm(choice)?.models;
        Some(Arc::new(CallSettings { models, ..CallSettings::clone(&self.settings) }))
    }
    fn settings_under(&mut self, own: &NestedSettings, base: &CallSettings) -> Arc<CallSettings> {
        self.cx.settings_under(own, base)
    }
    fn file(&mut self, path: &Name) -> Option<Arc<str>> {
        self.cx.file(path)
    }
    fn environment(&mut self, text: &Template) -> Option<Vec<(String, Secret)>> {
        self.cx.environment(text)
    }
    fn check_variable(&mut self, name: &Name, what: &str) {
        self.cx.check_variable(name, what);
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.cx.report(diagnostic);
    }
}

/// The element of a list type, for loop variables.
pub(super) fn element(ty: Ty) -> Ty {
    match ty {
        Ty::List(element) => *element,
        Ty::Optional(inner) => element(*inner),
        _ => Ty::Any,
    }
}
