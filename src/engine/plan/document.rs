//! The document of `plan`, as scripts read it (cli.md 3) and with what people are shown besides.

use serde::Serialize;

use crate::planning::{self, FactId, Outcome, Plan, Problem, Step, Supplier, Support};
use crate::process::decide::Seen;
use crate::process::facts;
use crate::process::supervisor::Callable;
use crate::program::{Action, Agent, Fact, Number};

/// The document of `plan --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PlanDocument {
    /// The agent.
    pub agent: String,
    /// The goal of the plan.
    pub goal: Option<String>,
    /// Whether there is a plan; under `utility` whether there is something to do, or nothing left and no goal unmet.
    pub reachable: bool,
    /// Sum of the costs of its steps.
    pub cost: Option<f64>,
    /// Its net value.
    pub value: Option<f64>,
    /// Its steps, in order.
    pub steps: Vec<StepDocument>,
    /// Every goal on its own.
    pub goals: Vec<GoalDocument>,
    /// Further plans in order of rank, when they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alternatives: Option<Vec<AlternativeDocument>>,
    /// What can be done now, the most worthwhile first, where single steps are taken instead of plans.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranked: Option<Vec<CandidateDocument>>,
    /// What a supervisor may call at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callable: Option<Vec<Callable>>,
    /// Types of objects that a supervisor has to give for the steps to be possible.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<String>,
    /// The limit that planning came to: `time` or `memory`. Then nothing is known about what was not looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<&'static str>,
    /// The same as a sentence.
    #[serde(skip)]
    pub stopped: Option<String>,
    /// Open facts that the goal itself relies on after the last step.
    #[serde(skip)]
    pub goal_assumes: Vec<String>,
}

/// One step of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StepDocument {
    /// The action.
    pub action: String,
    /// Its cost.
    pub cost: f64,
    /// The facts it needs, without the mark that it has not run yet.
    pub because: Vec<String>,
    /// The open facts it relies on.
    pub assumes: Vec<String>,
    /// What it needs and who supplies it, for people.
    #[serde(skip)]
    pub needs: Vec<Need>,
    /// The expr that its cost is computed by, while what it looks at is not there; the cost counts 0 until then.
    #[serde(skip)]
    pub cost_unknown: Option<String>,
}

/// What a step needs, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Need {
    /// The fact in the author's words, such as `Person` or `not urgent`.
    pub what: String,
    /// The action of the plan that supplies it; `None` when it is there at the start.
    pub from: Option<String>,
    /// It is no object but a condition or mark.
    pub is_condition: bool,
    /// It may turn out otherwise.
    pub is_assumed: bool,
}

/// A further plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AlternativeDocument {
    /// The goal; `None` for a single step.
    pub goal: Option<String>,
    /// Sum of the costs of its steps.
    pub cost: f64,
    /// Its net value.
    pub value: f64,
    /// Its steps, in order.
    pub steps: Vec<StepDocument>,
}

/// An action that can be taken now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CandidateDocument {
    /// The action.
    pub action: String,
    /// Its value minus its cost.
    pub net: f64,
    /// Its value.
    pub value: f64,
    /// Its cost.
    pub cost: f64,
    /// The facts it needs.
    pub because: Vec<String>,
    /// The open facts it hangs on.
    pub assumes: Vec<String>,
    /// The step that it would be.
    #[serde(skip)]
    pub step: StepDocument,
}

impl CandidateDocument {
    /// The candidate as a further plan of one step.
    pub fn as_alternative(&self) -> AlternativeDocument {
        AlternativeDocument { goal: None, cost: self.cost, value: self.net, steps: vec![self.step.clone()] }
    }
}

/// Whether one goal can be reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GoalDocument {
    /// Its name.
    pub name: String,
    /// Whether there is a plan.
    pub reachable: bool,
    /// Cost of the best plan.
    pub cost: Option<f64>,
    /// What stands between, leaf first.
    pub missing: Vec<MissingDocument>,
    /// The limit that planning came to before it was known whether there is a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<&'static str>,
    /// Types that would make it reachable if they were among the inputs.
    #[serde(skip)]
    pub inputs_wanted: Vec<String>,
}

