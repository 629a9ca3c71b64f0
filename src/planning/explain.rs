//! Why a goal cannot be reached: followed back from the goal to what nothing can supply.
//!
//! "Can be had" is judged as if nothing were ever undone: what cannot be had even then has no supplier, or only suppliers
//! that cannot run; those are told. A goal whose facts can all be had one by one, but not together, is told by what undoes them.

use super::domain::{Domain, Effect, FactId, literal, normal_requirements};
use super::problem::Problem;
use super::state::Truth;

/// How many near misses one explanation names.
const NEAR_MISSES_MAX: usize = 3;

/// A fact that stands between the start and a goal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The fact.
    pub fact: FactId,
    /// The value it would have to have.
    pub value: bool,
    /// The actions that could supply it but cannot run, by position; empty for a leaf, which only an input can supply.
    pub suppliers: Vec<usize>,
    /// Why it cannot have the value, as a sentence without a final period.
    pub because: String,
}

/// Why a precondition cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The action itself took it away, and nothing brings it back: it has run, and runs once.
    Own,
    /// No action brings it about.
    NoSupplier,
    /// The actions that bring it about cannot run either.
    Suppliers,
}

/// How facts are called in an explanation. The planner knows them by their text only; who knows what they mean says it
/// better.
pub trait Words {
    /// A fact that must have a value, as a noun phrase: what an action needs.
    fn fact(&self, fact: FactId, value: bool) -> String;

    /// The sentence on a fact that has not the value at the start and that no action gives it.
    fn leaf(&self, fact: FactId, value: bool, start: Truth) -> String;

    /// The sentence on a fact that only these actions give the value, each with the reason why it does not: its name in
    /// backticks, then `, which …`.
    fn supplied(&self, fact: FactId, value: bool, by: &[String]) -> String;

    /// Why an action that is excluded is not taken, after `which`.
    fn excluded(&self, action: usize) -> &'static str {
        let _ = action;
        "is excluded"
    }

    /// What an action lacks, after `which`: `needs x, which nothing supplies`.
    fn lacks(&self, fact: FactId, value: bool, others: usize, cause: Cause) -> String {
        let others = if others == 0 { String::new() } else { format!(" and {others} more") };
        let cause = match (cause, value) {
            (Cause::Own, _) => "and that is true already",
            (Cause::NoSupplier, true) => "which nothing supplies",
            (Cause::NoSupplier, false) => "which nothing makes false",
            (Cause::Suppliers, _) => "which cannot be had either",
        };
        format!("needs {}{others}, {cause}", self.fact(fact, value))
    }
}

/// Facts by their text.
struct Plain<'a>(&'a Domain);

impl Words for Plain<'_> {
    fn fact(&self, fact: FactId, value: bool) -> String {
        let name = self.0.fact_name(fact);
        if value { format!("`{name}`") } else { format!("`{name}` to be false") }
    }

    fn leaf(&self, fact: FactId, value: bool, _: Truth) -> String {
        let name = self.0.fact_name(fact);
        match value {
            true => format!("`{name}` is not given at the start, and nothing supplies it"),
            false => format!("`{name}` is true at the start, and nothing makes it false"),
        }
    }

    fn supplied(&self, fact: FactId, value: bool, by: &[String]) -> String {
        let verb = if value { "supplied" } else { "made false" };
        format!("`{}` is {verb} only by {}", self.0.fact_name(fact), by.join(", and by "))
    }
}

/// What can be had from a problem's start if nothing is ever undone.
pub struct Reach<'a, 'p> {
    problem: &'a Problem<'p>,
    /// By literal.
    held: Vec<bool>,
    /// By action.
    runs: Vec<bool>,
}

impl<'a, 'p> Reach<'a, 'p> {
    /// Follows every action that is not excluded forward from the start.
    pub fn new(problem: &'a Problem<'p>) -> Self {
        let operators = &problem.domain.operators;
        let facts = problem.domain.domain().fact_count();
        let held = (0..2 * facts).map(|at| problem.start.allows(FactId(at as u32 / 2), at % 2 == 1)).collect();
        let mut reach = Reach { problem, held, runs: vec![false; operators.len()] };
        let mut queue: Vec<usize> = (0..operators.len()).collect();
        while let Some(action) = queue.pop() {
            if reach.runs[action] || !reach.may_run(action) {
                continue;
            }
            reach.runs[action] = true;
            for &(fact, effect) in &operators[action].effects {
                for value in [false, true] {
                    let brings = effect == Effect::Opens || effect == Effect::Makes(value);
                    if brings && problem.assumes_effect(action, fact) && !reach.held[literal(fact, value)] {
                        reach.held[literal(fact, value)] = true;
                        queue.extend(
                            problem.domain.required_by.of(literal(fact, value)).iter().map(|&user| user as usize),
                        );
                        // What stops being true lets actions make progress again.
                        queue.extend((!value).then_some(0..operators.len()).into_iter().flatten().filter(|&other| {
                            operators[other].progress.as_ref().is_some_and(|facts| facts.contains(&fact))
                        }));
                    }
                }
            }
        }
        reach
    }

