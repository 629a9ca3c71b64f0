//! How a run looks while it runs: a live checklist of the plan on a terminal, otherwise one plain line a step.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Out;
use super::output::{BOLD, CYAN, DIM, GREEN, RED, YELLOW};
use super::themes::Voice;
use crate::program;

/// Characters of a streamed reply that are shown beside its step.
const STREAM_CHARS: usize = 48;
/// Columns of a running step's line beside its name and what it does: spinner, time, gaps.
const RUNNING_COLUMNS: usize = 11;
const TICK: Duration = Duration::from_millis(90);

/// How a step ended, or what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// It succeeded.
    Succeeded,
    /// It failed for good.
    Failed,
    /// It failed and its `on_error` output was taken.
    Recovered,
    /// Nothing came.
    Empty,
    /// It waits for a person.
    Waiting,
}

/// What a finished step used.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct StepFacts {
    /// Models that answered, without repetition.
    pub models: Vec<String>,
    /// Tokens in.
    pub input_tokens: u64,
    /// Tokens out.
    pub output_tokens: u64,
    /// US dollars.
    pub cost_usd: f64,
    /// Milliseconds.
    pub ms: u64,
    /// Tool calls.
    pub tool_calls: usize,
    /// Tries, when there was more than one.
    pub attempts: u32,
    /// What went wrong.
    pub error: Option<String>,
}

/// Shows the steps of a run on stderr.
#[derive(Debug)]
pub(super) struct Checklist {
    out: Out,
    live: Option<MultiProgress>,
    state: Mutex<State>,
    /// The person is being asked; no line is live meanwhile.
    asking: AtomicBool,
    /// What is said beside the facts, where the project wants that.
    voice: RwLock<Option<Voice>>,
}

#[derive(Debug, Default)]
struct State {
    /// Steps that have not ended, in plan order: name, its line.
    open: Vec<(String, Option<ProgressBar>)>,
    width: usize,
    stream: String,
}

