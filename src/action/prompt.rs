//! `prompt`: asks a model; the reply is parsed, validated and becomes the output, or is the text, for a scalar.

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::decl::{Count, Data as WrittenData, Defs, List, Name, Read, ReadCx, Table, Template};
use crate::diag::{Diagnostic, suggest};
use crate::llm::{ImageSource, Message, OutputSchema, Part, picture_format};
use crate::prompt::{Data, TemplateId, Ty, Var, to_json};
use crate::record;
use crate::source::Node;
use crate::value::{OutputKind, RuleEval, Shape, Tags, schema_of, subset};

use super::context::{CallSettings, Context, Failure, FailureKind, PromptCall};
use super::lower::LowerCx;
use super::shared::{is_text, lower_table, over, refuse_two, render_data, render_table};
use super::{ActionKind, Body, Written};

/// What a model is told when the output is optional, so that it does not make something up.
const MAY_LACK: &str = "If the information that this needs is not there, answer null; do not make it up.";

/// The kind `prompt`.
pub(super) struct Prompt;

impl ActionKind for Prompt {
    fn name(&self) -> &'static str {
        "prompt"
    }

    fn summary(&self) -> &'static str {
        "Asks a model; the reply is parsed, validated and becomes the output"
    }

    fn example(&self) -> &'static str {
        "prompt: \"Tell a story about this: {{ user_input.content }}\""
    }

    fn schema(&self, defs: &mut Defs) -> Value {
        <PromptDecl as Read>::schema(defs)
    }

    fn read(&self, node: &Node, cx: &mut ReadCx) -> Option<Arc<dyn Written>> {
        PromptDecl::read(node, cx).map(|prompt| Arc::new(prompt) as Arc<dyn Written>)
    }
}

record! {
    /// A question to a model.
    pub(super) struct PromptDecl = "a prompt" [short: user] {
        /// The user message, as a file under `prompts/` without `.jinja`.
        opt template: Name,
        /// The author's own part of the system message.
        opt system: Template,
        /// The user message.
        opt user: Template,
        /// Further variables of the templates.
        def with: Table<WrittenData> = Table::default(),
        /// Pictures: objects of type `Image`, URLs, or paths in the project.
        def images: List<WrittenData> = List::default(),
        /// `true`, or the messages so far; they stand between the system message and the user message.
        opt conversation: WrittenData,
        /// Questions with their right answers, shown to the model first.
        def examples: List<ExampleDecl> = List::default(),
        /// The fields that the model gives; the rest comes from variables of the same name.
        opt only: List<Name>,
        /// How many replies are tried before the action fails.
        def attempts: Count = Count::MIN.saturating_add(2),
    }
}

record! {
    /// A question with its right answer.
    pub(super) struct ExampleDecl = "an example" {
        /// What is asked.
        opt given: WrittenData,
        /// The right answer; it is checked against the output type.
        req output: WrittenData,
    }
}

impl Written for PromptDecl {
    fn lower(&self, cx: &mut dyn LowerCx) -> Option<Arc<dyn Body>> {
        let forms = [
            ("template", self.template.as_ref().map(|name| name.span)),
            ("user", self.user.as_ref().map(|template| template.0.span)),
        ];
        refuse_two("a prompt", &forms, cx);
        for (name, _) in self.with.iter() {
            cx.check_variable(name, "a variable");
        }
        let with = lower_table(&self.with, cx, &[]);
        let extra: Vec<(String, Ty)> = self.with.names().map(|name| (name.to_owned(), Ty::Any)).collect();
        let user = match (&self.template, &self.user) {
            (Some(name), _) => cx.template_file(name, &extra),
            (None, Some(user)) => cx.template(user, &extra),
            (None, None) if self.partial.0 => None,
            (None, None) => {
                cx.report(
                    Diagnostic::error("missing-key", self.place.0, "a prompt needs `user` or `template`")
                        .help("add `user: …` with the text, or `template: …` with a file under `prompts/`"),
                );
                None
            }
        };
        let system = self.system.as_ref().map(|system| cx.template(system, &extra));
        let images: Vec<Option<Data>> = self.images.iter().map(|image| cx.data(image, None, &extra)).collect();
        let conversation = self.conversation.as_ref().map(|messages| cx.data(messages, None, &extra));
        let only = self.lower_only(cx)?;
        let examples: Vec<Option<(Option<Data>, Data)>> =
            self.examples.iter().map(|example| example.lower(only.as_ref(), cx)).collect();
        Some(Arc::new(PromptBody {
            user: user?,
            system: match system {
                Some(system) => Some(system?),
                None => None,
            },
            with: with?,
            images: images.into_iter().collect::<Option<_>>()?,
            conversation: match conversation {
                Some(conversation) => Some(conversation?),
                None => None,
            },
            examples: examples.into_iter().collect::<Option<_>>()?,
            schema: self.output_schema(only.as_ref(), cx),
            rest: only.map(|only| only.rest),
            attempts: self.attempts.get(),
            settings: cx.settings(),
        }))
    }
}

/// The fields that a model is asked for, and those that are filled in.
struct Only {
    shape: Shape,
    rest: Vec<String>,
}

