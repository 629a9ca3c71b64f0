//! The domain for other planners: `:strips :negative-preconditions :action-costs`.
//!
//! What PDDL does not have is compiled away:
//! - A fact that can be *open or unknown* becomes two predicates, `X` (it can be true) and `X-f` (it can be false). To need it
//!   true is to need `X` and not `X-f`. An open fact has both; the action `assume-…-true` (or `-false`) takes one away and costs
//!   one assumption. A may-effect sets both. An unknown fact has neither.
//! - An action that *needs progress* is written once for each way in which a fact it makes can be not true yet.
//! - *Costs* are whole: 1,000 times the cost in units of the finest decimal that any action uses, plus 1 for each assumption,
//!   so that fewer assumptions break ties, as they do here. Steps, specificity and declaration order are not expressed.
//! - *Values* are left out: they rank goals, and a PDDL problem has one goal.

use std::fmt::Write;

use super::domain::{Effect, FactId, normal_requirements};
use super::problem::Problem;
use super::state::Truth;

/// What one unit of cost is worth in assumptions.
pub const UNIT: u64 = 1000;

/// A domain file and a problem file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pddl {
    /// Text of the domain file.
    pub domain: String,
    /// Text of the problem file.
    pub problem: String,
}

/// Returns a problem, for one goal, in PDDL. Excluded actions and effects that are no longer assumed are left out.
pub fn export(problem: &Problem, goal: usize) -> Pddl {
    let writer = Writer::new(problem);
    Pddl { domain: writer.domain(), problem: writer.problem(goal) }
}

struct Writer<'a, 'p> {
    problem: &'a Problem<'p>,
    /// By fact: its predicate.
    names: Vec<String>,
    /// By fact: it can be open or unknown, so it takes two predicates.
    double: Vec<bool>,
}

impl<'a, 'p> Writer<'a, 'p> {
    fn new(problem: &'a Problem<'p>) -> Self {
        let domain = problem.domain.domain();
        let names = domain.facts().enumerate().map(|(index, text)| format!("f{index}-{}", identifier(text))).collect();
        let start = (0..domain.fact_count() as u32).map(|fact| problem.start.get(FactId(fact)));
        let mut double: Vec<bool> = start.map(|truth| matches!(truth, Truth::Open | Truth::Unknown)).collect();
        for operator in &problem.domain.operators {
            for &(fact, effect) in &operator.effects {
                double[fact.0 as usize] |= effect == Effect::Opens;
            }
        }
        Writer { problem, names, double }
    }

    fn domain(&self) -> String {
        let mut text =
            String::from("(define (domain agent)\n  (:requirements :strips :negative-preconditions :action-costs)\n");
        text.push_str("  (:predicates");
        for (name, double) in self.names.iter().zip(&self.double) {
            let _ = write!(text, "\n    ({name})");
            if *double {
                let _ = write!(text, " ({name}-f)");
            }
        }
        text.push_str(")\n  (:functions (total-cost) - number)\n");
        for action in 0..self.problem.domain.operators.len() {
            if !self.problem.excluded.contains(&action) {
                self.action(&mut text, action);
            }
        }
        for (name, _) in self.names.iter().zip(&self.double).filter(|(_, double)| **double) {
            let open = format!("({name}) ({name}-f)");
            action(&mut text, &format!("assume-{name}-true"), &open, &format!("(not ({name}-f))"), 1);
            action(&mut text, &format!("assume-{name}-false"), &open, &format!("(not ({name}))"), 1);
        }
        text.push_str(")\n");
        text
    }

    fn action(&self, text: &mut String, index: usize) {
        let operator = &self.problem.domain.operators[index];
        let declared = &self.problem.domain.domain().actions[index];
        let name = format!("a{index}-{}", identifier(&declared.name));
        let pre = self.requirements(&operator.pre);
        let assumed = operator.effects.iter().filter(|(fact, _)| self.problem.assumes_effect(index, *fact));
        let effects: Vec<String> = assumed.map(|&(fact, effect)| self.effect(fact, effect)).collect();
        let effects = effects.join(" ");
        let cost = u128::from(self.problem.amounts.units[index]) * u128::from(UNIT);
        let _ = writeln!(text, "  ; {}", declared.name.replace(['\n', '\r'], " "));
        let Some(progress) = &operator.progress else { return action(text, &name, &pre, &effects, cost) };
        let counted = progress.iter().filter(|fact| self.problem.assumes_effect(index, **fact));
        for (way, missing) in counted.flat_map(|&fact| self.not_true(fact)).enumerate() {
            action(text, &format!("{name}-way{way}"), &format!("{pre} {missing}"), &effects, cost);
        }
    }

