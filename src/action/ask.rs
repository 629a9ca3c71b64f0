//! `ask`: a person fills in a form made from the output type; the process waits. Read and checked; run by a later version.

use std::sync::Arc;

use serde_json::Value;

use crate::decl::{Defs, Duration, Read, ReadCx, Table, Template};
use crate::diag::{Diagnostic, suggest};
use crate::record;
use crate::source::Node;

use super::lower::LowerCx;
use super::shared::Unsupported;
use super::{ActionKind, Body, Written};

/// The kind `ask`.
pub(super) struct Ask;

impl ActionKind for Ask {
    fn name(&self) -> &'static str {
        "ask"
    }

    fn summary(&self) -> &'static str {
        "Asks a person, with a form made from the output type; the process waits for the answer"
    }

    fn example(&self) -> &'static str {
        "ask: \"Please tell a story about {{ user_input.content }}\""
    }

    fn schema(&self, defs: &mut Defs) -> Value {
        AskDecl::schema(defs)
    }

    fn read(&self, node: &Node, cx: &mut ReadCx) -> Option<Arc<dyn Written>> {
        AskDecl::read(node, cx).map(|ask| Arc::new(ask) as Arc<dyn Written>)
    }
}

record! {
    /// A question to a person.
    pub(super) struct AskDecl = "a question to a person" [short: prompt] {
        /// What the person is asked.
        req prompt: Template,
        /// How the form's fields are called.
        def labels: Table<Template> = Table::default(),
        /// Only yes or no: yes hands on the action's input, no is "nothing came".
        def confirm: bool = false,
        /// How long the process waits.
        opt timeout: Duration,
    }
}

impl Written for AskDecl {
    fn lower(&self, cx: &mut dyn LowerCx) -> Option<Arc<dyn Body>> {
        let prompt = cx.template(&self.prompt, &[]);
        for (name, label) in self.labels.iter() {
            refuse_unknown_field(name, cx);
            cx.template(label, &[]);
        }
        prompt?;
        Some(Unsupported::body("ask", self.place.0, cx))
    }
}

/// Reports a label of a field that no output type has.
fn refuse_unknown_field(name: &crate::decl::Name, cx: &mut dyn LowerCx) {
    let fields: Vec<String> = cx
        .output()
        .types()
        .iter()
        .filter_map(|id| cx.types().get(*id).fields())
        .flat_map(|fields| fields.keys().cloned())
        .collect();
    if fields.is_empty() || fields.contains(&name.value) {
        return;
    }
    let output = cx.output().describe(cx.types());
    let diagnostic = Diagnostic::error("unknown-field", name.span, format!("`{output}` has no field `{}`", name.value));
    cx.report(match suggest::nearest(&name.value, fields.iter().map(String::as_str)).first() {
        Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
        None => diagnostic.help(format!("the fields are {}", crate::decl::read::listed(&fields))),
    });
}
