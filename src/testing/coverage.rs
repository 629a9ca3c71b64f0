//! Which actions and goals of the workflows the cases reach.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::process::{Document, Event, What};

use super::load::Suite;
use super::report::Report;

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
            workflows.push(FileCoverage {
                workflow: agent.file.clone(),
                actions: actions.len(),
                actions_missed: missed.collect(),
                goals: agent.goals.len(),
                goals_missed: goals_missed.collect(),
            });
        }
        Coverage { workflows }
    }
}
