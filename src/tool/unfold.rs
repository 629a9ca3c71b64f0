//! Tools that unfold (language.md 9): what a model is offered after each turn, and what it is told.
//!
//! An [`Interaction`] is the state of one conversation with a model, as data: it performs nothing. Tools are called in
//! turns; within a turn a call may use what an earlier call of it revealed, and everything that was offered when the
//! turn began.

use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::diag::suggest;
use crate::prompt::{ExprId, TemplateId};

use super::offer::{Offered, Role, Use, collide};

/// Deepest nesting of facades (runtime.md 4).
pub const NESTING_MAX: usize = 8;

/// Most characters of a name that is not there which a model is told back.
const UNKNOWN_CHARS_MAX: usize = 80;

/// The parameter that chooses a category, without `by`.
pub const BY: &str = "category";

/// The body `unfold` of a tool, resolved.
#[derive(Clone, Debug, Default)]
pub struct Unfold {
    /// What it reveals, or with `select` may reveal.
    pub tools: Vec<Use>,
    /// The name of the parameter that chooses a category.
    pub by: String,
    /// Tools by category.
    pub categories: IndexMap<String, Vec<Use>>,
    /// Revealed whichever category is chosen.
    pub shared: Vec<Use>,
    /// Gives the names of the tools that are revealed.
    pub select: Option<ExprId>,
    /// Follows the list of tools in the answer.
    pub usage_notes: Option<TemplateId>,
    /// It is replaced by its contents.
    pub remove_on_invoke: bool,
    /// Every other tool goes away.
    pub exclusive: bool,
    /// A tool stays that repeats description and notes.
    pub context_tool: bool,
}

/// What a facade reveals in one interaction.
#[derive(Debug, Default)]
pub struct Facade {
    /// Everything that it may reveal, in the order written.
    pub tools: Vec<Arc<Offered>>,
    /// The name of the parameter that chooses a category.
    pub by: String,
    /// Positions in `tools` by category.
    pub categories: IndexMap<String, Vec<usize>>,
    /// Positions in `tools` that are revealed whichever category is chosen.
    pub shared: Vec<usize>,
    /// Gives the names of the tools that are revealed.
    pub select: Option<ExprId>,
    /// Follows the list of tools in the answer.
    pub notes: Option<String>,
    /// It is replaced by its contents.
    pub remove_on_invoke: bool,
    /// Every other tool goes away.
    pub exclusive: bool,
    /// A tool stays that repeats description and notes.
    pub guide: bool,
}

impl Facade {
    /// Positions of the tools that a call with these arguments reveals; those of `select` are given by name.
    ///
    /// # Errors
    /// A selected name that is none of its tools.
    pub fn chosen(&self, arguments: &Map<String, Value>, selected: Option<&[String]>) -> Result<Vec<usize>, String> {
        let all = || (0..self.tools.len()).collect::<Vec<usize>>();
        if let Some(selected) = selected {
            let at = |name: &String| self.tools.iter().position(|tool| tool.name() == name).ok_or_else(|| name.clone());
            let mut found = selected.iter().map(at).collect::<Result<Vec<usize>, String>>().map_err(|name| {
                let names = self.tools.iter().map(|tool| tool.name());
                format!("`select` gave `{name}`; {}", suggest::near_or_all(&name, names, "the tools to select from"))
            })?;
            found.sort_unstable();
            found.dedup();
            return Ok(found);
        }
        let category = arguments.get(&self.by).and_then(Value::as_str).and_then(|name| self.categories.get(name));
        Ok(match category {
            // Missing or unknown: all.
            None => all(),
            Some(own) => all().into_iter().filter(|at| own.contains(at) || self.shared.contains(at)).collect(),
        })
    }

    /// The inner tools that the arguments call at once, with their arguments: keys that are inner tools' names.
    pub fn shortcuts<'a>(&'a self, arguments: &'a Map<String, Value>) -> Vec<(&'a Arc<Offered>, &'a Value)> {
        let inner = |key: &String| self.tools.iter().find(|tool| tool.name() == key && *key != self.by);
        arguments.iter().filter_map(|(key, value)| Some((inner(key)?, value))).collect()
    }
}

/// The answer to a name that a model calls.
#[derive(Clone, Debug)]
pub enum Found {
    /// The tool.
    Tool(Arc<Offered>),
    /// There is none; what the model is told.
    Unknown(String),
}

