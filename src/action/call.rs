//! `call`: a declared tool, called by the process itself.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::decl::{Data as WrittenData, Defs, Name, Read, ReadCx};
use crate::diag::Diagnostic;
use crate::prompt::Data;
use crate::record;
use crate::source::Node;
use crate::value::{Shape, ShapeKind};

use super::context::{Context, Failure, FailureKind};
use super::lower::{LowerCx, ToolRef};
use super::shared::{is_text, keys, render_data};
use super::{ActionKind, Body, Needs, Written};

/// The kind `call`.
pub(super) struct Call;

impl ActionKind for Call {
    fn name(&self) -> &'static str {
        "call"
    }

    fn summary(&self) -> &'static str {
        "Calls a declared tool; its JSON result becomes the output"
    }

    fn example(&self) -> &'static str {
        "call: {tool: tell_story, with: {topic: \"{{ user_input.content }}\"}}"
    }

    fn schema(&self, defs: &mut Defs) -> Value {
        CallDecl::schema(defs)
    }

    fn read(&self, node: &Node, cx: &mut ReadCx) -> Option<Arc<dyn Written>> {
        CallDecl::read(node, cx).map(|call| Arc::new(call) as Arc<dyn Written>)
    }
}

record! {
    /// A call of a tool.
    pub(super) struct CallDecl = "a call" [short: tool] {
        /// The tool's name.
        req tool: Name,
        /// Its arguments.
        opt with: WrittenData,
    }
}

impl Written for CallDecl {
    fn lower(&self, cx: &mut dyn LowerCx) -> Option<Arc<dyn Body>> {
        let tool = cx.tool(&self.tool)?;
        self.refuse_missing(&tool, cx);
        let shape = Shape::new(ShapeKind::Object(Box::new(tool.parameters.clone())));
        let with = match &self.with {
            Some(with) => Some(cx.data(with, Some(&shape), &[])?),
            None => None,
        };
        Some(Arc::new(CallBody { tool: tool.name, needs: tool.needs, with }))
    }
}

impl CallDecl {
    /// Reports required parameters when there is no `with` at all; one that lacks some is refused by its shape.
    fn refuse_missing(&self, tool: &ToolRef, cx: &mut dyn LowerCx) {
        if self.with.as_ref().is_some_and(|with| !keys(with).is_empty()) {
            return;
        }
        let missing: Vec<&str> =
            tool.parameters.fields.iter().filter(|(_, field)| field.required).map(|(name, _)| name.as_str()).collect();
        if !missing.is_empty() && self.with.is_none() {
            cx.report(
                Diagnostic::error(
                    "missing-argument",
                    self.tool.span,
                    format!("the tool `{}` needs {}", tool.name, crate::decl::read::listed(&missing)),
                )
                .help(format!("write `call: {{tool: {}, with: {{{}: …}}}}`", tool.name, missing[0])),
            );
        }
    }
}

#[derive(Debug)]
struct CallBody {
    tool: String,
    needs: Needs,
    with: Option<Data>,
}

#[async_trait::async_trait]
impl Body for CallBody {
    fn kind(&self) -> &'static str {
        "call"
    }

    fn needs(&self) -> Needs {
        self.needs.clone()
    }

    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure> {
        let arguments = match &self.with {
            Some(with) => render_data(cx, with)?,
            None => json!({}),
        };
        let Value::Object(arguments) = arguments else {
            let message = format!("the arguments of the tool `{}` are no object", self.tool);
            return Err(Failure::new(FailureKind::Validation, message));
        };
        let result = cx.call_tool(&self.tool, arguments).await?;
        Ok(match result {
            // Programs and servers give JSON as text.
            Value::String(text) if !is_text(cx.types(), cx.output()) => {
                serde_json::from_str(text.trim()).unwrap_or(Value::String(text))
            }
            other => other,
        })
    }
}