impl PromptDecl {
    /// Resolves `only`; the outer `None` is a finding.
    fn lower_only(&self, cx: &mut dyn LowerCx) -> Option<Option<Only>> {
        let Some(only) = &self.only else { return Some(None) };
        let OutputKind::One(id) = cx.output().kind else {
            let output = cx.output().describe(cx.types());
            cx.report(
                Diagnostic::error(
                    "wrong-type",
                    self.place.0,
                    format!("`only` chooses fields of one object, but the output is `{output}`"),
                )
                .help("leave `only` out"),
            );
            return None;
        };
        let fields: Vec<String> =
            cx.types().get(id).fields().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        let unknown: Vec<&Name> = only.iter().filter(|name| !fields.contains(&name.value)).collect();
        for name in &unknown {
            let message = format!("`{}` has no field `{}`", cx.types().name(id), name.value);
            let near = suggest::nearest(&name.value, fields.iter().map(String::as_str));
            let diagnostic = Diagnostic::error("unknown-field", name.span, message);
            cx.report(match near.first() {
                Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
                None => diagnostic,
            });
        }
        if !unknown.is_empty() {
            return None;
        }
        let asked: Vec<String> = only.iter().map(|name| name.value.clone()).collect();
        let shape = match subset(cx.types(), id, &asked) {
            Ok(shape) => shape,
            Err(why) => {
                cx.report(Diagnostic::error("wrong-type", self.place.0, why));
                return None;
            }
        };
        Some(Some(Only { shape, rest: fields.into_iter().filter(|field| !asked.contains(field)).collect() }))
    }

    /// The schema that the model is asked for; `None` for plain text.
    fn output_schema(&self, only: Option<&Only>, cx: &dyn LowerCx) -> Option<OutputSchema> {
        let output = cx.output();
        if is_text(cx.types(), output) {
            return None;
        }
        let name = output.types().first().map_or("Output", |id| cx.types().name(*id));
        let schema = match only {
            Some(only) => schema_of(cx.types(), &only.shape),
            None => output.schema(cx.types()),
        };
        Some(OutputSchema::native(name, schema))
    }
}

impl ExampleDecl {
    fn lower(&self, only: Option<&Only>, cx: &mut dyn LowerCx) -> Option<(Option<Data>, Data)> {
        let given = match &self.given {
            Some(given) => Some(cx.data(given, None, &[])?),
            None => None,
        };
        let output = match only {
            Some(only) => cx.data(&self.output, Some(&only.shape), &[])?,
            None => cx.output_data(&self.output, &[])?,
        };
        Some((given, output))
    }
}

#[derive(Debug)]
struct PromptBody {
    user: TemplateId,
    system: Option<TemplateId>,
    with: Vec<(String, Data)>,
    images: Vec<Data>,
    conversation: Option<Data>,
    examples: Vec<(Option<Data>, Data)>,
    /// What the model is asked for; `None` for plain text.
    schema: Option<OutputSchema>,
    /// Under `only`: the fields that come from variables.
    rest: Option<Vec<String>>,
    attempts: u32,
    settings: Arc<CallSettings>,
}

impl PromptBody {
    fn call(&self, cx: &dyn Context) -> Result<PromptCall, Failure> {
        let with = render_table(cx, &self.with)?;
        let vars = over(cx.vars(), &with);
        let templates = cx.templates();
        let mut messages = self.examples(cx)?;
        if let Some(conversation) = &self.conversation {
            messages.extend(self.conversation(templates.render_data(conversation, &vars)?, cx)?);
        }
        let mut parts = Vec::new();
        for image in &self.images {
            add_images(templates.render_data(image, &vars)?, cx, &mut parts)?;
        }
        parts.push(Part::text(templates.render(self.user, &vars)?));
        if matches!(cx.output().kind, OutputKind::Optional(_)) {
            parts.push(Part::text(MAY_LACK));
        }
        messages.push(Message { role: crate::llm::Role::User, parts });
        let system = match self.system {
            Some(system) => Some(templates.render(system, &vars)?),
            None => None,
        };
        Ok(PromptCall {
            name: cx.action().to_owned(),
            system,
            messages,
            output: self.schema.clone(),
            settings: self.settings.clone(),
            attempts: self.attempts,
        })
    }

    fn examples(&self, cx: &dyn Context) -> Result<Vec<Message>, Failure> {
        let mut messages = Vec::new();
        for (given, output) in &self.examples {
            if let Some(given) = given {
                messages.push(Message::user(as_text(&render_data(cx, given)?)));
            }
            let output = render_data(cx, output)?;
            let wrapped = match &self.schema {
                Some(schema) => crate::llm::structured::wrap(&schema.schema, output),
                None => output,
            };
            messages.push(Message::assistant(as_text(&wrapped)));
        }
        Ok(messages)
    }

