//! `shell`: an interactive session. Every line is a command without its `agent-run`; files are read anew for each.

use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::{CommandFactory, Parser};
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::{Hinter, HistoryHinter};
use rustyline::history::History;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, ExternalPrinter, Helper};

use crate::compile::{Compiled, Entry, Memory, compile_again};
use crate::world::{Snapshot, SystemWorld};

use super::args::{Cli, Global, ShellArgs, Verb, with_verb};
use super::output::{BOLD, DIM};
use super::project::root_of_command;
use super::watching::Watching;
use super::{Exit, Fault, Out};

/// Where the history stands, below the project's root.
const HISTORY: &str = ".agent-run/history";
/// Lines of history that are kept.
const HISTORY_MAX: usize = 1000;
/// Words of the shell itself, with what they do.
const OWN: &[(&str, &str)] = &[
    ("agents", "the agents of the project"),
    ("reload", "read the files again and say what is there"),
    ("!!", "the last line again; `!text`: the last line that began so"),
    ("history", "the lines so far"),
    ("help", "this list"),
    ("exit", "leave; Ctrl-D too"),
];

/// Reads and runs lines until the end.
pub(super) fn shell(args: &ShellArgs, global: &Global, out: &Out) -> Result<Exit, Fault> {
    let root = root_of_command(global)?;
    let mut session = Session {
        args: args.clone(),
        global: global.clone(),
        out: *out,
        seen: Snapshot::new(Arc::new(SystemWorld::new(&root))),
        memory: Memory::new(),
        root,
        last: Exit::Done,
        lines: Vec::new(),
    };
    if std::io::stdin().is_terminal() {
        session.at_terminal()?
    } else {
        session.piped()?
    }
    Ok(session.last)
}

struct Session {
    args: ShellArgs,
    global: Global,
    out: Out,
    root: PathBuf,
    /// The files as they were when the project was last looked at, and what was made of them.
    seen: Snapshot,
    memory: Memory,
    /// How the last command ended; the shell ends so.
    last: Exit,
    /// The lines so far, expanded.
    lines: Vec<String>,
}

/// What follows a line.
#[derive(PartialEq)]
enum Then {
    More,
    Leave,
}

impl Session {
    fn piped(&mut self) -> Result<(), Fault> {
        for line in std::io::stdin().lock().lines() {
            let line = line.map_err(|error| Fault::failed(format!("standard input cannot be read: {error}")))?;
            if self.line(&line) == Then::Leave {
                break;
            }
        }
        Ok(())
    }

    fn at_terminal(&mut self) -> Result<(), Fault> {
        let trouble = |error: ReadlineError| Fault::failed(format!("the terminal cannot be read: {error}"));
        let config = Config::builder()
            .max_history_size(HISTORY_MAX)
            .map_err(trouble)?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .build();
        let mut editor = Editor::<Words, _>::with_config(config).map_err(trouble)?;
        let history = self.root.join(HISTORY);
        // A first session has no history yet; one that cannot be read is no reason to refuse this one.
        let _ = editor.load_history(&history);
        self.lines = editor.history().iter().cloned().collect();
        editor.set_helper(Some(Words::new(self.agents(), self.out.color)));
        // Edits are announced above the line that is being written; without a watch they are seen all the same.
        let _watching = match editor.create_external_printer() {
            Ok(printer) => self.watch(printer),
            Err(_) => None,
        };
        self.out.note(self.out.paint_err(DIM, "`help` lists what can be said; Tab completes; Ctrl-D leaves"));
        loop {
            match editor.readline("agent-run> ") {
                Ok(line) => {
                    let before = self.lines.len();
                    let then = self.line(&line);
                    for line in &self.lines[before..] {
                        let _ = editor.add_history_entry(line);
                    }
                    self.keep(&mut editor, &history);
                    if then == Then::Leave {
                        break;
                    }
                    if let Some(helper) = editor.helper_mut() {
                        helper.agents = self.agents();
                    }
                }
                // Ctrl-C empties the line, as in any shell.
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(trouble(error)),
            }
        }
        Ok(())
    }