/// A fact that nothing supplies, or that hangs on one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MissingDocument {
    /// The fact.
    pub fact: String,
    /// Why it cannot hold.
    pub because: String,
}

/// Writes what the planner answers.
pub(super) struct Writer<'a, 'p> {
    pub(super) agent: &'a Agent,
    pub(super) problem: &'a Problem<'p>,
    pub(super) seen: &'a Seen,
}

impl Writer<'_, '_> {
    /// Takes the best plan into the document.
    pub(super) fn follow(&self, plan: &Plan, document: &mut PlanDocument) {
        document.goal = Some(self.goal_name(plan.goal));
        document.reachable = true;
        document.cost = Some(plan.cost);
        document.value = Some(plan.value);
        document.steps = self.steps(plan);
        document.goal_assumes = plan.goal_assumes.iter().map(|(fact, value)| self.literal(*fact, *value)).collect();
    }

    /// A further plan.
    pub(super) fn alternative(&self, plan: &Plan) -> AlternativeDocument {
        AlternativeDocument {
            goal: Some(self.goal_name(plan.goal)),
            cost: plan.cost,
            value: plan.value,
            steps: self.steps(plan),
        }
    }

    /// What would be done next without looking ahead.
    pub(super) fn next_by_utility(&self, document: &mut PlanDocument) {
        let reached = planning::goal_reached(self.problem, &self.problem.start);
        if let Some(goal) = reached {
            document.goal = Some(self.goal_name(goal));
            (document.reachable, document.cost, document.value) =
                (true, Some(0.0), Some(self.problem.goal_value(goal)));
            return;
        }
        let mut ranked: Vec<CandidateDocument> =
            planning::candidates(self.problem).iter().map(|candidate| self.candidate(candidate)).collect();
        // What is known to be possible comes before what hangs on open facts.
        let first = ranked.iter().position(|candidate| candidate.assumes.is_empty()).unwrap_or(0);
        if first < ranked.len() {
            let candidate = ranked.remove(first);
            ranked.insert(0, candidate);
        }
        document.reachable = !ranked.is_empty() || self.problem.goals().is_empty();
        if let Some(next) = ranked.first() {
            (document.cost, document.value) = (Some(next.cost), Some(next.net));
            document.steps = vec![next.step.clone()];
        }
        document.ranked = Some(ranked);
    }

    fn candidate(&self, candidate: &planning::Candidate) -> CandidateDocument {
        let operator = &self.problem.domain.domain().actions[candidate.action];
        let relies_on = operator.pre.iter().map(|&(fact, value)| Support { fact, value, supplier: Supplier::Start });
        let step = Step {
            action: candidate.action,
            cost: self.problem.cost(candidate.action),
            relies_on: relies_on.collect(),
            assumes: candidate.hangs_on.clone(),
        };
        let step = self.step(&step, &[]);
        CandidateDocument {
            action: step.action.clone(),
            net: candidate.net,
            value: self.problem.value(candidate.action),
            cost: step.cost,
            because: step.because.clone(),
            assumes: step.assumes.clone(),
            step,
        }
    }

    /// One goal on its own.
    pub(super) fn goal(&self, index: usize) -> GoalDocument {
        let mut document = GoalDocument { name: self.goal_name(index), ..GoalDocument::default() };
        match planning::plan_goal(self.problem, index) {
            Outcome::Plan(plan) => (document.reachable, document.cost) = (true, Some(plan.cost)),
            Outcome::LimitReached(reached) => document.limit = Some(reached.limit.word()),
            Outcome::Unsolvable(_) => {
                let missing = self.agent.words_for_inputs().unreachable(self.problem, index);
                let shown = missing.into_iter().map(|missing| MissingDocument {
                    fact: self.literal(missing.fact, missing.value),
                    because: missing.because,
                });
                document.missing = shown.collect();
                let wanted = &self.problem.domain.domain().goals[index].pre;
                let types = self.agent.inputs_wanted(self.problem, wanted).unwrap_or_default();
                document.inputs_wanted = types.iter().map(|id| self.agent.types.name(*id).to_owned()).collect();
            }
        }
        document
    }

