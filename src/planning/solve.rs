//! The planner alone, on a grounded problem in JSON (cli.md 4): reading, answering, writing.
//!
//! Beyond cli.md 4 a problem may have `types` and `facts`, so that the output of `domain --format json` with a `start` is one:
//! `types` is ignored, and with `facts` (a list of texts) every atom must be listed there. An action may have `progress`, a
//! list of atoms of which at least one must not be true yet when it runs. In `start` an atom may be `"unknown"`: it satisfies
//! nothing until an effect sets or opens it.

use std::collections::HashSet;
use std::fmt;

use indexmap::IndexMap;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::domain::{Action, Compiled, Domain, DomainError, Effect, FactId, Goal};
use super::plan::{Limit, Outcome, Reached};
use super::problem::{Limits, Problem};
use super::search::plan;
use super::state::{State, Truth};
use super::utility::{goal_reached, utility_step};
use super::validate::after;

/// A grounded problem as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProblemFile {
    /// Types of the domain this came from; not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<serde_json::Value>,
    /// All atoms; when given, others are errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Vec<String>>,
    /// Actions in declaration order.
    pub actions: Vec<ActionFile>,
    /// What holds at the start.
    #[serde(default)]
    pub start: Atoms<StartValue>,
    /// Goals in declaration order.
    pub goals: Vec<GoalFile>,
    /// Whether atoms that `start` does not name are false; else they are open.
    #[serde(default = "yes")]
    pub closed_world: bool,
    /// How to plan.
    #[serde(default)]
    pub planner: PlannerKind,
}

/// An action as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionFile {
    /// Unique name.
    pub name: String,
    /// Atoms that must have a value.
    #[serde(default)]
    pub pre: Atoms<bool>,
    /// Atoms that get a value; `null` opens one.
    #[serde(default)]
    pub effects: Atoms<Option<bool>>,
    /// Cost, not below zero.
    #[serde(default)]
    pub cost: f64,
    /// Value.
    #[serde(default)]
    pub value: f64,
    /// The expr behind `cost`, as `domain` writes it; for readers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_expr: Option<String>,
    /// The expr behind `value`; for readers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_expr: Option<String>,
    /// Atoms of which at least one must not be true yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Vec<String>>,
}

/// A goal as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoalFile {
    /// Unique name.
    pub name: String,
    /// Atoms that must have a value.
    #[serde(default)]
    pub pre: Atoms<bool>,
    /// Value.
    #[serde(default)]
    pub value: f64,
}

/// A value at the start: `true`, `false`, `null` (open) or `"unknown"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StartValue(pub Truth);

/// How a problem is planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlannerKind {
    /// The best plan to a goal.
    #[default]
    Goap,
    /// Again and again the most worthwhile action that can run, as if every effect came, until a goal holds.
    Utility,
    /// A plan when a goal is reachable, else one utility step, then again.
    Hybrid,
}

/// Atoms with values, in the order written; an atom that is written twice is an error.
#[derive(Clone, Debug, PartialEq)]
pub struct Atoms<V>(pub IndexMap<String, V>);

/// The answer, as it is written; the caller adds `ms`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SolveResult {
    /// Whether there is a plan.
    pub solved: bool,
    /// Name of the goal that is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// Names of the actions in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<Vec<String>>,
    /// Sum of the costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Reliances on open atoms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assumed: Option<usize>,
    /// Without a plan: whether it is proved that none exists; `false` when a limit came first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exhausted: Option<bool>,
    /// Which limit came first: `time` or `memory`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<&'static str>,
    /// States that the search looked at.
    pub expanded: u64,
    /// Milliseconds; set by the caller, who has a clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ms: Option<f64>,
}

/// Why a problem cannot be answered.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SolveError {
    /// Not the JSON of a problem; the message has line and column.
    #[error("not a planning problem: {0}")]
    Malformed(String),
    /// An atom that `facts` does not list.
    #[error("`{place}` mentions the atom `{atom}`, which `facts` does not list{}", near(.nearest))]
    UnknownAtom {
        /// The action, the goal or `start`.
        place: String,
        /// The atom.
        atom: String,
        /// The listed atom that looks most like it.
        nearest: Option<String>,
    },
    /// A problem for the goap planner without goals.
    #[error(
        "`goals` is empty; expected at least one goal, such as {{\"name\": \"done\", \"pre\": {{\"atom\": true}}}}"
    )]
    NoGoals,
    /// Something that planning itself refuses.
    #[error(transparent)]
    Domain(#[from] DomainError),
}