    /// Announces edits as `run --watch` does.
    fn watch(&self, printer: impl ExternalPrinter + Send + 'static) -> Option<Watching> {
        let printer = Mutex::new(printer);
        let say = move |text: &str| {
            let mut printer = printer.lock().unwrap_or_else(PoisonError::into_inner);
            // A terminal that is gone hears nothing.
            let _ = printer.print(format!("{text}\n"));
        };
        match Watching::of_project(&self.root, self.out, say) {
            Ok(watching) => Some(watching),
            Err(fault) => {
                self.out.note(self.out.paint_err(DIM, format!("edits are not announced: {}", fault.message)));
                None
            }
        }
    }

    /// Keeps the lines of this session, which is written after each: a session may be killed.
    fn keep(&self, editor: &mut Editor<Words, impl History>, history: &Path) {
        let made = history.parent().map_or(Ok(()), std::fs::create_dir_all);
        if let Err(error) = made
            .map_err(|error| error.to_string())
            .and_then(|()| editor.append_history(history).map_err(|error| error.to_string()))
        {
            self.out.note(format!("the history could not be kept in `{}`: {error}", history.display()));
        }
    }

    /// Runs one line.
    fn line(&mut self, written: &str) -> Then {
        let line = written.trim();
        if line.is_empty() || line.starts_with('#') {
            return Then::More;
        }
        let line = match self.expanded(line) {
            Ok(line) => line,
            Err(fault) => return self.wrong(&fault),
        };
        if line != written.trim() {
            self.out.note(self.out.paint_err(DIM, &line));
        }
        self.lines.push(line.clone());
        let Some(words) = shlex::split(&line) else {
            return self.wrong(&Fault::wrong("a quote is not closed").help("close it, or put a `\\` before it"));
        };
        match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["exit" | "quit"] => return Then::Leave,
            ["help" | "?"] => self.help(),
            ["agents"] => self.agents().iter().for_each(|name| self.out.line(name)),
            ["history"] => self.lines.iter().for_each(|line| self.out.line(line)),
            ["reload"] => self.reload(),
            ["shell", ..] => return self.wrong(&Fault::wrong("this is a shell already")),
            _ => self.command(words),
        }
        Then::More
    }

    /// `!!` is the last line, `!text` the last one that began with `text`.
    fn expanded(&self, line: &str) -> Result<String, Fault> {
        let Some(rest) = line.strip_prefix('!') else { return Ok(line.to_owned()) };
        let (wanted, more) = rest.split_once(' ').map_or((rest, ""), |(wanted, more)| (wanted, more));
        let found = match wanted {
            "!" => self.lines.last(),
            prefix => self.lines.iter().rev().find(|earlier| earlier.starts_with(prefix)),
        };
        let Some(found) = found else { return Err(Fault::wrong(format!("there is no earlier line `{line}`"))) };
        Ok(if more.is_empty() { found.clone() } else { format!("{found} {more}") })
    }

    fn command(&mut self, words: Vec<String>) {
        let all = std::iter::once("agent-run".to_owned()).chain(words);
        let parsed = Cli::try_parse_from(with_verb(all.map(Into::into).collect()));
        let mut cli = match parsed {
            Ok(cli) => cli,
            Err(error) => {
                let _ = error.print();
                self.last = if error.use_stderr() { Exit::Wrong } else { Exit::Done };
                return;
            }
        };
        cli.global = self.under(cli.global);
        if let Verb::Run(run) = &mut cli.verb {
            run.show_prompts |= self.args.show_prompts;
            run.show_responses |= self.args.show_responses;
        }
        let out = Out::new(&cli.global);
        self.last = super::dispatch(cli, &out).unwrap_or_else(|fault| {
            out.fault(&fault);
            fault.exit
        });
    }

    /// The flags of a line over those that the shell was started with.
    fn under(&self, own: Global) -> Global {
        let shell = &self.global;
        Global {
            project: own.project.or_else(|| shell.project.clone()),
            json: own.json || shell.json,
            quiet: own.quiet || shell.quiet,
            verbose: own.verbose || shell.verbose,
            color: if own.color == super::args::Color::Auto { shell.color } else { own.color },
        }
    }

    fn wrong(&mut self, fault: &Fault) -> Then {
        self.out.fault(fault);
        self.last = fault.exit;
        Then::More
    }

    fn help(&self) {
        let command = Cli::command();
        let verbs = command
            .get_subcommands()
            .filter(|verb| !verb.is_hide_set())
            .map(|verb| (verb.get_name().to_owned(), verb.get_about().map(ToString::to_string).unwrap_or_default()));
        let own = OWN.iter().map(|(name, about)| ((*name).to_owned(), (*about).to_owned()));
        for (name, about) in verbs.filter(|(name, _)| name != "shell").chain(own) {
            self.out.line(format!("  {:<12} {about}", name));
        }
        self.out.line("each verb takes its flags, and `VERB --help` lists them");
    }

    /// Says what is in the files now.
    fn reload(&mut self) {
        let compiled = self.compiled();
        let shown = compiled.diagnostics.sorted(&compiled.sources);
        let options = super::loaded::render_options(self.out.color_err);
        let text = crate::diag::render::human(&shown, &compiled.sources, options);
        if !text.trim().is_empty() {
            self.out.note(text.trim_end());
        }
        compiled.checked.lines().iter().for_each(|line| self.out.note(self.out.paint_err(BOLD, line)));
        self.last = if compiled.program.is_some() { Exit::Done } else { Exit::Wrong };
    }

    /// The project as its files are now; what has not changed since the last look is taken over.
    fn compiled(&mut self) -> Compiled {
        self.seen = self.seen.next();
        compile_again(&self.seen, Entry::Project, &mut self.memory)
    }

    /// Names of the agents; none while the project has errors.
    fn agents(&mut self) -> Vec<String> {
        let program = self.compiled().program;
        program.map(|program| program.agents.iter().map(|agent| agent.name.clone()).collect()).unwrap_or_default()
    }
}