type Offers = IndexMap<String, Arc<Offered>>;

/// The tools of one conversation with a model.
#[derive(Debug, Default)]
pub struct Interaction {
    offered: Arc<Offers>,
    /// What was offered when the turn began.
    before: Arc<Offers>,
    /// What was revealed in this turn, guides among it.
    revealed: Vec<Arc<Offered>>,
    /// An exclusive facade was opened in this turn.
    exclusive: Option<String>,
    /// Every facade that was opened, by name, the newest last.
    opened: IndexMap<String, Arc<Offered>>,
    /// Tools that went away when an exclusive facade was opened: name, the facade.
    put_away: IndexMap<String, String>,
    /// Goes up whenever the list changes.
    version: u64,
}

impl Interaction {
    /// A conversation that begins with these tools.
    ///
    /// # Errors
    /// Two different tools of one name, neither of which yields.
    pub fn new(tools: impl IntoIterator<Item = Arc<Offered>>) -> Result<Interaction, String> {
        let mut interaction = Interaction::default();
        interaction.add(tools)?;
        interaction.begin_turn();
        Ok(interaction)
    }

    /// The tools that the model is offered, in order.
    pub fn offered(&self) -> impl ExactSizeIterator<Item = &Arc<Offered>> {
        self.offered.values()
    }

    /// A number that changes whenever the list does.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Offers further tools from now on: those of an object that came, or of an artifact.
    ///
    /// # Errors
    /// Two different tools of one name, neither of which yields.
    pub fn add(&mut self, tools: impl IntoIterator<Item = Arc<Offered>>) -> Result<(), String> {
        for tool in tools {
            self.offer(&tool)?;
            self.revealed.push(tool);
        }
        Ok(())
    }

    fn offer(&mut self, tool: &Arc<Offered>) -> Result<(), String> {
        let known = match self.offered.get(tool.name()) {
            Some(earlier) => {
                let winner = collide(earlier, tool)?;
                if Arc::ptr_eq(winner, earlier) { true } else { earlier.same_as(tool) }
            }
            None => false,
        };
        if !known {
            Arc::make_mut(&mut self.offered).insert(tool.name().to_owned(), Arc::clone(tool));
            self.version += 1;
        }
        Ok(())
    }

    /// A turn begins: the model has seen what is offered now.
    pub fn begin_turn(&mut self) {
        self.before = Arc::clone(&self.offered);
        self.revealed.clear();
        self.exclusive = None;
    }

    /// The tool that the model calls by `name`.
    pub fn find(&self, name: &str) -> Found {
        match self.offered.get(name).or_else(|| self.before.get(name)) {
            Some(tool) => Found::Tool(Arc::clone(tool)),
            None => Found::Unknown(self.unknown(name)),
        }
    }

    /// What a model is told that calls what is not there.
    fn unknown(&self, name: &str) -> String {
        let name = name.char_indices().nth(UNKNOWN_CHARS_MAX).map_or(name, |(end, _)| &name[..end]);
        if let Some(facade) = self.opened.get(name).and_then(|opened| opened.facade()) {
            let inner: Vec<&str> = facade.tools.iter().map(|tool| tool.name()).collect();
            let inner: Vec<&str> = inner.into_iter().filter(|name| self.offered.contains_key(*name)).collect();
            let now = if inner.is_empty() {
                String::new()
            } else {
                format!("; call its tools instead: {}", suggest::listed(&inner))
            };
            return format!("There is no tool `{name}` any more: it was unfolded already{now}.");
        }
        if let Some(path) = self.path_to(name) {
            let (first, rest) = (path.first().map_or("", String::as_str), path.get(1..).unwrap_or_default());
            let then: String = rest.iter().map(|facade| format!(", then `{facade}`")).collect();
            return format!("There is no tool `{name}` yet: call `{first}`{then} first, which reveals it.");
        }
        if let Some(facade) = self.put_away.get(name) {
            return format!("There is no tool `{name}` any more: it went away when `{facade}` was called.");
        }
        let skipped = |opened: &&Arc<Offered>| {
            opened.facade().is_some_and(|facade| facade.tools.iter().any(|tool| tool.name() == name))
        };
        if let Some(facade) = self.opened.values().rfind(skipped) {
            return format!("There is no tool `{name}`: the call of `{}` did not reveal it.", facade.name());
        }
        let names = self.offered.keys().map(String::as_str);
        let help = suggest::near_or_all(name, names, "the tools");
        format!("There is no tool `{name}`; {help}{}", if help.ends_with('?') { "" } else { "." })
    }