fn near(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or(String::new(), |name| format!("; did you mean `{name}`?"))
}

fn yes() -> bool {
    true
}

/// Reads a problem.
///
/// # Errors
/// [`SolveError::Malformed`] with the place and what was expected there.
pub fn read(json: &str) -> Result<ProblemFile, SolveError> {
    serde_json::from_str(json).map_err(|error| SolveError::Malformed(error.to_string()))
}

/// Reads and answers a problem.
///
/// # Errors
/// A [`SolveError`] when it is no problem to plan; that no plan exists is an answer, not an error.
pub fn solve(json: &str, limits: Limits) -> Result<SolveResult, SolveError> {
    let file = read(json)?;
    if file.planner == PlannerKind::Goap && file.goals.is_empty() {
        return Err(SolveError::NoGoals);
    }
    let kind = file.planner;
    let (compiled, start) = file.lower()?;
    let mut problem = Problem::new(&compiled, start);
    problem.limits = limits;
    Ok(match kind {
        PlannerKind::Goap => answer(&problem, plan(&problem)),
        PlannerKind::Utility => simulate(problem, false),
        PlannerKind::Hybrid => simulate(problem, true),
    })
}

impl ProblemFile {
    /// Returns the domain and the start that this stands for.
    ///
    /// # Errors
    /// A [`SolveError`] for atoms that `facts` does not list, duplicate names, bad costs.
    pub fn lower(&self) -> Result<(Compiled, State), SolveError> {
        let mut domain = Domain::new();
        for fact in self.facts.iter().flatten() {
            domain.fact(fact);
        }
        let mut atoms = AtomTable { domain: &mut domain, closed: self.facts.is_some() };
        let mut actions = Vec::with_capacity(self.actions.len());
        for action in &self.actions {
            actions.push(action.lower(&mut atoms)?);
        }
        let mut goals = Vec::with_capacity(self.goals.len());
        for goal in &self.goals {
            let pre = atoms.requirements(&goal.name, &goal.pre)?;
            goals.push(Goal { name: goal.name.clone(), pre, value: goal.value });
        }
        let mut given = Vec::with_capacity(self.start.0.len());
        for (atom, value) in &self.start.0 {
            given.push((atoms.fact("start", atom)?, value.0));
        }
        domain.actions = actions;
        domain.goals = goals;
        let rest = if self.closed_world { Truth::False } else { Truth::Open };
        let mut start = State::all(domain.fact_count(), rest);
        for (fact, truth) in given {
            start.set(fact, truth);
        }
        Ok((domain.compile()?, start))
    }

    /// Writes a domain, and a start if there is one, as a problem.
    pub fn of(compiled: &Compiled, start: Option<&State>) -> Self {
        let domain = compiled.domain();
        let name = |fact: FactId| domain.fact_name(fact).to_owned();
        let pre = |pre: &[(FactId, bool)]| Atoms(pre.iter().map(|&(fact, value)| (name(fact), value)).collect());
        let actions = domain.actions.iter().zip(&compiled.operators).map(|(action, operator)| ActionFile {
            cost_expr: None,
            value_expr: None,
            name: action.name.clone(),
            pre: pre(&action.pre),
            effects: Atoms(operator.effects.iter().map(|&(fact, effect)| (name(fact), written(effect))).collect()),
            cost: action.cost,
            value: action.value,
            progress: operator.progress.as_ref().map(|facts| facts.iter().map(|&fact| name(fact)).collect()),
        });
        let goals = domain.goals.iter();
        let goals = goals.map(|goal| GoalFile { name: goal.name.clone(), pre: pre(&goal.pre), value: goal.value });
        let start = start.iter().flat_map(|start| {
            (0..domain.fact_count() as u32).map(|fact| (name(FactId(fact)), StartValue(start.get(FactId(fact)))))
        });
        ProblemFile {
            types: None,
            facts: Some(domain.facts().map(str::to_owned).collect()),
            actions: actions.collect(),
            start: Atoms(start.collect()),
            goals: goals.collect(),
            closed_world: true,
            planner: PlannerKind::Goap,
        }
    }
}

/// Gives out facts for atoms.
struct AtomTable<'a> {
    domain: &'a mut Domain,
    /// Whether only atoms that are there already are allowed.
    closed: bool,
}

