//! `chat`: a conversation with an agent. Replies appear as they come; what is typed meanwhile is read next, in order.

use std::io::{BufRead, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use serde_json::{Value, json};

use crate::action::context::{Question, QuestionKind};
use crate::compile::Entry;
use crate::engine::{Input, Person, ReloadPolicy, RunOptions};
use crate::process::event::{Event, What};
use crate::process::{Kill, Status};

use super::args::{ChatArgs, Global};
use super::chat_stream::FieldStream;
use super::loaded::{Clock, Loaded, NO_AGENTS, Outcome, inputs, load, load_entry, options};
use super::output::{BOLD, CYAN, DIM, RED};
use super::person::Lines;
use super::project::root_of_command;
use super::watching::Watching;
use super::{Exit, Fault, Out, keep};

/// Talks until the chat ends or the input does.
pub(super) fn chat(args: &ChatArgs, global: &Global, out: &Out) -> Result<Exit, Fault> {
    let kill = Kill::default();
    let screen = Arc::new(Screen { out: *out, show_prompts: args.show_prompts, state: Mutex::default() });
    let talker = Arc::new(Talker {
        out: *out,
        kill: kill.clone(),
        editor: Mutex::default(),
        screen: screen.clone(),
        lines: Lines::default(),
    });
    let clock = Clock::of(args.model.now.as_deref(), args.model.script.is_some())?;
    let loaded = match &args.target {
        Some(target) => load(target, clock, Some(talker), global, out)?,
        None => {
            load_entry(&root_of_command(global)?, Entry::Project, Fault::wrong(NO_AGENTS), clock, Some(talker), out)?
        }
    };
    let mut loaded = match loaded {
        Outcome::Ready(loaded) => loaded,
        Outcome::Ended(exit) => return Ok(exit),
    };
    let agent = chat_agent(&loaded, args.target.as_deref())?;
    if !args.no_store {
        loaded.engine = loaded.engine.with_store(keep::open(&loaded.root)?);
    }
    let given: Vec<Input> = inputs(&args.input.text, &args.input.inputs)?;
    let observer = {
        let screen = screen.clone();
        Arc::new(move |event: &Event| screen.hear(event))
    };
    // What is said of edits stands between the lines of the conversation.
    let said = *out;
    let _watching = Watching::begin(&loaded, *out, move |text| said.note(text))?;
    let run = RunOptions {
        reload: ReloadPolicy::Adopt,
        yes: args.yes,
        stream: true,
        observer: Some(observer),
        kill: kill.clone(),
        target: loaded.engine.agent(Some(&agent))?.file.clone(),
        context: args.context.clone(),
        ..options(&args.input, &args.model)?
    };
    loaded.refuse_unknown_providers(&run.models)?;
    let mut process = loaded.engine.start(&agent, given, run)?;
    let runtime = super::run::runtime()?;
    runtime.block_on(async {
        process.run().await;
        loaded.engine.close().await;
    });
    runtime.shutdown_background();
    let document = process.document();
    if out.json {
        out.document(&document);
    } else if let Some(failure) = &document.failure {
        out.note(format!("{} {}", out.paint_err(RED, format!("{}:", failure.kind)), failure.message));
    }
    if let (Some(waiting), false) = (&document.waiting, out.json || args.no_store) {
        let script = args.model.script();
        out.note(out.paint_err(DIM, super::run::resume_hint(&document.process, waiting, script)));
    }
    Ok(match document.status {
        // The person has left; the chat waits for the next message, if anyone comes back.
        Status::Waiting | Status::Completed => Exit::Done,
        status => super::run::exit(status),
    })
}

/// The agent to talk with: the one that is named, or the only chat of the project.
fn chat_agent(loaded: &Loaded, target: Option<&str>) -> Result<String, Fault> {
    if target.is_some() {
        if loaded.agent.chat.is_none() {
            return Err(Fault::wrong(format!("the agent `{}` is no chat", loaded.agent.name))
                .help("add `chat: {}` to its file, or run it: `agent-run run FILE \"…\"`"));
        }
        return Ok(loaded.agent.name.clone());
    }
    let program = loaded.engine.program();
    let chats = program.agents.iter().filter(|agent| agent.chat.is_some());
    let names: Vec<&str> = chats.map(|agent| agent.name.as_str()).collect();
    match names.as_slice() {
        [only] => Ok((*only).to_owned()),
        [] => Err(Fault::wrong("no agent of the project is a chat").help("add `chat: {}` to one, or name a file")),
        several => Err(Fault::wrong("several agents of the project are chats")
            .help(format!("name one: {}", crate::decl::read::listed(several)))),
    }
}

/// What is shown of the chat.
struct Screen {
    out: Out,
    show_prompts: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The reply that is being shown as it comes: which call, its text so far.
    live: Option<(String, FieldStream, String)>,
}

impl Screen {
    fn hear(&self, event: &Event) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &event.what {
            What::LlmRequest { messages, system, .. } if self.show_prompts => {
                let told = messages.iter().map(|message| {
                    format!("{}: {}", message["role"].as_str().unwrap_or("user"), super::observe::content(message))
                });
                let shown = system.iter().map(|text| format!("system: {text}")).chain(told);
                shown.for_each(|text| self.out.note(self.out.paint_err(DIM, text)));
            }
            What::LlmRequest { action, .. } => {
                state.live = Some((action.clone(), FieldStream::of("content"), String::new()))
            }
            What::LlmDelta { text, thinking: false, action } if !self.out.json => self.delta(&mut state, action, text),
            What::MessageSent { content } if !self.out.json => self.message(&mut state, content),
            What::NotAnswered { message } => {
                self.out.note(format!("{} {message}", self.out.paint_err(RED, "no answer:")));
            }
            What::ToolCalled { tool, .. } => self.out.note(self.out.paint_err(DIM, format!("· {tool}"))),
            _ => {}
        }
    }

    /// A piece of a reply; only what becomes a message shows.
    fn delta(&self, state: &mut State, action: &str, text: &str) {
        let Some((call, stream, shown)) = state.live.as_mut().filter(|(call, ..)| call == action) else { return };
        if text.is_empty() {
            // The call is made again: what came so far is void.
            if !shown.is_empty() {
                self.out.line("");
            }
            (*stream, *shown) = (FieldStream::of("content"), String::new());
            let _ = call;
            return;
        }
        let new = stream.push(text);
        if !new.is_empty() {
            let mut stdout = std::io::stdout().lock();
            if shown.is_empty() {
                let _ = write!(stdout, "{}", self.prefix());
            }
            let _ = write!(stdout, "{new}").and_then(|()| stdout.flush());
            shown.push_str(&new);
        }
    }

    /// A whole message: what has not shown yet of it.
    fn message(&self, state: &mut State, content: &str) {
        match state.live.take() {
            Some((_, _, shown)) if !shown.is_empty() && content.starts_with(&shown) => {
                self.out.line(&content[shown.len()..]);
            }
            Some((_, _, shown)) if !shown.is_empty() => self.out.line(format!("\n{}{content}", self.prefix())),
            _ => self.out.line(format!("{}{content}", self.prefix())),
        }
    }

    fn prefix(&self) -> String {
        if self.out.stdout_terminal { self.out.paint(CYAN, "› ") } else { String::new() }
    }
}

