//! `ask`: a person fills in a form made from the output type; the process waits for the answer.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Value, json};

use crate::decl::{Defs, Duration, Expr, Read, ReadCx, Table, Template};
use crate::diag::{Diagnostic, suggest};
use crate::prompt::{TemplateId, Ty, Var, assignable, to_json};
use crate::record;
use crate::source::{Node, Style, Text};
use crate::value::{OutputKind, Tags};

use super::context::{Context, Failure, FailureKind, Question, QuestionKind, is_yes};
use super::lower::LowerCx;
use super::shared::render;
use super::{ActionKind, Body, Written};

/// How often a person is asked again for an answer that breaks a rule of its type.
const ANSWERS_MAX: usize = 5;

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
        let mut labels = Vec::new();
        for (name, label) in self.labels.iter() {
            refuse_unknown_field(name, cx);
            labels.push(cx.template(label, &[]).map(|label| (name.value.clone(), label)));
        }
        let confirms = if self.confirm { Some(self.handed_on(cx)) } else { None };
        Some(Arc::new(AskBody {
            prompt: prompt?,
            labels: labels.into_iter().collect::<Option<_>>()?,
            confirms: match confirms {
                Some(input) => Some(input?),
                None => None,
            },
            timeout: self.timeout.map(|timeout| timeout.0),
        }))
    }
}

impl AskDecl {
    /// The input that a yes hands on: the one that the output is.
    fn handed_on(&self, cx: &mut dyn LowerCx) -> Option<String> {
        let all = Expr(Text::with_segments("inputs", self.place.0, Style::Plain, Vec::new()));
        let inputs = match cx.expr_ty(&all, &[]) {
            Ty::Record(inputs) => inputs,
            _ => Arc::default(),
        };
        let output = cx.output().clone();
        let shape = output.shape(cx.types());
        let fits = |ty: &Ty| {
            let ty = if let Ty::Optional(inner) = ty { inner } else { ty };
            output.kind != OutputKind::None && assignable(ty, &shape, cx.types()).is_ok()
        };
        let fitting: Vec<&String> = inputs.iter().filter(|(_, ty)| fits(ty)).map(|(name, _)| name).collect();
        if let [only] = fitting.as_slice() {
            return Some((*only).clone());
        }
        let output = output.describe(cx.types());
        let message = match fitting.len() {
            0 => format!("yes hands on the action's input, and no input is `{output}`, the output"),
            _ => format!("yes hands on the action's input, and several are `{output}`, the output"),
        };
        cx.report(
            Diagnostic::error("wrong-type", self.place.0, message)
                .help("with `confirm: true` write `inputs: T` and `output: T?`: yes gives the `T`, no gives nothing"),
        );
        None
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

#[derive(Debug)]
struct AskBody {
    prompt: TemplateId,
    labels: Vec<(String, TemplateId)>,
    /// Only yes or no is asked; yes hands on this input.
    confirms: Option<String>,
    timeout: Option<std::time::Duration>,
}

impl AskBody {
    /// Yes gives the input. No gives nothing, and where there has to be something the action has failed.
    async fn confirm(&self, cx: &dyn Context, input: &str, question: Question) -> Result<Value, Failure> {
        if is_yes(&cx.ask_person(question).await?) {
            return match cx.vars().get(input) {
                Var::Value(value) => to_json(&value).map_err(|why| Failure::new(FailureKind::Error, why)),
                Var::Undefined | Var::Unknown => Ok(Value::Null),
            };
        }
        match cx.output().kind {
            OutputKind::Optional(_) | OutputKind::SomeOf(_) => Ok(Value::Null),
            _ => Err(Failure::new(FailureKind::Permission, "the person said no")),
        }
    }

    fn labels(&self, cx: &dyn Context) -> Result<IndexMap<String, String>, Failure> {
        self.labels.iter().map(|(name, label)| Ok((name.clone(), render(cx, *label)?))).collect()
    }
}

/// The form of an output: its JSON Schema, the labels as titles of its fields.
fn form(cx: &dyn Context, labels: &IndexMap<String, String>) -> Value {
    let mut form = match cx.output().kind {
        OutputKind::None => json!({}),
        _ => cx.output().schema(cx.types()),
    };
    set_titles(&mut form, labels);
    form
}

/// Sets the titles of fields wherever the form has fields of these names at its outer level.
fn set_titles(form: &mut Value, labels: &IndexMap<String, String>) {
    for (name, label) in labels {
        if let Some(Value::Object(field)) = form.pointer_mut(&format!("/properties/{name}")) {
            field.insert("title".to_owned(), Value::from(label.as_str()));
        }
    }
    for key in ["anyOf", "oneOf"] {
        for branch in form.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
            set_titles(branch, labels);
        }
    }
}

#[async_trait::async_trait]
impl Body for AskBody {
    fn kind(&self) -> &'static str {
        "ask"
    }

    fn only_confirms(&self) -> bool {
        self.confirms.is_some()
    }

    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure> {
        let prompt = render(cx, self.prompt)?;
        if let Some(input) = &self.confirms {
            let question = Question { timeout: self.timeout, ..Question::confirm(prompt, QuestionKind::ConfirmAction) };
            return self.confirm(cx, input, question).await;
        }
        let labels = self.labels(cx)?;
        let form = form(cx, &labels);
        let asked = Question { labels, timeout: self.timeout, ..Question::ask(prompt.clone(), form) };
        let mut question = asked.clone();
        let mut wrong = String::new();
        for _ in 0..ANSWERS_MAX {
            let answer = cx.ask_person(question).await?;
            // The form holds the shape; the rules of the type are not part of it.
            match cx.validators().validate_output(cx.output(), answer.clone(), cx.rules(), Tags::Inferred) {
                Ok(_) => return Ok(answer),
                Err(violations) => {
                    let listed: Vec<String> = violations.iter().map(ToString::to_string).collect();
                    wrong = listed.join("; ");
                    let prompt = format!("{prompt}\n\nThe last answer cannot be taken: {wrong}");
                    question = Question { prompt, ..asked.clone() };
                }
            }
        }
        Err(Failure::new(
            FailureKind::Validation,
            format!("no answer in {ANSWERS_MAX} can be taken; the last: {wrong}"),
        ))
    }
}