    /// The facades that must be called, in order, for a tool to be revealed.
    fn path_to(&self, name: &str) -> Option<Vec<String>> {
        fn inside(of: &Offered, name: &str, path: &mut Vec<String>) -> bool {
            let Some(facade) = of.facade().filter(|_| path.len() < NESTING_MAX) else { return false };
            path.push(of.name().to_owned());
            let found = facade.tools.iter().any(|tool| tool.name() == name)
                || facade.tools.iter().any(|tool| inside(tool, name, path));
            if !found {
                path.pop();
            }
            found
        }
        self.offered.values().find_map(|tool| {
            let mut path = Vec::new();
            inside(tool, name, &mut path).then_some(path)
        })
    }

    /// Opens a facade and gives the answer of its call. `chosen` are positions among its tools; tools for which `fits`
    /// is false are left out.
    ///
    /// # Errors
    /// Two different tools of one name, neither of which yields.
    pub fn unfold(
        &mut self,
        opened: &Arc<Offered>,
        chosen: &[usize],
        fits: &dyn Fn(&Offered) -> bool,
    ) -> Result<String, String> {
        let Some(facade) = opened.facade() else { return Ok(String::new()) };
        self.opened.insert(opened.name().to_owned(), Arc::clone(opened));
        let tools: Vec<&Arc<Offered>> =
            chosen.iter().filter_map(|at| facade.tools.get(*at)).filter(|tool| fits(tool)).collect();
        if facade.remove_on_invoke && self.offered.contains_key(opened.name()) {
            Arc::make_mut(&mut self.offered).shift_remove(opened.name());
            self.revealed.retain(|tool| tool.name() != opened.name());
            self.version += 1;
        }
        let mut revealed: Vec<Arc<Offered>> = tools.iter().map(|tool| Arc::clone(tool)).collect();
        if !facade.remove_on_invoke {
            revealed.insert(0, Arc::clone(opened));
        }
        if facade.guide {
            revealed.push(Arc::new(guide(opened, facade)));
        }
        if facade.exclusive || self.exclusive.is_some() {
            self.put_away_all(opened.name(), &revealed);
            if facade.exclusive {
                self.exclusive = Some(opened.name().to_owned());
            }
        }
        self.add(revealed)?;
        Ok(answer(&tools, facade))
    }

    /// Under `exclusive` only what this turn reveals is offered.
    fn put_away_all(&mut self, facade: &str, revealed: &[Arc<Offered>]) {
        let stays = |name: &str| self.revealed.iter().chain(revealed).any(|tool| tool.name() == name);
        let going: Vec<String> = self.offered.keys().filter(|name| !stays(name)).cloned().collect();
        if going.is_empty() {
            return;
        }
        let offered = Arc::make_mut(&mut self.offered);
        for name in going {
            offered.shift_remove(&name);
            self.put_away.insert(name, facade.to_owned());
        }
        self.version += 1;
    }
}

/// The tool that repeats what a facade says.
fn guide(opened: &Offered, facade: &Facade) -> Offered {
    let name = format!("{}_guide", opened.name());
    let notes = facade.notes.iter().map(String::as_str);
    let description = Some(opened.spec.description.as_str()).filter(|text| !text.is_empty());
    let text: Vec<&str> = description.into_iter().chain(notes).collect();
    let description = format!("How to work with the tools of `{}`", opened.name());
    Offered::own(name, description, Role::Guide(text.join("\n\n")))
}

/// The answer of a call to a facade: the author's words, without an envelope.
fn answer(tools: &[&Arc<Offered>], facade: &Facade) -> String {
    let mut text = match tools.is_empty() {
        true => "No tool is available here now.".to_owned(),
        false => "These tools are available now:".to_owned(),
    };
    for tool in tools {
        let first = tool.spec.description.lines().next().unwrap_or_default().trim();
        let about = if first.is_empty() { String::new() } else { format!(": {first}") };
        text.push_str(&format!("\n- {}{about}", tool.name()));
    }
    if let Some(notes) = &facade.notes {
        text.push_str("\n\n");
        text.push_str(notes);
    }
    text
}