impl AtomTable<'_> {
    fn fact(&mut self, place: &str, atom: &str) -> Result<FactId, SolveError> {
        if !self.closed {
            return Ok(self.domain.fact(atom));
        }
        self.domain.fact_id(atom).ok_or_else(|| {
            let scored = self.domain.facts().map(|fact| (strsim::damerau_levenshtein(fact, atom), fact));
            let best =
                scored.min_by_key(|(distance, _)| *distance).filter(|(distance, _)| *distance <= atom.len() / 3 + 1);
            let nearest = best.map(|(_, fact)| fact.to_owned());
            SolveError::UnknownAtom { place: place.to_owned(), atom: atom.to_owned(), nearest }
        })
    }

    fn requirements(&mut self, place: &str, atoms: &Atoms<bool>) -> Result<Vec<(FactId, bool)>, SolveError> {
        atoms.0.iter().map(|(atom, &value)| Ok((self.fact(place, atom)?, value))).collect()
    }
}

impl ActionFile {
    fn lower(&self, atoms: &mut AtomTable) -> Result<Action, SolveError> {
        let mut action = Action { cost: self.cost, value: self.value, ..Action::new(&self.name) };
        action.pre = atoms.requirements(&self.name, &self.pre)?;
        for (atom, value) in &self.effects.0 {
            let effect = value.map_or(Effect::Opens, Effect::Makes);
            action.effects.push((atoms.fact(&self.name, atom)?, effect));
        }
        if let Some(progress) = &self.progress {
            let counted: Result<Vec<FactId>, _> = progress.iter().map(|atom| atoms.fact(&self.name, atom)).collect();
            let counted = counted?;
            action.needs_progress = true;
            let gains = action.effects.iter().map(|(fact, _)| *fact);
            action.progress_exempt = gains.filter(|fact| !counted.contains(fact)).collect();
        }
        Ok(action)
    }
}

fn written(effect: Effect) -> Option<bool> {
    match effect {
        Effect::Makes(value) => Some(value),
        Effect::Opens => None,
    }
}

fn answer(problem: &Problem, outcome: Outcome) -> SolveResult {
    let domain = problem.domain.domain();
    match outcome {
        Outcome::Plan(plan) => SolveResult {
            solved: true,
            goal: Some(domain.goals[plan.goal].name.clone()),
            plan: Some(plan.steps.iter().map(|step| domain.actions[step.action].name.clone()).collect()),
            cost: Some(plan.cost),
            assumed: Some(plan.assumed),
            expanded: plan.expanded,
            ..SolveResult::default()
        },
        Outcome::Unsolvable(proof) => {
            SolveResult { exhausted: Some(true), expanded: proof.expanded, ..SolveResult::default() }
        }
        Outcome::LimitReached(reached) => SolveResult {
            exhausted: Some(false),
            limit: Some(reached.limit.word()),
            expanded: reached.expanded,
            ..SolveResult::default()
        },
    }
}

/// Takes utility steps, and plans in between if asked, as if every effect came, until a goal holds, nothing can run, or a
/// state comes back.
fn simulate(mut problem: Problem, hybrid: bool) -> SolveResult {
    let domain = problem.domain.domain();
    let (mut taken, mut expanded): (Vec<usize>, u64) = (Vec::new(), 0);
    let mut seen: HashSet<State> = HashSet::new();
    let bytes_each = size_of::<State>() + problem.start.len().div_ceil(64) * 16 + size_of::<usize>();
    let finish = |taken: &[usize], goal: Option<usize>, expanded, rest: Option<super::plan::Plan>| {
        let all = taken.iter().copied().chain(rest.iter().flat_map(|plan| plan.actions()));
        let all: Vec<usize> = all.collect();
        let cost = problem.amounts.total(all.iter().map(|&action| (action, domain.actions[action].cost)));
        SolveResult {
            solved: true,
            goal: goal.map(|goal| domain.goals[goal].name.clone()),
            plan: Some(all.iter().map(|&action| domain.actions[action].name.clone()).collect()),
            cost: Some(cost),
            assumed: Some(rest.map_or(0, |plan| plan.assumed)),
            expanded,
            ..SolveResult::default()
        }
    };
    loop {
        let here = problem.clone();
        if let Some(goal) = goal_reached(&here, &here.start) {
            return finish(&taken, Some(goal), expanded, None);
        }
        if hybrid {
            match plan(&here) {
                Outcome::Plan(plan) => return finish(&taken, Some(plan.goal), expanded + plan.expanded, Some(plan)),
                Outcome::Unsolvable(proof) => expanded += proof.expanded,
                Outcome::LimitReached(reached) => {
                    let expanded = expanded + reached.expanded;
                    return answer(&here, Outcome::LimitReached(Reached { expanded, ..reached }));
                }
            }
        }
        let step = if seen.insert(here.start.clone()) { utility_step(&here) } else { None };
        let stopped = here.limits.stop.is_some_and(|stop| stop());
        let full = seen.len().saturating_mul(bytes_each) > here.limits.memory_bytes_max;
        if stopped || full {
            let limit = if stopped { Limit::Time } else { Limit::Memory };
            return answer(&here, Outcome::LimitReached(Reached { limit, expanded, best: None }));
        }
        let Some(action) = step else {
            if domain.goals.is_empty() {
                return finish(&taken, None, expanded, None);
            }
            return SolveResult { exhausted: Some(true), expanded, ..SolveResult::default() };
        };
        taken.push(action);
        expanded += 1;
        for &(fact, effect) in &problem.domain.operators[action].effects {
            problem.start.set(fact, after(effect));
        }
    }
}

