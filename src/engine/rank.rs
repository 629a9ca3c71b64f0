//! Which agent, or which goal, serves a request that names neither (cli.md `run`): a model ranks them.

use serde::Serialize;
use serde_json::{Value, json};

use crate::action::context::{CallSettings, PromptCall};
use crate::action::{Context, Failure};
use crate::llm::{Message, OutputSchema};
use crate::process::{ActionContext, Blackboard, Marks, Scope};
use crate::program::{Agent, Goal};
use crate::value::{Output, OutputKind, TypeId};

use super::{Engine, Input, RunOptions, inputs};

/// The name of the call, for scripts, events and errors.
const CALL: &str = "ranking";
/// How many replies are tried.
const ATTEMPTS: u32 = 3;

/// What may be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What the model calls it: the agent's name, or `agent.goal`.
    pub name: String,
    /// The agent.
    pub agent: String,
    /// The goal, when goals are ranked.
    pub goal: Option<String>,
    /// What it does, for the model.
    description: String,
}

/// One line of a ranking.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranked {
    /// The candidate's name.
    pub name: String,
    /// How well it serves the request, from 0 to 1.
    pub confidence: f64,
    /// Why.
    pub why: String,
}

impl Engine {
    /// The agents that can start from what is given, and for those that cannot, why.
    pub fn agents_for(&self, given: &[Input], returns: Option<&str>) -> (Vec<Candidate>, Vec<String>) {
        let (mut candidates, mut left_out) = (Vec::new(), Vec::new());
        for agent in &self.program().agents {
            if let Some(returns) = returns
                && !agent.goals.iter().any(|goal| gives(agent, goal, returns))
            {
                left_out.push(format!("`{}` has no goal that gives `{returns}`", agent.name));
                continue;
            }
            let objects = inputs::given(agent, given.to_vec(), self.inner().world.as_ref());
            match objects.and_then(|objects| inputs::refuse_missing(agent, &objects)) {
                Err(why) => left_out.push(format!("`{}` cannot start from this: {why}", agent.name)),
                Ok(()) => candidates.push(Candidate {
                    name: agent.name.clone(),
                    agent: agent.name.clone(),
                    goal: None,
                    description: describe_agent(agent),
                }),
            }
        }
        (candidates, left_out)
    }

    /// The goals of all agents; those that give `returns`, when it is there.
    pub fn goals_for(&self, returns: Option<&str>) -> Vec<Candidate> {
        let program = self.program();
        let agents = program.agents.iter();
        let goals = agents.flat_map(|agent| agent.goals.iter().map(move |goal| (agent, goal)));
        let fitting = goals.filter(|(agent, goal)| returns.is_none_or(|returns| gives(agent, goal, returns)));
        let candidate = |(agent, goal): (&std::sync::Arc<Agent>, &Goal)| Candidate {
            name: format!("{}.{}", agent.name, goal.name),
            agent: agent.name.clone(),
            goal: Some(goal.name.clone()),
            description: describe_goal(agent, goal),
        };
        fitting.map(candidate).collect()
    }

    /// Asks the default model how well each candidate serves a request; the best first.
    ///
    /// # Errors
    /// When no model can be asked, or its replies are no ranking.
    pub async fn rank(
        &self,
        request: &str,
        candidates: &[Candidate],
        options: RunOptions,
    ) -> Result<Vec<Ranked>, Failure> {
        // The project's default model answers; an agent that has its own would speak for itself only.
        let program = self.program();
        let agents = &program.agents;
        let has_own = |agent: &Agent| {
            let own = agent.written.modules.first().and_then(|module| module.models.as_ref());
            own.is_some_and(|models| models.default.is_some())
        };
        let Some(home) = agents.iter().find(|agent| !has_own(agent)).or(agents.first()) else { return Ok(Vec::new()) };
        let core =
            self.core(home, options).map_err(|why| Failure::new(crate::action::FailureKind::Error, why.to_string()))?;
        let core = std::sync::Arc::new(core);
        let (board, marks) = (Blackboard::new(core.index.clone()), Marks::new(home));
        let scope = Scope::new(
            core.host.clone(),
            home.clone(),
            core.index.clone(),
            board.into(),
            marks.into(),
            core.view.clone(),
        );
        let cx = ActionContext::detached(core, CALL, scope, Output::new(OutputKind::None));
        let settings = CallSettings::default();
        let call = PromptCall {
            name: CALL.to_owned(),
            system: Some(SYSTEM.to_owned()),
            messages: vec![Message::user(question(request, candidates))],
            output: Some(OutputSchema::native("Ranking", schema(candidates))),
            settings: settings.into(),
            attempts: ATTEMPTS,
        };
        let answer = cx.ask_model(call, &|answer| accept(answer, candidates)).await?;
        Ok(ranking(&answer))
    }
}

