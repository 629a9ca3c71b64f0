//! Which actions, goals, templates and branches of templates of the workflows the cases reach.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::compile::PERSONA_LINES;
use crate::process::{Document, Event, What};
use crate::prompt::{Arm, Reach};
use crate::source::{Node, NodeKind, Sources, Span, Text, read};

use super::load::{Suite, SuiteFile};
use super::report::Report;
use super::run::OUTSIDE;

/// What the cases of a run reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// By workflow, in the order of the test files.
    pub workflows: Vec<FileCoverage>,
}

/// What the cases reach of one workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileCoverage {
    /// The workflow's file.
    pub workflow: String,
    /// How many actions there are.
    pub actions: usize,
    /// Actions that no case runs.
    pub actions_missed: Vec<String>,
    /// How many goals there are.
    pub goals: usize,
    /// Goals that no case reaches.
    pub goals_missed: Vec<String>,
    /// How many templates the project's files have for the workflow.
    pub templates: usize,
    /// Templates that no case renders.
    pub templates_missed: Vec<MissedTemplate>,
    /// How many branches these templates have.
    pub branches: usize,
    /// Branches that no case takes.
    pub branches_missed: Vec<MissedBranch>,
}

/// A template that no case renders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissedTemplate {
    /// The file, relative to the root.
    pub file: String,
    /// The line that it begins in.
    pub line: usize,
    /// Its first line.
    pub text: String,
}

/// A branch of a template that no case takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissedBranch {
    /// The file, relative to the root.
    pub file: String,
    /// The line of the test.
    pub line: usize,
    /// What never happens, in words.
    pub what: &'static str,
    /// The test, or what is looped over.
    pub text: String,
    /// Whether the template is rendered.
    pub rendered: bool,
}

/// The actions that ran and the goal that was reached, the latter behind `goal `.
pub(super) fn reached(document: &Document, events: &[Event]) -> Vec<String> {
    let started = events.iter().filter_map(|event| match &event.what {
        What::ActionStarted { action, .. } => Some(action.clone()),
        _ => None,
    });
    let goal = document.goal.as_ref().map(|goal| format!("goal {goal}"));
    started.chain(goal).collect::<BTreeSet<_>>().into_iter().collect()
}

impl Suite {
    /// What the cases of a run reach of the agents that the test files name.
    pub fn coverage(&self, report: &Report) -> Coverage {
        let mut workflows: Vec<FileCoverage> = Vec::new();
        for file in &self.files {
            let agent = &file.agent;
            if workflows.iter().any(|known| known.workflow == agent.file) {
                continue;
            }
            let of_agent = self.files.iter().filter(|other| other.program.agent(&agent.name).is_some());
            let paths: BTreeSet<&str> = of_agent.map(|file| file.path.as_str()).collect();
            let cases = report.cases.iter().filter(|case| paths.contains(case.file.as_str()));
            let reached: BTreeSet<&str> = cases.flat_map(|case| case.reached.iter().map(String::as_str)).collect();
            let actions: Vec<&str> = agent.actions.iter().map(|action| action.name.as_str()).collect();
            let missed = actions.iter().filter(|name| !reached.contains(**name)).map(|name| (*name).to_owned());
            let goals = agent.goals.iter().map(|goal| goal.name.clone());
            let goals_missed = goals.filter(|name| !reached.contains(format!("goal {name}").as_str()));
            let templates = Places::of(&self.root, &file.program_sources).found(file);
            let missed_templates = templates.iter().filter(|template| !template.reach.rendered);
            let branches = templates.iter().flat_map(Template::branches);
            workflows.push(FileCoverage {
                workflow: agent.file.clone(),
                actions: actions.len(),
                actions_missed: missed.collect(),
                goals: agent.goals.len(),
                goals_missed: goals_missed.collect(),
                templates: templates.len(),
                templates_missed: missed_templates.map(Template::missed).collect(),
                branches: templates.iter().map(|template| template.reach.branches.len()).sum(),
                branches_missed: branches.collect(),
            });
        }
        Coverage { workflows }
    }
}

/// A template with its place.
struct Template<'s> {
    sources: &'s Sources,
    text: Text,
    /// How many bytes stand before the text where it is rendered.
    before: usize,
    reach: Reach,
}

