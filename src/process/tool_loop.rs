//! The tool loop (runtime.md 4): one turn of it answers every call of a reply.
//!
//! What a call does to the list of tools is decided at once and in call order, by [`Interaction`]; bodies are then
//! performed side by side, and their results go back in call order. Whatever a model can mend is an answer to it, not an
//! end of the process.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use serde_json::{Map, Value};

use crate::action::{Failure, FailureKind};
use crate::llm::{Message, Part, Picture, Reply, ToolSpec};
use crate::prompt::Truth;
use crate::tool::agentic::{Order, Progress};
use crate::tool::artifact::Artifacts;
use crate::tool::envelope;
use crate::tool::narrow::Narrowed;
use crate::tool::offer::{Offer, Offered, Role, Use};
use crate::tool::picture;
use crate::tool::unfold::{Facade, Found, Interaction, NESTING_MAX};
use crate::value::{TypeId, snake_case};

use super::context::{ActionContext, replan};
use super::tool_offer;

/// Most bytes of a tool's result (runtime.md 7).
const RESULT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Most calls of one turn that are answered.
const CALLS_MAX: usize = 128;

/// Most bytes that a model reads of what is wrong with a call, and of a tool's failure.
const WORDS_BYTES_MAX: usize = 8 * 1024;

/// What a person's "no" is to the model.
const REFUSED: &str = "refused by the person";

/// The tools of one conversation with a model.
pub struct ToolLoop<'a> {
    cx: &'a ActionContext,
    order: Order,
    interaction: Interaction,
    /// The number of the list that was sent last.
    sent: u64,
    /// Tools whose `requires` did not hold when they would have been offered.
    held: Vec<Arc<Offered>>,
    progress: Progress,
    /// What is left to be called by tools that narrow that.
    narrowed: Narrowed,
    /// Tools with `once` that were called.
    used: BTreeSet<String>,
    /// Types whose objects' tools are offered when tools return such objects.
    object_types: Vec<TypeId>,
    /// Objects that tools had published when tools were last offered for them.
    published: usize,
    /// Objects whose tools are offered since, by the name of their type.
    objects: Vec<String>,
    /// Long results.
    artifacts: Artifacts,
    /// Names of the tools that the last turn called.
    last: Vec<String>,
}

/// What one turn gave.
pub struct Turn {
    /// The results, in call order.
    pub results: Message,
    /// The result that is the reply.
    pub direct: Option<Value>,
}

/// What the model is shown of a result.
#[derive(Default)]
struct Shown {
    text: String,
    is_error: bool,
    pictures: Vec<Picture>,
}

/// A piece of the answer to one call.
enum Piece {
    /// It is there.
    Said(String, bool),
    /// It is what this job gives.
    Job(usize),
}

/// What is done for a call, at its place among the steps of the action.
struct Job {
    step: String,
    what: Task,
}

enum Task {
    /// A tool is performed.
    Perform(Arc<Offered>, Map<String, Value>),
    /// A call that the interaction has answered is told.
    Tell(String, Value, Result<Value, Failure>),
}