    /// Returns whether a fact can have a value.
    pub fn holds(&self, fact: FactId, value: bool) -> bool {
        self.held.get(literal(fact, value)).copied().unwrap_or(false)
    }

    /// Returns whether an action can run.
    pub fn runs(&self, action: usize) -> bool {
        self.runs.get(action).copied().unwrap_or(false)
    }

    /// Returns the actions that can never run, in declaration order.
    pub fn never_run(&self) -> Vec<usize> {
        (0..self.runs.len()).filter(|&action| !self.runs[action]).collect()
    }

    fn may_run(&self, action: usize) -> bool {
        let operator = &self.problem.domain.operators[action];
        !operator.impossible
            && !self.problem.excluded.contains(&action)
            && operator.pre.iter().all(|&(fact, value)| self.holds(fact, value))
            && self.may_progress(action)
    }

    fn may_progress(&self, action: usize) -> bool {
        let Some(facts) = &self.problem.domain.operators[action].progress else { return true };
        facts.iter().any(|&fact| {
            self.problem.assumes_effect(action, fact)
                && (self.problem.start.get(fact) != Truth::True || self.holds(fact, false))
        })
    }
}

/// Returns the actions that bring about a value of a fact, or may do so, in declaration order.
pub fn suppliers(problem: &Problem, fact: FactId, value: bool) -> Vec<usize> {
    problem.domain.brought_by.of(literal(fact, value)).iter().map(|&action| action as usize).collect()
}

/// Returns why a goal cannot be reached, leaf first: what nothing can supply, then what that keeps from being supplied, up to
/// the goal's own facts. Empty when no fact is missing and none is undone.
pub fn unreachable(problem: &Problem, goal: usize) -> Vec<Missing> {
    unreachable_in(problem, goal, &Plain(problem.domain.domain()))
}

/// The same as [`unreachable`], in the words of one who knows what the facts mean.
pub fn unreachable_in(problem: &Problem, goal: usize, words: &dyn Words) -> Vec<Missing> {
    let Some(goal) = problem.domain.domain().goals.get(goal) else { return Vec::new() };
    let reach = Reach::new(problem);
    let missing = reach.missing(&goal.pre, words);
    if missing.is_empty() { reach.undone(&normal_requirements(&goal.pre), words) } else { missing }
}

/// Where a literal is in the walk back.
#[derive(Clone, Copy, PartialEq)]
enum Seen {
    No,
    Entered,
    Told,
}

impl Reach<'_, '_> {
    /// Walks back from wanted facts, depth first, and tells each fact after those that keep it from being supplied. Empty
    /// when each of them can be had.
    pub fn missing(&self, wanted: &[(FactId, bool)], words: &dyn Words) -> Vec<Missing> {
        let mut seen = vec![Seen::No; self.held.len()];
        let mut told: Vec<Missing> = Vec::new();
        let mut stack: Vec<(FactId, bool)> = normal_requirements(wanted);
        stack.reverse();
        while let Some(&(fact, value)) = stack.last() {
            let at = literal(fact, value);
            if self.holds(fact, value) || seen[at] == Seen::Told {
                stack.pop();
                continue;
            }
            if seen[at] == Seen::No {
                seen[at] = Seen::Entered;
                for action in suppliers(self.problem, fact, value).into_iter().rev() {
                    let lacking = self.lacking(action).into_iter().rev();
                    stack.extend(lacking.filter(|&(fact, value)| seen[literal(fact, value)] == Seen::No));
                }
                continue;
            }
            stack.pop();
            seen[at] = Seen::Told;
            let suppliers = suppliers(self.problem, fact, value);
            let because = self.because(fact, value, &suppliers, words);
            told.push(Missing { fact, value, suppliers, because });
        }
        told
    }

    /// Returns the preconditions of an action that can never hold.
    fn lacking(&self, action: usize) -> Vec<(FactId, bool)> {
        let pre = self.problem.domain.operators[action].pre.iter().copied();
        pre.filter(|&(fact, value)| !self.holds(fact, value)).collect()
    }

    fn because(&self, fact: FactId, value: bool, suppliers: &[usize], words: &dyn Words) -> String {
        if suppliers.is_empty() {
            return words.leaf(fact, value, self.problem.start.get(fact));
        }
        let shown = suppliers.iter().take(NEAR_MISSES_MAX);
        let mut reasons: Vec<String> = shown.map(|&action| self.why_not(action, fact, words)).collect();
        match suppliers.len().saturating_sub(NEAR_MISSES_MAX) {
            0 => {}
            rest => reasons.push(format!("{rest} more that cannot run")),
        }
        words.supplied(fact, value, &reasons)
    }