impl Checklist {
    /// A checklist: live when `live`, else plain lines; silent when quiet.
    pub(super) fn new(out: Out, live: bool) -> Checklist {
        let live = (live && !out.quiet).then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr()));
        Checklist { out, live, state: Mutex::default(), asking: AtomicBool::new(false), voice: RwLock::default() }
    }

    /// From now on the voice that a program asks for is heard beside the facts; one that is heard already goes on.
    pub(super) fn speak(&self, voice: Option<&program::Voice>) {
        let mut heard = self.voice.write().unwrap_or_else(PoisonError::into_inner);
        if !heard.as_ref().is_some_and(|heard| heard.is(voice)) {
            *heard = Voice::of(voice);
        }
    }

    /// What the voice has to say, in a line of its own.
    pub(super) fn aside(&self, turn: &str, about: &str) {
        if let Some(said) = self.said(turn, about) {
            self.line(self.out.paint_err(DIM, self.cut(&said, 0)));
        }
    }

    fn said(&self, turn: &str, about: &str) -> Option<String> {
        self.voice.read().unwrap_or_else(PoisonError::into_inner).as_ref()?.say(turn, about)
    }

    /// The agent, once.
    pub(super) fn title(&self, agent: &str) {
        self.line(self.out.paint_err(BOLD, self.cut(agent, 0)));
        self.aside("begins", agent);
    }

    /// The steps that are planned now; those of an earlier plan that have not started are dropped.
    pub(super) fn plan(&self, steps: &[String], replanned: Option<&str>) {
        let mut state = self.lock();
        for (_, bar) in state.open.drain(..) {
            self.clear(bar.as_ref());
        }
        if let Some(reason) = replanned {
            // Without live lines nothing else shows what comes now.
            let way = if self.live.is_some() { String::new() } else { format!(": {}", steps.join(" → ")) };
            let said = self.cut(&format!("↻ another way, {reason}{way}"), 0);
            self.line(self.out.paint_err(YELLOW, said));
            self.aside("another_way", "");
        }
        state.width = state.width.max(steps.iter().map(|step| step.chars().count()).max().unwrap_or(0));
        for step in steps {
            let bar = self.live.as_ref().map(|live| {
                let bar = live.add(ProgressBar::new_spinner().with_style(style("{wide_msg}")));
                bar.set_message(self.out.paint_err(DIM, format!("○ {step}")));
                bar
            });
            state.open.push((step.clone(), bar));
        }
    }

    /// A step has begun.
    pub(super) fn started(&self, step: &str) {
        let mut state = self.lock();
        state.stream.clear();
        let width = state.width;
        if let Some(bar) = self.bar(&mut state, step) {
            bar.set_style(style("{spinner:.cyan} {prefix}  {elapsed:>3.dim}  {wide_msg:.dim}"));
            bar.set_prefix(self.out.paint_err(CYAN, self.cut(&format!("{step:width$}"), RUNNING_COLUMNS)));
            bar.set_message("");
            bar.reset_elapsed();
            bar.enable_steady_tick(TICK);
        }
    }

    /// Something is happening in a step: a tool call, a retry.
    pub(super) fn doing(&self, step: &str, what: &str) {
        let mut state = self.lock();
        match self.bar(&mut state, step) {
            Some(bar) => bar.set_message(what.lines().next().unwrap_or_default().to_owned()),
            None => {
                if self.live.is_none() && self.out.verbose {
                    self.out.note(format!("  {step}: {what}"));
                }
            }
        }
    }

    /// Text has arrived from a model.
    pub(super) fn streamed(&self, step: &str, text: &str) {
        if self.live.is_none() {
            return;
        }
        let tail = {
            let mut state = self.lock();
            state.stream.push_str(text);
            let flat: Vec<char> = state.stream.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            let room = self.columns().saturating_sub(RUNNING_COLUMNS + state.width).clamp(12, STREAM_CHARS);
            let tail: String = flat[flat.len().saturating_sub(room)..].iter().collect();
            state.stream = tail.clone();
            tail
        };
        self.doing(step, &tail);
    }

    /// A step has ended: its line joins those above the open ones.
    pub(super) fn finished(&self, step: &str, mark: Mark, facts: &StepFacts) {
        let mut state = self.lock();
        if let Some(index) = state.open.iter().position(|(name, _)| name == step) {
            let (_, bar) = state.open.remove(index);
            self.clear(bar.as_ref());
        }
        self.line(self.summary(step, mark, facts, state.width));
    }

    /// What was no step is over: its line disappears.
    pub(super) fn passed(&self, what: &str) {
        let mut state = self.lock();
        if let Some(index) = state.open.iter().position(|(name, _)| name == what) {
            let (_, bar) = state.open.remove(index);
            self.clear(bar.as_ref());
        }
    }

    /// A line of its own, above the steps that are open.
    pub(super) fn line(&self, text: impl AsRef<str>) {
        match &self.live {
            Some(live) => {
                let _ = live.println(text);
            }
            None => self.out.note(text),
        }
    }

    /// Runs something that talks with the person, with the live lines out of the way.
    pub(super) fn suspended<T>(&self, talk: impl FnOnce() -> T) -> T {
        self.asking.store(true, Ordering::SeqCst);
        let said = match &self.live {
            Some(live) => live.suspend(talk),
            None => talk(),
        };
        self.asking.store(false, Ordering::SeqCst);
        said
    }

    /// The run is over: steps that were never reached disappear.
    pub(super) fn end(&self) {
        for (_, bar) in self.lock().open.drain(..) {
            self.clear(bar.as_ref());
        }
    }

    /// The person pressed Ctrl-C: what the terminal echoed of it, in a line of its own below the live ones, is wiped.
    pub(super) fn interrupted(&self) {
        let is_live = self.live.is_some() && self.out.interactive && !self.asking.load(Ordering::SeqCst);
        if is_live && !self.lock().open.is_empty() {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K\x1b[1A");
        }
    }

    fn clear(&self, bar: Option<&ProgressBar>) {
        if let (Some(live), Some(bar)) = (&self.live, bar) {
            bar.finish_and_clear();
            live.remove(bar);
        }
    }

    /// Columns of the terminal; without one there is no end to a line.
    fn columns(&self) -> usize {
        let size = self.live.as_ref().and_then(|_| console::Term::stderr().size_checked());
        size.map_or(usize::MAX, |(_, columns)| usize::from(columns))
    }

    /// A text that fits in the line beside `taken` columns of other text.
    fn cut(&self, text: &str, taken: usize) -> String {
        cut(text, self.columns().saturating_sub(taken).max(8))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The line of a step; a step that no plan announced gets one.
    fn bar(&self, state: &mut State, step: &str) -> Option<ProgressBar> {
        let live = self.live.as_ref()?;
        if let Some((_, bar)) = state.open.iter().find(|(name, _)| name == step) {
            return bar.clone();
        }
        let bar = live.add(ProgressBar::new_spinner().with_style(style("{wide_msg}")));
        state.open.push((step.to_owned(), Some(bar.clone())));
        Some(bar)
    }

    fn summary(&self, step: &str, mark: Mark, facts: &StepFacts, width: usize) -> String {
        let (sign, style, word, turn) = match mark {
            Mark::Succeeded => ("✓", GREEN, None, "succeeded"),
            Mark::Failed => ("✗", RED, Some("failed"), "failed"),
            Mark::Recovered => ("✓", YELLOW, Some("recovered"), "recovered"),
            Mark::Empty => ("∅", YELLOW, Some("nothing came"), "empty"),
            Mark::Waiting => ("…", YELLOW, Some("waits for a person"), "waits"),
        };
        let mut parts: Vec<String> = word.map(str::to_owned).into_iter().collect();
        parts.extend(details(facts));
        parts.extend(self.said(turn, step).map(|said| format!("({said})")));
        let error = facts
            .error
            .as_deref()
            .map(|error| format!("\n    {}", self.out.paint_err(RED, error.replace('\n', "\n    "))));
        let sign = self.out.paint_err(style, sign);
        let name = self.cut(&format!("{step:width$}"), 2);
        let details = match self.columns().checked_sub(console::measure_text_width(&name) + 4).filter(|room| *room > 4)
        {
            Some(room) => self.out.paint_err(DIM, cut(&parts.join("  "), room)),
            None => String::new(),
        };
        format!("{sign} {name}  {details}{}", error.unwrap_or_default()).trim_end().to_owned()
    }
}

/// The beginning of a text without styles that takes at most so many columns, with `…` where something is missing.
fn cut(text: &str, columns: usize) -> String {
    console::truncate_str(text, columns, "…").into_owned()
}

fn details(facts: &StepFacts) -> Vec<String> {
    let mut parts = Vec::new();
    if !facts.models.is_empty() {
        parts.push(facts.models.join(", "));
        parts.push(format!("{} → {} tokens", facts.input_tokens, facts.output_tokens));
    }
    if facts.tool_calls > 0 {
        parts.push(format!("{} tool call{}", facts.tool_calls, if facts.tool_calls == 1 { "" } else { "s" }));
    }
    if facts.attempts > 1 {
        parts.push(format!("{} tries", facts.attempts));
    }
    parts.push(time(facts.ms));
    if facts.cost_usd > 0.0 {
        parts.push(dollars(facts.cost_usd));
    }
    parts
}

/// Milliseconds as a person reads them.
pub(super) fn time(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.1} s", ms as f64 / 1_000.0),
        _ => format!("{} m {} s", ms / 60_000, ms % 60_000 / 1_000),
    }
}

/// US dollars as a person reads them.
pub(super) fn dollars(usd: f64) -> String {
    if usd >= 0.01 { format!("${usd:.2}") } else { format!("${usd:.4}") }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::{Color, Global};

    #[test]
    fn a_step_is_summed_up_in_one_line() {
        let out = Out::new(&Global { color: Color::Never, ..Global::default() });
        let list = Checklist::new(out, false);
        let facts = StepFacts {
            models: vec!["demo/scripted".into()],
            input_tokens: 181,
            output_tokens: 22,
            ms: 812,
            cost_usd: 0.0001,
            attempts: 2,
            ..StepFacts::default()
        };
        assert_eq!(
            list.summary("find_news", Mark::Succeeded, &facts, 12),
            "✓ find_news     demo/scripted  181 → 22 tokens  2 tries  812 ms  $0.0001"
        );
        assert_eq!((cut("日本語 text", 6), cut("text", 4)), ("日本…".into(), "text".into()));
        assert_eq!((time(65_000), dollars(1.239)), ("1 m 5 s".into(), "$1.24".into()));
    }
}