/// The person who talks.
struct Talker {
    out: Out,
    kill: Kill,
    editor: Mutex<Option<DefaultEditor>>,
    screen: Arc<Screen>,
    lines: Lines,
}

impl Talker {
    /// The next line, `None` at the end of the input. Empty lines are no messages.
    fn line(&self) -> Option<String> {
        loop {
            let line = if std::io::stdin().is_terminal() { self.edited()? } else { read_line()? };
            if !line.trim().is_empty() {
                return Some(line.trim().to_owned());
            }
        }
    }

    fn edited(&self) -> Option<String> {
        let mut editor = self.editor.lock().unwrap_or_else(PoisonError::into_inner);
        if editor.is_none() {
            *editor = DefaultEditor::new().ok();
        }
        let Some(editor) = editor.as_mut() else { return read_line() };
        match editor.readline("> ") {
            Ok(line) => {
                let _ = editor.add_history_entry(&line);
                Some(line)
            }
            Err(ReadlineError::Interrupted) => {
                self.kill.kill();
                None
            }
            Err(_) => None,
        }
    }
}

fn read_line() -> Option<String> {
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(line),
    }
}

impl Person for Talker {
    fn confirm(&self, question: &str) -> bool {
        let _ = &self.screen;
        self.out.interactive && self.lines.agrees(question, &|| self.kill.is_killed(), &self.out)
    }

    fn answer(&self, question: &Question) -> Option<Value> {
        match question.kind {
            QuestionKind::Message => Some(json!({"content": self.line()?})),
            _ => {
                self.out.note(self.out.paint_err(BOLD, &question.prompt));
                None
            }
        }
    }
}