const SYSTEM: &str = "You decide what serves a person's request. Judge each candidate by what it says it does, and give \
                      each a confidence from 0 (of no use) to 1 (made for this). Be strict: a candidate that serves only \
                      a part of the request, or another one, gets less than 0.5.";

fn question(request: &str, candidates: &[Candidate]) -> String {
    let listed: Vec<String> = candidates.iter().map(|one| format!("- {}: {}", one.name, one.description)).collect();
    format!("The request:\n{request}\n\nThe candidates:\n{}", listed.join("\n"))
}

fn schema(candidates: &[Candidate]) -> Value {
    let names: Vec<&str> = candidates.iter().map(|one| one.name.as_str()).collect();
    json!({
        "type": "object",
        "properties": {"ranking": {"type": "array", "items": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "enum": names},
                "confidence": {"type": "number", "minimum": 0, "maximum": 1},
                "why": {"type": "string", "description": "The reason, in one sentence"},
            },
            "required": ["name", "confidence", "why"],
            "additionalProperties": false,
        }}},
        "required": ["ranking"],
        "additionalProperties": false,
    })
}

fn accept(answer: Value, candidates: &[Candidate]) -> Result<Value, Vec<String>> {
    let Some(lines) = answer["ranking"].as_array().filter(|lines| !lines.is_empty()) else {
        return Err(vec!["`ranking`: expected a list with every candidate".to_owned()]);
    };
    let mut wrong = Vec::new();
    for line in lines {
        let name = line["name"].as_str().unwrap_or_default();
        if !candidates.iter().any(|one| one.name == name) {
            let names = candidates.iter().map(|one| one.name.as_str());
            wrong.push(format!(
                "there is no candidate `{name}`; {}",
                crate::diag::suggest::near_or_all(name, names, "they")
            ));
        }
        if !line["confidence"].as_f64().is_some_and(|sure| (0.0..=1.0).contains(&sure)) {
            wrong.push(format!("`confidence` of `{name}`: expected a number from 0 to 1"));
        }
    }
    if wrong.is_empty() { Ok(answer) } else { Err(wrong) }
}

/// The lines of an accepted answer, the surest first; what was named twice counts once, as first said.
fn ranking(answer: &Value) -> Vec<Ranked> {
    let mut ranked: Vec<Ranked> = Vec::new();
    for line in answer["ranking"].as_array().into_iter().flatten() {
        let name = line["name"].as_str().unwrap_or_default();
        if ranked.iter().all(|known| known.name != name) {
            let why = line["why"].as_str().unwrap_or_default().to_owned();
            ranked.push(Ranked { name: name.to_owned(), confidence: line["confidence"].as_f64().unwrap_or(0.0), why });
        }
    }
    ranked.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    ranked
}

fn describe_agent(agent: &Agent) -> String {
    let goals: Vec<&str> = agent.goals.iter().map(|goal| goal.description.as_deref().unwrap_or(&goal.name)).collect();
    let does = agent.description.as_deref().unwrap_or("(no description)");
    if goals.is_empty() { one_line(does) } else { one_line(&format!("{does}. Goals: {}", goals.join("; "))) }
}

fn describe_goal(agent: &Agent, goal: &Goal) -> String {
    let what = goal.description.as_deref().unwrap_or(&goal.name);
    let output = goal.output.describe(&agent.types);
    one_line(&format!(
        "{what} (gives {output}); of an agent that {}",
        agent.description.as_deref().unwrap_or("has no description")
    ))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a goal gives a type of this name, or a subtype.
fn gives(agent: &Agent, goal: &Goal, returns: &str) -> bool {
    let wanted: Option<TypeId> = agent.types.id(returns);
    wanted.is_some_and(|wanted| goal.output.types().iter().any(|id| agent.types.is_subtype(*id, wanted)))
}