    fn steps(&self, plan: &Plan) -> Vec<StepDocument> {
        plan.steps.iter().map(|step| self.step(step, &plan.steps)).collect()
    }

    fn step(&self, step: &Step, plan: &[Step]) -> StepDocument {
        let action = self.agent.operators.get(step.action).and_then(|action| self.agent.actions.get(*action));
        let own = self.agent.operators.get(step.action).copied();
        // That it has not run, and that no state is entered yet, goes without saying.
        let is_own_mark = |support: &&Support| {
            !support.value
                && match self.agent.facts.get(support.fact.0 as usize) {
                    Some(Fact::Ran(of)) => Some(*of) == own,
                    Some(Fact::In(_)) => true,
                    _ => false,
                }
        };
        let supports: Vec<&Support> = step.relies_on.iter().filter(|support| !is_own_mark(support)).collect();
        let assumed = |support: &Support| step.assumes.contains(&(support.fact, support.value));
        StepDocument {
            action: self.action_name(step.action),
            cost: step.cost,
            because: supports.iter().map(|support| self.literal(support.fact, support.value)).collect(),
            assumes: step.assumes.iter().map(|(fact, value)| self.literal(*fact, *value)).collect(),
            needs: supports
                .iter()
                .filter(|support| !self.is_said_by_another(support, &supports))
                .map(|support| self.need(support, plan, assumed(support)))
                .collect(),
            cost_unknown: action.and_then(|action| self.unknown_cost(action)),
        }
    }

    /// `has(T)` is not worth a word beside `has(T, 2)` or `has(name: T)`.
    fn is_said_by_another(&self, support: &Support, all: &[&Support]) -> bool {
        let meaning = |support: &Support| self.agent.facts.get(support.fact.0 as usize);
        let Some(Fact::Has { type_id, count }) = meaning(support) else { return false };
        all.iter().any(|other| match meaning(other) {
            Some(Fact::Has { type_id: of, count: more }) => of == type_id && more > count,
            Some(Fact::HasNamed { type_id: of, .. }) => of == type_id && *count == 1,
            _ => false,
        })
    }

    fn need(&self, support: &Support, plan: &[Step], is_assumed: bool) -> Need {
        let from = match support.supplier {
            Supplier::Step(at) => plan.get(at).map(|step| self.action_name(step.action)),
            Supplier::Start => None,
        };
        let meaning = self.agent.facts.get(support.fact.0 as usize);
        Need {
            what: self.agent.words_for_inputs().short(support.fact, support.value),
            from,
            is_condition: matches!(meaning, Some(Fact::Condition(_) | Fact::Expr { .. } | Fact::Ran(_) | Fact::In(_))),
            is_assumed,
        }
    }

    /// The expr of a cost that cannot be computed yet.
    fn unknown_cost(&self, action: &Action) -> Option<String> {
        let Number::Expr(expr) = action.cost else { return None };
        let known = facts::known_number_of(&self.seen.scope, action, action.cost, "cost");
        matches!(known, Ok(None)).then(|| self.agent.templates.expr_source(expr).to_owned())
    }

    fn action_name(&self, operator: usize) -> String {
        match self.agent.operators.get(operator).and_then(|action| self.agent.actions.get(*action)) {
            Some(action) => action.name.clone(),
            None => self.problem.domain.domain().actions[operator].name.clone(),
        }
    }

    fn goal_name(&self, goal: usize) -> String {
        self.problem.domain.domain().goals[goal].name.clone()
    }

    /// A fact with its value, as an author would say it.
    fn literal(&self, fact: FactId, value: bool) -> String {
        let name = self.problem.domain.domain().fact_name(fact);
        if value { name.to_owned() } else { format!("not {name}") }
    }
}