    /// Returns an action's name with the reason why it does not supply a fact.
    fn why_not(&self, action: usize, fact: FactId, words: &dyn Words) -> String {
        let name = format!("`{}`", self.problem.domain.domain().actions[action].name);
        if self.problem.excluded.contains(&action) {
            return format!("{name}, which {}", words.excluded(action));
        }
        if !self.problem.assumes_effect(action, fact) {
            return format!("{name}, which was expected to and did not");
        }
        if self.problem.domain.operators[action].impossible {
            return format!("{name}, which asks for a fact to be both true and false");
        }
        let lacking = self.lacking(action);
        if let Some(&(needed, value)) = lacking.first() {
            let own = self.problem.domain.operators[action].effects.contains(&(needed, Effect::Makes(!value)));
            let cause = match suppliers(self.problem, needed, value).is_empty() {
                true if own => Cause::Own,
                true => Cause::NoSupplier,
                false => Cause::Suppliers,
            };
            return format!("{name}, which {}", words.lacks(needed, value, lacking.len() - 1, cause));
        }
        format!("{name}, which would make nothing true that is not true already")
    }

    /// Tells what undoes the facts of a goal that can each be had, but not together.
    fn undone(&self, wanted: &[(FactId, bool)], words: &dyn Words) -> Vec<Missing> {
        let domain = self.problem.domain;
        let mut told = Vec::new();
        for &(fact, value) in wanted {
            let undoing = domain.brought_by.of(literal(fact, !value)).iter().map(|&action| action as usize);
            let names: Vec<String> = undoing
                .filter(|&action| self.runs(action))
                .take(NEAR_MISSES_MAX)
                .map(|action| format!("`{}`", domain.domain().actions[action].name))
                .collect();
            if !names.is_empty() {
                let suppliers = suppliers(self.problem, fact, value);
                let (name, undo) = (words.fact(fact, value), names.join(", "));
                let because = format!("{name} can be had, but not together with what else is needed: {undo} undoes it");
                told.push(Missing { fact, value, suppliers, because });
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::super::solve;
    use super::*;

    fn explained(json: &str, change: impl Fn(&mut Problem)) -> Vec<String> {
        let (compiled, start) = solve::read(json).and_then(|file| file.lower()).expect("a good problem");
        let mut problem = Problem::new(&compiled, start);
        change(&mut problem);
        unreachable(&problem, 0).into_iter().map(|missing| missing.because).collect()
    }

    const STARS: &str = r#"{"actions": [
        {"name": "extract", "pre": {"UserInput": true}, "effects": {"StarPerson": true}},
        {"name": "retrieve_horoscope", "pre": {"StarPerson": true}, "effects": {"Horoscope": true}},
        {"name": "writeup", "pre": {"Horoscope": true}, "effects": {"Writeup": true}}],
        "start": {"UserInput": true}, "goals": [{"name": "g", "pre": {"Writeup": true}}]}"#;

    #[test]
    fn a_missing_producer_is_told_leaf_first() {
        let json = STARS.replace(r#""effects": {"StarPerson": true}"#, r#""effects": {}"#);
        assert_eq!(
            explained(&json, |_| ()),
            [
                "`StarPerson` is not given at the start, and nothing supplies it",
                "`Horoscope` is supplied only by `retrieve_horoscope`, which needs `StarPerson`, which nothing supplies",
                "`Writeup` is supplied only by `writeup`, which needs `Horoscope`, which cannot be had either",
            ]
        );
    }

    #[test]
    fn exclusions_and_disappointments_are_told() {
        let excluded = explained(STARS, |problem| problem.excluded = vec![0]);
        assert_eq!(excluded[0], "`StarPerson` is supplied only by `extract`, which is excluded");
        let disappointed = explained(STARS, |problem| {
            let fact = problem.domain.domain().fact_id("Horoscope").expect("a fact");
            problem.no_longer_assumed = vec![(1, fact)];
        });
        assert!(
            disappointed[0].ends_with("`retrieve_horoscope`, which was expected to and did not"),
            "{disappointed:?}"
        );
        assert!(explained(STARS, |_| ()).is_empty());
    }

    #[test]
    fn circles_end_and_conflicts_name_what_undoes() {
        let circle = r#"{"actions": [{"name": "a", "pre": {"x": true}, "effects": {"y": true}},
            {"name": "b", "pre": {"y": true}, "effects": {"x": true}}], "goals": [{"name": "g", "pre": {"x": true}}]}"#;
        assert_eq!(explained(circle, |_| ()).len(), 2);
        let conflict = r#"{"actions": [{"name": "a", "effects": {"x": true, "y": false}},
            {"name": "b", "effects": {"y": true, "x": false}}],
            "goals": [{"name": "g", "pre": {"x": true, "y": true}}]}"#;
        let told = explained(conflict, |_| ());
        assert_eq!(told.len(), 2);
        assert!(told[0].ends_with("`b` undoes it"), "{told:?}");
    }

    #[test]
    fn actions_that_never_run_are_found() {
        let json = STARS.replace(r#""UserInput": true}, "goals""#, r#""UserInput": false}, "goals""#);
        let (compiled, start) = solve::read(&json).and_then(|file| file.lower()).expect("a good problem");
        let problem = Problem::new(&compiled, start);
        assert_eq!(Reach::new(&problem).never_run(), [0, 1, 2]);
    }
}