    /// Returns the ways in which a fact can be not true.
    fn not_true(&self, fact: FactId) -> Vec<String> {
        let name = &self.names[fact.0 as usize];
        let mut ways = vec![format!("(not ({name}))")];
        if self.double[fact.0 as usize] {
            ways.push(format!("({name}-f)"));
        }
        ways
    }

    fn requirements(&self, pre: &[(FactId, bool)]) -> String {
        let texts = normal_requirements(pre).into_iter().map(|(fact, value)| self.knows(fact, value));
        texts.collect::<Vec<_>>().join(" ")
    }

    fn knows(&self, fact: FactId, value: bool) -> String {
        let name = &self.names[fact.0 as usize];
        match (self.double[fact.0 as usize], value) {
            (false, true) => format!("({name})"),
            (false, false) => format!("(not ({name}))"),
            (true, true) => format!("({name}) (not ({name}-f))"),
            (true, false) => format!("(not ({name})) ({name}-f)"),
        }
    }

    fn effect(&self, fact: FactId, effect: Effect) -> String {
        match effect {
            Effect::Makes(value) => self.knows(fact, value),
            Effect::Opens => format!("({0}) ({0}-f)", self.names[fact.0 as usize]),
        }
    }

    fn problem(&self, goal: usize) -> String {
        let goals = &self.problem.domain.domain().goals;
        let mut text = String::from("(define (problem start)\n  (:domain agent)\n  (:init (= (total-cost) 0)");
        for (index, name) in self.names.iter().enumerate() {
            let fact = FactId(index as u32);
            if self.problem.start.allows(fact, true) {
                let _ = write!(text, "\n    ({name})");
            }
            if self.double[index] && self.problem.start.allows(fact, false) {
                let _ = write!(text, "\n    ({name}-f)");
            }
        }
        let wanted = goals.get(goal).map_or(String::new(), |goal| self.requirements(&goal.pre));
        let _ = write!(text, ")\n  (:goal (and {wanted}))\n  (:metric minimize (total-cost)))\n");
        text
    }
}

fn action(text: &mut String, name: &str, pre: &str, effects: &str, cost: impl std::fmt::Display) {
    let _ = writeln!(
        text,
        "  (:action {name}\n    :parameters ()\n    :precondition (and {})\n    :effect (and {effects} (increase (total-cost) {cost})))",
        pre.trim()
    );
}

/// Returns a text as a PDDL name: what it does not allow becomes `-`.
fn identifier(text: &str) -> String {
    let name: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).take(60).collect();
    name.trim_matches('-').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::super::solve;
    use super::*;

    #[test]
    fn open_facts_progress_and_costs_are_compiled_away() {
        let json = r#"{"actions": [
            {"name": "ask", "pre": {"has(In)": true}, "effects": {"ok": null}, "cost": 0.5},
            {"name": "do", "pre": {"ok": true}, "effects": {"has(Out)": true, "ran(do)": true}, "cost": 0.25,
             "progress": ["has(Out)"]}],
            "start": {"has(In)": true}, "goals": [{"name": "g", "pre": {"has(Out)": true}}]}"#;
        let (compiled, start) = solve::read(json).and_then(|file| file.lower()).expect("a good problem");
        let text = export(&Problem::new(&compiled, start), 0);
        for expected in [
            "(f1-ok) (f1-ok-f)",
            ":effect (and (f1-ok) (f1-ok-f) (increase (total-cost) 50000))",
            "(:action a1-do-way0",
            ":precondition (and (f1-ok) (not (f1-ok-f)) (not (f2-has-out)))",
            "(increase (total-cost) 25000)",
            "(:action assume-f1-ok-true",
        ] {
            assert!(text.domain.contains(expected), "{expected}\n{}", text.domain);
        }
        assert!(text.problem.contains("(:goal (and (f2-has-out)))"), "{}", text.problem);
        for text in [&text.domain, &text.problem] {
            assert_eq!(text.matches('(').count(), text.matches(')').count());
        }
    }
}