impl<'a> ToolLoop<'a> {
    /// Resolves what a prompt offers.
    ///
    /// # Errors
    /// When a group, a server or a template fails, or two tools have one name.
    pub async fn begin(cx: &'a ActionContext, offer: Offer) -> Result<ToolLoop<'a>, Failure> {
        let tools = tool_offer::resolve(cx, &offer.uses).await?;
        let object_types = offer.uses.iter().filter_map(|of| match of {
            Use::Objects { input: None, type_id } => Some(*type_id),
            _ => None,
        });
        let published = cx.published_objects();
        let (fitting, held): (Vec<_>, Vec<_>) = tools.into_iter().partition(|tool| fits(cx, &published, tool));
        Ok(ToolLoop {
            cx,
            order: offer.order,
            interaction: Interaction::new(fitting).map_err(collision)?,
            sent: 0,
            held,
            progress: Progress::default(),
            narrowed: Narrowed::default(),
            used: BTreeSet::new(),
            object_types: object_types.collect(),
            published: published.len(),
            objects: Vec::new(),
            artifacts: Artifacts::default(),
            last: Vec::new(),
        })
    }

    /// The tools that the model is offered now.
    pub fn offered(&self) -> Vec<Arc<Offered>> {
        self.interaction.offered().cloned().collect()
    }

    /// The tools as the model sees them now.
    pub fn specs(&mut self) -> Vec<ToolSpec> {
        self.sent = self.interaction.version();
        self.interaction.offered().map(|tool| tool.spec.clone()).collect()
    }

    /// Brings a list of tools up to date, where it is not.
    pub fn update(&mut self, specs: &mut Vec<ToolSpec>) {
        if self.sent != self.interaction.version() {
            *specs = self.specs();
        }
    }

    /// The tools that the last turn called, for messages.
    pub fn last_called(&self) -> String {
        crate::diag::suggest::listed(&self.last)
    }

    /// Answers the calls of a reply.
    ///
    /// # Errors
    /// What ends the action: a limit, the switch, a guardrail, a tool that makes the process plan again, two tools of
    /// one name.
    pub async fn answer(&mut self, reply: &Reply) -> Result<Turn, Failure> {
        self.interaction.begin_turn();
        self.last = reply.tool_calls().map(|(_, name, _)| name.to_owned()).collect();
        let mut jobs: Vec<Job> = Vec::new();
        let mut answers: Vec<Vec<Piece>> = Vec::new();
        for (index, (_, name, arguments)) in reply.tool_calls().enumerate() {
            let mut pieces = Vec::new();
            if index >= CALLS_MAX {
                pieces.push(Piece::Said(format!("Only {CALLS_MAX} calls of a turn are answered."), true));
            } else {
                self.call(name, arguments, 0, &mut jobs, &mut pieces)?;
            }
            answers.push(pieces);
        }
        let cx = self.cx;
        let done = join_all(jobs.iter().map(|job| async move {
            match &job.what {
                Task::Perform(offered, arguments) => cx.run_tool(offered, arguments, &job.step).await,
                Task::Tell(name, arguments, result) => cx.answered(name, arguments, result, &job.step).await,
            }
        }))
        .await;
        let (mut said, direct) = self.take(&jobs, done)?;
        self.offer_more()?;
        let results = reply.tool_calls().zip(answers).map(|((id, name, _), pieces)| {
            let (mut is_error, mut pictures, mut texts) = (false, Vec::new(), Vec::new());
            for piece in pieces {
                let mut shown = match piece {
                    Piece::Said(text, is_error) => Shown { text, is_error, pictures: Vec::new() },
                    Piece::Job(at) => said.get_mut(at).map(std::mem::take).unwrap_or_default(),
                };
                is_error |= shown.is_error;
                pictures.append(&mut shown.pictures);
                texts.push(shown.text);
            }
            Part::ToolResult {
                id: id.to_owned(),
                name: name.to_owned(),
                content: texts.join("\n\n"),
                is_error,
                pictures,
            }
        });
        Ok(Turn { results: Message::tool_results(results.collect()), direct })
    }

    /// One call: answered, or put among the jobs.
    fn call(
        &mut self,
        name: &str,
        arguments: &Value,
        depth: usize,
        jobs: &mut Vec<Job>,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), Failure> {
        let offered = match self.interaction.find(name) {
            Found::Tool(offered) => offered,
            Found::Unknown(why) => {
                self.wrong(name, arguments, why, jobs, pieces);
                return Ok(());
            }
        };
        if let Some(why) = self.locked(&offered) {
            self.wrong(name, arguments, why, jobs, pieces);
            return Ok(());
        }
        let map = match object(arguments) {
            Ok(map) => map,
            Err(what) => {
                let why = format!("The arguments of `{name}` must be a JSON object, and are {what}.");
                self.wrong(name, arguments, why, jobs, pieces);
                return Ok(());
            }
        };
        let names = [offered.name(), offered.tool.name.as_str()];
        if matches!(offered.role, Role::Plain | Role::Facade(_))
            && let Some(why) = self.narrowed.locked(&names, &map)
        {
            self.wrong(name, arguments, why, jobs, pieces);
            return Ok(());
        }
        match &offered.role {
            Role::Guide(text) => self.right(name, map, text.clone(), jobs, pieces),
            Role::Facade(facade) => return self.unfold(&offered, facade, map, depth, jobs, pieces),
            Role::Artifact => {
                let looked = self.cx.arguments_for(&offered.tool, map.clone()).map_err(|wrong| wrong.join("; "));
                match looked.and_then(|valid| self.artifacts.look(name, &valid)) {
                    Ok(text) => self.right(name, map, text, jobs, pieces),
                    Err(why) => self.wrong(name, arguments, why, jobs, pieces),
                }
            }
            Role::Plain => match self.cx.arguments_for(&offered.tool, map) {
                Ok(valid) => {
                    if offered.tool.once {
                        self.used.insert(name.to_owned());
                    }
                    pieces.push(Piece::Job(jobs.len()));
                    jobs.push(Job { step: self.cx.tool_step(name), what: Task::Perform(offered.clone(), valid) });
                }
                Err(wrong) => {
                    let listed: Vec<String> = wrong.iter().map(|wrong| format!("- {wrong}")).collect();
                    let why = format!("These arguments do not fit `{name}`:\n{}", listed.join("\n"));
                    self.wrong(name, arguments, why, jobs, pieces);
                }
            },
        }
        Ok(())
    }

    /// Why a tool may not be called now.
    fn locked(&self, offered: &Offered) -> Option<String> {
        let name = offered.name();
        if offered.tool.once && self.used.contains(name) {
            return Some(format!("`{name}` can be called once, and was; its result stands above."));
        }
        let scope = &self.cx.scope;
        let holds = |expr| {
            let scope = scope.seeing_types();
            scope.agent.templates.truth(expr, &scope) == Truth::True
        };
        let published = self.cx.published_objects();
        let has = |of: TypeId| match is_there(self.cx, &published, of) {
            true => Ok(()),
            false => Err(scope.agent.types.name(of).to_owned()),
        };
        self.progress.locked(&self.order, name, &holds, &has)
    }

    /// Opens a facade, and calls the inner tools that the arguments name.
    fn unfold(
        &mut self,
        offered: &Arc<Offered>,
        facade: &Facade,
        arguments: Map<String, Value>,
        depth: usize,
        jobs: &mut Vec<Job>,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), Failure> {
        let chosen = match self.chosen(offered, facade, &arguments) {
            Ok(chosen) => chosen,
            Err(why) => {
                self.wrong(offered.name(), &Value::Object(arguments), why, jobs, pieces);
                return Ok(());
            }
        };
        let cx = self.cx;
        let published = cx.published_objects();
        let answer = self.interaction.unfold(offered, &chosen, &|tool| fits(cx, &published, tool));
        let answer = answer.map_err(collision)?;
        let held = chosen.iter().filter_map(|at| facade.tools.get(*at)).filter(|tool| !fits(cx, &published, tool));
        self.held.extend(held.cloned());
        self.progress.called(&self.order, offered.name());
        let inner: Vec<(String, Value)> = facade
            .shortcuts(&arguments)
            .into_iter()
            .map(|(tool, arguments)| (tool.name().to_owned(), arguments.clone()))
            .collect();
        self.right(offered.name(), arguments, answer, jobs, pieces);
        if depth < NESTING_MAX {
            for (name, arguments) in inner {
                self.call(&name, &arguments, depth + 1, jobs, pieces)?;
            }
        }
        Ok(())
    }

    /// Positions of the tools that a call of a facade reveals; those that the arguments name are among them.
    fn chosen(&self, offered: &Offered, facade: &Facade, arguments: &Map<String, Value>) -> Result<Vec<usize>, String> {
        let shortcuts: Vec<&str> = facade.shortcuts(arguments).into_iter().map(|(tool, _)| tool.name()).collect();
        let mut own = arguments.clone();
        own.retain(|key, _| offered.tool.parameters.fields.contains_key(key));
        let selected = match facade.select {
            None => None,
            Some(select) => {
                let own = self.cx.arguments_for(&offered.tool, own.clone()).map_err(|wrong| {
                    format!("These arguments do not fit `{}`:\n- {}", offered.name(), wrong.join("\n- "))
                })?;
                let scope = self.cx.tool_scope(offered, &own);
                let value = scope.agent.templates.eval(select, &scope).map_err(|error| error.to_string())?;
                Some(names_of(&value)?)
            }
        };
        let mut chosen = facade.chosen(&own, selected.as_deref())?;
        for (at, tool) in facade.tools.iter().enumerate() {
            if shortcuts.contains(&tool.name()) && !chosen.contains(&at) {
                chosen.push(at);
            }
        }
        chosen.sort_unstable();
        Ok(chosen)
    }

    /// A call that the interaction itself answers.
    fn right(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        text: String,
        jobs: &mut Vec<Job>,
        pieces: &mut Vec<Piece>,
    ) {
        self.tell(name, Value::Object(arguments), Ok(Value::from(text.as_str())), jobs);
        pieces.push(Piece::Said(text, false));
    }

    /// A call that cannot be made, as the model can mend it.
    fn wrong(&self, name: &str, arguments: &Value, why: String, jobs: &mut Vec<Job>, pieces: &mut Vec<Piece>) {
        // It repeats what the model wrote, who may have copied it.
        let why = envelope::defused(&without_middle(why, WORDS_BYTES_MAX));
        self.tell(name, arguments.clone(), Err(Failure::new(FailureKind::Tool, why.clone())), jobs);
        pieces.push(Piece::Said(why, true));
    }

    fn tell(&self, name: &str, arguments: Value, result: Result<Value, Failure>, jobs: &mut Vec<Job>) {
        jobs.push(Job { step: self.cx.tool_step(name), what: Task::Tell(name.to_owned(), arguments, result) });
    }

    /// What the model reads of each job, and the result that is the reply.
    fn take(
        &mut self,
        jobs: &[Job],
        done: Vec<Result<Value, Failure>>,
    ) -> Result<(Vec<Shown>, Option<Value>), Failure> {
        let (mut said, mut direct, mut plans_again) = (Vec::new(), None, None);
        for (job, result) in jobs.iter().zip(&done) {
            if let (Task::Perform(..), Err(failure)) = (&job.what, result)
                && ends(failure.kind)
                && !failure.is_waiting()
            {
                return Err(failure.clone());
            }
        }
        for (job, result) in jobs.iter().zip(done) {
            let Task::Perform(offered, arguments) = &job.what else {
                // It was said already; only its place counts.
                said.push(Shown::default());
                continue;
            };
            let name = offered.name();
            match result {
                Ok(value) => {
                    self.progress.called(&self.order, name);
                    if let Some(narrowing) = &offered.tool.narrows {
                        self.narrowed.called(narrowing, arguments);
                    }
                    if self.cx.replans(offered, arguments, &value) {
                        plans_again.get_or_insert_with(|| replan(name));
                    }
                    said.push(self.shown(offered, &value)?);
                    if offered.tool.return_direct && direct.is_none() {
                        direct = Some(value);
                    }
                }
                Err(failure) if ends(failure.kind) => return Err(failure),
                Err(failure) => {
                    said.push(Shown { text: failed(offered, &failure), is_error: true, pictures: Vec::new() });
                }
            }
        }
        match plans_again {
            Some(failure) => Err(failure),
            None => Ok((said, direct)),
        }
    }

    /// What the model reads and sees of a result; a long text is kept.
    fn shown(&mut self, offered: &Offered, value: &Value) -> Result<Shown, Failure> {
        let taken = picture::take(value);
        let (value, pictures) = taken.as_ref().map_or((value, &[][..]), |(value, pictures)| (value, &pictures[..]));
        let (text, is_error) = shown(offered, value);
        let over = u64::try_from(bytes_of(value)).is_ok_and(|bytes| bytes > offered.tool.spool_over);
        let pictures = pictures.to_vec();
        if is_error || !over {
            return Ok(Shown { text, is_error, pictures });
        }
        let (text, tools) = self.artifacts.keep(offered, value, &self.cx.scope.agent.types);
        self.interaction.add(tools).map_err(collision)?;
        Ok(Shown { text, is_error: false, pictures })
    }

    /// Offers what has become possible: the tools of objects that came, and those that required them.
    fn offer_more(&mut self) -> Result<(), Failure> {
        let (cx, types) = (self.cx, &self.cx.scope.agent.types);
        let published = cx.published_objects();
        if published.len() == self.published {
            return Ok(());
        }
        for (type_id, value) in published.iter().skip(self.published) {
            if !self.object_types.iter().any(|of| types.is_subtype(*type_id, *of)) {
                continue;
            }
            let name = snake_case(types.name(*type_id));
            let number = self.objects.iter().filter(|known| **known == name).count() + 1;
            let this = crate::prompt::object_value(&cx.scope.agent.templates, *type_id, &Arc::new(value.clone()));
            let plain = tool_offer::tools_of(cx, *type_id, &this, "");
            let is_taken = plain.iter().any(|tool| self.interaction.offered().any(|known| known.name() == tool.name()));
            let prefix = if is_taken { format!("{name}_{number}") } else { String::new() };
            let tools = if is_taken { tool_offer::tools_of(cx, *type_id, &this, &prefix) } else { plain };
            self.objects.push(name);
            self.interaction.add(tools.into_iter().map(Arc::new)).map_err(collision)?;
        }
        self.published = published.len();
        let held = std::mem::take(&mut self.held);
        let (fitting, held): (Vec<_>, Vec<_>) = held.into_iter().partition(|tool| fits(cx, &published, tool));
        self.held = held;
        self.interaction.add(fitting).map_err(collision)
    }
}

/// Resolves a list of tools for one interaction, whatever they require.
///
/// # Errors
/// When a group, a server or a template fails.
pub async fn offered(cx: &ActionContext, uses: &[Use]) -> Result<Vec<Arc<Offered>>, Failure> {
    tool_offer::resolve(cx, uses).await
}

/// What no model can mend.
fn ends(kind: FailureKind) -> bool {
    use FailureKind::{Guardrail, Killed, Limit, Replan, Waiting};
    matches!(kind, Limit | Killed | Guardrail | Replan | Waiting)
}

fn collision(why: String) -> Failure {
    Failure::new(FailureKind::Tool, why)
}

/// Whether an object of a type is on the blackboard, or will be.
fn is_there(cx: &ActionContext, published: &[(TypeId, Value)], of: TypeId) -> bool {
    let types = &cx.scope.agent.types;
    cx.scope.board.count(of) > 0 || published.iter().any(|(type_id, _)| types.is_subtype(*type_id, of))
}

/// Whether the objects that a tool requires are there.
fn fits(cx: &ActionContext, published: &[(TypeId, Value)], offered: &Offered) -> bool {
    offered.tool.requires.iter().all(|of| is_there(cx, published, *of))
}

/// The names that `select` gives: a list of texts, or one.
fn names_of(value: &Value) -> Result<Vec<String>, String> {
    let wrong = || format!("`select` gave {}, which is no list of names", shortened(value));
    match value {
        Value::String(name) => Ok(vec![name.clone()]),
        Value::Array(names) => names.iter().map(|name| name.as_str().map(str::to_owned).ok_or_else(wrong)).collect(),
        _ => Err(wrong()),
    }
}

/// The size of a result as the model would read it.
fn bytes_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        other => other.to_string().len(),
    }
}

