//! Bodies inside bodies (`scatter_gather`, `repeat_until`): one body with its own settings, seen with further variables
//! and an output of its own.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::decl::basic::mapping;
use crate::decl::body::{BodyNode, read_body};
use crate::decl::models::LlmChoice;
use crate::decl::read::{Read, properties_of, refuse_unknown_keys};
use crate::decl::tools::ToolUse;
use crate::decl::{ACTION_BODIES, Data as WrittenData, Defs, Duration, Expr, List, Name, ReadCx, Template};
use crate::diag::Diagnostic;
use crate::llm::Secret;
use crate::prompt::{Data, ExprId, TemplateId, Ty};
use crate::record;
use crate::source::{Node, Span, Spanned};
use crate::value::{Output, Shape, TypeId, Types};

use super::context::CallSettings;
use super::lower::{AgentRef, Extra, LowerCx, ToolRef};
use super::{Body, Written};

/// How deep bodies may stand in bodies.
const NESTING_MAX: usize = 8;

record! {
    /// What a body inside a body may say beside its kind.
    pub(super) struct NestedSettings = "a body" {
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
    pub(super) fn lower(&self, output: Output, extra: Extra<'_>, cx: &mut dyn LowerCx) -> Option<Arc<dyn Body>> {
        let settings = match &self.settings.llm {
            Some(choice) => Some(cx.llm(choice)?),
            None => None,
        };
        self.body.lower(&mut Inside { cx, output, extra: extra.to_vec(), settings })
    }
}

/// The declarations around a body, with further variables and another output.
struct Inside<'a> {
    cx: &'a mut dyn LowerCx,
    output: Output,
    extra: Vec<(String, Ty)>,
    settings: Option<Arc<CallSettings>>,
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
        self.settings.clone().unwrap_or_else(|| self.cx.settings())
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
        self.cx.llm(choice)
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
    fn unsupported(&mut self, span: Span, what: &str) {
        self.cx.unsupported(span, what);
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