impl<V> Default for Atoms<V> {
    fn default() -> Self {
        Atoms(IndexMap::new())
    }
}

impl<V: Serialize> Serialize for Atoms<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Atoms<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<V>(std::marker::PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Reader<V> {
            type Value = Atoms<V>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a map of atoms to values, such as {\"has(Person)\": true}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut atoms = IndexMap::new();
                while let Some((atom, value)) = map.next_entry::<String, V>()? {
                    if atoms.contains_key(&atom) {
                        return Err(de::Error::custom(format!("the atom `{atom}` is written twice; keep one of them")));
                    }
                    atoms.insert(atom, value);
                }
                Ok(Atoms(atoms))
            }
        }
        deserializer.deserialize_map(Reader(std::marker::PhantomData))
    }
}

impl Serialize for StartValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Truth::True => serializer.serialize_bool(true),
            Truth::False => serializer.serialize_bool(false),
            Truth::Open => serializer.serialize_none(),
            Truth::Unknown => serializer.serialize_str("unknown"),
        }
    }
}

impl<'de> Deserialize<'de> for StartValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = StartValue;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("`true`, `false`, `null` (open) or `\"unknown\"`")
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<StartValue, E> {
                Ok(StartValue(Truth::known(value)))
            }

            fn visit_unit<E: de::Error>(self) -> Result<StartValue, E> {
                Ok(StartValue(Truth::Open))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<StartValue, E> {
                if text == "unknown" {
                    return Ok(StartValue(Truth::Unknown));
                }
                Err(de::Error::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(json: &str) -> String {
        solve(json, Limits::default()).expect_err("a bad problem").to_string()
    }

    #[test]
    fn every_shared_case_is_answered_exactly() {
        let text = include_str!("../../tests/planner/cases.json");
        let file: serde_json::Value = serde_json::from_str(text).expect("good cases");
        let cases = file["cases"].as_array().expect("a list of cases");
        assert!(cases.len() >= 105);
        for case in cases {
            let found = solve(&case["problem"].to_string(), Limits::default()).expect("a good problem");
            let found = serde_json::to_value(&found).expect("plain data");
            for (key, expected) in case["expect"].as_object().expect("what is expected") {
                assert_eq!(&found[key], expected, "`{key}` of {}: {found}", case["name"]);
            }
        }
    }

    #[test]
    fn bad_problems_get_clear_errors() {
        let cases = [
            (r#"{"#, "line 1"),
            (r#"[]"#, "not a planning problem"),
            (r#"{"actions": [], "goals": []}"#, "`goals` is empty"),
            (r#"{"actions": [], "goals": [{"name": "g"}], "strat": {}}"#, "unknown field `strat`"),
            (r#"{"actions": [{"name": "a", "cost": -1}], "goals": [{"name": "g"}]}"#, "the cost of `a` is -1"),
            (r#"{"actions": [{"name": "a", "cost": 1e999}], "goals": [{"name": "g"}]}"#, "number out of range"),
            (r#"{"actions": [{"name": "a"}, {"name": "a"}], "goals": [{"name": "g"}]}"#, "two actions are named `a`"),
            (r#"{"actions": [], "goals": [{"name": "g"}, {"name": "g"}]}"#, "two goals are named `g`"),
            (r#"{"actions": [], "goals": [{"name": "g", "pre": {"x": true, "x": false}}]}"#, "`x` is written twice"),
            (r#"{"actions": [], "goals": [{"name": "g"}], "start": {"x": "maybe"}}"#, "`null` (open)"),
            (r#"{"actions": [], "goals": [{"name": "g"}], "planner": "magic"}"#, "unknown variant `magic`"),
            (
                r#"{"facts": ["person"], "actions": [], "goals": [{"name": "g", "pre": {"persn": true}}]}"#,
                "did you mean `person`?",
            ),
        ];
        for (json, expected) in cases {
            let found = error(json);
            assert!(found.contains(expected), "{json}: {found}");
        }
    }

    #[test]
    fn an_open_world_assumes_what_start_leaves_out() {
        let json = r#"{"actions": [], "goals": [{"name": "g", "pre": {"x": true}}], "closed_world": false}"#;
        let found = solve(json, Limits::default()).expect("a good problem");
        assert_eq!((found.solved, found.assumed), (true, Some(1)));
        let unknown = json.replace("\"closed_world\": false", "\"start\": {\"x\": \"unknown\"}");
        assert!(!solve(&unknown, Limits::default()).expect("a good problem").solved);
    }

    #[test]
    fn utility_and_hybrid_take_the_most_worthwhile_step() {
        let json = |planner: &str| {
            format!(
                r#"{{"planner": "{planner}", "actions": [
                {{"name": "a", "effects": {{"x": true}}, "value": 2, "progress": ["x"]}},
                {{"name": "b", "pre": {{"x": true}}, "effects": {{"y": true}}, "value": 1, "progress": ["y"]}},
                {{"name": "c", "effects": {{"y": true}}, "value": 0.5}}],
                "goals": [{{"name": "g", "pre": {{"y": true}}}}]}}"#
            )
        };
        let plan = |planner| solve(&json(planner), Limits::default()).expect("a good problem").plan.expect("a plan");
        assert_eq!(plan("utility"), ["a", "b"]);
        assert_eq!(plan("hybrid"), ["c"]);
        assert_eq!(plan("goap"), ["c"]);
    }

    #[test]
    fn steps_without_end_come_to_the_limit_of_memory() {
        // A counter of eight bits under `utility`: 256 states before one comes back.
        let bits: Vec<String> = (0..8)
            .map(|bit| {
                let low = |value| (0..bit).map(|low| format!(r#""b{low}": {value}"#)).collect::<Vec<_>>();
                let pre = [low(true), vec![format!(r#""b{bit}": false"#)]].concat().join(", ");
                let effects = [low(false), vec![format!(r#""b{bit}": true"#)]].concat().join(", ");
                format!(r#"{{"name": "carry{bit}", "pre": {{{pre}}}, "effects": {{{effects}}}}}"#)
            })
            .collect();
        let json = format!(
            r#"{{"planner": "utility", "actions": [{}], "goals": [{{"name": "g", "pre": {{"never": true}}}}]}}"#,
            bits.join(", ")
        );
        let found = |memory_bytes_max| {
            let found = solve(&json, Limits { stop: None, memory_bytes_max }).expect("a good problem");
            (found.exhausted, found.limit, found.expanded)
        };
        assert_eq!(found(1 << 20), (Some(true), None, 255));
        let (exhausted, limit, expanded) = found(4096);
        assert_eq!((exhausted, limit), (Some(false), Some("memory")));
        assert!((10..200).contains(&expanded), "{expanded}");
    }

    #[test]
    fn a_domain_written_out_is_a_problem_again() {
        let json = r#"{"actions": [{"name": "a", "pre": {"s": true}, "effects": {"g": null, "s": true}, "cost": 0.5,
            "progress": ["g"]}], "start": {"s": true, "u": "unknown", "o": null},
            "goals": [{"name": "g", "pre": {"g": true}}]}"#;
        let (compiled, start) = read(json).and_then(|file| file.lower()).expect("a good problem");
        let written = serde_json::to_string(&ProblemFile::of(&compiled, Some(&start))).expect("plain data");
        let (again, start_again) = read(&written).and_then(|file| file.lower()).expect("a good problem");
        assert_eq!(start, start_again);
        assert_eq!(solve(json, Limits::default()), solve(&written, Limits::default()));
        assert_eq!(again.domain().actions[0].progress_exempt.len(), 1);
    }
}