/// What the model reads of a result.
fn shown(offered: &Offered, value: &Value) -> (String, bool) {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    if text.trim().is_empty() {
        return (format!("`{}` is done; it gave no result.", offered.name()), false);
    }
    if text.len() > RESULT_BYTES_MAX {
        let why =
            format!("The result of `{}` has {} bytes; the most is {RESULT_BYTES_MAX}.", offered.name(), text.len());
        return (why, true);
    }
    (envelope::seal(&text, offered.name(), offered.tool.trusted), false)
}

/// What the model reads of a failure: our own words as they are, those of others in an envelope.
fn failed(offered: &Offered, failure: &Failure) -> String {
    match failure.kind {
        FailureKind::Permission | FailureKind::Timeout => failure.message.clone(),
        _ if failure.message == REFUSED => REFUSED.to_owned(),
        _ => {
            let words = without_middle(failure.message.clone(), WORDS_BYTES_MAX);
            let told = envelope::seal(&words, offered.name(), offered.tool.trusted);
            format!("The call of `{}` failed:\n{told}", offered.name())
        }
    }
}

/// The arguments of a call as an object, or what they are instead.
fn object(arguments: &Value) -> Result<Map<String, Value>, String> {
    match arguments {
        Value::Object(map) => Ok(map.clone()),
        Value::Null => Ok(Map::new()),
        Value::String(text) if text.trim().is_empty() => Ok(Map::new()),
        // Some models write the object's text as a text once more.
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(map)) => Ok(map),
            Ok(other) => Err(shortened(&other)),
            Err(error) => Err(format!("no JSON ({error}): {}", shortened(arguments))),
        },
        other => Err(shortened(other)),
    }
}

/// A text of at most so many bytes: of a longer one the beginning and the end.
fn without_middle(text: String, bytes: usize) -> String {
    if text.len() <= bytes {
        return text;
    }
    let head = &text[..text.floor_char_boundary(bytes / 2)];
    let tail = &text[text.ceil_char_boundary(text.len() - bytes / 2)..];
    format!("{head}\n… {} bytes are left out …\n{tail}", text.len() - head.len() - tail.len())
}

/// A value as a message shows it.
fn shortened(value: &Value) -> String {
    const CHARS_MAX: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