impl Template<'_> {
    fn place(&self, span: Span) -> (String, usize) {
        let source = self.sources.get(span.file);
        (source.path().to_owned(), source.line_column(span.start).0)
    }

    fn missed(&self) -> MissedTemplate {
        let start = self.text.value.len() - self.text.value.trim_start().len();
        let (file, line) = self.place(self.text.span_of(start..start + 1));
        let text = self.text.value.trim_start().lines().next().unwrap_or_default();
        MissedTemplate { file, line, text: short(text) }
    }

    fn branches(&self) -> impl Iterator<Item = MissedBranch> {
        self.reach.branches.iter().filter(|branch| !branch.taken).map(|branch| {
            let range = branch.range.start.saturating_sub(self.before)..branch.range.end.saturating_sub(self.before);
            let (file, line) = self.place(self.text.span_of(range.clone()));
            let what = match branch.arm {
                Arm::Holds => "`if` never holds",
                Arm::Fails => "`if` always holds",
                Arm::Element => "`for` never has an element",
                Arm::Empty => "`for` is never empty",
            };
            let text = short(self.text.value.get(range).unwrap_or_default());
            MissedBranch { file, line, what, text, rendered: self.reach.rendered }
        })
    }
}

/// A text in one line of readable length.
fn short(text: &str) -> String {
    const MAX: usize = 60;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// Where the texts of a project's files stand.
struct Places<'s> {
    sources: &'s Sources,
    texts: BTreeMap<String, Text>,
    /// Texts of bodies that reach out of the program: cases have stubs for them.
    outside: BTreeSet<String>,
}

impl<'s> Places<'s> {
    /// The strings of the files that are under the root, and those that are a text as a whole.
    fn of(root: &std::path::Path, sources: &'s Sources) -> Places<'s> {
        let (mut texts, mut outside) = (BTreeMap::new(), BTreeMap::new());
        for (id, source) in sources.iter().filter(|(_, source)| root.join(source.path()).is_file()) {
            if [".yaml", ".yml", ".toml"].iter().any(|end| source.path().ends_with(end)) {
                if let (Some(node), _) = read(id, source) {
                    collect(&node, &mut texts, &mut outside);
                }
            } else {
                let span = Span::new(id, 0, source.text().len() as u32);
                let text = Text::verbatim(source.text(), span, crate::source::Style::Literal, 0);
                texts.entry(text.value.clone()).or_insert(text);
            }
        }
        let only_outside = outside.keys().filter(|text| !texts.contains_key(*text)).cloned().collect();
        outside.append(&mut texts);
        Places { sources, texts: outside, outside: only_outside }
    }

    /// The text that a template was made of, and how many bytes stand before it: a persona's stands in a sentence.
    fn text(&self, source: &str) -> Option<(&Text, usize)> {
        let in_sentence = |(before, after): (&str, &str)| {
            let inside = source.strip_prefix(before)?.strip_suffix(after)?;
            // White space at the end went when the sentence was made.
            let text = self.texts.get(inside).or_else(|| self.texts.get(&format!("{inside}\n")))?;
            Some((text, before.len()))
        };
        let whole = self.texts.get(source).map(|text| (text, 0));
        whole.or_else(|| PERSONA_LINES.into_iter().find_map(in_sentence))
    }

    /// The templates of a file's agent that are among the texts, in the order of their places.
    fn found(&self, file: &SuiteFile) -> Vec<Template<'s>> {
        let mut found: Vec<Template<'s>> = Vec::new();
        for reach in file.agent.templates.reached() {
            let Some((text, before)) = self.text(&reach.source) else { continue };
            if !reach.rendered && self.outside.contains(&text.value) {
                continue;
            }
            // A file can be a prompt and be drawn in by others.
            match found.iter_mut().find(|known| known.text.value == text.value) {
                Some(known) => known.add(reach),
                None => found.push(Template { sources: self.sources, text: text.clone(), before, reach }),
            }
        }
        found.sort_by_key(|template| (template.place(template.text.span).0, template.text.span.start));
        found
    }
}

impl Template<'_> {
    fn add(&mut self, other: Reach) {
        self.reach.rendered |= other.rendered;
        for (own, other) in self.reach.branches.iter_mut().zip(other.branches) {
            own.taken |= other.taken;
        }
    }
}

/// Collects the texts of a file; those of bodies that reach out of the program for themselves.
fn collect(node: &Node, texts: &mut BTreeMap<String, Text>, outside: &mut BTreeMap<String, Text>) {
    match &node.kind {
        NodeKind::Text(text) => drop(texts.entry(text.value.clone()).or_insert_with(|| text.clone())),
        NodeKind::List(items) => items.iter().for_each(|item| collect(item, texts, outside)),
        NodeKind::Map(map) => map.iter().for_each(|entry| match OUTSIDE.contains(&entry.key.value.as_str()) {
            true => collect(&entry.value, outside, &mut BTreeMap::new()),
            false => collect(&entry.value, texts, outside),
        }),
        _ => {}
    }
}