    /// The messages so far: those given, or of the newest `Conversation`, without the one that is being answered.
    fn conversation(&self, given: Value, cx: &dyn Context) -> Result<Vec<Message>, Failure> {
        let is_own = given == Value::Bool(true);
        let given = match given {
            Value::Bool(true) => match cx.vars().last("Conversation") {
                Var::Value(value) => json_of(&value)?,
                Var::Undefined | Var::Unknown => Value::Null,
            },
            other => other,
        };
        let list = match given {
            Value::Null | Value::Bool(_) => return Ok(Vec::new()),
            Value::Object(mut map) => map.remove("messages").unwrap_or_default(),
            other => other,
        };
        let Value::Array(mut list) = list else {
            return Err(Failure::new(FailureKind::Validation, "`conversation` is no list of messages"));
        };
        if is_own {
            list.pop_if(|last| last["type"] == "UserMessage");
        }
        let message = |value: &Value| {
            let content = value["content"].as_str().map_or_else(|| as_text(value), str::to_owned);
            let from_model = value["type"] == "AssistantMessage" || value["role"] == "assistant";
            if from_model { Message::assistant(content) } else { Message::user(content) }
        };
        Ok(list.iter().map(message).collect())
    }

    /// The whole value: what the model gave, and the rest from variables of the same name.
    fn filled(&self, value: Value, cx: &dyn Context) -> Result<Value, Failure> {
        let (Some(rest), Value::Object(given)) = (&self.rest, &value) else { return Ok(value) };
        let mut whole: Map<String, Value> = given.clone();
        for name in rest {
            if let Var::Value(value) = cx.vars().get(name) {
                whole.insert(name.clone(), json_of(&value)?);
            }
        }
        Ok(Value::Object(whole))
    }
}

/// The JSON of a variable.
fn json_of(value: &minijinja::Value) -> Result<Value, Failure> {
    to_json(value).map_err(|why| Failure::new(FailureKind::Error, why))
}

/// A value as a message shows it: text as it is, anything else as JSON.
fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Adds pictures: an `Image`, a list of them, a URL or a path in the project; null is none.
fn add_images(value: Value, cx: &dyn Context, parts: &mut Vec<Part>) -> Result<(), Failure> {
    match value {
        Value::Null => Ok(()),
        Value::Array(images) => images.into_iter().try_for_each(|image| add_images(image, cx, parts)),
        Value::String(place) => {
            let key = if place.contains("://") { "url" } else { "path" };
            parts.push(image(&Map::from_iter([(key.to_owned(), Value::String(place))]), cx)?);
            Ok(())
        }
        Value::Object(object) => {
            parts.push(image(&object, cx)?);
            Ok(())
        }
        Value::Bool(_) | Value::Number(_) => Err(Failure::new(
            FailureKind::Validation,
            format!("`images`: expected an `Image`, a URL or a path, found `{value}`"),
        )),
    }
}

fn image(object: &Map<String, Value>, cx: &dyn Context) -> Result<Part, Failure> {
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    let mime = |place: &str| text("mime").map_or_else(|| mime_of(place).to_owned(), str::to_owned);
    if let Some(data) = text("data") {
        // A picture that is not what it says is refused by providers.
        let found = STANDARD.decode(data).ok().and_then(|bytes| picture_format(&bytes));
        let mime = found.map_or_else(|| mime(""), str::to_owned);
        return Ok(Part::Image { mime, source: ImageSource::Data(data.to_owned()) });
    }
    if let Some(url) = text("url") {
        return Ok(Part::Image { mime: mime(url), source: ImageSource::Url(url.to_owned()) });
    }
    let Some(path) = text("path") else {
        return Err(Failure::new(FailureKind::Validation, "an `Image` needs one of `path`, `url` and `data`"));
    };
    cx.permit("files:read", path)?;
    let bytes = cx
        .world()
        .read_bytes(Path::new(path))
        .map_err(|why| Failure::new(FailureKind::Error, format!("the image `{path}` cannot be read: {why}")))?;
    let Some(mime) = picture_format(&bytes) else {
        let message = format!("the image `{path}` is no PNG, JPEG, GIF or WebP");
        return Err(Failure::new(FailureKind::Validation, message));
    };
    Ok(Part::Image { mime: mime.to_owned(), source: ImageSource::Data(STANDARD.encode(bytes)) })
}

/// The media type that a file's ending means; PNG when it means none.
fn mime_of(place: &str) -> &'static str {
    let ending = place.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    match ending.as_str() {
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        _ => "image/png",
    }
}

#[async_trait::async_trait]
impl Body for PromptBody {
    fn kind(&self) -> &'static str {
        "prompt"
    }

    async fn perform(&self, cx: &dyn Context) -> Result<Value, Failure> {
        let call = self.call(cx)?;
        let accept = |value: Value| {
            let whole = self.filled(value, cx).map_err(|failure| vec![failure.message])?;
            let rules: &dyn RuleEval = cx.rules();
            match cx.validators().validate_output(cx.output(), whole.clone(), rules, Tags::Required) {
                Ok(_) => Ok(whole),
                Err(violations) => Err(violations.iter().map(ToString::to_string).collect()),
            }
        };
        cx.ask_model(call, &accept).await
    }

    fn prompt(&self, cx: &dyn Context) -> Result<Option<PromptCall>, Failure> {
        self.call(cx).map(Some)
    }
}