/// Completes verbs, flags, agents and files; hints from the history.
struct Words {
    agents: Vec<String>,
    files: FilenameCompleter,
    hints: HistoryHinter,
    color: bool,
}

impl Words {
    fn new(agents: Vec<String>, color: bool) -> Words {
        Words { agents, files: FilenameCompleter::new(), hints: HistoryHinter::new(), color }
    }

    /// What the word may be, without files: `first` is the line's first word when this is a later one.
    fn candidates(&self, first: Option<&str>, word: &str) -> Vec<String> {
        let command = Cli::command();
        let verb = first.and_then(|first| command.find_subcommand(first));
        let mut all: BTreeSet<String> = BTreeSet::new();
        match (first, word.starts_with("--")) {
            (None, _) => {
                all.extend(
                    command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(|verb| verb.get_name().to_owned()),
                );
                all.extend(OWN.iter().map(|(name, _)| (*name).to_owned()));
            }
            (Some(_), true) => {
                let of_verb = verb.into_iter().flat_map(|verb| verb.get_arguments());
                let flags = of_verb.chain(command.get_arguments()).filter_map(|arg| arg.get_long());
                all.extend(flags.map(|flag| format!("--{flag}")));
            }
            (Some("explain"), false) => all.extend(crate::diag::codes::CODES.iter().map(|code| code.name.to_owned())),
            (Some(_), false) => all.extend(self.agents.iter().cloned()),
        }
        all.into_iter().filter(|candidate| candidate.starts_with(word)).collect()
    }
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, cx: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = &line[..at];
        let start = before.rfind(char::is_whitespace).map_or(0, |space| space + 1);
        let first = before[..start].split_whitespace().next();
        let pair = |text: String| Pair { display: text.clone(), replacement: format!("{text} ") };
        let mut found: Vec<Pair> = self.candidates(first, &before[start..]).into_iter().map(pair).collect();
        if found.is_empty() || first.is_some() {
            let (files_start, files) = self.files.complete(line, at, cx)?;
            if found.is_empty() {
                return Ok((files_start, files));
            }
            found.extend(files.into_iter().filter(|_| files_start == start));
        }
        Ok((start, found))
    }
}

impl Hinter for Words {
    type Hint = String;

    fn hint(&self, line: &str, at: usize, cx: &Context<'_>) -> Option<String> {
        self.hints.hint(line, at, cx)
    }
}

impl Highlighter for Words {
    fn highlight_hint<'h>(&self, hint: &'h str) -> std::borrow::Cow<'h, str> {
        if self.color { format!("{DIM}{hint}{DIM:#}").into() } else { hint.into() }
    }
}

impl Validator for Words {}
impl Helper for Words {}
